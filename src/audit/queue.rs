//! The queue between callers and the writer: bounded in records and in bytes, but for ends of runs.
//!
//! Purpose: a caller never waits for room; a full queue refuses. Filled by `mod.rs` and `open_run.rs`, emptied
//! by `writer.rs`.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{AuditError, OpenRun};

/// Most records a batch.
const BATCH: usize = 512;
/// Most records that may wait, ends of runs aside: those are as many as runs.
pub(super) const MOST_JOBS: usize = 1_024;
/// Most bytes that may wait.
pub(super) const MOST_BYTES: usize = 8 << 20;

/// Where the writer's answer goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, AuditError>>;

/// What somebody waits for.
#[derive(Debug)]
pub(super) enum Reply {
    /// A start: the run itself is handed back, so that a caller that went away ends it (see
    /// [`OpenRun`]).
    Start(Box<OpenRun>, Answer<OpenRun>),
    /// A durable record of its own.
    Durable(Answer<()>),
    /// An end, and the number of its start; none when the start is not on record.
    End(Option<u64>, Option<Answer<()>>),
}

/// One record on its way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) body: String,
    pub(super) reply: Reply,
}

impl Job {
    /// Whether it is to be written. The end of a run whose start is not on record is not: it is answered here.
    pub(super) fn is_recorded(&mut self) -> bool {
        let Reply::End(None, to) = &mut self.reply else { return true };
        if let Some(to) = to.take() {
            drop(to.send(Ok(())));
        }
        false
    }

    /// Gives the record up before it was written: nothing is owed for it.
    pub(super) fn forget(self) {
        if let Reply::Start(run, _) = self.reply {
            run.refused(false);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) jobs: VecDeque<Job>,
    bytes: usize,
    /// Records handed to the writer so far.
    pub(super) taken: u64,
    closing: bool,
    /// The writer is to look around though no record came.
    nudged: bool,
    /// The file was moved on purpose.
    moved: bool,
}

/// The queue between callers and the thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    health: Mutex<Health>,
}

/// How the log is.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Why requests are refused.
    pub(super) refusing: Option<String>,
    /// What is wrong beside that.
    pub(super) complaints: Vec<String>,
    /// Fires when runs that go on are to be killed; another one after a recovery.
    pub(super) kill: CancellationToken,
}

impl Queue {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; the queue stays whole even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record in, or gives it back when the queue is full.
    pub(super) fn push(&self, job: Job) -> Result<(), Job> {
        let mut state = self.state();
        let is_end = matches!(job.reply, Reply::End(..));
        let full = state.jobs.len() >= MOST_JOBS || state.bytes + job.body.len() > MOST_BYTES;
        if full && !is_end {
            return Err(job);
        }
        state.bytes += job.body.len();
        state.jobs.push_back(job);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Records and bytes that wait.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let state = self.state();
        (state.jobs.len(), state.bytes)
    }

    /// No more records will come.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.wake.notify_one();
    }

    /// How the log is.
    pub(super) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the writer; `moved` says that the file was moved on purpose.
    pub(super) fn nudge(&self, moved: bool) {
        let mut state = self.state();
        state.nudged = true;
        state.moved |= moved;
        drop(state);
        self.wake.notify_one();
    }

    /// Whether the file was moved on purpose since the last question.
    pub(super) fn take_moved(&self) -> bool {
        std::mem::take(&mut self.state().moved)
    }

    /// The next records; none when `wait` ran out; `None` at the end.
    pub(super) fn take(&self, wait: Option<Duration>) -> Option<Vec<Job>> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        let mut state = self.state();
        while state.jobs.is_empty() {
            if state.closing {
                return None;
            }
            if std::mem::take(&mut state.nudged) {
                return Some(Vec::new());
            }
            state = match deadline {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Some(Vec::new());
                    }
                    self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let count = state.jobs.len().min(BATCH);
        let jobs: Vec<Job> = state.jobs.drain(..count).collect();
        state.taken += count as u64;
        state.bytes = state.bytes.saturating_sub(jobs.iter().map(|job| job.body.len()).sum());
        Some(jobs)
    }
}
