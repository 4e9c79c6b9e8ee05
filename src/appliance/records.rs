//! From what the appliance knows to the facts of audit records. No decision is taken here.

use std::path::Path;
use std::time::Duration;

use super::LineReport;
use crate::audit::{
    ConsentFacts, Ending, LimitFacts, LineEnd, Origin, PolicyLoad, RunAsked, RunDenied, RunEnd, RunStart,
    SandboxFacts, SandboxState, Secrets, ServerStart, Stamps, WrapperFacts,
};
use crate::config::{Config, Limits, OnFailure, Source};
use crate::launch::seam::Ready;
use crate::launch::{Ended, EndedBy, Execution, Facts, Fidelity, LaunchError, Prepared};
use crate::policy::{Asking, Authorized, Denial, Request, Target};
use crate::run::Captured;

pub(super) fn origin(config: &Config) -> Origin {
    Origin {
        policy_digest: config.digest.clone(),
        policy_source: match &config.source {
            Source::Builtin => "builtin".to_owned(),
            Source::Environment => "environment".to_owned(),
            Source::File(path) => path.display().to_string(),
            Source::Program => "program".to_owned(),
        },
        policy_rules: (config.commands.len() + config.allow_patterns.len()) as u64,
        secrets: secrets(config),
        audit_continue: config.audit.on_failure == OnFailure::Continue,
        ..Origin::default()
    }
}

/// What the policy or the server's own environment hands to commands and no record may show.
fn secrets(config: &Config) -> Secrets {
    let mut secrets = Secrets::default();
    let of_commands = config.commands.values().flat_map(|command| &command.environment);
    for (name, value) in config.environment.set.iter().chain(of_commands) {
        secrets.push_variable(name, value);
    }
    for name in &config.environment.pass {
        if let Some(value) = std::env::var_os(name) {
            secrets.push_variable(name, &value.to_string_lossy());
        }
    }
    secrets
}

/// Settings that weaken every run of this policy.
pub(super) fn stamps(config: &Config) -> Stamps {
    Stamps { argument_rules_off: !config.argument_rules, allow_any: config.allow_any, ..Stamps::default() }
}

pub(super) fn server_start(config: &Config, facts: &Facts, transport: Option<&'static str>) -> ServerStart {
    ServerStart {
        transport,
        landlock_abi: Some(facts.landlock_abi),
        seccomp: true,
        limits_by: Some(facts.cgroup.as_str()),
        stamps: stamps(config),
        host: None,
        host_mounts: !facts.mount_namespace,
    }
}

pub(super) fn policy_load(config: &Config) -> PolicyLoad {
    let rights = if config.workspace.write { "rw" } else { "r" };
    let workspace = format!("{}:{rights}", config.workspace.path.display());
    let read = config.sandbox.read.iter().map(|path| format!("{}:r", path.display()));
    PolicyLoad {
        landlock_fs: std::iter::once(workspace).chain(read).collect(),
        stamps: stamps(config),
        ..PolicyLoad::default()
    }
}

/// Names, never values, of the environment a command gets.
pub(super) fn env_names(plan: &Authorized) -> Vec<String> {
    let name =
        |entry: &[u8]| entry.split(|b| *b == b'=').next().map(|n| String::from_utf8_lossy(n).into_owned());
    let mut names: Vec<String> = plan.env().iter().filter_map(|entry| name(entry.as_bytes())).collect();
    for scratch in crate::launch::SCRATCH_VARIABLES.iter().filter_map(|entry| entry.strip_suffix('=')) {
        if !names.iter().any(|known| known == scratch) {
            names.push(scratch.to_owned());
        }
    }
    names
}

/// Names, never values, of the environment that a caller asks for.
pub(super) fn asked_names(request: &Request) -> Vec<String> {
    request.env.iter().map(|(name, _)| name.clone()).collect()
}

