//! The facts that records are made of, as their callers hand them over.
//!
//! Purpose: typed input, so that a record cannot contradict itself (an end of kind `Exited` has an
//! exit code, nothing else has). No I/O. Filled by `appliance.rs` and `cli/`, read by `record.rs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::redact::Secrets;

/// What holds for every record of this process.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// `sha256:` and 64 hex digits over the effective policy.
    pub policy_digest: String,
    /// File that the policy came from, or `builtin`.
    pub policy_source: String,
    /// Rules in it.
    pub policy_rules: u64,
    /// Pid of the client at the other end of stdio or of the socket.
    pub peer_pid: Option<u32>,
    /// Its user.
    pub peer_uid: Option<u32>,
    /// Values that no record may hold: tokens of the transports, secrets of the policy.
    pub secrets: Secrets,
    /// `on_failure = "continue"`: runs go on without a record; each record says so.
    pub audit_continue: bool,
}

/// Settings that weaken a run; stamped into each record where they hold, absent otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamps {
    /// `argument_rules = "off"`: only names and the kernel decide.
    pub argument_rules_off: bool,
    /// `allow_any`: every name may run.
    pub allow_any: bool,
    /// An always-denied name that the operator lists on purpose, under the kernel profile.
    pub interpreter: bool,
    /// The caller asked for a longer timeout than the policy allows.
    pub timeout_clamped: bool,
}

/// State of the sandbox for a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxState {
    /// All of it in force.
    Enforced,
    /// A requirement was waived by an explicit setting, or the host stands in for mounts of our own.
    Degraded,
    /// Switched off by an explicit setting.
    Off,
    /// It could not be set up.
    #[default]
    Failed,
}

/// What the kernel enforces on a run.
#[derive(Debug, Clone, Default)]
pub struct SandboxFacts {
    /// State for this run.
    pub state: SandboxState,
    /// `sha256:` digest of the effective rules.
    pub digest: Option<String>,
    /// Landlock ABI in use.
    pub landlock_abi: Option<u32>,
    /// The mounts are those of the host: none of our own make everything read-only and noexec.
    pub host_mounts: bool,
    /// TCP: `true` when no port may be connected to.
    pub network_denied: bool,
    /// Switches of the profile that are on, such as `jit`.
    pub switches: Vec<&'static str>,
    /// A seccomp filter is installed.
    pub seccomp: bool,
    /// `sha256:` digest of the filter program.
    pub seccomp_digest: Option<String>,
    /// `PR_SET_NO_NEW_PRIVS` is set.
    pub no_new_privs: bool,
    /// Effective capabilities of the child.
    pub caps: u64,
    /// User id of the child.
    pub uid: u32,
    /// Group id of the child.
    pub gid: u32,
    /// What holds the limits of the run: `cgroup`, `cgroup_partial` or `rlimits`.
    pub limits_by: Option<&'static str>,
    /// The answer of the wrapper, where the embedding program has one.
    pub wrapper: Option<WrapperFacts>,
}

/// What a command was put into by the embedding program.
#[derive(Debug, Clone, Default)]
pub struct WrapperFacts {
    /// The program file; absent where it left the command as it was.
    pub program: Option<PathBuf>,
    /// Arguments before the judged program.
    pub args: Vec<String>,
    /// It claims to confine the command further.
    pub sandboxed: bool,
}

/// Ceilings in force for a run; `None` where none is set.
#[derive(Debug, Clone, Copy, Default)]
pub struct LimitFacts {
    /// Wall clock.
    pub timeout: Duration,
    /// Captured bytes a stream.
    pub output_bytes: u64,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU time.
    pub cpu: Option<Duration>,
    /// Processes.
    pub processes: Option<u64>,
}

/// A run that is about to start.
#[derive(Debug, Clone)]
pub struct RunStart<'a> {
    /// The argument vector, byte for byte.
    pub argv: &'a [Vec<u8>],
    /// The pinned program file; absent when there is none (the run will end as not found).
    pub exe: Option<&'a Path>,
    /// Working directory.
    pub cwd: &'a Path,
    /// Names (never values) of the environment.
    pub env_names: &'a [String],
    /// Bytes of standard input, absent when none was given.
    pub stdin_bytes: Option<u64>,
    /// Ceilings.
    pub limits: LimitFacts,
    /// Walls.
    pub sandbox: SandboxFacts,
    /// Rule that allowed it.
    pub rule_id: &'a str,
    /// Kind of that rule.
    pub rule_kind: &'a str,
    /// What a person said to it, where the policy asks for consent.
    pub consent: Option<&'a ConsentFacts>,
    /// Weakening settings.
    pub stamps: Stamps,
}

