//! How soon a run is gone that nobody waits for any more: from `notifications/cancelled`, the end of the input or
//! SIGTERM to the death of the last process of its tree (a command and a stray in a session of its own), and to the
//! exit of the server. Prints quantiles beside what is promised; each run must be recorded as `cancelled`.
//!
//! `cargo bench --bench cancel [-- ROUNDS]`; figures mean something on a quiet machine only.
#![allow(clippy::disallowed_methods, reason = "the server under test is started as a client starts it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot run must say why and stop"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{lab, quantile, rounds, static_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// What is promised: to the end of the tree, and to the end of the server.
const TREE: Duration = Duration::from_millis(250);
const SERVER: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);

/// The command, its stray, and nobody to wait for the latter.
const SLEEPER: &str = include_str!("../tests/clients/sleeper.c");

fn main() {
    let rounds = rounds(100);
    let lab = lab();
    let sleeper = static_program(lab.path(), "sleeper", SLEEPER);
    let policy = policy(lab.path(), &sleeper);
    println!("{:<28} {:>9} {:>9} {:>9} {:>9}", "ms to the end of", "p50", "p90", "max", "promised");
    let mut tree = Vec::new();
    let mut session = Session::start(&policy);
    for _ in 0..rounds {
        let alive = session.run(&sleeper);
        let began = Instant::now();
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": session.last}}));
        tree.push(gone(&alive, began));
    }
    drop(session);
    print("a cancelled run", &mut tree, TREE);
    for (name, by_signal) in [("end of input", false), ("SIGTERM", true)] {
        let (mut tree, mut exit) = (Vec::new(), Vec::new());
        for _ in 0..rounds.div_ceil(5) {
            let mut session = Session::start(&policy);
            let alive = session.run(&sleeper);
            let began = Instant::now();
            if by_signal {
                kill(Pid::from_raw(i32::try_from(session.child.id()).unwrap()), Signal::SIGTERM).unwrap();
            } else {
                session.to = None;
            }
            tree.push(gone(&alive, began));
            assert!(session.child.wait().unwrap().success());
            exit.push(began.elapsed());
        }
        print(&format!("a run, {name}"), &mut tree, TREE);
        print(&format!("the server, {name}"), &mut exit, SERVER);
    }
    let records = fs::read_to_string(lab.path().join("log/audit.jsonl")).unwrap();
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends: Vec<_> = records.iter().filter(|record| record["event_type"] == "run.end").collect();
    assert_eq!(ends.len(), rounds + 2 * rounds.div_ceil(5));
    assert!(ends.iter().all(|end| end["outcome"] == "cancelled" && end["procs_left"] == 0));
    println!("{} runs, all recorded as cancelled", ends.len());
}

fn print(name: &str, times: &mut [Duration], promised: Duration) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (p50, p90, max) = (quantile(times, 50), quantile(times, 90), quantile(times, 100));
    println!("{name:<28} {:>9.1} {:>9.1} {:>9.1} {:>9.0}", ms(p50), ms(p90), ms(max), ms(promised));
}

fn policy(lab: &Path, sleeper: &Path) -> PathBuf {
    for name in ["workspace", "log"] {
        fs::create_dir(lab.join(name)).unwrap();
    }
    let policy = lab.join("policy.toml");
    let text = format!(
        "version = 1\nallow = [{sleeper:?}]\n[workspace]\npath = {:?}\n[audit]\nsinks = [{{ kind = \"file\", path = {:?} }}]\n",
        lab.join("workspace"),
        lab.join("log/audit.jsonl")
    );
    fs::write(&policy, text).unwrap();
    policy
}

/// One connection.
struct Session {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    last: u64,
}

impl Session {
    fn start(policy: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .args(["serve", "--policy"])
            .arg(policy)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut session = Self { child, to, from, last: 0 };
        session.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}));
        let mut line = String::new();
        session.from.read_line(&mut line).unwrap();
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Starts the command; its processes once both are there.
    fn run(&mut self, sleeper: &Path) -> Vec<u32> {
        let mark = uuid::Uuid::new_v4().to_string();
        self.last += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last, "method": "tools/call",
            "params": {"name": "sh_run", "arguments": {"command": sleeper, "args": [mark]}}}));
        let (deadline, mut before) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let found = marked(&mark);
            // The one between the two is gone at once: not the same two twice.
            if found.len() == 2 && found == before && found.iter().all(|pid| is_alive(*pid)) {
                return found;
            }
            before = found;
            assert!(Instant::now() < deadline, "the command does not start");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.to = None;
        // It ends by itself at the end of its input.
        let _ = self.child.wait();
    }
}

/// Processes that carry `mark` among their arguments.
fn marked(mark: &str) -> Vec<u32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        // A process may be gone between the listing and the reading.
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()))
    })
    .collect()
}

/// Neither gone nor a zombie that nobody has collected yet.
fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X']))
}

/// The time since `began` when the last of them is dead.
fn gone(alive: &[u32], began: Instant) -> Duration {
    while alive.iter().any(|pid| is_alive(*pid)) {
        assert!(began.elapsed() < PATIENCE, "a process outlives its run");
        std::thread::sleep(Duration::from_micros(100));
    }
    began.elapsed()
}
