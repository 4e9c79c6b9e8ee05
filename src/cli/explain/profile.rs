//! The walls of an allowed command, as `explain` shows them.
//!
//! Purpose: one place that says what a command may read, write, execute and reach. Inputs: the policy
//! and the allow-list entry. Called by `explain` only.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::config::{Command, Limits};
use crate::policy::Policy;

/// The profile of `command` under `policy`.
pub(super) fn of(policy: &Policy, command: &Command) -> Value {
    let config = policy.config();
    let workspace = shown(&config.workspace.path);
    let mut read = vec![workspace.clone()];
    if config.sandbox.libraries {
        read.push(Value::from("@libraries"));
    }
    read.extend(config.sandbox.read.iter().chain(&command.read).map(|path| shown(path)));
    let program = command.program.as_ref().map(|program| shown(&program.real));
    let execute = program.iter().cloned().chain(command.execute.iter().map(|path| shown(path)));
    json!({
        "program": program,
        "read": read,
        "write": if config.workspace.write { vec![workspace] } else { Vec::new() },
        "execute": execute.collect::<Vec<_>>(),
        "network": config.sandbox.network.iter().map(|port| format!("tcp:{port}")).collect::<Vec<_>>(),
        "environment": policy.environment_names(command),
        "limits": limits(&config.limits),
    })
}

fn limits(limits: &Limits) -> Value {
    json!({
        "timeout_ms": milliseconds(limits.timeout),
        "max_timeout_ms": milliseconds(limits.max_timeout),
        "output_bytes": limits.output_bytes,
        "output_lines": limits.output_lines,
        "memory": limits.memory,
        "processes": limits.processes,
        "cpu_time_ms": milliseconds(limits.cpu_time),
        "file_size": limits.file_size,
        "open_files": limits.open_files,
        "arguments": limits.arguments,
        "argument_bytes": limits.argument_bytes,
        "stdin_bytes": limits.stdin_bytes,
    })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn shown(path: &Path) -> Value {
    Value::from(path.to_string_lossy())
}

/// The same for people: a line a key, `none` for what is empty.
pub(super) fn write_text(out: &mut impl Write, profile: &Value) -> io::Result<()> {
    for (key, value) in profile.as_object().into_iter().flat_map(Map::iter) {
        let text = match value {
            Value::Array(items) if items.is_empty() => "none".to_owned(),
            Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
            Value::Object(map) => {
                map.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect::<Vec<_>>().join(" ")
            }
            Value::Null => "not installed".to_owned(),
            other => plain(other),
        };
        writeln!(out, "{key:<12} {text}")?;
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
