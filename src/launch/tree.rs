//! Killing everything a run left, and proving that nothing is.
//!
//! The supervisor sits in a Landlock domain of its own with signal scope (ABI 6), so
//! `kill(-1, SIGKILL)` reaches its descendants and nothing else; the kernel walks the task list
//! under one lock, so no fork slips through. As the child subreaper it inherits every orphan: when
//! wait4(2) says ECHILD, no descendant exists.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::sys::{self, WaitStatus};

/// How long the kernel may take to deliver the kills before the run is reported as broken.
const DEADLINE: Duration = Duration::from_secs(5);

/// What is left of a tree after it was killed.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Swept {
    /// Processes that were alive and were killed.
    pub(super) killed: u32,
    /// Processes that could not be reaped in time.
    pub(super) left: u32,
}

/// Whether no descendant exists, alive or not: orphans are this process's children, too.
fn nobody() -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
    waitid(Id::All, look) == Err(Errno::ECHILD)
}

/// Asks all descendants of the calling supervisor to end (SIGTERM).
pub(super) fn ask_all_to_end() {
    // ESRCH: nobody is left to be asked. Whoever does not end is killed later.
    let _asked = kill(Pid::from_raw(-1), Signal::SIGTERM);
}

/// Kills and reaps all descendants of the calling supervisor; `on_reap` sees each.
pub(super) fn kill_all(mut on_reap: impl FnMut(&WaitStatus)) -> Swept {
    let deadline = Instant::now() + DEADLINE;
    let mut swept = Swept::default();
    if nobody() {
        return swept; // what most commands leave: a kill would walk through all processes of the host
    }
    loop {
        // ESRCH: nobody to kill. EPERM cannot happen inside an own domain without privileges changes.
        let sent = kill(Pid::from_raw(-1), Signal::SIGKILL);
        loop {
            match sys::wait_any(false) {
                Ok(Some(status)) => {
                    swept.killed += u32::from(status.signal == Some(libc::SIGKILL));
                    on_reap(&status);
                }
                Ok(None) => break,
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                Err(_) => return swept, // ECHILD: no descendant exists
            }
        }
        if Instant::now() >= deadline {
            swept.left = 1 + u32::from(sent != Err(Errno::ESRCH));
            return swept;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
