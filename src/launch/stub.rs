//! The supervisor of one run: confined before it knows the command, alone with its tree.
//!
//! Forked by the launcher ahead of time. It enters a Landlock domain of its own (signal and abstract
//! socket scope), forbids writable-and-executable memory, installs the profile's system-call filter,
//! and waits. One request later it starts the command in a nested domain, owns deadline and kill,
//! reports, and ends. A closed socket means that the server is gone: everything is killed.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;

use super::leaf::Leaf;
use super::listen::Listener;
use super::observe::{self, Ears};
use super::scratch::Scratch;
use super::step::{named, step, that, unmet};
use super::tree;
use super::wire::{self, Ended, EndedBy, Failure, FromStub, Met, Packet, RunRequest};
use crate::config::Switch;
use crate::sandbox::filter::Insn;
use crate::sandbox::landlock;
use crate::sandbox::profile::Profile;
use crate::sandbox::rlimits;
use crate::sys::{self, ChildError, ChildPlan, Door, Limit, WaitStatus};

/// Most processes that are reaped before the deadline is looked at again.
const REAP: usize = 256;

/// The loader of this architecture, whoever links it.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// How long an answer may wait for the removal of the scratch directory.
const CLEAN: Duration = Duration::from_millis(50);

/// What a stub gets from the launcher.
pub(super) struct Stub<'a> {
    /// Its end of the pair.
    pub(super) socket: OwnedFd,
    /// The profile it is confined for.
    pub(super) profile: &'a Profile,
    /// The profile's filter.
    pub(super) filter: &'a [Insn],
    /// What marks the start of the command for the filter.
    pub(super) mark: u32,
    /// Workspace root as the launcher's mounts show it.
    pub(super) root: &'a OwnedFd,
    /// Every mount of the workspace is read-only, by the launcher's own doing.
    pub(super) read_only: bool,
    /// The workspace is an overlay, where a directory is not the one that was judged but a copy of it.
    pub(super) throw_away: bool,
    /// Its scratch directory.
    pub(super) scratch: Option<Scratch>,
    /// The cgroup of its command.
    pub(super) leaf: Option<Leaf>,
    /// Its maker, which kills what it leaves should it die.
    pub(super) launcher: Pid,
}

/// A command that ends sooner is told of once, by its end: a message less for each of many short ones.
const SHORT: Duration = Duration::from_millis(1);

/// Runs of one supervisor, at most.
const RUNS: u32 = 1000;

/// A supervisor that is confined, whoever its command is.
struct Confined {
    /// Landlock ruleset of commands.
    ruleset: OwnedFd,
    signals: SignalFd,
    ears: Ears,
}

