//! The system-call table: every call a confined command may make, as data an auditor reads in one
//! sitting. Anything that is not here is answered with ENOSYS, so that C libraries fall back.
//!
//! Sources: reviews of what git, ripgrep, coreutils, Python, compilers and Node use, and the known
//! ways around filters. Numbers are those of x86-64 (`asm/unistd_64.h`); [`crate::sandbox::filter`]
//! turns the table into BPF.

use libc as c;

/// What the filter does with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Allowed with any arguments.
    Allow,
    /// The call is forbidden: EPERM.
    Deny,
    /// Pretend that the kernel does not have it: ENOSYS, callers fall back to an older call.
    Absent,
    /// Allowed when every condition holds, else answered with this errno.
    When(&'static [Test], u16),
    /// Starts a program: allowed, and told to the supervisor unless it made the call itself.
    Execute,
    /// The same when every condition holds, else EPERM; never made by the supervisor.
    ExecuteWhen(&'static [Test]),
}

/// One condition on an argument. All but [`Test::Null`] look at the low 32 bits only: the kernel
/// ignores the high half of these arguments, so a filter that compared 64 bits could be passed with
/// garbage there (the class of CVE-2019-10063).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Argument `arg` is one of these values.
    OneOf(u8, &'static [u32]),
    /// Argument `arg` has none of these bits.
    NoBits(u8, u32),
    /// Argument `arg` masked with the second value is one of the third.
    Masked(u8, u32, &'static [u32]),
    /// Argument `arg`, a pointer, is null: all 64 bits.
    Null(u8),
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// System-call number.
    pub nr: i64,
    /// Its name, for people and for reports.
    pub name: &'static str,
    /// What happens.
    pub rule: Rule,
}

macro_rules! table {
    ($($name:ident = $nr:expr => $rule:expr),* $(,)?) => {
        &[$(Entry { nr: $nr, name: stringify!($name), rule: $rule }),*]
    };
}

macro_rules! calls {
    ($rule:expr; $($sys:ident)*) => { &[$(Entry { nr: c::$sys, name: stringify!($sys), rule: $rule }),*] };
}

/// Namespaces that `clone` could make: NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
pub const CLONE_NAMESPACES: u32 = 0x7E02_0000;

macro_rules! requests {
    ($($more:expr),* $(,)?) => {
        &[
            0x541B,      // FIONREAD
            0x5401,      // TCGETS: isatty()
            0x802C_542A, // TCGETS2
            0x5413,      // TIOCGWINSZ
            0x540F,      // TIOCGPGRP
            0x5429,      // TIOCGSID
            0x5421,      // FIONBIO
            0x5450,      // FIONCLEX
            0x5451,      // FIOCLEX
            0x5460,      // FIOQSIZE
            0x4004_9409, // FICLONE: both descriptors are already open
            0x4020_940D, // FICLONERANGE
            0x8008_6601, // FS_IOC_GETFLAGS
            0xC020_660B, // FS_IOC_FIEMAP
            // For the supervisor, which lives under this filter, too; commands never hold such a descriptor.
            0xC050_2100, // SECCOMP_IOCTL_NOTIF_RECV
            0xC018_2101, // SECCOMP_IOCTL_NOTIF_SEND
        $($more),*
        ]
    };
}

/// Terminal and file requests that only read state. `TIOCSTI` (typing into a terminal), `TIOCLINUX`
/// and everything unknown is answered with ENOTTY.
pub const IOCTLS: &[u32] = requests![];

/// With a terminal of its own, also those that make and run one. Still never `TIOCSTI` (0x5412),
/// `TIOCLINUX` (0x541C), `TIOCCONS` (0x541D), `TIOCSETD` (0x5423).
pub const IOCTLS_TERMINAL: &[u32] = requests![
    0x5402,      // TCSETS
    0x5403,      // TCSETSW
    0x5404,      // TCSETSF
    0x5409,      // TCSBRK
    0x540A,      // TCXONC
    0x540B,      // TCFLSH
    0x540E,      // TIOCSCTTY
    0x5410,      // TIOCSPGRP
    0x5411,      // TIOCOUTQ
    0x5414,      // TIOCSWINSZ
    0x5422,      // TIOCNOTTY
    0x5441,      // TIOCGPTPEER
    0x8004_5430, // TIOCGPTN
    0x4004_5431, // TIOCSPTLCK
    0x402C_542B, // TCSETS2
    0x402C_542C, // TCSETSW2
    0x402C_542D, // TCSETSF2
];

/// `prctl` operations that only describe or further restrict the caller.
pub const PRCTLS: &[u32] = &[
    1,           // PR_SET_PDEATHSIG
    2,           // PR_GET_PDEATHSIG
    3,           // PR_GET_DUMPABLE (setting it would hide the process from its supervisor)
    15,          // PR_SET_NAME
    16,          // PR_GET_NAME
    21,          // PR_GET_SECCOMP
    23,          // PR_CAPBSET_READ
    27,          // PR_GET_SECUREBITS
    29,          // PR_SET_TIMERSLACK
    30,          // PR_GET_TIMERSLACK
    37,          // PR_GET_CHILD_SUBREAPER
    38,          // PR_SET_NO_NEW_PRIVS
    39,          // PR_GET_NO_NEW_PRIVS
    41,          // PR_SET_THP_DISABLE
    42,          // PR_GET_THP_DISABLE
    66,          // PR_GET_MDWE
    0x5356_4D41, // PR_SET_VMA: names anonymous memory, used by C libraries
];

/// Allowed whatever the arguments: they act on the caller itself or on descriptors it already holds.
pub const ALLOWED: &[Entry] = calls! { Rule::Allow;
    SYS_read SYS_write SYS_open SYS_close SYS_stat SYS_fstat SYS_lstat SYS_poll SYS_lseek SYS_mmap SYS_mprotect
    SYS_munmap SYS_brk SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigtimedwait
    SYS_rt_sigqueueinfo SYS_rt_sigsuspend SYS_pread64 SYS_pwrite64 SYS_readv SYS_writev SYS_preadv SYS_pwritev
    SYS_preadv2 SYS_pwritev2 SYS_access SYS_pipe SYS_pipe2 SYS_select SYS_pselect6 SYS_ppoll SYS_sched_yield
    SYS_mremap SYS_msync SYS_mincore SYS_madvise SYS_dup SYS_dup2 SYS_dup3 SYS_pause SYS_nanosleep SYS_getitimer
    SYS_setitimer SYS_alarm SYS_getpid SYS_sendfile SYS_recvfrom SYS_recvmsg SYS_recvmmsg
    SYS_shutdown SYS_getsockname SYS_getpeername SYS_getsockopt SYS_setsockopt SYS_fork SYS_vfork
    SYS_exit SYS_exit_group SYS_wait4 SYS_waitid SYS_kill SYS_tkill SYS_tgkill SYS_rt_tgsigqueueinfo SYS_uname
    SYS_flock SYS_fsync SYS_fdatasync SYS_truncate SYS_ftruncate SYS_getdents SYS_getdents64 SYS_getcwd
    SYS_chdir SYS_fchdir SYS_rename SYS_renameat SYS_renameat2 SYS_mkdir SYS_mkdirat SYS_rmdir SYS_creat SYS_link
    SYS_linkat SYS_unlink SYS_unlinkat SYS_symlink SYS_symlinkat SYS_readlink SYS_readlinkat SYS_umask
    SYS_gettimeofday SYS_getrlimit SYS_getrusage SYS_sysinfo SYS_times SYS_getuid SYS_getgid
    SYS_geteuid SYS_getegid SYS_getresuid SYS_getresgid SYS_setpgid SYS_getpgid SYS_getpgrp SYS_getppid
    // The set*id calls are left to the kernel: without capabilities only the own ids can be set.
    SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid
    SYS_setgroups SYS_setsid SYS_getsid SYS_getgroups SYS_capget SYS_capset SYS_sigaltstack SYS_statfs SYS_fstatfs
    SYS_getpriority SYS_sched_getparam SYS_sched_getscheduler SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_sched_getaffinity SYS_sched_getattr SYS_mlock
    SYS_mlock2 SYS_munlock SYS_arch_prctl SYS_sync SYS_gettid SYS_readahead SYS_getxattr SYS_lgetxattr
    SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_time SYS_futex SYS_futex_waitv
    SYS_epoll_create SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_wait SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd
    SYS_eventfd2 SYS_signalfd SYS_signalfd4 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
    SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete SYS_clock_gettime
    SYS_clock_getres SYS_clock_nanosleep SYS_set_tid_address SYS_set_robust_list
    SYS_restart_syscall SYS_fadvise64 SYS_ioprio_get SYS_openat SYS_openat2 SYS_newfstatat SYS_faccessat
    SYS_faccessat2 SYS_splice SYS_tee SYS_sync_file_range SYS_fallocate SYS_getcpu SYS_getrandom SYS_membarrier
    SYS_copy_file_range SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_statx SYS_rseq SYS_pidfd_open
    SYS_pidfd_send_signal SYS_close_range SYS_landlock_create_ruleset SYS_landlock_add_rule
    SYS_landlock_restrict_self
};

/// Newer calls that `libc` has no constants for yet, allowed like the ones above.
pub const ALLOWED_NEW: &[Entry] = table! {
    cachestat = 451 => Rule::Allow,
    map_shadow_stack = 453 => Rule::Allow,
    futex_wake = 454 => Rule::Allow,
    futex_wait = 455 => Rule::Allow,
    futex_requeue = 456 => Rule::Allow,
    mseal = 462 => Rule::Allow,
};

/// Allowed only with harmless arguments.
pub const CONDITIONAL: &[Entry] = table! {
    // New namespaces would hand out capabilities again.
    clone = c::SYS_clone => Rule::When(&[Test::NoBits(0, CLONE_NAMESPACES)], 1),
    // Its flags lie in memory, where no filter can look: libraries fall back to clone.
    clone3 = c::SYS_clone3 => Rule::Absent,
    // A datagram pair can be re-addressed to any socket of the host.
    socketpair = c::SYS_socketpair => Rule::When(&[Test::OneOf(0, &[1]), Test::Masked(1, 0xF, &[1, 5])], 1),
    // MSG_FASTOPEN connects without connect(). An address is harmless: the only sockets there are
    // connected pairs, which ignore or refuse one.
    sendto = c::SYS_sendto => Rule::When(&[Test::NoBits(3, 0x2000_0000)], 1),
    sendmsg = c::SYS_sendmsg => Rule::When(&[Test::NoBits(2, 0x2000_0000)], 1),
    sendmmsg = c::SYS_sendmmsg => Rule::When(&[Test::NoBits(3, 0x2000_0000)], 1),
    // Anonymous executable files; MFD_NOEXEC_SEAL is not enough, the loader maps them all the same.
    memfd_create = c::SYS_memfd_create => Rule::Absent,
    ioctl = c::SYS_ioctl => Rule::When(&[Test::OneOf(1, IOCTLS)], 25),
    prctl = c::SYS_prctl => Rule::When(&[Test::OneOf(0, PRCTLS)], 1),
    personality = c::SYS_personality => Rule::When(&[Test::OneOf(0, &[0, 0xFFFF_FFFF])], 1),
    // F_SETOWN, F_SETOWN_EX and F_SETSIG send signals to others; F_SETPIPE_SZ pins kernel memory.
    fcntl = c::SYS_fcntl => Rule::When(
        &[Test::OneOf(1, &[0, 1, 2, 3, 4, 5, 6, 7, 9, 16, 36, 37, 38, 1025, 1030, 1032, 1033, 1034])], 1),
    // Of the caller only: RLIMIT_CPU on the server would be a remote kill switch.
    prlimit64 = c::SYS_prlimit64 => Rule::When(&[Test::OneOf(0, &[0])], 1),
    setrlimit = c::SYS_setrlimit => Rule::Allow,
    sched_setaffinity = c::SYS_sched_setaffinity => Rule::When(&[Test::OneOf(0, &[0])], 1),
    sched_setparam = c::SYS_sched_setparam => Rule::When(&[Test::OneOf(0, &[0])], 1),
    // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE: never a real-time class.
    sched_setscheduler = c::SYS_sched_setscheduler => Rule::When(
        &[Test::OneOf(0, &[0]), Test::OneOf(1, &[0, 3, 5])], 1),
    // The class lies in memory, where no filter can look.
    sched_setattr = c::SYS_sched_setattr => Rule::Deny,
    setpriority = c::SYS_setpriority => Rule::When(&[Test::OneOf(0, &[0]), Test::OneOf(1, &[0])], 1),
    // Of other processes, for debuggers.
    get_robust_list = c::SYS_get_robust_list => Rule::Deny,
    // Executing a descriptor: the other half of the memfd route.
    execveat = c::SYS_execveat => Rule::ExecuteWhen(&[Test::NoBits(4, 0x1000)]),
    execve = c::SYS_execve => Rule::Execute,
};

/// Changes of owner, mode, times and attributes: Landlock does not see them. A read-only profile
/// forbids them all; see [`METADATA_WRITE`] for the other one.
pub const METADATA_READ_ONLY: &[Entry] = calls! { Rule::Deny;
    SYS_chmod SYS_fchmod SYS_fchmodat SYS_chown SYS_fchown SYS_lchown SYS_fchownat SYS_utime SYS_utimes
    SYS_utimensat SYS_futimesat SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr
    SYS_fremovexattr
};

/// In a writable profile only the forms that act on an open descriptor, because opening it is what
/// Landlock judges. Opening it for reading is enough; outside of the workspace the read-only mounts of
/// the launcher refuse the change. Set-user-ID and set-group-ID bits never.
pub const METADATA_WRITE: &[Entry] = table! {
    chmod = c::SYS_chmod => Rule::Deny,
    fchmod = c::SYS_fchmod => Rule::When(&[Test::NoBits(1, 0o6000)], 1),
    fchmodat = c::SYS_fchmodat => Rule::Deny,
    chown = c::SYS_chown => Rule::Deny,
    lchown = c::SYS_lchown => Rule::Deny,
    fchown = c::SYS_fchown => Rule::Allow,
    fchownat = c::SYS_fchownat => Rule::Deny,
    utime = c::SYS_utime => Rule::Deny,
    utimes = c::SYS_utimes => Rule::Deny,
    futimesat = c::SYS_futimesat => Rule::Deny,
    // A null path (futimens) acts on the descriptor alone.
    utimensat = c::SYS_utimensat => Rule::When(&[Test::Null(1)], 1),
    setxattr = c::SYS_setxattr => Rule::Deny,
    lsetxattr = c::SYS_lsetxattr => Rule::Deny,
    fsetxattr = c::SYS_fsetxattr => Rule::Allow,
    removexattr = c::SYS_removexattr => Rule::Deny,
    lremovexattr = c::SYS_lremovexattr => Rule::Deny,
    fremovexattr = c::SYS_fremovexattr => Rule::Allow,
};

/// Forbidden by name, so that the caller reads "operation not permitted" and a report can say which.
pub const DENIED: &[Entry] = calls! { Rule::Deny;
    // The network, of any family.
    SYS_socket SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4
    // Other processes.
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_process_mrelease SYS_kcmp
    SYS_pidfd_getfd SYS_ioprio_set SYS_move_pages SYS_migrate_pages
    // Namespaces and mounts.
    SYS_unshare SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_open_tree SYS_move_mount SYS_fsopen
    SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr SYS_mknod SYS_mknodat
    // The kernel itself.
    SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load SYS_reboot SYS_swapon
    SYS_swapoff SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_iopl SYS_ioperm SYS_acct SYS_quotactl SYS_syslog
    SYS_sethostname SYS_setdomainname SYS_settimeofday SYS_clock_settime SYS_adjtimex SYS_clock_adjtime
    SYS_vhangup SYS_modify_ldt SYS_vmsplice SYS_uselib
    SYS_quotactl_fd SYS_memfd_secret
    // Keys, handles and watches that pass by path checks.
    SYS_keyctl SYS_add_key SYS_request_key SYS_fanotify_init SYS_fanotify_mark SYS_open_by_handle_at
    SYS_name_to_handle_at
    // A nested filter could only narrow, but its notification listener could stall the supervisor.
    SYS_seccomp
};

/// Module calls of old kernels, gone since Linux 2.6: named so that the table has no holes there.
pub const DENIED_OLD: &[Entry] = table! {
    create_module = 174 => Rule::Deny,
    get_kernel_syms = 177 => Rule::Deny,
    query_module = 178 => Rule::Deny,
};

/// Calls that a profile with TCP ports gets instead of the denied ones; Landlock holds the ports.
/// Protocol 0 or 6 only: MPTCP (262) passes Landlock's TCP rules.
pub const TCP: &[Entry] = table! {
    socket = c::SYS_socket => Rule::When(
        &[Test::OneOf(0, &[2, 10]), Test::Masked(1, 0xF, &[1]), Test::OneOf(2, &[0, 6])], 1),
    connect = c::SYS_connect => Rule::Allow,
};

/// inotify, for `kernel = ["watch"]`: no file rule restricts it, so it is absent otherwise.
pub const WATCH: &[Entry] = calls! { Rule::Allow;
    SYS_inotify_init SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
};

/// Queues, semaphores and shared memory, for `kernel = ["ipc"]`, in an IPC namespace of the launcher.
/// Datagram pairs stay closed: an address in sendmsg(2) lies in memory, where no filter can look.
pub const IPC: &[Entry] = table! {
    shmget = c::SYS_shmget => Rule::Allow,
    // SHM_EXEC: a second attachment would execute what the first one writes.
    shmat = c::SYS_shmat => Rule::When(&[Test::NoBits(2, 0x8000)], 1),
    shmctl = c::SYS_shmctl => Rule::Allow,
    shmdt = c::SYS_shmdt => Rule::Allow,
    semget = c::SYS_semget => Rule::Allow,
    semop = c::SYS_semop => Rule::Allow,
    semctl = c::SYS_semctl => Rule::Allow,
    semtimedop = c::SYS_semtimedop => Rule::Allow,
    msgget = c::SYS_msgget => Rule::Allow,
    msgsnd = c::SYS_msgsnd => Rule::Allow,
    msgrcv = c::SYS_msgrcv => Rule::Allow,
    msgctl = c::SYS_msgctl => Rule::Allow,
    mq_open = c::SYS_mq_open => Rule::Allow,
    mq_unlink = c::SYS_mq_unlink => Rule::Allow,
    mq_timedsend = c::SYS_mq_timedsend => Rule::Allow,
    mq_timedreceive = c::SYS_mq_timedreceive => Rule::Allow,
    mq_notify = c::SYS_mq_notify => Rule::Allow,
    mq_getsetattr = c::SYS_mq_getsetattr => Rule::Allow,
};

/// Files in memory, for `kernel = ["memfd"]`: MFD_NOEXEC_SEAL is a must, beside it only MFD_CLOEXEC and
/// MFD_ALLOW_SEALING. A caller that asks for another one hears that there is none.
pub const MEMFD: &[Entry] = table! {
    memfd_create = c::SYS_memfd_create => Rule::When(&[Test::Masked(1, !0x3, &[0x8])], 38),
};

/// Terminals, for `kernel = ["pty"]`.
pub const TERMINAL: &[Entry] = table! {
    ioctl = c::SYS_ioctl => Rule::When(&[Test::OneOf(1, IOCTLS_TERMINAL)], 25),
};

/// Numbers of the calls that the server never makes once its launcher is up: programs, other processes,
/// namespaces, mounts, the kernel, keys. Everything else is allowed; Landlock holds files and ports.
#[must_use]
pub fn server_denied() -> Vec<i64> {
    // What the runtime needs to accept connections, which was bound before, and a filter further in.
    const NEEDED: &[i64] = &[c::SYS_socket, c::SYS_connect, c::SYS_accept, c::SYS_accept4, c::SYS_seccomp];
    let calls = DENIED.iter().map(|entry| entry.nr).filter(|nr| !NEEDED.contains(nr));
    calls.chain([c::SYS_execve, c::SYS_execveat]).collect()
}

/// Calls that name a file or a peer: a recorded run tells of each.
const RECORDED: &[i64] = &[
    c::SYS_open,
    c::SYS_openat,
    c::SYS_openat2,
    c::SYS_creat,
    c::SYS_truncate,
    c::SYS_mkdir,
    c::SYS_mkdirat,
    c::SYS_rmdir,
    c::SYS_unlink,
    c::SYS_unlinkat,
    c::SYS_rename,
    c::SYS_renameat,
    c::SYS_renameat2,
    c::SYS_link,
    c::SYS_linkat,
    c::SYS_symlink,
    c::SYS_symlinkat,
    c::SYS_connect,
];

/// The table of a recorded run (`launch/observe.rs`): what names a file or a peer stands there as
/// forbidden, so that the supervisor hears of it and answers in place of the filter. Should it not, the
/// call fails.
#[must_use]
pub fn recorded(switches: Switches) -> Vec<Entry> {
    let mut all = table(switches);
    for entry in &mut all {
        if RECORDED.contains(&entry.nr) && entry.rule == Rule::Allow {
            entry.rule = Rule::Deny;
        }
    }
    all
}

/// Name of a call that a filter may tell of, in any profile.
#[must_use]
pub fn name(nr: i32) -> Option<&'static str> {
    let parts = [CONDITIONAL, METADATA_READ_ONLY, DENIED, DENIED_OLD, IPC];
    let entry = parts.into_iter().flatten().find(|entry| entry.nr == i64::from(nr))?;
    Some(entry.name.strip_prefix("SYS_").unwrap_or(entry.name))
}

/// The switches of one profile that change its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    /// Some place may be written.
    pub write: bool,
    /// TCP ports may be connected to.
    pub tcp: bool,
    /// inotify.
    pub watch: bool,
    /// System V and POSIX IPC.
    pub ipc: bool,
    /// Files in memory.
    pub memfd: bool,
    /// Terminals.
    pub pty: bool,
}

