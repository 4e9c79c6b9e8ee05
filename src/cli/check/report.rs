//! What `check` says: text for people, one JSON object for scripts.
//!
//! Purpose: one place for the words and the keys; keys are a contract. Inputs: a policy and what was found
//! in it. Called by `check` only.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::lint::{Lint, Severity};
use crate::config::{Config, ConfigError, Place, Problem, Source, examples};

/// What `check` found in a policy that loads.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) failures: Vec<examples::Failure>,
    pub(super) lints: Vec<Lint>,
    /// What is left to the kernel, in one line a kind.
    pub(super) notes: Vec<String>,
}

impl Findings {
    pub(super) fn warnings(&self) -> impl Iterator<Item = &Lint> {
        self.lints.iter().filter(|lint| lint.severity == Severity::Warning)
    }
}

/// The policy as people know it.
pub(super) fn source(config: &Config) -> String {
    match &config.source {
        Source::Builtin => "built-in policy".into(),
        Source::Environment => "environment variables".into(),
        Source::File(path) => path.display().to_string(),
        Source::Program => "policy of the program".into(),
    }
}

pub(super) fn summary(config: &Config, findings: &Findings) -> String {
    let mut out = String::new();
    let verdict = if findings.failures.is_empty() { "good" } else { "its examples fail" };
    let _ = writeln!(out, "{}: {verdict}", source(config));
    let _ = writeln!(out, "  digest     {}", config.digest);
    let access = if config.workspace.write { "writable" } else { "read-only" };
    let _ = writeln!(out, "  workspace  {} ({access})", config.workspace.path.display());
    let names = match (config.allow_any, config.allow_patterns.len()) {
        (true, _) => "any".to_owned(),
        (false, 0) => config.commands.len().to_string(),
        (false, patterns) => format!("{} and {patterns} patterns", config.commands.len()),
    };
    let _ = writeln!(out, "  commands   {names}");
    let _ = writeln!(out, "  toolkits   {}", config.toolkits.keys().cloned().collect::<Vec<_>>().join(", "));
    let _ = writeln!(out, "  examples   {}", examples::count(config));
    for failure in &findings.failures {
        let _ = writeln!(out, "error: {failure}");
    }
    for lint in &findings.lints {
        let head = match lint.severity {
            Severity::Warning => "WARNING",
            Severity::Note => "note",
        };
        let _ = writeln!(out, "{head}: {}", lint.message);
        let accepted = if lint.accepted { ", accepted" } else { "" };
        let place = lint.place.map_or(String::new(), |place| format!("{}{}: ", source(config), at(place)));
        let _ = writeln!(out, "    [{}{accepted}] {place}{}; {}", lint.id, lint.key, lint.remedy);
    }
    for missing in &config.missing {
        let _ = writeln!(out, "missing: {missing}");
    }
    out
}

fn at(place: Place) -> String {
    format!(":{}:{}", place.line, place.column)
}

pub(super) fn object(config: &Config, findings: &Findings) -> Value {
    let failure = |failure: &examples::Failure| json!({"key": failure.key, "line": failure.line, "message": failure.what});
    let file = source(config);
    let lint = |lint: &Lint| {
        json!({
            "id": lint.id,
            "severity": lint.severity.as_str(),
            "key": lint.key,
            "file": file,
            "line": lint.place.map(|place| place.line),
            "column": lint.place.map(|place| place.column),
            "message": lint.message,
            "remedy": lint.remedy,
            "accepted": lint.accepted,
        })
    };
    json!({
        "ok": findings.failures.is_empty(),
        "policy": file,
        "digest": config.digest,
        "workspace": {"path": config.workspace.path.display().to_string(), "write": config.workspace.write},
        "commands": config.commands.keys().collect::<Vec<_>>(),
        "allow_patterns": config.allow_patterns.iter().map(|pattern| pattern.as_str()).collect::<Vec<_>>(),
        "allow_any": config.allow_any,
        "toolkits": config.toolkits.keys().collect::<Vec<_>>(),
        "examples": examples::count(config),
        "errors": findings.failures.iter().map(failure).collect::<Vec<_>>(),
        "warnings": findings.warnings().map(|lint| lint.message.as_str()).collect::<Vec<_>>(),
        "missing": config.missing,
        "notes": findings.notes,
        "lints": findings.lints.iter().map(lint).collect::<Vec<_>>(),
    })
}

/// A policy that does not load.
pub(super) fn refusal(error: &ConfigError) -> Value {
    let problem = |problem: &Problem| {
        json!({
            "line": problem.place.map(|place| place.line),
            "column": problem.place.map(|place| place.column),
            "key": problem.key,
            "message": problem.what,
            "valid": problem.valid,
            "did_you_mean": problem.nearest,
        })
    };
    json!({
        "ok": false,
        "policy": error.file,
        "errors": error.problems.iter().map(problem).collect::<Vec<_>>(),
    })
}
