//! The launcher process: this executable started again with an empty environment, one thread, no
//! secret. It forks stubs on request and sweeps up after one that died.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::confine::{confine, slot};
use super::leaf::Group;
use super::open;
use super::scratch::{self, Scratch};
use super::step::{step, that, unmet};
use super::stub::Stub;
use super::terminal;
use super::wire::{self, Facts, Failure, FromLauncher, FromStub, Setup, ToLauncher};
use crate::sandbox::filter::{self, Answer, Insn};
use crate::sandbox::needs;
use crate::sandbox::profile::Profile;
use crate::sandbox::syscalls;
use crate::sys;

/// How often and how long a scratch file system is waited for: one second in all.
const SLOT_TRIES: u32 = 200;
const SLOT_WAIT: Duration = Duration::from_millis(5);
/// How often the supervisors are looked at when the server is gone: two seconds in all.
const FINISH_TRIES: u32 = 400;

/// Serves on descriptor 0 until the server closes its end.
pub(super) fn serve() {
    // A launcher in an unknown state must not go on: no unwinding.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("cofferdam launcher: {info}");
        std::process::abort();
    }));
    let stdin = std::io::stdin();
    let (control, landlock_abi) = match enter() {
        Ok(ready) => ready,
        Err(failed) => return refuse(stdin.as_fd(), failed),
    };
    let signals = match prepare() {
        Ok(signals) => signals,
        Err(failed) => return refuse(control.as_fd(), failed),
    };
    let answer = |message: &FromLauncher| wire::send(control.as_fd(), message, &[], &[]);
    let Ok(Some(packet)) = wire::recv::<Setup>(control.as_fd()) else { return };
    let setup = packet.header;
    let ready = confine(&setup, landlock_abi).and_then(|(facts, group)| {
        step!("dumpable", nix::sys::prctl::set_dumpable(false))?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = step!("workspace", open(&setup.workspace, flags, Mode::empty()))?;
        let mut mark = [0u8; 4];
        let random = |mut file: File| file.read_exact(&mut mark);
        step!("/dev/urandom", File::open("/dev/urandom").and_then(random))?;
        if setup.write {
            // What is built in a workspace is for others, too: its own mode says for whom. Scratch is closed.
            nix::sys::stat::umask(Mode::S_IWGRP | Mode::S_IWOTH);
        }
        Ok((facts, group, root, u32::from_le_bytes(mark)))
    });
    match ready {
        Err(e) => drop(answer(&FromLauncher::Failed(e))),
        Ok((facts, group, root, mark)) => {
            if answer(&FromLauncher::Ready(Box::new(facts.clone()))).is_ok() {
                Launcher {
                    control,
                    signals,
                    facts,
                    group,
                    root,
                    throw_away: setup.throw_away,
                    profiles: HashMap::new(),
                    mark,
                    children: HashMap::new(),
                    lost: Vec::new(),
                    crammed: false,
                }
                .serve();
            }
        }
    }
}

/// Tells the server why there is no launcher; its first message is taken first, or it would not read on.
fn refuse(control: BorrowedFd<'_>, failed: Failure) {
    eprintln!("cofferdam launcher: {}", failed.message);
    drop(wire::recv::<Setup>(control));
    drop(wire::send(control, &FromLauncher::Failed(failed), &[], &[]));
}

/// Asks the kernel for what is needed, closes all descriptors but the standard ones, and gives the control
/// socket one of its own.
fn enter() -> Result<(OwnedFd, u32), Failure> {
    // A fork copies one thread: locks that another one holds would never be released in a stub.
    let threads = step!("threads", std::fs::read_dir("/proc/self/task"))?.count();
    let text = format!(
        "the launcher has {threads} threads: call cofferdam::become_launcher_if_asked() as the first thing in \
         main, before a runtime (#[tokio::main] makes one before)"
    );
    step!("threads", that(threads == 1, 0, text))?;
    let landlock_abi = step!("kernel", needs::always())?;
    step!("close_range", sys::close_from(3, false))?;
    let stdin = std::io::stdin();
    Ok((step!("control socket", stdin.as_fd().try_clone_to_owned())?, landlock_abi))
}

