//! Filters and their notifications (seccomp(2), seccomp_unotify(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::kernel::check;
use crate::sandbox::filter::Insn;

/// `SECCOMP_IOCTL_NOTIF_RECV`: `_IOWR('!', 0, struct seccomp_notif)`.
const RECV: u32 = 0xC050_2100;
/// `SECCOMP_IOCTL_NOTIF_SEND`: `_IOWR('!', 1, struct seccomp_notif_resp)`.
const SEND: u32 = 0xC018_2101;

/// Installs `program` on this thread and all that it starts, and answers with the descriptor on which the
/// calls arrive that the program sends there. A caller that has been told of is woken by fatal signals
/// only (`WAIT_KILLABLE_RECV`, Linux 5.19), so that no call is told of twice.
///
/// # Errors
/// EINVAL for a malformed program or an older kernel, EACCES without no-new-privs, EBUSY where a filter
/// with a listener is in force already.
pub(crate) fn seccomp_install(program: &[Insn]) -> io::Result<OwnedFd> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let fd = i32::try_from(install(program, flags)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, close-on-exec, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Installs `program` on this thread and all that it starts; nobody is told of anything.
///
/// # Errors
/// EINVAL for a malformed program, EACCES without no-new-privs.
pub(crate) fn seccomp_filter(program: &[Insn]) -> io::Result<()> {
    install(program, 0).map(drop)
}

/// seccomp(2), `SECCOMP_SET_MODE_FILTER`: answers what the kernel does.
fn install(program: &[Insn], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let prog = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `prog` points to `len` instructions that outlive the call; the kernel only reads them.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const prog) })
}

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// Names the call in the answer.
    pub(crate) id: u64,
    /// Thread that made it.
    pub(crate) pid: i32,
    /// System-call number.
    pub(crate) nr: i32,
    /// Its arguments: registers, never memory.
    pub(crate) args: [u64; 6],
}

/// Takes one call. Only after poll(2) said that there is one, or it blocks.
///
/// # Errors
/// ENOENT when the caller has died meanwhile, EINTR.
pub(crate) fn seccomp_told(listener: BorrowedFd<'_>) -> io::Result<Told> {
    // SAFETY: plain data; the kernel wants it zeroed.
    let mut notif: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure, whose size is part of the request number.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), RECV as _, &raw mut notif) }.into())?;
    Ok(Told {
        id: notif.id,
        pid: i32::try_from(notif.pid).map_err(io::Error::other)?,
        nr: notif.data.nr,
        args: notif.data.args,
    })
}

/// Answers one call: with this errno, or by letting it go on.
///
/// # Errors
/// ENOENT when the caller has died meanwhile.
pub(crate) fn seccomp_answer(listener: BorrowedFd<'_>, id: u64, errno: Option<i32>) -> io::Result<()> {
    let flags = if errno.is_none() { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE } else { 0 };
    let flags = u32::try_from(flags).map_err(io::Error::other)?;
    let response = libc::seccomp_notif_resp { id, val: 0, error: -errno.unwrap_or(0), flags };
    // SAFETY: the kernel reads the structure, whose size is part of the request number.
    check(unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) }.into()).map(drop)
}
