//! What the filter tells the supervisor of a run: forbidden calls, and programs that are started.
//!
//! Purpose: a record of both. A forbidden call never runs; it is answered with EPERM whatever is counted
//! here, so nothing of this decides anything. A start goes on always: its name and arguments lie in the
//! caller's memory, where another thread may change them after they were read, and Landlock is what
//! decides which programs run. Called by `stub`.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat};

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
/// Most steps of one path, links followed.
const STEPS: usize = 256;
/// Longest path there is.
const PATH: usize = 4096;
/// Bytes kept of one argument or path.
const BYTES: usize = 256;

/// The listener of one run, with what it heard.
pub(super) struct Listener {
    fd: Arc<OwnedFd>,
    denied: Vec<DeniedCall>,
    starts: Vec<Execution>,
    /// How many of them were compared with what the kernel says: each is once, for later its process is gone
    /// or its number another's.
    compared: usize,
    /// All starts, the ones not kept included.
    started: u32,
    /// Those of the dynamic loader as a program, the ones not kept included.
    loaded: u32,
    /// Device and inode of each loader.
    loaders: Vec<(u64, u64)>,
    /// Only of a recorded run.
    recorder: Option<Box<Recorder>>,
}

/// What was heard of one run.
pub(super) struct Heard {
    pub(super) denied: Vec<DeniedCall>,
    pub(super) starts: Vec<Execution>,
    pub(super) started: u32,
    pub(super) loaded: u32,
    /// Only of a recorded run.
    pub(super) touched: Vec<Touch>,
}

impl Listener {
    /// `loaders`: files that only the kernel starts, to load a program with.
    pub(super) fn new(fd: OwnedFd, loaders: Vec<(u64, u64)>) -> Self {
        Self {
            fd: Arc::new(fd),
            denied: Vec::new(),
            starts: Vec::new(),
            compared: 0,
            started: 0,
            loaded: 0,
            loaders,
            recorder: None,
        }
    }

    /// The same, that takes down what is touched as well.
    pub(super) fn recording(fd: OwnedFd, loaders: Vec<(u64, u64)>, recorder: Recorder) -> Self {
        Self { recorder: Some(Box::new(recorder)), ..Self::new(fd, loaders) }
    }

    /// To poll for.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The same, for who polls beside this.
    pub(super) fn shared_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
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
        let plain = i64::from(told.nr) == libc::SYS_execve;
        let first = if plain { 0 } else { 1 };
        let [path, argv] = [told.args.get(first), told.args.get(first + 1)].map(|arg| arg.copied());
        // Registers are wider than a descriptor.
        let dir = if plain { libc::AT_FDCWD } else { told.args[0] as i32 };
        let memory = File::open(format!("/proc/{}/mem", told.pid));
        let path = match memory.as_ref().map(|memory| text(memory, path, PATH)) {
            Ok(Ok(path)) => Some(path),
            Ok(Err(_)) | Err(_) => None, // recorded without
        };
        let loader = path.as_ref().is_some_and(|path| self.is_loader(told.pid, dir, path));
        let first_of_them = loader && self.loaded == 0;
        self.loaded = self.loaded.saturating_add(u32::from(loader));
        // A flood of others must not hide it.
        if self.starts.len() >= STARTS && !first_of_them {
            return;
        }
        let argv = memory.map_or_else(|_| Vec::new(), |memory| arguments(&memory, argv));
        let path = path.map_or_else(|| "?".to_owned(), |path| shortened(&path));
        self.starts.push(Execution { pid: told.pid, path, argv, fidelity: Fidelity::Observed });
    }

    /// Whether `path` leads the caller to a loader, links followed. Only what the kernel has at hand is
    /// looked at: a file system that does not answer must not keep the supervisor from its deadline.
    fn is_loader(&self, pid: i32, dir: i32, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let base = if dir == libc::AT_FDCWD { "cwd".to_owned() } else { format!("fd/{dir}") };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let found = open(format!("/proc/{pid}/{base}").as_str(), flags, Mode::empty())
            .and_then(|dir| at_hand(dir, path));
        match found {
            Ok(file) => self.loaders.contains(&(file.st_dev, file.st_ino)),
            // Not at hand, or not there: its name is what is left.
            Err(_) => path.file_name().is_some_and(|name| {
                let name = name.as_bytes();
                [&b"ld-linux"[..], b"ld-musl", b"ld.so"].iter().any(|own| name.starts_with(own))
            }),
        }
    }

    /// Compares the latest starts with what the kernel says of processes that still live.
    fn confirm(&mut self) {
        let compared = std::mem::replace(&mut self.compared, self.starts.len());
        for start in self.starts.iter_mut().skip(compared) {
            let Ok(line) = std::fs::read(format!("/proc/{}/cmdline", start.pid)) else { continue };
            let known = line.split(|byte| *byte == 0).take(start.argv.len());
            let same = known.map(shortened).eq(start.argv.iter().cloned());
            start.fidelity = if same { Fidelity::Confirmed } else { Fidelity::Mismatch };
        }
    }

    /// What was heard, at the end of the run.
    pub(super) fn heard(&mut self) -> Heard {
        self.confirm();
        self.taken()
    }

    /// The same without another look at the processes, which opens files.
    pub(super) fn taken(&mut self) -> Heard {
        Heard {
            denied: std::mem::take(&mut self.denied),
            starts: std::mem::take(&mut self.starts),
            started: std::mem::take(&mut self.started),
            loaded: std::mem::take(&mut self.loaded),
            touched: self.recorder.as_mut().map_or_else(Vec::new, |recorder| recorder.taken()),
        }
    }
}

/// What `path` leads to from `at`. A step at a time: in one go the kernel gives up at a fresh link, whose
/// access time is to be set.
fn at_hand(mut at: OwnedFd, path: &Path) -> nix::Result<FileStat> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::from_bits_retain(libc::RESOLVE_CACHED));
    let parts = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let mut left: VecDeque<OsString> = parts(path).into();
    for _ in 0..STEPS {
        let Some(part) = left.pop_front() else { return fstat(&at) };
        let next = openat2(&at, part.as_os_str(), how)?;
        if fstat(&next)?.st_mode & libc::S_IFMT == libc::S_IFLNK {
            let target = readlinkat(&next, "")?;
            parts(Path::new(&target)).into_iter().rev().for_each(|part| left.push_front(part));
        } else {
            at = next;
        }
    }
    Err(nix::errno::Errno::ELOOP)
}

fn shortened(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..BYTES).unwrap_or(bytes)).into_owned()
}

/// The NUL-terminated string at `address`, as far as `most` bytes.
fn text(memory: &File, address: Option<u64>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; most];
    let read = memory.read_at(&mut bytes, address.unwrap_or(0))?;
    bytes.truncate(bytes.iter().take(read).position(|byte| *byte == 0).unwrap_or(read));
    Ok(bytes)
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
            Ok(pointer) => match text(memory, Some(pointer), BYTES) {
                Ok(argument) => found.push(shortened(&argument)),
                Err(_) => break,
            },
        }
    }
    found
}
