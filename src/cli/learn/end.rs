//! How a run ended, and whether two ended alike. Called by `learn` only.

use serde_json::{Value, json};

use crate::appliance::Report;
use crate::run::Exit;

/// The end of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// It ran.
    Ran(Box<Ran>),
    /// The policy refused it.
    Refused(String),
    /// It could not be started.
    NotStarted(String),
}

/// What a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) exit: Exit,
    pub(super) timed_out: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// Calls that the filter forbade, and how often.
    pub(super) denied: Vec<(String, u32)>,
}

impl Ending {
    pub(super) fn of(report: Report) -> Self {
        Self::Ran(Box::new(Ran {
            exit: report.exit,
            timed_out: report.timed_out,
            stdout: report.stdout.text,
            stderr: report.stderr.text,
            denied: report.denied.iter().map(|call| (call.name(), call.count)).collect(),
        }))
    }

    pub(super) fn ran(&self) -> Option<&Ran> {
        match self {
            Self::Ran(ran) => Some(ran),
            Self::Refused(_) | Self::NotStarted(_) => None,
        }
    }

    /// Whether both ended with the same status.
    pub(super) fn same_status(&self, other: &Self) -> bool {
        match (self.ran(), other.ran()) {
            (Some(a), Some(b)) => (a.exit, a.timed_out) == (b.exit, b.timed_out),
            _ => false,
        }
    }

    /// Whether both also printed the same.
    pub(super) fn same_output(&self, other: &Self) -> bool {
        match (self.ran(), other.ran()) {
            (Some(a), Some(b)) => (&a.stdout, &a.stderr) == (&b.stdout, &b.stderr),
            _ => false,
        }
    }

    pub(super) fn succeeded(&self) -> bool {
        self.ran().is_some_and(|ran| ran.exit == Exit::Code(0) && !ran.timed_out)
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Ran(ran) if ran.timed_out => "it ran out of time".to_owned(),
            Self::Ran(ran) => match ran.exit {
                Exit::Code(code) => format!("it ended with status {code}"),
                Exit::Signal(signal) => format!("signal {signal} ended it"),
                Exit::Unknown => "its end is unknown".to_owned(),
            },
            Self::Refused(message) => format!("it was refused: {message}"),
            Self::NotStarted(message) => format!("it did not start: {message}"),
        }
    }

    pub(super) fn json(&self) -> Value {
        let (status, timed_out) = match self.ran() {
            None => (Value::Null, false),
            Some(ran) => match ran.exit {
                Exit::Code(code) => (json!(code), ran.timed_out),
                Exit::Signal(signal) => (json!(128 + signal), ran.timed_out),
                Exit::Unknown => (Value::Null, ran.timed_out),
            },
        };
        json!({"status": status, "timed_out": timed_out, "message": self.shown()})
    }
}
