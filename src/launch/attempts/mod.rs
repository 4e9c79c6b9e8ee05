//! What a hostile program would try, tried for real from inside a run: the inner half of `doctor`.
//!
//! `doctor` runs this very executable through the appliance under the name [`NAME`]; it then makes
//! every attempt of [`TABLE`], each in a child of its own, and prints one [`Answer`] a line. Nothing
//! here changes anything when an attempt is not refused. Called by `main.rs` and `cli/doctor.rs`.

mod execution;
mod files;
mod kernel;
mod own;
mod read;
pub mod server;
mod table;

pub use execution::PROGRAM;
pub use read::{Answer, Answered, Expect, Expected, Mark, mark};
pub use table::{Attempt, Layer, TABLE};

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys::attempt as raw;
use read::Stop;

/// `argv[0]` by which this executable knows that it is to make attempts, and the name of the
/// allow-list entry that `doctor` adds for it.
pub const NAME: &str = "cofferdam-attempts";

/// Seconds after which an attempt counts as hung.
const SECONDS: u32 = 5;
/// Seconds that a process sleeps which nobody kills.
const LONG: u32 = 300;

/// What to do: the one argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Task {
    /// Make all attempts.
    Attempts(Box<Ground>),
    /// Leave a daemon behind, print its process id and end.
    Leave,
    /// Leave a daemon behind, print its process id and sleep.
    Hang,
    /// Print this many bytes.
    Flood(u64),
}

/// What the attempts need to know of the host and of the policy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ground {
    /// The policy's workspace.
    pub workspace: PathBuf,
    /// It may be written.
    pub write: bool,
    /// TCP ports are allowed.
    pub tcp: bool,
    /// Runs have a scratch directory.
    pub scratch: bool,
    /// Commands stay root (without capabilities).
    pub root: bool,
    /// The policy lets commands read the directory `outside`.
    pub outside_readable: bool,
    /// A directory that every user of the host may read and write, outside of the workspace. It
    /// holds `file` (readable and writable for all, owned by the user of commands), `program` (an
    /// executable), and `open`, a directory for all.
    pub outside: PathBuf,
    /// Programs that the policy does not list.
    pub unlisted: Vec<PathBuf>,
    /// The loader of dynamic programs.
    pub loader: Option<PathBuf>,
    /// The file that audit records go to.
    pub audit: Option<PathBuf>,
    /// Process id of the server.
    pub server: i32,
    /// A TCP port of the loopback interface that somebody listens on.
    pub port: u16,
    /// Names that may stand in the environment.
    pub environment: Vec<String>,
    /// Resource limits that must be in force.
    pub limits: Vec<(u32, u64)>,
}

/// What the attempts find out about themselves before the first one.
#[derive(Debug)]
struct Scene<'a> {
    ground: &'a Ground,
    /// The supervisor of this run.
    parent: i32,
    /// Its scratch directory.
    scratch: PathBuf,
    /// Open descriptors at the start.
    descriptors: Vec<i32>,
    /// A program of the host, as it came on standard input.
    program: &'a [u8],
}

impl Scene<'_> {
    /// The scratch directory, where there is one.
    fn scratch(&self) -> Result<&Path, Stop> {
        if self.ground.scratch {
            Ok(&self.scratch)
        } else {
            Err(Stop::Refused("this host gives runs no scratch directory".to_owned()))
        }
    }
}

/// Whether no process of this id exists any more.
#[must_use]
pub fn is_gone(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) == Err(nix::errno::Errno::ESRCH)
}

/// Must be called early in `main`, before any thread exists: when this process was started to make
/// attempts it does so and exits; otherwise returns at once.
pub fn become_attempt_if_asked() {
    let mut args = std::env::args_os();
    if args.next().is_none_or(|name| name != NAME) {
        return;
    }
    let done = match args.next().map(|text| serde_json::from_slice(text.as_encoded_bytes())) {
        Some(Ok(task)) => perform(&task),
        Some(Err(e)) => Err(io::Error::other(format!("the task is malformed: {e}"))),
        None => Err(io::Error::other("no task is given; use `cofferdam doctor`")),
    };
    if let Err(e) = &done {
        eprintln!("{NAME}: {e}");
    }
    std::process::exit(i32::from(done.is_err()));
}

fn perform(task: &Task) -> io::Result<()> {
    match task {
        Task::Attempts(ground) => attempts(ground),
        Task::Leave => say(&raw::daemon(LONG)?.to_string()),
        Task::Hang => {
            say(&raw::daemon(LONG)?.to_string())?;
            std::thread::sleep(std::time::Duration::from_secs(LONG.into()));
            Ok(())
        }
        Task::Flood(bytes) => flood(*bytes),
    }
}

fn attempts(ground: &Ground) -> io::Result<()> {
    // First of all: later ones open descriptors.
    let descriptors = (0..1024).filter(|fd| raw::descriptor_flags(*fd).is_ok()).collect();
    let mut program = Vec::new();
    io::Read::read_to_end(&mut io::stdin(), &mut program)?;
    let parent = nix::unistd::getppid().as_raw();
    let scratch =
        std::env::var_os("TMPDIR").map(PathBuf::from).unwrap_or_else(|| PathBuf::from("/nonexistent"));
    let scene = Scene { ground, parent, scratch, descriptors, program: &program };
    for attempt in TABLE {
        say(&serde_json::to_string(&make(attempt, &scene))?)?;
    }
    Ok(())
}

/// Makes one attempt in a child, so that neither its success nor its death touches the next one.
fn make(attempt: &Attempt, scene: &Scene<'_>) -> Answer {
    let work = || {
        let (result, detail) = read::answer((attempt.run)(scene, attempt.arg));
        serde_json::to_vec(&Answer { id: attempt.id.to_owned(), result, detail })
            .unwrap_or_else(|_| Vec::new())
    };
    let (result, detail) = match raw::in_child(SECONDS, work) {
        Err(e) => (Answered::Error, format!("fork: {e}")),
        Ok(end) => match serde_json::from_slice::<Answer>(&end.answer) {
            Ok(answer) => return answer,
            Err(_) => read::without_answer(end.code, end.signal),
        },
    };
    Answer { id: attempt.id.to_owned(), result, detail }
}

fn flood(bytes: u64) -> io::Result<()> {
    let line = [b'x'; 1023].iter().chain(b"\n").copied().collect::<Vec<u8>>();
    let mut out = io::stdout().lock();
    for _ in 0..bytes.div_ceil(1024) {
        out.write_all(&line)?;
    }
    out.flush()
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// What an attempt comes to: `Ok` with what it achieved.
type Tried = Result<String, Stop>;
