//! Answers of the layers around the protocol: a status, and a body that a JSON-RPC client can read.

use axum::body::Body;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

/// The protocol's codes of a text that is no JSON, and of JSON that is no request.
pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;

/// What is answered in place of going on.
pub(super) type Refused = Box<Response<Body>>;

/// A response with an error of JSON-RPC for whoever cannot be told by id. Where the protocol has no code, it is
/// that of HTTP, which lies outside of what JSON-RPC reserves.
pub(super) fn refusal(status: StatusCode, code: Option<i64>, message: &str) -> Response<Body> {
    let code = code.unwrap_or_else(|| i64::from(status.as_u16()));
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The same, and the connection ends: its rest is not read.
pub(super) fn last(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// 401 with what a client needs to know (RFC 6750, RFC 9728).
pub(super) fn unauthenticated(metadata: &str, sent: bool) -> Response<Body> {
    let error = if sent { ", error=\"invalid_token\"" } else { "" };
    let text = format!("Bearer realm=\"cofferdam\"{error}, resource_metadata=\"{metadata}\"");
    let message = if sent {
        "the token is not one of this server: ask its operator for another"
    } else {
        "no token: send Authorization: Bearer TOKEN"
    };
    let mut response = refusal(StatusCode::UNAUTHORIZED, None, message);
    // Made of an URL that was parsed and of fixed text: it is always a header.
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
    last(response)
}

/// 429 with the seconds to wait.
pub(super) fn later(seconds: u64, message: &str) -> Response<Body> {
    let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, None, message);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    response
}

/// 405.
pub(super) fn method() -> Response<Body> {
    let mut response = refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        None,
        "this endpoint takes POST, and GET and DELETE of sessions",
    );
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
    last(response)
}