impl Switches {
    /// The parts of the table that are switched on.
    fn parts(self) -> impl Iterator<Item = &'static [Entry]> {
        let parts = [
            (self.tcp, TCP),
            (self.watch, WATCH),
            (self.ipc, IPC),
            (self.memfd, MEMFD),
            (self.pty, TERMINAL),
        ];
        parts.into_iter().filter_map(|(on, part)| on.then_some(part))
    }
}

/// The table of one profile, sorted by number, each number once.
#[must_use]
pub fn table(switches: Switches) -> Vec<Entry> {
    let metadata = if switches.write { METADATA_WRITE } else { METADATA_READ_ONLY };
    let mut all = std::collections::BTreeMap::new();
    let base = [ALLOWED, ALLOWED_NEW, CONDITIONAL, metadata, DENIED, DENIED_OLD];
    for entry in base.into_iter().chain(switches.parts()).flatten() {
        // Later parts win: a switch opens what the parts before it close.
        all.insert(entry.nr, *entry);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_stands_twice_except_where_a_switch_opens_it() {
        for (metadata, name) in [(METADATA_READ_ONLY, "read-only"), (METADATA_WRITE, "write")] {
            let mut seen = std::collections::BTreeMap::new();
            for entry in
                [ALLOWED, ALLOWED_NEW, CONDITIONAL, metadata, DENIED, DENIED_OLD].into_iter().flatten()
            {
                let earlier = seen.insert(entry.nr, entry.name);
                assert_eq!(earlier, None, "{} twice in the {name} table", entry.name);
            }
        }
    }

    #[test]
    fn both_profiles_answer_the_same_metadata_calls() {
        let numbers = |t: &[Entry]| t.iter().map(|e| e.nr).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(numbers(METADATA_READ_ONLY), numbers(METADATA_WRITE));
    }

    /// A number that two switches decide would depend on their order.
    #[test]
    fn no_two_switches_decide_one_call() {
        let all = Switches { tcp: true, watch: true, ipc: true, memfd: true, pty: true, write: false };
        let mut seen = std::collections::BTreeSet::new();
        for entry in all.parts().flatten() {
            assert!(seen.insert(entry.nr), "{} twice", entry.name);
        }
        assert_eq!(Switches::default().parts().count(), 0);
    }

    #[test]
    fn no_switch_lets_a_command_type_into_a_terminal_or_run_a_file_in_memory() {
        for request in [0x5412, 0x541C, 0x541D, 0x5423] {
            assert!(!IOCTLS.contains(&request) && !IOCTLS_TERMINAL.contains(&request), "{request:x}");
        }
        assert!(IOCTLS.iter().all(|request| IOCTLS_TERMINAL.contains(request)));
    }
}