impl Stub<'_> {
    /// Confines itself and serves one run after the other, as long as none leaves anything behind; the
    /// process ends afterwards.
    pub(super) fn serve(mut self) {
        let Ok(socket) = self.socket.try_clone() else { return };
        let socket = socket.as_fd();
        let say = |message: &FromStub| wire::send(socket, message, &[], &[]);
        // Nobody to tell when this fails too: the closed socket tells it.
        let failed = |failure| drop(say(&FromStub::Failed(failure)));
        let mut confined = match self.confine() {
            Ok(confined) => confined,
            Err(failure) => return failed(failure),
        };
        for run in 1..=RUNS {
            // The command's process, behind all that its supervisor is behind.
            let procs = self.leaf.as_ref().map(Leaf::procs);
            let door = match Door::make(confined.ruleset.as_fd(), procs).map_err(of_child) {
                Ok(door) => door,
                Err(failure) => return failed(failure),
            };
            // Said once: the server takes it back without, and learns of a failure as any answer.
            let told = if run == 1 {
                self.rehearse();
                say(&FromStub::Ready)
            } else {
                Ok(())
            };
            let asked = told.and_then(|()| wire::recv::<RunRequest>(socket));
            let Ok(Some(packet)) = asked else {
                // Nobody would answer it: with the listener gone a forbidden call fails at once.
                drop((door, confined));
                return self.clean();
            };
            let end = match self.run(packet, door, &mut confined, socket) {
                Ok(mut end) => {
                    for part in observe::parts(std::mem::take(&mut end.touched)) {
                        drop(say(&FromStub::Touched(part))); // a server that is gone needs none
                    }
                    let again = run < RUNS && end.left == 0 && self.renew();
                    FromStub::Ended { end, again }
                }
                Err(failure) => FromStub::Failed(failure),
            };
            if !matches!(end, FromStub::Ended { again: true, .. }) {
                drop(confined); // as above
                self.clean();
                return drop(say(&end));
            }
            if say(&end).is_err() {
                drop(confined);
                return self.clean(); // the server is gone
            }
        }
    }

    /// Whether another run finds nothing that this one has left. Not with a group of its own, whose counters
    /// are this run's, not after a recorded one, and not without a launcher.
    fn renew(&mut self) -> bool {
        let recorded = self.profile.recorded.is_some();
        if self.leaf.is_some() || recorded || nix::unistd::getppid() != self.launcher {
            return false;
        }
        let Some(scratch) = &self.scratch else { return true };
        match scratch
            .is_untouched()
            .and_then(|same| if same { scratch.renewed().map(Some) } else { Ok(None) })
        {
            Ok(Some(renewed)) => {
                self.scratch = Some(renewed);
                true
            }
            // What is wrong with it shows when it is removed.
            Ok(None) | Err(_) => false,
        }
    }

    /// Device and inode of each loader that a program of the profile may be loaded with.
    fn loaders(&self) -> Vec<(u64, u64)> {
        let known =
            std::iter::once(Path::new(LOADER)).chain(self.profile.loaders.iter().map(PathBuf::as_path));
        // One that is not there cannot be started.
        known.flat_map(std::fs::metadata).map(|file| (file.dev(), file.ino())).collect()
    }

    /// Removal here comes before the answer, so it has little time; what it cannot remove the launcher
    /// removes, unfiltered, when this process has ended.
    fn clean(&self) {
        if let Some(scratch) = &self.scratch {
            drop(scratch.remove(Some(Instant::now() + CLEAN)));
        }
    }

    fn confine(&self) -> Result<Confined, Failure> {
        step!("setsid", nix::unistd::setsid())?;
        step!("child_subreaper", nix::sys::prctl::set_child_subreaper(true))?;
        // All of them: the kernel itself sends SIGHUP to an orphaned process group, and no domain
        // holds that back. The command starts with an empty mask.
        step!("signal_mask", SigSet::all().thread_block())?;
        step!("rlimits", rlimits::set_common(self.profile.has(Switch::Ipc)))?;
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = step!("signalfd", SignalFd::with_flags(&mask, flags))?;
        let scratch = self.scratch.as_ref().map(Scratch::path);
        let command =
            step!("landlock", landlock::command(self.profile, self.root.as_fd(), scratch, self.read_only))?;
        let scopes = step!("landlock", landlock::scopes())?;
        step!("landlock", sys::landlock_restrict_self(&scopes))?;
        if !self.profile.has(Switch::Jit) {
            step!("memory_deny_write_execute", sys::restrict_memory_execution())?;
        }
        let loaders = self.loaders();
        let install = || step!("seccomp", sys::seccomp_install(self.filter));
        let ears = match &self.profile.recorded {
            None => Ears::Own(Box::new(Listener::new(install()?, loaders))),
            Some(recorded) => observe::start(recorded, &self.profile.workspace, scratch, loaders, install)?,
        };
        Ok(Confined { ruleset: command, signals, ears })
    }

    fn run(
        &self,
        packet: Packet<RunRequest>,
        door: Door,
        confined: &mut Confined,
        socket: BorrowedFd<'_>,
    ) -> Result<Ended, Failure> {
        let Confined { signals, ears, .. } = confined;
        let Packet { header: request, blob, fds } = packet;
        let three = fds.try_into().map_err(|_| unmet(0, "three descriptors expected"));
        let stdio: [OwnedFd; 3] = step!("stdio", three)?;
        door.knock();
        let cwd = self.open_cwd(&request)?;
        pinned(&request.program, request.pin)?;
        let laid = self.lay_out(&request, &blob)?;
        let started = Instant::now();
        let stdin_to_stderr = [stdio[0].as_raw_fd(), stdio[1].as_raw_fd(), stdio[2].as_raw_fd()];
        let plan = laid.plan(stdin_to_stderr, cwd.as_raw_fd(), self.mark);
        let deadline = started + Duration::from_millis(request.timeout_ms);
        let is_over = || Instant::now() >= deadline || is_told(socket);
        let pid = door.open(&plan, is_over).map_err(of_child)?;
        drop(stdio); // or the server would never read an end of file
        let bounds = (started, deadline, Duration::from_millis(request.grace_ms));
        let mut ended = supervise(pid, bounds, signals, ears, socket, self.leaf.as_ref());
        ended.met = Met { scratch_full: self.scratch.as_ref().is_some_and(Scratch::is_full), ..ended.met };
        Ok(ended)
    }

    /// The words of a request as the kernel takes them.
    fn lay_out(&self, request: &RunRequest, blob: &[u8]) -> Result<Laid, Failure> {
        let mut argv = step!("argv", wire::split(blob))?;
        let mut env = argv.split_off(request.argc.min(argv.len()));
        self.scratch_environment(&mut env);
        let program = step!("execve", CString::new(request.program.as_os_str().as_bytes()))?;
        let limit = |(resource, value): &(u32, u64)| Limit { resource: *resource, value: *value };
        Ok(Laid { program, argv, env, limits: request.limits.iter().map(limit).collect() })
    }

    /// Goes once through what a request will need, so that the pages that a new process has to copy or to
    /// map for it are there when it comes.
    fn rehearse(&self) {
        let request = RunRequest { argc: 1, limits: vec![(0, 0); 16], ..RunRequest::default() };
        let packet = serde_json::to_vec(&request);
        let read = packet.is_ok_and(|packet| serde_json::from_slice::<RunRequest>(&packet).is_ok());
        if let Ok(laid) = self.lay_out(&request, b"program\0NAME=value\0") {
            sys::rehearse(&laid.plan([3; 3], 3, self.mark));
        }
        let end = Ended { wall_us: u64::from(Instant::now().elapsed().subsec_micros()), ..Ended::default() };
        let told = serde_json::to_vec(&FromStub::Ended { end, again: true }).is_ok();
        std::hint::black_box((read, told));
    }

    /// Opens the judged directory again through the launcher's mounts and compares it.
    fn open_cwd(&self, request: &RunRequest) -> Result<OwnedFd, Failure> {
        let path = if request.cwd.as_os_str().is_empty() { Path::new(".") } else { request.cwd.as_path() };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let cwd = step!("chdir", openat2(self.root, path, how))?;
        let stat = step!("chdir", nix::sys::stat::fstat(&cwd))?;
        let same = self.throw_away || (stat.st_dev, stat.st_ino) == request.cwd_pin;
        step!("chdir", that(same, libc::ESTALE, "the directory was replaced after it was judged"))?;
        Ok(cwd)
    }

    /// `HOME` and `TMPDIR` are the scratch directory unless the policy sets them.
    fn scratch_environment(&self, env: &mut Vec<CString>) {
        let home =
            self.scratch.as_ref().map_or(Path::new("/nonexistent"), Scratch::path).as_os_str().as_bytes();
        for name in super::SCRATCH_VARIABLES.map(str::as_bytes) {
            if !env.iter().any(|entry| entry.as_bytes().starts_with(name))
                && let Ok(entry) = CString::new([name, home].concat())
            {
                env.push(entry);
            }
        }
    }
}

