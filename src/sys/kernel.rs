//! Wrappers of single system calls.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::unistd::Pid;

/// Turns the -1/errno convention of `libc` into a value.
pub(super) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Landlock ABI of the running kernel (landlock_create_ruleset(2), `LANDLOCK_CREATE_RULESET_VERSION`).
///
/// # Errors
/// ENOSYS or EOPNOTSUPP where the kernel has no Landlock or it is not enabled.
pub(crate) fn landlock_abi() -> io::Result<u32> {
    if let Some(abi) = crate::fault::value("landlock") {
        return Ok(abi);
    }
    // SAFETY: a null attribute of size 0 with flag 1 asks for the version and touches no memory.
    let abi = check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, 1u32)
    })?;
    u32::try_from(abi).map_err(io::Error::other)
}

/// Enters the domain of `ruleset` for good (landlock_restrict_self(2)). Needs no-new-privs.
///
/// # Errors
/// As the kernel says: EPERM without no-new-privs, E2BIG at the 16th layer.
pub(crate) fn landlock_restrict_self(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open for the duration of the call; flags are 0.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) }).map(drop)
}

/// Marks every descriptor from `first` on close-on-exec, or closes them (close_range(2)).
///
/// # Errors
/// ENOSYS before Linux 5.9 (5.11 for the flag).
pub(crate) fn close_from(first: u32, only_on_exec: bool) -> io::Result<()> {
    let flags = if only_on_exec { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: descriptors are closed or marked; callers hold no owned descriptor at or above `first`
    // when closing (the launcher calls it before it owns any).
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Makes memory that is or was writable non-executable for good (PR_SET_MDWE, Linux 6.3; inherited).
///
/// # Errors
/// EINVAL on older kernels.
pub(crate) fn restrict_memory_execution() -> io::Result<()> {
    const PR_SET_MDWE: libc::c_int = 65;
    const REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    // SAFETY: takes integers only.
    check(
        unsafe {
            libc::prctl(
                PR_SET_MDWE,
                REFUSE_EXEC_GAIN,
                0 as libc::c_ulong,
                0 as libc::c_ulong,
                0 as libc::c_ulong,
            )
        }
        .into(),
    )
    .map(drop)
}

/// Gives every signal its default action and unblocks all: blocked and ignored signals survive exec.
///
/// # Errors
/// As the kernel says.
pub(crate) fn reset_signals() -> io::Result<()> {
    for signal in 1..=64 {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP || signal == 32 || signal == 33 {
            continue; // not settable; 32 and 33 belong to the C library
        }
        // SAFETY: SIG_DFL is always a valid disposition and replaces a handler of this process.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    nix::sys::signal::SigSet::empty().thread_set_mask()?;
    Ok(())
}

/// Makes writes beyond RLIMIT_FSIZE fail with EFBIG instead of ending this process (SIGXFSZ).
///
/// # Errors
/// As the kernel says.
pub(crate) fn survive_file_size_limit() -> io::Result<()> {
    // SAFETY: SIG_IGN is always a valid disposition; nothing else in this program handles the signal.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Forks; `Some(child)` in the parent, `None` in the child.
///
/// # Errors
/// EAGAIN at a process limit, ENOMEM.
///
/// # Safety
/// The caller must be single-threaded, so that the child may go on to allocate and lock.
pub(crate) unsafe fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the caller vouches for a single thread.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Some(child)),
        nix::unistd::ForkResult::Child => Ok(None),
    }
}

/// A detached copy of the mounts at and below `path` (open_tree(2), Linux 5.2), to attach later.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, EINVAL for what cannot be copied.
pub(crate) fn clone_tree(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: the path is NUL-terminated; the answer is a new descriptor.
    let fd = check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches what [`clone_tree`] made on top of `path` (move_mount(2)).
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, ENOENT when the path is gone.
pub(crate) fn attach_tree(tree: &OwnedFd, path: &CStr) -> io::Result<()> {
    // SAFETY: an open descriptor with an empty path, and a NUL-terminated path.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// Sets mount attributes on `path` and all mounts below it (mount_setattr(2), Linux 5.12).
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN in the mount namespace's user namespace.
pub(crate) fn mount_attrs(path: &CStr, set: u64) -> io::Result<()> {
    let attr = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is NUL-terminated and the attribute lives over the call, with its true size.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Whether the extended attribute `name` of `path` is `1` (getxattr(2)).
pub(crate) fn has_mark(path: &std::path::Path, name: &CStr) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut value = [0u8; 1];
    // SAFETY: both strings are NUL-terminated; the kernel writes at most the one byte it is told of.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), 1) };
    length == 1 && value == *b"1"
}

/// Whether a file that is no link has extended attributes that its owner may set (listxattr(2), xattr(7):
/// those of `security.` are of the system).
pub(crate) fn has_own_attributes(path: &std::path::Path) -> io::Result<bool> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let mut names = [0u8; 1024];
    // SAFETY: the path is NUL-terminated; the kernel writes at most as many bytes as it is told of, or says
    // ERANGE.
    let length = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut names = names.get(..length).unwrap_or(&names).split(|byte| *byte == 0);
    Ok(names.any(|name| !name.is_empty() && !name.starts_with(b"security.")))
}

/// One reaped child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitStatus {
    /// Its process id.
    pub(crate) pid: i32,
    /// Exit code, when it exited by itself.
    pub(crate) code: Option<i32>,
    /// Signal number, when one ended it.
    pub(crate) signal: Option<i32>,
    /// User CPU time of it and the children it waited for.
    pub(crate) user: Duration,
    /// System CPU time likewise.
    pub(crate) system: Duration,
    /// Largest resident set in bytes.
    pub(crate) max_rss: u64,
}

/// Reaps one child that has ended (wait4(2)). `Ok(None)`: children are left but none has ended.
/// ECHILD (no child at all) is an error, which callers take as "nothing is left".
///
/// # Errors
/// ECHILD, EINTR.
pub(crate) fn wait_any(block: bool) -> io::Result<Option<WaitStatus>> {
    let mut status = 0;
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    // SAFETY: an all-zero `rusage` is a valid value of that plain-data type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both out-pointers are valid for the call.
    let pid = unsafe { libc::wait4(-1, &raw mut status, flags, &raw mut usage) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        return Ok(None);
    }
    let time = |t: libc::timeval| {
        Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), 0)
            + Duration::from_micros(u64::try_from(t.tv_usec).unwrap_or(0))
    };
    Ok(Some(WaitStatus {
        pid,
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
    }))
}
