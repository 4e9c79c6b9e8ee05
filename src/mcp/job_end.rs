//! What a background job became, and what the tools say of it.

use std::time::SystemTime;

use rmcp::model::{CallToolResponse, CallToolResult};
use serde_json::{Map, Value, json};

use super::instalment::{Shown, cost};
use super::render::Escapes;
use super::{consent, payload, render};
use crate::appliance::Outcome;
use crate::run::jobs::{Became, Job};
use crate::run::{Stream, Tap};

/// Bytes that a description of the sandbox may take in an answer beside output.
const SANDBOX: usize = 24 * 1024;

/// The end of a job.
#[derive(Debug)]
pub(super) enum End {
    /// There never was one: what the request that would have started it is answered.
    Refused(CallToolResponse),
    /// It could not be spawned; the reason stands on its standard error.
    NotSpawned,
    /// It ran.
    Ran {
        /// As `run` reports it.
        exit: Value,
        /// It was killed on request.
        killed: bool,
        timed_out: bool,
        /// It asked for more time than the policy allows.
        clamped: bool,
        /// The limit that it met, where it is known.
        limit: Option<&'static str>,
        sandbox: Value,
    },
    /// It ran, and its end could not be recorded.
    Withheld(CallToolResult),
}

impl Became for End {
    fn came_about(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

impl End {
    /// The end of `program`, whose output is in `tap`.
    pub(super) fn of(program: &str, outcome: Outcome, tap: &Tap) -> Self {
        match outcome {
            Outcome::NotStarted(reason) => {
                tap.close(&payload::not_spawned(program, &reason));
                Self::NotSpawned
            }
            Outcome::Ran(report) => {
                if let Some(fault) = &report.fault {
                    tap.close(&format!("{fault}\n"));
                }
                Self::Ran {
                    exit: payload::exit(report.exit),
                    killed: report.cancelled,
                    timed_out: report.timed_out,
                    clamped: report.timeout_clamped,
                    limit: report.limit,
                    sandbox: report.sandbox(),
                }
            }
            withheld @ Outcome::Unrecorded(_) => Self::Withheld(payload::result(program, withheld)),
            asked @ Outcome::Ask(_) => Self::Refused(consent::response(program, asked, Escapes::Strip)),
            refused @ (Outcome::Denied(_) | Outcome::AuditUnavailable(_)) => {
                let result = payload::result(program, refused);
                if tap.has_begun() { Self::Withheld(result) } else { Self::Refused(result.into()) }
            }
        }
    }

    /// The end of a job whose task panicked.
    pub(super) fn lost() -> Self {
        Self::Withheld(payload::error("the job failed inside of the server; its log says more".to_owned()))
    }
}

/// What a job is doing: `running`, `exited` or `killed`.
pub(super) fn state(end: Option<&End>) -> &'static str {
    match end {
        None => "running",
        Some(End::Ran { killed, timed_out, .. }) if *killed || *timed_out => "killed",
        Some(_) => "exited",
    }
}

/// Its exit status: null until there is one.
pub(super) fn exit(end: Option<&End>) -> Value {
    match end {
        Some(End::Ran { exit, .. }) => exit.clone(),
        Some(End::NotSpawned) => Value::from(-1),
        Some(End::Withheld(_) | End::Refused(_)) | None => Value::Null,
    }
}

/// Whether it was killed, or is being.
pub(super) fn killed(job: &Job<End>, end: Option<&End>) -> bool {
    if end.is_some() { state(end) == "killed" } else { job.kill_asked() }
}

/// Seconds, to the thousandth.
pub(super) fn runtime(job: &Job<End>) -> Value {
    Value::from((job.runtime().as_secs_f64() * 1000.0).round() / 1000.0)
}

/// The answer of `poll`, keys in byte order.
pub(super) fn polled(job: &Job<End>) -> Value {
    let end = job.ended();
    let (clamped, limit) = match end {
        Some(End::Ran { clamped, limit, .. }) => (*clamped, *limit),
        _ => (false, None),
    };
    let entries = [
        ("exit", Some(exit(end))),
        ("job", Some(Value::from(job.id.as_str()))),
        ("killed", Some(Value::Bool(killed(job, end)))),
        ("limit", limit.map(Value::from)),
        ("runtime", Some(runtime(job))),
        ("started-at", Some(Value::String(time(job.started_at)))),
        ("state", Some(Value::from(state(end)))),
        ("stderr-bytes", Some(Value::from(job.handle.tap.total_bytes(Stream::Stderr)))),
        ("stdout-bytes", Some(Value::from(job.handle.tap.total_bytes(Stream::Stdout)))),
        ("timed-out", Some(Value::Bool(matches!(end, Some(End::Ran { timed_out: true, .. }))))),
        ("timeout-clamped", clamped.then_some(Value::Bool(true))),
    ];
    let said = entries.into_iter().filter_map(|(key, value)| value.map(|value| (key.to_owned(), value)));
    Value::Object(said.collect())
}

/// The answer of `output`, keys in byte order. `end` is what was known before the streams were read.
pub(super) fn shown(
    job: &Job<End>,
    end: Option<&End>,
    cursor: String,
    base64: bool,
    shown: [Shown; 2],
) -> Value {
    let [out, err] = shown;
    let per_stream = |pick: &dyn Fn(&Shown) -> Option<Value>| {
        let streams = [("stderr", &err), ("stdout", &out)];
        let picked: Map<String, Value> = streams
            .into_iter()
            .filter_map(|(name, shown)| pick(shown).map(|value| (name.to_owned(), value)))
            .collect();
        (!picked.is_empty()).then_some(Value::Object(picked))
    };
    let invalid = per_stream(&|shown| (shown.invalid > 0).then(|| Value::from(shown.invalid)));
    let truncated = per_stream(&|shown| {
        shown.dropped.map(|dropped| json!({"bytes": dropped.bytes, "lines": dropped.lines}))
    });
    let mut object = Map::new();
    object.insert("cursor".to_owned(), Value::String(cursor));
    if base64 {
        object.insert("encoding".to_owned(), "base64".into());
    }
    object.insert("eof".to_owned(), Value::Bool(end.is_some() && out.end && err.end));
    if let Some(invalid) = invalid {
        object.insert("invalid-bytes".to_owned(), invalid);
    }
    object.insert("job".to_owned(), Value::String(job.id.clone()));
    object.insert(render::MARK.to_owned(), render::mark(&out.text, &err.text));
    if let Some(End::Ran { sandbox, .. }) = end {
        let small = cost(&sandbox.to_string()) <= SANDBOX;
        object.insert("sandbox".to_owned(), if small { sandbox.clone() } else { json!({"active": true}) });
    }
    object.insert("state".to_owned(), state(end).into());
    object.insert("stderr".to_owned(), Value::String(err.text));
    object.insert("stdout".to_owned(), Value::String(out.text));
    if let Some(stripped) = render::stripped(out.stripped, err.stripped) {
        object.insert("stripped-bytes".to_owned(), stripped);
    }
    if let Some(truncated) = truncated {
        object.insert("truncated".to_owned(), truncated);
    }
    Value::Object(object)
}

/// RFC 3339, UTC, whole seconds.
fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}
