//! Arguments of a tool call, read strictly: an unknown field or a wrong type is refused by name,
//! with everything that is wrong named in one answer.

use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;

use super::render::{ARGUMENT, Escapes};
use crate::config::json_kind as kind;

/// Fields of the `run` tool.
pub(super) const RUN_FIELDS: [&str; 6] = ["args", "command", "cwd", ARGUMENT, "stdin", "timeout"];

/// Most unknown arguments that a refusal names, and the longest name that it repeats.
const UNKNOWN_NAMED: usize = 8;
const UNKNOWN_BYTES: usize = 64;
/// Most bytes of a refusal.
const REFUSAL: usize = 4096;

/// What a `run` call asks for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RunArguments {
    pub(super) argv: Vec<Vec<u8>>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) timeout: Option<Duration>,
    pub(super) escapes: Escapes,
}

/// Reads the arguments of `run`. An optional field that is null counts as absent. Where a key came
/// twice, the last one holds: this is the only reading of the text, so nothing can disagree.
pub(super) fn run(given: Option<JsonObject>, stdin_bytes: usize) -> Result<RunArguments, String> {
    let given = given.unwrap_or_default();
    let mut wrong = unknown(&given, &RUN_FIELDS);
    let mut out = RunArguments::default();

    match given.get("command") {
        Some(Value::String(name)) => out.argv.push(name.clone().into_bytes()),
        Some(other) => wrong.push(format!("command must be a string, not {}", kind(other))),
        None => wrong.push("command is required: the exact name of an allowed command".to_owned()),
    }
    match given.get("args") {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                match item {
                    Value::String(text) => out.argv.push(text.clone().into_bytes()),
                    Value::Number(number) => out.argv.push(number.to_string().into_bytes()),
                    other => {
                        wrong.push(format!(
                            "args must be an array of strings: element {at} is {}",
                            kind(other)
                        ));
                    }
                }
            }
        }
        Some(other) => wrong.push(format!("args must be an array of strings, not {}", kind(other))),
    }
    match given.get("cwd") {
        None | Some(Value::Null) => {}
        Some(Value::String(path)) => out.cwd = Some(PathBuf::from(path)),
        Some(other) => wrong.push(format!("cwd must be a string, not {}", kind(other))),
    }
    match Escapes::asked(given.get(ARGUMENT)) {
        Ok(escapes) => out.escapes = escapes,
        Err(message) => wrong.push(message),
    }
    match given.get("stdin") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if text.len() > stdin_bytes => wrong.push(format!(
            "stdin has {} bytes, {stdin_bytes} are allowed: write it to a file or send less",
            text.len()
        )),
        Some(Value::String(text)) => out.stdin = Some(text.clone().into_bytes()),
        Some(other) => wrong.push(format!("stdin must be a string, not {}", kind(other))),
    }
    match given.get("timeout") {
        None | Some(Value::Null) => {}
        Some(value) => match positive(value) {
            Some(time) => out.timeout = Some(time),
            None => wrong.push(format!("timeout must be a positive number of seconds, not {value}")),
        },
    }
    if wrong.is_empty() { Ok(out) } else { Err(refusal(&wrong)) }
}

/// What is wrong, in one text of bounded length.
pub(super) fn refusal(wrong: &[String]) -> String {
    let mut text = wrong.join("; ");
    if text.len() > REFUSAL {
        let end = (0..=REFUSAL).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Refuses any argument of a tool that takes none.
pub(super) fn none(given: Option<JsonObject>) -> Result<(), String> {
    let wrong = unknown(&given.unwrap_or_default(), &[]);
    if wrong.is_empty() { Ok(()) } else { Err(refusal(&wrong)) }
}

pub(super) fn unknown(given: &JsonObject, known: &[&str]) -> Vec<String> {
    let valid = if known.is_empty() { "this tool takes none".to_owned() } else { known.join(", ") };
    given
        .keys()
        .filter(|key| !known.contains(&key.as_str()))
        .take(UNKNOWN_NAMED)
        .map(|key| {
            if key.len() > UNKNOWN_BYTES {
                return format!("unknown argument with a name of {} bytes (valid: {valid})", key.len());
            }
            let nearest = known
                .iter()
                .map(|name| (strsim::damerau_levenshtein(key, name), name))
                .min()
                .filter(|(distance, _)| *distance <= 2)
                .map(|(_, name)| format!("; did you mean {name}?"));
            format!("unknown argument {key:?} (valid: {valid}{})", nearest.unwrap_or_default())
        })
        .collect()
}

/// Seconds as a duration. A number too large for one is as good as the largest: it is clamped to
/// the policy's maximum later, and said so.
fn positive(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().filter(|seconds| *seconds > 0.0)?;
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    Some(time.max(Duration::from_nanos(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<RunArguments, String> {
        run(value.as_object().cloned(), 10)
    }

    #[test]
    fn strings_stay_whole_and_numbers_become_text() {
        let got = read(json!({"command": "head", "args": ["-n", 3, 1.5, "fix the thing"], "timeout": 0.5}));
        let argv: Vec<Vec<u8>> =
            ["head", "-n", "3", "1.5", "fix the thing"].iter().map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(
            got,
            Ok(RunArguments { argv, timeout: Some(Duration::from_millis(500)), ..RunArguments::default() })
        );
    }

    #[test]
    fn the_three_states_of_standard_input_are_told_apart() {
        assert_eq!(read(json!({"command": "cat"})).unwrap().stdin, None);
        assert_eq!(read(json!({"command": "cat", "stdin": ""})).unwrap().stdin, Some(Vec::new()));
        assert_eq!(
            read(json!({"command": "cat", "stdin": "a\u{0}b"})).unwrap().stdin,
            Some(b"a\0b".to_vec())
        );
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        let message =
            read(json!({"comand": "ls", "args": ["a", null], "cwd": 1, "stdin": "more than ten bytes",
            "timeout": 0, "sandbox": false}))
            .unwrap_err();
        for part in [
            "unknown argument \"comand\" (valid: args, command, cwd, escapes, stdin, timeout; did you mean command?)",
            "unknown argument \"sandbox\" (valid: args, command, cwd, escapes, stdin, timeout)",
            "command is required",
            "args must be an array of strings: element 1 is null",
            "cwd must be a string, not a number",
            "stdin has 19 bytes, 10 are allowed",
            "timeout must be a positive number of seconds, not 0",
        ] {
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }

    #[test]
    fn only_positive_numbers_are_timeouts() {
        for bad in [json!(0), json!(-1), json!(-0.0), json!("5"), json!(true), json!([1])] {
            assert!(read(json!({"command": "ls", "timeout": bad})).is_err(), "{bad}");
        }
        assert_eq!(read(json!({"command": "ls", "timeout": 1e300})).unwrap().timeout, Some(Duration::MAX));
        assert_eq!(
            read(json!({"command": "ls", "timeout": 1e-300})).unwrap().timeout,
            Some(Duration::from_nanos(1))
        );
    }

    #[test]
    fn args_that_are_no_array_are_refused() {
        for bad in [json!("-l"), json!({"0": "-l"}), json!(["-l", ["x"]]), json!([true])] {
            assert!(read(json!({"command": "ls", "args": bad})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tool_without_arguments_takes_none() {
        assert_eq!(none(None), Ok(()));
        assert_eq!(none(Some(JsonObject::new())), Ok(()));
        let given = json!({"prefix": "sh"}).as_object().cloned();
        assert_eq!(none(given), Err("unknown argument \"prefix\" (valid: this tool takes none)".to_owned()));
    }
}
