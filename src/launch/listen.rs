//! What the filter tells the supervisor of a run: forbidden calls, and programs that are started.
//!
//! Purpose: a record of both. A forbidden call never runs; it is answered with EPERM whatever is counted
//! here, so nothing of this decides anything. A start goes on always: its name and arguments lie in the
//! caller's memory, where another thread may change them after they were read, and Landlock is what
//! decides which programs run. Called by `stub`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::observe::{Answer, Recorder};
use super::wire::{DeniedCall, Execution, Fidelity, Touch};
use crate::sys::{self, Told};

/// Calls that are answered before the supervisor looks at its deadline again.
const BATCH: usize = 64;
/// Different calls that are kept.
const DENIED: usize = 16;
/// Starts that are kept.
const STARTS: usize = 16;
/// Arguments kept of one start.
const ARGUMENTS: usize = 32;
/// Bytes kept of one argument or path.
const BYTES: usize = 256;

/// The listener of one run, with what it heard.
pub(super) struct Listener {
    fd: OwnedFd,
    denied: Vec<DeniedCall>,
    starts: Vec<Execution>,
    /// All starts, the ones not kept included.
    started: u32,
    /// Only of a recorded run.
    recorder: Option<Box<Recorder>>,
}

/// Forbidden calls, programs that were started, how many in all, and what a recorded run touched.
pub(super) type Heard = (Vec<DeniedCall>, Vec<Execution>, u32, Vec<Touch>);

impl Listener {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd, denied: Vec::new(), starts: Vec::new(), started: 0, recorder: None }
    }

    /// The same, that takes down what is touched as well.
    pub(super) fn recording(fd: OwnedFd, recorder: Recorder) -> Self {
        Self { recorder: Some(Box::new(recorder)), ..Self::new(fd) }
    }

    /// To poll for.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Answers calls that wait, but no more than a batch. Only after poll(2) said that there is one.
    pub(super) fn serve(&mut self) {
        for _ in 0..BATCH {
            // A caller that died took its call with it.
            if let Ok(told) = sys::seccomp_told(self.fd.as_fd()) {
                self.answer(&told);
            }
            let mut fds = [nix::poll::PollFd::new(self.fd.as_fd(), nix::poll::PollFlags::POLLIN)];
            let more = nix::poll::poll(&mut fds, nix::poll::PollTimeout::ZERO).is_ok();
            if !more || fds[0].any() != Some(true) {
                return;
            }
        }
    }

    fn answer(&mut self, told: &Told) {
        let starts = i64::from(told.nr) == libc::SYS_execve || i64::from(told.nr) == libc::SYS_execveat;
        let recorded = self.recorder.as_mut().and_then(|recorder| recorder.hear(told));
        if starts {
            self.starts(told);
        } else if recorded.is_none() {
            self.denies(told);
        }
        let errno = match recorded {
            Some(Answer::Go) => None,
            Some(Answer::Fail(errno)) => Some(errno),
            None => (!starts).then_some(libc::EPERM),
        };
        // ENOENT: the caller has died.
        drop(sys::seccomp_answer(self.fd.as_fd(), told.id, errno));
    }

    fn denies(&mut self, told: &Told) {
        if let Some(known) = self.denied.iter_mut().find(|known| known.nr == told.nr) {
            known.count = known.count.saturating_add(1);
        } else if self.denied.len() < DENIED {
            self.denied.push(DeniedCall { nr: told.nr, count: 1, args: told.args });
        }
    }

    fn starts(&mut self, told: &Told) {
        self.confirm();
        self.started = self.started.saturating_add(1);
        if self.starts.len() >= STARTS {
            return;
        }
        let first = if i64::from(told.nr) == libc::SYS_execve { 0 } else { 1 };
        let [path, argv] = [told.args.get(first), told.args.get(first + 1)].map(|arg| arg.copied());
        let (path, argv) = match File::open(format!("/proc/{}/mem", told.pid)) {
            Ok(memory) => (text(&memory, path), arguments(&memory, argv)),
            Err(_) => (Err(io::ErrorKind::NotFound.into()), Vec::new()), // recorded without
        };
        let path = path.unwrap_or_else(|_| "?".to_owned());
        self.starts.push(Execution { pid: told.pid, path, argv, fidelity: Fidelity::Observed });
    }

    /// Compares the starts with what the kernel says of processes that still live.
    fn confirm(&mut self) {
        for start in self.starts.iter_mut().filter(|start| start.fidelity == Fidelity::Observed) {
            let Ok(line) = std::fs::read(format!("/proc/{}/cmdline", start.pid)) else { continue };
            let known = line.split(|byte| *byte == 0).take(start.argv.len());
            let same = known.map(shortened).eq(start.argv.iter().cloned());
            start.fidelity = if same { Fidelity::Confirmed } else { Fidelity::Mismatch };
        }
    }

    /// What was heard, at the end of the run.
    pub(super) fn heard(mut self) -> Heard {
        self.confirm();
        self.taken()
    }

    /// The same without another look at the processes, which opens files.
    pub(super) fn taken(&mut self) -> Heard {
        let touched = self.recorder.as_mut().map_or_else(Vec::new, |recorder| recorder.taken());
        (std::mem::take(&mut self.denied), std::mem::take(&mut self.starts), self.started, touched)
    }
}

fn shortened(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..BYTES).unwrap_or(bytes)).into_owned()
}

/// The NUL-terminated string at `address`, shortened.
fn text(memory: &File, address: Option<u64>) -> io::Result<String> {
    let mut bytes = [0u8; BYTES];
    let read = memory.read_at(&mut bytes, address.unwrap_or(0))?;
    let text = bytes.get(..read).unwrap_or(&bytes);
    Ok(shortened(text.split(|byte| *byte == 0).next().unwrap_or(text)))
}

/// The strings of the vector at `address`, as far as they can be read.
fn arguments(memory: &File, address: Option<u64>) -> Vec<String> {
    let mut found = Vec::new();
    let Some(start) = address.filter(|address| *address != 0) else { return found };
    for index in 0..ARGUMENTS as u64 {
        let mut pointer = [0u8; 8];
        let place = start.saturating_add(index.saturating_mul(8));
        match memory.read_exact_at(&mut pointer, place).map(|()| u64::from_le_bytes(pointer)) {
            Ok(0) | Err(_) => break,
            Ok(pointer) => match text(memory, Some(pointer)) {
                Ok(argument) => found.push(argument),
                Err(_) => break,
            },
        }
    }
    found
}
