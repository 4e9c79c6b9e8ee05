//! The seam between protocol and appliance, so that protocol behaviour is tested with no launcher.

use std::future::Future;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Offer;
use crate::appliance::{Appliance, Call, Judged, LineCall, LineOutcome, Outcome};
use crate::audit::{AuditError, BatchEnd, BatchStart, Context};

/// Something that judges and runs commands: the appliance, or a stand-in for tests.
pub trait Runner: Send + Sync + 'static {
    /// What clients are told about: prefixes, names, limits.
    fn offer(&self) -> Offer;

    /// Tells whenever [`Runner::offer`] may answer something else; absent: it never does.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Judges and runs one command. When `cancel` fires, its whole tree is killed.
    fn run(&self, call: Call, cancel: CancellationToken) -> impl Future<Output = Outcome> + Send;

    /// The same for a line of shell syntax.
    fn run_line(&self, call: LineCall, cancel: CancellationToken)
    -> impl Future<Output = LineOutcome> + Send;

    /// Judges one command, runs nothing, and records the verdict as that of a dry run.
    fn judge(&self, call: Call) -> impl Future<Output = Result<Judged, AuditError>> + Send;

    /// The same for a line.
    fn judge_line(&self, call: LineCall) -> impl Future<Output = Result<Judged, AuditError>> + Send;

    /// Records that a batch begins: on an error nothing of it is run.
    fn batch_start(
        &self,
        context: &Context,
        batch: &BatchStart,
    ) -> impl Future<Output = Result<(), AuditError>> + Send;

    /// Records how it ended: on an error nothing that it printed is told.
    fn batch_end(
        &self,
        context: &Context,
        batch: &BatchStart,
        end: &BatchEnd,
    ) -> impl Future<Output = Result<(), AuditError>> + Send;
}

impl Runner for Appliance {
    fn offer(&self) -> Offer {
        Offer::of(self.config())
    }

    fn run(&self, call: Call, cancel: CancellationToken) -> impl Future<Output = Outcome> + Send {
        Appliance::run(self, call, cancel)
    }

    fn run_line(
        &self,
        call: LineCall,
        cancel: CancellationToken,
    ) -> impl Future<Output = LineOutcome> + Send {
        Appliance::run_line(self, call, cancel)
    }

    fn judge(&self, call: Call) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        Appliance::judge_only(self, call)
    }

    fn judge_line(&self, call: LineCall) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        Appliance::judge_line_only(self, call)
    }

    fn batch_start(
        &self,
        context: &Context,
        batch: &BatchStart,
    ) -> impl Future<Output = Result<(), AuditError>> + Send {
        Appliance::batch_start(self, context, batch)
    }

    fn batch_end(
        &self,
        context: &Context,
        batch: &BatchStart,
        end: &BatchEnd,
    ) -> impl Future<Output = Result<(), AuditError>> + Send {
        Appliance::batch_end(self, context, batch, end)
    }
}
