//! A call of the appliance and what becomes of it: values, made by [`Appliance::run`](super::Appliance::run)
//! and read by `cli/`, `mcp/` and programs that embed the library.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::{Asker, Hint, Question};
use crate::audit::{AuditError, Context};
use crate::launch::seam::Wrapped;
use crate::launch::{DeniedCall, Ended};
use crate::policy::{Denial, Request};
use crate::run::{Captured, Chunk, Exit, Tap};

/// One command to run on behalf of somebody.
#[derive(Debug, Default)]
pub struct Call {
    /// What is asked for.
    pub request: Request,
    /// Absent: the command reads an immediate end of file. Present: written, then closed.
    pub stdin: Option<Vec<u8>>,
    /// Who asks, for the records.
    pub context: Context,
    /// Output as it comes, beside the capture. A receiver that does not read holds the command up
    /// (until its timeout), as a full pipe would.
    pub live: Option<mpsc::Sender<Chunk>>,
    /// Where the capture is kept, for callers that read it while the command runs; one for each call.
    pub tap: Option<Arc<Tap>>,
    /// Who can be asked for consent, and what was said, where the policy asks for it.
    pub asker: Asker,
    /// The caller's own reason to refuse it: it is not judged, but recorded as every refusal is.
    pub refused: Option<Denial>,
    /// Where as many run already as the policy allows, it waits for a place, and is not refused.
    pub queued: bool,
}

/// What became of a call.
#[derive(Debug)]
pub enum Outcome {
    /// Refused by policy before anything was started.
    Denied(Denial),
    /// A person has to agree first: put the question, and call again with what was said.
    Ask(Box<Question>),
    /// It ran to an end of some kind.
    Ran(Box<Report>),
    /// It was allowed but could not be started: not found, not executable, sandbox failure.
    NotStarted(NotStarted),
    /// No durable record, hence nothing was run.
    AuditUnavailable(AuditError),
    /// It ran, but its end could not be recorded: what it printed is withheld.
    Unrecorded(AuditError),
}

/// A run that was started and has ended.
#[derive(Debug)]
pub struct Report {
    /// Id shared by its two records.
    pub run_id: String,
    /// How the process ended.
    pub exit: Exit,
    /// The deadline passed and the whole tree was killed; also when the status never arrived.
    pub timed_out: bool,
    /// The caller went away or asked for the end, and the whole tree was killed.
    pub cancelled: bool,
    /// Captured standard output.
    pub stdout: Captured,
    /// Captured standard error.
    pub stderr: Captured,
    /// Exec to reap.
    pub duration: Duration,
    /// Descendants that were still alive at the end and were killed.
    pub killed: u32,
    /// Descendants left after that: 0, asserted by the supervisor.
    pub left: u32,
    /// System calls that the filter forbade.
    pub denied: Vec<DeniedCall>,
    /// What the profile seems to have refused beside that: a guess, by name.
    pub hints: Vec<Hint>,
    /// What it was put into, where the appliance has a wrapper.
    pub wrapped: Option<Wrapped>,
    /// The limit that the run met, where it is known: `memory_limit`, `process_limit`, `cpu_time_limit`,
    /// `file_size_limit` or `scratch_full`.
    pub limit: Option<&'static str>,
    /// What went wrong with the supervision of the run, when its status never arrived.
    pub fault: Option<String>,
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
    /// The name that was asked for.
    pub name: String,
    /// Step that failed: `resolve`, `execve`, or a sandbox step such as `landlock`.
    pub step: String,
    /// `errno` of it, 0 when there is none.
    pub errno: i32,
    /// One sentence for people.
    pub message: String,
}

impl Report {
    /// That the walls stood, which calls they refused, and what else they seem to have refused.
    #[must_use]
    pub fn sandbox(&self) -> serde_json::Value {
        let mut object = sandbox(&self.denied, &self.hints);
        if let (Some(Wrapped { program: Some(program), sandboxed, .. }), Some(members)) =
            (&self.wrapped, object.as_object_mut())
        {
            let wrapper = json!({"program": program.display().to_string(), "sandboxed": sandboxed});
            members.insert("wrapper".to_owned(), wrapper);
        }
        object
    }
}

/// That the walls stood, with what they refused.
pub(crate) fn sandbox(denied: &[DeniedCall], hints: &[Hint]) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert("active".to_owned(), true.into());
    if !denied.is_empty() {
        let denial =
            |call: &DeniedCall| json!({"syscall": call.name(), "count": call.count, "first_args": call.args});
        object.insert("denials".to_owned(), denied.iter().map(denial).collect());
    }
    if !hints.is_empty() {
        let hint = |hint: &Hint| json!({"path": hint.path, "right": hint.right, "remedy": hint.remedy});
        object.insert("hints".to_owned(), hints.iter().map(hint).collect());
    }
    object.into()
}

/// How a command ended; a supervisor that died took that with it.
pub(super) fn exit(ended: Option<&Ended>) -> Exit {
    match ended.map(|ended| (ended.code, ended.signal)) {
        Some((Some(code), _)) => Exit::Code(code),
        Some((None, Some(signal))) => Exit::Signal(signal),
        Some((None, None)) | None => Exit::Unknown,
    }
}
