//! Which records a person asked for.
//!
//! Purpose: the filters of `audit show`, `report` and `replay` as one value. Words of one filter are
//! alternatives, several filters all have to hold. Pure, but for the clock behind `--since 2h`.

use std::sync::LazyLock;

use super::{Moment, Record};

/// The schema of a record: the one place that knows all outcomes.
const SCHEMA: &str = include_str!("../../../siem/record.schema.json");

/// Filters; an empty one lets everything through.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Not before.
    pub since: Option<Moment>,
    /// Not at or after.
    pub until: Option<Moment>,
    /// `outcome`, exactly.
    pub outcomes: Vec<String>,
    /// `rule_id`, or the part of it before a dot.
    pub rules: Vec<String>,
    /// `cmd`, or the name of the file that it names.
    pub commands: Vec<String>,
    /// `session_id`, or its beginning.
    pub sessions: Vec<String>,
    /// `principal`, exactly.
    pub principals: Vec<String>,
    /// `run_id`, or its beginning or end.
    pub runs: Vec<String>,
    /// `event_type`, or the part of it before a dot.
    pub events: Vec<String>,
    /// Only what was refused.
    pub denied: bool,
}

impl Filter {
    /// Whether `record` is asked for.
    #[must_use]
    pub fn admits(&self, record: &Record) -> bool {
        let at = record.timestamp();
        self.since.as_ref().is_none_or(|since| at >= since.as_str())
            && self.until.as_ref().is_none_or(|until| at < until.as_str())
            && (!self.denied || is_denied(record))
            && any(&self.outcomes, record.text("outcome"), |wanted, it| wanted == it)
            && any(&self.rules, record.text("rule_id"), dotted)
            && any(&self.events, record.text("event_type"), dotted)
            && any(&self.commands, record.text("cmd"), |wanted, it| wanted == it || base_name(it) == wanted)
            && any(&self.sessions, record.text("session_id"), |wanted, it| it.starts_with(wanted))
            && any(&self.principals, record.text("principal"), |wanted, it| wanted == it)
            && any(&self.runs, record.text("run_id"), |wanted, it| {
                it.starts_with(wanted) || it.ends_with(wanted)
            })
    }
}

/// Whether the record is a refusal, one that was only asked about included.
pub(crate) fn is_denied(record: &Record) -> bool {
    record.text("decision") == Some("deny") || record.text("outcome") == Some("denied")
}

fn any(wanted: &[String], value: Option<&str>, holds: impl Fn(&str, &str) -> bool) -> bool {
    wanted.is_empty() || value.is_some_and(|value| wanted.iter().any(|wanted| holds(wanted, value)))
}

/// `git` and `git.grep` are meant by `git`, `github` is not.
fn dotted(wanted: &str, value: &str) -> bool {
    value.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// All values of `outcome`, as the schema lists them.
#[must_use]
pub fn known_outcomes() -> &'static [String] {
    static KNOWN: LazyLock<Vec<String>> = LazyLock::new(|| known("outcome"));
    &KNOWN
}

/// All values of `event_type`, as the schema lists them.
#[must_use]
pub fn known_events() -> &'static [String] {
    static KNOWN: LazyLock<Vec<String>> = LazyLock::new(|| known("event_type"));
    &KNOWN
}

fn known(field: &str) -> Vec<String> {
    let schema = serde_json::from_str::<serde_json::Value>(SCHEMA);
    let values = schema.iter().filter_map(|schema| schema.pointer(&format!("/properties/{field}/enum")));
    let values = values.filter_map(|values| values.as_array()).flatten();
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}