pub(super) fn run_start<'a>(
    config: &Config,
    launcher: &Facts,
    request: &'a Request,
    plan: &'a Authorized,
    env_names: &'a [String],
    stdin: Option<&Vec<u8>>,
    ready: Option<(&Prepared, &Ready<'_>)>,
) -> RunStart<'a> {
    let limits = plan.limits();
    RunStart {
        argv: &request.argv,
        exe: match plan.target() {
            Target::Found(program) => Some(program.real.as_path()),
            Target::Missing => None,
        },
        cwd: plan.cwd().path(),
        env_names,
        stdin_bytes: stdin.map(|bytes| bytes.len() as u64),
        limits: LimitFacts {
            timeout: plan.timeout(),
            output_bytes: limits.output_bytes as u64,
            memory_bytes: Some(limits.memory),
            cpu: Some(limits.cpu_time),
            processes: Some(limits.processes),
        },
        sandbox: SandboxFacts {
            state: match ready {
                None => SandboxState::Failed,
                Some(_) if launcher.mount_namespace => SandboxState::Enforced,
                Some(_) => SandboxState::Degraded,
            },
            host_mounts: !launcher.mount_namespace,
            digest: ready.map(|(prepared, _)| prepared.digest.clone()),
            landlock_abi: Some(launcher.landlock_abi),
            network_denied: config.network(plan.command()).is_empty(),
            switches: plan.command().kernel.iter().map(|switch| switch.as_str()).collect(),
            seccomp: true,
            seccomp_digest: None,
            no_new_privs: launcher.no_new_privs,
            caps: launcher.caps,
            uid: launcher.uid,
            gid: launcher.gid,
            limits_by: Some(launcher.cgroup.as_str()),
            wrapper: ready.and_then(|(_, ready)| wrapper(ready)),
        },
        rule_id: plan.rule(),
        rule_kind: allow_kind(plan.rule()),
        consent: None,
        stamps: stamps_of(config, plan),
    }
}

/// What weakens this run.
pub(super) fn stamps_of(config: &Config, plan: &Authorized) -> Stamps {
    Stamps {
        interpreter: plan.command().interpreter,
        timeout_clamped: plan.timeout_clamped(),
        ..stamps(config)
    }
}

fn wrapper(ready: &Ready<'_>) -> Option<WrapperFacts> {
    let wrapped = ready.wrapped()?;
    Some(WrapperFacts {
        program: wrapped.program.clone(),
        args: wrapped.args.iter().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        sandboxed: wrapped.sandboxed,
    })
}

/// The kind of a rule that allows.
pub(super) fn allow_kind(rule: &str) -> &'static str {
    if rule == "allow_patterns" { "allow_pattern" } else { "allow" }
}

/// A command that waits for the consent of a person.
pub(super) fn run_asked<'a>(
    config: &'a Config,
    request: &'a Request,
    env_names: &'a [String],
    stdin: Option<&Vec<u8>>,
    asking: &'a Asking,
    consent: &'a ConsentFacts,
) -> RunAsked<'a> {
    RunAsked {
        argv: &request.argv,
        cwd: asking.directory(),
        exe: match asking.target() {
            Target::Found(program) => Some(program.real.as_path()),
            Target::Missing => None,
        },
        env_names,
        stdin_bytes: stdin.map(|bytes| bytes.len() as u64),
        rule_id: asking.rule(),
        rule_kind: allow_kind(asking.rule()),
        consent,
        stamps: stamps(config),
    }
}

pub(super) fn run_denied<'a>(
    config: &'a Config,
    request: &'a Request,
    env_names: &'a [String],
    stdin: Option<&Vec<u8>>,
    denial: &'a Denial,
) -> RunDenied<'a> {
    let home: &Path = config.directory_of(request.toolkit.as_deref());
    RunDenied {
        argv: &request.argv,
        cwd: request.cwd.as_deref().unwrap_or(home),
        env_names,
        stdin_bytes: stdin.map(|bytes| bytes.len() as u64),
        rule_id: &denial.rule,
        rule_kind: denial.kind.as_str(),
        reason: denial.reason.as_str(),
        consent: None,
        stamps: stamps(config),
    }
}