/// A request that waits for the consent of a person. Nothing has been started.
#[derive(Debug, Clone)]
pub struct RunAsked<'a> {
    /// The argument vector as asked for.
    pub argv: &'a [Vec<u8>],
    /// Working directory.
    pub cwd: &'a Path,
    /// The pinned program file; absent when there is none.
    pub exe: Option<&'a Path>,
    /// Names of the environment that was asked for.
    pub env_names: &'a [String],
    /// Bytes of standard input, absent when none was given.
    pub stdin_bytes: Option<u64>,
    /// Rule that would allow it.
    pub rule_id: &'a str,
    /// Kind of that rule.
    pub rule_kind: &'a str,
    /// Who is asked, and how.
    pub consent: &'a ConsentFacts,
    /// Weakening settings.
    pub stamps: Stamps,
}

/// The consent of a person: what was said, to which question, and who could have said it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsentFacts {
    /// `asked`, `given`, `declined`, `cancelled`, `expired`, `replayed`, `other_command`, `other_caller`,
    /// `forged`, `too_long`, `busy` or `unavailable`.
    pub what: &'static str,
    /// Id of the question, the same in all records about it; absent where there was none of ours.
    pub id: Option<String>,
    /// `elicitation` or `terminal`; absent where nobody can be asked.
    pub by: Option<&'static str>,
    /// Who could have answered, as far as it is known.
    pub who: Option<String>,
}

/// A request that policy refused.
#[derive(Debug, Clone)]
pub struct RunDenied<'a> {
    /// The argument vector as asked for.
    pub argv: &'a [Vec<u8>],
    /// Working directory as asked for, or the workspace.
    pub cwd: &'a Path,
    /// Names of the environment that was asked for.
    pub env_names: &'a [String],
    /// Bytes of standard input, absent when none was given.
    pub stdin_bytes: Option<u64>,
    /// Rule that refused.
    pub rule_id: &'a str,
    /// Kind of that rule.
    pub rule_kind: &'a str,
    /// Stable machine code.
    pub reason: &'a str,
    /// What came of asking a person, where the policy asks for consent.
    pub consent: Option<&'a ConsentFacts>,
    /// Weakening settings.
    pub stamps: Stamps,
}

/// A verdict that is not that of a run: asked for alone, or on a file of a line that is about to be opened.
#[derive(Debug, Clone)]
pub struct RunJudged<'a> {
    /// A redirection of a line, and not a dry run: `argv` is its operator and its path.
    pub redirection: bool,
    /// The argument vector as asked for.
    pub argv: &'a [Vec<u8>],
    /// Working directory as asked for, or the workspace.
    pub cwd: &'a Path,
    /// Names of the environment that was asked for.
    pub env_names: &'a [String],
    /// Rule that decided.
    pub rule_id: &'a str,
    /// Kind of that rule.
    pub rule_kind: &'a str,
    /// Stable machine code of a refusal; absent where it would run.
    pub reason: Option<&'a str>,
    /// Weakening settings.
    pub stamps: Stamps,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By a signal that nobody here sent.
    Signal(i32),
    /// Killed at its wall-clock limit.
    Timeout,
    /// Killed at its output limit.
    OutputLimit,
    /// Killed at another ceiling.
    ResourceLimit,
    /// Killed because the caller went away or asked for it.
    Cancelled,
    /// Killed for the reason in `stop_reason`.
    Killed,
    /// It could not be started.
    SpawnError,
    /// Its sandbox could not be set up.
    SandboxError,
    /// Nobody knows.
    #[default]
    Lost,
}

/// Who or what stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The client cancelled.
    ClientCancel,
    /// A job was killed on request.
    JobKill,
    /// The wall-clock limit.
    Timeout,
    /// The output limit.
    OutputLimit,
    /// The session ended.
    SessionEnd,
    /// The server stopped.
    ServerStop,
}

