//! How fast records are chained and made durable. Prints figures; asserts nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use cofferdam::audit::{
    Audit, Context, Ending, LimitFacts, Origin, RunDenied, RunEnd, RunStart, SandboxFacts, Stamps,
};
use cofferdam::config::{AuditConfig, OnFailure, Sink};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let config = AuditConfig {
        sinks: vec![Sink::File(dir.path().join("audit.jsonl"))],
        on_failure: OnFailure::Refuse,
        redact: Vec::new(),
        checkpoint: None,
    };
    let origin = Origin { policy_digest: format!("sha256:{}", "ab".repeat(32)), ..Origin::default() };
    let audit = Audit::open(&config, origin)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let argv: Vec<Vec<u8>> =
        ["git", "log", "--oneline", "-3"].iter().map(|part| part.as_bytes().to_vec()).collect();
    for callers in [1, 16, 64, 256] {
        let runs = 2_000 / callers + 20;
        let started = Instant::now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..callers)
                .map(|_| {
                    let (audit, argv) = (audit.clone(), argv.clone());
                    tokio::spawn(async move {
                        for _ in 0..runs {
                            pair(&audit, &argv).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                let _ = task.await;
            }
        });
        report(
            &format!("run.start (durable) + run.end, {callers} callers"),
            callers * runs * 2,
            started.elapsed(),
        );
    }
    // Everything at once: what is queued is chained and written in batches, so that the syncs vanish.
    let started = Instant::now();
    let total = 100_000;
    runtime.block_on(async {
        let tasks: Vec<_> = (0..1_000)
            .map(|_| {
                let (audit, argv) = (audit.clone(), argv.clone());
                tokio::spawn(async move {
                    for _ in 0..total / 1_000 {
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
    report("run.denied (durable), 1,000 callers", total, started.elapsed());
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
