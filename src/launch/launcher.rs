//! The launcher process: this executable started again with an empty environment, one thread, no
//! secret. It forks stubs on request and sweeps up after one that died.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::confine::{confine, failure};
use super::scratch::Scratch;
use super::stub::Stub;
use super::wire::{self, Facts, Failure, FromLauncher, Setup, ToLauncher};
use crate::sandbox::filter::{self, Insn};
use crate::sandbox::profile::Profile;
use crate::sandbox::syscalls;
use crate::sys;

fn io(step: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |e| failure(step, &e, e.raw_os_error().unwrap_or(0))
}

fn nx(step: &'static str) -> impl Fn(nix::errno::Errno) -> Failure {
    move |e| failure(step, &e, e as i32)
}

/// Serves on descriptor 0 until the server closes its end.
pub(super) fn serve() {
    // A launcher in an unknown state must not go on: no unwinding.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("cofferdam launcher: {info}");
        std::process::abort();
    }));
    let (control, signals) = match prepare() {
        Ok(ready) => ready,
        Err(e) => return eprintln!("cofferdam launcher: {}", e.message),
    };
    let answer = |message: &FromLauncher| wire::send(control.as_fd(), message, &[], &[]);
    let Ok(Some(packet)) = wire::recv::<Setup>(control.as_fd()) else { return };
    let setup = packet.header;
    let ready = confine(&setup).and_then(|facts| {
        nix::sys::prctl::set_dumpable(false).map_err(nx("dumpable"))?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(&setup.workspace, flags, Mode::empty()).map_err(nx("workspace"))?;
        Ok((facts, root))
    });
    match ready {
        Err(e) => drop(answer(&FromLauncher::Failed(e))),
        Ok((facts, root)) => {
            if answer(&FromLauncher::Ready(facts.clone())).is_ok() {
                Launcher { control, signals, facts, root, profiles: HashMap::new(), stubs: HashMap::new() }
                    .serve();
            }
        }
    }
}

/// Leaves everything behind that came with the process: descriptors, signals, session, core dumps.
fn prepare() -> Result<(OwnedFd, SignalFd), Failure> {
    sys::close_from(3, false).map_err(io("close_range"))?;
    sys::reset_signals().map_err(io("signals"))?;
    nix::unistd::setsid().map_err(nx("setsid"))?;
    nix::sys::prctl::set_child_subreaper(true).map_err(nx("child_subreaper"))?;
    nix::unistd::chdir("/").map_err(nx("chdir"))?;
    nix::sys::stat::umask(Mode::S_IRWXG | Mode::S_IRWXO);
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(nx("setrlimit"))?;
    let stdin = std::io::stdin();
    let control = stdin.as_fd().try_clone_to_owned().map_err(io("control socket"))?;
    fcntl(&control, FcntlArg::F_GETFD).map_err(nx("control socket"))?;
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()).map_err(nx("/dev/null"))?;
    nix::unistd::dup2_stdin(&null).map_err(nx("/dev/null"))?;
    nix::unistd::dup2_stdout(&null).map_err(nx("/dev/null"))?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block().map_err(nx("signal_mask"))?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(nx("signalfd"))?;
    Ok((control, signals))
}

struct Launcher {
    control: OwnedFd,
    signals: SignalFd,
    facts: Facts,
    root: OwnedFd,
    profiles: HashMap<u32, (Profile, Vec<Insn>)>,
    stubs: HashMap<i32, Option<Scratch>>,
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
                return; // stubs notice the closed sockets of the server by themselves
            }
        }
    }

    /// Handles one request; false when the server is gone.
    fn answer(&mut self) -> bool {
        let Ok(Some(packet)) = wire::recv::<ToLauncher>(self.control.as_fd()) else { return false };
        let ToLauncher::Stub { id, profile } = packet.header;
        match self.stub(id, profile) {
            Ok(Some(socket)) => {
                wire::send(self.control.as_fd(), &FromLauncher::Stub, &[], &[socket.as_raw_fd()]).is_ok()
            }
            Ok(None) => false, // this is the forked stub, its work done
            Err(e) => wire::send(self.control.as_fd(), &FromLauncher::Failed(e), &[], &[]).is_ok(),
        }
    }

    /// Forks a stub and returns the server's end of its socket; `None` in the stub when it is done.
    fn stub(&mut self, id: u32, profile: Option<Box<Profile>>) -> Result<Option<OwnedFd>, Failure> {
        if let Some(profile) = profile {
            let filter = filter::compile(&syscalls::table(profile.switches()));
            let filter = filter.map_err(|e| failure("seccomp", &e, 0))?;
            self.profiles.insert(id, (*profile, filter));
        }
        let Some((profile, filter)) = self.profiles.get(&id) else {
            return Err(failure("profile", &format!("unknown profile {id}"), 0));
        };
        let scratch =
            self.facts.scratch.as_deref().map(Scratch::create).transpose().map_err(io("scratch"))?;
        let (server, own) = sys::socketpair().map_err(io("socketpair"))?;
        // SAFETY: the launcher has one thread.
        match unsafe { sys::fork() }.map_err(io("fork"))? {
            Some(pid) => {
                self.stubs.insert(pid.as_raw(), scratch);
                Ok(Some(server))
            }
            None => {
                drop(server);
                // The control socket must not live on in a stub: the server would miss the launcher's end.
                drop(std::mem::replace(&mut self.control, own.try_clone().map_err(io("stub"))?));
                Stub { socket: own, profile, filter, root: &self.root, scratch: scratch.as_ref() }.serve();
                Ok(None)
            }
        }
    }

    /// Reaps ended stubs and whatever a dead one left behind.
    fn reap(&mut self) {
        while let Ok(Some(status)) = sys::wait_any(false) {
            let Some(scratch) = self.stubs.remove(&status.pid) else { continue };
            if status.signal.is_some() {
                self.kill_orphans();
            }
            if let Some(scratch) = scratch.filter(|s| s.path().exists()) {
                // In a process of its own: the content is hostile and may take long.
                // SAFETY: the launcher has one thread.
                match unsafe { sys::fork() } {
                    Ok(None) => {
                        let removed = scratch.remove();
                        if let Err(e) = &removed {
                            eprintln!("cofferdam launcher: removing {}: {e}", scratch.path().display());
                        }
                        std::process::exit(i32::from(removed.is_err()))
                    }
                    Ok(Some(pid)) => drop(self.stubs.insert(pid.as_raw(), None)),
                    Err(e) => {
                        eprintln!("cofferdam launcher: removing {}: fork: {e}", scratch.path().display())
                    }
                }
            }
        }
    }

    /// A stub that was killed from outside leaves its tree to us (child subreaper): kill what is not
    /// a stub until nothing is left.
    fn kill_orphans(&self) {
        let list = format!("/proc/self/task/{}/children", nix::unistd::gettid());
        for _ in 0..1000 {
            let text = match std::fs::read_to_string(&list) {
                Ok(text) => text,
                Err(e) => return eprintln!("cofferdam launcher: reading {list} to find orphans failed: {e}"),
            };
            let children = text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
            let orphans: Vec<i32> = children.filter(|pid| !self.stubs.contains_key(pid)).collect();
            if orphans.is_empty() {
                return;
            }
            for pid in orphans {
                let pid = Pid::from_raw(pid);
                // Gone already is as good.
                let _: nix::Result<()> = kill(pid, Signal::SIGKILL);
                let _: nix::Result<_> = nix::sys::wait::waitpid(pid, None);
            }
        }
        eprintln!("cofferdam launcher: processes of a dead supervisor are left");
    }
}
