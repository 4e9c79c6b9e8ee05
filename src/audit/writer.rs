//! The writer: one thread that chains, writes and syncs; everybody else waits for its word.
//!
//! Purpose: group commit. It drains what has queued up (at most [`BATCH`] records), makes one
//! `write(2)` and, if anyone asked for durability, one `fdatasync`, then answers all. When the
//! required sink fails it refuses, and comes back by itself: the next request is preceded by a probe,
//! an `audit.gap` record. Ends of runs wait in memory meanwhile. Called by `mod.rs`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::body::Site;
use super::chain::{Head, MAX_LINE};
use super::copies::Copies;
use super::record;
use super::recover;
use super::store::Medium;
use super::{AuditError, OpenRun};

/// Most records a write.
const BATCH: usize = 512;
/// Most records that may wait, ends of runs aside: those are as many as runs.
const MOST_JOBS: usize = 1_024;
/// Most bytes that may wait.
const MOST_BYTES: usize = 8 << 20;
/// An end of a run is durable after this at the latest.
const SYNC_AFTER: Duration = Duration::from_millis(50);
/// How often ends that wait for the sink are tried.
const RETRY_AFTER: Duration = Duration::from_millis(250);

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
    /// An end, and the offset of its start.
    End(u64, Option<Answer<()>>),
}

/// One record on its way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) body: String,
    pub(super) reply: Reply,
}

impl Job {
    /// Gives the record up before it was written: nothing is owed for it.
    pub(super) fn forget(self) {
        if let Reply::Start(run, _) = self.reply {
            run.refused(false);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    /// Records handed to the writer so far.
    taken: u64,
    closing: bool,
}

/// The queue between callers and the thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    refusing: AtomicBool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
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

    /// No more records will come.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.wake.notify_one();
    }

