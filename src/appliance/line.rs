//! A line: commands joined by pipes, `&&`, `||`, `;` and redirections, judged as a whole and then run.
//!
//! Purpose: what a shell would do with the tree of [`crate::syntax`], without one. [`Appliance::run_line`]
//! expands each word once, judges every command and every redirection, takes the places of all of them, and
//! only then starts anything: one refused command refuses the line, and nothing was made, emptied or run.
//! What was judged is what is executed. Every command is started by the launcher under the profile of its
//! own allow-list entry and has records of its own, which share the id of the line. Inputs: a tree (of
//! `syntax::parse`, `syntax::operators::parse`, or bound by `syntax::placeholder`). Called by the tools that
//! take a line, operators in argv or a batch.
//!
//! Nothing runs between judging and starting that could change a word: patterns are matched against the
//! files before the line starts, not before each of its commands.

mod descriptors;
mod execute;
mod expansion;
mod explained;
mod files;
mod hinted;
mod judge;
mod plan;
mod stage;
mod verdict;

pub use explained::{Explained, explain};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Appliance, Hint};
use crate::audit::{AuditError, Context, LinePart};
use crate::launch::DeniedCall;
use crate::policy::{Denial, Reason, Request, RuleKind};
use crate::run::{Budget, Captured, Chunk, Exit, Stream, Tap};
use crate::syntax::{List, Refusal, shown};

/// Why a line is not read, whichever tool it came through: the rule is `line.` and the construct.
#[must_use]
pub fn unread(refusal: &Refusal) -> Denial {
    let rule = format!("line.{}", refusal.construct.id);
    Denial::new(rule, RuleKind::BuiltinDeny, Reason::ArgumentDenied, refusal.to_string())
        .instead(refusal.construct.instead)
}

/// A line to run on behalf of somebody.
#[derive(Debug, Default)]
pub struct LineCall {
    /// What is asked for.
    pub list: List,
    /// Working directory as asked: absent means where the toolkit starts.
    pub cwd: Option<PathBuf>,
    /// Environment of every command of it; names that the policy does not pass are refused.
    pub env: Vec<(String, String)>,
    /// Wall clock of the line as a whole, bounded as that of a command is.
    pub timeout: Option<Duration>,
    /// Prefix of the toolkit it comes through, which only narrows.
    pub toolkit: Option<String>,
    /// Standard input of the line: its first command reads it, unless it is redirected. Absent: an
    /// immediate end of file.
    pub stdin: Option<Vec<u8>>,
    /// What is kept of each stream, if less than the policy says.
    pub budget: Option<Budget>,
    /// The line is ended once one of its streams exceeds what is kept of it.
    pub end_at_limit: bool,
    /// Where the line is ended, its processes are asked to end (SIGTERM) and have this long before they are
    /// killed. Zero: they are killed at once.
    pub grace: Duration,
    /// Who asks, for the records.
    pub context: Context,
    /// Output as it comes, beside the capture; see [`super::Call::live`].
    pub live: Option<mpsc::Sender<Chunk>>,
    /// Where the capture is kept, for callers that read it while the line runs; one for each call.
    pub tap: Option<Arc<Tap>>,
    /// The caller's own reason to refuse it (it was not understood, say): it is not judged, but recorded as
    /// every refusal is, with `shown` as its argument vector.
    pub refused: Option<Denial>,
    /// What a refusal of the line as a whole is recorded with; absent: the words of the tree.
    pub shown: Option<Vec<Vec<u8>>>,
    /// Where as many run already as the policy allows, it waits for its places, and is not refused.
    pub queued: bool,
}

impl LineCall {
    /// The words that the line as a whole is recorded with: redaction goes by words and by what stands before
    /// them.
    fn shown(&self) -> Vec<Vec<u8>> {
        self.shown.clone().unwrap_or_else(|| shown::words(&self.list.to_string()))
    }

