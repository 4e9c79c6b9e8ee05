//! How fast records are redacted, chained and made durable. Prints figures beside their bars; asserts nothing.
//!
//! Bars: 50 µs a command for redaction; 50,000 chained records a second without a sync; with 16 callers ten times
//! the records of one caller, who waits for a sync each time.

use std::path::Path;
use std::time::{Duration, Instant};

use cofferdam::audit::verify::verify;
use cofferdam::audit::{
    Audit, Context, Ending, LimitFacts, Origin, RunDenied, RunEnd, RunStart, SandboxFacts, Stamps, redacted,
};
use cofferdam::config::{AuditConfig, Sink, SyncPolicy};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    redaction();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    chained(&runtime)?;
    durable(&runtime)
}

/// Microseconds a command, over the benign corpus and over the forms with a secret.
fn redaction() {
    const BENIGN: &str = include_str!("../tests/corpora/benign_commands.txt");
    const FORMS: &str = include_str!("../tests/corpora/redaction/held_out.txt");
    for (what, corpus, rounds) in [("benign commands", BENIGN, 2), ("commands with a secret", FORMS, 40)] {
        let commands: Vec<Vec<String>> = corpus
            .lines()
            .map(|line| line.replace("@S@", "Zk9qLw8Rt5Yx2").split(' ').map(str::to_owned).collect())
            .collect();
        // Patterns are compiled at first use.
        let mut hits = commands.iter().map(|command| redacted(command).1).sum::<u64>();
        hits = hits.min(1_000_000);
        let mut each: Vec<Duration> = Vec::with_capacity(commands.len() * rounds);
        for _ in 0..rounds {
            for command in &commands {
                let started = Instant::now();
                std::hint::black_box(redacted(command));
                each.push(started.elapsed());
            }
        }
        each.sort_unstable();
        let mean = each.iter().sum::<Duration>() / u32::try_from(each.len()).unwrap_or(u32::MAX);
        let at = |part: usize| each.get(each.len() * part / 100).copied().unwrap_or_default();
        println!(
            "redaction, {what}: mean {mean:?}, p50 {:?}, p99 {:?} (bar 50 µs a command); {hits} spans in {}",
            at(50),
            at(99),
            commands.len()
        );
    }
}

fn open(dir: &Path, sync: SyncPolicy) -> Result<Audit, Box<dyn std::error::Error>> {
    let config = AuditConfig { sync, ..AuditConfig::new(vec![Sink::File(dir.join("audit.jsonl"))]) };
    let origin = Origin { policy_digest: format!("sha256:{}", "ab".repeat(32)), ..Origin::default() };
    Ok(Audit::open(&config, origin)?)
}

fn argv() -> Vec<Vec<u8>> {
    ["git", "log", "--oneline", "-3"].iter().map(|part| part.as_bytes().to_vec()).collect()
}

/// Records without a sync, and how fast they are walked again.
fn chained(runtime: &tokio::runtime::Runtime) -> Outcome {
    let dir = tempfile::tempdir()?;
    let audit = open(dir.path(), SyncPolicy::Relaxed)?;
    let total = 100_000;
    let took = denials(runtime, &audit, 500, total);
    report("run.denied, relaxed, 500 callers (bar 50,000 a second)", total, took);
    drop(audit);
    let mut files: Vec<_> = std::fs::read_dir(dir.path())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let started = Instant::now();
    let found = verify(&files, None)?;
    report("verify", usize::try_from(found.records)?, started.elapsed());
    if let Some(found) = found.broken {
        return Err(found.to_string().into());
    }
    Ok(())
}

fn denials(runtime: &tokio::runtime::Runtime, audit: &Audit, callers: usize, total: usize) -> Duration {
    let started = Instant::now();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (audit, argv) = (audit.clone(), argv());
                tokio::spawn(async move {
                    for _ in 0..total / callers {
                        let facts = RunDenied {
                            argv: &argv,
                            cwd: Path::new("/work"),
                            env_names: &[],
                            stdin_bytes: None,
                            rule_id: "default",
                            rule_kind: "allow",
                            reason: "command_not_allowed",
                            consent: None,
                            stamps: Stamps::default(),
                        };
                        let _ = audit.run_denied(&Context::default(), &facts).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            let _ = task.await;
        }
    });
    started.elapsed()
}

/// What a sync costs, and how callers share it.
fn durable(runtime: &tokio::runtime::Runtime) -> Outcome {
    let dir = tempfile::tempdir_in(".")?;
    let audit = open(dir.path(), SyncPolicy::Strict)?;
    let mut alone = 0.0;
    for callers in [1, 16, 64, 256] {
        let total = (1_000 + callers * 40) / callers * callers;
        let took = denials(runtime, &audit, callers, total);
        let rate = total as f64 / took.as_secs_f64();
        report(&format!("run.denied (durable), {callers} callers"), total, took);
        if callers == 1 {
            alone = rate;
        } else {
            println!("  {:.1} times one sync a record (bar 10 with 16 callers)", rate / alone);
        }
    }
    // What a run waits for: its start, durable, and its end, written.
    let argv = argv();
    let mut each: Vec<Duration> = (0..500)
        .map(|_| {
            let started = Instant::now();
            runtime.block_on(pair(&audit, &argv));
            started.elapsed()
        })
        .collect();
    each.sort_unstable();
    let at = |part: usize| each.get(each.len() * part / 100).copied().unwrap_or_default();
    println!("run.start (durable) + run.end, one run: p50 {:?}, p95 {:?} added to a run", at(50), at(95));
    Ok(())
}

async fn pair(audit: &Audit, argv: &[Vec<u8>]) {
    let facts = RunStart {
        argv,
        exe: Some(Path::new("/usr/bin/git")),
        cwd: Path::new("/work"),
        env_names: &[],
        stdin_bytes: None,
        limits: LimitFacts::default(),
        sandbox: SandboxFacts::default(),
        rule_id: "allow",
        rule_kind: "allow",
        consent: None,
        stamps: Stamps::default(),
    };
    let Ok(run) = audit.run_start(&Context::default(), &facts).await else { return };
    let _ =
        audit.run_end(run, &RunEnd { ending: Ending::Exited(0), pid: Some(1), ..RunEnd::default() }).await;
}

fn report(what: &str, records: usize, took: Duration) {
    println!("{what}: {records} records, {:.0} a second", records as f64 / took.as_secs_f64());
}
