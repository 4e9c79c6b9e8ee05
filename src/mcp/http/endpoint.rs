//! The endpoint: a request of somebody who is known becomes one of rmcp's service for that principal.
//!
//! Purpose: the layers that rmcp cannot do, in this order: the end of the server, authentication, rate, requests
//! at the same time, the body, the hang-up, and answers in words that a client can read. Called by `routes.rs`,
//! behind the check of Host and Origin.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use tokio_util::sync::CancellationToken;

use super::accept::Connection;
use super::auth::{self, Sent, Who};
use super::body;
use super::hub::Hub;
use super::metadata;
use super::principals::Served;
use super::refusal::{PARSE_ERROR, Refused, last, later, method, refusal, unauthenticated};
use super::watch::{Alarm, Watched};
use crate::mcp::from::Origin;
use crate::mcp::hangup::HangUp;
use crate::mcp::listen;
use crate::mcp::runner::Runner;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const RESUME: HeaderName = HeaderName::from_static("last-event-id");
/// For proxies that would hold back a stream.
const NO_BUFFER: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Most bytes of a text of rmcp's that is told in our own words.
const TOLD: usize = 4096;

/// Counted among the requests that are being answered as long as the value lives.
struct Answering<R>(Arc<Hub<R>>);

impl<R> Answering<R> {
    fn of(hub: &Arc<Hub<R>>) -> Self {
        hub.counters.answering.up();
        Self(Arc::clone(hub))
    }
}

impl<R> Drop for Answering<R> {
    fn drop(&mut self) {
        self.0.counters.answering.down();
    }
}

pub(super) async fn answer<R: Runner>(
    State(hub): State<Arc<Hub<R>>>,
    Extension(connection): Extension<Arc<Connection>>,
    mut request: Request,
) -> Response<Body> {
    let sent = auth::take(request.headers_mut());
    let who = match &sent {
        Sent::Nothing => hub.who(None, connection.certificate(), &connection.peer),
        Sent::Token(token) => hub.who(Some(token.as_slice()), connection.certificate(), &connection.peer),
        Sent::Unusable => Who::Nobody,
    };
    let caller = match who {
        Who::Known(caller) => Some(caller),
        Who::Anybody => None,
        Who::Nobody => {
            hub.counters.unauthenticated.up();
            return unauthenticated(&metadata::url(&hub.resource), !matches!(sent, Sent::Nothing));
        }
    };
    if hub.is_draining() {
        return last(refusal(StatusCode::SERVICE_UNAVAILABLE, None, "the server is stopping"));
    }
    let served = match hub.served(caller.as_ref()) {
        Ok(served) => served,
        Err(message) => return last(refusal(StatusCode::SERVICE_UNAVAILABLE, None, &message)),
    };
    hub.counters.requests.up();
    if let Err(wait) = served.rate.take(Instant::now()) {
        hub.counters.limited.up();
        let message = "too many requests a minute (principal.NAME.requests_per_minute)";
        return later(wait.as_secs_f64().ceil() as u64, message);
    }
    let Ok(permit) = Arc::clone(&served.requests).try_acquire_owned() else {
        hub.counters.limited.up();
        return later(1, "too many requests at the same time (principal.NAME.requests)");
    };
    let (busy, answering) = (connection.busy(), Answering::of(&hub));
    request.extensions_mut().insert(Arc::new(Origin { caller, peer: connection.peer.clone() }));
    // No stream can be taken up again: who hangs up has cancelled.
    request.headers_mut().remove(RESUME);
    let hung_up = CancellationToken::new();
    request.extensions_mut().insert(HangUp(hung_up.clone()));
    let counted = Arc::clone(&hub);
    let mut alarm = Alarm::new(hung_up, Box::new(move || counted.counters.hung_up.up()));
    let response = match handled(&hub, &served, request).await {
        Ok(response) => response,
        Err(refused) => {
            alarm.disarm();
            *refused
        }
    };
    let (mut parts, inner) = response.into_parts();
    if parts.headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
    {
        parts.headers.insert(NO_BUFFER, HeaderValue::from_static("no"));
        parts.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if inner.is_end_stream() {
        alarm.disarm();
    }
    Response::from_parts(parts, Body::new(Watched { inner, alarm, _held: (permit, busy, answering) }))
}

/// # Errors
/// What is refused before anything was begun.
async fn handled<R: Runner>(
    hub: &Hub<R>,
    served: &Served,
    request: Request,
) -> Result<Response<Body>, Refused> {
    let (mut parts, incoming) = request.into_parts();
    let malformed = |response: Refused| {
        hub.counters.malformed.up();
        response
    };
    let bytes = match parts.method {
        Method::POST => {
            let bytes =
                body::read(&parts.headers, incoming, hub.http.read_timeout).await.map_err(malformed)?;
            let peek = body::peek(&bytes).map_err(malformed)?;
            let opens = peek.method.as_deref() == Some("initialize") && !parts.headers.contains_key(SESSION);
            if opens && let Err(error) = served.sessions.room().await {
                hub.counters.limited.up();
                return Err(Box::new(later(10, &error.to_string())));
            }
            let listens = peek.method.as_deref() == Some(listen::METHOD) && hub.other.get().is_none();
            match listens.then(|| listen::packed(&bytes)).flatten() {
                Some(packed) => {
                    parts.extensions.insert(listen::Packed);
                    Bytes::from(packed)
                }
                None => bytes,
            }
        }
        Method::GET | Method::DELETE => Bytes::new(),
        _ => return Err(Box::new(method())),
    };
    let response = (served.handle)(Request::from_parts(parts, Full::new(bytes))).await;
    Ok(told(response).await)
}

/// rmcp's own refusals are plain text: the same in JSON, and what it could not parse as 400.
async fn told(response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let plain = response
        .headers()
        .get(CONTENT_TYPE)
        .is_none_or(|value| !value.as_bytes().starts_with(b"application/json"));
    if !(status.is_client_error() || status.is_server_error()) || !plain {
        return response;
    }
    let (parts, inner) = response.into_parts();
    let text = match http_body_util::Limited::new(inner, TOLD).collect().await {
        Ok(collected) => String::from_utf8_lossy(&collected.to_bytes()).into_owned(),
        Err(_) => "the request was refused".to_owned(),
    };
    let (status, code, text) = match status {
        // The type of the body was looked at before: what is left is a message that is none.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (
            StatusCode::BAD_REQUEST,
            Some(super::refusal::INVALID_REQUEST),
            "the body is no message of MCP".to_owned(),
        ),
        StatusCode::INTERNAL_SERVER_ERROR => {
            tracing::error!(error = %text, "a request failed inside of the server");
            (status, Some(-32603), "the request failed inside of the server; its log says more".to_owned())
        }
        StatusCode::BAD_REQUEST if text.is_empty() => (status, Some(PARSE_ERROR), "bad request".to_owned()),
        _ => (status, None, text),
    };
    let mut response = refusal(status, code, &text);
    for (name, value) in &parts.headers {
        if name != CONTENT_TYPE && name != http::header::CONTENT_LENGTH {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}
