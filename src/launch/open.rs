//! Files of the workspace, opened by the launcher: with the identity and the mounts of commands, and with
//! nothing of the server's.
//!
//! Purpose: what a redirection names and what a pattern looks into. The kernel decides where a path leads:
//! `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)` (openat2(2)), so that no link,
//! however fast it is swapped, leads out; and only a regular file is ever handed on, cut only once it is
//! known to be one. Inputs: a directory that was judged, and a path below it. Called by `appliance/line`.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, OpenHow, ResolveFlag, fcntl};
use nix::sys::stat::{Mode, fstat};
use serde::{Deserialize, Serialize};

use super::LaunchError;
use super::client::{Inner, Launcher, lock};
use super::step::{step, that, unmet};
use super::wire::{self, Failure, FromLauncher, ToLauncher};
use crate::config::workspace::{Cwd, opened};

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenFor {
    /// `<`: to be read.
    Read,
    /// `>`: made if it is not there, emptied if it is.
    Write,
    /// `>>`: made if it is not there, written at its end.
    Append,
    /// A directory, for its names.
    List,
}

/// Request to the launcher; the path follows as raw bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenRequest {
    /// Directory, relative to the workspace root.
    directory: PathBuf,
    /// Device and inode of it as it was judged; absent: whatever is there.
    pin: Option<(u64, u64)>,
    purpose: OpenFor,
}

/// Opens files of the workspace as commands would.
#[derive(Debug, Clone)]
pub struct Opener(Arc<Inner>);

impl Launcher {
    /// What opens files for the commands of this launcher.
    #[must_use]
    pub fn opener(&self) -> Opener {
        Opener(self.inner())
    }
}

impl Opener {
    /// Opens `path` below `cwd`; blocks for as long as the file system does.
    ///
    /// # Errors
    /// The kernel's, or that it is no regular file.
    pub fn file(&self, root: &Path, cwd: &Cwd, path: &str, purpose: OpenFor) -> Result<OwnedFd, LaunchError> {
        let at = step!("chdir", fstat(cwd.fd()))?;
        let outside = |_| unmet(libc::EXDEV, "outside of the workspace");
        let directory = step!("chdir", cwd.path().strip_prefix(root).map_err(outside))?.to_owned();
        let request = OpenRequest { directory, pin: Some((at.st_dev, at.st_ino)), purpose };
        ask(&self.0, &ToLauncher::Open(request), path.as_bytes())
    }

    /// Opens the directory `path` below the root of the workspace; empty is the root.
    ///
    /// # Errors
    /// The kernel's.
    pub fn directory(&self, path: &[u8]) -> Result<OwnedFd, LaunchError> {
        let request = OpenRequest { directory: PathBuf::new(), pin: None, purpose: OpenFor::List };
        ask(&self.0, &ToLauncher::Open(request), path)
    }
}

/// Opens what is asked for below `root`. In the launcher only.
pub(super) fn open(
    root: &OwnedFd,
    throw_away: bool,
    request: &OpenRequest,
    path: &[u8],
) -> Result<OwnedFd, Failure> {
    let directory = beneath(root, &request.directory, OFlag::O_PATH | OFlag::O_DIRECTORY);
    let directory = step!("chdir", directory)?;
    if let Some(pin) = request.pin.filter(|_| !throw_away) {
        let is = step!("chdir", fstat(&directory))?;
        let same = (is.st_dev, is.st_ino) == pin;
        step!("chdir", that(same, libc::ESTALE, "the directory was replaced after it was judged"))?;
    }
    // A lease of a command, or a pipe without a reader, must not hold the launcher up.
    let nothing_waits = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let flags = match request.purpose {
        OpenFor::Read => OFlag::O_RDONLY | nothing_waits,
        OpenFor::Write => OFlag::O_WRONLY | OFlag::O_CREAT | nothing_waits,
        OpenFor::Append => OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND | nothing_waits,
        OpenFor::List => OFlag::O_RDONLY | OFlag::O_DIRECTORY,
    };
    let file = step!("open", beneath(&directory, Path::new(OsStr::from_bytes(path)), flags))?;
    if request.purpose == OpenFor::List {
        return Ok(file);
    }
    let kind = step!("open", fstat(&file))?.st_mode & libc::S_IFMT;
    step!("open", that(kind == libc::S_IFREG, libc::EINVAL, "Not a regular file"))?;
    if request.purpose == OpenFor::Write {
        step!("open", nix::unistd::ftruncate(&file, 0))?;
    }
    step!("open", fcntl(&file, FcntlArg::F_SETFL(flags & OFlag::O_APPEND)))?;
    Ok(file)
}

fn beneath(at: &OwnedFd, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let links = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let mut how =
        OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_BENEATH | links);
    if flags.contains(OFlag::O_CREAT) {
        how = how.mode(Mode::from_bits_truncate(0o666));
    }
    opened(at, path, how)
}

/// Asks the launcher for an open file.
fn ask(inner: &Inner, ask: &ToLauncher, path: &[u8]) -> Result<OwnedFd, LaunchError> {
    let gone = || LaunchError::new("launcher", 0, "the launcher process is gone: restart the server");
    let control = lock(&inner.control)?;
    step!("launcher", wire::send(control.socket.as_fd(), ask, path, &[]))?;
    let answer = step!("launcher", wire::recv::<FromLauncher>(control.socket.as_fd()));
    if answer.is_err() {
        control.hang_up(); // as for a supervisor: its answer would be taken for that of the next request
    }
    let packet = answer?.ok_or_else(gone)?;
    match packet.header {
        FromLauncher::Opened => packet.fds.into_iter().next().ok_or_else(gone),
        FromLauncher::Failed(failure) => Err(failure.into()),
        FromLauncher::Ready(_) | FromLauncher::Stub => Err(gone()),
    }
}
