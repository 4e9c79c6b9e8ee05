//! Messages between server, launcher and stubs: one JSON header and raw bytes a packet.
//!
//! Both ends are this very executable, so there is no version to negotiate. Argument vectors travel
//! as NUL-separated bytes, never as text, so that what was judged is what runs.

use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::open::OpenRequest;
use crate::config::CgroupUse;
use crate::sandbox::host::MountFlags;
use crate::sandbox::profile::Profile;
use crate::sandbox::syscalls;
use crate::sys;

/// Largest packet. Above it the kernel's default socket buffer (net.core.wmem_default) refuses.
pub(crate) const MAX_PACKET: usize = 192 * 1024;

/// First message to the launcher: how to set itself up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Workspace root, canonical.
    pub(crate) workspace: PathBuf,
    /// Whether commands may write there.
    pub(crate) write: bool,
    /// Whether `.git` at the root of a writable workspace may be written.
    pub(crate) repository_write: bool,
    /// User and group to become, when the server is root.
    pub(crate) user: Option<(u32, u32)>,
    /// Whether what commands write into the workspace goes to an overlay, gone with the launcher.
    pub(crate) throw_away: bool,
    /// Runs at once.
    pub(crate) jobs: usize,
    /// Try to get a mount namespace of its own.
    pub(crate) isolate: bool,
    /// An instance of `devpts` of its own is needed.
    pub(crate) terminals: bool,
    /// An IPC namespace of its own is needed.
    pub(crate) ipc: bool,
    /// Private scratch file systems to make: one a stub that can exist at the same time.
    pub(crate) scratch_slots: u32,
    /// Bytes of each.
    pub(crate) scratch_bytes: u64,
    /// Where the runs' cgroups are made.
    pub(crate) cgroup: CgroupUse,
    /// Memory of one run, for its cgroup.
    pub(crate) memory: u64,
    /// Processes and threads of one run, for its cgroup.
    pub(crate) processes: u64,
}

/// What the launcher found and did, stamped into records.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Landlock ABI of the kernel.
    pub landlock_abi: u32,
    /// The launcher has a mount namespace of its own.
    pub mount_namespace: bool,
    /// Why it has none.
    pub no_mount_namespace: Option<String>,
    /// Files of the workspace cannot be executed or mapped executable.
    pub workspace_noexec: bool,
    /// Directory below which each run gets its scratch directory; absent: there is none.
    pub scratch: Option<PathBuf>,
    /// Scratch file systems below it, one a run; 0: the runs share the one of the host.
    pub scratch_slots: u32,
    /// User id of commands.
    pub uid: u32,
    /// Group id of commands.
    pub gid: u32,
    /// Effective capabilities of commands, read back: 0, or nothing would be served.
    pub caps: u64,
    /// no-new-privs, read back.
    pub no_new_privs: bool,
    /// Flags of the workspace's mount, as commands see it.
    #[serde(default)]
    pub workspace_mount: Option<MountFlags>,
    /// Of the mount that holds scratch.
    #[serde(default)]
    pub scratch_mount: Option<MountFlags>,
    /// Of the usual directories.
    #[serde(default)]
    pub mounts: Vec<MountFlags>,
    /// Hard resource limits of the launcher: no command can be given more.
    pub hard_limits: Vec<(u32, u64)>,
    /// Groups of the runs, or why there are none.
    pub cgroup: GroupFacts,
}

/// What holds a run as a whole, beside the resource limits of each process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GroupFacts {
    /// The group below which each run gets one of its own.
    pub path: Option<PathBuf>,
    /// Controllers in force there, out of `memory`, `pids` and `cpu`.
    pub controllers: Vec<String>,
    /// Why it is not there, or what it lacks.
    pub reason: Option<String>,
}

impl GroupFacts {
    /// Processes and threads are counted for each run.
    #[must_use]
    pub fn counts_processes(&self) -> bool {
        self.path.is_some() && self.controllers.iter().any(|name| name == "pids")
    }

