//! The soak: very many runs over one server, ended in every way there is, in an order that a seed gives;
//! afterwards nothing of them may be left.
//!
//! `COFFERDAM_SOAK` is the number of runs (2,000 without it; the full soak is 200,000), and
//! `COFFERDAM_SOAK_SEED` another seed. What is looked at: processes, descriptors, scratch directories,
//! memory of server and launcher, and that each started run has exactly one end in an unbroken chain.
//! Descriptors and scratch directories of processes that are not dumpable are listed by root only. For
//! everybody else two walls stand in: few descriptors and few scratch places for so many runs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    BINARY, Lab, Rules, Served, descendants, eventually, kill, parent, processes, status_of,
};

/// Runs before the first look: caches are full, and stubs wait, after that.
const WARM_UP: usize = 500;
/// Calls that are under way at the same time.
const AT_ONCE: usize = 8;
/// Those of them that wait for something that we do.
const HELD: usize = 3;
/// Descriptors that server and launcher may have, each.
const DESCRIPTORS: u64 = 192;
/// How much more memory each may hold at the end than after the warm-up, in KiB. A constant: a leak of
/// a few bytes a run is found by the long soak, one of kilobytes by the short one.
const GROWTH: u64 = 4096;

/// Time limit, in seconds, of a run that is not meant to reach it: longer than anything is waited for.
const LONG: f64 = 280.0;
/// For a server that is root: a user of whom nobody else has processes, since their number is limited.
const USER: &str = "user = \"61907:61907\"";

/// How a run is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Itself,
    Timeout,
    Cancel,
    KillCommand,
    KillStub,
}

/// xorshift64*: the same seed, the same soak.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

/// A number out of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}: {e}: {text}")))
}

/// The words of one run, its time limit in seconds, and how it ends.
fn draw(dice: &mut Dice, mark: &str) -> (Vec<String>, f64, End) {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let short = |dice: &mut Dice| 0.02 + f64::from(u32::try_from(dice.below(60)).unwrap()) / 1000.0;
    let (text, limit, end) = match dice.below(100) {
        0..=34 => ("say x".to_owned(), LONG, End::Itself),
        35..=39 => (format!("exit {}", dice.below(256)), LONG, End::Itself),
        40..=44 => {
            (format!("signal {}", [6, 9, 11, 15][usize::try_from(dice.below(4)).unwrap()]), LONG, End::Itself)
        }
        45..=49 => ("lines 3000".to_owned(), LONG, End::Itself),
        50..=54 => (format!("daemons {}", 1 + dice.below(4)), LONG, End::Itself),
        55..=57 => ("daemons-hold 2".to_owned(), LONG, End::Itself),
        58 => ("clutter".to_owned(), LONG, End::Itself),
        59..=60 => ("hoppers 1".to_owned(), LONG, End::Itself),
        61..=66 => ("pause".to_owned(), short(dice), End::Timeout),
        67..=69 => ("daemons-hang 3".to_owned(), short(dice), End::Timeout),
        70..=71 => ("hoppers-hang 1".to_owned(), short(dice), End::Timeout),
        72..=73 => ("forever".to_owned(), short(dice), End::Timeout),
        74..=82 => ("pause".to_owned(), LONG, End::Cancel),
        83..=85 => ("daemons-hang 3".to_owned(), LONG, End::Cancel),
        86..=87 => ("hoppers-hang 1".to_owned(), LONG, End::Cancel),
        88..=93 => ("pause".to_owned(), LONG, End::KillCommand),
        94..=96 => ("pause".to_owned(), LONG, End::KillStub),
        _ => (format!("daemons-hang {} {mark}", 1 + dice.below(3)), LONG, End::KillStub),
    };
    let mut words = words(&text);
    if words == ["pause"] {
        words.push(mark.to_owned());
    }
    (words, limit, end)
}

/// The process that the stub started with `mark` among its arguments, once it is there.
fn marked(mark: &str) -> i32 {
    let mut found = None;
    eventually("the command runs", || {
        let holders: HashSet<i32> = processes().into_iter().filter(|pid| has(*pid, mark)).collect();
        // Daemons of it have the same arguments, but another parent.
        found = holders.iter().copied().find(|pid| parent(*pid).is_some_and(is_stub));
        found.is_some()
    });
    found.unwrap()
}

fn has(pid: i32, mark: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline"));
    line.is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()))
}

/// A stub, or the launcher.
fn is_stub(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"cofferdam-launcher"))
}

