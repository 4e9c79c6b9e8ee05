//! The recorder of a run that `learn` made: which files, programs and ports a command asks for.
//!
//! Purpose: material for a proposal that a person reviews. It decides nothing but this: what holds
//! secrets is answered with EACCES, for a name cannot be left out of a Landlock rule. That is a best
//! effort, as another thread may change a path after it was read; the places of secrets are closed by
//! Landlock. Inputs: the calls that the filter tells of. Called by `stub`.
//!
//! A thread of the supervisor listens, made before the filter is installed and so not under it: the
//! supervisor itself opens files and would wait for its own answer.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::AccessFlags;

use super::listen::{Heard, Listener};
use super::step::step;
use super::wire::{Failure, Touch};
use crate::sandbox::profile::Recorded;
use crate::sys::Told;

/// Most things that are kept of one run.
const MOST: usize = 20_000;
/// Most written paths of the workspace that are kept: one says it all, some help a person.
const WORKSPACE: usize = 64;
/// About how many bytes of paths go into one packet.
const PACKET: usize = 16 << 10;
/// Longest path (limits.h, PATH_MAX).
const PATH: usize = 4096;

/// Who listens to the filter of a run.
pub(super) enum Ears {
    /// The supervisor's own loop.
    Own(Box<Listener>),
    /// A thread of its own, for a recorded run.
    Thread(Arc<Mutex<Listener>>),
}

impl Ears {
    /// To poll for, where nobody else does.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Own(listener) => Some(listener.fd()),
            Self::Thread(_) => None,
        }
    }

    /// Answers what waits.
    pub(super) fn serve(&mut self) {
        if let Self::Own(listener) = self {
            listener.serve();
        }
    }

    /// What was heard, at the end of the run.
    pub(super) fn heard(&mut self) -> Heard {
        match self {
            Self::Own(listener) => listener.heard(),
            // It goes on answering: the end of the run opens files, too.
            Self::Thread(shared) => shared.lock().unwrap_or_else(PoisonError::into_inner).taken(),
        }
    }
}

/// Makes the thread that listens, and then the filter by `install`.
pub(super) fn start(
    recorded: &Recorded,
    workspace: &Path,
    scratch: Option<&Path>,
    loaders: Vec<(u64, u64)>,
    install: impl FnOnce() -> Result<OwnedFd, Failure>,
) -> Result<Ears, Failure> {
    let slot = Arc::new(OnceLock::<Arc<Mutex<Listener>>>::new());
    let taken = Arc::clone(&slot);
    let listen = move || {
        let shared = loop {
            match taken.get() {
                Some(shared) => break shared,
                None => std::thread::park(), // a supervisor without a filter ends, and this with it
            }
        };
        listen(shared);
    };
    let thread = step!("recorder", std::thread::Builder::new().spawn(listen))?;
    let recorder = Recorder {
        recorded: recorded.clone(),
        workspace: workspace.to_owned(),
        scratch: scratch.map(Path::to_owned),
        own: nix::unistd::getpid().as_raw(),
        touched: BTreeSet::new(),
        written: 0,
    };
    let fd = install()?;
    // From here on nothing may fail, for nobody answers yet: not even the file of ordered faults can be read.
    let shared = Arc::new(Mutex::new(Listener::recording(fd, loaders, recorder)));
    slot.get_or_init(|| Arc::clone(&shared));
    thread.thread().unpark();
    Ok(Ears::Thread(shared))
}

