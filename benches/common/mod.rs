//! What benchmarks of starting programs share: a lab, a program that does nothing, our own road, quantiles.
//!
//! For `benches/spawn.rs`, `benches/inside/` and `benches/peers/`. Panics with a reason: a benchmark that cannot run must say
//! why and stop.
#![allow(clippy::disallowed_methods, reason = "the bare spawn is what we compare with")]
#![allow(dead_code, reason = "each benchmark uses its part")]
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

use cofferdam::appliance::{Appliance, Call, Outcome, Report};
use cofferdam::config::{Config, LoadOptions, Source};
use cofferdam::launch::seam::Seam;
use cofferdam::launch::{Ended, Launcher, Prepared};
use cofferdam::policy::{Authorized, Policy, Request, Target, Verdict};
use cofferdam::run::Exit;
use cofferdam::sandbox::profile::Profile;
use cofferdam::sandbox::rlimits;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Lets the next stub get ready, as it would between two calls of an agent.
pub(crate) const PAUSE: Duration = Duration::from_millis(4);

/// A directory that the user of commands can search, gone at the end.
pub(crate) fn lab() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let lab = tempfile::Builder::new().prefix("cofferdam-bench").tempdir().expect("temporary directory");
    std::fs::set_permissions(lab.path(), std::fs::Permissions::from_mode(0o755)).expect("mode of the lab");
    lab
}

/// The number on the command line, or `default`.
pub(crate) fn rounds(default: usize) -> usize {
    std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(default)
}

/// `percent` of the times are at most this long; sorts them.
pub(crate) fn quantile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// Builds a C program that links nothing at run time.
pub(crate) fn static_program(dir: &Path, name: &str, code: &str) -> PathBuf {
    let (source, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&source, code).expect("source");
    let built = Command::new("gcc").args(["-O1", "-static", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("gcc").success(), "apt-get install gcc libc6-dev");
    program
}

/// The cheapest program there is: exits at once, links nothing.
pub(crate) fn static_true(dir: &Path) -> PathBuf {
    static_program(dir, "true", "int main(void) { return 0; }\n")
}

/// A plain start of the program, to its end.
pub(crate) fn bare(program: &Path) -> Duration {
    let start = Instant::now();
    // std uses posix_spawn where nothing forbids it.
    let status =
        Command::new(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.expect("bare spawn").success());
    start.elapsed()
}

/// The launcher by itself, and the whole appliance, over one policy.
pub(crate) struct Road {
    policy: Policy,
    launcher: Launcher,
    appliance: Appliance,
    programs: Vec<(Request, Prepared)>,
}

/// The policy that allows these programs and nothing else, in the workspace `ws` of the lab.
pub(crate) fn policy(lab: &Path, programs: &[PathBuf]) -> String {
    let workspace = lab.join("ws");
    std::fs::create_dir_all(&workspace).expect("workspace");
    format!(
        "version = 1\nallow = {programs:?}\n[limits]\njobs = 64\n[workspace]\npath = \"{}\"\n[audit]\nsinks = [{{ kind = \"file\", path = \"{}\" }}]\n",
        workspace.display(),
        lab.join("audit/audit.jsonl").display(),
    )
}

impl Road {
    pub(crate) fn new(text: &str, programs: &[PathBuf]) -> Self {
        let argv = |program: &PathBuf| vec![program.as_os_str().as_encoded_bytes().to_vec()];
        Self::of(text, programs.iter().map(argv).collect())
    }

    /// The same with arguments.
    pub(crate) fn of(text: &str, lines: Vec<Vec<Vec<u8>>>) -> Self {
        let config = || Config::from_str(text, Source::Builtin, &LoadOptions::default()).expect("policy");
        let appliance = Appliance::start(config()).expect("appliance");
        let config = Arc::new(config());
        let launcher = cofferdam::launch::start(&config).expect("launcher");
        let policy = Policy::new(Arc::clone(&config), &[]).expect("policy");
        let prepared = |argv: Vec<Vec<u8>>| {
            let request = Request { argv, ..Request::default() };
            let plan = judge(&policy, &request);
            let Target::Found(file) = plan.target() else { panic!("the program is not there") };
            let profile = Profile::compile(&config, plan.command(), file).expect("profile");
            let digest = profile.digest().expect("digest");
            (request, Prepared { profile: Arc::new(profile), digest })
        };
        let programs = lines.into_iter().map(prepared).collect();
        Self { policy, launcher, appliance, programs }
    }

    /// Verdict, hand-over to a warm stub, exec, exit, tree kill, report: no audit, no capture.
    pub(crate) async fn confined(&self, program: usize) -> Duration {
        let null = || std::fs::File::options().read(true).write(true).open("/dev/null").expect("null").into();
        self.confined_with(program, [null(), null(), null()]).await
    }

    /// The same with standard input, output and error of one's own.
    pub(crate) async fn confined_with(&self, program: usize, stdio: [OwnedFd; 3]) -> Duration {
        let (took, ended) = self.confined_end(program, stdio).await;
        assert_eq!((ended.code, ended.left), (Some(0), 0));
        took
    }

    /// What the policy lets run, and as whom.
    pub(crate) fn plan(&self, program: usize) -> (Authorized, u32, u32) {
        let facts = self.launcher.facts();
        (judge(&self.policy, &self.programs[program].0), facts.uid, facts.gid)
    }

    /// The same, however it ends.
    pub(crate) async fn confined_end(&self, program: usize, stdio: [OwnedFd; 3]) -> (Duration, Ended) {
        let (request, prepared) = &self.programs[program];
        let start = Instant::now();
        let plan = judge(&self.policy, request);
        let facts = self.launcher.facts();
        let limits = rlimits::of(plan.limits(), &facts.hard_limits, facts.cgroup.counts_processes());
        let programs = &self.policy.config().programs;
        let ready = Seam::default().pass(&plan, prepared, programs).await.expect("ready");
        let mut running =
            self.launcher.run(&ready, prepared, limits, stdio, Duration::ZERO).await.expect("start");
        let ended = running.ended().await.expect("end");
        (start.elapsed(), ended)
    }

    /// Everything a caller pays for: verdict, durable start record, run, capture, end record.
    pub(crate) async fn call(&self, program: usize) -> (Duration, Report) {
        let request = self.programs[program].0.clone();
        let start = Instant::now();
        let outcome = self.appliance.run(Call { request, ..Call::default() }, CancellationToken::new()).await;
        let took = start.elapsed();
        match outcome {
            Outcome::Ran(report) if report.exit == Exit::Code(0) => (took, *report),
            other => panic!("{other:?}"),
        }
    }
}

fn judge(policy: &Policy, request: &Request) -> Authorized {
    match policy.judge(request, policy.config().workspace.resolve(None)) {
        Verdict::Allow(plan) => *plan,
        other => panic!("{other:?}"),
    }
}
