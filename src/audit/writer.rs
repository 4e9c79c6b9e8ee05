//! The writer: one thread that chains, writes and syncs; everybody else waits for its word.
//!
//! Purpose: group commit. It drains what has queued up (at most 512 records), makes one
//! `write(2)` and, if anyone asked for durability, one `fdatasync`, then answers all. When the
//! required sink fails it refuses, and comes back by itself: the next request is preceded by a probe,
//! an `audit.gap` record. Ends of runs are given the reserve, or wait in memory meanwhile. What a failure
//! means beyond that is the policy's word (`on_failure`). Called by `mod.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::AuditError;
use super::body::{Body, Site};
use super::chain::{Head, MAX_LINE};
use super::checkpoint::Checkpoints;
use super::itself;
use super::medium::Medium;
use super::queue::{Job, Queue, Reply};
use super::recover;
use super::sinks::Copies;
use crate::config::{OnFailure, SyncPolicy};
use crate::fault;

/// An end of a run is durable after this at the latest.
const SYNC_AFTER: Duration = Duration::from_millis(50);
/// How often ends that wait for the sink are tried.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Since when and how often requests are refused.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    refused: u64,
    /// Records that were not written, and what they stood for was done.
    unrecorded: u64,
    why: String,
}

/// What the policy says of the writer's work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conduct {
    pub(super) on_failure: OnFailure,
    pub(super) sync: SyncPolicy,
}

/// EX_IOERR of sysexits.h: the status of a server that ends for want of its audit log.
const EXIT: i32 = 74;

/// The thread's own state.
pub(super) struct Writer {
    queue: Arc<Queue>,
    medium: Box<dyn Medium>,
    copies: Copies,
    site: Arc<Site>,
    conduct: Conduct,
    head: Option<Head>,
    new_chain: bool,
    trouble: Option<Trouble>,
    waiting: Vec<Job>,
    unsynced: bool,
    open: BTreeSet<u64>,
    /// Why there is no rotation.
    stuck: Option<String>,
    checkpoints: Checkpoints,
    /// The next write is the last one of this file: a checkpoint ends it.
    closing: bool,
}

/// How a write went.
#[derive(Default)]
struct Attempt {
    /// How many of the records stand in the medium, whole.
    written: usize,
    /// Numbers of them.
    seqs: Vec<u64>,
    /// Number of the next record.
    next: u64,
    error: Option<AuditError>,
}

impl Writer {
    pub(super) fn new(
        queue: Arc<Queue>,
        medium: Box<dyn Medium>,
        copies: Copies,
        site: Arc<Site>,
        conduct: Conduct,
    ) -> Self {
        let checkpoints = Checkpoints::new(site.checkpoints.clone());
        Self {
            queue,
            medium,
            copies,
            site,
            conduct,
            head: None,
            new_chain: false,
            trouble: None,
            waiting: Vec::new(),
            unsynced: false,
            open: BTreeSet::new(),
            stuck: None,
            checkpoints,
            closing: false,
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
                (false, true) => self.checkpoints.wait(),
            };
            let Some(jobs) = self.queue.take(wait) else { break };
            if self.queue.take_moved() {
                self.medium.expect_moved();
                self.adopt();
            }
            if jobs.is_empty() && self.trouble.is_none() {
                self.flush();
                self.checkpoint(false);
            } else {
                self.commit(jobs);
            }
            self.report(false);
        }
        if !self.waiting.is_empty() {
            self.commit(Vec::new());
        }
        self.copies.close();
        self.report(true);
        self.flush();
        self.checkpoint(true);
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

    /// Goes on in the file that stands at the path now.
    fn adopt(&mut self) {
        if self.trouble.is_none()
            && let Some(error) = self.attempt(&[], false).error
        {
            self.note_trouble(&error);
        }
    }

    /// Records what best-effort sinks dropped, and keeps the health up to date.
    fn report(&mut self, all: bool) {
        let mut complaints: Vec<String> = Vec::new();
        for (state, down) in self.copies.states() {
            if down {
                complaints.push(state);
            }
        }
        complaints.extend(self.stuck.clone());
        if self.trouble.is_none() {
            match self.medium.room() {
                Ok(true) => {}
                Ok(false) => complaints.push("space:low".to_owned()),
                // The next request is refused for it; until then it is a complaint.
                Err(error) => complaints.push(error.to_string()),
            }
            let drops: Vec<Body> =
                self.copies.drops(all).iter().map(|drops| itself::dropped(&self.site, drops)).collect();
            let bodies: Vec<&str> = drops.iter().map(Body::as_str).collect();
            if !bodies.is_empty()
                && let Some(error) = self.attempt(&bodies, false).error
            {
                self.note_trouble(&error);
            }
        }
        let mut health = self.queue.health();
        for new in complaints.iter().filter(|one| !health.complaints.contains(one)) {
            tracing::warn!("audit: degraded: {new}");
        }
        health.complaints = complaints;
    }

    pub(super) fn commit(&mut self, new: Vec<Job>) {
        let mut jobs = std::mem::take(&mut self.waiting);
        jobs.extend(new);
        jobs.retain_mut(Job::is_recorded);
        if self.trouble.is_some() {
            if let Err(error) = self.probe() {
                return self.refuse(jobs, &[], &error);
            }
            self.recovered();
        } else if !jobs.is_empty() {
            if let Err(error) = self.medium.room() {
                return self.refuse(jobs, &[], &error);
            }
            if let Err(error) = self.rotate() {
                return self.refuse(jobs, &[], &error);
            }
        }
        if jobs.is_empty() {
            return;
        }
        let is_end = |job: &Job| matches!(job.reply, Reply::End(..));
        let durable = self.conduct.sync == SyncPolicy::Strict && !jobs.iter().all(is_end);
        let bodies: Vec<&str> = jobs.iter().map(|job| job.body.as_str()).collect();
        let attempt = self.attempt(&bodies, durable);
        match attempt.error {
            None => self.acknowledge(jobs, &attempt),
            Some(error) => {
                self.refuse(jobs, attempt.seqs.get(..attempt.written).unwrap_or(&[]), &error);
            }
        }
    }