    /// Records and bytes that wait.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let state = self.state();
        (state.jobs.len(), state.bytes)
    }

    /// Whether the required sink failed last.
    pub(super) fn is_refusing(&self) -> bool {
        self.refusing.load(Ordering::Relaxed)
    }

    /// The next records; none when `wait` ran out; `None` at the end.
    fn take(&self, wait: Option<Duration>) -> Option<Vec<Job>> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        let mut state = self.state();
        while state.jobs.is_empty() {
            if state.closing {
                return None;
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

/// Since when and how often requests are refused.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    refused: u64,
    why: String,
}

/// The thread's own state.
pub(super) struct Writer {
    queue: Arc<Queue>,
    medium: Box<dyn Medium>,
    copies: Option<Copies>,
    site: Arc<Site>,
    head: Option<Head>,
    new_chain: bool,
    trouble: Option<Trouble>,
    waiting: Vec<Job>,
    unsynced: bool,
    open: BTreeSet<u64>,
}

/// How a write went.
struct Attempt {
    /// How many of the records stand in the medium, whole.
    written: usize,
    /// Offsets of them.
    offsets: Vec<u64>,
    /// Where the medium ends.
    end: u64,
    error: Option<AuditError>,
}

impl Writer {
    pub(super) fn new(
        queue: Arc<Queue>,
        medium: Box<dyn Medium>,
        copies: Option<Copies>,
        site: Arc<Site>,
    ) -> Self {
        Self {
            queue,
            medium,
            copies,
            site,
            head: None,
            new_chain: false,
            trouble: None,
            waiting: Vec::new(),
            unsynced: false,
            open: BTreeSet::new(),
        }
    }

    /// Looks at the medium and records what a crash left behind; says whether the chain is new.
    pub(super) fn recover(&mut self) -> Result<bool, AuditError> {
        match self.attempt(&[], false).error {
            None => Ok(self.new_chain),
            Some(error) => Err(error),
        }
    }

    /// The thread.
    pub(super) fn run(mut self) {
        loop {
            let wait = match (self.unsynced, self.waiting.is_empty()) {
                (true, _) => Some(SYNC_AFTER),
                (false, false) => Some(RETRY_AFTER),
                (false, true) => None,
            };
            match self.queue.take(wait) {
                Some(jobs) if jobs.is_empty() && self.trouble.is_none() => self.flush(),
                Some(jobs) => self.commit(jobs),
                None => break,
            }
        }
        if !self.waiting.is_empty() {
            self.commit(Vec::new());
        }
        self.flush();
        let clean = self.open.is_empty() && self.waiting.is_empty() && self.trouble.is_none();
        self.medium.close(clean);
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.unsynced)
            && let Err(error) = self.medium.sync()
        {
            self.note_trouble(&error);
        }
    }

    pub(super) fn commit(&mut self, new: Vec<Job>) {
        let mut jobs = std::mem::take(&mut self.waiting);
        jobs.extend(new);
        if let Some(trouble) = &self.trouble {
            let gap = record::gap(&self.site, trouble.since.elapsed(), trouble.refused, &trouble.why);
            let probe = match self.medium.reopen() {
                Ok(()) => self.attempt(&[gap.as_str()], true).error,
                Err(error) => Some(error),
            };
            if let Some(error) = probe {
                return self.refuse(jobs, 0, &error);
            }
            self.trouble = None;
            self.queue.refusing.store(false, Ordering::Relaxed);
        }
        if jobs.is_empty() {
            return;
        }
        let durable = jobs.iter().any(|job| !matches!(job.reply, Reply::End(..)));
        let bodies: Vec<&str> = jobs.iter().map(|job| job.body.as_str()).collect();
        let attempt = self.attempt(&bodies, durable);
        match attempt.error {
            None => self.acknowledge(jobs, &attempt),
            Some(error) => self.refuse(jobs, attempt.written, &error),
        }
    }

    fn acknowledge(&mut self, jobs: Vec<Job>, attempt: &Attempt) {
        for (job, offset) in jobs.into_iter().zip(&attempt.offsets) {
            match job.reply {
                Reply::Start(mut run, to) => {
                    run.stands_at(*offset);
                    self.open.insert(*offset);
                    // A caller that is gone gives the run back, and dropping it queues its end.
                    drop(to.send(Ok(*run)));
                }
                Reply::Durable(to) => drop(to.send(Ok(()))),
                Reply::End(start, to) => {
                    self.open.remove(&start);
                    if let Some(to) = to {
                        drop(to.send(Ok(())));
                    }
                }
            }
        }
        self.medium.keep_from(self.open.first().copied().unwrap_or(attempt.end));
    }

    /// Answers a failure. The first `written` records stand in the medium all the same: a start among
    /// them gets its end, an end among them is not written twice.
    fn refuse(&mut self, jobs: Vec<Job>, written: usize, error: &AuditError) {
        self.note_trouble(error);
        let mut refused = 0;
        for (position, mut job) in jobs.into_iter().enumerate() {
            let stands = position < written;
            match &mut job.reply {
                Reply::Start(..) | Reply::Durable(_) => {
                    refused += 1;
                    match job.reply {
                        Reply::Start(run, to) => {
                            run.refused(stands);
                            drop(to.send(Err(error.again())));
                        }
                        Reply::Durable(to) => drop(to.send(Err(error.again()))),
                        Reply::End(..) => {}
                    }
                }
                Reply::End(start, to) => {
                    let answer = if stands { Ok(()) } else { Err(error.again()) };
                    if let Some(to) = to.take() {
                        drop(to.send(answer));
                    }
                    if stands {
                        self.open.remove(start);
                    } else {
                        self.waiting.push(job);
                    }
                }
            }
        }
        if let Some(trouble) = &mut self.trouble {
            trouble.refused += refused;
        }
    }

    fn note_trouble(&mut self, error: &AuditError) {
        let trouble = || Trouble { since: Instant::now(), refused: 0, why: error.to_string() };
        if self.trouble.is_none() {
            tracing::error!(%error, "audit: refusing runs until the sink takes records again");
        }
        self.trouble.get_or_insert_with(trouble);
        self.queue.refusing.store(true, Ordering::Relaxed);
    }

    /// Chains and writes records behind whatever the state of the medium asks for first.
    fn attempt(&mut self, bodies: &[&str], durable: bool) -> Attempt {
        let mut attempt =
            Attempt { written: 0, offsets: Vec::with_capacity(bodies.len()), end: 0, error: None };
        let tail = match self.medium.begin(self.head) {
            Ok(tail) => tail,
            Err(error) => {
                attempt.error = Some(error);
                return attempt;
            }
        };
        let known = tail.head.or(self.head);
        self.new_chain = known.is_none();
        let mut head = known.unwrap_or_else(Head::new);
        let mut out = Vec::with_capacity(bodies.iter().map(|body| body.len() + 300).sum());
        if tail.open {
            out.push(b'\n');
        }
        if tail.junk > 0 || !tail.lost.is_empty() {
            head.seal(record::recover(&self.site, tail.junk, tail.lost.len() as u64).as_str(), &mut out);
        }
        for start in &tail.lost {
            head.seal(recover::lost_end(&self.site, start).as_str(), &mut out);
        }
        if let Some(why) = tail.gap {
            head.seal(record::gap(&self.site, Duration::ZERO, 0, why).as_str(), &mut out);
        }
        let durable = durable || !out.is_empty();
        let mut marks: Vec<(usize, Head)> = Vec::with_capacity(bodies.len());
        for body in bodies {
            let from = out.len();
            attempt.offsets.push(tail.at + from as u64);
            head.seal(body, &mut out);
            // Cannot happen (record.rs budgets every field); a longer line would be cut downstream.
            debug_assert!(out.len() - from <= MAX_LINE, "a record of {} bytes", out.len() - from);
            marks.push((out.len(), head));
        }
        attempt.end = tail.at + out.len() as u64;
        let taken = if out.is_empty() { Ok(0) } else { self.medium.append(&out) };
        let whole = matches!(taken, Ok(count) if count == out.len());
        self.medium.finish(whole);
        let count = match taken {
            Ok(count) => count,
            Err(error) => {
                attempt.error = Some(error);
                return attempt;
            }
        };
        attempt.written = marks.iter().take_while(|(end, _)| *end <= count).count();
        if whole {
            // A chain that has no record yet has no id either.
            self.head = (!self.new_chain || !out.is_empty()).then_some(head);
        } else if let Some((_, last)) = attempt.written.checked_sub(1).and_then(|last| marks.get(last)) {
            self.head = Some(*last);
        }
        if !whole {
            attempt.error = Some(self.short(count, out.len()));
        } else if durable {
            self.unsynced = false;
            attempt.error = self.medium.sync().err();
        } else {
            self.unsynced |= !out.is_empty();
        }
        if let Some(copies) = &mut self.copies {
            copies.send(out, count);
        }
        attempt
    }

    fn short(&self, count: usize, of: usize) -> AuditError {
        let source = std::io::Error::new(
            std::io::ErrorKind::WriteZero,
            format!("only {count} of {of} bytes were taken; is the file system full?"),
        );
        AuditError { operation: "write", sink: self.medium.name(), source }
    }
}

#[cfg(test)]
mod tests;
