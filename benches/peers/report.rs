//! The tables: one a program, with ratios to the plain start and to ours, and what is missing.
//!
//! For `main.rs`. Markdown, to be pasted.

use std::fs;
use std::time::Duration;

use crate::common::quantile;
use crate::control::Open;
use crate::{Missing, Row};

/// Row that others are compared with.
pub(crate) const BASE: &str = "`posix_spawn`";
/// Row that peers are compared with.
pub(crate) const WARM: &str = "cofferdam, warm";
/// How many times longer than ours each must take, at least.
const BARS: [(&str, f64); 4] = [
    ("bubblewrap, strict", 10.0),
    ("firejail", 50.0),
    ("Codex sandbox, native", 250.0),
    ("sandbox-runtime", 1_000.0),
];

pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").expect("/proc/loadavg");
    text.split(' ').next().expect("load average").to_owned()
}

/// Under `chrt -r 1` what is started here goes before other work: close to a quiet machine on a busy one.
fn priority() -> &'static str {
    let text = fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    // proc(5): the 41st field is the policy; the name, in parentheses, may hold spaces.
    let (_, fields) = text.rsplit_once(") ").expect("fields");
    let policy = fields.split(' ').nth(38).expect("policy");
    if ["1", "2"].contains(&policy) { "real-time" } else { "ordinary" }
}

pub(crate) fn print(rows: &mut [Row], missing: &[Missing], rounds: usize, before: &str) {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("kernel");
    let cores = std::thread::available_parallelism().expect("cores");
    println!(
        "Linux {}, {cores} cores, {} priority, {rounds} shuffled rounds, load average {before} before and {} after.",
        kernel.trim(),
        priority(),
        load()
    );
    for (program, what) in ["a static program", "a dynamic program"].into_iter().enumerate() {
        println!("\nStart to end of {what} that does nothing:\n");
        println!("| | version | runs | p10 ms | p50 ms | p90 ms | × {BASE} | × cofferdam | open outside |");
        println!("|---|---|---:|---:|---:|---:|---:|---:|---|");
        let base = median(rows, BASE, program).expect("the plain start");
        let warm = median(rows, WARM, program);
        for row in rows.iter_mut().filter(|row| !row.times[program].is_empty()) {
            let times = &mut row.times[program];
            let [p10, p50, p90] = [10, 50, 90].map(|percent| quantile(times, percent));
            let against = warm.map_or_else(String::new, |warm| format!("{:.2}", ratio(p50, warm)));
            println!(
                "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {against} | {} |",
                row.name,
                row.version,
                times.len(),
                millis(p10),
                millis(p50),
                millis(p90),
                ratio(p50, base),
                open(row)
            );
        }
        println!();
        for (name, bar) in BARS {
            let (Some(peer), Some(warm)) = (median(rows, name, program), warm) else { continue };
            let times = ratio(peer, warm);
            let met = if times >= bar { "met" } else { "NOT met" };
            println!("- {name}: {times:.0} × ours; the bar is {bar:.0} ×: {met}");
        }
    }
    println!();
    for Missing { name, reason } in missing {
        println!("- {name} was not run: {}", reason.trim());
    }
    for row in rows.iter().filter(|row| row.failed > 0) {
        println!("- {}: {} runs failed and are not counted", row.name, row.failed);
    }
}

fn median(rows: &mut [Row], name: &str, program: usize) -> Option<Duration> {
    let row = rows.iter_mut().find(|row| row.name == name)?;
    let times = &mut row.times[program];
    (!times.is_empty()).then(|| quantile(times, 50))
}

/// What the control got through, in words; a row that writes or connects is no sandbox here.
fn open(row: &Row) -> String {
    let Some(Open { writes, reads, network }) = row.open else { return "not tried".to_owned() };
    let found = [(writes, "writes"), (reads, "reads"), (network, "network")];
    let names: Vec<&str> = found.into_iter().filter(|(open, _)| *open).map(|(_, name)| name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
