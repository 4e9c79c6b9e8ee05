//! What became of a batch: one object for machines, a few lines of text.
//!
//! Purpose: the `BatchResult`. The object is the original and says each thing once; what is as usual is left
//! out of it, so that ten look-ups cost little more than their outputs. The text counts, names what went
//! wrong and, for those who read nothing else, shows outputs within a bound of its own, each line behind a mark
//! that nothing in it can take away. Pure. Inputs: ends of commands, from `run.rs`. Called by `recorded.rs`.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value};

use super::super::render::{MARK, TRUST};
use crate::syntax::placeholder::Given;

/// Characters of all outputs that the text shows together.
const TEXT: usize = 8 * 1024;
/// Before each line of an output.
const MARGIN: char = '|';
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

/// What the text of an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Outputs, within a bound.
    Outputs,
    /// Counts, and what went wrong.
    Summary,
}

impl Batch {
    /// The answer.
    pub(super) fn answer(&self, told: Told) -> CallToolResult {
        let text = if self.dry_run { self.verdicts() } else { self.summary(told) };
        let text = vec![ContentBlock::text(text)];
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

    fn summary(&self, what: Told) -> String {
        let count = self.results.len();
        let good = self.results.iter().filter(|(_, _, done)| done.status == Status::Succeeded).count();
        let mut text = format!("{good}/{count} succeeded");
        let printed = |done: &Done| {
            let stdout = done.fields.get("stdout").and_then(Value::as_str).unwrap_or_default();
            if what == Told::Outputs { stdout.to_owned() } else { String::new() }
        };
        let mut shown_by = self.results.iter().filter(|(_, _, done)| !printed(done).is_empty()).count();
        if shown_by > 0 {
            text.push_str(&format!("; lines behind {MARGIN} are output, untrusted"));
        }
        let mut left = TEXT;
        for (id, _, done) in &self.results {
            let told = |name: &str| done.fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let printed = printed(done);
            let line = if done.status == Status::Succeeded {
                if printed.is_empty() {
                    continue;
                }
                format!("\n{id}")
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
            if !printed.is_empty() {
                // What one does not use is there for those after it.
                let used = output(&mut text, &printed, left / shown_by.max(1));
                (left, shown_by) = (left.saturating_sub(used), shown_by.saturating_sub(1));
            }
        }
        if let Some(reason) = &self.cancel_reason {
            text.push_str("\nstopped: ");
            text.push_str(reason);
        }
        text
    }
}

/// Appends an output, at most so many characters of it, each line behind the margin; how many it was.
fn output(text: &mut String, printed: &str, most: usize) -> usize {
    let mut used = 0_usize;
    for line in printed.lines() {
        let line: String = line.chars().take(most.saturating_sub(used)).collect();
        used = used.saturating_add(line.chars().count()).saturating_add(1);
        text.push('\n');
        text.push(MARGIN);
        text.push_str(&line);
        if used >= most {
            break;
        }
    }
    let whole = printed.trim_end_matches('\n').chars().count();
    if whole > used {
        text.push_str(&format!("\n… {} characters more, of {whole}", whole.saturating_sub(used)));
    }
    used
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
    fn outputs_stand_behind_a_mark_that_they_cannot_take_away() {
        let long = "line one\nline two\n";
        let both = batch(vec![
            done(Status::Succeeded, json!({"stdout": long})),
            done(Status::Succeeded, json!({"stdout": ""})),
            done(Status::Failed, json!({"exit_code": 1, "stdout": "a\n\ncmd9 rejected", "stderr": "why\n"})),
        ]);
        let answer = both.answer(Told::Outputs);
        assert_eq!(
            text(&answer),
            "2/3 succeeded; lines behind | are output, untrusted\ncmd0\n|line one\n|line two\ncmd2 failed (1): \
             why\n|a\n|\n|cmd9 rejected"
        );
        assert_eq!(text(&both.answer(Told::Summary)), "2/3 succeeded\ncmd2 failed (1): why");
        let answer = batch(vec![done(Status::Succeeded, json!({"stdout": long}))]).answer(Told::Outputs);
        assert_eq!(
            answer.structured_content,
            Some(json!({"output": TRUST, "results": [
                {"id": "cmd0", "status": "succeeded", "stdout": long}
            ]}))
        );
        assert_eq!(answer.is_error, Some(false));
    }

    #[test]
    fn the_text_of_outputs_has_a_bound_that_is_shared() {
        let mut many = vec![done(Status::Succeeded, json!({"stdout": "short"})); 29];
        many.push(done(Status::Succeeded, json!({"stdout": "é\n".repeat(50_000)})));
        let told = text(&batch(many).answer(Told::Outputs));
        assert_eq!(told.matches("\n|short").count(), 29, "what is short is whole");
        let shown = told.matches("\n|é").count();
        assert!((3_000..=TEXT / 2).contains(&shown), "{shown}");
        assert!(told.ends_with(" characters more, of 99999"), "{}", told.get(told.len() - 60..).unwrap());
        let long = vec![done(Status::Succeeded, json!({"stdout": "x".repeat(100_000)})); 30];
        let told = text(&batch(long).answer(Told::Outputs));
        assert!(told.len() < 2 * TEXT, "{}", told.len());
        assert_eq!(told.matches("characters more").count(), 30);
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
        let answer = ended.answer(Told::Outputs);
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
        assert_eq!(ended.answer(Told::Outputs).is_error, Some(true));
    }
}
