//! The writer on a medium that fails on demand.

use super::*;
use crate::audit::medium::Tail;
use crate::audit::queue::{MOST_BYTES, MOST_JOBS};
use crate::audit::{
    Audit, Context, Ending, LimitFacts, Origin, RunDenied, RunEnd, RunStart, SandboxFacts, Stamps,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use tokio::sync::oneshot;

/// What the medium does when it is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Good,
    NoWrite,
    /// Takes so many bytes, as a file system that fills up.
    Short(usize),
    NoSync,
}

#[derive(Debug)]
struct Disk {
    mood: Mood,
    bytes: Vec<u8>,
    writes: usize,
    syncs: usize,
}

/// A medium in memory with failures on demand.
struct Fake(Arc<Mutex<Disk>>);

impl Fake {
    fn fail(errno: i32) -> AuditError {
        AuditError {
            operation: "write",
            sink: "fake".to_owned(),
            source: std::io::Error::from_raw_os_error(errno),
        }
    }
}

impl Medium for Fake {
    fn begin(&mut self, memory: Option<Head>) -> Result<Tail, AuditError> {
        let disk = self.0.lock().unwrap();
        let torn = disk.bytes.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        Ok(Tail { head: memory, junk: torn as u64, open: torn > 0, ..Tail::default() })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<usize, AuditError> {
        let mut disk = self.0.lock().unwrap();
        let count = match disk.mood {
            Mood::NoWrite => return Err(Self::fail(libc::ENOSPC)),
            Mood::Short(most) => bytes.len().min(most),
            Mood::Good | Mood::NoSync => bytes.len(),
        };
        disk.writes += 1;
        disk.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn finish(&mut self, _whole: bool, _next: u64) {}

    fn sync(&mut self) -> Result<(), AuditError> {
        let mut disk = self.0.lock().unwrap();
        disk.syncs += 1;
        if disk.mood == Mood::NoSync { Err(Self::fail(libc::EIO)) } else { Ok(()) }
    }

    fn reopen(&mut self) -> Result<(), AuditError> {
        Ok(())
    }

    fn keep(&mut self, _open: &BTreeSet<u64>, _next: u64) {}

    fn close(&mut self, _clean: bool) {}

    fn name(&self) -> String {
        "fake".to_owned()
    }
}

fn open() -> (Audit, Arc<Mutex<Disk>>) {
    open_with(OnFailure::Refuse, SyncPolicy::Strict)
}

fn open_with(on_failure: OnFailure, sync: SyncPolicy) -> (Audit, Arc<Mutex<Disk>>) {
    let disk = Arc::new(Mutex::new(Disk { mood: Mood::Good, bytes: Vec::new(), writes: 0, syncs: 0 }));
    let medium = Box::new(Fake(Arc::clone(&disk)));
    let instance = uuid::Uuid::now_v7().to_string();
    let parts = (Arc::new(Queue::default()), Copies::default(), Conduct { on_failure, sync });
    let origin = Origin { audit_continue: on_failure == OnFailure::Continue, ..Origin::default() };
    let keys = super::super::Keys { site: [1; 32], checkpoints: None };
    (Audit::start((medium, "file"), parts, (origin, &[]), instance, keys).unwrap(), disk)
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn start<'a>(argv: &'a [Vec<u8>]) -> RunStart<'a> {
    RunStart {
        argv,
        exe: None,
        cwd: Path::new("/"),
        env_names: &[],
        stdin_bytes: None,
        limits: LimitFacts::default(),
        sandbox: SandboxFacts::default(),
        rule_id: "allow",
        rule_kind: "allow",
        consent: None,
        stamps: Stamps::default(),
    }
}

fn events(disk: &Arc<Mutex<Disk>>) -> Vec<String> {
    let disk = disk.lock().unwrap();
    let text = String::from_utf8(disk.bytes.clone()).unwrap();
    let records = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    records
        .map(|record| {
            let outcome = record["outcome"].as_str().unwrap_or("");
            format!("{} {outcome}", record["event_type"].as_str().unwrap()).trim().to_owned()
        })
        .collect()
}

fn end() -> RunEnd {
    RunEnd { ending: Ending::Exited(0), pid: Some(2), ..RunEnd::default() }
}

#[test]
fn a_full_disk_refuses_and_a_gap_comes_first_when_it_is_over() {
    let (audit, disk) = open();
    let argv = [b"ls".to_vec()];
    let context = Context::default();
    let run = wait(audit.run_start(&context, &start(&argv))).unwrap();
    disk.lock().unwrap().mood = Mood::NoWrite;
    let error = wait(audit.run_start(&context, &start(&argv))).unwrap_err();
    assert_eq!(error.source.raw_os_error(), Some(libc::ENOSPC));
    assert!(error.to_string().starts_with("audit_unavailable: write of fake failed"), "{error}");
    assert!(audit.is_refusing());
    // The end of the run that was going on waits in memory.
    assert!(wait(audit.run_end(run, &end())).is_err());
    disk.lock().unwrap().mood = Mood::Good;
    let run = wait(audit.run_start(&context, &start(&argv))).unwrap();
    assert!(!audit.is_refusing());
    wait(audit.run_end(run, &end())).unwrap();
    drop(audit);
    assert_eq!(events(&disk), ["run.start", "audit.gap", "run.end success", "run.start", "run.end success"]);
    assert!(String::from_utf8_lossy(&disk.lock().unwrap().bytes).contains("\"refused\":1"));
}

#[test]
fn a_start_that_stands_but_is_not_durable_is_refused_and_gets_its_end() {
    let (audit, disk) = open();
    let argv = [b"ls".to_vec()];
    disk.lock().unwrap().mood = Mood::NoSync;
    assert!(wait(audit.run_start(&Context::default(), &start(&argv))).is_err());
    disk.lock().unwrap().mood = Mood::Good;
    drop(audit);
    let mut events = events(&disk);
    // The writer may have tried by itself while nothing was durable yet: that try stands there, too.
    events.dedup();
    assert_eq!(events, ["run.start", "audit.gap", "run.end spawn_error"]);
}

#[test]
fn a_short_write_is_a_failure_and_the_torn_line_is_accounted_for() {
    let (audit, disk) = open();
    let argv = [b"ls".to_vec()];
    disk.lock().unwrap().mood = Mood::Short(100);
    let error = wait(audit.run_start(&Context::default(), &start(&argv))).unwrap_err();
    assert!(error.to_string().contains("100 of"), "{error}");
    disk.lock().unwrap().mood = Mood::Good;
    let run = wait(audit.run_start(&Context::default(), &start(&argv))).unwrap();
    wait(audit.run_end(run, &end())).unwrap();
    drop(audit);
    assert_eq!(events(&disk), ["audit.recover", "audit.gap", "run.start", "run.end success"]);
    assert!(String::from_utf8_lossy(&disk.lock().unwrap().bytes).contains("\"torn_bytes\":100,"));
}

#[test]
fn a_start_whose_caller_is_gone_and_a_dropped_run_get_their_ends() {
    let (audit, disk) = open();
    let argv = [b"ls".to_vec()];
    let context = Context::default();
    drop(wait(audit.run_start(&context, &start(&argv))).unwrap());
    wait(async {
        let facts = start(&argv);
        let mut starting = Box::pin(audit.run_start(&context, &facts));
        // Polled once, so that the record is queued, then given up.
        tokio::select! { biased; _ = &mut starting => {}, () = std::future::ready(()) => {} }
    });
    drop(audit);
    let mut events = events(&disk);
    events.sort();
    assert_eq!(events, ["run.end lost", "run.end lost", "run.start", "run.start"]);
}

#[test]
fn sixteen_callers_share_writes_and_syncs() {
    let (audit, disk) = open();
    let held = disk.lock().unwrap();
    let denied = |audit: Audit| {
        std::thread::spawn(move || {
            let argv = [b"rm".to_vec()];
            let facts = RunDenied {
                argv: &argv,
                cwd: Path::new("/"),
                env_names: &[],
                stdin_bytes: None,
                rule_id: "default",
                rule_kind: "allow",
                reason: "command_not_allowed",
                consent: None,
                stamps: Stamps::default(),
            };
            wait(audit.run_denied(&Context::default(), &facts)).unwrap();
        })
    };
    let queued = || audit.0.queue.state().jobs.len();
    // The writer takes the first and stops at the held disk; the others queue up behind.
    let mut callers = vec![denied(audit.clone())];
    while audit.0.queue.state().taken == 0 {
        std::thread::yield_now();
    }
    callers.extend((0..16).map(|_| denied(audit.clone())));
    while queued() < 16 {
        std::thread::yield_now();
    }
    drop(held);
    for caller in callers {
        caller.join().unwrap();
    }
    let disk = disk.lock().unwrap();
    assert_eq!((disk.writes, disk.syncs), (2, 2));
    assert_eq!(String::from_utf8_lossy(&disk.bytes).lines().count(), 17);
}

#[test]
fn a_full_queue_refuses_and_takes_ends_all_the_same() {
    let queue = Queue::default();
    let job = |reply| Job { body: String::new(), reply };
    let (to, _answer) = oneshot::channel();
    let mut refused = None;
    let mut senders = vec![to];
    for _ in 0..=MOST_JOBS {
        let (to, _) = oneshot::channel();
        refused = queue.push(job(Reply::Durable(senders.pop().unwrap()))).err();
        senders.push(to);
    }
    assert!(refused.is_some());
    assert!(queue.push(job(Reply::End(Some(0), None))).is_ok());
    let (to, _answer) = oneshot::channel();
    let fresh = Queue::default();
    let large = Job { body: "x".repeat(MOST_BYTES + 1), reply: Reply::Durable(to) };
    assert!(fresh.push(large).is_err());
}

#[test]
fn with_continue_runs_go_on_and_the_gap_counts_what_is_not_on_record() {
    let (audit, disk) = open_with(OnFailure::Continue, SyncPolicy::Strict);
    let argv = [b"ls".to_vec()];
    let context = Context::default();
    disk.lock().unwrap().mood = Mood::NoWrite;
    let unseen = wait(audit.run_start(&context, &start(&argv))).unwrap();
    assert!(audit.is_refusing(), "not ready, though it goes on");
    wait(audit.run_end(unseen, &end())).unwrap();
    disk.lock().unwrap().mood = Mood::Good;
    let run = wait(audit.run_start(&context, &start(&argv))).unwrap();
    wait(audit.run_end(run, &end())).unwrap();
    drop(audit);
    assert_eq!(events(&disk), ["audit.gap", "run.start", "run.end success"]);
    let text = String::from_utf8(disk.lock().unwrap().bytes.clone()).unwrap();
    assert!(text.contains("\"refused\":0,\"unrecorded\":1"), "{text}");
    assert!(
        text.lines()
            .all(|line| line.contains("\"level\":\"error\"") && line.contains("\"audit_continue\":true"))
    );
}

#[test]
fn with_kill_an_outage_fires_once_and_the_next_runs_are_safe() {
    let (audit, disk) = open_with(OnFailure::Kill, SyncPolicy::Strict);
    let argv = [b"ls".to_vec()];
    let first = audit.kill();
    disk.lock().unwrap().mood = Mood::NoWrite;
    assert!(wait(audit.run_start(&Context::default(), &start(&argv))).is_err());
    assert!(first.is_cancelled() && audit.kill().is_cancelled());
    disk.lock().unwrap().mood = Mood::Good;
    drop(wait(audit.run_start(&Context::default(), &start(&argv))).unwrap());
    assert!(!audit.kill().is_cancelled());
}

#[test]
fn relaxed_answers_before_the_disk_does() {
    let (audit, disk) = open_with(OnFailure::Refuse, SyncPolicy::Relaxed);
    let argv = [b"ls".to_vec()];
    disk.lock().unwrap().mood = Mood::NoSync;
    // The sync comes later, and its failure refuses what comes then.
    let run = wait(audit.run_start(&Context::default(), &start(&argv))).unwrap();
    while !audit.is_refusing() {
        std::thread::yield_now();
    }
    disk.lock().unwrap().mood = Mood::Good;
    wait(audit.run_end(run, &end())).ok();
    drop(audit);
    let mut events = events(&disk);
    events.dedup();
    assert_eq!(events, ["run.start", "audit.gap", "run.end success"]);
}
