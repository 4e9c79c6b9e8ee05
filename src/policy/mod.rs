//! The verdict: whether one argument vector may run, and why not.
//!
//! Purpose: the only room that can make an [`Authorized`] value, which is the only thing the
//! launcher takes. Pure: no I/O after loading. Inputs: a loaded [`Config`](crate::config::Config)
//! and a [`Request`]. Called by `appliance.rs` and by `cli/explain`.

mod allow;
mod arguments;
mod authorized;
mod bounds;
pub mod consent;
mod denial;
mod environment;
pub mod grammar;
mod grammars;
mod judge;
pub mod knowledge;
mod names;
pub mod paths;
mod plain;
#[cfg(test)]
pub(crate) mod testing;
mod toolkit;
mod words;

pub use allow::AllowList;
pub use authorized::{Authorized, Target};
pub(crate) use bounds::cwd_denial;
pub use consent::Asking;
pub use denial::{Denial, Reason, RuleKind};
pub use judge::{Policy, Rule};

use std::path::PathBuf;
use std::time::Duration;

/// What a caller asks for, before any check.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The argument vector; element 0 is the exact name of the command.
    pub argv: Vec<Vec<u8>>,
    /// Working directory as asked: absent means the workspace root.
    pub cwd: Option<PathBuf>,
    /// Environment asked for with this call; names that the policy does not pass are refused.
    pub env: Vec<(String, String)>,
    /// Wall-clock limit asked for.
    pub timeout: Option<Duration>,
    /// A background job: bounded by `limits.max_job_time` in place of the timeouts of a run.
    pub background: bool,
    /// Prefix of the toolkit it comes through, which only narrows; absent means all of the policy.
    pub toolkit: Option<String>,
}

/// The answer of the policy. Deny is a value, not an error.
#[derive(Debug)]
pub enum Verdict {
    /// It may run, exactly as judged.
    Allow(Box<Authorized>),
    /// It may run once a person has agreed to it.
    Ask(Box<Asking>),
    /// It may not.
    Deny(Denial),
}

/// Why a configuration could not be compiled into a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The shipped table of always-denied names is broken.
    #[error("load of the always-denied names failed: {0}")]
    DeniedNames(String),
    /// A shipped program file is broken.
    #[error("load of an option grammar failed: {0}")]
    Grammar(String),
    /// A program file of the operator is broken.
    #[error("load of the option grammar {} failed: {problem}", .path.display())]
    ProgramFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A pattern is not a regular expression over whole names.
    #[error(
        "allow pattern '{pattern}' does not compile: {problem}; write a regular expression that matches the whole name"
    )]
    Pattern {
        /// As written.
        pattern: String,
        /// What the compiler says.
        problem: String,
    },
    /// A toolkit names a command that the policy does not have.
    #[error(
        "toolkit '{prefix}' names command '{name}', which the policy does not have; add [command.{name}] or remove it"
    )]
    Toolkit {
        /// Prefix of the toolkit.
        prefix: String,
        /// Name that is missing.
        name: String,
    },
    /// Only known options are allowed of a program whose options nobody has written down.
    #[error(
        "command.{0}.arguments: \"known\" needs an option grammar, and this program has none; remove the key, or narrow the command with subcommands and deny_options (policy/RULES.md lists the programs with a grammar)"
    )]
    NoGrammar(String),
    /// A pattern is about the value of an option, and nobody has written the program's options down.
    #[error(
        "command.{command}: a pattern for the value of '{option}' needs an option grammar, and this program has none; write one into the directory of `programs`, or give the pattern a position"
    )]
    NoGrammarForValue {
        /// Name of the command.
        command: String,
        /// The option.
        option: String,
    },
    /// An option is both allowed and refused.
    #[error(
        "command.{command}: '{allowed}' of allow_options and '{denied}' of deny_options are the same option; keep one of them"
    )]
    OptionTwice {
        /// Name of the command.
        command: String,
        /// As allowed.
        allowed: String,
        /// As refused.
        denied: String,
    },
    /// A fixed environment value holds a NUL byte.
    #[error("environment value of '{0}' holds a NUL byte; remove it")]
    EnvironmentNul(String),
}
