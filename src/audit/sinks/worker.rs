//! What every best-effort sink has: a thread, a byte-bounded queue, a deadline, back-off and counters.
//!
//! Purpose: nothing that happens at the other end reaches a run. The writer hands over lines and never waits;
//! what finds no room is dropped and counted, and the writer turns the counts into `audit.drop` records.
//! Called by `sinks/mod.rs`.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::form;
use crate::config::Rendering;

/// First pause after a failure; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(15);
/// A line that is under way for longer counts as an outage.
const SLOW: Duration = Duration::from_secs(1);
/// How often drops are reported while the outage goes on.
const REPORT: Duration = Duration::from_secs(60);

/// Why a record was not sent.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection is of no use any more: try again over a new one.
    Link(io::Error),
    /// This record can never be sent: drop it.
    Record(String),
}

/// The other end of a sink.
pub(super) trait Outlet: Send + 'static {
    /// Makes the connection. Bounded in time.
    fn connect(&mut self) -> io::Result<()>;
    /// Sends one record: the native line, and its form. Bounded in time, but for standard streams.
    fn send(&mut self, native: &[u8], shown: &[u8]) -> Result<(), Failure>;
}

/// What a sink dropped since the last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::audit) struct Drops {
    /// The sink.
    pub(in crate::audit) sink: String,
    /// Records.
    pub(in crate::audit) records: u64,
    /// Bytes of their native lines.
    pub(in crate::audit) bytes: u64,
    /// Since the first of them.
    pub(in crate::audit) age: Duration,
    /// What went wrong.
    pub(in crate::audit) why: String,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// A line was taken and is not settled.
    busy: Option<Instant>,
    down: bool,
    why: String,
    records: u64,
    lost_bytes: u64,
    since: Option<Instant>,
    reported: Option<Instant>,
    closing: bool,
    gone: bool,
}

impl State {
    fn lose(&mut self, line: &[u8]) {
        self.records += 1;
        self.lost_bytes += line.len() as u64;
        self.since.get_or_insert_with(Instant::now);
    }