    /// The word for it in records.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match (&self.path, &self.reason) {
            (Some(_), None) => "cgroup",
            (Some(_), Some(_)) => "cgroup_partial",
            (None, _) => "rlimits",
        }
    }
}

/// Requests to the launcher after its set-up.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// Make a stub for this profile; the profile itself comes with its first use.
    Stub {
        /// Number given by the server.
        id: u32,
        /// What it is, when the launcher does not have it yet.
        profile: Option<Box<Profile>>,
        /// Drop the profiles known so far.
        forget: bool,
    },
    /// Open a file of the workspace.
    Open(OpenRequest),
}

/// Answers of the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromLauncher {
    /// Set up.
    Ready(Box<Facts>),
    /// A stub exists; its socket comes with this message.
    Stub,
    /// A file is open; it comes with this message.
    Opened,
    /// It could not be done.
    Failed(Failure),
}

/// Request to a stub; argv and environment follow as raw bytes, stdin, stdout and stderr as
/// descriptors.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunRequest {
    /// Program file.
    pub(crate) program: PathBuf,
    /// Device and inode it was pinned at.
    pub(crate) pin: (u64, u64),
    /// Working directory, relative to the workspace root.
    pub(crate) cwd: PathBuf,
    /// Device and inode of the working directory as it was judged.
    pub(crate) cwd_pin: (u64, u64),
    /// How many of the NUL-separated strings are arguments; the rest is environment.
    pub(crate) argc: usize,
    /// Wall clock in milliseconds.
    pub(crate) timeout_ms: u64,
    /// Milliseconds between SIGTERM and SIGKILL where the deadline or the server ends it; 0: SIGKILL at once.
    pub(crate) grace_ms: u64,
    /// Resource limits as (number, value).
    pub(crate) limits: Vec<(u32, u64)>,
}

/// What a stub says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromStub {
    /// Confined and waiting.
    Ready,
    /// The program was executed as this process. Not said of one that ends at once.
    Started {
        /// Its process id in the server's namespace.
        pid: i32,
    },
    /// It was not, and nothing is left.
    Failed(Failure),
    /// A part of what a recorded run touched, before its end is told.
    Touched(Vec<Touch>),
    /// It ended, and so did everything it left.
    Ended {
        /// How.
        end: Ended,
        /// Nothing of the run is left, so that another of the profile may have this supervisor.
        again: bool,
    },
}

/// Why a step failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Name of the step.
    pub(crate) step: String,
    /// errno, 0 when there is none.
    pub(crate) errno: i32,
    /// One sentence.
    pub(crate) message: String,
}

/// Who or what ended a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndedBy {
    /// The command itself.
    #[default]
    Itself,
    /// The deadline.
    Timeout,
    /// The server asked, or went away.
    Kill,
}

/// The end of a run, as its supervisor saw it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ended {
    /// Process id of the command in the server's namespace.
    pub pid: i32,
    /// Exit code, when the command exited by itself.
    pub code: Option<i32>,
    /// Signal number, when one ended it.
    pub signal: Option<i32>,
    /// Who ended it.
    pub by: EndedBy,
    /// Descendants that were still alive and were killed.
    pub killed: u32,
    /// Descendants left after the kill: 0, or the run is reported as broken.
    pub left: u32,
    /// Exec to reap in microseconds.
    pub wall_us: u64,
    /// User CPU of all reaped processes, in microseconds.
    pub user_us: u64,
    /// System CPU likewise.
    pub system_us: u64,
    /// Largest resident set of one process, in bytes.
    pub max_rss: u64,
    /// Calls that the filter forbade, the first different ones.
    pub denied: Vec<DeniedCall>,
    /// Programs that were started after the command itself, the first ones.
    pub executions: Vec<Execution>,
    /// How many there were in all.
    pub executed: u32,
    /// How many of them were the dynamic loader, run as a program.
    pub loader_runs: u32,
    /// What a recorded run touched; it comes in packets of its own.
    #[serde(skip)]
    pub touched: Vec<Touch>,
    /// Limits of the run as a whole that were met.
    pub met: Met,
}

