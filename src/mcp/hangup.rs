//! Reasons to cancel a call beside the protocol's own: the client hung up, or its session was closed.
//!
//! Purpose: rmcp cancels a call when the client says so; in a session of the older era it goes on when the
//! connection is gone, or the session is. The layers of HTTP put a token for each into the request, and here
//! they become one with rmcp's. Called by `server.rs`.

use http::request::Parts;
use rmcp::service::{RequestContext, RoleServer};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The connection that a request came over is gone.
#[derive(Debug, Clone)]
pub(super) struct HangUp(pub(super) CancellationToken);

/// The session that a request belongs to is closed.
#[derive(Debug, Clone)]
pub(super) struct Closed(pub(super) CancellationToken);

/// Makes `context.ct` fire for every reason there is, as long as what is returned is kept.
pub(super) fn link(context: &mut RequestContext<RoleServer>) -> Option<DropGuard> {
    let parts = context.extensions.get::<Parts>();
    let hung_up = parts.and_then(|parts| parts.extensions.get::<HangUp>()).map(|HangUp(token)| token.clone());
    let closed = context.extensions.get::<Closed>().map(|Closed(token)| token.clone());
    if hung_up.is_none() && closed.is_none() {
        return None;
    }
    let (all, done) = (context.ct.child_token(), CancellationToken::new());
    let (fire, over) = (all.clone(), done.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = over.cancelled() => {}
            () = fired(hung_up) => fire.cancel(),
            () = fired(closed) => fire.cancel(),
        }
    });
    context.ct = all;
    Some(done.drop_guard())
}

async fn fired(token: Option<CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}
