//! The terminal that a server or a command line was started from: no command reaches it, reads it or types into it.
//!
//! Each test makes a terminal and starts the program as its session leader, as a shell in a window would. That a
//! program without walls reaches the terminal in the same place is the first thing that is tested.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use serde_json::{Value, json};

use crate::support::{Going, Lab, Ran, Rules, Served};

/// A terminal: what a person types comes in at `master`.
struct Terminal {
    master: File,
    slave: OwnedFd,
}

impl Terminal {
    fn new() -> Self {
        let pair = nix::pty::openpty(None, None).unwrap();
        let mut modes = tcgetattr(&pair.slave).unwrap();
        modes.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&pair.slave, SetArg::TCSANOW, &modes).unwrap();
        Self { master: pair.master.into(), slave: pair.slave }
    }

    fn name(&self) -> PathBuf {
        nix::unistd::ttyname(&self.slave).unwrap()
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.slave).unwrap()
    }

    fn end(&self) -> Stdio {
        self.slave.try_clone().unwrap().into()
    }

    /// Makes it the controlling terminal of `command`.
    fn of(&self, command: &mut Command) {
        let slave = self.slave.as_raw_fd();
        let controlled = move || {
            nix::unistd::setsid()?;
            // SAFETY: integers only.
            match unsafe { libc::ioctl(slave, libc::TIOCSCTTY, 0) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: two system calls in the child.
        unsafe { command.pre_exec(controlled) };
    }

    fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// What waits to be read: what was typed, and by whomever.
    fn waiting(&self) -> String {
        fcntl(&self.slave, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK)).unwrap();
        let mut text = vec![0; 1000];
        let read = File::from(self.slave.try_clone().unwrap()).read(&mut text);
        text.truncate(read.unwrap_or(0));
        String::from_utf8(text).unwrap()
    }

    /// Nothing was written to it.
    fn is_dark(&self) -> bool {
        let mut fds = [PollFd::new(std::os::fd::AsFd::as_fd(&self.master), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() == 0
    }
}

/// Process group, session and terminal number of a process (proc_pid_stat(5)).
fn place(pid: i32) -> [i32; 3] {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    [fields[2], fields[3], fields[4]].map(|field| field.parse().unwrap())
}

#[test]
fn a_program_without_walls_reaches_the_terminal_here() {
    let (lab, terminal) = (Lab::plain(), Terminal::new());
    let mut bare = Command::new(lab.probe());
    bare.arg("state").stdin(terminal.end());
    terminal.of(&mut bare);
    let ran = Ran::of(&bare.output().unwrap());
    let lines = ran.lines();
    assert!(lines.contains(&"tty ok") && lines.contains(&"terminals 100"), "{lines:?}");
}

#[test]
fn commands_of_a_server_have_no_terminal_in_runs_and_jobs() {
    let (lab, mut terminal) = (Lab::plain(), Terminal::new());
    let mut command = lab.command("serve");
    terminal.of(&mut command);
    let mut served = Served::by(command);
    let number = place(served.pid())[2];
    assert_ne!(number, 0, "the server has one");
    terminal.types("typed\n");
    let mut said = vec![served.probed(&lab, &["state"])["stdout"].clone()];
    let ask = |served: &mut Served, name: &str, arguments: Value| {
        let id = served.send("tools/call", json!({"name": name, "arguments": arguments}));
        served.answer(id)["result"]["structuredContent"].clone()
    };
    let job = ask(&mut served, "sh_start", json!({"command": lab.probe(), "args": ["state"]}))["job"].clone();
    crate::support::eventually("the job has ended", || {
        ask(&mut served, "sh_poll", json!({"job": job}))["state"] == "exited"
    });
    said.push(ask(&mut served, "sh_output", json!({"job": job}))["stdout"].clone());
    for text in said {
        let lines: Vec<&str> = text.as_str().unwrap().lines().collect();
        // EACCES of Landlock, ENXIO where a profile opens the device.
        assert!(lines.iter().any(|line| line.starts_with("tty errno=")), "{lines:?}");
        assert!(lines.contains(&"terminals 000"), "{lines:?}");
    }
    assert_eq!(served.probed(&lab, &["stdin"])["stdout"], "[0 bytes]\n", "an end of file at once");

    // Each leads a session of its own, as the process that was started.
    let job = ask(&mut served, "sh_start", json!({"command": lab.probe(), "args": ["pause"]}))["job"].clone();
    crate::support::eventually("it is there", || !lab.alive().is_empty());
    for pid in lab.alive() {
        assert_eq!(place(pid), [pid, pid, 0]);
    }
    ask(&mut served, "sh_kill", json!({"job": job}));
    assert_eq!(terminal.waiting(), "typed\n", "nobody has read it");
    assert!(terminal.is_dark());
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn a_command_line_at_a_terminal_hands_it_to_nobody() {
    let (lab, first) = (Lab::plain(), Terminal::new());
    let mut command = lab.command("exec");
    command.arg("--").arg(lab.probe()).arg("state").stdin(first.end());
    first.of(&mut command);
    let ran = Ran::of(&command.output().unwrap());
    let lines = ran.lines();
    assert!(lines.iter().any(|line| line.starts_with("tty errno=")), "{lines:?}");
    assert!(lines.contains(&"terminals 000"), "{lines:?}");

    // Another: with its session leader a terminal is hung up.
    let mut terminal = Terminal::new();
    terminal.types("typed\n");
    let mut command = lab.command("exec");
    command.arg("--").arg(lab.probe()).arg("pause").stdin(terminal.end());
    terminal.of(&mut command);
    let mut going = Going::start(command);
    assert_eq!(going.line(), "ready ok");
    assert_eq!(terminal.waiting(), "typed\n", "nobody has read it");
    let pids = lab.alive();
    // The process group of the terminal is told, as by Ctrl-C; only cofferdam is in it.
    let command = pids.iter().filter(|pid| place(**pid)[2] == 0).count();
    assert_eq!((pids.len(), command), (1, 1), "{pids:?}");
    terminal.types("\u{3}");
    assert_eq!(going.finish().status, 130);
    assert!(lab.alive().is_empty());
}

#[test]
fn nothing_types_into_the_terminal_or_changes_its_modes() {
    let commands = "[command.perl]\ninterpreters = \"confine\"".to_owned();
    let (lab, mut terminal) = (Lab::new(&Rules { commands, ..Rules::default() }), Terminal::new());
    let before = terminal.modes();
    // TIOCSTI, TIOCSCTTY, TCSETS, TIOCLINUX on whatever can be had.
    let script = format!(
        "my @f = (\\*STDIN, \\*STDOUT, \\*STDERR); \
         for ('/dev/tty', '{}', '/dev/console', '/proc/self/fd/2') {{ push @f, $h if open my $h, '+<', $_; }} \
         my $x = 'x' x 64; my $n = 0; \
         for my $f (@f) {{ for (0x5412, 0x540E, 0x5402, 0x541C) {{ my $b = $x; $n++ if ioctl($f, $_, $b); }} }} \
         $| = 1; print scalar(@f), ' ', $n, qq(\n); sleep 600",
        terminal.name().display()
    );
    let mut command = lab.command("exec");
    command.args(["--", "perl", "-e", &script]).stdin(terminal.end());
    terminal.of(&mut command);
    let mut going = Going::start(command);
    let line = going.line();
    // /proc/self/fd/2 may be had: it is the pipe.
    let counts: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
    assert!((3..=4).contains(&counts[0]) && counts[1] == 0, "{line:?}");
    assert_eq!(terminal.waiting(), "");
    assert!(terminal.is_dark());
    assert_eq!(terminal.modes(), before);
    terminal.types("\u{3}");
    assert_eq!(going.finish().status, 130);
}
