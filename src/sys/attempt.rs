//! Raw calls of `doctor`'s attempts: what a hostile program would try, each harmless when it works.
//!
//! Called by `launch/attempts` only, in a process that has one thread and no secret. Arguments are
//! chosen so that a call which is not refused changes nothing: null pointers, invalid descriptors,
//! values that are in force already.

use std::ffi::{CStr, OsStr, c_int, c_long, c_uint};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;

/// One page, for mappings.
const PAGE: usize = 4096;

fn check(result: c_long) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Calls with integers and null pointers only.
macro_rules! integer_calls {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $($value:expr),+;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name($($arg: $ty),*) -> io::Result<i64> {
            // SAFETY: integers and null pointers only, so the kernel reads and writes no memory of ours.
            check(unsafe { libc::syscall($($value as c_long),+) })
        })*
    };
}

integer_calls! {
    /// ptrace(2), PTRACE_SEIZE: unlike ATTACH it does not stop the other process.
    ptrace_seize(pid: i32) = libc::SYS_ptrace, 0x4206, pid, 0, 0;
    /// pidfd_open(2).
    pidfd_open(pid: i32) = libc::SYS_pidfd_open, pid, 0;
    /// pidfd_getfd(2): takes a copy of another process's standard input.
    pidfd_getfd(pidfd: i64) = libc::SYS_pidfd_getfd, pidfd, 0, 0;
    /// prlimit64(2) that neither reads nor writes a limit.
    prlimit_of(pid: i32) = libc::SYS_prlimit64, pid, libc::RLIMIT_NOFILE, 0, 0;
    /// setpriority(2) to the usual value.
    set_priority(pid: i32) = libc::SYS_setpriority, libc::PRIO_PROCESS, pid, 0;
    /// clone3(2) without arguments.
    clone3_empty() = libc::SYS_clone3, 0, 0;
    /// setns(2) on standard input, which is no namespace.
    set_namespace() = libc::SYS_setns, 0, 0;
    /// io_uring_setup(2) with a null parameter block.
    io_uring() = libc::SYS_io_uring_setup, 1, 0;
    /// bpf(2), BPF_MAP_CREATE without attributes.
    bpf() = libc::SYS_bpf, 0, 0, 0;
    /// userfaultfd(2).
    userfault() = libc::SYS_userfaultfd, libc::O_CLOEXEC;
    /// perf_event_open(2) with a null attribute block.
    perf_event() = libc::SYS_perf_event_open, 0, 0, -1, -1, 0;
    /// keyctl(2), KEYCTL_GET_KEYRING_ID of the session keyring.
    keyring() = libc::SYS_keyctl, 0, -3, 0;
    /// add_key(2) with null strings.
    add_key() = libc::SYS_add_key, 0, 0, 0, 0, 0;
    /// open_by_handle_at(2) with a null handle.
    open_handle() = libc::SYS_open_by_handle_at, libc::AT_FDCWD, 0, 0;
    /// name_to_handle_at(2) with a null path.
    name_handle() = libc::SYS_name_to_handle_at, libc::AT_FDCWD, 0, 0, 0, 0;
    /// shmget(2) of a segment of no size.
    shared_memory() = libc::SYS_shmget, 0, 0, 0;
    /// finit_module(2) on no descriptor.
    load_module() = libc::SYS_finit_module, -1, 0, 0;
    /// seccomp(2), SECCOMP_SET_MODE_FILTER without a filter.
    add_filter() = libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, 0;
    /// kcmp(2) of two processes' memory.
    compare(pid: i32) = libc::SYS_kcmp, pid, pid, 1, 0, 0;
    /// fanotify_init(2).
    watch_files() = libc::SYS_fanotify_init, 0, 0;
    /// getpid(2) by its x32 number.
    getpid_x32() = 0x4000_0000 | libc::SYS_getpid;
    /// prctl(2), PR_GET_SECCOMP: 2 means that a filter is in force.
    seccomp_mode() = libc::SYS_prctl, libc::PR_GET_SECCOMP, 0, 0, 0, 0;
    /// socket(2).
    socket(family: i32, kind: i32, protocol: i32) = libc::SYS_socket, family, kind | libc::SOCK_CLOEXEC, protocol;
    /// fcntl(2), F_GETFD.
    descriptor_flags(fd: i32) = libc::SYS_fcntl, fd, libc::F_GETFD, 0;
}