/// The server under the soak.
struct Soak {
    served: Served,
    dice: Dice,
    launcher: i32,
    /// Calls that are answered without our doing.
    open: HashSet<u64>,
    /// Calls that wait for us: how they end, and the mark of their process.
    held: Vec<(u64, End, String)>,
    tally: BTreeMap<End, usize>,
    serial: usize,
}

impl Soak {
    fn start(lab: &Lab, seed: u64) -> Self {
        let mut command = Command::new("prlimit"); // apt-get install util-linux
        command.arg(format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}")).arg(BINARY);
        command.args(["serve", "--policy"]).arg(lab.policy()).current_dir(lab.at("."));
        let served = Served::by(command);
        let launcher = descendants(served.pid()).into_iter().find(|pid| is_stub(*pid)).unwrap();
        Self {
            served,
            dice: Dice(seed | 1),
            launcher,
            open: HashSet::new(),
            held: Vec::new(),
            tally: BTreeMap::new(),
            serial: 0,
        }
    }

    /// So many more runs, and the wait until each has its end.
    fn runs(&mut self, lab: &Lab, count: usize) {
        for _ in 0..count {
            while self.open.len() + self.held.len() >= AT_ONCE {
                self.settle();
            }
            self.serial += 1;
            let mark = format!("soak-{}-{}", self.served.pid(), self.serial);
            let (words, limit, end) = draw(&mut self.dice, &mark);
            let id = self.served.send_run(json!({"command": lab.probe(), "args": words, "timeout": limit}));
            *self.tally.entry(end).or_default() += 1;
            match end {
                End::Itself | End::Timeout => drop(self.open.insert(id)),
                _ => self.held.push((id, end, mark)),
            }
            // Often at once, before the run has started.
            if self.held.len() >= HELD || self.dice.below(3) == 0 {
                self.end_one();
            }
        }
        while self.open.len() + self.held.len() > 0 {
            self.settle();
        }
    }

    /// Makes room: ends a held call or waits for an answer.
    fn settle(&mut self) {
        if self.open.is_empty() {
            self.end_one();
        } else {
            let id = self.served.message()["id"].as_u64();
            // The answer to a call that was cancelled too late belongs to nobody.
            id.map(|id| self.open.remove(&id));
        }
    }

    fn end_one(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let chosen = self.dice.below(self.held.len() as u64);
        let (id, end, mark) = self.held.swap_remove(usize::try_from(chosen).unwrap());
        match end {
            End::Cancel => return self.served.cancel(id),
            End::KillStub => kill(parent(marked(&mark)).unwrap(), Signal::SIGKILL),
            _ => kill(marked(&mark), Signal::SIGKILL),
        }
        self.open.insert(id);
    }

    /// What server and launcher hold now that nothing runs.
    fn state(&self, lab: &Lab) -> State {
        let (starts, ends) = wait_for_ends(&lab.log());
        assert_eq!(starts, ends.values().sum::<usize>(), "each run has one end: {ends:?}");
        eventually("no process of a run is left", || lab.alive().is_empty());
        let count = |pid: i32, what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).map(Iterator::count);
        let places = scratch_places(self.launcher);
        let root = nix::unistd::Uid::effective().is_root();
        let mut state = State::default();
        // Stubs that have just ended are reaped, and their scratch emptied, a moment after the answer.
        eventually("server and launcher are at rest", || {
            let below = descendants(self.served.pid());
            let zombies = below.iter().any(|pid| status_of(*pid, "State").is_none_or(|s| s.starts_with('Z')));
            let fresh = State {
                processes: below.len(),
                server_kib: resident(self.served.pid()),
                launcher_kib: resident(self.launcher),
                server_fds: root.then(|| count(self.served.pid(), "fd").unwrap()),
                launcher_fds: root.then(|| count(self.launcher, "fd").unwrap()),
                scratch: root.then(|| places.iter().map(|place| entries(place)).sum()),
            };
            let rest = !zombies && fresh.things() == state.things();
            state = fresh;
            rest
        });
        state
    }
}

/// Figures that must not grow.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct State {
    processes: usize,
    server_kib: u64,
    launcher_kib: u64,
    server_fds: Option<usize>,
    launcher_fds: Option<usize>,
    scratch: Option<usize>,
}

impl State {
    fn things(&self) -> (usize, [Option<usize>; 3]) {
        (self.processes, [self.server_fds, self.launcher_fds, self.scratch])
    }
}

fn resident(pid: i32) -> u64 {
    status_of(pid, "VmRSS").unwrap().trim_end_matches(" kB").parse().unwrap()
}