    /// The request that stands for the line as a whole in a record.
    fn whole(&self) -> Request {
        Request {
            argv: self.shown(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            toolkit: self.toolkit.clone(),
            ..Request::default()
        }
    }

    /// Who asks, as the records of the line and of its commands (from 1) say it.
    fn context(&self, line_id: &str, stage: Option<usize>) -> Context {
        part(&Context { toolkit: self.toolkit.clone(), ..self.context.clone() }, line_id, stage)
    }
}

/// The context of a command (counted from 0) of a line, or of the line as a whole.
fn part(of: &Context, line_id: &str, stage: Option<usize>) -> Context {
    let stage = stage.map(|number| number.saturating_add(1) as u64);
    Context { line: Some(LinePart { line_id: line_id.to_owned(), stage }), ..of.clone() }
}

/// What became of a line.
#[derive(Debug)]
pub enum LineOutcome {
    /// Refused before anything was started, made or emptied.
    Denied(Box<LineDenied>),
    /// It ran to an end of some kind.
    Ran(Box<LineReport>),
    /// No durable record, hence nothing was run.
    AuditUnavailable(AuditError),
    /// It ran, but a record of it could not be written: the rest was not run, what it printed is withheld.
    Unrecorded(AuditError),
}

/// Why a line was refused.
#[derive(Debug, Clone)]
pub struct LineDenied {
    /// The refusal.
    pub denial: Denial,
    /// The command that it is about, counted from 0 in the order of the text; absent: the line as a whole.
    pub stage: Option<usize>,
    /// Its name, if any.
    pub name: String,
}

/// A line that was started and has ended.
#[derive(Debug)]
pub struct LineReport {
    /// Id shared by the records of its commands.
    pub line_id: String,
    /// Status as a shell has it: that of the last command of the last pipeline that ran, 128 + N for a
    /// signal, 127 and 126 for what could not be started, 2 for a redirection that failed. 137 when the line
    /// was killed.
    pub status: i32,
    /// The same with `set -o pipefail`: the last one of that pipeline that is not 0.
    pub pipefail: i32,
    /// Its commands in the order of the text, those that were never reached included.
    pub stages: Vec<StageReport>,
    /// Captured standard output.
    pub stdout: Captured,
    /// Captured standard error.
    pub stderr: Captured,
    /// The deadline passed and everything was killed.
    pub timed_out: bool,
    /// The caller went away or asked for the end, and everything was killed.
    pub cancelled: bool,
    /// The stream whose limit was exceeded, so that everything was killed ([`LineCall::end_at_limit`]).
    pub exceeded: Option<Stream>,
    /// From the first start to the last end.
    pub duration: Duration,
    /// Wall-clock limit that was in force.
    pub timeout: Duration,
    /// The caller asked for a longer one than the policy allows.
    pub timeout_clamped: bool,
}

/// One command of a line.
#[derive(Debug, Clone)]
pub struct StageReport {
    /// Its name as judged.
    pub name: String,
    /// Id shared by its two records; absent: it was never reached.
    pub run_id: Option<String>,
    /// How it ended.
    pub end: StageEnd,
    /// Exec to reap.
    pub duration: Duration,
    /// Descendants that were still alive at the end and were killed.
    pub killed: u32,
    /// Descendants left after that: 0, asserted by the supervisor.
    pub left: u32,
    /// System calls that the filter forbade.
    pub denied: Vec<DeniedCall>,
    /// What the profile seems to have refused beside that: by what it started, and by what standard error of
    /// the line says under its name.
    pub hints: Vec<Hint>,
    /// The limit that it met, where it is known.
    pub limit: Option<&'static str>,
    /// What went wrong with its supervision, when its status never arrived.
    pub fault: Option<String>,
}

/// How a command of a line ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageEnd {
    /// The line did not come to it.
    NotReached,
    /// It ran.
    Ran(Exit),
    /// It was allowed but could not be started; the sentence is on its standard error.
    NotStarted {
        /// Step that failed: `resolve`, `execve`, `redirection`, or one of the sandbox.
        step: String,
        /// `errno` of it, 0 when there is none.
        errno: i32,
        /// One sentence.
        message: String,
    },
}

impl StageEnd {
    /// The status that a shell would give it; `None` if it was not reached.
    #[must_use]
    pub fn status(&self) -> Option<i32> {
        match self {
            Self::NotReached => None,
            Self::Ran(Exit::Code(code)) => Some(*code),
            Self::Ran(Exit::Signal(signal)) => Some(128_i32.saturating_add(*signal)),
            Self::Ran(Exit::Unknown) => Some(128_i32.saturating_add(libc::SIGKILL)),
            Self::NotStarted { step, .. } if step == REDIRECTION => Some(2),
            Self::NotStarted { errno: libc::ENOENT, .. } => Some(127),
            Self::NotStarted { .. } => Some(126),
        }
    }
}

/// The step of a redirection that could not be opened.
pub(super) const REDIRECTION: &str = "redirection";
