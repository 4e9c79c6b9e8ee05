//! The authorisation: proof that the policy judged exactly this argument vector.
//!
//! Fields are private and there is no public constructor: a value of this type can come only from
//! [`crate::policy`], and the launcher takes nothing else (invariant 1, one door).

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use crate::config::program::Program;
use crate::config::workspace::Cwd;
use crate::config::{Command, Limits};

/// What the name of an authorised command resolved to.
#[derive(Debug, Clone)]
pub enum Target {
    /// A pinned program file.
    Found(Arc<Program>),
    /// Nothing: the run ends as "not found", after it is recorded.
    Missing,
}

/// A command that may run: what was judged, byte for byte.
#[derive(Debug)]
pub struct Authorized {
    pub(super) argv: Vec<CString>,
    pub(super) target: Target,
    /// `NAME=value` entries, complete: nothing is added later except per-run scratch variables.
    pub(super) env: Vec<CString>,
    pub(super) cwd: Cwd,
    pub(super) command: Arc<Command>,
    pub(super) limits: Limits,
    pub(super) timeout: Duration,
    pub(super) timeout_clamped: bool,
    pub(super) rule: String,
}

impl Authorized {
    /// The argument vector, byte-identical to the one that was judged.
    #[must_use]
    pub fn argv(&self) -> &[CString] {
        &self.argv
    }

    /// The program behind the name.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// `NAME=value` entries of the environment.
    #[must_use]
    pub fn env(&self) -> &[CString] {
        &self.env
    }

    /// The working directory, opened beneath the workspace.
    #[must_use]
    pub fn cwd(&self) -> &Cwd {
        &self.cwd
    }

    /// The allow-list entry, from which the kernel profile is made.
    #[must_use]
    pub fn command(&self) -> &Arc<Command> {
        &self.command
    }

    /// Ceilings of this run.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Wall-clock limit in force.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the caller asked for more than the policy's maximum.
    #[must_use]
    pub fn timeout_clamped(&self) -> bool {
        self.timeout_clamped
    }

    /// Id of the rule that allowed it: `allow`, `allow_patterns` or `allow_any`.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }
}