/// One thing that a recorded run asked for and that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Touch {
    /// A file or directory was opened for reading.
    Read(String),
    /// It was opened for writing, made, moved or removed.
    Write(String),
    /// A program file was started, or is what a script is started with.
    Execute(String),
    /// It holds secrets: it was asked for and refused.
    Refused(String),
    /// A TCP port was connected to.
    Connect(u16),
    /// There was more than is kept.
    More,
}

/// What the run's cgroup and scratch directory say at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Processes that the kernel killed because the memory of the run was used up (`memory.events`).
    pub memory_kills: u64,
    /// Forks that failed because the run had all of its processes (`pids.events`).
    pub forks_refused: u64,
    /// Most memory that the run had at once (`memory.peak`).
    pub memory_peak: Option<u64>,
    /// The private scratch file system has no block or no inode left.
    pub scratch_full: bool,
}

/// A system call that was forbidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedCall {
    /// Its number (x86-64).
    pub nr: i32,
    /// How often.
    pub count: u32,
    /// Arguments of the first one, as registers.
    pub args: [u64; 6],
}

impl DeniedCall {
    /// Its name, or its number where the table has none.
    #[must_use]
    pub fn name(&self) -> String {
        syscalls::name(self.nr).map_or_else(|| format!("syscall_{}", self.nr), str::to_owned)
    }
}

impl Fidelity {
    /// The word for it in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Observed => "observed",
            Self::Mismatch => "mismatch",
        }
    }
}

/// A program that was started, or was to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Process, in the server's namespace.
    pub pid: i32,
    /// The path as it was given, shortened.
    pub path: String,
    /// The arguments, shortened.
    pub argv: Vec<String>,
    /// How far they can be trusted.
    pub fidelity: Fidelity,
}

/// How far what was read from the memory of a process can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// The kernel says the same of the process.
    Confirmed,
    /// Read before the start; another thread may have changed it since.
    Observed,
    /// The kernel says something else: the start failed, or somebody lied.
    Mismatch,
}

/// Any later message to a stub, and a closed socket, means: kill.
pub(crate) const KILL: &[u8] = b"\0\0\0\0";

/// Sends `header` and `blob` as one packet.
pub(crate) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    header: &T,
    blob: &[u8],
    fds: &[RawFd],
) -> io::Result<()> {
    let json = serde_json::to_vec(header)?;
    let len = u32::try_from(json.len()).map_err(io::Error::other)?;
    let packet = [&len.to_le_bytes()[..], &json, blob].concat();
    if packet.len() > MAX_PACKET {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    sys::send(socket, &packet, fds)
}

/// One packet taken apart.
pub(crate) struct Packet<T> {
    pub(crate) header: T,
    pub(crate) blob: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// Receives one packet; `None` when the peer closed its end.
pub(crate) fn recv<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<Packet<T>>> {
    thread_local! {
        /// Made once: to clear as much for each packet would cost more than all the rest.
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_PACKET]);
    }
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed packet");
    BUFFER.with_borrow_mut(|buffer| {
        let (len, fds) = sys::recv(socket, buffer)?;
        let Some(packet) = buffer.get(..len).filter(|p| !p.is_empty()) else { return Ok(None) };
        let (len, rest) = packet.split_first_chunk::<4>().ok_or_else(malformed)?;
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(io::Error::other)?;
        let (json, blob) = rest.split_at_checked(len).ok_or_else(malformed)?;
        Ok(Some(Packet { header: serde_json::from_slice(json)?, blob: blob.to_vec(), fds }))
    })
}

/// NUL-separated strings, each with its terminator.
pub(crate) fn join(lists: &[&[CString]]) -> Vec<u8> {
    lists.iter().flat_map(|l| l.iter()).flat_map(|s| s.as_bytes_with_nul().iter().copied()).collect()
}

/// The reverse of [`join`].
pub(crate) fn split(blob: &[u8]) -> io::Result<Vec<CString>> {
    blob.split_inclusive(|b| *b == 0)
        .map(|s| CString::from_vec_with_nul(s.to_vec()).map_err(io::Error::other))
        .collect()
}
