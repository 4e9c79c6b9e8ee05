//! Arguments of the tools about one job, read as strictly as those of `run`.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::arguments::{refusal, unknown};
use super::render::{ARGUMENT, Escapes};
use crate::config::json_kind as kind;

/// Fields of the `output` tool.
const OUTPUT_FIELDS: [&str; 5] = ["cursor", "encoding", ARGUMENT, "job", "max_bytes"];
/// Fewest bytes of output that an answer may be held to: every answer gets further.
const LEAST_BYTES: u64 = 64;

/// What an `output` call asks for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OutputArguments {
    pub(super) job: String,
    pub(super) cursor: Option<String>,
    pub(super) base64: bool,
    pub(super) max_bytes: Option<usize>,
    pub(super) escapes: Escapes,
}

/// Reads the arguments of `poll` and `kill`.
pub(super) fn job(given: Option<JsonObject>) -> Result<String, String> {
    let given = given.unwrap_or_default();
    let mut wrong = unknown(&given, &["job"]);
    let job = handle(&given, &mut wrong);
    if wrong.is_empty() { Ok(job) } else { Err(refusal(&wrong)) }
}

/// Reads the arguments of `output`.
pub(super) fn output(given: Option<JsonObject>) -> Result<OutputArguments, String> {
    let given = given.unwrap_or_default();
    let mut wrong = unknown(&given, &OUTPUT_FIELDS);
    let mut out = OutputArguments { job: handle(&given, &mut wrong), ..OutputArguments::default() };
    match given.get("cursor") {
        None | Some(Value::Null) => {}
        Some(Value::String(cursor)) => out.cursor = Some(cursor.clone()),
        Some(other) => wrong.push(format!("cursor must be a string, not {}", kind(other))),
    }
    match given.get("encoding") {
        None | Some(Value::Null) => {}
        Some(Value::String(word)) if word == "text" => {}
        Some(Value::String(word)) if word == "base64" => out.base64 = true,
        Some(_) => wrong.push("encoding must be \"text\" or \"base64\"".to_owned()),
    }
    match Escapes::asked(given.get(ARGUMENT)) {
        Ok(escapes) => out.escapes = escapes,
        Err(message) => wrong.push(message),
    }
    match given.get("max_bytes") {
        None | Some(Value::Null) => {}
        Some(value) => match value.as_u64().filter(|bytes| *bytes >= LEAST_BYTES) {
            Some(bytes) => out.max_bytes = Some(usize::try_from(bytes).unwrap_or(usize::MAX)),
            None => wrong.push(format!("max_bytes must be an integer of at least {LEAST_BYTES}")),
        },
    }
    if wrong.is_empty() { Ok(out) } else { Err(refusal(&wrong)) }
}

fn handle(given: &JsonObject, wrong: &mut Vec<String>) -> String {
    match given.get("job") {
        Some(Value::String(job)) => return job.clone(),
        Some(other) => wrong.push(format!("job must be a string, not {}", kind(other))),
        None => wrong.push("job is required: the handle that start returned".to_owned()),
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_handle_is_a_string_and_comes_alone() {
        let read = |value: Value| job(value.as_object().cloned());
        assert_eq!(read(json!({"job": "j1-abc"})), Ok("j1-abc".to_owned()));
        for (bad, part) in [
            (json!({}), "job is required"),
            (json!({"job": 1}), "job must be a string, not a number"),
            (json!({"job": "j1", "signal": 15}), "unknown argument \"signal\" (valid: job)"),
        ] {
            let message = read(bad).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn windows_and_encodings_are_what_they_may_be() {
        let read = |value: Value| output(value.as_object().cloned());
        let full = json!({"job": "j", "cursor": "c", "encoding": "base64", "max_bytes": 64});
        let expected = OutputArguments {
            job: "j".to_owned(),
            cursor: Some("c".to_owned()),
            base64: true,
            max_bytes: Some(64),
            escapes: Escapes::Strip,
        };
        assert_eq!(read(full), Ok(expected));
        assert_eq!(read(json!({"job": "j", "encoding": "text"})).unwrap().max_bytes, None);
        for bad in [
            json!({"job": "j", "cursor": 0}),
            json!({"job": "j", "encoding": "hex"}),
            json!({"job": "j", "escapes": "keep"}),
            json!({"job": "j", "max_bytes": 63}),
            json!({"job": "j", "max_bytes": 100.5}),
            json!({"job": "j", "max_bytes": "100"}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