/// Leaves the rest behind that came with the process: standard streams, signals, session, core dumps.
fn prepare() -> Result<SignalFd, Failure> {
    step!("signals", sys::reset_signals())?;
    step!("setsid", nix::unistd::setsid())?;
    terminal::none()?;
    step!("child_subreaper", nix::sys::prctl::set_child_subreaper(true))?;
    step!("chdir", nix::unistd::chdir("/"))?;
    nix::sys::stat::umask(Mode::S_IRWXG | Mode::S_IRWXO);
    step!("setrlimit", setrlimit(Resource::RLIMIT_CORE, 0, 0))?;
    let null = step!("/dev/null", open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()))?;
    step!("/dev/null", nix::unistd::dup2_stdin(&null))?;
    step!("/dev/null", nix::unistd::dup2_stdout(&null))?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    step!("signal_mask", mask.thread_block())?;
    step!("signalfd", SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
}

struct Launcher {
    control: OwnedFd,
    signals: SignalFd,
    facts: Facts,
    /// Where the runs' own cgroups are made.
    group: Option<Group>,
    root: OwnedFd,
    throw_away: bool,
    profiles: HashMap<u32, (Profile, Vec<Insn>)>,
    /// Marks the start of a command for the filters: unknown to commands, though nothing hangs on it.
    mark: u32,
    /// Stubs, and processes that remove what one left.
    children: HashMap<i32, Child>,
    /// Scratch file systems that could not be emptied.
    lost: Vec<PathBuf>,
    /// The last request found no scratch file system.
    crammed: bool,
}

/// A process of ours.
struct Child {
    scratch: Option<Scratch>,
    /// Name of the cgroup of its command.
    leaf: Option<String>,
    /// It removes this scratch directory, and is no stub.
    cleaner: bool,
}

impl Child {
    fn base(&self) -> Option<&Path> {
        self.scratch.as_ref().and_then(Scratch::base)
    }
}