/// The path that this program was executed by (getauxval(3), AT_EXECFN).
pub(crate) fn own_path() -> Option<PathBuf> {
    // SAFETY: reads the auxiliary vector of this process.
    let at = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if at.is_null() {
        return None;
    }
    // SAFETY: the kernel put a NUL-terminated string there that lives as long as the process.
    let path = unsafe { CStr::from_ptr(at) };
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// getpid(2) through `int 0x80`, the gate of 32-bit programs.
pub(crate) fn getpid_32_bit() -> i64 {
    let result: i64;
    // SAFETY: the call takes no argument and touches no memory; the kernel may clobber r8 to r11.
    unsafe {
        std::arch::asm!(
            "int 0x80", inlateout("rax") 20i64 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _, options(nostack),
        );
    }
    result
}

/// clone(2) with these flags; a child that comes of it ends at once and is reaped.
pub(crate) fn clone_flags(flags: c_int) -> io::Result<i64> {
    // SAFETY: without CLONE_VM and with no stack given this is a fork; the child makes one raw call.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone, c_long::from(flags | libc::SIGCHLD), 0usize, 0usize, 0usize, 0usize)
    })?;
    if pid == 0 {
        // SAFETY: ends the child without destructors.
        unsafe { libc::_exit(0) };
    }
    waitpid(nix::unistd::Pid::from_raw(i32::try_from(pid).map_err(io::Error::other)?), None)?;
    Ok(pid)
}

/// process_vm_readv(2): one byte at the lowest address, where nothing is mapped.
pub(crate) fn read_memory_of(pid: i32) -> io::Result<i64> {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    // SAFETY: one local byte that lives over the call; the remote address is of another process.
    check(unsafe {
        libc::syscall(libc::SYS_process_vm_readv, pid, &raw const local, 1, &raw const remote, 1, 0)
    })
}

/// sched_setscheduler(2): the lowest real-time priority for the caller.
pub(crate) fn become_real_time() -> io::Result<i64> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter lives over the call.
    check(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const param) })
}

/// capset(2): asks for one capability (CAP_SYS_ADMIN) in the effective and permitted sets.
pub(crate) fn take_capability() -> io::Result<i64> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let bit = 1u32 << 21;
    let data = [bit, bit, 0, 0, 0, 0];
    // SAFETY: header and data have the layout and size of version 3 and live over the call.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) })
}

/// lsetxattr(2) of a user attribute.
pub(crate) fn set_attribute(path: &CStr) -> io::Result<i64> {
    let (name, value) = (c"user.cofferdam", b"x");
    // SAFETY: NUL-terminated strings and a value with its length, all alive.
    check(unsafe {
        libc::syscall(libc::SYS_lsetxattr, path.as_ptr(), name.as_ptr(), value.as_ptr(), value.len(), 0)
    })
}

/// chmod(2) by path.
pub(crate) fn change_mode(path: &CStr, mode: c_uint) -> io::Result<i64> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::syscall(libc::SYS_chmod, path.as_ptr(), mode) })
}

/// utimensat(2) to the present time, by path.
pub(crate) fn change_times(path: &CStr) -> io::Result<i64> {
    // SAFETY: a NUL-terminated path; null times mean now.
    check(unsafe {
        libc::syscall(libc::SYS_utimensat, libc::AT_FDCWD, path.as_ptr(), std::ptr::null::<u8>(), 0)
    })
}

/// ioctl(2) with a number as wide as a register and one byte or integer of zero as its argument.
pub(crate) fn control(fd: i32, request: u64) -> io::Result<i64> {
    let argument = [0u64; 8];
    // SAFETY: 64 bytes of zero that live over the call; the requests in use read at most an integer.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument.as_ptr()) })
}

