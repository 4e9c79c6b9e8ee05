//! That no terminal is within reach of what the launcher starts: tried once, before anything is served.
//!
//! A process reaches the terminal that its server was started from by `/dev/tty` or by its session, though none
//! of its descriptors is one. The launcher therefore leaves the session that it was started in, as each supervisor
//! and each command does once more; here it looks at what has become of it. Called by `launcher.rs`, before the
//! walls stand: the kernel alone must give the answer.

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{getpid, getsid};

use super::step::{step, that, unmet};
use super::wire::Failure;

/// Place of the controlling terminal in `/proc/PID/stat`, counted after the name (proc_pid_stat(5), field 7).
const TTY: usize = 4;

/// Fails unless this process leads a session of its own and has no controlling terminal.
pub(super) fn none() -> Result<(), Failure> {
    let session = step!("terminal", getsid(None))?;
    step!("terminal", that(session == getpid(), 0, refused("setsid(2) made no session of its own")))?;
    let stat = step!("terminal", std::fs::read_to_string("/proc/self/stat"))?;
    let number = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(TTY));
    let text = refused(&format!("/proc/self/stat says terminal {}", number.unwrap_or("unknown")));
    step!("terminal", that(number == Some("0"), 0, text))?;
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let unreachable = match open("/dev/tty", flags, Mode::empty()) {
        // The device of a process that has none, and no such device.
        Err(Errno::ENXIO | Errno::ENOENT) => Ok(()),
        Err(errno) => Err(unmet(errno as i32, refused(&format!("/dev/tty answers {errno}, not ENXIO")))),
        Ok(_terminal) => Err(unmet(0, refused("/dev/tty can be opened"))),
    };
    step!("terminal", unreachable)
}

fn refused(what: &str) -> String {
    format!(
        "commands could not be kept away from the terminal of this process: {what}; start cofferdam where \
         setsid(2) is not filtered and /dev/tty is the kernel's"
    )
}
