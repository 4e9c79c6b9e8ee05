//! A runner that runs nothing: the fixtures start no program.

use std::future::ready;

use cofferdam::appliance::{Call, Judged, LineCall, LineDenied, LineOutcome, Outcome};
use cofferdam::audit::{AuditError, BatchEnd, BatchStart, Context};
use cofferdam::mcp::{Offer, Runner};
use cofferdam::policy::{Denial, Reason, RuleKind};
use tokio_util::sync::CancellationToken;

/// Denies everything.
pub(super) struct Nothing;

fn denial() -> Denial {
    Denial::new("allow", RuleKind::Allow, Reason::CommandNotAllowed, "nothing runs here")
}

impl Runner for Nothing {
    fn offer(&self) -> Offer {
        Offer { jobs: 64, ..Offer::default() }
    }

    fn run(&self, _: Call, _: CancellationToken) -> impl Future<Output = Outcome> + Send {
        ready(Outcome::Denied(denial()))
    }

    fn run_line(&self, _: LineCall, _: CancellationToken) -> impl Future<Output = LineOutcome> + Send {
        let denied = LineDenied { denial: denial(), stage: None, name: String::new() };
        ready(LineOutcome::Denied(Box::new(denied)))
    }

    fn batch_start(
        &self,
        _: &Context,
        _: &BatchStart,
    ) -> impl Future<Output = Result<(), AuditError>> + Send {
        ready(Ok(()))
    }

    fn batch_end(
        &self,
        _: &Context,
        _: &BatchStart,
        _: &BatchEnd,
    ) -> impl Future<Output = Result<(), AuditError>> + Send {
        ready(Ok(()))
    }

    fn judge(&self, _: Call) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        ready(Ok(Judged::Denied(denial())))
    }

    fn judge_line(&self, _: LineCall) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        ready(Ok(Judged::Denied(denial())))
    }
}
