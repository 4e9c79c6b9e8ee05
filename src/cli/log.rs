//! The log of a server on standard error, which never holds it up and never ends it.
//!
//! Purpose: standard error may be the required audit sink, and its reader may stop or go away. A line that cannot
//! be taken at once is dropped: what matters is in the audit records. Called by `serve.rs`.

use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Most bytes of one write: a pipe with room for any takes so many without a wait.
const ATOMIC: usize = 4_096;

/// Standard error, a line at a time, as far as it takes any.
#[derive(Debug, Default)]
pub(super) struct Patient;

impl Write for Patient {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let stderr = io::stderr();
        let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        let ready = poll(&mut polled, PollTimeout::ZERO).is_ok_and(|count| count > 0);
        let fits = polled.iter().any(|one| one.revents().is_some_and(|seen| seen == PollFlags::POLLOUT));
        if ready && fits {
            nix::unistd::write(stderr.as_fd(), line.get(..ATOMIC).unwrap_or(line))?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