/// What is known at the end of a run.
#[derive(Debug, Clone, Default)]
pub struct RunEnd {
    /// How it ended.
    pub ending: Ending,
    /// Pid of the child; absent when there was none.
    pub pid: Option<u32>,
    /// Signal that ended a killed run.
    pub signal: Option<i32>,
    /// Spawn to reap.
    pub duration: Duration,
    /// Accepted to spawn.
    pub queue: Duration,
    /// Bytes written to standard output, where it was captured for this run alone.
    pub stdout_bytes: Option<u64>,
    /// Bytes written to standard error, likewise.
    pub stderr_bytes: Option<u64>,
    /// The client did not get all of it.
    pub output_truncated: bool,
    /// CPU time in user mode.
    pub cpu_user: Option<Duration>,
    /// CPU time in the kernel.
    pub cpu_sys: Option<Duration>,
    /// Peak resident memory.
    pub max_rss_bytes: Option<u64>,
    /// Peak memory of the run as a whole, where its cgroup counts it.
    pub memory_peak_bytes: Option<u64>,
    /// Descendants that were still alive at the end and were killed.
    pub procs_killed: u64,
    /// Descendants left after that; the launcher asserts 0.
    pub procs_left: u64,
    /// Stable snake_case code of what went wrong.
    pub error_code: Option<String>,
    /// One sentence of it.
    pub error_text: Option<String>,
    /// `errno` of it.
    pub errno: Option<i32>,
    /// Who stopped it; has a natural default for timeout, output limit and cancellation.
    pub stop_reason: Option<StopReason>,
    /// Breach of the sandbox that was seen: `seccomp_kill`, `loader_exec`, `mem_limit` or
    /// `pids_limit`.
    pub violation: Option<&'static str>,
    /// System calls that the filter forbade, as `NAME=COUNT`.
    pub denied_syscalls: Vec<String>,
    /// Programs that the command started: the path, then the arguments.
    pub executions: Vec<Vec<String>>,
    /// How many there were, the ones not kept included.
    pub executed: u64,
    /// How far the arguments can be trusted: `observed`, `confirmed` or `mismatch`.
    pub argv_fidelity: Option<&'static str>,
}

/// What a server says of itself when it starts to serve.
#[derive(Debug, Clone, Default)]
pub struct ServerStart {
    /// `stdio`, `http` or `unix`; absent for the command line.
    pub transport: Option<&'static str>,
    /// Landlock ABI of the kernel.
    pub landlock_abi: Option<u32>,
    /// seccomp filters work.
    pub seccomp: bool,
    /// The mounts are those of the host.
    pub host_mounts: bool,
    /// What holds the limits of runs: `cgroup`, `cgroup_partial` or `rlimits`.
    pub limits_by: Option<&'static str>,
    /// Weakening settings.
    pub stamps: Stamps,
    /// What the host was found to be.
    pub host: Option<HostFacts>,
}

/// The host and its container, as a server found them at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Release of the kernel.
    pub kernel: String,
    /// Runtime of the container, or `none`.
    pub container: String,
    /// Commands have mounts of their own.
    pub mount_namespace: bool,
    /// The server has put its own walls up, read back.
    pub confined: bool,
    /// Requirements that the policy names; all hold.
    pub required: Vec<String>,
    /// Facts that are not as they should be: `id=advice` or `id=bad`.
    pub findings: Vec<String>,
    /// All facts: `id: value`.
    pub facts: Vec<String>,
}

/// What a loaded policy grants, written out once; each run carries only the digest.
#[derive(Debug, Clone, Default)]
pub struct PolicyLoad {
    /// Digest of the policy that it replaces.
    pub previous: Option<String>,
    /// Digest of the sandbox profile shared by all commands.
    pub sandbox_digest: Option<String>,
    /// `path:rights`, such as `/work:rwx`.
    pub landlock_fs: Vec<String>,
    /// Digest of the filter program.
    pub seccomp_digest: Option<String>,
    /// Weakening settings.
    pub stamps: Stamps,
}

/// A policy that was offered and not taken.
#[derive(Debug, Clone, Copy)]
pub struct PolicyReject<'a> {
    /// Stable code, such as `policy_invalid`.
    pub code: &'static str,
    /// What is wrong with it.
    pub text: &'a str,
}

impl Ending {
    /// The spelling of the field `outcome`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited(0) => "success",
            Self::Exited(_) => "nonzero_exit",
            Self::Signal(_) => "signal",
            Self::Timeout => "timeout",
            Self::OutputLimit => "output_limit",
            Self::ResourceLimit => "resource_limit",
            Self::Cancelled => "cancelled",
            Self::Killed => "killed",
            Self::SpawnError => "spawn_error",
            Self::SandboxError => "sandbox_error",
            Self::Lost => "lost",
        }
    }

    /// The stop reason that goes without saying.
    pub(super) fn natural_stop(self) -> Option<StopReason> {
        match self {
            Self::Timeout => Some(StopReason::Timeout),
            Self::OutputLimit => Some(StopReason::OutputLimit),
            Self::Cancelled => Some(StopReason::ClientCancel),
            Self::Killed => Some(StopReason::ServerStop),
            _ => None,
        }
    }
}

impl StopReason {
    /// The spelling of the field `stop_reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientCancel => "client_cancel",
            Self::JobKill => "job_kill",
            Self::Timeout => "timeout",
            Self::OutputLimit => "output_limit",
            Self::SessionEnd => "session_end",
            Self::ServerStop => "server_stop",
        }
    }
}

impl SandboxState {
    /// The spelling of the field `sandbox`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Degraded => "degraded",
            Self::Off => "off",
            Self::Failed => "failed",
        }
    }
}
