//! Protected resource metadata (RFC 9728): what a client may know before it has a token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use serde_json::json;

use super::hub::Hub;
use crate::mcp::runner::Runner;

/// Where it is found; the endpoint's own path may follow.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// URL of the metadata of a resource: the well-known part goes between host and path.
pub(super) fn url(resource: &str) -> String {
    let after = resource.find("://").map_or(0, |at| at + 3);
    let path = resource.get(after..).and_then(|rest| rest.find('/')).map_or(resource.len(), |at| after + at);
    let (origin, path) = resource.split_at_checked(path).unwrap_or((resource, ""));
    format!("{origin}{WELL_KNOWN}{path}")
}

pub(super) async fn show<R: Runner>(State(hub): State<Arc<Hub<R>>>) -> Response<Body> {
    let mut metadata = json!({
        "resource": hub.resource,
        "bearer_methods_supported": ["header"],
        "resource_name": "cofferdam",
    });
    if let Some(object) = metadata.as_object_mut().filter(|_| !hub.http.authorization_servers.is_empty()) {
        object.insert("authorization_servers".to_owned(), json!(hub.http.authorization_servers));
    }
    let mut response = Response::new(Body::from(metadata.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_well_known_part_stands_between_host_and_path() {
        let well = "/.well-known/oauth-protected-resource";
        assert_eq!(super::url("http://127.0.0.1:1/mcp"), format!("http://127.0.0.1:1{well}/mcp"));
        assert_eq!(super::url("https://mcp.example"), format!("https://mcp.example{well}"));
    }
}
