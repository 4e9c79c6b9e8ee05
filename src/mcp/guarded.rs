//! The work of one call in a task of its own.
//!
//! Purpose: a panic in there is an answer, not a silence; when the caller goes away or the server stops, the
//! work is told, and is waited for, because what it started is killed and recorded there; its place among the
//! calls that are under way is held until the answer has been written. Called by the tools that run something.

use std::future::Future;

use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::in_flight::Asked;
use super::runner::Runner;
use super::server::Server;
use super::unwound;

impl<R: Runner> Server<R> {
    /// Runs `work` to its end. The token that it is given fires when nobody wants the answer any more.
    ///
    /// # Errors
    /// It panicked.
    pub(super) async fn guarded<T, F>(
        &self,
        tool: &str,
        context: &RequestContext<RoleServer>,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<T, ErrorData>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let cancel = self.stop.child_token();
        let caller = context.ct.clone();
        let task = tokio::spawn(async move {
            let mut work = std::pin::pin!(work(cancel.clone()));
            tokio::select! {
                done = &mut work => (done, permit),
                () = caller.cancelled() => {
                    cancel.cancel();
                    (work.await, permit)
                }
            }
        });
        let (done, permit) = task.await.map_err(|error| {
            tracing::error!(%error, tool, "a tool call ended in a panic");
            unwound::failed()
        })?;
        if let Some(asked) = context.extensions.get::<Asked>() {
            asked.hold(permit);
        }
        Ok(done)
    }
}
