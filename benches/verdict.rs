//! What a verdict costs: one `Policy::judge_argv` and one whole `Policy::judge` over the corpora,
//! interleaved in one process; what a verdict allocates; both against the number of arguments; and rows
//! a second through `explain --json --stdin` of the built program.
//!
//! `cargo bench --bench verdict [-- ROUNDS]`; figures mean something on a quiet machine only. The bars are
//! those of the design: at most 5 µs for a verdict (p50), at least 100,000 rows a second. Times hold the
//! clock's own cost, which the first row shows.
#![allow(clippy::disallowed_methods, reason = "the built program is started to be measured")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot run must say why and stop"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cofferdam::config::{Config, LoadOptions, Source};
use cofferdam::policy::{AllowList, Policy, Request, Verdict};
use serde_json::Value;

const EVERYDAY: &str = include_str!("../tests/corpora/everyday_commands.jsonl");
const VERDICTS: &str = include_str!("../tests/corpora/argv_verdicts.jsonl");
/// Rounds that are run and not counted: grammars load, and patterns fill their caches.
const WARM_UP: usize = 2;
/// Rows for `explain`, and how often it reads them.
const ROWS: usize = 100_000;
const READS: usize = 5;
const VERDICT_BAR: Duration = Duration::from_micros(5);
const ROWS_BAR: f64 = 100_000.0;

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(60);
    let lab = tempfile::Builder::new().prefix("cofferdam-bench").tempdir().expect("temporary directory");
    let policy = policy(lab.path(), None);
    let groups = Groups::new(&policy);
    let mut samples: [(&str, Vec<Duration>); 6] = [
        ("clock", vec![]),
        ("judge_argv, everyday", vec![]),
        ("judge, everyday", vec![]),
        ("judge_argv, allowed", vec![]),
        ("judge_argv, refused", vec![]),
        ("judge, refused", vec![]),
    ];
    for round in 0..rounds + WARM_UP {
        let mut sink: Samples = std::array::from_fn(|_| Vec::new());
        groups.round(&policy, &mut sink);
        if round >= WARM_UP {
            for (kept, new) in samples.iter_mut().zip(sink) {
                kept.1.extend(new);
            }
        }
    }
    println!("{:<30} {:>9} {:>10} {:>10} {:>7}", "what", "verdicts", "p50 us", "p99 us", "ratio");
    let clock = quantile(&mut samples[0].1, 50);
    for (name, times) in &mut samples {
        let (p50, p99) = (quantile(times, 50), quantile(times, 99));
        let ratio = p50.as_secs_f64() / clock.as_secs_f64();
        let bar = if *name == "clock" { String::new() } else { met(p50 <= VERDICT_BAR, "5 us p50") };
        println!(
            "{name:<30} {:>9} {:>10.2} {:>10.2} {ratio:>7.1}  {bar}",
            times.len(),
            micros(p50),
            micros(p99)
        );
    }
    groups.allocations(&policy);
    linearity(lab.path());
    explain(lab.path());
}

type Samples = [Vec<Duration>; 6];

/// One argument vector, and the allow-list that stands in for the policy's own.
struct Row {
    argv: Vec<Vec<u8>>,
    list: Option<Arc<AllowList>>,
}

impl Row {
    fn allowed(&self, policy: &Policy) -> (bool, Duration) {
        let argv: Vec<&[u8]> = self.argv.iter().map(Vec::as_slice).collect();
        let start = Instant::now();
        let verdict = black_box(policy.judge_argv(black_box(&argv), self.list.as_deref()));
        let took = start.elapsed();
        (verdict.is_ok(), took)
    }

    /// The whole verdict, its result dropped outside of the time. The working directory is the
    /// caller's to open.
    fn judged(&self, policy: &Policy) -> (bool, Duration) {
        let request = Request { argv: self.argv.clone(), ..Request::default() };
        let cwd = policy.config().workspace.resolve(None);
        let start = Instant::now();
        let verdict = black_box(policy.judge(black_box(&request), cwd));
        let took = start.elapsed();
        (matches!(verdict, Verdict::Allow(_)), took)
    }
}

struct Groups {
    everyday: Vec<Row>,
    allowed: Vec<Row>,
    refused: Vec<Row>,
}

