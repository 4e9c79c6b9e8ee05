//! The configuration room: the policy file and everything it names, resolved once at load.
//!
//! Purpose: turn TOML into one validated [`Config`], or into an error that names file, line, key,
//! the valid keys and the nearest one. Inputs: the policy file, the file system (paths and programs
//! must exist). Called by `cli/` and `appliance.rs`; knows nothing of verdicts, processes or MCP.
//!
//! `load.rs` is the door: [`Config::load`], [`Config::builtin`]. `keys.rs` is the table of keys,
//! `read.rs` checks a text against it, `sections.rs`, `audit.rs`, `commands.rs` and `toolkits.rs` give it meaning.
//! `manifest.rs` is the second door: toolkits as JSON, which only narrow a policy.

mod argument_rules;
mod audit;
mod builder;
mod builtin;
mod commands;
mod digest;
mod error;
pub mod examples;
mod grammar_files;
pub(crate) mod hooks;
mod kernel;
pub mod keys;
mod lint;
mod load;
mod manifest;
pub mod places;
mod predecessor;
mod principals;
pub mod program;
mod read;
mod records;
pub mod reload;
mod sections;
mod toolkits;
mod values;
pub mod workspace;

pub use argument_rules::{ArgumentPattern, ArgumentRules, Subject};
pub use audit::{
    AuditConfig, CheckpointConfig, Forward, OnFailure, Rendering, Rotation, Sink, SyncPolicy, Target,
    Transport,
};
pub use builder::PolicyBuilder;
pub use error::{ConfigError, Place, Problem};
pub use grammar_files::GrammarFile;
pub use kernel::Switch;
pub use load::LoadOptions;
pub use manifest::Manifest;
pub(crate) use manifest::json_kind;
pub use principals::{DIGEST, HttpConfig, Principal, TlsConfig};
pub use toolkits::{Offered, ServerIdentity, Toolkit};
pub use values::Requirement;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A validated policy: what may run, where, and inside which walls.
#[derive(Debug)]
pub struct Config {
    /// Where the policy text came from.
    pub source: Source,
    /// `sha256:` and 64 hex digits over the canonical form of the effective policy.
    pub digest: String,
    /// The one directory tree that commands work in.
    pub workspace: Arc<workspace::Workspace>,
    /// What a command finds in its environment.
    pub environment: Environment,
    /// Ceilings for each run.
    pub limits: Limits,
    /// What the kernel grants beside the program itself.
    pub sandbox: SandboxConfig,
    /// Where records go.
    pub audit: AuditConfig,
    /// Exact names a caller may send, with what each is granted.
    pub commands: BTreeMap<String, Arc<Command>>,
    /// Patterns for names (never for arguments), anchored at both ends when they were compiled.
    pub allow_patterns: Vec<regex::Regex>,
    /// Any name may run (exclusive with `commands` and `allow_patterns`); hardening stays on.
    pub allow_any: bool,
    /// `consent = "ask"`: a person is asked before each run.
    pub consent: bool,
    /// `false` with `argument_rules = "off"`: only names and the kernel decide. Loud, stamped.
    pub argument_rules: bool,
    /// Tool prefixes; the built-in one is `sh` with every command.
    pub toolkits: BTreeMap<String, Toolkit>,
    /// What a server of this policy tells clients about itself.
    pub server: ServerIdentity,
    /// The listener of a server of this policy.
    pub http: HttpConfig,
    /// Who may call over HTTP or a Unix socket, by name.
    pub principals: BTreeMap<String, Principal>,
    /// What the built-in policy names and this host lacks: one line each, `NAME: …; remedy`.
    pub missing: Vec<String>,
    /// The operator's own option grammars.
    pub grammars: Vec<GrammarFile>,
    /// Finds and pins programs through the safe PATH.
    pub programs: program::Programs,
}

/// Where a policy came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `policy/default.toml`, compiled in.
    Builtin,
    /// Environment variables of the client configuration (`ALLOW_COMMANDS` and others).
    Environment,
    /// A file named by the operator (canonical path).
    File(PathBuf),
    /// Put together by the program that embeds this library ([`PolicyBuilder`]).
    Program,
}

/// The environment a command gets: nothing else is inherited.
#[derive(Debug, Clone)]
pub struct Environment {
    /// `PATH` of the command and the only path programs are resolved through.
    pub path: String,
    /// Names taken over from the server's own environment, and those a caller may set.
    pub pass: Vec<String>,
    /// Fixed values.
    pub set: BTreeMap<String, String>,
}

/// Ceilings. Sizes in bytes, times as durations.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Wall clock of a run that names no timeout.
    pub timeout: Duration,
    /// Largest timeout a caller may ask for; a larger one is clamped and said so.
    pub max_timeout: Duration,
    /// Captured bytes per stream.
    pub output_bytes: usize,
    /// Captured lines per stream.
    pub output_lines: usize,
    /// `RLIMIT_AS` in bytes.
    pub memory: u64,
    /// `RLIMIT_NPROC`.
    pub processes: u64,
    /// `RLIMIT_CPU`.
    pub cpu_time: Duration,
    /// `RLIMIT_FSIZE` in bytes.
    pub file_size: u64,
    /// `RLIMIT_NOFILE`.
    pub open_files: u64,
    /// Most arguments, program name included.
    pub arguments: usize,
    /// Most bytes of all arguments, NULs included.
    pub argument_bytes: usize,
    /// Most bytes of standard input a caller may send.
    pub stdin_bytes: usize,
    /// Runs at the same time, background jobs included.
    pub jobs: usize,
    /// Background jobs at the same time.
    pub max_jobs: usize,
    /// Finished jobs that are kept.
    pub max_finished_jobs: usize,
    /// How long a finished job is kept.
    pub job_ttl: Duration,
    /// Wall clock of a job that names no timeout, and the largest one it may name.
    pub max_job_time: Duration,
    /// How long a person has to answer when consent is asked for.
    pub consent_time: Duration,
    /// Whether each run gets a cgroup of its own.
    pub cgroup: CgroupUse,
}