/// A command in the forms of the kernel.
struct Laid {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    limits: Vec<Limit>,
}

impl Laid {
    fn plan(&self, stdio: [RawFd; 3], cwd: RawFd, mark: u32) -> ChildPlan<'_> {
        let (program, argv, env, limits) = (&*self.program, &*self.argv, &*self.env, &*self.limits);
        ChildPlan { program, argv, env, stdio, cwd, limits, mark: mark.into() }
    }
}

/// The failure of a step of the child.
fn of_child(error: ChildError) -> Failure {
    named(error.step.as_str(), &unmet(error.errno, Errno::from_raw(error.errno).desc()))
}

/// Whether the server says something: it wants the end, or is gone.
fn is_told(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::POLLIN)];
    ppoll(&mut fds, Some(TimeSpec::from_duration(Duration::ZERO)), None).is_ok_and(|ready| ready > 0)
}

/// The program file must still be the one that was resolved when the policy loaded.
fn pinned(program: &Path, pin: (u64, u64)) -> Result<(), Failure> {
    let now = step!("execve", std::fs::metadata(program))?;
    let text = format!("{} was replaced after the policy was loaded: reload the policy", program.display());
    step!("pin", that((now.dev(), now.ino()) == pin, libc::ESTALE, text))
}

/// Waits for the end, whoever brings it, and leaves no descendant. With a grace, all are asked to end before
/// they are killed, unless nobody is left who would wait for it.
fn supervise(
    pid: Pid,
    (started, mut deadline, grace): (Instant, Instant, Duration),
    signals: &SignalFd,
    ears: &mut Ears,
    socket: BorrowedFd<'_>,
    leaf: Option<&Leaf>,
) -> Ended {
    let mut end =
        Tally { pid: pid.as_raw(), ended: None, user: Duration::ZERO, system: Duration::ZERO, max_rss: 0 };
    let mut by = EndedBy::Itself;
    let mut more = false;
    let mut told = Some(started + SHORT);
    while end.ended.is_none() {
        let now = Instant::now();
        let mut left = deadline.saturating_duration_since(now);
        if left.is_zero() {
            if by != EndedBy::Itself || grace.is_zero() {
                by = if by == EndedBy::Itself { EndedBy::Timeout } else { by };
                break;
            }
            (by, deadline) = (EndedBy::Timeout, now + grace);
            tree::ask_all_to_end();
            continue;
        }
        if let Some(when) = told {
            left = left.min(when.saturating_duration_since(now));
            if left.is_zero() {
                told = None;
                // A server that is gone is noticed by the poll below.
                drop(wire::send(socket, &FromStub::Started { pid: pid.as_raw() }, &[], &[]));
                continue;
            }
        }
        let again = std::mem::take(&mut more);
        let wait = TimeSpec::from_duration(if again { Duration::ZERO } else { left });
        // Where another thread listens, the socket stands in.
        let heard_by = ears.fd().unwrap_or(socket);
        // What the server says once it has said that it wants the end stays unread: only that it is gone counts.
        let asked = if by == EndedBy::Itself { PollFlags::POLLIN } else { PollFlags::empty() };
        let listened = if ears.fd().is_some() { PollFlags::POLLIN } else { asked };
        let mut fds = [(socket, asked), (signals.as_fd(), PollFlags::POLLIN), (heard_by, listened)]
            .map(|(fd, events)| PollFd::new(fd, events));
        // EINTR and a full timeout both lead back to the checks above.
        if ppoll(&mut fds, Some(wait), None).is_err() {
            continue;
        }
        let gone = fds.first().is_some_and(|fd| fd.revents().is_some_and(|e| e.contains(PollFlags::POLLHUP)));
        let [from_server, child, heard] = fds.map(|fd| fd.any() == Some(true));
        if heard {
            ears.serve();
        }
        if child || again {
            let _: nix::Result<_> = signals.read_signal();
            more = end.reap();
        }
        if end.ended.is_none() && from_server {
            by = if by == EndedBy::Itself { EndedBy::Kill } else { by };
            if gone || grace.is_zero() {
                break;
            }
            deadline = Instant::now() + grace;
            tree::ask_all_to_end();
        }
    }
    let wall = started.elapsed();
    let running = u32::from(end.ended.is_none());
    let heard = ears.heard();
    if let Some(leaf) = leaf {
        leaf.kill();
    }
    let swept = tree::kill_all(|status| end.count(status));
    let (code, signal) = end.ended.unwrap_or((None, None));
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    Ended {
        pid: pid.as_raw(),
        code,
        signal,
        by,
        killed: swept.killed.saturating_sub(running),
        left: swept.left,
        wall_us: micros(wall),
        user_us: micros(end.user),
        system_us: micros(end.system),
        max_rss: end.max_rss,
        denied: heard.denied,
        executions: heard.starts,
        executed: heard.started,
        loader_runs: heard.loaded,
        touched: heard.touched,
        met: leaf.map_or_else(Met::default, Leaf::met),
    }
}

/// What was reaped so far.
struct Tally {
    pid: i32,
    ended: Option<(Option<i32>, Option<i32>)>,
    user: Duration,
    system: Duration,
    max_rss: u64,
}

impl Tally {
    fn count(&mut self, status: &WaitStatus) {
        self.user += status.user;
        self.system += status.system;
        self.max_rss = self.max_rss.max(status.max_rss);
        if status.pid == self.pid {
            self.ended = Some((status.code, status.signal));
        }
    }

    /// Reaps what has ended, orphans of the command included, but no more than a batch: a command that
    /// forks faster than this reaps must not keep its supervisor from the deadline. Says whether to
    /// come back.
    fn reap(&mut self) -> bool {
        for _ in 0..REAP {
            let Ok(Some(status)) = sys::wait_any(false) else { return false };
            self.count(&status);
        }
        true
    }
}