/// `captured` are its two streams, where they are its own.
pub(super) fn run_end(
    queue: Duration,
    pid: Option<i32>,
    limits: &Limits,
    ended: &Result<Ended, LaunchError>,
    captured: Option<(&Captured, &Captured)>,
) -> RunEnd {
    let end = RunEnd {
        pid: pid.and_then(|pid| u32::try_from(pid).ok()),
        queue,
        stdout_bytes: captured.map(|(stdout, _)| stdout.total_bytes),
        stderr_bytes: captured.map(|(_, stderr)| stderr.total_bytes),
        output_truncated: captured
            .is_some_and(|(stdout, stderr)| stdout.dropped.is_some() || stderr.dropped.is_some()),
        ..RunEnd::default()
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let (code, text) = ("supervisor_died".to_owned(), error.message.clone());
            return RunEnd { ending: Ending::Lost, error_code: Some(code), error_text: Some(text), ..end };
        }
    };
    let limit = reached(ended, limits);
    // Others leave it to the command to fail, and its own end stands.
    let fatal = matches!(limit, Some(MEMORY | CPU_TIME | FILE_SIZE));
    RunEnd {
        ending: match (ended.by, ended.code, ended.signal) {
            (EndedBy::Timeout, ..) => Ending::Timeout,
            (EndedBy::Kill, ..) => Ending::Cancelled,
            (EndedBy::Itself, Some(code), _) => Ending::Exited(code),
            (EndedBy::Itself, None, Some(_)) if fatal => Ending::ResourceLimit,
            (EndedBy::Itself, None, Some(signal)) => Ending::Signal(signal),
            (EndedBy::Itself, None, None) => Ending::Lost,
        },
        signal: ended.signal,
        duration: Duration::from_micros(ended.wall_us),
        cpu_user: Some(Duration::from_micros(ended.user_us)),
        cpu_sys: Some(Duration::from_micros(ended.system_us)),
        max_rss_bytes: Some(ended.max_rss),
        procs_killed: u64::from(ended.killed),
        procs_left: u64::from(ended.left),
        memory_peak_bytes: ended.met.memory_peak,
        violation: match limit {
            _ if ended.signal == Some(libc::SIGSYS) => Some("seccomp_kill"),
            _ if ended.loader_runs > 0 => Some("loader_exec"),
            Some(MEMORY) => Some("mem_limit"),
            Some(PROCESSES) => Some("pids_limit"),
            _ => None,
        },
        denied_syscalls: ended.denied.iter().map(|call| format!("{}={}", call.name(), call.count)).collect(),
        executions: ended.executions.iter().map(line_of).collect(),
        executed: u64::from(ended.executed),
        argv_fidelity: ended.executions.iter().map(|start| start.fidelity).max().map(Fidelity::as_str),
        error_code: limit.map(str::to_owned),
        ..end
    }
}

/// Path and arguments after the name.
fn line_of(start: &Execution) -> Vec<String> {
    std::iter::once(&start.path).chain(start.argv.iter().skip(1)).cloned().collect()
}

/// Memory of the run (its cgroup).
const MEMORY: &str = "memory_limit";
/// Processes of the run (its cgroup).
const PROCESSES: &str = "process_limit";
/// `limits.cpu_time`.
const CPU_TIME: &str = "cpu_time_limit";
/// `limits.file_size`.
const FILE_SIZE: &str = "file_size_limit";
/// The private scratch file system.
const SCRATCH: &str = "scratch_full";

