//! The tool as clients see it: name, description and schemas.
//!
//! Purpose: the names that clients of `shell_execute` know. Inputs: what is offered. Called by `tools.rs`.

use serde_json::{Value, json};

use super::super::offer::{Kit, Offer};
use super::super::words;

/// Name of the tool; it has no prefix.
const NAME: &str = "shell_execute";

/// Name, description, and the schemas of what it takes and gives.
pub(in super::super) fn definition(offer: &Offer, kit: &Kit) -> (&'static str, String, Value, Value) {
    (NAME, description(offer, kit), takes(), gives())
}

fn description(offer: &Offer, kit: &Kit) -> String {
    let sequencing = if offer.server.operators { ", ;, && and ||" } else { "" };
    format!(
        "Runs a command given as an array: the name, then one argument an element. No shell. An element that is \
         exactly one of |, |&, <, >, >>, 2>, 2>>, &>, 2>&1{sequencing} is that operator; inside a longer element \
         the same characters are text. The target of a redirection is a path below directory, or /dev/null. {}",
        words::shell_execute(offer, kit)
    )
}

fn takes() -> Value {
    let text = || json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": text(), "description": "Command and its arguments"},
            "stdin": text(),
            "directory": {"type": "string", "description": "Working directory inside of the workspace"},
            "timeout": {"type": "integer", "minimum": 1, "description": "Seconds"},
            "envs": {"type": "object", "additionalProperties": text(), "description": "Environment; other names than those that the policy passes are left out"}
        },
        "required": ["command"],
        "additionalProperties": false
    })
}

fn gives() -> Value {
    let text = || json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "stdout": text(),
            "stderr": text(),
            "status": {"type": "integer", "description": "-1: ended at a limit"},
            "execution_time": {"type": "number", "description": "Seconds"},
            "error": text(),
            "statuses": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
            "truncated": {"type": "object"},
            "env_ignored": {"type": "array", "items": text()}
        },
        "required": ["stdout", "stderr", "status", "execution_time"]
    })
}