/// The scratch file systems of the launcher, as its own root shows them; none where it has no mounts of
/// its own, or where only root may look.
fn scratch_places(launcher: i32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string(format!("/proc/{launcher}/mountinfo")).unwrap_or_default();
    let tmpfs = mounts.lines().filter(|line| line.contains(" - tmpfs scratch "));
    let points = tmpfs.filter_map(|line| line.split(' ').nth(4));
    points.map(|point| PathBuf::from(format!("/proc/{launcher}/root{point}"))).collect()
}

/// Scratch directories: entries of the file systems for one run each, not of the one that holds them.
fn entries(place: &Path) -> usize {
    let numbered = place.file_name().is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok());
    if numbered { fs::read_dir(place).unwrap().count() } else { 0 }
}

/// Started runs, and the ended ones by outcome; read line by line, since the log of a long soak is large.
fn counted(log: &Path) -> (usize, BTreeMap<String, usize>, HashMap<String, i64>) {
    let (mut starts, mut ends, mut open) = (0, BTreeMap::new(), HashMap::new());
    for line in BufReader::new(fs::File::open(log).unwrap()).lines() {
        let record: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let change = match record["event_type"].as_str() {
            Some("run.start") => 1,
            Some("run.end") => -1,
            Some("run.denied") => panic!("nothing is refused here: {record}"),
            _ => continue,
        };
        if change == 1 {
            starts += 1;
        } else {
            *ends.entry(record["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        let run = record["run_id"].as_str().unwrap().to_owned();
        let left = open.remove(&run).unwrap_or(0) + change;
        if left != 0 {
            open.insert(run, left);
        }
    }
    (starts, ends, open)
}

fn wait_for_ends(log: &Path) -> (usize, BTreeMap<String, usize>) {
    let mut seen = (0, BTreeMap::new());
    eventually("each run has its end", || {
        let (starts, ends, open) = counted(log);
        seen = (starts, ends);
        open.is_empty()
    });
    seen
}

#[test]
fn runs_leave_nothing_behind() {
    let runs = usize::try_from(number("COFFERDAM_SOAK", 2000)).unwrap();
    let seed = number("COFFERDAM_SOAK_SEED", 0x0C0F_FE4D);
    let sandbox = if nix::unistd::Uid::effective().is_root() { USER } else { "" };
    let limits = "jobs = 32\noutput_bytes = \"64KiB\"";
    let lab = Lab::new(&Rules { limits, sandbox, ..Rules::default() });
    let mut soak = Soak::start(&lab, seed);
    soak.runs(&lab, WARM_UP);
    let before = soak.state(&lab);
    soak.runs(&lab, runs);
    let after = soak.state(&lab);
    let (starts, ends) = wait_for_ends(&lab.log());
    println!("seed {seed}: {} runs, asked to end as {:?}, ended as {ends:?}", soak.serial, soak.tally);
    println!("after {WARM_UP} runs: {before:?}\nafter {runs} more:  {after:?}");
    // A run that is cancelled before it is recorded has neither record.
    let cancelled = soak.tally.get(&End::Cancel).copied().unwrap_or(0);
    assert!(starts <= soak.serial && starts + cancelled >= soak.serial, "{starts} of {}", soak.serial);
    for bad in ["spawn_error", "resource_limit"] {
        assert_eq!(ends.get(bad), None, "{ends:?}");
    }
    // A stub that dies before it could say that the command runs is a start that failed.
    let dead: usize = ["lost", "sandbox_error"].iter().filter_map(|outcome| ends.get(*outcome)).sum();
    assert_eq!(dead, soak.tally[&End::KillStub], "lost are those whose stub was killed: {ends:?}");
    assert!(after.processes <= before.processes, "processes: {before:?} {after:?}");
    assert!(after.server_fds <= before.server_fds, "descriptors of the server: {before:?} {after:?}");
    assert!(after.launcher_fds <= before.launcher_fds, "descriptors of the launcher: {before:?} {after:?}");
    assert!(after.scratch <= before.scratch, "scratch directories: {before:?} {after:?}");
    assert!(after.server_kib <= before.server_kib + GROWTH, "memory of the server: {before:?} {after:?}");
    assert!(
        after.launcher_kib <= before.launcher_kib + GROWTH,
        "memory of the launcher: {before:?} {after:?}"
    );
    assert_eq!(soak.served.stop(), Some(0));
    let log = lab.log();
    let verified = Command::new(BINARY).args(["audit", "verify"]).arg(&log).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}
