//! Where a request comes from: what the layers of HTTP found out and the records say.
//!
//! Purpose: a principal, how it was authenticated, and the peer, out of the extensions that rmcp carries along
//! with a request; nothing of it over standard input and output. Called by `server.rs`; filled by `http/`.

use std::sync::Arc;

use http::request::Parts;
use rmcp::model::Extensions;

use crate::audit::{Caller, Peer};

/// What one request over HTTP brings along.
#[derive(Debug)]
pub(super) struct Origin {
    /// Who was authenticated; absent: nobody had to be.
    pub(super) caller: Option<Caller>,
    /// The other end.
    pub(super) peer: Peer,
}

/// The origin of a request, if there is one, and its headers.
pub(super) struct Arrival<'r> {
    origin: Option<&'r Origin>,
    parts: Option<&'r Parts>,
}

impl<'r> Arrival<'r> {
    pub(super) fn of(extensions: &'r Extensions) -> Self {
        let parts = extensions.get::<Parts>();
        let origin = parts.and_then(|parts| parts.extensions.get::<Arc<Origin>>()).map(Arc::as_ref);
        Self { origin, parts }
    }

    pub(super) fn caller(&self) -> Option<Caller> {
        self.origin.and_then(|origin| origin.caller.clone())
    }

    pub(super) fn peer(&self) -> Peer {
        self.origin.map(|origin| origin.peer.clone()).unwrap_or_default()
    }

    /// Id of the session. Over HTTP the newer era has none.
    pub(super) fn session(&self, modern: bool, of_connection: &str) -> Option<String> {
        match self.parts {
            None => Some(of_connection.to_owned()),
            Some(_) if modern => None,
            Some(parts) => {
                parts.headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned)
            }
        }
    }
}
