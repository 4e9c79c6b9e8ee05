//! The attempts, as a table an auditor reads in one sitting: id, what is tried, what must come of it.

use super::execution::{self as exec, Arg};
use super::read::Expect::{self, Blocked, IfReadable, IfRoot, IfScratch, IfTcp, IfWritable, Open};
use super::{Scene, Tried, files, kernel, own};

/// What an attempt is aimed at; the table is shown in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// What may be asked for.
    Names,
    /// Files and directories.
    Files,
    /// Programs.
    Execution,
    /// Memory that becomes code.
    Memory,
    /// Sockets.
    Network,
    /// Other processes.
    Processes,
    /// The kernel itself.
    Kernel,
    /// Who a command is.
    Identity,
    /// What it may use up.
    Limits,
    /// How long it and its children live.
    Lifetime,
    /// What is recorded of it.
    Audit,
    /// The server itself.
    Server,
}

impl Layer {
    /// Its word in output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Files => "files",
            Self::Execution => "execution",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Kernel => "kernel",
            Self::Identity => "identity",
            Self::Limits => "limits",
            Self::Lifetime => "lifetime",
            Self::Audit => "audit",
            Self::Server => "server",
        }
    }
}

/// One row.
#[derive(Debug)]
pub struct Attempt {
    /// Stable name.
    pub id: &'static str,
    /// What it is aimed at.
    pub layer: Layer,
    /// What is tried, in words.
    pub what: &'static str,
    /// What must come of it.
    pub expect: Expect,
    pub(super) arg: Arg,
    pub(super) run: fn(&Scene<'_>, Arg) -> Tried,
}

const METADATA: &str = "known: Landlock does not cover it; existence, size and times of a path can be seen";
const DIRECTORY: &str = "known: Landlock does not cover it; nothing there can be read or written";
const WORK: &str = "commands read the workspace";

type Run = fn(&Scene<'_>, Arg) -> Tried;

const fn row(
    layer: Layer,
    id: &'static str,
    what: &'static str,
    expect: Expect,
    arg: Arg,
    run: Run,
) -> Attempt {
    Attempt { id, layer, what, expect, arg, run }
}

macro_rules! rows {
    ($($layer:ident { $($id:literal $what:literal $expect:expr, $run:expr $(, [$($arg:expr),+])?;)+ })+) => {
        &[$($(row(Layer::$layer, $id, $what, $expect, rows!(@ $($($arg),+)?), $run),)+)+]
    };
    (@) => { [0, 0, 0] };
    (@ $a:expr) => { [$a as i32, 0, 0] };
    (@ $a:expr, $b:expr) => { [$a as i32, $b as i32, 0] };
    (@ $a:expr, $b:expr, $c:expr) => { [$a as i32, $b as i32, $c as i32] };
}

use libc::{
    AF_ALG, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, CLONE_NEWCGROUP, CLONE_NEWIPC,
    CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, IPPROTO_ICMP, IPPROTO_MPTCP, RLIMIT_AS,
    RLIMIT_CORE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_NOFILE,
    RLIMIT_NPROC, RLIMIT_RTPRIO, RLIMIT_SIGPENDING, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM,
};

/// Every attempt that is made from inside, in the order in which it is made.
#[rustfmt::skip]
pub const TABLE: &[Attempt] = rows! {
    Files {
        "files.read" "read a file that everybody may read" IfReadable, files::read_outside;
        "files.list" "list a directory outside" IfReadable, files::list_outside;
        "files.symlink" "read it through a symbolic link in scratch" IfReadable, files::through_link;
        "files.reopen" "open it without rights, then again by /proc" IfReadable, files::reopen;
        "files.shadow" "read the password hashes" Blocked, files::read_shadow;
        "files.environ" "read the environment of supervisor and server" Blocked, files::read_environment;
        "files.create" "create a file where everybody may" Blocked, files::create_outside;
        "files.overwrite" "open for writing what everybody may write" Blocked, files::overwrite;
        "files.truncate" "cut it off" Blocked, files::truncate;
        "files.remove" "remove a file outside" Blocked, files::remove;
        "files.mkdir" "create a directory outside" Blocked, files::make_directory;
        "files.link" "make a hard link outside" Blocked, files::hard_link;
        "files.device" "make a device file in scratch" Blocked, files::device;
        "files.chmod" "change the mode of an own file outside" Blocked, files::mode;
        "files.utimes" "change its times" Blocked, files::times;
        "files.xattr" "give it an attribute" Blocked, files::attribute;
        "files.name_handle" "get a handle that passes by path checks" Blocked, files::name_handle;
        "files.open_handle" "open such a handle" Blocked, files::open_handle;
        "files.workspace" "list the workspace" Open(WORK), files::list_workspace;
        "files.workspace_write" "create a file in the workspace" IfWritable, files::create_in_workspace;
        "files.scratch" "create a file in the scratch directory" IfScratch, files::create_in_scratch;
        "files.stat" "look at a file outside" Open(METADATA), files::look_at;
        "files.chdir" "enter a directory outside" Open(DIRECTORY), files::go_outside;
    }
    Execution {
        "exec.unlisted" "execute programs that are not listed" Blocked, exec::unlisted;
        "exec.loader" "run one through the dynamic loader" Blocked, exec::loader_unlisted;
        "exec.loader_scratch" "run a copy in scratch through the loader" Blocked, exec::loader_scratch;
        "exec.loader_workspace" "run a copy in the workspace through the loader" Blocked, exec::loader_workspace;
        "exec.scratch" "execute a file in scratch" Blocked, exec::scratch;
        "exec.workspace" "execute a file in the workspace" Blocked, exec::workspace;
        "exec.map_scratch" "map a file of scratch as code" Blocked, exec::map_scratch;
        "exec.map_workspace" "map a file of the workspace as code" Blocked, exec::map_workspace;
        "exec.memfd" "make a file in memory" Blocked, exec::memfd;
        "exec.descriptor" "execute a descriptor by the empty path" Blocked, exec::empty_path;
    }
    Memory {
        "memory.wx" "map memory writable and executable" Blocked, exec::writable_and_executable;
        "memory.protect" "make written memory executable" Blocked, exec::executable_afterwards;
    }
    Network {
        "net.tcp4" "make a TCP socket (IPv4)" IfTcp, kernel::socket, [AF_INET, SOCK_STREAM];
        "net.tcp6" "make a TCP socket (IPv6)" IfTcp, kernel::socket, [AF_INET6, SOCK_STREAM];
        "net.connect" "connect to a port that the policy does not name" Blocked, kernel::connect;
        "net.udp4" "make a UDP socket (IPv4)" Blocked, kernel::socket, [AF_INET, SOCK_DGRAM];
        "net.udp6" "make a UDP socket (IPv6)" Blocked, kernel::socket, [AF_INET6, SOCK_DGRAM];
        "net.mptcp" "make an MPTCP socket" Blocked, kernel::socket, [AF_INET, SOCK_STREAM, IPPROTO_MPTCP];
        "net.ping" "make a ping socket" Blocked, kernel::socket, [AF_INET, SOCK_DGRAM, IPPROTO_ICMP];
        "net.unix" "make a Unix stream socket" Blocked, kernel::socket, [AF_UNIX, SOCK_STREAM];
        "net.unix_dgram" "make a Unix datagram socket" Blocked, kernel::socket, [AF_UNIX, SOCK_DGRAM];
        "net.dgram_pair" "make a pair of datagram sockets" Blocked, kernel::datagram_pair;
        "net.netlink" "make a netlink socket" Blocked, kernel::socket, [AF_NETLINK, SOCK_RAW];
        "net.packet" "make a packet socket" Blocked, kernel::socket, [AF_PACKET, SOCK_RAW];
        "net.vsock" "make a socket to the hypervisor" Blocked, kernel::socket, [AF_VSOCK, SOCK_STREAM];
        "net.alg" "make a socket to the kernel's cryptography" Blocked, kernel::socket, [AF_ALG, SOCK_SEQPACKET];
    }
    Processes {
        "proc.ptrace" "trace the supervisor" Blocked, kernel::trace;
        "proc.memory" "read its memory" Blocked, kernel::read_memory;
        "proc.compare" "compare it with kcmp" Blocked, kernel::compare;
        "proc.signal" "signal supervisor and server" Blocked, kernel::signal;
        "proc.signal_init" "signal process 1" Blocked, kernel::signal_init;
        "proc.take_descriptor" "take a descriptor of the supervisor" Blocked, kernel::take_descriptor;
        "proc.limits" "reach for its resource limits" Blocked, kernel::limit_of;
        "proc.priority" "set its priority" Blocked, kernel::priority_of;
        "proc.affinity" "set its processors" Blocked, kernel::affinity_of;
        "proc.real_time" "get a real-time priority" Blocked, kernel::real_time;
    }
    Kernel {
        "kernel.user_namespace" "unshare the user namespace" Blocked, kernel::unshare, [CLONE_NEWUSER];
        "kernel.mount_namespace" "unshare the mount namespace" Blocked, kernel::unshare, [CLONE_NEWNS];
        "kernel.net_namespace" "unshare the network namespace" Blocked, kernel::unshare, [CLONE_NEWNET];
        "kernel.pid_namespace" "unshare the process namespace" Blocked, kernel::unshare, [CLONE_NEWPID];
        "kernel.ipc_namespace" "unshare the IPC namespace" Blocked, kernel::unshare, [CLONE_NEWIPC];
        "kernel.cgroup_namespace" "unshare the cgroup namespace" Blocked, kernel::unshare, [CLONE_NEWCGROUP];
        "kernel.clone_user" "clone into a user namespace" Blocked, kernel::clone_user;
        "kernel.clone3" "clone3, whose flags no filter sees" Blocked, kernel::clone3;
        "kernel.setns" "enter another namespace" Blocked, kernel::enter_namespace;
        "kernel.mount" "mount a file system" Blocked, kernel::mount;
        "kernel.chroot" "change the root directory" Blocked, kernel::change_root;
        "kernel.io_uring" "system calls by io_uring, unseen by filters" Blocked, kernel::io_uring;
        "kernel.bpf" "load BPF" Blocked, kernel::bpf;
        "kernel.userfaultfd" "handle page faults of the kernel" Blocked, kernel::userfault;
        "kernel.perf" "open a performance counter" Blocked, kernel::perf;
        "kernel.keyctl" "use the keyrings" Blocked, kernel::keyring;
        "kernel.add_key" "add a key" Blocked, kernel::add_key;
        "kernel.shm" "make System V shared memory" Blocked, kernel::shared_memory;
        "kernel.module" "load a module" Blocked, kernel::load_module;
        "kernel.seccomp" "add a filter with a listener" Blocked, kernel::add_filter;
        "kernel.fanotify" "watch the file system" Blocked, kernel::watch_files;
        "kernel.terminal" "type into a terminal (TIOCSTI)" Blocked, kernel::type_into_terminal;
        "kernel.ioctl" "an ioctl that is not listed" Blocked, kernel::unlisted_request;
        "kernel.ioctl_high" "the same with garbage in the high half" Blocked, kernel::high_bits;
        "kernel.x32" "a system call by its x32 number" Blocked, kernel::x32;
        "kernel.int80" "a system call of 32-bit programs" Blocked, kernel::gate_32_bit;
    }
    Identity {
        "id.user" "run as root" IfRoot, own::user;
        "id.root" "become root" IfRoot, own::become_root;
        "id.capabilities" "hold any capability" Blocked, own::capabilities;
        "id.capset" "take a capability" Blocked, own::take_capability;
        "id.new_privs" "gain privileges by executing" Blocked, own::new_privileges;
        "id.seccomp" "run without a system-call filter" Blocked, own::unfiltered;
        "id.descriptors" "find inherited descriptors" Blocked, own::descriptors;
        "id.environment" "find inherited environment variables" Blocked, own::environment;
    }
    Limits {
        "limits.memory" "raise the address space" Blocked, own::limit, [RLIMIT_AS];
        "limits.memory_use" "use more than that" Blocked, own::too_much_memory;
        "limits.file_size" "raise the file size" Blocked, own::limit, [RLIMIT_FSIZE];
        "limits.file_use" "make a larger file" Blocked, files::too_large;
        "limits.open_files" "raise the descriptors" Blocked, own::limit, [RLIMIT_NOFILE];
        "limits.open_use" "open more" Blocked, own::too_many_descriptors;
        "limits.processes" "raise the processes" Blocked, own::limit, [RLIMIT_NPROC];
        "limits.cpu_time" "raise the CPU time" Blocked, own::limit, [RLIMIT_CPU];
        "limits.core" "raise the core dump size" Blocked, own::limit, [RLIMIT_CORE];
        "limits.locked" "raise locked memory" Blocked, own::limit, [RLIMIT_MEMLOCK];
        "limits.queues" "raise message queues" Blocked, own::limit, [RLIMIT_MSGQUEUE];
        "limits.signals" "raise queued signals" Blocked, own::limit, [RLIMIT_SIGPENDING];
        "limits.rtprio" "raise real-time priority" Blocked, own::limit, [RLIMIT_RTPRIO];
        "limits.nice" "raise priority" Blocked, own::limit, [RLIMIT_NICE];
    }
    Audit {
        "audit.log" "read the audit log or write to it" Blocked, files::audit_log;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_layers_stand_together() {
        let mut seen = std::collections::BTreeSet::new();
        assert!(TABLE.iter().all(|attempt| seen.insert(attempt.id)));
        assert!(TABLE.iter().map(|attempt| attempt.layer).is_sorted());
        assert!(TABLE.len() >= 100, "{}", TABLE.len());
    }

    #[test]
    fn every_limit_that_is_set_is_tried() {
        let tried = |resource: u32| {
            TABLE.iter().any(|row| row.layer == Layer::Limits && row.arg == [resource as i32, 0, 0])
        };
        let common = crate::sandbox::rlimits::common(false).unwrap();
        for (resource, _) in crate::sandbox::rlimits::hard().unwrap().into_iter().chain(common) {
            assert!(tried(resource), "no attempt on resource {resource}");
        }
    }
}
