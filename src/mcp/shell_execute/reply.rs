//! Replies of `shell_execute`: the documented object, and the words of its errors.
//!
//! Purpose: from what became of a line to `stdout`, `stderr`, `status`, `execution_time` and, on failure,
//! `error`. A success and a refusal are that object as text, too; of a command that failed the text begins
//! with the sentence that clients look for. `server.compat_text` has bare texts in its place, and
//! `server.nonzero_is_error = false` makes a status an answer. Over a limit the head and the tail of what was written are told
//! as well. Inputs: an outcome. Called by `mod.rs`.

use std::path::PathBuf;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::super::offer::Offer;
use super::super::render::{self, Escapes, MARK};
use crate::appliance::{LineCall, LineDenied, LineOutcome, LineReport, StageEnd, StageReport};
use crate::policy::Reason;
use crate::run::{Captured, Exit, Stream};
use crate::syntax::tree::{AndOr, List};

/// What a reply needs to know of its request.
#[derive(Debug)]
pub(super) struct Told {
    /// One pipeline: each of its stages counts. Otherwise the status is that of a shell.
    single: bool,
    directory: Option<PathBuf>,
    output_bytes: usize,
    /// Variables that the policy does not pass.
    ignored: Vec<String>,
    /// Bare texts in place of the object.
    bare: bool,
    /// A status other than 0 is the command's answer, and no error.
    nonzero_is_success: bool,
}

impl Told {
    pub(super) fn of(offer: &Offer, call: &LineCall, ignored: Vec<(String, String)>) -> Self {
        let only = |list: &List| matches!(list.entries.as_slice(), [AndOr { rest, .. }] if rest.is_empty());
        Self {
            single: only(&call.list),
            directory: call.cwd.clone(),
            output_bytes: offer.output_bytes,
            ignored: ignored.into_iter().map(|(name, _)| name).collect(),
            bare: offer.server.compat_text,
            nonzero_is_success: offer.server.nonzero_is_success,
        }
    }

    pub(super) fn answer(&self, outcome: LineOutcome) -> CallToolResult {
        match outcome {
            LineOutcome::Denied(denied) => self.denied(&denied),
            LineOutcome::AuditUnavailable(reason) => self.error(&format!(
                "{reason}. Nothing was run: a command runs only after its start is recorded. Tell the operator of this server."
            )),
            LineOutcome::Unrecorded(reason) => self.error(&format!(
                "{reason}. Something ran, but could not be recorded, so what it printed is withheld. Tell the operator of this server."
            )),
            LineOutcome::Ran(report) if report.cancelled => self.error(
                "Cancelled: the caller went away or the server is stopping; the command and all of its descendants were killed.",
            ),
            LineOutcome::Ran(report) => self.ran(&report),
        }
    }

    /// The sentence that clients know where there is one, else that of the policy.
    fn denied(&self, denied: &LineDenied) -> CallToolResult {
        let LineDenied { denial, name, .. } = denied;
        let message = match denial.reason {
            Reason::CommandNotAllowed | Reason::CommandAlwaysDenied if !name.is_empty() => {
                format!("Command not allowed: {name}")
            }
            Reason::CwdMissing => match &self.directory {
                Some(directory) => format!("Directory does not exist: {}", directory.display()),
                None => denial.message.clone(),
            },
            _ => denial.message.clone(),
        };
        let mut result = self.error(&message);
        let mut rule = format!("Refused by rule {}", denial.rule);
        if message != denial.message {
            rule.push_str(": ");
            rule.push_str(denial.message.trim_end_matches('.'));
        }
        if let Some(clause) = denial.advice() {
            rule.push_str("; instead: ");
            rule.push_str(clause);
        }
        rule.push('.');
        result.content.push(ContentBlock::text(rule));
        result
    }

    fn error(&self, message: &str) -> CallToolResult {
        error(message, self.bare)
    }

