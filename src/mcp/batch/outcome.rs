//! From what the runner says to what a batch tells of one command.
//!
//! Purpose: the six status values and the fields beside them; what is as usual (a status of 0, empty
//! errors, a flag that is false) is left out. Pure. Inputs: outcomes of the appliance. Called by `run.rs`.

use serde_json::{Map, Value, json};

use super::super::payload;
use super::super::render::{self, Escapes};
use super::result::{Done, Output, Status, Whole};
use crate::appliance::{LineOutcome, LineReport, Outcome, Report, sandbox};
use crate::audit::AuditError;
use crate::policy::Denial;
use crate::run::{Captured, Exit, Stream, Tap};
use crate::syntax::placeholder::Given;

/// Bytes of each stream that an answer carries.
const STREAM: usize = 256 * 1024;

/// What became of one argument vector.
pub(super) fn of_command(program: &str, outcome: Outcome, tap: &Tap) -> Done {
    match outcome {
        Outcome::Denied(denial) => refused(&denial),
        // A batch says that nobody can be asked, and is answered with a refusal.
        Outcome::Ask(_) => Done::because(Status::Rejected, "The command needs the consent of a person."),
        Outcome::AuditUnavailable(error) => unrecorded(&error),
        Outcome::Unrecorded(error) => withheld(&error),
        Outcome::NotStarted(reason) => {
            let mut done = Done::because(Status::Failed, payload::not_spawned(program, &reason));
            done.fields.insert("exit_code".to_owned(), (-1).into());
            done
        }
        Outcome::Ran(report) => ran(*report, tap),
    }
}

/// What became of one line.
pub(super) fn of_line(outcome: LineOutcome, tap: &Tap) -> Done {
    match outcome {
        LineOutcome::Denied(denied) => refused(&denied.denial),
        LineOutcome::AuditUnavailable(error) => unrecorded(&error),
        LineOutcome::Unrecorded(error) => withheld(&error),
        LineOutcome::Ran(report) => line(*report, tap),
    }
}

fn line(report: LineReport, tap: &Tap) -> Done {
    let fault = report.stages.iter().find_map(|stage| stage.fault.as_ref());
    let status = match report.status {
        _ if report.cancelled => Status::Cancelled,
        _ if report.timed_out => Status::TimedOut,
        0 => Status::Succeeded,
        _ => Status::Failed,
    };
    let mut done = Done::bare(status);
    if status != Status::Succeeded {
        done.fields.insert("exit_code".to_owned(), report.status.into());
    }
    let statuses: Vec<Option<i32>> = report.stages.iter().map(|stage| stage.end.status()).collect();
    // One command says the same by its status; more say it where one of them failed.
    if statuses.len() > 1 && statuses.iter().flatten().any(|status| *status != 0) {
        done.fields.insert("statuses".to_owned(), statuses.into());
    }
    streams(&mut done.fields, tap);
    if let Some(fault) = fault {
        done.fields.insert("error".to_owned(), fault.as_str().into());
    }
    if let Some(limit) = report.stages.iter().find_map(|stage| stage.limit) {
        done.fields.insert("limit".to_owned(), limit.into());
    }
    let denied: Vec<_> = report.stages.iter().flat_map(|stage| stage.denied.clone()).collect();
    let hints: Vec<_> = report.stages.iter().flat_map(|stage| stage.hints.clone()).collect();
    if !denied.is_empty() || !hints.is_empty() {
        done.fields.insert("sandbox".to_owned(), sandbox(&denied, &hints));
    }
    if report.timeout_clamped {
        done.fields.insert("timeout_clamped".to_owned(), true.into());
    }
    if status == Status::Succeeded {
        done.output = Some(output(report.status, report.stdout, report.stderr));
    }
    done
}

/// A refusal, with its rule and what to do instead.
pub(super) fn refused(denial: &Denial) -> Done {
    let mut done = Done::because(Status::Rejected, denial.message.as_str());
    done.fields.insert("rule".to_owned(), denial.rule.as_ref().into());
    if let Some(clause) = denial.advice() {
        done.fields.insert("instead".to_owned(), clause.into());
    }
    done
}

/// Nothing was run, because it could not be recorded.
pub(super) fn unrecorded(error: &AuditError) -> Done {
    let why =
        "Nothing was run: a command runs only after its start is recorded. Tell the operator of this server.";
    Done::because(Status::Rejected, format!("{error}. {why}"))
}

/// It ran, and what it printed is kept back.
pub(super) fn withheld(error: &AuditError) -> Done {
    let why = "The command ran, but its end could not be recorded, so what it printed is withheld. Tell the \
               operator of this server.";
    Done::because(Status::Failed, format!("{error}. {why}"))
}

fn ran(report: Report, tap: &Tap) -> Done {
    let status = match report.exit {
        _ if report.fault.is_some() => Status::Failed,
        _ if report.cancelled => Status::Cancelled,
        _ if report.timed_out => Status::TimedOut,
        Exit::Code(0) => Status::Succeeded,
        _ => Status::Failed,
    };
    let mut done = Done::bare(status);
    if status != Status::Succeeded {
        done.fields.insert("exit_code".to_owned(), payload::exit(report.exit));
    }
    streams(&mut done.fields, tap);
    if let Some(fault) = &report.fault {
        done.fields.insert("error".to_owned(), fault.as_str().into());
    }
    if let Some(limit) = report.limit {
        done.fields.insert("limit".to_owned(), limit.into());
    }
    // Active it always is; only what it did is worth the words.
    if !report.denied.is_empty() || !report.hints.is_empty() {
        done.fields.insert("sandbox".to_owned(), report.sandbox());
    }
    if report.timeout_clamped {
        done.fields.insert("timeout_clamped".to_owned(), true.into());
    }
    if let (Status::Succeeded, Exit::Code(exit_code)) = (status, report.exit) {
        done.output = Some(output(exit_code, report.stdout, report.stderr));
    }
    done
}

/// What later commands may take.
pub(super) fn output(exit_code: i32, stdout: Captured, stderr: Captured) -> Output {
    let whole = |captured: &Captured| {
        if captured.dropped.is_some() {
            Whole::Cut
        } else if captured.invalid_bytes > 0 {
            Whole::NotText
        } else {
            Whole::Yes
        }
    };
    let kept = (whole(&stdout), whole(&stderr));
    let given = Given { exit_code, stdout: stdout.text.into_bytes(), stderr: stderr.text.into_bytes() };
    Output { given, stdout: kept.0, stderr: kept.1 }
}

/// Both streams, each within its bound. Standard output is always told, so that its absence says nothing.
pub(super) fn streams(fields: &mut Map<String, Value>, tap: &Tap) {
    for (name, stream) in [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)] {
        let (captured, _) = tap.read_within(stream, STREAM, true);
        if captured.text.is_empty() && stream == Stream::Stderr {
            continue;
        }
        let (shown, changed) = render::text(captured.text, Escapes::Strip);
        fields.insert(name.to_owned(), shown.into());
        if changed > 0 {
            fields.insert(format!("{name}_stripped_bytes"), changed.into());
        }
        if captured.dropped.is_some() {
            fields.insert(format!("{name}_truncated"), true.into());
        }
        if captured.invalid_bytes > 0 {
            fields.insert(format!("{name}_invalid_bytes"), json!(captured.invalid_bytes));
        }
    }
}
