//! Our tools in somebody else's server: what a foreign `ServerHandler` calls.
//!
//! Purpose: the six tools of each prefix, listed and called, and nothing of the protocol around them: the host
//! owns transport, session and its own tools. Inputs: an [`Appliance`](crate::appliance::Appliance), and the
//! requests that the host hands on. Called by programs that embed the library.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorData, SetLevelRequestParams, Tool};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, model::MetaObject};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::runner::Runner;
use super::server::{SERVER_INFO, Server};
use super::stdio::{GRACE, OVER};
use super::words;
use crate::appliance::Appliance;

/// How the host's clients are connected: the field `transport` of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Standard input and output.
    Stdio,
    /// HTTP.
    Http,
    /// A Unix socket.
    Unix,
}

impl Transport {
    /// The word of the records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Unix => "unix",
        }
    }
}

/// The tools of one connection. Jobs belong to it and end with it: make one for each connection, over the one
/// appliance.
///
/// A job is told of by `notifications/message` only after the host has handed on the level that its client asked
/// for ([`Self::set_level`]); a host without the `logging` capability need not care.
pub struct Toolbox<R: Runner = Appliance> {
    server: Server<R>,
    places: Arc<Semaphore>,
    most: usize,
    stop: CancellationToken,
}

impl<R: Runner> Toolbox<R> {
    /// The tools of all prefixes of the policy. Call it inside of the runtime.
    #[must_use]
    pub fn new(runner: Arc<R>, transport: Transport) -> Self {
        let most = runner.offer().jobs.saturating_add(OVER);
        let (places, stop) = (Arc::new(Semaphore::new(most)), CancellationToken::new());
        let server = Server::new(runner, transport.as_str(), Arc::clone(&places), stop.clone());
        server.level.silence();
        Self { server, places, most, stop }
    }

    /// Definitions of the tools, sorted by name; the same each time. Put them beside the host's own: a name is
    /// `PREFIX_run`, `_start`, `_poll`, `_output`, `_kill` or `_allowed`.
    #[must_use]
    pub fn list(&self) -> Vec<Tool> {
        self.server.view().tools.iter().map(|entry| entry.tool.clone()).collect()
    }

    /// Whether a tool of this name is one of ours.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.server.get_tool(name).is_some()
    }

    /// What the tools may run, under which limits, and what is not promised: for the host's `instructions`.
    #[must_use]
    pub fn instructions(&self) -> String {
        words::instructions(&self.server.view().offer)
    }

    /// Answers one call: judged, recorded durably, confined, recorded again. When the request is cancelled
    /// (`context.ct`), the command is killed with all of its descendants. A refusal is a result with
    /// `isError: true`, no error.
    ///
    /// # Errors
    /// An unknown tool, parameters of the wrong shape, and a fault inside of the server.
    pub async fn call(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut response = self.server.call_tool(params, context).await?;
        // The server that the client talks to is the host.
        if let CallToolResponse::Complete(result) = &mut response
            && let Some(meta) = &mut result.meta
        {
            meta.remove(SERVER_INFO);
            if *meta == MetaObject::default() {
                result.meta = None;
            }
        }
        Ok(response)
    }

    /// Takes over the client's log level (`logging/setLevel`) for what is told of jobs.
    pub fn set_level(&self, asked: &SetLevelRequestParams) {
        self.server.level.set(asked);
    }

    /// Kills what still runs and waits until all of it is recorded, a few seconds at most; whether it was. Call
    /// it when the connection is over. Dropping the value kills as well, and waits for nothing.
    pub async fn end(&self) -> bool {
        self.stop.cancel();
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        tokio::time::timeout(GRACE, self.places.acquire_many(all)).await.is_ok()
    }
}

impl<R: Runner> Drop for Toolbox<R> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<R: Runner> std::fmt::Debug for Toolbox<R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Toolbox").field("offer", &self.server.view().offer).finish_non_exhaustive()
    }
}
