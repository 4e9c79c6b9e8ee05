//! What the writer answers when the required sink fails, and what becomes of the ends of runs meanwhile.
//!
//! Inputs: the records that were to be written, and the failure. Called by `writer.rs`.

use std::time::Instant;

use super::{AuditError, EXIT, Job, OnFailure, Reply, Trouble, Writer};

impl Writer {
    /// Answers a failure. The first records, with these numbers, stand in the medium all the same: a start among
    /// them gets its end, an end among them is not written twice.
    pub(super) fn refuse(&mut self, jobs: Vec<Job>, written: &[u64], error: &AuditError) {
        self.note_trouble(error);
        let go_on = self.conduct.on_failure == OnFailure::Continue;
        let (mut refused, mut unrecorded) = (0, 0);
        let mut owed = Vec::new();
        for (position, job) in jobs.into_iter().enumerate() {
            let seq = written.get(position).copied();
            let stands = seq.is_some();
            match job.reply {
                Reply::Start(mut run, to) if go_on => {
                    unrecorded += u64::from(!stands);
                    match seq {
                        None => run.unrecorded(),
                        Some(seq) => {
                            run.stands_at(seq);
                            self.open.insert(seq);
                        }
                    }
                    drop(to.send(Ok(*run)));
                }
                Reply::Durable(to) if go_on => {
                    unrecorded += u64::from(!stands);
                    drop(to.send(Ok(())));
                }
                Reply::Start(mut run, to) => {
                    refused += 1;
                    if let Some(seq) = seq {
                        run.stands_at(seq);
                        self.open.insert(seq);
                    }
                    run.refused(stands);
                    drop(to.send(Err(error.again())));
                }
                Reply::Durable(to) => {
                    refused += 1;
                    drop(to.send(Err(error.again())));
                }
                Reply::End(start, to) if stands => {
                    self.ended(start);
                    if let Some(to) = to {
                        drop(to.send(Ok(())));
                    }
                }
                Reply::End(..) => owed.push(job),
            }
        }
        if let Some(trouble) = &mut self.trouble {
            trouble.refused += refused;
            trouble.unrecorded += unrecorded;
        }
        self.last_room(owed, error);
        // An outage that lasts begins file after file: those without an open run are let go of here, too.
        if let Some(head) = self.head {
            self.medium.keep(&self.open, head.seq + 1);
        }
        if self.conduct.on_failure == OnFailure::Exit {
            tracing::error!(%error, "audit: on_failure = \"exit\": the server ends");
            std::process::exit(EXIT);
        }
    }

    /// Ends of runs for which there is no room: the reserve is theirs. What does not fit waits in memory.
    fn last_room(&mut self, mut owed: Vec<Job>, error: &AuditError) {
        if !owed.is_empty() && is_full(error) {
            // Freed just now or before: there may be room left in it.
            self.medium.free_reserve();
            let bodies: Vec<&str> = owed.iter().map(|job| job.body.as_str()).collect();
            let written = self.attempt(&bodies, true).written;
            for job in owed.drain(..written) {
                if let Reply::End(start, to) = job.reply {
                    self.ended(start);
                    if let Some(to) = to {
                        drop(to.send(Ok(())));
                    }
                }
            }
        }
        for mut job in owed {
            if let Reply::End(_, to) = &mut job.reply
                && let Some(to) = to.take()
            {
                drop(to.send(Err(error.again())));
            }
            self.waiting.push(job);
        }
    }

    pub(super) fn note_trouble(&mut self, error: &AuditError) {
        let trouble = || Trouble { since: Instant::now(), refused: 0, unrecorded: 0, why: error.to_string() };
        if self.trouble.is_none() {
            let what = match self.conduct.on_failure {
                OnFailure::Refuse | OnFailure::Exit => "refusing runs until the sink takes records again",
                OnFailure::Kill => "refusing runs, and killing those that go on",
                OnFailure::Continue => "RUNS GO ON WITHOUT A RECORD (on_failure = \"continue\")",
            };
            tracing::error!(%error, "audit: {what}");
        }
        self.trouble.get_or_insert_with(trouble);
        let mut health = self.queue.health();
        health.refusing = Some(error.to_string());
        if self.conduct.on_failure == OnFailure::Kill {
            health.kill.cancel();
        }
    }
}

/// Whether room is what fails.
fn is_full(error: &AuditError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull, WriteZero};
    matches!(error.source.kind(), StorageFull | QuotaExceeded | WriteZero)
}