impl Groups {
    fn new(policy: &Policy) -> Self {
        let mut groups = Self { everyday: vec![], allowed: vec![], refused: vec![] };
        for line in EVERYDAY.lines() {
            let row = Row { argv: strings(&json(line)["argv"]), list: None };
            if row.allowed(policy).0 {
                groups.everyday.push(row);
            }
        }
        let mut lists: HashMap<String, Arc<AllowList>> = HashMap::new();
        for line in VERDICTS.lines() {
            let row = json(line);
            let key = format!("{} {}", row["allow"], row["allow_patterns"]);
            let list = lists.entry(key).or_insert_with(|| Arc::new(list(policy, &row)));
            let row = Row { argv: strings(&row["argv"]), list: Some(Arc::clone(list)) };
            // Those that the engine refuses cost what a refusal costs, whatever the corpus says.
            if row.allowed(policy).0 { groups.allowed.push(row) } else { groups.refused.push(row) }
        }
        assert!(groups.everyday.len() > 400 && groups.allowed.len() > 100 && groups.refused.len() > 100);
        groups
    }

    /// Each row once, the groups taking turns.
    fn round(&self, policy: &Policy, samples: &mut Samples) {
        let longest = self.everyday.len().max(self.allowed.len()).max(self.refused.len());
        for index in 0..longest {
            let start = Instant::now();
            samples[0].push(black_box(start).elapsed());
            if let Some(row) = self.everyday.get(index) {
                samples[1].push(of(row.allowed(policy), true));
                samples[2].push(of(row.judged(policy), true));
            }
            if let Some(row) = self.allowed.get(index) {
                samples[3].push(of(row.allowed(policy), true));
            }
            if let Some(row) = self.refused.get(index) {
                samples[4].push(of(row.allowed(policy), false));
                // Under the policy's own list, which refuses most of the names.
                samples[5].push(row.judged(policy).1);
            }
        }
    }

    fn allocations(&self, policy: &Policy) {
        println!("\n{:<30} {:>9} {:>10} {:>10}", "allocations", "verdicts", "mean", "most");
        let name_only = |row: &Row| {
            let argv: Vec<&[u8]> = row.argv.iter().map(Vec::as_slice).collect();
            allocated(|| drop(black_box(policy.judge_argv(&argv, row.list.as_deref()))))
        };
        let whole = |row: &Row| {
            let request = Request { argv: row.argv.clone(), ..Request::default() };
            let mut cwds = [(); 2].map(|()| Some(policy.config().workspace.resolve(None))).into_iter();
            allocated(|| drop(black_box(policy.judge(&request, cwds.next().flatten().expect("one each")))))
        };
        for (name, rows, count) in [
            ("judge_argv, everyday", &self.everyday, &name_only as &dyn Fn(&Row) -> usize),
            ("judge, everyday", &self.everyday, &whole),
            ("judge_argv, allowed", &self.allowed, &name_only),
            ("judge_argv, refused", &self.refused, &name_only),
        ] {
            let counts: Vec<usize> = rows.iter().map(count).collect();
            let sum: usize = counts.iter().sum();
            println!(
                "{name:<30} {:>9} {:>10.3} {:>10}",
                counts.len(),
                sum as f64 / counts.len() as f64,
                counts.iter().max().expect("rows")
            );
        }
    }
}

/// The verdict must be the one that the group is named for.
fn of((allowed, took): (bool, Duration), wanted: bool) -> Duration {
    assert_eq!(allowed, wanted, "a verdict changed between two rounds");
    took
}

/// Time and allocations at growing sizes, by the element and by the byte of one element: the figures of a
/// row are to stay as they are.
fn linearity(lab: &Path) {
    let names = "[\"grep\", \"git\", \"find\", \"tar\", \"cat\", \"awk\", \"no-grammar\"]";
    let policy = policy(lab, Some(&format!("version = 1\nallow = {names}\n")));
    let shapes: [(&str, &[&str], &[&str]); 6] = [
        ("grep, operands", &["grep", "x"], &["file.rs"]),
        ("grep, options", &["grep", "x"], &["-n"]),
        ("git log, paths", &["git", "log", "--"], &["src/a.rs"]),
        ("find, expression", &["find", "."], &["-name", "x", "-o"]),
        ("tar, members", &["tar", "-tf", "x.tar"], &["--no-recursion", "member"]),
        ("no grammar, operands", &["no-grammar"], &["file=a/b"]),
    ];
    let sizes = [10, 100, 1_000, 10_000];
    println!("\n{:<28}{}", "ns an element (allocations)", sizes.map(|n| format!("{n:>16}")).concat());
    for (name, head, cycle) in shapes {
        let rows = sizes.map(|size| {
            let argv = head.iter().chain(cycle.iter().cycle()).take(size);
            growth(&policy, &argv.map(|element| element.as_bytes()).collect::<Vec<_>>(), size)
        });
        println!("{name:<28}{}", rows.concat());
    }
    // Whatever the verdict is: hostile elements are refused, and must not take long before.
    let shapes: [(&str, &[&str], &str, &str); 5] = [
        ("grep, doubtful letters", &["grep"], "-~", "e"),
        ("git log, doubtful letters", &["git", "log"], "-~", "S"),
        ("no grammar, values", &["no-grammar"], "", "a="),
        ("no grammar, climbing", &["no-grammar"], "", "=a/.."),
        ("awk, text", &["awk"], "", "(/[x]/ a) "),
    ];
    let sizes = [100, 1_000, 10_000, 100_000];
    println!("\n{:<28}{}", "ns a byte (allocations)", sizes.map(|n| format!("{n:>16}")).concat());
    for (name, head, start, cycle) in shapes {
        let rows = sizes.map(|size| {
            let long = format!("{start}{}", cycle.repeat(size / cycle.len()));
            let argv = head.iter().copied().chain([long.as_str()]).map(str::as_bytes);
            growth(&policy, &argv.collect::<Vec<_>>(), size)
        });
        println!("{name:<28}{}", rows.concat());
    }
}

