//! A question to the person at the terminal, and what that person types.
//!
//! Purpose: the consent that `exec` asks for. Only a terminal that this process stands in the foreground of
//! counts, and only what is typed after the question was shown; standard input never answers. Called by
//! `exec`.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use nix::unistd::{getpgrp, getuid, tcgetpgrp};
use tokio_util::sync::CancellationToken;

use crate::appliance::{Asker, Means, Question};
use crate::policy::consent::Decision;

/// Who asks, for what an answer is bound to: a question is answered in the process that put it.
const PRINCIPAL: &str = "exec";
/// What to do without a terminal.
const NO_TERMINAL: &str = "let a person run it on a terminal, with standard error on it, in the foreground";
/// Between two looks at whether the command was called off.
const LOOK: Duration = Duration::from_millis(200);

/// The person at the terminal, if this process has one to itself.
pub(super) fn asker() -> Asker {
    let principal = PRINCIPAL.to_owned();
    match open() {
        Ok(_) => {
            // Only for the record; the terminal is the one that was opened.
            let name = std::fs::read_link("/proc/self/fd/2");
            let name = name.map_or_else(|_| "a terminal".to_owned(), |path| path.display().to_string());
            let who = Some(format!("user {} on {name}", getuid()));
            Asker { principal, means: Means::Terminal, who, answer: None }
        }
        Err(why) => {
            tracing::debug!(why, "nobody can be asked for consent");
            Asker { principal, means: Means::Nobody(NO_TERMINAL), ..Asker::default() }
        }
    }
}

/// The controlling terminal of this process.
fn open() -> Result<File, String> {
    if !std::io::stderr().is_terminal() {
        return Err("standard error is no terminal".to_owned());
    }
    let tty = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let tty = tty.map_err(|error| format!("open of /dev/tty failed: {error}"))?;
    let foreground = tcgetpgrp(&tty).map_err(|error| format!("the terminal has no foreground: {error}"))?;
    if foreground != getpgrp() {
        return Err("this process is in the background".to_owned());
    }
    Ok(tty)
}

/// Puts a question and waits for a line. Anything but `yes` declines; no line at all has not agreed either.
///
/// # Errors
/// The terminal failed, in words.
pub(super) fn put(question: &Question, cancel: &CancellationToken) -> Result<Decision, String> {
    let mut tty = open()?;
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what} the terminal failed: {error}");
    writeln!(tty, "\n{}", question.text).map_err(|e| failed("write to", &e))?;
    // What was typed or pasted before the question cannot have been meant for it.
    tcflush(&tty, FlushArg::TCIFLUSH).map_err(|e| failed("flush of", &e))?;
    write!(tty, "Type yes to run it: ").map_err(|e| failed("write to", &e))?;
    let start = Instant::now();
    while start.elapsed() < question.time && !cancel.is_cancelled() {
        let left = question.time.saturating_sub(start.elapsed()).min(LOOK);
        let wait = PollTimeout::try_from(left).map_err(|e| failed("wait for", &e))?;
        let mut fds = [PollFd::new(tty.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, wait) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(failed("wait for", &error)),
        }
        // The terminal hands out whole lines.
        let mut line = [0; 256];
        let read = tty.read(&mut line).map_err(|e| failed("read from", &e))?;
        let typed = line.get(..read).unwrap_or(&[]);
        return Ok(match typed {
            [] => Decision::Cancel,
            typed if typed.trim_ascii() == b"yes" => Decision::Accept,
            _ => Decision::Decline,
        });
    }
    writeln!(tty).map_err(|e| failed("write to", &e))?;
    Ok(Decision::Cancel)
}
