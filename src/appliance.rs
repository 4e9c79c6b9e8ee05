//! The embeddable face: policy, launcher and audit behind one value. Knows nothing of MCP.
//!
//! Called by `cli/`, `mcp/` and by programs that embed the library. Every road to a process goes
//! through [`Appliance::run`]: judged, recorded durably, confined, captured, recorded again.

mod batch;
mod consent;
mod hints;
pub mod host;
mod judged;
mod line;
mod log;
mod outcome;
mod places;
mod recording;
mod records;
pub(crate) mod reload;

pub use consent::{Asker, Means, Question};
pub use hints::Hint;
pub use judged::Judged;
pub use line::{Explained, explain as explain_line, unread as unread_line};
pub use line::{LineCall, LineDenied, LineOutcome, LineReport, StageEnd, StageReport};
pub(crate) use outcome::sandbox;
pub use outcome::{Call, NotStarted, Outcome, Report};
pub use recording::Recording;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::consent::Step;
use self::places::Places;
use crate::audit::{Audit, AuditError, HostFacts, OpenRun, RunDenied, RunStart};
use crate::config::{Command, Config, ConfigError, Limits, RunUser, server_environment};
use crate::fault;
use crate::launch::seam::{Ready, Seam, Wrapped, Wrapper};
use crate::launch::{EndedBy, Facts, LaunchError, Launcher, Prepared, Running, Touch};
use crate::policy::consent::Consents;
use crate::policy::knowledge;
use crate::policy::{Authorized, Denial, Policy, PolicyError, Reason, Request, RuleKind, Target, Verdict};
use crate::run::foreground::{self, Finished, Outputs};
use crate::run::{Budget, Chunk, Tap};
use crate::sandbox::host::Own;
use crate::sandbox::own;
use crate::sandbox::profile::Profile;
use crate::sandbox::rlimits;

/// Profiles that are remembered; with `allow_any` there are as many as programs.
const PROFILES: usize = 1024;