/// Median time by `size`, and allocations.
fn growth(policy: &Policy, argv: &[&[u8]], size: usize) -> String {
    let judge = || drop(black_box(policy.judge_argv(black_box(argv), None)));
    let count = allocated(judge);
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let start = Instant::now();
            judge();
            start.elapsed()
        })
        .collect();
    let each = quantile(&mut times, 50).as_secs_f64() * 1e9 / size as f64;
    format!("{:>16}", format!("{each:.1} ({count})"))
}

/// Rows a second of the program that was built along with this.
fn explain(lab: &Path) {
    let corpus = lab.join("rows.jsonl");
    let mut out = std::io::BufWriter::new(File::create(&corpus).expect("corpus"));
    for line in EVERYDAY.lines().chain(VERDICTS.lines()).cycle().take(ROWS) {
        writeln!(out, "{line}").expect("corpus");
    }
    out.into_inner().expect("corpus").sync_all().expect("corpus");
    let mut times: Vec<Duration> = (0..READS)
        .map(|_| {
            let start = Instant::now();
            let status = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
                .args(["explain", "--json", "--stdin", "--workspace"])
                .arg(lab)
                .stdin(File::open(&corpus).expect("corpus"))
                .stdout(Stdio::null())
                .status();
            assert!(status.expect("start of the program").success());
            start.elapsed()
        })
        .collect();
    let took = quantile(&mut times, 50);
    let rate = ROWS as f64 / took.as_secs_f64();
    println!("\nexplain --json --stdin: {ROWS} rows in {:.3} s, {rate:.0} rows/s  {}", took.as_secs_f64(), {
        met(rate >= ROWS_BAR, "100,000 rows/s")
    });
}

fn policy(lab: &Path, text: Option<&str>) -> Policy {
    let options = LoadOptions {
        workspace: Some(lab.to_path_buf()),
        audit_file: Some(PathBuf::from("/nonexistent/audit.jsonl")),
        ..LoadOptions::default()
    };
    let config = match text {
        None => Config::builtin_with(&options),
        Some(text) => {
            let text = format!("{text}[limits]\narguments = 65536\nargument_bytes = \"128KiB\"\n");
            Config::from_str(&text, Source::Builtin, &options)
        }
    };
    Policy::new(Arc::new(config.expect("policy")), &[]).expect("policy")
}

fn list(policy: &Policy, row: &Value) -> AllowList {
    let words = |key: &str| -> Vec<String> {
        row[key]
            .as_array()
            .into_iter()
            .flatten()
            .map(|word| word.as_str().expect("text").to_owned())
            .collect()
    };
    let (names, patterns) = (words("allow"), words("allow_patterns"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    policy.allow_list(&names, &patterns).expect("allow-list")
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).expect("a row is JSON")
}

fn strings(value: &Value) -> Vec<Vec<u8>> {
    let words = value.as_array().expect("an array").iter();
    words.map(|word| word.as_str().expect("text").as_bytes().to_vec()).collect()
}

fn quantile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn met(met: bool, bar: &str) -> String {
    format!("{} ({bar})", if met { "met" } else { "MISSED" })
}

/// Allocations that `work` asks for, the second time: patterns fill their caches at the first.
fn allocated(mut work: impl FnMut()) -> usize {
    work();
    let before = COUNT.load(Ordering::Relaxed);
    work();
    COUNT.load(Ordering::Relaxed) - before
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System`, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `block` came from `System`, with this layout; the caller vouches for `size`.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
