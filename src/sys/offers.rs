//! What the kernel has, asked without changing anything: calls that are wrong on purpose, so that the
//! errno tells whether the kernel knows them. Called by `sandbox::needs`.

use std::io;

use super::kernel::check;

/// Linux 6.3.
const PR_GET_MDWE: libc::c_int = 66;

/// PR_SET_MDWE, by the call that reads it back.
pub(crate) fn memory_rules() -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(PR_GET_MDWE, none, none, none, none) }.into()).map(drop)
}

/// seccomp(2) with these flags, without a program: EFAULT where all are known, EINVAL where one is not.
fn seccomp_flags(flags: libc::c_ulong) -> io::Result<()> {
    let none = std::ptr::null::<libc::sock_fprog>();
    // SAFETY: a null program is refused before anything is installed.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, none) }).map(drop)
}

/// A system-call filter.
pub(crate) fn filters() -> io::Result<()> {
    seccomp_flags(0)
}

/// A filter that tells its supervisor, and a caller that is woken by fatal signals only.
pub(crate) fn notifications() -> io::Result<()> {
    seccomp_flags(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

/// close_range(2) with CLOSE_RANGE_CLOEXEC, on a descriptor that cannot be open.
pub(crate) fn close_range() -> io::Result<()> {
    // SAFETY: marks descriptors, closes none.
    check(unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
        .map(drop)
}

/// openat2(2), with a structure of no size: EINVAL.
pub(crate) fn openat2() -> io::Result<()> {
    let none = std::ptr::null::<u8>();
    // SAFETY: the size is refused before either pointer is read.
    check(unsafe { libc::syscall(libc::SYS_openat2, -1, none, none, 0usize) }).map(drop)
}

/// open_tree(2), with flags that do not exist: EINVAL.
pub(crate) fn open_tree() -> io::Result<()> {
    // SAFETY: the flags are refused before the pointer is read.
    check(unsafe { libc::syscall(libc::SYS_open_tree, -1, std::ptr::null::<u8>(), u32::MAX) }).map(drop)
}

/// move_mount(2), with flags that do not exist: EINVAL.
pub(crate) fn move_mount() -> io::Result<()> {
    let none = std::ptr::null::<u8>();
    // SAFETY: the flags are refused before either pointer is read.
    check(unsafe { libc::syscall(libc::SYS_move_mount, -1, none, -1, none, u32::MAX) }).map(drop)
}

/// mount_setattr(2), with a structure of no size: EINVAL.
pub(crate) fn mount_setattr() -> io::Result<()> {
    let none = std::ptr::null::<u8>();
    // SAFETY: the size is refused before either pointer is read.
    check(unsafe { libc::syscall(libc::SYS_mount_setattr, -1, none, 0u32, none, 0usize) }).map(drop)
}
