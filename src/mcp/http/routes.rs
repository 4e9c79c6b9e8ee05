//! Paths, and what comes before each of them.
//!
//! Routes without authentication are added to [`router`], those of a separate address get a router of their own.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::routing::{any, get};
use http::{Response, StatusCode};

use super::hub::{ENDPOINT, Hub};
use super::origin::Foreign;
use super::refusal::{INVALID_REQUEST, last, refusal};
use super::{endpoint, metadata};
use crate::mcp::runner::Runner;

pub(super) fn router<R: Runner>(hub: &Arc<Hub<R>>) -> Router {
    let nowhere = || async { last(refusal(StatusCode::NOT_FOUND, None, "the endpoint is /mcp")) };
    Router::new()
        .route(ENDPOINT, any(endpoint::answer::<R>))
        .route(metadata::WELL_KNOWN, get(metadata::show::<R>))
        .route(&format!("{}{ENDPOINT}", metadata::WELL_KNOWN), get(metadata::show::<R>))
        .fallback(nowhere)
        .with_state(Arc::clone(hub))
        .layer(middleware::from_fn_with_state(Arc::clone(hub), meant_for_us::<R>))
}

/// Host and Origin, before anything else is looked at.
async fn meant_for_us<R: Runner>(
    State(hub): State<Arc<Hub<R>>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let foreign = match hub.allowed.check(request.uri(), request.headers()) {
        Ok(()) => return next.run(request).await,
        Err(foreign) => foreign,
    };
    hub.counters.foreign.up();
    last(match foreign {
        Foreign::Malformed => {
            let message = "exactly one Host header with a name is needed";
            refusal(StatusCode::BAD_REQUEST, Some(INVALID_REQUEST), message)
        }
        Foreign::Host => {
            let message = "this Host is not one of the server (server.http.hosts)";
            refusal(StatusCode::FORBIDDEN, None, message)
        }
        Foreign::Origin => {
            let message = "this Origin may not call the server (server.http.origins)";
            refusal(StatusCode::FORBIDDEN, None, message)
        }
    })
}