    fn ran(&self, report: &LineReport) -> CallToolResult {
        let (status, failure) = self.ended(report);
        let failure = failure.filter(|failure| !(self.nonzero_is_success && failure.by_itself));
        let failure = failure.map(|failure| failure.told);
        let mut object = Map::new();
        if let Some(failure) = &failure {
            object.insert("error".to_owned(), json!(failure));
        }
        let shown = |captured: &Captured| render::text(captured.text.clone(), Escapes::Strip);
        let ((stdout, out_changed), (stderr, err_changed)) = (shown(&report.stdout), shown(&report.stderr));
        object.insert(MARK.to_owned(), render::mark(&stdout, &stderr));
        object.insert("stdout".to_owned(), json!(stdout));
        object.insert("stderr".to_owned(), json!(stderr));
        if let Some(stripped) = render::stripped(out_changed, err_changed) {
            object.insert("stripped-bytes".to_owned(), stripped);
        }
        object.insert("status".to_owned(), json!(status));
        object.insert("execution_time".to_owned(), json!(report.duration.as_secs_f64()));
        if report.stages.len() > 1 {
            let statuses = report.stages.iter().map(|stage| stage.end.status()).collect::<Vec<_>>();
            object.insert("statuses".to_owned(), json!(statuses));
        }
        if !self.ignored.is_empty() {
            object.insert("env_ignored".to_owned(), json!(self.ignored));
        }
        let dropped = |captured: &Captured| {
            captured.dropped.map(|dropped| json!({"bytes": dropped.bytes, "lines": dropped.lines}))
        };
        let streams = [("stdout", dropped(&report.stdout)), ("stderr", dropped(&report.stderr))];
        let truncated: Map<String, Value> =
            streams.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        if !truncated.is_empty() {
            object.insert("truncated".to_owned(), Value::Object(truncated));
        }
        let Some(failure) = failure else {
            let mut result = CallToolResult::structured(Value::Object(object));
            if self.bare {
                // Standard output always, so that there is a text; errors where there are any.
                let errors = (!stderr.is_empty()).then(|| ContentBlock::text(stderr.clone()));
                result.content = std::iter::once(ContentBlock::text(stdout.clone())).chain(errors).collect();
            }
            return result;
        };
        let mut text = format!("Error executing command: {failure}");
        for (name, shown) in [("stdout", &stdout), ("stderr", &stderr)] {
            if !shown.is_empty() {
                text.push_str(&format!("\n{name}:\n{shown}"));
            }
        }
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        result.structured_content = Some(Value::Object(object));
        result
    }

    /// Status, and the sentence of a failure.
    fn ended(&self, report: &LineReport) -> (i32, Option<Failure>) {
        let here = |told: String| Some(Failure { told, by_itself: false });
        if let Some(stream) = report.exceeded {
            let name = if stream == Stream::Stdout { "stdout" } else { "stderr" };
            return (-1, here(format!("{name} exceeded output limit of {} bytes", self.output_bytes)));
        }
        if report.timed_out {
            let seconds = report.timeout.as_secs_f64();
            return (-1, here(format!("Command timed out after {seconds} seconds")));
        }
        let last = report.stages.len().saturating_sub(1);
        // A reader that has enough is no failure of those who write to it.
        let failed = |(at, stage): &(usize, &StageReport)| {
            !matches!(stage.end.status(), Some(0) | None)
                && (*at == last || stage.end != StageEnd::Ran(Exit::Signal(libc::SIGPIPE)))
        };
        let stage = match self.single {
            true => report.stages.iter().enumerate().rfind(failed).map(|(_, stage)| stage),
            false if report.status == 0 => None,
            false => report.stages.iter().rfind(|stage| stage.end.status() == Some(report.status)),
        };
        let status =
            if self.single { stage.and_then(|stage| stage.end.status()) } else { Some(report.status) };
        let status = status.unwrap_or(0);
        let failure = match stage.map(|stage| &stage.end) {
            None if status == 0 => return (0, None),
            Some(StageEnd::Ran(Exit::Signal(signal))) => format!("Command terminated by signal {signal}"),
            Some(StageEnd::NotStarted { step, errno, message }) if step == "redirection" => match *errno {
                libc::ELOOP | libc::EXDEV => {
                    format!("Redirection target escapes the working directory ({message})")
                }
                _ if message.starts_with("cannot open") => format!("Failed to open input file: {message}"),
                _ => format!("Failed to open output file: {message}"),
            },
            _ => format!("Command failed with exit status {status}"),
        };
        let by_itself = matches!(stage.map(|stage| &stage.end), Some(StageEnd::Ran(Exit::Code(_))));
        (status, Some(Failure { told: failure, by_itself }))
    }
}

/// Why a command failed.
#[derive(Debug)]
struct Failure {
    /// The sentence that clients know.
    told: String,
    /// It ran to its own end, with a status.
    by_itself: bool,
}

/// The documented object of an error before anything ran; its text is the sentence alone where it is `bare`.
pub(super) fn error(message: &str, bare: bool) -> CallToolResult {
    let object = json!({"error": message, "status": 1, "stdout": "", "stderr": message, "execution_time": 0});
    let text = if bare { format!("Error executing command: {message}") } else { object.to_string() };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(object);
    result
}
