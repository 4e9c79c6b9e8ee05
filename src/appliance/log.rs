//! The audit log as whoever holds an appliance sees it: its state, and what its failure means for what runs.
//!
//! Called by `appliance.rs`, `cli/serve.rs` and whoever answers a health check.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use super::Appliance;
use crate::audit::AuditState;

impl Appliance {
    /// The work, with `cancel` fired when the audit log fails and the policy says that what runs is killed then.
    pub(super) async fn tied<T>(&self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        let kill = self.audit.kill();
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = kill.cancelled() => cancel.cancel(),
        }
        work.await
    }

    /// Goes on in the audit file that stands at the path now: whoever moved the log away sends SIGHUP for it.
    pub fn reopen_audit(&self) {
        self.audit.reopen();
    }

    /// How the audit log is: a server that refuses for want of it is not ready.
    #[must_use]
    pub fn audit_state(&self) -> AuditState {
        self.audit.state()
    }
}
