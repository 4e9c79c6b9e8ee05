//! The tool as clients see it: name, description and schemas.
//!
//! Purpose: enough for an agent to use it well, in few bytes. Inputs: what is offered. Called by `tools.rs`
//! and `words.rs`.

use serde_json::{Value, json};

use super::super::offer::{Kit, Offer};
use super::super::words;
use super::arguments::MOST;

/// Name of the tool; it has no prefix.
const NAME: &str = "command_run";

/// Name, description, and the schemas of what it takes and gives.
pub(in super::super) fn definition(offer: &Offer, kit: &Kit) -> (&'static str, String, Value, Value) {
    (NAME, description(offer, kit), takes(), gives())
}

/// What it does, for agents.
fn description(offer: &Offer, kit: &Kit) -> String {
    format!(
        "Runs 1 to {MOST} commands in one call: use it for look-ups that do not depend on each other. Commands \
         of one step run side by side; a later step begins when all of the one before succeeded, else it is \
         skipped. Each is program and args, or a command_line in shell syntax without a shell (pipes, \
         redirections, && and globs; no substitution, no loops). In args and command_line \
         #@#${{ID.FIELD}}#@#$ stands for what a command of an earlier step gave: exit_code, stdout, stderr, or \
         a path in its JSON output (meta.packages.0.version). Ids default to cmd0, cmd1 and so on. A cwd is \
         relative. {}",
        words::batch(offer, kit)
    )
}

fn takes() -> Value {
    let text = || json!({"type": "string"});
    let time = |what: &str| json!({"type": "integer", "minimum": 1, "description": what});
    json!({
        "type": "object",
        "properties": {
            "commands": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST,
                "items": {
                    "type": "object",
                    "properties": {
                        "command_type": {"enum": ["argv", "shell_command"], "description": "May be left out"},
                        "program": text(),
                        "args": {"type": "array", "items": {"anyOf": [text(), {"type": "number"}]}},
                        "command_line": text(),
                        "id": text(),
                        "step": {"type": "integer", "minimum": 1},
                        "cwd": text(),
                        "env": {"type": "object", "additionalProperties": text()},
                        "timeout_ms": time("Default 15000")
                    },
                    "additionalProperties": false
                }
            },
            "dry_run": {"type": "boolean", "description": "Verdicts only; nothing is run"},
            "timeout_ms": time("Of the whole batch")
        },
        "required": ["commands"],
        "additionalProperties": false
    })
}

fn gives() -> Value {
    let status = ["succeeded", "failed", "rejected", "timed_out", "cancelled", "skipped"];
    json!({
        "type": "object",
        "properties": {
            "results": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "status": {"enum": status},
                        "verdict": {"enum": ["allow", "deny", "undecided"]},
                        "exit_code": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "If not 0"},
                        "stdout": {"type": "string"},
                        "stderr": {"type": "string", "description": "If any"},
                        "error": {"type": "string", "description": "Why not"},
                        "stdout_truncated": {"type": "boolean"}
                    },
                    "required": ["id"]
                }
            },
            "cancel_reason": {"type": "string"}
        },
        "required": ["results"]
    })
}
