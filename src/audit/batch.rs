//! The records around a batch: `batch.start` before the first of its commands, `batch.end` after the last.
//!
//! Purpose: how many commands were asked for in one call and what became of them, also of those that never
//! came to a record of their own. Inputs: who asks, and counts. Called by `appliance/batch.rs`.

use std::time::Duration;

use super::body::{Body, Level, Site};
use super::record::correlation;
use super::{Audit, AuditError, Context};

/// A batch that is about to begin.
#[derive(Debug, Clone, Default)]
pub struct BatchStart {
    /// Shared by the records of all of its commands.
    pub id: String,
    /// Commands of it.
    pub size: usize,
    /// Verdicts are asked for, and nothing else.
    pub dry_run: bool,
}

/// How a batch ended as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BatchOutcome {
    /// All of its commands succeeded, or all verdicts were given.
    #[default]
    Success,
    /// At least one did not.
    Nonzero,
    /// None was started: the policy refused.
    Denied,
    /// Its time was over.
    Timeout,
    /// The caller went away, or the server is stopping.
    Cancelled,
}

/// What a batch came to: its commands by the status that the caller is told.
#[derive(Debug, Clone, Default)]
pub struct BatchEnd {
    /// As a whole.
    pub outcome: BatchOutcome,
    /// Ran and ended with 0.
    pub succeeded: u64,
    /// Ran and ended otherwise, or could not be started.
    pub failed: u64,
    /// Refused.
    pub rejected: u64,
    /// Killed at their timeouts.
    pub timed_out: u64,
    /// Killed, or not begun any more, because nobody wants the answer.
    pub cancelled: u64,
    /// Never begun.
    pub skipped: u64,
    /// Start to end.
    pub duration: Duration,
}

impl BatchOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Nonzero => "nonzero_exit",
            Self::Denied => "denied",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Audit {
    /// Records that a batch begins. Durable before it resolves: only then may the first command be judged.
    ///
    /// # Errors
    /// When the record could not be made durable: nothing of the batch may run.
    pub async fn batch_start(&self, context: &Context, batch: &BatchStart) -> Result<(), AuditError> {
        self.durable(start(&self.1, context, batch)).await
    }

    /// Records how it ended. Durable before it resolves.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn batch_end(
        &self,
        context: &Context,
        batch: &BatchStart,
        end: &BatchEnd,
    ) -> Result<(), AuditError> {
        self.durable(ended(&self.1, context, batch, end)).await
    }
}

fn common(site: &Site, level: Level, event: &str, context: &Context, batch: &BatchStart) -> Body {
    let mut found = site.found();
    let mut body = Body::new(site, level, event);
    // A member has its place in the batch; the batch has none.
    correlation(&mut body, site, &Context { batch: None, line: None, ..context.clone() }, &mut found);
    body.text("batch_id", &batch.id, 64, &mut found);
    body.integer("batch_size", batch.size as u64);
    body.text("tool", context.tool.as_deref().unwrap_or("unknown"), 128, &mut found);
    body.text_if("toolkit", context.toolkit.as_deref(), 64, &mut found);
    body.digest("policy_digest", Some(&site.origin.policy_digest));
    body.flag_if("dry_run", batch.dry_run);
    body
}

fn start(site: &Site, context: &Context, batch: &BatchStart) -> Body {
    let mut body = common(site, Level::Info, "batch.start", context, batch);
    body.message(&format!("batch of {} started", batch.size));
    body
}

fn ended(site: &Site, context: &Context, batch: &BatchStart, end: &BatchEnd) -> Body {
    let level = if end.outcome == BatchOutcome::Success { Level::Info } else { Level::Warning };
    let mut body = common(site, level, "batch.end", context, batch);
    body.plain("outcome", end.outcome.as_str());
    body.millis("duration_ms", end.duration);
    let counts = [
        ("batch_succeeded", end.succeeded),
        ("batch_failed", end.failed),
        ("batch_rejected", end.rejected),
        ("batch_timed_out", end.timed_out),
        ("batch_cancelled", end.cancelled),
        ("batch_skipped", end.skipped),
    ];
    for (name, count) in counts {
        body.integer(name, count);
    }
    body.message(&format!("batch of {} ended: {} succeeded", batch.size, end.succeeded));
    body
}