/// execveat(2) of a descriptor by the empty path.
pub(crate) fn execute_descriptor(fd: BorrowedFd<'_>) -> io::Result<i64> {
    let argv = [c"attempt".as_ptr(), std::ptr::null()];
    let env = [std::ptr::null::<libc::c_char>()];
    // SAFETY: NUL-terminated path and null-terminated arrays, all alive.
    check(unsafe {
        libc::syscall(
            libc::SYS_execveat,
            fd.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    })
}

/// Maps `length` fresh bytes with this protection, then asks for `then` if that is given, and unmaps.
pub(crate) fn map_memory(length: usize, protection: c_int, then: Option<c_int>) -> io::Result<()> {
    map(None, length, protection, then)
}

/// Maps the first page of a file readable and executable, as a loader does.
pub(crate) fn map_executable(file: BorrowedFd<'_>) -> io::Result<()> {
    map(Some(file), PAGE, libc::PROT_READ | libc::PROT_EXEC, None)
}

fn map(
    file: Option<BorrowedFd<'_>>,
    length: usize,
    protection: c_int,
    then: Option<c_int>,
) -> io::Result<()> {
    let (fd, flags) = match file {
        Some(file) => (file.as_raw_fd(), libc::MAP_PRIVATE),
        None => (-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
    };
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let second = match then {
        // SAFETY: the mapping made above, all of it.
        Some(protection) => check(unsafe { libc::mprotect(at, length, protection) }.into()).map(drop),
        None => Ok(()),
    };
    // SAFETY: the same mapping, of which no reference exists.
    check(unsafe { libc::munmap(at, length) }.into())?;
    second
}

/// Soft and hard limit of a resource (getrlimit(2)).
///
/// # Errors
/// EINVAL for an unknown number.
pub(crate) fn limit(resource: u32) -> io::Result<(u64, u64)> {
    let mut value = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the value lives over the call.
    check(unsafe { libc::getrlimit(resource, &raw mut value) }.into())?;
    Ok((value.rlim_cur, value.rlim_max))
}

/// Sets soft and hard limit of a resource (setrlimit(2)).
pub(crate) fn set_limit(resource: u32, to: u64) -> io::Result<()> {
    let value = libc::rlimit { rlim_cur: to, rlim_max: to };
    // SAFETY: the value lives over the call.
    check(unsafe { libc::setrlimit(resource, &raw const value) }.into()).map(drop)
}

/// What a child of [`in_child`] left.
#[derive(Debug)]
pub(crate) struct ChildEnd {
    /// What it wrote; nothing when it executed another program or was killed.
    pub(crate) answer: Vec<u8>,
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
}

/// Runs `work` in a forked child, which is ended after `seconds`, and returns what it left.
///
/// # Errors
/// EAGAIN at the limit of processes and the like.
pub(crate) fn in_child(seconds: u32, work: impl FnOnce() -> Vec<u8>) -> io::Result<ChildEnd> {
    let (from, to) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    // SAFETY: the process of the attempts has one thread, so the child may allocate and lock.
    let child = match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            drop(from);
            nix::unistd::alarm::set(seconds.max(1));
            let sent = std::fs::File::from(to).write_all(&work());
            // SAFETY: ends the child without the destructors and buffers of its parent.
            unsafe { libc::_exit(i32::from(sent.is_err())) }
        }
    };
    drop(to);
    let mut answer = Vec::new();
    std::fs::File::from(from).read_to_end(&mut answer)?;
    let (code, signal) = match waitpid(child, None)? {
        WaitStatus::Exited(_, code) => (Some(code), None),
        WaitStatus::Signaled(_, signal, _) => (None, Some(signal as i32)),
        _ => (None, None),
    };
    Ok(ChildEnd { answer, code, signal })
}

/// Forks twice and gives the grandchild a session of its own: a daemon that sleeps for `seconds` or
/// until it is killed, holding the descriptors it has. Returns its process id.
///
/// # Errors
/// EAGAIN at the limit of processes.
pub(crate) fn daemon(seconds: u32) -> io::Result<i32> {
    let (from, to) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    // SAFETY: one thread; the child makes plain calls only.
    if let ForkResult::Parent { child } = unsafe { nix::unistd::fork() }? {
        drop(to);
        let mut pid = [0u8; 4];
        std::fs::File::from(from).read_exact(&mut pid)?;
        waitpid(child, None)?;
        return Ok(i32::from_le_bytes(pid));
    }
    let made = nix::unistd::setsid().and_then(|_| {
        // SAFETY: as above.
        unsafe { nix::unistd::fork() }
    });
    if let Ok(ForkResult::Child) = made {
        let pid = nix::unistd::getpid().as_raw().to_le_bytes();
        let told = nix::unistd::write(to.as_fd(), &pid);
        if told.is_ok() {
            std::thread::sleep(std::time::Duration::from_secs(seconds.into()));
        }
    }
    // SAFETY: ends a child or grandchild without the destructors and buffers of its parent.
    unsafe { libc::_exit(0) }
}