fn listen(shared: &Mutex<Listener>) {
    let told = shared.lock().unwrap_or_else(PoisonError::into_inner).shared_fd();
    loop {
        let mut fds = [PollFd::new(told.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            continue; // EINTR
        }
        let [told] = fds;
        if told.revents().is_some_and(|events| events.contains(PollFlags::POLLIN)) {
            shared.lock().unwrap_or_else(PoisonError::into_inner).serve();
        } else {
            return; // nobody is left under the filter
        }
    }
}

/// Splits what was touched into packets.
pub(super) fn parts(touched: Vec<Touch>) -> Vec<Vec<Touch>> {
    let mut parts: Vec<Vec<Touch>> = Vec::new();
    let mut left = 0;
    for touch in touched {
        let size = 32
            + match &touch {
                Touch::Read(path) | Touch::Write(path) | Touch::Execute(path) | Touch::Refused(path) => {
                    path.len()
                }
                Touch::Connect(_) | Touch::More => 0,
            };
        match parts.last_mut().filter(|_| left >= size) {
            Some(part) => part.push(touch),
            None => {
                parts.push(vec![touch]);
                left = PACKET;
            }
        }
        left = left.saturating_sub(size);
    }
    parts
}

/// What becomes of a call that was told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It goes on; Landlock decides.
    Go,
    /// It fails with this errno.
    Fail(i32),
}

/// What a call does with the file it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
    Execute,
}

/// Where the path of a call stands among its arguments.
#[derive(Debug, Clone, Copy)]
struct At {
    directory: Option<usize>,
    path: usize,
}

const fn at(path: usize) -> At {
    At { directory: None, path }
}

const fn from(directory: usize) -> At {
    At { directory: Some(directory), path: directory + 1 }
}

/// Keeps what the calls of one run ask for.
pub(super) struct Recorder {
    recorded: Recorded,
    workspace: PathBuf,
    scratch: Option<PathBuf>,
    own: i32,
    touched: BTreeSet<Touch>,
    /// Paths of the workspace among it.
    written: usize,
}

impl Recorder {
    /// What was touched so far; the next run starts with nothing.
    pub(super) fn taken(&mut self) -> Vec<Touch> {
        std::mem::take(&mut self.touched).into_iter().collect()
    }

    /// Takes down a call; `None` when it is none that is recorded.
    pub(super) fn hear(&mut self, told: &Told) -> Option<Answer> {
        let nr = i64::from(told.nr);
        let (places, flags): (&[At], Option<u64>) = match nr {
            libc::SYS_execve => (&[at(0)], None),
            libc::SYS_execveat | libc::SYS_mkdirat | libc::SYS_unlinkat => (&[from(0)], None),
            libc::SYS_open => (&[at(0)], told.args.get(1).copied()),
            libc::SYS_openat => (&[from(0)], told.args.get(2).copied()),
            libc::SYS_openat2 => (&[from(0)], None),
            libc::SYS_creat | libc::SYS_truncate | libc::SYS_mkdir | libc::SYS_rmdir | libc::SYS_unlink => {
                (&[at(0)], None)
            }
            libc::SYS_rename | libc::SYS_link => (&[at(0), at(1)], None),
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => (&[from(0), from(2)], None),
            libc::SYS_symlink => (&[at(1)], None),
            libc::SYS_symlinkat => (&[from(1)], None),
            libc::SYS_connect if self.recorded.network => (&[], None),
            _ => return None,
        };
        if told.pid == self.own {
            return Some(Answer::Go);
        }
        let Ok(memory) = File::open(format!("/proc/{}/mem", told.pid)) else {
            self.keep(Touch::More); // its memory is closed to us: something is missing
            return Some(Answer::Go);
        };
        if nr == libc::SYS_connect {
            match port(&memory, argument(told, 1)) {
                Ok(Some(port)) => self.keep(Touch::Connect(port)),
                Ok(None) => {}
                Err(_) => self.keep(Touch::More),
            }
            return Some(Answer::Go);
        }
        let flags = match number::<8>(&memory, argument(told, 2)) {
            _ if nr != libc::SYS_openat2 => flags,
            Ok(how) => Some(u64::from_le_bytes(how)),
            Err(_) => {
                self.keep(Touch::More);
                None
            }
        };
        let Some(what) = what(nr, flags) else { return Some(Answer::Go) };
        let mut answer = Answer::Go;
        for place in places {
            match path(told, &memory, *place) {
                Ok(path) => {
                    if let refused @ Answer::Fail(_) = self.touch(&path, what, told.pid) {
                        answer = refused;
                    }
                }
                Err(_) => self.keep(Touch::More),
            }
        }
        Some(answer)
    }

