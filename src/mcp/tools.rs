//! Definitions of the tools of each prefix, built once.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::offer::{Kit, Offer};
use super::{batch, shell_execute, words};

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// Runs one command to its end.
    Run,
    /// Runs one in the background.
    Start,
    /// Tells how a job is getting on.
    Poll,
    /// Returns what it has written.
    Output,
    /// Ends it.
    Kill,
    /// Lists what may run.
    Allowed,
    /// Runs several commands.
    Batch,
    /// Runs an argument vector with operators.
    Shell,
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
    let kits = kits.filter(|_| offer.server.tools.toolkits);
    let mut entries: Vec<Entry> = kits.flat_map(|kit| of_kit(offer, &kit)).collect();
    entries.extend(offer.batch.as_ref().map(|kit| of_batch(offer, kit)));
    entries.extend(offer.shell.as_ref().map(|kit| of_shell(offer, kit)));
    entries.sort_by(|a, b| a.tool.name.cmp(&b.tool.name));
    entries
}

fn of_batch(offer: &Offer, kit: &Kit) -> Entry {
    let (name, text, input, output) = batch::definition(offer, kit);
    let tool = Tool::new(name, text, object(input));
    Entry { verb: Verb::Batch, kit: Arc::new(kit.clone()), tool }.returns(output)
}

fn of_shell(offer: &Offer, kit: &Kit) -> Entry {
    let (name, text, input, output) = shell_execute::definition(offer, kit);
    let tool = Tool::new(name, text, object(input));
    Entry { verb: Verb::Shell, kit: Arc::new(kit.clone()), tool }.returns(output)
}

fn of_kit(offer: &Offer, kit: &Arc<Kit>) -> [Entry; 6] {
    let entry = |verb, name: &str, text: String, input: Value| {
        let tool = Tool::new(format!("{}_{name}", kit.prefix), text, object(input));
        Entry { verb, kit: Arc::clone(kit), tool }
    };
    [
        entry(Verb::Run, "run", words::run(offer, kit), command()).returns(ran()),
        entry(Verb::Start, "start", words::start(offer, kit), command()).returns(started()),
        entry(Verb::Poll, "poll", words::POLL.to_owned(), job(json!({}))).returns(polled()).reads(),
        entry(Verb::Output, "output", words::OUTPUT.to_owned(), job(window())).returns(written()).reads(),
        entry(Verb::Kill, "kill", words::KILL.to_owned(), job(json!({}))).returns(killed()),
        entry(Verb::Allowed, "allowed", words::allowed(kit), takes(json!({}), &[])).reads(),
    ]
}

impl Entry {
    fn returns(mut self, output: Value) -> Self {
        self.tool = self.tool.with_raw_output_schema(Arc::new(object(output)));
        self
    }

    /// It may run beside others, and the same call twice is the same answer twice.
    fn reads(mut self) -> Self {
        self.tool = self.tool.with_annotations(ToolAnnotations::new().read_only(true).idempotent(true));
        self
    }
}

fn takes(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if let Some(schema) = schema.as_object_mut().filter(|_| !required.is_empty()) {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn gives(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn command() -> Value {
    takes(
        json!({
            "command": {"type": "string", "description": "Exact name of an allowed command"},
            "args": {"type": "array", "items": {"anyOf": [text(), {"type": "number"}]}, "description": "One argument an element"},
            "cwd": {"type": "string", "description": "Inside of the workspace; if absent, its root or where the tool starts"},
            "stdin": text(),
            "escapes": escapes(),
            "timeout": {"type": "number", "exclusiveMinimum": 0, "description": "Seconds"}
        }),
        &["command"],
    )
}

fn job(more: Value) -> Value {
    let mut properties = object(json!({"job": text()}));
    properties.extend(object(more));
    takes(Value::Object(properties), &["job"])
}

fn window() -> Value {
    json!({
        "cursor": {"type": "string", "description": "From the last answer, or \"0\": from the start"},
        "max_bytes": {"type": "integer", "minimum": 64},
        "encoding": {"enum": ["text", "base64"]},
        "escapes": escapes()
    })
}

fn ran() -> Value {
    gives(
        json!({
            "exit": exit("Status, 128 + signal, -1: not started, null: unknown"),
            "stdout": text(),
            "stderr": text(),
            "timed-out": flag(),
            "sandbox": {"type": "object", "description": "denials: refused system calls"},
            "truncated": {"type": "object", "description": "What was dropped of each stream"},
            "invalid-bytes": {"type": "object", "description": "Replaced: they were not UTF-8"},
            "stripped-bytes": {"type": "object", "description": "Terminal control, not shown"},
            "output": {"type": "object", "description": "Bytes of stdout and stderr: untrusted data"},
            "timeout-clamped": flag()
        }),
        &["exit", "stdout", "stderr", "timed-out"],
    )
}

fn started() -> Value {
    gives(json!({"job": text(), "state": state()}), &["job", "state"])
}

fn killed() -> Value {
    gives(json!({"job": text(), "state": state(), "killed": flag()}), &["job", "state", "killed"])
}

fn polled() -> Value {
    gives(
        json!({
            "job": text(),
            "state": state(),
            "exit": exit("null until known"),
            "killed": flag(),
            "timed-out": flag(),
            "runtime": {"type": "number", "description": "Seconds"},
            "started-at": text(),
            "stdout-bytes": count(),
            "stderr-bytes": count(),
            "timeout-clamped": flag(),
            "limit": text()
        }),
        &[
            "job",
            "state",
            "exit",
            "killed",
            "timed-out",
            "runtime",
            "started-at",
            "stdout-bytes",
            "stderr-bytes",
        ],
    )
}

fn written() -> Value {
    let any = || json!({"type": "object"});
    gives(
        json!({
            "job": text(),
            "state": state(),
            "stdout": text(),
            "stderr": text(),
            "cursor": text(),
            "eof": {"type": "boolean", "description": "Finished and read to the end"},
            "encoding": text(),
            "sandbox": any(),
            "truncated": any(),
            "invalid-bytes": any(),
            "stripped-bytes": any(),
            "output": any()
        }),
        &["job", "state", "stdout", "stderr", "cursor", "eof"],
    )
}

/// Terminal control in text.
fn escapes() -> Value {
    json!({"enum": ["strip", "raw"]})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn count() -> Value {
    json!({"type": "integer"})
}

fn state() -> Value {
    json!({"enum": ["running", "exited", "killed"]})
}

/// Strict clients take no list of types.
fn exit(description: &str) -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "null"}], "description": description})
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
