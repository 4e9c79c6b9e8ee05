//! The embeddable face: policy, launcher and audit behind one value. Knows nothing of MCP.
//!
//! Called by `cli/`, `mcp/` and by programs that embed the library. Every road to a process goes
//! through [`Appliance::run`]: judged, recorded durably, confined, captured, recorded again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::audit::{AuditError, Context};
use crate::config::Config;
use crate::policy::{Denial, Request};
use crate::run::{Captured, Chunk, Exit};

/// One command to run on behalf of somebody.
#[derive(Debug, Default)]
pub struct Call {
    /// What is asked for.
    pub request: Request,
    /// Absent: the command reads an immediate end of file. Present: written, then closed.
    pub stdin: Option<Vec<u8>>,
    /// Who asks, for the records.
    pub context: Context,
    /// Output as it comes, beside the capture. A receiver that falls behind loses nothing of the
    /// capture: chunks that it has no room for are not sent.
    pub live: Option<mpsc::Sender<Chunk>>,
}

/// What became of a call.
#[derive(Debug)]
pub enum Outcome {
    /// Refused by policy before anything was started.
    Denied(Denial),
    /// It ran to an end of some kind.
    Ran(Box<Report>),
    /// It was allowed but could not be started: not found, not executable, sandbox failure.
    NotStarted(NotStarted),
    /// No durable start record, hence no run.
    AuditUnavailable(AuditError),
}

/// A run that was started and has ended.
#[derive(Debug)]
pub struct Report {
    /// Id shared by its two records.
    pub run_id: String,
    /// How the process ended.
    pub exit: Exit,
    /// The deadline passed and the whole tree was killed.
    pub timed_out: bool,
    /// The caller went away or asked for the end, and the whole tree was killed.
    pub cancelled: bool,
    /// Captured standard output.
    pub stdout: Captured,
    /// Captured standard error.
    pub stderr: Captured,
    /// Spawn to reap.
    pub duration: Duration,
    /// Descendants that were still alive at the end and were killed.
    pub killed: u32,
    /// Wall-clock limit that was in force.
    pub timeout: Duration,
    /// The caller asked for a longer one than the policy allows.
    pub timeout_clamped: bool,
}

/// Why an allowed command did not start.
#[derive(Debug)]
pub struct NotStarted {
    /// Id shared by its two records.
    pub run_id: String,
    /// Step that failed: `resolve`, `execve`, or a sandbox step such as `landlock`.
    pub step: &'static str,
    /// `errno` of it.
    pub errno: i32,
    /// One sentence for people.
    pub message: String,
}

/// Policy, launcher and audit, ready to run commands.
#[derive(Debug)]
pub struct Appliance {
    config: Arc<Config>,
}

impl Appliance {
    /// Loads a policy (the built-in one when no file is named) and makes everything ready to run.
    ///
    /// # Errors
    ///
    /// What is wrong with the policy, the sandbox or the audit sink, in words.
    pub fn open(policy: Option<&Path>, workspace: Option<&Path>) -> Result<Self, String> {
        let _ = (policy, workspace);
        Err("nothing can be loaded yet".to_owned())
    }

    /// Records the end of the server. Nothing is run afterwards.
    ///
    /// # Errors
    ///
    /// When the record could not be made durable.
    pub fn close(&self, reason: &str) -> Result<(), AuditError> {
        let _ = reason;
        Ok(())
    }

    /// The loaded policy.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Judges, records, runs, captures and records one command. When `cancel` fires, the whole
    /// process tree is killed and the run is reported as cancelled.
    pub async fn run(&self, call: Call, cancel: CancellationToken) -> Outcome {
        let _ = (call, cancel);
        Outcome::NotStarted(NotStarted {
            run_id: String::new(),
            step: "resolve",
            errno: 2,
            message: String::new(),
        })
    }
}