    fn keep(&mut self, touch: Touch) {
        let full = self.touched.len() >= MOST;
        self.touched.insert(if full { Touch::More } else { touch });
    }

    fn touch(&mut self, path: &Path, what: Use, pid: i32) -> Answer {
        let Some(real) = settled(path, what, pid) else { return Answer::Go };
        let Some(text) = real.to_str().map(str::to_owned) else {
            self.keep(Touch::More); // no policy can name it
            return Answer::Go;
        };
        let granted = || self.recorded.granted.iter().any(|grant| real.starts_with(grant));
        if self.scratch.as_ref().is_some_and(|scratch| real.starts_with(scratch)) {
            return Answer::Go;
        }
        if real.starts_with(&self.workspace) {
            match what {
                Use::Read => {}
                Use::Write if self.written >= WORKSPACE => {}
                Use::Write => {
                    self.written += 1;
                    self.keep(Touch::Write(text));
                }
                Use::Execute => self.keep(Touch::Execute(text)),
            }
            return Answer::Go;
        }
        if what != Use::Write && granted() {
            return Answer::Go;
        }
        if self.recorded.secrets.hold(&real) {
            self.keep(Touch::Refused(text));
            return Answer::Fail(libc::EACCES);
        }
        match what {
            Use::Read => self.keep(Touch::Read(text)),
            Use::Write => self.keep(Touch::Write(text)),
            Use::Execute => {
                self.keep(Touch::Execute(text));
                match interpreter(&real) {
                    Ok(Some(interpreter)) => return self.touch(&interpreter, Use::Execute, pid),
                    Ok(None) => {}
                    Err(_) => self.keep(Touch::More), // it can be started and not read
                }
            }
        }
        Answer::Go
    }
}

/// What a call does; `None` for one that opens nothing.
fn what(nr: i64, flags: Option<u64>) -> Option<Use> {
    const MODE: u64 = libc::O_ACCMODE as u64;
    const MAKES: u64 = (libc::O_CREAT | libc::O_TRUNC) as u64;
    match nr {
        libc::SYS_execve | libc::SYS_execveat => Some(Use::Execute),
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 => {
            let flags = flags?;
            let write = flags & MODE != libc::O_RDONLY as u64 || flags & MAKES != 0;
            let opens = flags & libc::O_PATH as u64 == 0;
            opens.then_some(if write { Use::Write } else { Use::Read })
        }
        _ => Some(Use::Write),
    }
}

/// The file behind a path, where it is there and its mode lets us use it so.
fn settled(path: &Path, what: Use, pid: i32) -> Option<PathBuf> {
    let own = |rest: &Path| Path::new("/proc").join(pid.to_string()).join(rest);
    let path = match path.strip_prefix("/proc/self").or_else(|_| path.strip_prefix("/proc/thread-self")) {
        Ok(rest) => own(rest),
        // These lead to descriptors that the command holds already.
        Err(_)
            if ["/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"]
                .iter()
                .any(|p| path.starts_with(p)) =>
        {
            return None;
        }
        Err(_) => path.to_owned(),
    };
    let may = |path: &Path, flag| nix::unistd::access(path, flag).is_ok();
    match (path.canonicalize(), what) {
        (Ok(real), Use::Read) => may(&real, AccessFlags::R_OK).then_some(real),
        (Ok(real), Use::Write) => Some(real),
        // By its mode: on a noexec mount access(2) refuses as well, and that is to be told.
        (Ok(real), Use::Execute) => real
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
            .then_some(real),
        (Err(_), Use::Write) => {
            Some(path.parent()?.canonicalize().into_iter().next()?.join(path.file_name()?))
        }
        (Err(_), _) => None,
    }
}

/// What a script is started with.
fn interpreter(file: &Path) -> io::Result<Option<PathBuf>> {
    let mut head = Vec::new();
    File::open(file)?.take(256).read_to_end(&mut head)?;
    let line = head.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next());
    let word = line.and_then(|line| line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()));
    Ok(word.map(|word| PathBuf::from(OsStr::from_bytes(word))))
}

