//! What other sandboxes cost beside ours: the same program that does nothing, started plainly, through
//! cofferdam and through each peer, in shuffled rounds of one run. Prints tables in Markdown.
//!
//! `benches/peers/setup && cargo bench --bench peers [-- ROUNDS]`, on a busy machine after `chrt -r 1`. Ratios
//! of medians are what counts; the load average stands beside them. Costly peers run in fewer rounds. A peer that is not there, or does not
//! run, has a line that says why; what each row leaves open to its program is tried first (`control.rs`).
#![allow(clippy::disallowed_methods, reason = "programs are started to be measured")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot run must say why and stop"
)]

#[path = "../common/mod.rs"]
mod common;
mod control;
mod report;
mod rows;

use std::ffi::OsString;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PAUSE, Road, bare, lab, policy, rounds, static_true};
use control::{Control, Open};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use rows::Places;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Rounds that are run and not counted, of rows that run in every round.
const WARM_UP: usize = 20;
/// A row that costs twice this runs in every second round, and so on, but in at least `FEWEST`.
const EVERY_ROUND: Duration = Duration::from_millis(20);
const FEWEST: usize = 20;
/// Longest time a first run may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Index of the control among the programs of the road; those before it are measured.
const CONTROL: usize = 2;

enum Start {
    Bare,
    Tokio,
    /// The launcher alone.
    Warm,
    /// The whole appliance.
    Call,
    /// Another program, with its words, that starts ours.
    Through(Vec<OsString>, Vec<(&'static str, OsString)>),
}

/// One way to start a program.
struct Row {
    name: &'static str,
    version: String,
    start: Start,
    /// What the control got through.
    open: Option<Open>,
    /// Times of each measured program.
    times: [Vec<Duration>; CONTROL],
    failed: usize,
}

/// A row that is not measured, and why.
struct Missing {
    name: &'static str,
    reason: String,
}

struct Bench {
    road: Road,
    programs: Vec<PathBuf>,
    control: Control,
}

fn main() {
    cofferdam::launch::become_launcher_if_asked();
    let rounds = rounds(400);
    let lab = lab();
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target directory").join("peers");
    let bin = lab.path().join("bin");
    fs::create_dir(&bin).expect("directory of programs");
    let control = Control::new(&bin, vec![lab.path().join("outside"), installed.join("outside")]);
    let dynamic = fs::canonicalize("/bin/true").expect("/bin/true");
    let programs = vec![static_true(&bin), dynamic, control.program.clone()];
    let text = policy(lab.path(), &programs);
    let file = lab.path().join("policy.toml");
    // Records of its own: two writers of one file would wait for each other.
    fs::write(&file, text.replace("/audit/", "/audit-of-exec/")).expect("policy");

    let at = Places { lab: lab.path(), outside: &control.outside, installed: &installed };
    let (mut rows, mut missing) = (ours(&file), Vec::new());
    for peer in rows::peers(&at) {
        match peer.words {
            Ok(words) => {
                rows.push(Row::new(peer.name, peer.version, Start::Through(words, at.environment())));
            }
            Err(reason) => missing.push(Missing { name: peer.name, reason }),
        }
    }
    let bench = Arc::new(Bench { road: Road::new(&text, &programs), programs, control });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("async runtime");
    let load = report::load();
    // On a worker, as the server's calls are.
    let measured = runtime.block_on(async move {
        tokio::spawn(async move {
            let rows = bench.tried(rows, &mut missing).await;
            (bench.measured(rows, rounds).await, missing)
        })
        .await
    });
    let (mut rows, missing) = measured.expect("measurement");
    report::print(&mut rows, &missing, rounds, &load);
}

fn ours(policy: &Path) -> Vec<Row> {
    let version = || env!("CARGO_PKG_VERSION").to_owned();
    let exec = ["exec", "--policy"].map(OsString::from).into_iter();
    let exec = std::iter::once(env!("CARGO_BIN_EXE_cofferdam").into()).chain(exec);
    let exec = exec.chain([policy.into(), "--".into()]).collect();
    vec![
        Row::new(report::BASE, String::new(), Start::Bare),
        Row::new("`Command`, awaited as by tokio", String::new(), Start::Tokio),
        Row::new(report::WARM, version(), Start::Warm),
        Row::new("cofferdam, warm, recorded call", version(), Start::Call),
        Row::new("`cofferdam exec`, once", version(), Start::Through(exec, Vec::new())),
    ]
}

impl Row {
    fn new(name: &'static str, version: String, start: Start) -> Self {
        Self { name, version, start, open: None, times: [vec![], vec![]], failed: 0 }
    }

    fn confines(&self) -> bool {
        !matches!(self.start, Start::Bare | Start::Tokio)
    }
}

impl Bench {
    /// Rows that run; the others join those that are missing. Each has its control's result.
    async fn tried(&self, rows: Vec<Row>, missing: &mut Vec<Missing>) -> Vec<Row> {
        let mut running = Vec::new();
        for mut row in rows {
            match self.control(&row).await {
                Ok(open) => {
                    if !row.confines() {
                        let all = Open { writes: true, reads: true, network: true };
                        assert_eq!(open, all, "{}: the control cannot show anything here", row.name);
                    }
                    row.open = Some(open);
                    running.push(row);
                }
                Err(reason) => missing.push(Missing { name: row.name, reason }),
            }
        }
        running
    }

    /// Runs the control through the row, and the measured programs once where that is not ours to answer for.
    async fn control(&self, row: &Row) -> Result<Open, String> {
        let program = &self.programs[CONTROL];
        let printed = match &row.start {
            Start::Bare | Start::Tokio => first(&[], &[], program).await?,
            Start::Warm => {
                let (printed, output) = std::io::pipe().expect("pipe");
                let null = || fs::File::open("/dev/null").expect("null").into();
                self.road.confined_with(CONTROL, [null(), output.into(), null()]).await;
                std::io::read_to_string(printed).expect("what the control printed")
            }
            Start::Call => self.road.call(CONTROL).await.1.stdout.text,
            Start::Through(words, environment) => {
                for measured in &self.programs[..CONTROL] {
                    first(words, environment, measured).await?;
                }
                first(words, environment, program).await?
            }
        };
        self.control.judge(&printed).ok_or_else(|| format!("the control did not run: {printed:?}"))
    }

    async fn measured(&self, mut rows: Vec<Row>, rounds: usize) -> Vec<Row> {
        let mut every = Vec::new();
        for row in &rows {
            let cost = self.once(row, 0).await.unwrap_or(EVERY_ROUND);
            let rarely = usize::try_from(cost.as_millis() / EVERY_ROUND.as_millis()).expect("cost");
            every.push(rarely.clamp(1, (rounds / FEWEST).max(1)));
        }
        let mut order: Vec<(usize, usize)> =
            (0..rows.len()).flat_map(|row| (0..CONTROL).map(move |program| (row, program))).collect();
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        for round in 0..rounds + WARM_UP {
            dice.shuffle(&mut order);
            for &(row, program) in &order {
                // The costly ones are spread over the rounds.
                if (round + row) % every[row] != 0 || (round < WARM_UP && every[row] > 1) {
                    continue;
                }
                tokio::time::sleep(PAUSE).await;
                let took = self.once(&rows[row], program).await;
                match took {
                    Some(took) if round >= WARM_UP => rows[row].times[program].push(took),
                    Some(_) => {}
                    None => rows[row].failed += 1,
                }
            }
        }
        rows
    }

    /// One run, start to end; nothing when it did not succeed.
    async fn once(&self, row: &Row, program: usize) -> Option<Duration> {
        let path = &self.programs[program];
        match &row.start {
            Start::Bare => Some(bare(path)),
            Start::Warm => Some(self.road.confined(program).await),
            Start::Call => Some(self.road.call(program).await.0),
            Start::Tokio => Some(awaited(path).await),
            Start::Through(words, environment) => {
                let mut command = through(words, environment, path);
                let start = Instant::now();
                let status = quiet(&mut command).status().expect("start of a peer");
                status.success().then(|| start.elapsed())
            }
        }
    }
}

/// As tokio's own `Command` does it, whose feature stays off here: started by std, its end awaited on a
/// descriptor of the process.
async fn awaited(program: &Path) -> Duration {
    let start = Instant::now();
    let mut child = quiet(&mut std::process::Command::new(program)).spawn().expect("spawn");
    // SAFETY: plain numbers; the call makes a descriptor or fails.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let fd = i32::try_from(fd).expect("a descriptor");
    assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
    // SAFETY: new, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an owned descriptor keeps its number until it is dropped, after its registration.
    let ended = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    let ended = ended.expect("registration");
    let _guard = ended.readable().await.expect("its end");
    let status = child.try_wait().expect("wait").expect("it has ended");
    assert!(status.success());
    start.elapsed()
}

fn through(
    words: &[OsString],
    environment: &[(&'static str, OsString)],
    program: &Path,
) -> std::process::Command {
    let mut words = words.iter().cloned().chain([program.into()]);
    let mut command = std::process::Command::new(words.next().expect("a program"));
    command.args(words).envs(environment.iter().map(|(name, value)| (name, value)));
    command
}

fn quiet(command: &mut std::process::Command) -> &mut std::process::Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// A first run, which may fail or hang: what it printed, or why it did not end well.
async fn first(
    words: &[OsString],
    environment: &[(&'static str, OsString)],
    program: &Path,
) -> Result<String, String> {
    let mut command = through(words, environment, program);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|e| e.to_string())?;
    let pid = i32::try_from(child.id()).expect("process id");
    let output = tokio::task::spawn_blocking(move || child.wait_with_output());
    let Ok(output) = tokio::time::timeout(PATIENCE, output).await else {
        nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(|e| e.to_string())?;
        return Err(format!("no end in {PATIENCE:?}"));
    };
    let output = output.expect("wait").map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().take(3).collect::<Vec<_>>();
    Err(format!("{}: {}", output.status, last.into_iter().rev().collect::<Vec<_>>().join(" / ")))
}

/// xorshift: an order that nobody chose, the same in each run.
struct Dice(u64);

impl Dice {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            items.swap(last, usize::try_from(self.0 % (last as u64 + 1)).expect("an index"));
        }
    }
}
