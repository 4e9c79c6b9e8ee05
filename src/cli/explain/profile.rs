//! The walls of an allowed command, as `explain` shows them.
//!
//! Purpose: one place that says what a command may read, write, execute and reach. Inputs: the policy
//! and the allow-list entry. Called by `explain` only.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::config::{Command, Limits};
use crate::policy::Policy;
use crate::sandbox::profile::Profile;

/// The profile of `command` under `policy`, exactly as the kernel gets it. For a program that is not
/// installed, or whose files cannot be read, the policy's own words stand in and say so.
pub(super) fn of(policy: &Policy, command: &Command, toolkit: Option<&str>) -> Value {
    let config = policy.config();
    let compiled = command.program.as_ref().map(|program| Profile::compile(config, command, program));
    let list = |paths: &[PathBuf]| paths.iter().map(|path| shown(path)).collect::<Vec<_>>();
    let (read, write, execute, note) = match compiled {
        Some(Ok(profile)) => {
            let workspace = shown(&profile.workspace);
            let read = std::iter::once(workspace.clone()).chain(list(&profile.read)).collect::<Vec<_>>();
            let own = profile.workspace_write.then_some(workspace);
            let terminals = list(&profile.terminals);
            let write = own
                .into_iter()
                .chain(list(&profile.write))
                .chain(terminals)
                .chain([Value::from("(scratch)")]);
            (read, write.collect::<Vec<_>>(), list(&profile.execute), None)
        }
        Some(Err(error)) => (vec![], vec![], vec![], Some(error.to_string())),
        None => (vec![], vec![], list(&command.execute), Some("the program is not installed".to_owned())),
    };
    let mut object = json!({
        "program": command.program.as_ref().map(|program| shown(&program.real)),
        "read": read,
        "write": write,
        "execute": execute,
        "network": config.network(command).iter().map(|port| format!("tcp:{port}")).collect::<Vec<_>>(),
        "kernel": command.kernel.iter().map(|switch| switch.as_str()).collect::<Vec<_>>(),
        "environment": policy.environment_names(command),
        "limits": limits(config.limits_of(toolkit)),
    });
    if let (Some(note), Value::Object(map)) = (note, &mut object) {
        map.insert("note".to_owned(), Value::from(note));
    }
    object
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
        "cgroup": limits.cgroup.to_string(),
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
