//! The verdict: whether one argument vector may run, and why not.
//!
//! Purpose: the only room that can make an [`Authorized`] value, which is the only thing the
//! launcher takes. Pure: no I/O after loading. Inputs: a loaded [`Config`](crate::config::Config)
//! and a [`Request`]. Called by `appliance.rs` and by `cli/explain`.

mod authorized;
mod denial;

pub use authorized::{Authorized, Target};
pub use denial::{Denial, Reason, RuleKind};

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
    /// Names that this caller's toolkit is narrowed to; absent means all of the policy.
    pub toolkit: Option<String>,
}

/// The answer of the policy. Deny is a value, not an error.
#[derive(Debug)]
pub enum Verdict {
    /// It may run, exactly as judged.
    Allow(Box<Authorized>),
    /// It may not.
    Deny(Denial),
}
