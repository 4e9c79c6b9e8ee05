//! A record as a line for people, and as a block.
//!
//! Purpose: one line a record that can be read across a room: when, what came of it, the command, why. Every
//! value goes through `safe.rs`; colour is only ever our own. Pure.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Record, quoted, safe};

/// Whether to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Plain text.
    Off,
    /// For a terminal.
    On,
}

const RESET: &str = "\x1b[0m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const MAGENTA: &str = "\x1b[35m";
const DIM: &str = "\x1b[2m";

/// Most characters of a command line in one line.
const COMMAND: usize = 200;
/// Width of the word that says what came of it.
const WORD: usize = 14;

/// The redacted command line of a record, quoted and safe; `cmd` where it has no arguments.
#[must_use]
pub fn command_line(record: &Record) -> String {
    let mut out = String::new();
    for word in record.words("argv") {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&quoted(word));
    }
    if out.is_empty() {
        out.push_str(&quoted(record.text("cmd").unwrap_or("")));
    }
    out
}

/// `text` with at most `most` characters: three quarters of them from its head, one from its tail.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most - most / 4 - 1).collect();
    let tail: String = text.chars().skip(count - most / 4).collect();
    format!("{head}…{tail}")
}

/// One line, without its newline.
#[must_use]
pub fn line(record: &Record, colours: Colours) -> String {
    let (word, colour) = word(record);
    let mut out = String::with_capacity(160);
    // Writing to a String cannot fail.
    let _ = write!(out, "{}  ", safe(short_time(record.timestamp())));
    paint(&mut out, colours, colour, &format!("{:<WORD$}", safe(word)));
    out.push(' ');
    if record.text("cmd").is_some() {
        out.push_str(&shortened(&command_line(record), COMMAND));
    } else {
        out.push_str(&safe(record.text("message").unwrap_or("")));
    }
    let facts = facts(record);
    if !facts.is_empty() {
        out.push_str("  ");
        paint(&mut out, colours, DIM, &facts);
    }
    out
}

/// All members, one a line, below the one line.
#[must_use]
pub fn long(record: &Record, colours: Colours) -> String {
    let mut out = line(record, colours);
    for (name, value) in record.members() {
        out.push_str("\n    ");
        paint(&mut out, colours, DIM, &format!("{:<20} ", safe(name)));
        match value {
            Value::String(text) => out.push_str(&safe(text)),
            Value::Array(items) => {
                let words: Vec<_> =
                    items.iter().map(|item| item.as_str().map_or("?".into(), quoted)).collect();
                out.push_str(&words.join(" "));
            }
            other => out.push_str(&safe(&other.to_string())),
        }
    }
    out
}

fn paint(out: &mut String, colours: Colours, colour: &str, text: &str) {
    match colours {
        Colours::Off => out.push_str(text),
        Colours::On => {
            out.push_str(colour);
            out.push_str(text);
            out.push_str(RESET);
        }
    }
}

/// `2026-12-01T08:00:00.123456Z` as `2026-12-01 08:00:00.123Z`.
fn short_time(timestamp: &str) -> &str {
    timestamp.get(..23).unwrap_or(timestamp)
}

/// What came of it, in one word, and its colour.
fn word(record: &Record) -> (&str, &'static str) {
    let outcome = record.text("outcome").unwrap_or("");
    match record.event() {
        "run.start" => ("start", DIM),
        "run.asked" => ("asked", YELLOW),
        "run.denied" => ("denied", RED),
        "run.judged" if record.text("decision") == Some("deny") => ("would deny", YELLOW),
        "run.judged" => ("would allow", DIM),
        "run.end" if record.text("violation").is_some() => (outcome, MAGENTA),
        "run.end" => match outcome {
            "success" => (outcome, GREEN),
            "nonzero_exit" | "cancelled" => (outcome, YELLOW),
            _ => (outcome, MAGENTA),
        },
        event => match record.text("level") {
            Some("error") => (event, MAGENTA),
            Some("warning") => (event, YELLOW),
            _ => (event, DIM),
        },
    }
}

/// What else is worth a place in the line.
fn facts(record: &Record) -> String {
    let mut facts: Vec<String> = Vec::new();
    let mut push = |fact: String| facts.push(fact);
    match record.event() {
        "run.denied" | "run.judged" | "run.asked" => {
            if let Some(rule) = record.text("rule_id") {
                push(format!("rule={}", safe(rule)));
            }
            if let Some(reason) = record.text("reason") {
                push(safe(reason).into_owned());
            }
        }
        "run.end" => {
            for (name, unit) in [("exit_code", ""), ("duration_ms", "ms")] {
                if let Some(number) = record.number(name) {
                    let name = if unit.is_empty() { "exit=" } else { "" };
                    push(format!("{name}{number}{unit}"));
                }
            }
            let bytes =
                record.number("stdout_bytes").unwrap_or(0) + record.number("stderr_bytes").unwrap_or(0);
            if bytes > 0 {
                push(format!("out={bytes}B"));
            }
            for name in ["signal", "violation", "error_code", "stop_reason"] {
                if let Some(text) = record.text(name) {
                    push(safe(text).into_owned());
                }
            }
            for call in record.words("denied_syscalls") {
                push(format!("denied:{}", safe(call)));
            }
        }
        _ => {}
    }
    if record.number("redaction_count").is_some() && record.event() != "run.end" {
        push(format!("redacted={}", record.number("redaction_count").unwrap_or(0)));
    }
    if record.flag("argv_unicode_risk") {
        push("unicode-risk".to_owned());
    }
    if let Some(run) = record.text("run_id") {
        // The end of a UUIDv7 is what tells it from its neighbours.
        let from = run.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
        push(format!("run=…{}", safe(run.get(from..).unwrap_or(run))));
    }
    if let Some(session) = record.text("session_id") {
        let short: String = session.chars().take(8).collect();
        push(format!("session={}", safe(&short)));
    }
    if let Some(principal) = record.text("principal") {
        push(format!("principal={}", safe(principal)));
    }
    facts.join(" ")
}
