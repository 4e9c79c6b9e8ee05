//! What confinement costs: a bare `posix_spawn`, a confined run, and a whole audited call of the same
//! static program, interleaved in one process. Prints medians and ratios to the bare spawn; then how many
//! runs a second there are with several at once, against tokio's unconfined `Command`.
//!
//! `cargo bench --bench spawn [-- ROUNDS]`; figures mean something on a quiet machine only (as root,
//! `chrt -r 1` before it keeps other programs away).
#![allow(clippy::disallowed_methods, reason = "the bare spawn is what we compare with")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot run must say why and stop"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PAUSE, Road, bare, lab, policy, quantile, rounds, static_true};

/// Rounds that are run and not counted.
const WARM_UP: usize = 20;

fn main() {
    cofferdam::launch::become_launcher_if_asked();
    let rounds = rounds(400);
    let lab = lab();
    let program = static_true(lab.path());
    let programs = [program.clone()];
    let road = Arc::new(Road::new(&policy(lab.path(), &programs), &programs));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    // On a worker, as the server's calls are.
    let runtime = runtime.expect("async runtime");
    let (alone, of) = (Arc::clone(&road), program.clone());
    let samples = async move { tokio::spawn(measure(alone, of, rounds)).await };
    let mut samples = runtime.block_on(samples).expect("measurement");
    let base = quantile(&mut samples[0].1, 50);
    println!("{:<24} {:>10} {:>10} {:>7}", "what", "p50 us", "p90 us", "ratio");
    for (name, times) in &mut samples {
        let p50 = quantile(times, 50);
        let p90 = quantile(times, 90);
        let ratio = p50.as_secs_f64() / base.as_secs_f64();
        println!(
            "{name:<24} {:>10.1} {:>10.1} {ratio:>7.2}",
            p50.as_secs_f64() * 1e6,
            p90.as_secs_f64() * 1e6
        );
    }
    println!("{:<24} {:>10} {:>10} {:>7}", "at once", "confined/s", "tokio/s", "ratio");
    for many in [1, 2, 16, 64] {
        let (road, of) = (Arc::clone(&road), program.clone());
        let turns = (rounds / 40).max(3);
        let rates = runtime
            .block_on(async move { tokio::spawn(async move { crowd(&road, &of, many, turns).await }).await });
        let (ours, bare) = rates.expect("crowd");
        println!("{many:<24} {ours:>10.0} {bare:>10.0} {:>7.2}", ours / bare);
    }
}

/// Runs a second with `many` at once, ours and tokio's by turns: medians of the turns.
async fn crowd(road: &Arc<Road>, program: &Path, many: usize, turns: usize) -> (f64, f64) {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    // The first is not counted.
    for turn in 0..=turns {
        for confined in [true, false] {
            let start = Instant::now();
            let each = (CROWD / many).max(1);
            let runs: Vec<_> = (0..many)
                .map(|_| {
                    let (road, program) = (Arc::clone(road), program.to_owned());
                    tokio::spawn(async move {
                        for _ in 0..each {
                            if confined {
                                road.confined(0).await;
                            } else {
                                unconfined(&program).await;
                            }
                        }
                    })
                })
                .collect();
            for run in runs {
                run.await.expect("run");
            }
            let rate = (each * many) as f64 / start.elapsed().as_secs_f64();
            if turn > 0 {
                if confined { ours.push(rate) } else { bare.push(rate) }
            }
        }
    }
    let middle = |rates: &mut Vec<f64>| {
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    (middle(&mut ours), middle(&mut bare))
}

/// Runs of one turn.
const CROWD: usize = 1024;

/// The same program by tokio, with nothing around it.
async fn unconfined(program: &Path) {
    let mut command = tokio::process::Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().await.expect("tokio's command").success());
}

type Samples = [(&'static str, Vec<Duration>); 4];

async fn measure(road: Arc<Road>, program: PathBuf, rounds: usize) -> Samples {
    let mut samples: Samples = [
        ("posix_spawn", vec![]),
        ("confined", vec![]),
        ("confined, 500 MB heap", vec![]),
        ("audited call", vec![]),
    ];
    let mut heap: Vec<u8> = Vec::new();
    for large in [false, true] {
        if large {
            // Touched, so that a fork of this process would have to copy its page tables.
            heap = (0..500 << 20).map(|i: u32| i.to_le_bytes()[0]).collect();
        }
        for round in 0..rounds + WARM_UP {
            let bare = if large { None } else { Some(bare(&program)) };
            tokio::time::sleep(PAUSE).await;
            let confined = road.confined(0).await;
            tokio::time::sleep(PAUSE).await;
            let call = if large { None } else { Some(road.call(0).await.0) };
            tokio::time::sleep(PAUSE).await;
            if round >= WARM_UP {
                samples[0].1.extend(bare);
                samples[if large { 2 } else { 1 }].1.push(confined);
                samples[3].1.extend(call);
            }
        }
    }
    assert_eq!(heap.len(), 500 << 20);
    samples
}
