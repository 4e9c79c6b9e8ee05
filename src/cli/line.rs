//! `cofferdam exec --line`: a line of shell syntax, judged as a whole, run without a shell.
//!
//! Purpose: from the text to the call of the appliance, and from what became of it to the exit status, the
//! words on standard error or the JSON object. Called by `exec.rs`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::exec::{REFUSED, TIMED_OUT, byte, ended_by, say};
use crate::appliance::{LineCall, LineOutcome, LineReport, StageEnd, StageReport, unread_line};
use crate::audit::Context;
use crate::run::{Captured, Chunk};
use crate::syntax;

/// What the command line asks for.
pub(super) struct Asked {
    pub(super) text: String,
    pub(super) cwd: Option<PathBuf>,
    pub(super) timeout: Option<Duration>,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) live: Option<mpsc::Sender<Chunk>>,
}

impl From<Asked> for LineCall {
    fn from(asked: Asked) -> Self {
        let Asked { text, cwd, timeout, stdin, live } = asked;
        let (list, refused) = match syntax::parse(&text, syntax::Options::default()) {
            Ok(list) => (list, None),
            Err(refusal) => (syntax::List::default(), Some(unread_line(&refusal))),
        };
        Self {
            list,
            cwd,
            timeout,
            stdin,
            live,
            context: Context { tool: Some("exec".to_owned()), ..Context::default() },
            shown: refused.is_some().then(|| syntax::shown::words(&text)),
            refused,
            ..Self::default()
        }
    }
}

/// Says what became of the line; its exit status is that of the line.
pub(super) fn answer(outcome: LineOutcome, json: bool, cut: [u64; 2], stopped: i32) -> Result<u8, String> {
    let (status, object) = match outcome {
        LineOutcome::AuditUnavailable(error) => return Err(error.to_string()),
        LineOutcome::Unrecorded(error) => {
            return Err(format!("the line ran, but a record of it could not be written: {error}"));
        }
        LineOutcome::Denied(denied) => {
            let denial = &denied.denial;
            if !json {
                let advice = denial.advice().map_or(String::new(), |clause| format!(" Instead: {clause}."));
                say(&format!("refused ({}): {}{advice}", denial.rule, denial.message));
            }
            let object = json!({
                "outcome": "denied", "status": REFUSED, "rule": denial.rule, "reason": denial.reason.as_str(),
                "message": denial.message, "layer": denial.layer(), "instead": denial.instead,
                "stage": denied.stage,
            });
            (REFUSED, object)
        }
        LineOutcome::Ran(report) => {
            if !json {
                told(&report, cut);
            }
            let left: u32 = report.stages.iter().map(|stage| stage.left).sum();
            if left > 0 {
                return Err(format!("{left} descendants could not be killed"));
            }
            let status = match (report.cancelled, report.timed_out) {
                (true, _) if stopped != 0 => ended_by(stopped),
                (_, true) => TIMED_OUT,
                _ => byte(report.status),
            };
            (status, object(&report, status))
        }
    };
    if json {
        writeln!(std::io::stdout(), "{object}").map_err(|e| format!("writing the answer: {e}"))?;
    }
    Ok(status)
}

fn told(report: &LineReport, cut: [u64; 2]) {
    for (name, bytes) in [("stdout", cut[0]), ("stderr", cut[1])].into_iter().filter(|(_, n)| *n > 0) {
        say(&format!("{name}: {bytes} bytes dropped beyond the limit (limits.output_bytes)"));
    }
    let limit = humantime::format_duration(report.timeout);
    if report.timed_out {
        say(&format!("timed out after {limit}"));
    }
    if report.timeout_clamped {
        say(&format!("the time limit was lowered to {limit} (limits.max_timeout)"));
    }
    for stage in &report.stages {
        if let Some(fault) = &stage.fault {
            say(&format!("{}: {fault}; what was left of it is killed", stage.name));
        }
        if let Some(limit) = stage.limit {
            say(&format!("{}: limit met: {limit}", stage.name));
        }
    }
}

fn object(report: &LineReport, status: u8) -> Value {
    let truncated = |captured: &Captured| {
        captured.dropped.map(|dropped| json!({"bytes": dropped.bytes, "lines": dropped.lines}))
    };
    json!({
        "outcome": "ran",
        "status": status,
        "line_id": report.line_id,
        "exit": report.status,
        "pipefail": report.pipefail,
        "stages": report.stages.iter().map(stage).collect::<Value>(),
        "timed_out": report.timed_out,
        "cancelled": report.cancelled,
        "duration_ms": u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        "stdout": report.stdout.text,
        "stderr": report.stderr.text,
        "truncated": {"stdout": truncated(&report.stdout), "stderr": truncated(&report.stderr)},
    })
}

fn stage(stage: &StageReport) -> Value {
    let mut object = json!({"command": stage.name, "run_id": stage.run_id, "status": stage.end.status()});
    if let (StageEnd::NotStarted { step, message, .. }, Some(object)) = (&stage.end, object.as_object_mut()) {
        object.insert("step".to_owned(), json!(step));
        object.insert("message".to_owned(), json!(message));
    }
    object
}
