//! Definitions of the tools of each prefix, built once.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::offer::{Kit, Offer};
use super::words;

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// Runs one command to its end.
    Run,
    /// Lists what may run.
    Allowed,
}

/// A tool of one prefix.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) verb: Verb,
    pub(super) kit: Arc<Kit>,
    pub(super) tool: Tool,
}

/// All tools, sorted by name.
pub(super) fn all(offer: &Offer) -> Vec<Entry> {
    let kits = offer.kits.iter().map(|kit| Arc::new(kit.clone()));
    let mut entries: Vec<Entry> = kits.flat_map(|kit| [run(offer, &kit), allowed(&kit)]).collect();
    entries.sort_by(|a, b| a.tool.name.cmp(&b.tool.name));
    entries
}

fn run(offer: &Offer, kit: &Arc<Kit>) -> Entry {
    let input = object(json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Exact name of an allowed command"},
            "args": {
                "type": "array",
                "items": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "description": "Arguments, one an element, passed on as they are"
            },
            "cwd": {"type": "string", "description": "Directory inside of the workspace; its root if absent"},
            "stdin": {"type": "string", "description": "Written to standard input, which is then closed"},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "description": "Seconds"}
        },
        "required": ["command"],
        "additionalProperties": false
    }));
    let count = || json!({"type": "integer", "minimum": 0});
    let dropped = || json!({"type": "object", "properties": {"bytes": count(), "lines": count()}});
    let output = object(json!({
        "type": "object",
        "properties": {
            "exit": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "description": "Own status, 128 + signal, -1 if it could not be started, null if unknown"
            },
            "stdout": {"type": "string"},
            "stderr": {"type": "string"},
            "timed-out": {"type": "boolean"},
            "sandbox": {
                "type": "object",
                "properties": {"active": {"type": "boolean"}, "denials": {"type": "array"}},
                "description": "denials: system calls that were refused"
            },
            "truncated": {"type": "object", "properties": {"stdout": dropped(), "stderr": dropped()}},
            "invalid-bytes": {
                "type": "object",
                "properties": {"stdout": count(), "stderr": count()},
                "description": "Bytes that were not UTF-8 and were replaced"
            },
            "timeout-clamped": {"type": "boolean", "description": "The policy's maximum was used"}
        },
        "required": ["exit", "stdout", "stderr", "timed-out"]
    }));
    let tool = Tool::new(format!("{}_run", kit.prefix), words::run(offer, kit), input)
        .with_raw_output_schema(Arc::new(output));
    Entry { verb: Verb::Run, kit: Arc::clone(kit), tool }
}

fn allowed(kit: &Arc<Kit>) -> Entry {
    let input = object(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    let tool = Tool::new(format!("{}_allowed", kit.prefix), words::allowed(kit), input)
        .with_annotations(ToolAnnotations::new().read_only(true).idempotent(true));
    Entry { verb: Verb::Allowed, kit: Arc::clone(kit), tool }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
