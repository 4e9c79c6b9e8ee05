//! What the protocols of a service manager need: descriptors by number, and its clock.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::kernel::check;

/// Takes over `count` descriptors from `first` on, which whoever started this process left open for it
/// (sd_listen_fds(3)). Each is closed on exec from here on. Call it once, before anything else opens one.
///
/// # Errors
/// EBADF: one of them is not open.
pub(crate) fn take_descriptors(first: RawFd, count: RawFd) -> io::Result<Vec<OwnedFd>> {
    let numbers = first..first.saturating_add(count);
    for fd in numbers.clone() {
        // SAFETY: F_SETFD takes no pointer; an unknown number is answered with EBADF.
        check(i64::from(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }))?;
    }
    // SAFETY: all of them are open, and were left to this process by number: nothing else owns them.
    Ok(numbers.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
}

/// CLOCK_MONOTONIC in microseconds (clock_gettime(2)), which is what a manager compares reloads by.
///
/// # Errors
/// Never, on a kernel that has the clock.
pub(crate) fn monotonic_micros() -> io::Result<i64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for the one write of the call.
    check(i64::from(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }))?;
    Ok(now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000))
}
