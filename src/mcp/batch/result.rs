//! What became of a batch: one object for machines, a few lines of text.
//!
//! Purpose: the `BatchResult`. The object is the original and says each thing once; what is as usual is left
//! out of it, so that ten look-ups cost little more than their outputs. The text counts, and names what went
//! wrong; of a single command it shows the beginning of the output. Pure. Inputs: ends of commands, from `run.rs`. Called by `mod.rs`.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value};

use super::super::render::{MARK, TRUST};
use crate::syntax::placeholder::Given;

/// Characters of an output that the text shows, where there is one command.
const TEXT: usize = 240;
/// Characters of errors that it shows of each that failed.
const ERRORS: usize = 80;
/// Characters of a reason that the text shows.
const REASON: usize = 300;

/// How a command of a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It ran and its status was 0.
    Succeeded,
    /// It ran and ended otherwise, or could not be started.
    Failed,
    /// It was refused before it could start.
    Rejected,
    /// It was killed at its timeout.
    TimedOut,
    /// It was killed, or not started any more, because nobody wants the answer.
    Cancelled,
    /// It was never begun.
    Skipped,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }

    /// In words.
    fn told(self) -> &'static str {
        if self == Self::TimedOut { "timed out" } else { self.as_str() }
    }
}

/// What one command came to.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) status: Status,
    /// What else is told of it.
    pub(super) fields: Map<String, Value>,
    /// What later commands may take of it.
    pub(super) output: Option<Output>,
}

/// What later commands may take.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) given: Given,
    pub(super) stdout: Whole,
    pub(super) stderr: Whole,
}

/// Whether a stream may be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// All of it is there, and it is text.
    Yes,
    /// It was cut.
    Cut,
    /// It is not UTF-8.
    NotText,
}

impl Done {
    /// Without anything else to be told.
    pub(super) fn bare(status: Status) -> Self {
        Self { status, fields: Map::new(), output: None }
    }

    /// With a sentence about it.
    pub(super) fn because(status: Status, error: impl Into<String>) -> Self {
        let mut done = Self::bare(status);
        done.fields.insert("error".to_owned(), Value::String(error.into()));
        done
    }
}

/// The end of a batch.
#[derive(Debug)]
pub(super) struct Batch {
    /// Id, step and end of each command, in the order of the request.
    pub(super) results: Vec<(String, u64, Done)>,
    /// Why it did not come to its end.
    pub(super) cancel_reason: Option<String>,
    /// Its time was over before that.
    pub(super) spent: bool,
    /// It was allowed less time than it asked for.
    pub(super) clamped: bool,
    /// Verdicts were asked for, and nothing else.
    pub(super) dry_run: bool,
}

impl Batch {
    /// The answer.
    pub(super) fn answer(&self) -> CallToolResult {
        let text = vec![ContentBlock::text(self.text())];
        let none_began = !self.dry_run
            && self
                .results
                .iter()
                .all(|(_, _, done)| matches!(done.status, Status::Rejected | Status::Skipped));
        let mut result = if none_began { CallToolResult::error(text) } else { CallToolResult::success(text) };
        result.structured_content = Some(self.object());
        result
    }

    fn object(&self) -> Value {
        let steps = self.results.iter().any(|(_, step, _)| *step != 1);
        let results = self.results.iter().map(|(id, step, done)| {
            let mut object = Map::new();
            object.insert("id".to_owned(), Value::from(id.as_str()));
            if steps {
                object.insert("step".to_owned(), Value::from(*step));
            }
            if !self.dry_run {
                object.insert("status".to_owned(), Value::from(done.status.as_str()));
            }
            object.extend(done.fields.clone());
            Value::Object(object)
        });
        let mut object = Map::new();
        // Once for all: what a command printed stands inside of strings, which nothing in them can end.
        if self.results.iter().any(|(_, _, done)| done.fields.contains_key("stdout")) {
            object.insert(MARK.to_owned(), Value::from(TRUST));
        }
        object.insert("results".to_owned(), results.collect());
        if self.dry_run {
            object.insert("dry_run".to_owned(), Value::Bool(true));
        }
        if let Some(reason) = &self.cancel_reason {
            object.insert("cancel_reason".to_owned(), Value::from(reason.as_str()));
        }
        if self.clamped {
            object.insert("timeout_clamped".to_owned(), Value::Bool(true));
        }
        Value::Object(object)
    }

