//! Attempts on the network, on other processes and on the kernel itself.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType};
use nix::unistd::Pid;

use super::execution::Arg;
use super::read::{Stop, call, call_or, step};
use super::{Scene, Tried};
use crate::sys::attempt as raw;

/// A request of the kernel's that a pipe answers, and that the filter does not list: FIOASYNC.
const FIOASYNC: u64 = 0x5452;
/// TIOCSTI: types a character into a terminal.
const TIOCSTI: u64 = 0x5412;

/// A socket of the family, type and protocol of the row.
pub(super) fn socket(_: &Scene<'_>, [family, kind, protocol]: Arg) -> Tried {
    call("socket", raw::socket(family, kind, protocol))
}

/// Connects to a server that listens on this host.
pub(super) fn connect(scene: &Scene<'_>, _: Arg) -> Tried {
    let address = (std::net::Ipv4Addr::LOCALHOST, scene.ground.port);
    call("connect", std::net::TcpStream::connect(address))
}

/// A pair of datagram sockets, which could be addressed anew to any socket of the host.
pub(super) fn datagram_pair(_: &Scene<'_>, _: Arg) -> Tried {
    let pair = nix::sys::socket::socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::empty());
    call("socketpair", pair)
}

pub(super) fn trace(scene: &Scene<'_>, _: Arg) -> Tried {
    call("ptrace", raw::ptrace_seize(scene.parent))
}

pub(super) fn read_memory(scene: &Scene<'_>, _: Arg) -> Tried {
    call("process_vm_readv", raw::read_memory_of(scene.parent))
}

pub(super) fn compare(scene: &Scene<'_>, _: Arg) -> Tried {
    call("kcmp", raw::compare(scene.parent))
}

/// Signal 0 asks for permission only. Supervisor, then server.
pub(super) fn signal(scene: &Scene<'_>, _: Arg) -> Tried {
    let mut last = Err(Stop::Failed("nobody to signal".to_owned()));
    for pid in [scene.parent, scene.ground.server] {
        // ESRCH: not even seen.
        last = call_or("kill", kill(Pid::from_raw(pid), None::<Signal>), &[Errno::ESRCH]);
        if last.is_ok() {
            return last;
        }
    }
    last
}

/// The first process of the host or container.
pub(super) fn signal_init(_: &Scene<'_>, _: Arg) -> Tried {
    call_or("kill", kill(Pid::from_raw(1), None::<Signal>), &[Errno::ESRCH])
}

pub(super) fn take_descriptor(scene: &Scene<'_>, _: Arg) -> Tried {
    let pidfd = step("pidfd_open", raw::pidfd_open(scene.parent))?;
    call("pidfd_getfd", raw::pidfd_getfd(pidfd))
}

pub(super) fn limit_of(scene: &Scene<'_>, _: Arg) -> Tried {
    call("prlimit64", raw::prlimit_of(scene.parent))
}

pub(super) fn priority_of(scene: &Scene<'_>, _: Arg) -> Tried {
    call("setpriority", raw::set_priority(scene.parent))
}

pub(super) fn affinity_of(scene: &Scene<'_>, _: Arg) -> Tried {
    let pid = Pid::from_raw(scene.parent);
    let now = step("sched_getaffinity", nix::sched::sched_getaffinity(pid))?;
    call("sched_setaffinity", nix::sched::sched_setaffinity(pid, &now))
}

pub(super) fn real_time(_: &Scene<'_>, _: Arg) -> Tried {
    call("sched_setscheduler", raw::become_real_time())
}

/// A namespace by unshare(2); the row has the flag.
pub(super) fn unshare(_: &Scene<'_>, [flag, ..]: Arg) -> Tried {
    call("unshare", nix::sched::unshare(CloneFlags::from_bits_retain(flag)))
}

pub(super) fn clone_user(_: &Scene<'_>, _: Arg) -> Tried {
    call("clone", raw::clone_flags(libc::CLONE_NEWUSER))
}

pub(super) fn mount(_: &Scene<'_>, _: Arg) -> Tried {
    let none: Option<&str> = None;
    call("mount", nix::mount::mount(none, "/", Some("none"), nix::mount::MsFlags::empty(), none))
}

pub(super) fn change_root(_: &Scene<'_>, _: Arg) -> Tried {
    call("chroot", nix::unistd::chroot("/"))
}

macro_rules! plain {
    ($($name:ident: $call:literal = $raw:ident;)*) => {
        $(pub(super) fn $name(_: &Scene<'_>, _: Arg) -> Tried {
            call($call, raw::$raw())
        })*
    };
}

plain! {
    clone3: "clone3" = clone3_empty;
    enter_namespace: "setns" = set_namespace;
    io_uring: "io_uring_setup" = io_uring;
    bpf: "bpf" = bpf;
    userfault: "userfaultfd" = userfault;
    perf: "perf_event_open" = perf_event;
    keyring: "keyctl" = keyring;
    add_key: "add_key" = add_key;
    shared_memory: "shmget" = shared_memory;
    load_module: "finit_module" = load_module;
    add_filter: "seccomp" = add_filter;
    watch_files: "fanotify_init" = watch_files;
}

/// Types into a terminal, if one of the descriptors or the session has one.
pub(super) fn type_into_terminal(_: &Scene<'_>, _: Arg) -> Tried {
    let mut last = Err(Stop::Failed("no descriptor".to_owned()));
    for fd in 0..3 {
        last = call_or("ioctl(TIOCSTI)", raw::control(fd, TIOCSTI), &[Errno::ENOTTY]);
        if last.is_ok() {
            return last;
        }
    }
    match OpenOptions::new().read(true).write(true).open("/dev/tty") {
        Ok(tty) => call_or("ioctl(TIOCSTI)", raw::control(tty.as_raw_fd(), TIOCSTI), &[Errno::ENOTTY]),
        Err(_) => last,
    }
}

/// A request that the pipe on descriptor 1 would take: only the filter can refuse it.
pub(super) fn unlisted_request(_: &Scene<'_>, _: Arg) -> Tried {
    call_or("ioctl(FIOASYNC)", raw::control(1, FIOASYNC), &[Errno::ENOTTY])
}

/// The same with garbage in the half that the kernel ignores (the class of CVE-2019-10063).
pub(super) fn high_bits(_: &Scene<'_>, _: Arg) -> Tried {
    call_or("ioctl(1<<32|FIOASYNC)", raw::control(1, 1 << 32 | FIOASYNC), &[Errno::ENOTTY])
}

/// By the x32 number: the filter ends the process.
pub(super) fn x32(_: &Scene<'_>, _: Arg) -> Tried {
    call("getpid by its x32 number", raw::getpid_x32())
}

/// Through the gate of 32-bit programs: the filter ends the process.
pub(super) fn gate_32_bit(_: &Scene<'_>, _: Arg) -> Tried {
    Ok(format!("int 0x80 answered {}", raw::getpid_32_bit()))
}
