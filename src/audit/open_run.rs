//! A run that has a start record and no end yet.
//!
//! Purpose: exactly one terminal record by construction. The value is made by a durable start only,
//! cannot be copied, and is consumed by the end. Whoever drops it instead (a cancelled request, a
//! panic) writes the end all the same: `lost`, with a code that says why. Made by `mod.rs`, handed out by `writer.rs`.

use std::sync::Arc;

use super::body::Site;
use super::facts::{Ending, RunEnd};
use super::queue::{Job, Queue, Reply};
use super::record::{self, Shared};

/// A started run that owes its end; see [`Audit::run_end`](super::Audit::run_end).
#[must_use = "a started run owes a terminal record: hand it to Audit::run_end"]
#[derive(Debug)]
pub struct OpenRun {
    owed: Option<Owed>,
    run_id: String,
}

#[derive(Debug)]
struct Owed {
    // Not an `Audit`: the last of those waits for the writer, which may hold this value.
    queue: Arc<Queue>,
    site: Arc<Site>,
    shared: Shared,
    /// Number of the start record; none when it is not on record.
    start: Option<u64>,
}

impl Owed {
    fn end(&self, facts: &RunEnd) {
        let body = record::run_end(&self.site, &self.shared, facts);
        let job = Job { body: body.as_str().to_owned(), reply: Reply::End(self.start, None) };
        // The queue takes ends however full it is.
        if self.queue.push(job).is_err() {
            tracing::error!(run_id = self.shared.run_id, "audit: the end of a run was not queued");
        }
    }
}

impl OpenRun {
    pub(super) fn new(queue: Arc<Queue>, site: Arc<Site>, shared: Shared) -> Self {
        let run_id = shared.run_id.clone();
        Self { owed: Some(Owed { queue, site, shared, start: Some(0) }), run_id }
    }

    /// Id shared by the two records of the run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(super) fn stands_at(&mut self, seq: u64) {
        if let Some(owed) = &mut self.owed {
            owed.start = Some(seq);
        }
    }

    /// The run goes on though its start is not on record (`on_failure = "continue"`): neither is its end.
    pub(super) fn unrecorded(&mut self) {
        if let Some(owed) = &mut self.owed {
            owed.start = None;
        }
    }

    /// Takes out what the end repeats: from here on nothing is owed by this value.
    pub(super) fn close(mut self) -> Option<(Shared, Option<u64>)> {
        self.owed.take().map(|owed| (owed.shared, owed.start))
    }

    /// The start was refused. Where its record stands in the log all the same, it gets its end.
    pub(super) fn refused(mut self, stands: bool) {
        let Some(owed) = self.owed.take() else { return };
        if stands {
            let facts = RunEnd {
                ending: Ending::SpawnError,
                error_code: Some("audit_unavailable".to_owned()),
                error_text: Some("the start record was not durable, so nothing was started".to_owned()),
                ..RunEnd::default()
            };
            owed.end(&facts);
        }
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        if let Some(owed) = self.owed.take() {
            let facts = RunEnd {
                ending: Ending::Lost,
                error_code: Some("run_abandoned".to_owned()),
                error_text: Some("the run was given up before its end was recorded".to_owned()),
                ..RunEnd::default()
            };
            owed.end(&facts);
        }
    }
}