    fn text(&self) -> String {
        if self.dry_run { self.verdicts() } else { self.summary() }
    }

    fn verdicts(&self) -> String {
        let mut text = "dry run, nothing was started".to_owned();
        for (id, _, done) in &self.results {
            let told = |name: &str| done.fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let reason = beginning(told("error"), REASON);
            let colon = if reason.is_empty() { "" } else { ": " };
            text.push_str(&format!("\n{id} {}{colon}{reason}", told("verdict")));
        }
        text
    }

    fn summary(&self) -> String {
        let count = self.results.len();
        let good = self.results.iter().filter(|(_, _, done)| done.status == Status::Succeeded).count();
        let mut text = format!("{good}/{count} succeeded");
        for (id, _, done) in &self.results {
            let told = |name: &str| done.fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let line = if done.status == Status::Succeeded {
                let shown = if count == 1 { beginning(told("stdout"), TEXT) } else { String::new() };
                if shown.is_empty() {
                    continue;
                }
                format!("\n{id}: {shown}")
            } else {
                let exit = done.fields.get("exit_code").filter(|code| !code.is_null());
                let exit = exit.map(|code| format!(" ({code})")).unwrap_or_default();
                let reason = match told("error") {
                    "" => beginning(told("stderr"), ERRORS),
                    error => beginning(error, REASON),
                };
                let colon = if reason.is_empty() { "" } else { ": " };
                format!("\n{id} {}{exit}{colon}{reason}", done.status.told())
            };
            text.push_str(&line);
        }
        if let Some(reason) = &self.cancel_reason {
            text.push_str("\nstopped: ");
            text.push_str(reason);
        }
        text
    }
}

/// The first line with anything on it, at most so many characters of it; `…` where there is more.
fn beginning(text: &str, most: usize) -> String {
    let trimmed = text.trim();
    let first = trimmed.lines().next().unwrap_or_default().trim_end();
    let mut shown: String = first.chars().take(most).collect();
    if shown.len() < trimmed.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn done(status: Status, fields: Value) -> Done {
        Done { status, fields: fields.as_object().cloned().unwrap(), output: None }
    }

    fn batch(results: Vec<Done>) -> Batch {
        let results =
            results.into_iter().enumerate().map(|(at, done)| (format!("cmd{at}"), 1, done)).collect();
        Batch { results, cancel_reason: None, spent: false, clamped: false, dry_run: false }
    }

    fn text(result: &CallToolResult) -> String {
        result.content.first().unwrap().as_text().unwrap().text.clone()
    }

    #[test]
    fn an_output_stands_once() {
        let long = "line one\nline two\n";
        let answer = batch(vec![done(Status::Succeeded, json!({"stdout": long}))]).answer();
        assert_eq!(text(&answer), "1/1 succeeded\ncmd0: line one…");
        assert_eq!(
            answer.structured_content,
            Some(json!({"output": TRUST, "results": [
                {"id": "cmd0", "status": "succeeded", "stdout": long}
            ]}))
        );
        assert_eq!(answer.is_error, Some(false));
        let many = vec![done(Status::Succeeded, json!({"stdout": "é".repeat(500)})); 30];
        assert_eq!(text(&batch(many).answer()), "30/30 succeeded");
    }

    #[test]
    fn what_went_wrong_is_said_in_words() {
        let mut ended = batch(vec![
            done(Status::Failed, json!({"exit_code": 2, "stderr": "no such file\n"})),
            Done::because(Status::Rejected, "Command 'rm' is not allowlisted."),
            done(Status::TimedOut, json!({"exit_code": 137})),
            Done::bare(Status::Skipped),
        ]);
        ended.cancel_reason = Some("step 1 did not succeed".to_owned());
        let answer = ended.answer();
        assert_eq!(
            text(&answer),
            "0/4 succeeded\ncmd0 failed (2): no such file\ncmd1 rejected: Command 'rm' is not allowlisted.\n\
             cmd2 timed out (137)\ncmd3 skipped\nstopped: step 1 did not succeed"
        );
        assert_eq!(answer.structured_content.unwrap()["cancel_reason"], "step 1 did not succeed");
        assert_eq!(answer.is_error, Some(false));
    }

    #[test]
    fn a_batch_of_which_nothing_began_is_an_error() {
        let ended = batch(vec![Done::because(Status::Rejected, "no"), Done::bare(Status::Skipped)]);
        assert_eq!(ended.answer().is_error, Some(true));
    }
}
