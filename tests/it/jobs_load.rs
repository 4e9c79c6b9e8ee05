//! Many jobs that print much, followed by cursor by several clients at once: every stream reassembles to what
//! its job wrote, or to marked gaps, within the budgets of memory.
//!
//! Standard input and output have one client, so eight clients are eight request loops over one connection,
//! each with its own requests under way. Small by default; `COFFERDAM_JOBS_LOAD=full` makes it 64 jobs of
//! 50 MB and 8 loops, and `--nocapture` shows what it took.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};

use crate::support::{Lab, Rules};

/// What each job keeps of its output, in KiB.
const BUDGET: u64 = 1024;
/// Bytes of a line: eight digits and a newline.
const LINE: u64 = 9;

struct Load {
    jobs: u64,
    lines: u64,
    loops: u64,
}

fn load() -> Load {
    match std::env::var("COFFERDAM_JOBS_LOAD").as_deref() {
        Ok("full") => Load { jobs: 64, lines: 50_000_000 / LINE + 1, loops: 8 },
        _ => Load { jobs: 12, lines: 4_000_000 / LINE, loops: 4 },
    }
}

/// One connection that several request loops share.
struct Shared {
    to: Mutex<ChildStdin>,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Value>>>,
    last: AtomicU64,
}

impl Shared {
    fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.last.fetch_add(1, Ordering::SeqCst);
        let (sender, answer) = mpsc::channel();
        self.waiting.lock().unwrap().insert(id, sender);
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answer.recv().unwrap_or_else(|_| panic!("no answer to {method}"))
    }

    fn write(&self, message: &Value) {
        writeln!(self.to.lock().unwrap(), "{message}").unwrap();
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let payload = answer["result"]["structuredContent"].take();
        assert!(payload.is_object(), "{answer}");
        payload
    }

    /// Hands each answer to the loop that waits for it, until the server hangs up.
    fn deliver(&self, from: BufReader<ChildStdout>) {
        for line in from.lines() {
            let line = line.unwrap();
            assert!(line.len() <= 256 * 1024, "an answer has {} bytes", line.len());
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = message["id"].as_u64()
                && let Some(sender) = self.waiting.lock().unwrap().remove(&id)
            {
                sender.send(message).unwrap();
            }
        }
        self.waiting.lock().unwrap().clear();
    }
}

/// A job that counts from its own first number.
struct Followed {
    first: u64,
    lines: u64,
    id: String,
    cursor: String,
    /// Bytes that were read or counted as lost.
    at: u64,
    lost: u64,
    pieces: u64,
    done: bool,
}

impl Followed {
    fn start(shared: &Shared, number: u64, lines: u64) -> Self {
        let first = 10_000_000 + number * 1_000_003;
        let arguments = [first.to_string(), (first + lines - 1).to_string()];
        let started = shared.call("sh_start", json!({"command": "seq", "args": arguments}));
        let id = started["job"].as_str().unwrap().to_owned();
        Self { first, lines, id, cursor: "0".to_owned(), at: 0, lost: 0, pieces: 0, done: false }
    }

    /// Whether `text` is what the job wrote from `at` on.
    fn wrote(&self, at: u64, text: &str) -> bool {
        let end = at + text.len() as u64;
        let numbers = (at / LINE)..end.div_ceil(LINE);
        let whole: String = numbers.map(|line| format!("{}\n", self.first + line)).collect();
        let skip = usize::try_from(at % LINE).unwrap();
        whole.get(skip..skip + text.len()) == Some(text)
    }

    fn read(&mut self, shared: &Shared) {
        let piece = shared.call("sh_output", json!({"job": self.id, "cursor": self.cursor}));
        let text = piece["stdout"].as_str().unwrap();
        assert_eq!(piece["stderr"], "");
        let lost = piece["truncated"]["stdout"]["bytes"].as_u64().unwrap_or(0);
        if lost == 0 {
            assert!(self.wrote(self.at, text), "{} at {}: {text:.200}", self.id, self.at);
            self.at += text.len() as u64;
        } else {
            let lines = &piece["truncated"]["stdout"]["lines"];
            let marker = format!("[... {lost} bytes / {lines} lines dropped ...]\n");
            let (before, after) = text.split_once(&marker).unwrap();
            // Where it does not end a line, the marker begins one.
            let gap = [Some(before), before.strip_suffix('\n')].into_iter().flatten().find(|before| {
                let gap = self.at + before.len() as u64;
                self.wrote(self.at, before) && self.wrote(gap + lost, after)
            });
            let gap = gap.unwrap_or_else(|| panic!("{} at {}: {text:.200}", self.id, self.at));
            self.at += (gap.len() + after.len()) as u64 + lost;
        }
        self.lost += lost;
        self.pieces += 1;
        self.cursor = piece["cursor"].as_str().unwrap().to_owned();
        self.done = piece["eof"] == true;
    }
}

/// Largest memory that the server has had, in KiB.
fn peak(server: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn every_stream_of_many_jobs_reassembles_within_the_budgets() {
    let Load { jobs, lines, loops } = load();
    let lab = Lab::new(&Rules {
        limits: "jobs = 80\nmax_jobs = 64\nmax_finished_jobs = 64\noutput_bytes = \"1MiB\"\noutput_lines = 100000000",
        commands: "[command.seq]\n".to_owned(),
        ..Rules::default()
    });
    let mut serve = lab.command("serve");
    let mut server: Child = as_piped(&mut serve).spawn().unwrap();
    let shared = Arc::new(Shared {
        to: Mutex::new(server.stdin.take().unwrap()),
        waiting: Mutex::default(),
        last: AtomicU64::new(1),
    });
    let from = BufReader::new(server.stdout.take().unwrap());
    let deliver = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.deliver(from)
    });
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "load", "version": "1"}});
    assert!(shared.ask("initialize", hello)["result"].is_object());
    shared.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let before = peak(&server);
    let started = std::time::Instant::now();

    let clients: Vec<_> = (0..loops)
        .map(|client| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let own = (0..jobs).filter(|number| number % loops == client);
                let mut own: Vec<Followed> =
                    own.map(|number| Followed::start(&shared, number, lines)).collect();
                while own.iter().any(|job| !job.done) {
                    own.iter_mut().filter(|job| !job.done).for_each(|job| job.read(&shared));
                }
                for job in &own {
                    let polled = shared.call("sh_poll", json!({"job": job.id}));
                    assert_eq!((&polled["exit"], &polled["stdout-bytes"]), (&json!(0), &json!(job.at)));
                    assert_eq!(job.at, job.lines * LINE);
                }
                own.iter().fold((0, 0), |(pieces, lost), job| (pieces + job.pieces, lost + job.lost))
            })
        })
        .collect();
    let told: Vec<(u64, u64)> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let (pieces, lost) = told.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let taken = peak(&server) - before;
    let most = jobs * BUDGET + 32 * 1024;
    println!(
        "{jobs} jobs of {} bytes, {loops} request loops: {:.1} s, {pieces} instalments, {lost} bytes in marked \
         gaps; {taken} KiB of memory taken, {most} KiB are the budgets and 32 MiB",
        lines * LINE,
        started.elapsed().as_secs_f64()
    );
    assert!(taken <= most, "{taken} KiB are more than {most}");
    drop(shared);
    deliver_ends(server, deliver);
}

fn as_piped(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null())
}

/// The connection is closed once nobody holds its writing end: the reader of answers holds it, too.
fn deliver_ends(mut server: Child, deliver: std::thread::JoinHandle<()>) {
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(server.id()).unwrap()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    deliver.join().unwrap();
    server.wait().unwrap();
}
