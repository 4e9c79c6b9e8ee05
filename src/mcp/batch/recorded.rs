//! A batch between its two records.
//!
//! Purpose: nothing of a batch is judged before its start is durable, and nothing of it is told before its end
//! is. Inputs: a checked plan and a runner. Called by `mod.rs`.

use std::sync::Arc;
use std::time::Instant;

use rmcp::model::CallToolResult;
use tokio_util::sync::CancellationToken;

use super::super::payload;
use super::super::runner::Runner;
use super::plan::Plan;
use super::result::{Batch, Status};
use super::run::{self, Shared};
use crate::audit::{BatchEnd, BatchOutcome, BatchStart, Context};

/// Runs it to its end, and says what became of it.
pub(super) async fn run<R: Runner>(
    runner: &Arc<R>,
    plan: Plan,
    shared: &Shared,
    cancel: &CancellationToken,
) -> CallToolResult {
    let begun = Instant::now();
    let context = Context { toolkit: shared.toolkit.clone(), ..shared.context.clone() };
    let record = BatchStart { id: shared.id.clone(), size: plan.items.len(), dry_run: plan.dry_run };
    if let Err(error) = runner.batch_start(&context, &record).await {
        return payload::error(format!(
            "{error}. Nothing was run: a command runs only after its start is recorded. Tell the operator of \
             this server."
        ));
    }
    let batch = run::run(runner, plan, shared, cancel).await;
    let end = BatchEnd { duration: begun.elapsed(), ..end(&batch, cancel.is_cancelled()) };
    match runner.batch_end(&context, &record, &end).await {
        Ok(()) => batch.answer(shared.told),
        Err(error) => payload::error(format!(
            "{error}. The commands ran, but the end of the batch could not be recorded, so what they printed is \
             withheld. Tell the operator of this server."
        )),
    }
}

fn end(batch: &Batch, cancelled: bool) -> BatchEnd {
    let count =
        |status: Status| batch.results.iter().filter(|(_, _, done)| done.status == status).count() as u64;
    let end = BatchEnd {
        succeeded: count(Status::Succeeded),
        failed: count(Status::Failed),
        rejected: count(Status::Rejected),
        timed_out: count(Status::TimedOut),
        cancelled: count(Status::Cancelled),
        skipped: count(Status::Skipped),
        ..BatchEnd::default()
    };
    let all = batch.results.len() as u64;
    let outcome = match () {
        () if cancelled => BatchOutcome::Cancelled,
        () if batch.spent => BatchOutcome::Timeout,
        // Verdicts are what was asked for, and there they are.
        () if batch.dry_run || end.succeeded == all => BatchOutcome::Success,
        () if end.rejected.saturating_add(end.skipped) == all => BatchOutcome::Denied,
        () => BatchOutcome::Nonzero,
    };
    BatchEnd { outcome, ..end }
}

#[cfg(test)]
mod tests {
    use super::super::result::Done;
    use super::*;

    #[test]
    fn the_end_of_a_batch_is_that_of_its_commands() {
        use Status::{Cancelled, Failed, Rejected, Skipped, Succeeded, TimedOut};
        let batch = |statuses: &[Status]| Batch {
            results: statuses.iter().map(|status| (String::new(), 1, Done::bare(*status))).collect(),
            cancel_reason: None,
            spent: false,
            clamped: false,
            dry_run: false,
        };
        for (statuses, expected) in [
            (&[Succeeded, Succeeded][..], BatchOutcome::Success),
            (&[Succeeded, Failed], BatchOutcome::Nonzero),
            (&[Rejected, Succeeded], BatchOutcome::Nonzero),
            (&[TimedOut], BatchOutcome::Nonzero),
            (&[Rejected, Skipped], BatchOutcome::Denied),
        ] {
            assert_eq!(end(&batch(statuses), false).outcome, expected, "{statuses:?}");
        }
        assert_eq!(end(&batch(&[Cancelled]), true).outcome, BatchOutcome::Cancelled);
        let spent = Batch { spent: true, ..batch(&[TimedOut, Skipped]) };
        assert_eq!(end(&spent, false).outcome, BatchOutcome::Timeout);
        let dry = Batch { dry_run: true, ..batch(&[Skipped, Rejected]) };
        let dry = end(&dry, false);
        assert_eq!((dry.outcome, dry.rejected, dry.skipped), (BatchOutcome::Success, 1, 1));
    }
}