/// Why an appliance could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The policy file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The policy as a whole.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It does not do what its own examples say.
    #[error("examples of the policy do not hold ({0}); `cofferdam check` says more")]
    Examples(String),
    /// The server's own walls.
    #[error(transparent)]
    Own(#[from] own::OwnError),
    /// They cannot be read back as they were put up.
    #[error("confinement of the server cannot be read back: {0}; mount /proc for this process")]
    Walls(String),
    /// The launcher or a requirement of the sandbox.
    #[error("sandbox: {0}")]
    Launch(#[from] LaunchError),
    /// The audit log.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// Policy, launcher and audit, ready to run commands.
#[derive(Debug)]
pub struct Appliance {
    policy: Policy,
    launcher: Arc<Launcher>,
    seam: Arc<Seam>,
    audit: Audit,
    places: Places,
    /// Questions to people, and what became of their answers.
    consents: Consents,
    /// When this appliance was made: the clock of its consents.
    made: Instant,
    /// Profiles by allow-list entry and program file, made at first use.
    profiles: Mutex<HashMap<(String, u64, u64), Prepared>>,
    /// What the host was found to be at start, where it was looked at.
    host: Option<HostFacts>,
    /// Runs are recorded, for `learn`.
    recording: Option<Recording>,
    /// What they touched.
    touched: Mutex<Vec<Touch>>,
}

impl Appliance {
    /// Starts the launcher and opens the audit log. Call it before any thread exists: the launcher
    /// is this executable, started again from here.
    ///
    /// # Errors
    /// A requirement that does not hold, a sink that takes no records.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::launch(config, false)
    }

    /// The same for a process that does nothing else: once the launcher is up, the process confines itself
    /// for good. It starts no program, reaches no port but those of its audit sinks, and writes nothing but its audit log.
    ///
    /// # Errors
    /// As [`Appliance::start`], or a step of the confinement.
    pub fn start_confined(config: Config) -> Result<Self, StartError> {
        Self::launch(config, true)
    }

    fn launch(config: Config, confined: bool) -> Result<Self, StartError> {
        let config = Arc::new(config);
        let launcher = crate::launch::start(&config)?;
        let host = host::require(&config, launcher.facts(), confined)?;
        let mut walls = None;
        if confined {
            let (directories, ports) = (Audit::directories(&config.audit)?, Audit::ports(&config.audit)?);
            own::confine(&directories, launcher.groups_in(), &ports)?;
            let own = Own::read().map_err(StartError::Walls)?;
            if !own.no_new_privs || own.seccomp != 2 {
                return Err(StartError::Walls(format!("the kernel says {own:?}")));
            }
            walls = Some(own);
        }
        let host = host.map(|host| host::recorded(&config, launcher.facts(), &host, walls.as_ref()));
        let new = Self { host, ..Self::with(config, launcher)? };
        let failed: Vec<String> = new.failed_examples().iter().map(ToString::to_string).collect();
        if failed.is_empty() { Ok(new) } else { Err(StartError::Examples(failed.join("; "))) }
    }

    fn with(config: Arc<Config>, launcher: Launcher) -> Result<Self, StartError> {
        let policy = Policy::new(Arc::clone(&config), &server_environment())?;
        let audit = Audit::open(&config.audit, records::origin(&config))?;
        let places = Places::new(&config);
        let (consents, made) = (Consents::new(config.limits.consent_time), Instant::now());
        let (profiles, touched) = (Mutex::new(HashMap::new()), Mutex::new(Vec::new()));
        let (launcher, seam) = (Arc::new(launcher), Arc::default());
        let (host, recording) = (None, None);
        Ok(Self { policy, launcher, seam, audit, places, consents, made, profiles, host, recording, touched })
    }

    /// Puts every command, of a run and of a job alike, into what `wrapper` says; see there for what it can do
    /// inside of the built-in confinement, and what not. In place of an earlier one.
    #[must_use]
    pub fn with_wrapper(mut self, wrapper: impl Wrapper) -> Self {
        self.seam = Arc::new(Seam::new(wrapper));
        self
    }

    /// Records that a server starts to serve `transport`, and the policy it serves.
    ///
    /// # Errors
    /// When the records could not be made durable: nothing may be served then.
    pub async fn announce(&self, transport: Option<&'static str>) -> Result<(), AuditError> {
        let config = self.config();
        let mut facts = records::server_start(config, self.launcher.facts(), transport);
        facts.host.clone_from(&self.host);
        self.audit.server_start(&facts).await?;
        self.announce_policy(None).await
    }

    /// Records the end of the server. Nothing is run afterwards.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn stop(&self) -> Result<(), AuditError> {
        self.audit.server_stop().await
    }

    /// Ends the launcher with all that runs, and the audit log, whoever still holds this value. For the end of a
    /// process: tasks of its runtime may hold it a moment longer than the process lasts.
    pub fn end(&self) {
        self.launcher.end();
        self.audit.end();
    }

    /// The policy that judges.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The configuration behind it.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        self.policy.config()
    }

    /// What the launcher enforces on every run.
    #[must_use]
    pub fn sandbox(&self) -> &Facts {
        self.launcher.facts()
    }

    /// What the host and the policy together take away, to be said loudly at start.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(why) = &self.sandbox().no_mount_namespace {
            found.push(format!(
                "commands have no mounts of their own ({why}): only the mounts of the host keep what they may \
                 read from being changed in mode, .git from being written, and scratch small"
            ));
        }
        if self.sandbox().uid == 0 && self.config().sandbox.user == RunUser::Auto {
            found.push(format!(
                "commands run as root (without capabilities), because the unprivileged user cannot {} the \
                 workspace {}; limits.processes does not hold for root: chown it, or set sandbox.user",
                if self.config().workspace.write { "write" } else { "reach" },
                self.config().workspace.path.display()
            ));
        }
        found.extend(knowledge::idle_names(self.config()).unwrap_or_else(|error| vec![error.to_string()]));
        if let (Some(path), Some(reason)) = (&self.sandbox().cgroup.path, &self.sandbox().cgroup.reason) {
            let path = path.display();
            found.push(format!("the cgroups of runs below {path} hold not every limit: {reason}"));
        }
        found
    }

    /// Judges, records, runs, captures and records one command. When `cancel` fires, the whole
    /// process tree is killed and the run is reported as cancelled. A command that a person has to agree to
    /// comes back as a question ([`Outcome::Ask`]) where the call says how one can be asked.
    pub async fn run(&self, mut call: Call, cancel: CancellationToken) -> Outcome {
        let accepted = Instant::now();
        fault::point("run:accepted");
        call.context.toolkit.clone_from(&call.request.toolkit);
        let judged = match call.refused.take() {
            Some(denial) => Verdict::Deny(denial),
            None => self.judge(&call.request, call.stdin.as_ref()),
        };
        let (judged, consent) = match judged {
            Verdict::Allow(plan) => (Ok(plan), None),
            Verdict::Deny(denial) => (Err(denial), None),
            Verdict::Ask(asking) => match self.consent(*asking, &call) {
                Step::Ask(pending) => return self.asked(pending, call).await,
                Step::Decided(judged, consent) => (judged, Some(consent)),
            },
        };
        let Call { request, stdin, context, live, tap, queued, .. } = call;
        // Held until the end is recorded.
        let placed = match judged {
            Ok(plan) if queued => {
                self.places.wait_many(request.toolkit.as_deref(), 1, &cancel).await.map(|place| (plan, place))
            }
            Ok(plan) => self.places.take(request.toolkit.as_deref()).map(|place| (plan, place)),
            Err(denial) => Err(denial),
        };
        let (plan, _place) = match placed {
            Ok(ready) => ready,
            Err(denial) => {
                let env_names = records::asked_names(&request);
                let facts = records::run_denied(self.config(), &request, &env_names, stdin.as_ref(), &denial);
                let facts = RunDenied { consent: consent.as_ref(), ..facts };
                return match self.audit.run_denied(&context, &facts).await {
                    Ok(()) => Outcome::Denied(denial),
                    Err(e) => Outcome::AuditUnavailable(e),
                };
            }
        };
        let prepared = self.prepare(&plan);
        let ready = self.ready(&plan, &prepared).await;
        let env_names = records::env_names(&plan);
        let facts = records::run_start(
            self.config(),
            self.sandbox(),
            &request,
            &plan,
            &env_names,
            stdin.as_ref(),
            prepared.as_ref().ok().zip(ready.as_ref().ok()),
        );
        let facts = RunStart { consent: consent.as_ref(), ..facts };
        let open = match self.audit.run_start(&context, &facts).await {
            Ok(open) => open,
            Err(e) => return Outcome::AuditUnavailable(e),
        };
        fault::point("run:recorded");
        let queue = accepted.elapsed();
        let result = match (&prepared, &ready) {
            (Ok(prepared), Ok(ready)) => {
                let cancel = cancel.child_token();
                let work = self.execute(ready, prepared, stdin, (live, tap), &cancel);
                self.tied(work, &cancel).await
            }
            (Err(e), _) | (_, Err(e)) => Err(e.clone()),
        };
        match result {
            Ok(finished) => {
                let hints = match &prepared {
                    Ok(prepared) => self.hints(&plan, prepared, &finished),
                    Err(_) => Vec::new(),
                };
                let wrapped = ready.ok().and_then(|ready| ready.wrapped().cloned());
                self.finish(open, &plan, (queue, wrapped), finished, hints).await
            }
            Err(e) => self.not_started(open, &plan, queue, e).await,
        }
    }

    fn judge(&self, request: &Request, stdin: Option<&Vec<u8>>) -> Verdict {
        let toolkit = request.toolkit.as_deref();
        let limits = self.config().limits_of(toolkit);
        if let Some(bytes) = stdin.filter(|bytes| bytes.len() > limits.stdin_bytes) {
            let (asked, most) = (bytes.len(), limits.stdin_bytes);
            let message =
                format!("standard input has {asked} bytes; the policy allows {most} (limits.stdin_bytes)");
            let denial = Denial::new("limits.stdin_bytes", RuleKind::Limit, Reason::LimitTooHigh, message);
            return Verdict::Deny(denial.instead("send less"));
        }
        let cwd = self.config().working_directory(toolkit, request.cwd.as_deref());
        self.policy.judge(request, cwd)
    }

    /// The kernel profile of an authorised command, made once per entry and program file.
    fn prepare(&self, plan: &Authorized) -> Result<Prepared, LaunchError> {
        let Target::Found(program) = plan.target() else {
            return Err(LaunchError::new("resolve", libc::ENOENT, "no such file or directory"));
        };
        // A name of a pattern or of `allow_any` has no grants of its own: the file names its profile, so
        // that no spelling of one (`/bin/./true`) makes another.
        let listed = self.config().commands.contains_key(&plan.command().name);
        let name = if listed { plan.command().name.clone() } else { program.real.display().to_string() };
        let key = (name.clone(), program.dev, program.ino);
        let poisoned = |_| LaunchError::new("profile", 0, "a thread panicked while it made a profile");
        if let Some(ready) = self.profiles.lock().map_err(|e| poisoned(e.to_string()))?.get(&key) {
            return Ok(ready.clone());
        }
        let failed = |e: &dyn std::fmt::Display, errno| {
            LaunchError::new("profile", errno, &format!("profile failed: {e}"))
        };
        if let Some(e) = fault::named("run:profile") {
            return Err(failed(&e, e.raw_os_error().unwrap_or(0)));
        }
        let command = Command { name, ..Command::clone(plan.command()) };
        let mut profile = Profile::compile(self.config(), &command, program).map_err(|e| failed(&e, 0))?;
        if let Some(Recording { secrets, network }) = &self.recording {
            profile = profile.widened(secrets.clone(), *network);
        }
        let digest = profile.digest().map_err(|e| failed(&e, 0))?;
        let ready = Prepared { profile: Arc::new(profile), digest };
        let mut profiles = self.profiles.lock().map_err(|e| poisoned(e.to_string()))?;
        if profiles.len() >= PROFILES {
            profiles.clear();
        }
        profiles.insert(key, ready.clone());
        Ok(ready)
    }

    async fn execute(
        &self,
        ready: &Ready<'_>,
        prepared: &Prepared,
        stdin: Option<Vec<u8>>,
        (live, tap): (Option<mpsc::Sender<Chunk>>, Option<Arc<Tap>>),
        cancel: &CancellationToken,
    ) -> Result<Finished, LaunchError> {
        let io_error = |step: &'static str| {
            move |e: std::io::Error| {
                LaunchError::new(step, e.raw_os_error().unwrap_or(0), &format!("{step} failed: {e}"))
            }
        };
        let made = fault::named("run:pipes").map_or_else(|| foreground::pipes(stdin.is_some()), Err);
        let (ours, theirs) = made.map_err(io_error("pipes"))?;
        let plan = ready.plan();
        let running = self.spawn(ready, prepared, theirs, Duration::ZERO).await?;
        let budget = Budget { bytes: plan.limits().output_bytes, lines: plan.limits().output_lines };
        let outputs = Outputs { budget, live, tap: tap.unwrap_or_default() };
        let finished = foreground::foreground(running, ours, stdin, outputs, cancel);
        finished.await.map_err(io_error("capture"))
    }

    /// The plan behind the seam, which is passed before the start is recorded.
    async fn ready<'p>(
        &self,
        plan: &'p Authorized,
        prepared: &Result<Prepared, LaunchError>,
    ) -> Result<Ready<'p>, LaunchError> {
        match prepared {
            Ok(prepared) => self.seam.pass(plan, prepared, &self.config().programs).await,
            Err(e) => Err(e.clone()),
        }
    }

    /// Starts a command with these descriptors as 0, 1 and 2: the one door to the launcher.
    async fn spawn(
        &self,
        ready: &Ready<'_>,
        prepared: &Prepared,
        stdio: [OwnedFd; 3],
        grace: Duration,
    ) -> Result<Running, LaunchError> {
        let (plan, facts) = (ready.plan(), self.launcher.facts());
        // The kernel counts the processes of all runs of the user, those of other toolkits included.
        let all = Limits { jobs: self.config().limits.jobs, ..plan.limits().clone() };
        let limits = rlimits::of(&all, &facts.hard_limits, facts.cgroup.counts_processes());
        self.launcher.run(ready, prepared, limits, stdio, grace).await
    }

    /// What the profile seems to have refused to a run that ended by itself.
    fn hints(&self, plan: &Authorized, prepared: &Prepared, finished: &Finished) -> Vec<Hint> {
        let Ok(ended) = finished.ended.as_ref() else { return Vec::new() };
        if ended.by != EndedBy::Itself {
            return Vec::new();
        }
        let traces = hints::Traces {
            argv: plan.argv(),
            cwd: plan.cwd().path(),
            stderr: &finished.stderr.text,
            scratch: self.sandbox().scratch.as_deref(),
            starts: &ended.executions,
            success: ended.code == Some(0),
        };
        hints::of(self.config(), &prepared.profile, traces)
    }

    async fn finish(
        &self,
        open: OpenRun,
        plan: &Authorized,
        (queue, wrapped): (Duration, Option<Wrapped>),
        finished: Finished,
        hints: Vec<Hint>,
    ) -> Outcome {
        let run_id = open.run_id().to_owned();
        fault::point("run:ended");
        let bytes = (&finished.stdout, &finished.stderr);
        let end = records::run_end(queue, finished.pid, plan.limits(), &finished.ended, Some(bytes));
        if let Err(e) = self.audit.run_end(open, &end).await {
            return Outcome::Unrecorded(e);
        }
        fault::point("run:answered");
        let Finished { ended, stdout, stderr, .. } = finished;
        // A supervisor that died took the status with it: the launcher has killed what was left, and
        // "unknown" is the only honest answer.
        let (ended, fault) = match ended {
            Ok(mut ended) => {
                self.keep_touched(&mut ended.touched);
                (Some(ended), None)
            }
            Err(error) => (None, Some(error.message)),
        };
        let exit = outcome::exit(ended.as_ref());
        Outcome::Ran(Box::new(Report {
            run_id,
            exit,
            timed_out: ended.as_ref().is_none_or(|e| e.by == EndedBy::Timeout),
            cancelled: ended.as_ref().is_some_and(|e| e.by == EndedBy::Kill),
            stdout,
            stderr,
            duration: end.duration,
            killed: ended.as_ref().map_or(0, |e| e.killed),
            left: ended.as_ref().map_or(0, |e| e.left),
            limit: ended.as_ref().and_then(|ended| records::reached(ended, plan.limits())),
            denied: ended.map_or_else(Vec::new, |e| e.denied),
            hints,
            wrapped,
            fault,
            timeout: plan.timeout(),
            timeout_clamped: plan.timeout_clamped(),
        }))
    }

    async fn not_started(
        &self,
        open: OpenRun,
        plan: &Authorized,
        queue: Duration,
        error: LaunchError,
    ) -> Outcome {
        let run_id = open.run_id().to_owned();
        if let Err(e) = self.audit.run_end(open, &records::not_started(queue, &error)).await {
            return Outcome::AuditUnavailable(e);
        }
        let name = plan
            .argv()
            .first()
            .map(|a| a.to_string_lossy().into_owned())
            .unwrap_or_else(|| plan.command().name.clone());
        Outcome::NotStarted(NotStarted {
            run_id,
            name,
            step: error.step,
            errno: error.errno,
            message: error.message,
        })
    }
}
