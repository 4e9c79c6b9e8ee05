//! What confinement costs: a bare `posix_spawn`, a confined run, and a whole audited call of the same
//! static program, interleaved in one process. Prints medians and ratios to the bare spawn; then how many
//! runs a second there are with several at once, against tokio's unconfined `Command`.
//!
//! `cargo bench --bench spawn [-- ROUNDS]`; figures mean something on a quiet machine only (as root,
//! `chrt -r 1` before it keeps other programs away).
#![allow(clippy::disallowed_methods, reason = "the bare spawn is what we compare with")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot run must say why and stop"
)]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam::appliance::{Appliance, Call, Outcome};
use cofferdam::config::{Config, LoadOptions, Source};
use cofferdam::launch::{Launcher, Prepared};
use cofferdam::policy::{Authorized, Policy, Request, Target, Verdict};
use cofferdam::run::Exit;
use cofferdam::sandbox::profile::Profile;
use cofferdam::sandbox::rlimits;
use tokio_util::sync::CancellationToken;

/// Rounds that are run and not counted.
const WARM_UP: usize = 20;
/// Lets the next stub get ready, as it would between two calls of an agent.
const PAUSE: Duration = Duration::from_millis(4);

fn main() {
    cofferdam::launch::become_launcher_if_asked();
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(400);
    let lab = tempfile::Builder::new().prefix("cofferdam-bench").tempdir().expect("temporary directory");
    open_to_all(lab.path());
    let program = static_true(lab.path());
    let road = Arc::new(Road::new(lab.path(), &program));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    // On a worker, as the server's calls are.
    let runtime = runtime.expect("async runtime");
    let (alone, of) = (Arc::clone(&road), program.clone());
    let samples = async move { tokio::spawn(measure(alone, of, rounds)).await };
    let mut samples = runtime.block_on(samples).expect("measurement");
    let base = median(&mut samples[0].1);
    println!("{:<24} {:>10} {:>10} {:>7}", "what", "p50 us", "p90 us", "ratio");
    for (name, times) in &mut samples {
        let p50 = median(times);
        let p90 = times[times.len() * 9 / 10];
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
    for _ in 0..turns {
        for confined in [true, false] {
            let start = Instant::now();
            let each = (CROWD / many).max(1);
            let runs: Vec<_> = (0..many)
                .map(|_| {
                    let (road, program) = (Arc::clone(road), program.to_owned());
                    tokio::spawn(async move {
                        for _ in 0..each {
                            if confined { drop(road.confined().await) } else { unconfined(&program).await }
                        }
                    })
                })
                .collect();
            for run in runs {
                run.await.expect("run");
            }
            let rate = (each * many) as f64 / start.elapsed().as_secs_f64();
            if confined { ours.push(rate) } else { bare.push(rate) }
        }
    }
    let middle = |rates: &mut Vec<f64>| {
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    (middle(&mut ours), middle(&mut bare))
}

/// Runs of one turn.
const CROWD: usize = 256;

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
            let confined = road.confined().await;
            tokio::time::sleep(PAUSE).await;
            let call = if large { None } else { Some(road.call().await) };
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

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The cheapest program there is: exits at once, links nothing.
fn static_true(lab: &Path) -> PathBuf {
    let (source, program) = (lab.join("true.c"), lab.join("true"));
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("source");
    let built = Command::new("gcc").args(["-O1", "-static", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("gcc").success(), "apt-get install gcc libc6-dev");
    program
}

fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).expect("mode of the lab");
}

/// The launcher by itself, and the whole appliance, over one policy.
struct Road {
    policy: Policy,
    launcher: Launcher,
    prepared: Prepared,
    appliance: Appliance,
    request: Request,
}

impl Road {
    fn new(lab: &Path, program: &Path) -> Self {
        let workspace = lab.join("ws");
        std::fs::create_dir(&workspace).expect("workspace");
        let text = format!(
            "version = 1\nallow = [\"{}\"]\n[limits]\njobs = 64\n[workspace]\npath = \"{}\"\n[audit]\nsinks = [{{ kind = \"file\", path = \"{}\" }}]\n",
            program.display(),
            workspace.display(),
            lab.join("audit/audit.jsonl").display(),
        );
        let config = || Config::from_str(&text, Source::Builtin, &LoadOptions::default()).expect("policy");
        let appliance = Appliance::start(config()).expect("appliance");
        let config = Arc::new(config());
        let launcher = cofferdam::launch::start(&config).expect("launcher");
        let policy = Policy::new(Arc::clone(&config), &[]).expect("policy");
        let argv = vec![program.as_os_str().as_encoded_bytes().to_vec()];
        let request = Request { argv, ..Request::default() };
        let plan = judge(&policy, &request);
        let Target::Found(file) = plan.target() else { panic!("the program is not there") };
        let profile = Profile::compile(&config, plan.command(), file).expect("profile");
        let digest = profile.digest().expect("digest");
        let prepared = Prepared { profile: Arc::new(profile), digest };
        Self { policy, launcher, prepared, appliance, request }
    }

    /// Verdict, hand-over to a warm stub, exec, exit, tree kill, report: no audit, no capture.
    async fn confined(&self) -> Duration {
        let null = || {
            OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/null").expect("null"))
        };
        let stdio = [null(), null(), null()];
        let start = Instant::now();
        let plan = judge(&self.policy, &self.request);
        let limits = rlimits::of(
            plan.limits(),
            &self.launcher.facts().hard_limits,
            self.launcher.facts().cgroup.counts_processes(),
        );
        let running = self.launcher.run(&plan, &self.prepared, limits, stdio).await.expect("start");
        let ended = running.ended().await.expect("end");
        let took = start.elapsed();
        assert_eq!((ended.code, ended.left), (Some(0), 0));
        took
    }

    /// Everything a caller pays for: verdict, durable start record, run, capture, end record.
    async fn call(&self) -> Duration {
        let request = self.request.clone();
        let start = Instant::now();
        let outcome = self.appliance.run(Call { request, ..Call::default() }, CancellationToken::new()).await;
        let took = start.elapsed();
        assert!(matches!(&outcome, Outcome::Ran(report) if report.exit == Exit::Code(0)), "{outcome:?}");
        took
    }
}

fn judge(policy: &Policy, request: &Request) -> Authorized {
    match policy.judge(request, policy.config().workspace.resolve(None)) {
        Verdict::Allow(plan) => *plan,
        Verdict::Deny(denial) => panic!("{denial:?}"),
    }
}

fn bare(program: &Path) -> Duration {
    let start = Instant::now();
    // std uses posix_spawn where nothing forbids it.
    let status =
        Command::new(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.expect("bare spawn").success());
    start.elapsed()
}