    /// Whether records are taken again: the reserve is made anew, there is room, and a first record, which
    /// tells of the gap, is durable.
    fn probe(&mut self) -> Result<(), AuditError> {
        self.medium.reopen()?;
        self.medium.restore()?;
        self.medium.room()?;
        self.rotate()?;
        let Some(trouble) = &self.trouble else { return Ok(()) };
        let refused = (trouble.refused, trouble.unrecorded);
        let gap = itself::gap(&self.site, trouble.since.elapsed(), refused, &trouble.why);
        self.attempt(&[gap.as_str()], true).error.map_or(Ok(()), Err)
    }

    fn recovered(&mut self) {
        self.trouble = None;
        let mut health = self.queue.health();
        health.refusing = None;
        if health.kill.is_cancelled() {
            health.kill = tokio_util::sync::CancellationToken::new();
        }
        tracing::warn!("audit: the sink takes records again");
    }

    /// Goes on in a new file where it is time to. A rotation that cannot be done is said; only a file that
    /// must not be written to any more is an error.
    fn rotate(&mut self) -> Result<(), AuditError> {
        if !self.medium.due() {
            return Ok(());
        }
        self.checkpoint(true);
        let site = Arc::clone(&self.site);
        let mut first = |mut head: Head, aside: &super::medium::Aside| {
            let mut out = Vec::new();
            head.seal(itself::rotate(&site, aside).as_str(), &mut out);
            (out, head)
        };
        match self.medium.rotate(self.head, &mut first) {
            Ok(None) => Ok(()),
            Ok(Some((bytes, head))) => {
                self.head = Some(head);
                self.unsynced = false;
                self.stuck = None;
                self.copies.send(&bytes, bytes.len());
                Ok(())
            }
            // Still due: the file itself is of no use any more.
            Err(error) if self.medium.due() => Err(error),
            Err(error) => {
                self.stuck = Some(error.to_string());
                Ok(())
            }
        }
    }

    fn acknowledge(&mut self, jobs: Vec<Job>, attempt: &Attempt) {
        fault::point("audit:acknowledge");
        for (job, seq) in jobs.into_iter().zip(&attempt.seqs) {
            match job.reply {
                Reply::Start(mut run, to) => {
                    run.stands_at(*seq);
                    self.open.insert(*seq);
                    // A caller that is gone gives the run back, and dropping it queues its end.
                    drop(to.send(Ok(*run)));
                }
                Reply::Durable(to) => drop(to.send(Ok(()))),
                Reply::End(start, to) => {
                    self.ended(start);
                    if let Some(to) = to {
                        drop(to.send(Ok(())));
                    }
                }
            }
        }
        self.medium.keep(&self.open, attempt.next);
    }

    fn ended(&mut self, start: Option<u64>) {
        if let Some(start) = start {
            self.open.remove(&start);
        }
    }

    /// Chains and writes records behind whatever the state of the medium asks for first.
    fn attempt(&mut self, bodies: &[&str], durable: bool) -> Attempt {
        let mut attempt = Attempt::default();
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
            head.seal(itself::recover(&self.site, tail.junk, tail.lost.len() as u64).as_str(), &mut out);
        }
        for start in &tail.lost {
            head.seal(recover::lost_end(&self.site, start).as_str(), &mut out);
        }
        if let Some(why) = tail.gap {
            head.seal(itself::gap(&self.site, Duration::ZERO, (0, 0), why).as_str(), &mut out);
        }
        if let Some(file) = tail.moved {
            let aside = super::medium::Aside { file, records: 0 };
            head.seal(itself::rotate(&self.site, &aside).as_str(), &mut out);
        }
        let durable = durable || !out.is_empty();
        let mut marks: Vec<(usize, Head)> = Vec::with_capacity(bodies.len());
        for body in bodies {
            let from = out.len();
            head.seal(body, &mut out);
            attempt.seqs.push(head.seq);
            // Cannot happen (record.rs budgets every field); a longer line would be cut downstream.
            debug_assert!(out.len() - from <= MAX_LINE, "a record of {} bytes", out.len() - from);
            marks.push((out.len(), head));
        }
        let checkpoint = match self.closing {
            true => self.checkpoints.last(&self.site, &head),
            false => self.checkpoints.after(&self.site, &head),
        };
        if let Some(body) = checkpoint {
            head.seal(body.as_str(), &mut out);
        }
        attempt.next = head.seq + 1;
        let taken = if out.is_empty() { Ok(0) } else { self.medium.append(&out) };
        let whole = matches!(taken, Ok(count) if count == out.len());
        self.medium.finish(whole, attempt.next);
        let count = match taken {
            Ok(count) => count,
            Err(error) => {
                self.checkpoints.failed();
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
            self.checkpoints.failed();
            attempt.error = Some(self.short(count, out.len()));
        } else if durable {
            self.unsynced = false;
            attempt.error = self.medium.sync().err();
        } else {
            self.unsynced |= !out.is_empty();
        }
        self.copies.send(&out, count);
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

mod covered;
mod refusal;
#[cfg(test)]
mod tests;