/// The absolute path that a call names, its links not followed.
fn path(told: &Told, memory: &File, place: At) -> io::Result<PathBuf> {
    let mut bytes = vec![0u8; PATH];
    let read = memory.read_at(&mut bytes, argument(told, place.path))?;
    let text = bytes.get(..read).unwrap_or(&bytes).split(|byte| *byte == 0).next().unwrap_or(&[]);
    let path = Path::new(OsStr::from_bytes(text));
    // An empty one names nothing.
    if path.is_absolute() || text.is_empty() {
        return Ok(path.to_owned());
    }
    // The low half is the descriptor; the kernel ignores the rest.
    let directory = place.directory.map(|at| argument(told, at) as u32 as i32);
    let base = match directory.filter(|fd| *fd != libc::AT_FDCWD) {
        None => format!("/proc/{}/cwd", told.pid),
        Some(fd) => format!("/proc/{}/fd/{fd}", told.pid),
    };
    Ok(std::fs::read_link(base)?.join(path))
}

fn argument(told: &Told, at: usize) -> u64 {
    told.args.get(at).copied().unwrap_or(0)
}

/// Bytes at an address.
fn number<const N: usize>(memory: &File, address: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    memory.read_exact_at(&mut bytes, address).map(|()| bytes)
}

/// The port of an internet address (ip(7)): the same place in both families.
fn port(memory: &File, address: u64) -> io::Result<Option<u16>> {
    let [low, high, first, second] = number::<4>(memory, address)?;
    let family = i32::from(u16::from_ne_bytes([low, high]));
    let internet = family == libc::AF_INET || family == libc::AF_INET6;
    Ok(internet.then(|| u16::from_be_bytes([first, second])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_are_told_apart_by_their_flags() {
        let of = |flags: i32| what(libc::SYS_openat, Some(flags as u64));
        assert_eq!(of(libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY), Some(Use::Read));
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC] {
            assert_eq!(of(flags), Some(Use::Write), "{flags:#o}");
        }
        assert_eq!(of(libc::O_PATH), None, "no right stands for it");
        assert_eq!(what(libc::SYS_unlink, None), Some(Use::Write));
        assert_eq!(what(libc::SYS_openat2, None), None, "unreadable flags");
    }

    #[test]
    fn packets_are_bounded_and_lose_nothing() {
        let touched: Vec<Touch> = (0..2000).map(|n| Touch::Read(format!("/{n:0>100}"))).collect();
        let parts = parts(touched.clone());
        assert!(parts.len() > 10 && parts.iter().all(|part| part.len() * 101 <= PACKET + PATH));
        assert_eq!(parts.concat(), touched);
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let keep = tempfile::tempdir().unwrap();
        let file = keep.path().join("script");
        std::fs::write(&file, "#! /usr/bin/env -S python3 -u\nprint()\n").unwrap();
        assert_eq!(interpreter(&file).unwrap(), Some(PathBuf::from("/usr/bin/env")));
        std::fs::write(&file, "\x7fELF").unwrap();
        assert_eq!(interpreter(&file).unwrap(), None);
    }

    #[test]
    fn a_path_settles_where_the_file_is() {
        let keep = tempfile::tempdir().unwrap();
        let base = keep.path().canonicalize().unwrap();
        std::fs::write(base.join("file"), "").unwrap();
        std::os::unix::fs::symlink(base.join("file"), base.join("link")).unwrap();
        assert_eq!(settled(&base.join("link"), Use::Read, 1), Some(base.join("file")));
        assert_eq!(settled(&base.join("new"), Use::Read, 1), None);
        assert_eq!(settled(&base.join("new"), Use::Write, 1), Some(base.join("new")));
        assert_eq!(settled(&base.join("file"), Use::Execute, 1), None, "no program");
        assert_eq!(settled(Path::new("/dev/stdin"), Use::Read, 1), None);
    }
}
