//! Consent on a terminal: what is typed after the question, and nothing else.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use nix::pty::openpty;

use super::{asking, kinds};
use crate::support::Lab;

/// Runs `exec` with a terminal of its own, types `early` before it starts and `answer` at the question.
/// Gives back its status and what stood on the terminal.
fn typed(lab: &Lab, early: &str, answer: &str, args: &[&str]) -> (Option<i32>, String) {
    let pty = openpty(None, None).unwrap();
    let (mut ours, theirs) = (File::from(pty.master), pty.slave);
    let mut command = lab.command("exec");
    command.args(["--stdin", "--"]).arg(lab.probe()).args(args);
    // Standard input and output are not the terminal: neither answers.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::from(theirs.try_clone().unwrap()));
    let fd = theirs.as_raw_fd();
    let take_it = move || {
        nix::unistd::setsid()?;
        // SAFETY: an open descriptor and an integer.
        match unsafe { libc::ioctl(fd, libc::TIOCSCTTY, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: two system calls in the child, which the C library allows after fork.
    unsafe { command.pre_exec(take_it) };
    ours.write_all(early.as_bytes()).unwrap();
    let mut child = command.spawn().unwrap();
    drop(theirs);
    drop(command);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"yes\nyes\n").unwrap();
    drop(input);
    let (mut seen, mut asked) = (Vec::new(), false);
    let mut piece = [0; 4096];
    // The end of a terminal that nobody holds any more is EIO.
    while let Ok(read @ 1..) = ours.read(&mut piece) {
        seen.extend_from_slice(&piece[..read]);
        if !asked && String::from_utf8_lossy(&seen).contains("Type yes to run it: ") {
            asked = true;
            ours.write_all(answer.as_bytes()).unwrap();
        }
    }
    assert!(asked, "{}", String::from_utf8_lossy(&seen));
    (child.wait().unwrap().code(), String::from_utf8_lossy(&seen).into_owned())
}

#[test]
fn the_person_at_the_terminal_is_asked_after_the_question_is_shown() {
    let lab = asking("");
    let (status, seen) = typed(&lab, "", "yes\n", &["argv", "a b\u{1b}[2J"]);
    assert_eq!(status, Some(0), "{seen}");
    assert!(seen.contains(r"argv $'a b\x1b[2J'"), "{seen}");
    assert_eq!(kinds(&lab), ["run.asked asked", "run.start given", "run.end"]);
    let start = lab.records().into_iter().find(|record| record["event_type"] == "run.start").unwrap();
    assert_eq!(start["consent_by"], "terminal");
    let who = start["consent_who"].as_str().unwrap();
    assert!(who.starts_with("user ") && who.contains("/pts/"), "{who}");
}

#[test]
fn anything_but_yes_after_the_question_declines() {
    for (early, answer, said) in [
        ("", "no\n", "declined"),
        ("", "\n", "declined"),
        ("", "y\n", "declined"),
        ("", "yes yes\n", "declined"),
        ("", "\u{4}", "cancelled"),
        ("yes\nyes\n", "no\n", "declined"),
    ] {
        let lab = asking("");
        let (status, seen) = typed(&lab, early, answer, &["argv"]);
        assert_eq!(status, Some(126), "{answer:?}: {seen}");
        assert_eq!(kinds(&lab), ["run.asked asked".to_owned(), format!("run.denied {said}")], "{answer:?}");
    }
}

#[test]
fn nobody_answers_and_the_question_expires() {
    let lab = asking("consent_time = \"50ms\"");
    let (status, seen) = typed(&lab, "", "", &["argv"]);
    assert_eq!(status, Some(126), "{seen}");
    assert_eq!(kinds(&lab), ["run.asked asked", "run.denied expired"]);
}