    fn is_down(&self) -> bool {
        self.down || self.busy.is_some_and(|since| since.elapsed() > SLOW)
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    limit: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; the queue stays whole even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next line, which stays accounted for until it is settled; `None` at the end.
    fn next(&self) -> Option<Arc<[u8]>> {
        let mut state = self.state();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.busy = Some(Instant::now());
                return Some(line);
            }
            if state.closing {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A line is sent or given up. Says whether drops are to be reported now.
    fn settled(&self, line: &[u8], given_up: Option<String>) -> bool {
        let mut state = self.state();
        state.busy = None;
        state.bytes = state.bytes.saturating_sub(line.len());
        match given_up {
            Some(why) => {
                state.why = why;
                state.lose(line);
            }
            None => state.down = false,
        }
        self.wake.notify_all();
        state.records > 0 && state.lines.is_empty()
    }

    /// The line could not be sent: it waits for the next connection. False when there is no time for one.
    fn failed(&self, line: Arc<[u8]>, error: &io::Error, pause: Duration) -> bool {
        let mut state = self.state();
        state.busy = None;
        state.down = true;
        state.why = error.to_string();
        state.lines.push_front(line);
        let until = Instant::now() + pause;
        while !state.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

/// A running sink.
#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    kind: &'static str,
    shared: Arc<Shared>,
}

impl Worker {
    /// Starts the thread. `nudge` asks the writer to look at the counters.
    pub(super) fn start(
        (name, kind): (String, &'static str),
        limit: usize,
        rendering: Rendering,
        outlet: impl Outlet,
        nudge: Arc<dyn Fn() + Send + Sync>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), wake: Condvar::new(), limit });
        let theirs = Arc::clone(&shared);
        // Never joined: it may be stuck in a write for good, and ends with the process.
        std::thread::Builder::new().name(format!("audit-{kind}")).spawn(move || {
            work(&theirs, outlet, rendering, nudge.as_ref());
            theirs.state().gone = true;
            theirs.wake.notify_all();
        })?;
        Ok(Self { name, kind, shared })
    }

    /// Takes a line in, or counts it as dropped. Never waits.
    pub(super) fn offer(&self, line: &Arc<[u8]>) {
        let mut state = self.shared.state();
        if state.bytes + line.len() > self.shared.limit {
            if state.why.is_empty() {
                state.why = "its reader does not keep up".to_owned();
            }
            state.lose(line);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(Arc::clone(line));
        drop(state);
        self.shared.wake.notify_all();
    }

    /// `kind:state`.
    pub(super) fn state(&self) -> (String, bool) {
        let down = self.shared.state().is_down();
        (format!("{}:{}", self.kind, if down { "down" } else { "ok" }), down)
    }

    /// The counts of what was dropped, when it is time to tell: the outage is over, or goes on for long, or
    /// `all` is asked for.
    pub(super) fn drops(&self, all: bool) -> Option<Drops> {
        let mut state = self.shared.state();
        let over = !state.is_down() && state.bytes < self.shared.limit / 2;
        let long = state.reported.or(state.since).is_some_and(|at| at.elapsed() > REPORT);
        if state.records == 0 || !(all || over || long) {
            return None;
        }
        state.reported = Some(Instant::now());
        Some(Drops {
            sink: self.name.clone(),
            records: std::mem::take(&mut state.records),
            bytes: std::mem::take(&mut state.lost_bytes),
            age: state.since.take().map_or(Duration::ZERO, |since| since.elapsed()),
            why: std::mem::take(&mut state.why),
        })
    }

    /// No more lines will come: the thread is told to end, what it does not get rid of until `deadline`
    /// counts as dropped.
    pub(super) fn close(&self, deadline: Instant) {
        let mut state = self.shared.state();
        state.closing = true;
        self.shared.wake.notify_all();
        while !state.gone {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        while let Some(line) = state.lines.pop_front() {
            state.lose(&line);
        }
    }
}

/// The thread.
fn work(shared: &Shared, mut outlet: impl Outlet, rendering: Rendering, nudge: &(dyn Fn() + Send + Sync)) {
    let mut connected = false;
    let mut pause = PAUSE;
    while let Some(line) = shared.next() {
        let native = line.strip_suffix(b"\n").unwrap_or(&line);
        let sent = if connected { Ok(()) } else { outlet.connect() };
        connected = sent.is_ok();
        let sent = sent.map_err(Failure::Link).and_then(|()| match form::render(rendering, native) {
            Ok(shown) => outlet.send(native, &shown),
            Err(why) => Err(Failure::Record(why)),
        });
        let report = match sent {
            Ok(()) => {
                pause = PAUSE;
                shared.settled(&line, None)
            }
            Err(Failure::Record(why)) => shared.settled(&line, Some(why)),
            Err(Failure::Link(error)) => {
                connected = false;
                if !shared.failed(line, &error, pause) {
                    return;
                }
                pause = (pause * 2).min(LONGEST);
                false
            }
        };
        if report {
            nudge();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Fails as often as it is told, then hands lines to the test.
    struct Fake {
        failures: usize,
        to: Sender<Vec<u8>>,
    }

    impl Outlet for Fake {
        fn connect(&mut self) -> io::Result<()> {
            match self.failures.checked_sub(1) {
                Some(left) => {
                    self.failures = left;
                    Err(io::ErrorKind::ConnectionRefused.into())
                }
                None => Ok(()),
            }
        }

        fn send(&mut self, _native: &[u8], shown: &[u8]) -> Result<(), Failure> {
            if shown == b"bad" {
                return Err(Failure::Record("bad".to_owned()));
            }
            self.to.send(shown.to_vec()).map_err(|_| Failure::Link(io::ErrorKind::BrokenPipe.into()))
        }
    }

    fn start(failures: usize, limit: usize) -> (Worker, Receiver<Vec<u8>>, Receiver<()>) {
        let (to, lines) = channel();
        let (nudge, nudged) = channel();
        let nudge = Mutex::new(nudge);
        let name = ("fake:x".to_owned(), "fake");
        let nudge = Arc::new(move || {
            let _sent = nudge.lock().unwrap().send(());
        });
        let worker = Worker::start(name, limit, Rendering::Native, Fake { failures, to }, nudge).unwrap();
        (worker, lines, nudged)
    }

    fn line(text: &str) -> Arc<[u8]> {
        Arc::from(text.as_bytes())
    }

    #[test]
    fn an_outage_loses_nothing_that_fits_the_queue_and_keeps_the_order() {
        let (worker, lines, _) = start(2, 100);
        for text in ["a\n", "b\n", "c\n"] {
            worker.offer(&line(text));
        }
        let got: Vec<Vec<u8>> = (0..3).map(|_| lines.recv().unwrap()).collect();
        assert_eq!(got, [b"a", b"b", b"c"]);
        assert_eq!(worker.drops(true), None);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_when_the_outage_is_over() {
        let (worker, lines, nudged) = start(1, 8);
        for text in ["aaaa\n", "bbbb\n", "cc\n", "dd\n"] {
            worker.offer(&line(text));
        }
        assert_eq!(lines.recv().unwrap(), b"aaaa");
        assert_eq!(lines.recv().unwrap(), b"cc");
        nudged.recv().unwrap();
        let drops = worker.drops(false).unwrap();
        assert_eq!((drops.records, drops.bytes, drops.sink.as_str()), (2, 8, "fake:x"));
        assert_eq!(worker.drops(true), None, "told once");
    }

    #[test]
    fn a_record_that_cannot_be_sent_is_dropped_alone() {
        let (worker, lines, nudged) = start(0, 100);
        worker.offer(&line("bad\n"));
        worker.offer(&line("good\n"));
        assert_eq!(lines.recv().unwrap(), b"good");
        nudged.recv().unwrap();
        assert_eq!(worker.drops(false).unwrap().records, 1);
    }

    #[test]
    fn what_is_left_at_the_end_counts_as_dropped() {
        let (worker, _lines, _) = start(usize::MAX, 100);
        worker.offer(&line("a\n"));
        worker.close(Instant::now() + Duration::from_secs(5));
        assert_eq!(worker.drops(true).unwrap().records, 1);
    }
}
