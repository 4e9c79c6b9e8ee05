//! Arguments of `shell_execute`, read strictly; the words of a refusal are those that its clients know.
//!
//! Purpose: an unknown field, a wrong type or a number that makes no sense is refused, and nothing is run.
//! Inputs: the arguments of a call. Called by `mod.rs`.

use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;

use super::super::arguments::{refusal, unknown};

/// What the tool takes.
pub(super) const FIELDS: [&str; 5] = ["command", "directory", "envs", "stdin", "timeout"];

/// What a call asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) command: Vec<String>,
    pub(super) directory: Option<PathBuf>,
    /// Names that the policy does not pass are left out, and it is said.
    pub(super) envs: Vec<(String, String)>,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) timeout: Option<Duration>,
}

/// Reads them. An optional field that is null counts as absent.
pub(super) fn read(given: Option<JsonObject>, stdin_bytes: usize) -> Result<Asked, String> {
    let given = given.unwrap_or_default();
    let mut wrong = unknown(&given, &FIELDS);
    let mut asked = Asked::default();
    match given.get("command") {
        None | Some(Value::Null) => wrong.push("No command provided".to_owned()),
        Some(Value::Array(items)) if items.is_empty() => wrong.push("No command provided".to_owned()),
        Some(Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                match item {
                    Value::String(text) => asked.command.push(text.clone()),
                    Value::Number(number) => asked.command.push(number.to_string()),
                    _ => wrong.push(format!("'command' must be an array of strings: element {at} is none")),
                }
            }
        }
        Some(_) => wrong.push("'command' must be an array".to_owned()),
    }
    match given.get("directory") {
        None | Some(Value::Null) => {}
        Some(Value::String(path)) if path.is_empty() => wrong.push("Directory cannot be empty".to_owned()),
        Some(Value::String(path)) => asked.directory = Some(PathBuf::from(path)),
        Some(_) => wrong.push("'directory' must be a string".to_owned()),
    }
    match given.get("envs") {
        None | Some(Value::Null) => {}
        Some(Value::Object(envs)) => {
            for (name, value) in envs {
                match value {
                    Value::String(value) => asked.envs.push((name.clone(), value.clone())),
                    _ => wrong.push(format!("'envs' must map names to strings: the value of {name} is none")),
                }
            }
        }
        Some(_) => wrong.push("'envs' must be an object".to_owned()),
    }
    match given.get("stdin") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if text.len() > stdin_bytes => wrong.push(format!(
            "'stdin' has {} bytes, {stdin_bytes} are allowed: write it to a file or send less",
            text.len()
        )),
        Some(Value::String(text)) => asked.stdin = Some(text.clone().into_bytes()),
        Some(_) => wrong.push("'stdin' must be a string".to_owned()),
    }
    match given.get("timeout") {
        None | Some(Value::Null) => {}
        Some(Value::Number(number)) => match (number.as_u64(), number.as_i64()) {
            (Some(seconds), _) if seconds > 0 => asked.timeout = Some(Duration::from_secs(seconds)),
            (None, None) => wrong.push("'timeout' must be an integer".to_owned()),
            _ => wrong.push("'timeout' must be greater than 0".to_owned()),
        },
        Some(_) => wrong.push("'timeout' must be an integer".to_owned()),
    }
    if wrong.is_empty() { Ok(asked) } else { Err(refusal(&wrong)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(value: Value) -> String {
        read(value.as_object().cloned(), 10).unwrap_err()
    }

    #[test]
    fn the_words_of_the_predecessor_are_kept() {
        for (given, expected) in [
            (json!({}), "No command provided"),
            (json!({"command": []}), "No command provided"),
            (json!({"command": "ls"}), "'command' must be an array"),
            (json!({"command": ["ls"], "directory": ""}), "Directory cannot be empty"),
            (json!({"command": ["ls"], "directory": 1}), "'directory' must be a string"),
            (json!({"command": ["ls"], "timeout": true}), "'timeout' must be an integer"),
            (json!({"command": ["ls"], "timeout": "5"}), "'timeout' must be an integer"),
            (json!({"command": ["ls"], "timeout": 1.5}), "'timeout' must be an integer"),
            (json!({"command": ["ls"], "timeout": 0}), "'timeout' must be greater than 0"),
            (json!({"command": ["ls"], "timeout": -3}), "'timeout' must be greater than 0"),
            (json!({"command": ["ls"], "stdin": 3}), "'stdin' must be a string"),
            (json!({"command": ["ls"], "envs": ["A=b"]}), "'envs' must be an object"),
            (
                json!({"command": ["ls"], "envs": {"A": 1}}),
                "'envs' must map names to strings: the value of A is none",
            ),
        ] {
            assert_eq!(refused(given.clone()), expected, "{given}");
        }
        assert!(refused(json!({"command": ["ls"], "bogus": 1})).contains("unknown argument \"bogus\""));
        assert!(refused(json!({"command": ["ls"], "stdin": "eleven bytes"})).contains("10 are allowed"));
    }

    #[test]
    fn the_environment_of_a_call_is_read() {
        let given = json!({"command": ["env"], "envs": {"LANG": "C", "TZ": ""}});
        let asked = read(given.as_object().cloned(), 10).unwrap();
        let expected = [("LANG", "C"), ("TZ", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(asked.envs, expected);
    }

    #[test]
    fn what_is_well_formed_is_taken_as_it_is() {
        let given =
            json!({"command": ["printf", "[%s]", "", 3], "directory": "sub", "stdin": "", "timeout": 60});
        let asked = read(given.as_object().cloned(), 10).unwrap();
        assert_eq!(asked.command, ["printf", "[%s]", "", "3"]);
        assert_eq!(asked.directory, Some(PathBuf::from("sub")));
        assert_eq!((asked.stdin, asked.timeout), (Some(Vec::new()), Some(Duration::from_secs(60))));
    }
}