impl Launcher {
    fn serve(mut self) {
        loop {
            let mut fds = [
                PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            if poll(&mut fds, PollTimeout::NONE).is_err() {
                continue; // EINTR
            }
            let [control, child] = fds;
            let (asked, ended) = (control.any() == Some(true), child.any() == Some(true));
            if ended {
                let _: nix::Result<_> = self.signals.read_signal();
                self.reap();
            }
            if asked && !self.answer() {
                return self.finish(); // stubs notice the closed sockets of the server by themselves
            }
        }
    }

    /// With the server gone: waits for the supervisors, so that no cgroup of theirs is left. One that
    /// does not end loses its leaf's processes, and then its own life.
    fn finish(mut self) {
        if self.group.is_none() {
            return;
        }
        for round in 0..FINISH_TRIES {
            self.reap();
            if self.children.is_empty() && self.group.as_mut().is_none_or(Group::clear) {
                return;
            }
            if round == FINISH_TRIES / 2 {
                for pid in self.children.keys() {
                    let _: nix::Result<()> = kill(Pid::from_raw(*pid), Signal::SIGKILL);
                }
            }
            std::thread::sleep(SLOT_WAIT);
        }
        eprintln!("cofferdam launcher: cgroups of runs are left; the next start removes them");
    }

    /// Handles one request; false when the server is gone.
    fn answer(&mut self) -> bool {
        let Ok(Some(packet)) = wire::recv::<ToLauncher>(self.control.as_fd()) else { return false };
        let (id, profile, forget) = match packet.header {
            ToLauncher::Stub { id, profile, forget } => (id, profile, forget),
            ToLauncher::Open(request) => {
                return match open::open(&self.root, self.throw_away, &request, &packet.blob) {
                    Ok(file) => {
                        let fds = [file.as_raw_fd()];
                        wire::send(self.control.as_fd(), &FromLauncher::Opened, &[], &fds).is_ok()
                    }
                    Err(e) => wire::send(self.control.as_fd(), &FromLauncher::Failed(e), &[], &[]).is_ok(),
                };
            }
        };
        if forget {
            self.profiles.clear();
        }
        match self.stub(id, profile) {
            Ok(Some(socket)) => {
                wire::send(self.control.as_fd(), &FromLauncher::Stub, &[], &[socket.as_raw_fd()]).is_ok()
            }
            Ok(None) => std::process::exit(0), // this is the forked stub, its work done
            Err(e) => wire::send(self.control.as_fd(), &FromLauncher::Failed(e), &[], &[]).is_ok(),
        }
    }

    /// Forks a stub and returns the server's end of its socket; `None` in the stub when it is done.
    fn stub(&mut self, id: u32, profile: Option<Box<Profile>>) -> Result<Option<OwnedFd>, Failure> {
        if let Some(profile) = profile {
            let answer = Answer::Supervisor(self.mark);
            let table = if profile.recorded.is_some() { syscalls::recorded } else { syscalls::table };
            let filter = step!("seccomp", filter::compile(&table(profile.switches()), answer))?;
            self.profiles.insert(id, (*profile, filter));
        }
        let (server, own) = step!("socketpair", sys::socketpair())?;
        let scratch = self.scratch()?;
        let known = self.profiles.get(&id).ok_or_else(|| unmet(0, format!("unknown profile {id}")));
        let launcher = nix::unistd::getpid();
        let mut leaf = None;
        let forked = step!("profile", known).and_then(|known| {
            leaf = self.group.as_mut().map(Group::leaf).transpose()?;
            // SAFETY: the launcher has one thread.
            Ok((known, step!("fork", unsafe { sys::fork() })?))
        });
        let ((profile, filter), pid) = match forked {
            Ok(forked) => forked,
            Err(failed) => {
                if let (Some(group), Some(leaf)) = (&mut self.group, leaf) {
                    group.end(leaf.name);
                }
                // Empty still, and no stub will ever remove it.
                if let Some(Err(e)) = scratch.as_ref().map(|scratch| scratch.remove(None)) {
                    eprintln!("cofferdam launcher: removing the scratch directory of no run: {e}");
                    self.lost.extend(scratch.as_ref().and_then(Scratch::base).map(Path::to_path_buf));
                }
                return Err(failed);
            }
        };
        match pid {
            Some(pid) => {
                self.children
                    .insert(pid.as_raw(), Child { scratch, leaf: leaf.map(|l| l.name), cleaner: false });
                Ok(Some(server))
            }
            None => {
                drop(server);
                // The control socket must not live on in a stub: the server would miss the launcher's end.
                match step!("stub", own.try_clone()) {
                    Ok(other) => drop(std::mem::replace(&mut self.control, other)),
                    Err(failed) => {
                        // This is a stub, whatever happens: to go on as a second launcher is not for it.
                        drop(wire::send(own.as_fd(), &FromStub::Failed(failed), &[], &[]));
                        return Ok(None);
                    }
                }
                Stub {
                    socket: own,
                    profile,
                    filter,
                    mark: self.mark,
                    root: &self.root,
                    read_only: self.facts.mount_namespace
                        && self.facts.workspace_mount.as_ref().is_some_and(|mount| mount.read_only),
                    throw_away: self.throw_away,
                    scratch,
                    leaf,
                    launcher,
                }
                .serve();
                Ok(None)
            }
        }
    }

    /// A scratch directory on a file system that no other stub has, where there are such.
    fn scratch(&mut self) -> Result<Option<Scratch>, Failure> {
        let Some(place) = self.facts.scratch.clone() else { return Ok(None) };
        let create = |base: &Path| step!("scratch", Scratch::create(base).map(Some));
        if self.facts.scratch_slots == 0 {
            return create(&place);
        }
        // The one that has just ended may not be reaped yet. Whoever waited in vain has waited for all that come
        // after, or each of them would hold up the others.
        for _ in 0..if self.crammed { 1 } else { SLOT_TRIES } {
            let taken: Vec<&Path> = self.children.values().filter_map(Child::base).collect();
            let slots = (0..self.facts.scratch_slots).map(|number| slot(&place, number));
            let free = slots.filter(|slot| !taken.contains(&slot.as_path()) && !self.lost.contains(slot));
            for free in free {
                if step!("scratch", scratch::holds(&free, 0))? {
                    self.crammed = false;
                    return Ok(create(&free)?.map(Scratch::alone));
                }
            }
            // What is left in one is held by sockets of a run that has ended: at the end of any socket the
            // kernel looks for such.
            if let Err(e) = sys::socketpair() {
                eprintln!("cofferdam launcher: no sockets to end ({e}); the slots are looked at again");
            }
            std::thread::sleep(SLOT_WAIT);
            self.reap();
        }
        self.crammed = true;
        let full = "every scratch file system is in use: too many runs at once";
        step!("scratch", Err(unmet(libc::EAGAIN, full)))
    }

    /// Reaps ended stubs and whatever a dead one left behind.
    fn reap(&mut self) {
        while let Ok(Some(status)) = sys::wait_any(false) {
            let Some(child) = self.children.remove(&status.pid) else { continue };
            if status.signal.is_some() && !child.cleaner {
                self.kill_orphans();
            }
            if let (Some(group), Some(leaf)) = (&mut self.group, child.leaf) {
                group.end(leaf);
            }
            let Some(scratch) = child.scratch.filter(Scratch::is_left) else { continue };
            if child.cleaner {
                // It said why; what it could not remove must not be handed to another run.
                self.lost.extend(scratch.base().map(Path::to_path_buf));
                continue;
            }
            // In a process of its own: the content is hostile and may take long.
            // SAFETY: the launcher has one thread.
            match unsafe { sys::fork() } {
                Ok(None) => {
                    let removed = scratch.remove_left();
                    if let Err(e) = &removed {
                        eprintln!("cofferdam launcher: removing {}: {e}", scratch.path().display());
                    }
                    std::process::exit(i32::from(removed.is_err()))
                }
                Ok(Some(pid)) => {
                    self.children
                        .insert(pid.as_raw(), Child { scratch: Some(scratch), leaf: None, cleaner: true });
                }
                Err(e) => {
                    eprintln!("cofferdam launcher: removing {}: fork: {e}", scratch.path().display());
                    self.lost.extend(scratch.base().map(Path::to_path_buf));
                }
            }
        }
    }

    /// A stub that was killed from outside leaves its tree to us (child subreaper): kill what is not
    /// a stub, and all below it, until nothing is left.
    fn kill_orphans(&self) {
        for _ in 0..1000 {
            let mut tree: Vec<i32> = match children_of(nix::unistd::gettid()) {
                Ok(children) => children.into_iter().filter(|pid| !self.children.contains_key(pid)).collect(),
                Err(e) => return eprintln!("cofferdam launcher: looking for orphans failed: {e}"),
            };
            let orphans = tree.len();
            if orphans == 0 {
                return;
            }
            // Whole trees at once: what forks faster than it is killed must not outrun us.
            let mut next = 0;
            while let Some(pid) = tree.get(next).copied() {
                let pid = Pid::from_raw(pid);
                // Gone already is as good.
                let _: nix::Result<()> = kill(pid, Signal::SIGKILL);
                tree.extend(children_of(pid).into_iter().flatten()); // one that is gone has none
                next += 1;
            }
            for pid in tree.into_iter().take(orphans) {
                let _: nix::Result<_> = nix::sys::wait::waitpid(Pid::from_raw(pid), None);
            }
        }
        eprintln!("cofferdam launcher: processes of a dead supervisor are left");
    }
}

/// Children of the main thread of `pid` (proc(5), `/proc/PID/task/TID/children`).
fn children_of(pid: Pid) -> std::io::Result<Vec<i32>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    text.split_whitespace().map(|word| word.parse().map_err(std::io::Error::other)).collect()
}