/// `limits.cgroup`: which group of the cgroup v2 tree the runs' own groups are made in.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CgroupUse {
    /// The server's own, where it is delegated to it; else resource limits alone, and it is said.
    Auto,
    /// None.
    Off,
    /// As `Auto`, but nothing is served without.
    Require,
    /// This one.
    At(PathBuf),
}

impl std::fmt::Display for CgroupUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Require => f.write_str("require"),
            Self::At(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Kernel-side grants shared by all commands.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Readable files and directories beside the workspace.
    pub read: Vec<PathBuf>,
    /// `@libraries` was named: the loader, its cache and the libraries each program links.
    pub libraries: bool,
    /// TCP ports that may be connected to; empty means no socket at all.
    pub network: Vec<u16>,
    /// Requirements that must hold on this host, or nothing is served.
    pub require: Vec<Requirement>,
    /// Which user commands run as when the server is root.
    pub user: RunUser,
}

/// `[sandbox] user`: only of effect when the server runs as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunUser {
    /// An unprivileged user if the workspace is reachable for it, else stay root and say so.
    Auto,
    /// Stay the user the server runs as.
    Keep,
    /// These ids.
    Ids {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

/// One allow-listed command: the exact string a caller must send, and its grants.
#[derive(Debug, Clone)]
pub struct Command {
    /// The key of its table.
    pub name: String,
    /// The pinned program, absent only where the built-in policy names one that is not installed.
    pub program: Option<Arc<program::Program>>,
    /// When set, the first argument must be one of these.
    pub subcommands: Option<Vec<String>>,
    /// Options refused wherever they stand before `--`.
    pub deny_options: Vec<String>,
    /// What else its arguments must be.
    pub argument_rules: ArgumentRules,
    /// Further files or directories that may be executed (helpers).
    pub execute: Vec<PathBuf>,
    /// Further files or directories that may be read.
    pub read: Vec<PathBuf>,
    /// What its kernel profile opens beyond the closed default, each once, by name.
    pub kernel: Vec<Switch>,
    /// TCP ports in place of those of `[sandbox]`.
    pub network: Option<Vec<u16>>,
    /// `arguments = "known"`: options that the grammar of the program does not know are refused.
    pub known_only: bool,
    /// `paths = "any"`: file names outside of the workspace are left to the kernel profile alone.
    pub any_path: bool,
    /// `interpreters = "confine"`: an always-denied name, run on purpose under the kernel profile.
    pub interpreter: bool,
    /// `consent = "ask"`: a person is asked before each run.
    pub consent: bool,
    /// Values set in this command's environment (presets such as `GIT_OPTIONAL_LOCKS=0`).
    pub environment: BTreeMap<String, String>,
    /// Examples that must be allowed, checked when the policy loads.
    pub examples_allow: Vec<String>,
    /// Examples that must be refused.
    pub examples_deny: Vec<String>,
}

impl Command {
    /// An entry without rules or grants of its own: an empty `[command.NAME]` table.
    #[must_use]
    pub fn plain(name: &str, program: Option<Arc<program::Program>>) -> Self {
        Self {
            name: name.to_owned(),
            program,
            subcommands: None,
            deny_options: Vec::new(),
            argument_rules: ArgumentRules::default(),
            execute: Vec::new(),
            read: Vec::new(),
            kernel: Vec::new(),
            network: None,
            known_only: false,
            any_path: false,
            interpreter: false,
            consent: false,
            environment: BTreeMap::new(),
            examples_allow: Vec::new(),
            examples_deny: Vec::new(),
        }
    }
}

impl Config {
    /// TCP ports that `command` may connect to.
    #[must_use]
    pub fn network<'c>(&'c self, command: &'c Command) -> &'c [u16] {
        command.network.as_ref().unwrap_or(&self.sandbox.network)
    }

    /// Whether some command has `switch`.
    #[must_use]
    pub fn uses(&self, switch: Switch) -> bool {
        self.commands.values().any(|command| command.kernel.contains(&switch))
    }
}

/// The log of a policy that names none: `$XDG_STATE_HOME/cofferdam/audit.jsonl`, else below `~/.local/state`.
///
/// # Errors
/// When neither variable says where, in words.
pub fn default_audit_file() -> Result<PathBuf, String> {
    audit::default_file(|name| std::env::var_os(name))
}

/// The environment of this process, from which `environment.pass` takes; names and values that are not
/// text are never passed on.
#[must_use]
pub fn server_environment() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| name.into_string().ok().zip(value.into_string().ok());
    std::env::vars_os().filter_map(text).collect()
}