/// The limit that the run met, where something says so: the signal, the counters of its cgroup, the state
/// of its scratch file system. What ended it comes first. A call that fails in the command (ENOMEM at
/// RLIMIT_AS, EAGAIN at RLIMIT_NPROC, EMFILE) is seen by the command alone. With equal hard and soft
/// limits the kernel ends a process at RLIMIT_CPU with SIGKILL (setrlimit(2)).
pub(super) fn reached(ended: &Ended, limits: &Limits) -> Option<&'static str> {
    // The kernel samples ticks for the limit and reports exact times: on a busy machine it kills a command
    // well before the time that it reports (0.79 of it was seen).
    let used = Duration::from_micros(ended.user_us.saturating_add(ended.system_us)).saturating_mul(2);
    match ended.signal {
        Some(libc::SIGXFSZ) => return Some(FILE_SIZE),
        Some(libc::SIGXCPU) => return Some(CPU_TIME),
        _ if ended.met.memory_kills > 0 => return Some(MEMORY),
        Some(libc::SIGKILL) if ended.by == EndedBy::Itself && used >= limits.cpu_time => {
            return Some(CPU_TIME);
        }
        _ => {}
    }
    let met = [(ended.met.forks_refused > 0, PROCESSES), (ended.met.scratch_full, SCRATCH)];
    met.into_iter().find(|(met, _)| *met).map(|(_, name)| name)
}

/// A line as a whole.
pub(super) fn line_end(report: &LineReport) -> LineEnd {
    LineEnd {
        ending: match report {
            LineReport { exceeded: Some(_), .. } => Ending::OutputLimit,
            LineReport { timed_out: true, .. } => Ending::Timeout,
            LineReport { cancelled: true, .. } => Ending::Cancelled,
            LineReport { status, .. } => Ending::Exited(*status),
        },
        commands: report.stages.len() as u64,
        duration: report.duration,
        stdout_bytes: report.stdout.total_bytes,
        stderr_bytes: report.stderr.total_bytes,
        output_truncated: report.stdout.dropped.is_some() || report.stderr.dropped.is_some(),
    }
}

/// A run that was allowed and recorded but never executed. The program's own failings (not found,
/// not executable) are spawn errors; everything else is the sandbox's.
pub(super) fn not_started(queue: Duration, error: &LaunchError) -> RunEnd {
    let spawn = matches!(error.step.as_str(), "resolve" | "execve" | "pin" | "chdir" | "redirection");
    RunEnd {
        ending: if spawn { Ending::SpawnError } else { Ending::SandboxError },
        queue,
        error_code: Some(if spawn { "spawn_failed".to_owned() } else { format!("sandbox_{}", error.step) }),
        error_text: Some(error.message.clone()),
        errno: (error.errno != 0).then_some(error.errno),
        ..RunEnd::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Met;

    fn ended(by: EndedBy, signal: Option<i32>, met: Met) -> Ended {
        Ended {
            pid: 1,
            code: signal.is_none().then_some(1),
            signal,
            by,
            killed: 0,
            left: 0,
            wall_us: 1,
            user_us: 2_000_000,
            system_us: 0,
            max_rss: 0,
            denied: Vec::new(),
            executions: Vec::new(),
            loader_runs: 0,
            touched: Vec::new(),
            executed: 0,
            met,
        }
    }

    #[test]
    fn the_limit_that_ended_the_run_comes_before_one_that_was_met() {
        let mut limits = crate::policy::testing::config(&[]).limits;
        let (kills, forks) =
            (Met { memory_kills: 1, ..Met::default() }, Met { forks_refused: 3, ..Met::default() });
        let both = Met { scratch_full: true, ..kills };
        let full = Met { scratch_full: true, ..Met::default() };
        let itself = |signal, met| ended(EndedBy::Itself, signal, met);
        for (ended, expected) in [
            (itself(Some(libc::SIGXFSZ), both), Some("file_size_limit")),
            (itself(Some(libc::SIGKILL), both), Some("memory_limit")),
            (itself(None, forks), Some("process_limit")),
            (itself(None, full), Some("scratch_full")),
            (itself(None, Met::default()), None),
            (itself(Some(libc::SIGKILL), Met::default()), None),
        ] {
            assert_eq!(reached(&ended, &limits), expected, "{ended:?}");
        }
        limits.cpu_time = Duration::from_secs(2);
        let killed = |by| reached(&ended(by, Some(libc::SIGKILL), Met::default()), &limits);
        assert_eq!(killed(EndedBy::Itself), Some("cpu_time_limit"));
        assert_eq!(killed(EndedBy::Timeout), None, "it was killed from here");
    }
}
