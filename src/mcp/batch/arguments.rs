//! Arguments of `command_run`, read strictly: an unknown field, a wrong type or a number that makes no sense
//! is refused by name, and nothing of the batch is run.
//!
//! Purpose: from JSON to values, with everything that is wrong named in one answer. Inputs: the arguments of
//! the call. Called by `batch/mod.rs`; what the values mean together is `plan.rs`.

use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;

use super::super::arguments::{refusal, unknown};
use crate::config::json_kind as kind;

/// Most commands of a batch.
pub(super) const MOST: usize = 30;
/// Largest number of a step.
const LAST_STEP: u64 = 1000;
/// Most of one command's variables.
const VARIABLES: usize = 64;

const FIELDS: [&str; 3] = ["commands", "dry_run", "timeout_ms"];
const OF_ALL: [&str; 6] = ["command_type", "cwd", "env", "id", "step", "timeout_ms"];
const OF_ARGV: [&str; 2] = ["args", "program"];
const OF_LINE: [&str; 1] = ["command_line"];

/// What a call asks for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) commands: Vec<AskedCommand>,
    pub(super) dry_run: bool,
    /// For the batch as a whole.
    pub(super) timeout: Option<Duration>,
}

/// One of its commands.
#[derive(Debug, PartialEq)]
pub(super) struct AskedCommand {
    pub(super) what: What,
    pub(super) id: Option<String>,
    pub(super) step: u64,
    pub(super) cwd: Option<PathBuf>,
    pub(super) env: Vec<(String, String)>,
    pub(super) timeout: Option<Duration>,
}

/// The two kinds.
#[derive(Debug, PartialEq)]
pub(super) enum What {
    /// A program and its arguments, as they are.
    Argv { program: String, args: Vec<String> },
    /// A line of shell syntax.
    Line(String),
}

/// Reads the whole call. An optional field that is null counts as absent.
pub(super) fn read(given: Option<JsonObject>) -> Result<Asked, String> {
    let given = given.unwrap_or_default();
    let mut wrong = unknown(&given, &FIELDS);
    let mut asked = Asked::default();
    match given.get("commands") {
        Some(Value::Array(items)) if (1..=MOST).contains(&items.len()) => {
            for (at, item) in items.iter().enumerate() {
                let mut own = Vec::new();
                let command = command(item, &mut own);
                wrong.extend(own.into_iter().map(|what| format!("commands[{at}]: {what}")));
                asked.commands.extend(command);
            }
        }
        Some(Value::Array(items)) => {
            let count = items.len();
            wrong.push(format!("commands has {count} elements; 1 to {MOST} are taken in one call"));
        }
        Some(other) => wrong.push(format!("commands must be an array of objects, not {}", kind(other))),
        None => wrong.push(format!(
            "commands is required: an array of 1 to {MOST} commands, such as [{{\"command_line\": \"ls -l\"}}]"
        )),
    }
    match given.get("dry_run") {
        None | Some(Value::Null) => {}
        Some(Value::Bool(flag)) => asked.dry_run = *flag,
        Some(other) => wrong.push(format!("dry_run must be true or false, not {}", kind(other))),
    }
    asked.timeout = millis(&given, &mut wrong);
    if wrong.is_empty() { Ok(asked) } else { Err(refusal(&wrong)) }
}

fn command(item: &Value, wrong: &mut Vec<String>) -> Option<AskedCommand> {
    let Some(given) = item.as_object() else {
        wrong.push(format!("must be an object, not {}", kind(item)));
        return None;
    };
    let what = match command_type(given) {
        Ok(true) => argv(given, wrong),
        Ok(false) => line(given, wrong),
        Err(why) => {
            wrong.push(why);
            wrong.extend(unknown(given, &[&OF_ALL[..], &OF_ARGV, &OF_LINE].concat()));
            None
        }
    };
    let id = text(given, "id", wrong);
    let step = match given.get("step") {
        None | Some(Value::Null) => Some(1),
        Some(value) => value.as_u64().filter(|step| (1..=LAST_STEP).contains(step)).or_else(|| {
            wrong.push(format!("step must be an integer from 1 to {LAST_STEP}, not {}", told(value)));
            None
        }),
    };
    let cwd = text(given, "cwd", wrong).map(PathBuf::from);
    let env = variables(given, wrong);
    let timeout = millis(given, wrong);
    Some(AskedCommand { what: what?, id, step: step?, cwd, env, timeout })
}

/// Whether it is an argument vector. The type may be left out where the other fields say it.
fn command_type(given: &JsonObject) -> Result<bool, String> {
    match given.get("command_type") {
        Some(Value::String(name)) if name == "argv" => Ok(true),
        Some(Value::String(name)) if name == "shell_command" => Ok(false),
        None | Some(Value::Null) if given.contains_key("program") != given.contains_key("command_line") => {
            Ok(given.contains_key("program"))
        }
        None | Some(Value::Null) => {
            let meant = match given.get("command") {
                Some(Value::String(text)) if text.contains(char::is_whitespace) => {
                    "; did you mean command_line?"
                }
                Some(Value::Array(_)) => "; did you mean program (its first element) and args (the others)?",
                Some(_) => "; did you mean program?",
                None => "",
            };
            Err(format!("give program and args, or command_line (command_type says which){meant}"))
        }
        Some(other) => {
            Err(format!("command_type must be \"argv\" or \"shell_command\", not {}", told(other)))
        }
    }
}

fn argv(given: &JsonObject, wrong: &mut Vec<String>) -> Option<What> {
    wrong.extend(unknown(given, &[&OF_ALL[..], &OF_ARGV].concat()));
    let program = text(given, "program", wrong);
    if !given.contains_key("program") {
        wrong.push("program is required: the exact name of an allowed command".to_owned());
    }
    let mut args = Vec::new();
    match given.get("args") {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                match item {
                    Value::String(text) => args.push(text.clone()),
                    Value::Number(number) => args.push(number.to_string()),
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
    Some(What::Argv { program: program?, args })
}

fn line(given: &JsonObject, wrong: &mut Vec<String>) -> Option<What> {
    wrong.extend(unknown(given, &[&OF_ALL[..], &OF_LINE].concat()));
    if !given.contains_key("command_line") {
        wrong.push("command_line is required: one line of shell syntax".to_owned());
    }
    text(given, "command_line", wrong).map(What::Line)
}

fn text(given: &JsonObject, name: &str, wrong: &mut Vec<String>) -> Option<String> {
    match given.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => {
            wrong.push(format!("{name} must be a string, not {}", kind(other)));
            None
        }
    }
}

fn variables(given: &JsonObject, wrong: &mut Vec<String>) -> Vec<(String, String)> {
    let object = match given.get("env") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Object(object)) if object.len() <= VARIABLES => object,
        Some(Value::Object(object)) => {
            wrong.push(format!("env has {} names; {VARIABLES} are taken", object.len()));
            return Vec::new();
        }
        Some(other) => {
            wrong.push(format!("env must be an object of strings, not {}", kind(other)));
            return Vec::new();
        }
    };
    let mut variables = Vec::new();
    for (name, value) in object {
        match value {
            Value::String(text) => variables.push((name.clone(), text.clone())),
            other => wrong.push(format!("env must be an object of strings: a value is {}", kind(other))),
        }
    }
    variables
}

/// `timeout_ms`. A number too large for a clock is as good as the largest: it is clamped later, and said so.
fn millis(given: &JsonObject, wrong: &mut Vec<String>) -> Option<Duration> {
    let value = given.get("timeout_ms").filter(|value| !value.is_null())?;
    match value.as_u64().filter(|millis| *millis > 0) {
        Some(millis) => Some(Duration::from_millis(millis)),
        None => {
            wrong.push(format!("timeout_ms must be a positive integer (milliseconds), not {}", told(value)));
            None
        }
    }
}

/// A value in a message: a number as it is, anything else by its kind.
fn told(value: &Value) -> String {
    if value.is_number() { value.to_string() } else { kind(value).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn given(value: Value) -> Result<Asked, String> {
        read(value.as_object().cloned())
    }

    #[test]
    fn both_kinds_are_read_with_their_defaults() {
        let asked = given(json!({"commands": [
            {"command_type": "argv", "program": "head", "args": ["-n", 3]},
            {"command_line": "ls | wc -l", "id": "n", "step": 2, "cwd": "src", "env": {"LANG": "C"},
             "timeout_ms": 5}
        ], "timeout_ms": 9}))
        .unwrap();
        assert_eq!(asked.timeout, Some(Duration::from_millis(9)));
        let [first, second] = asked.commands.as_slice() else { panic!("{asked:?}") };
        assert_eq!(
            first,
            &AskedCommand {
                what: What::Argv { program: "head".into(), args: vec!["-n".into(), "3".into()] },
                id: None,
                step: 1,
                cwd: None,
                env: Vec::new(),
                timeout: None,
            }
        );
        assert_eq!(second.what, What::Line("ls | wc -l".to_owned()));
        assert_eq!((second.step, second.timeout), (2, Some(Duration::from_millis(5))));
        assert_eq!(second.env, [("LANG".to_owned(), "C".to_owned())]);
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        let message = given(json!({"comands": [], "dry_run": 1, "commands": [
            {"command_type": "argv", "program": "a", "command_line": "b"},
            {"command_type": "argv", "args": "x"},
            {"command_type": "bash", "program": "a"},
            {"command_line": "a", "stdin": "b", "step": 0, "timeout_ms": 0.5, "id": 1, "cwd": [], "env": []},
            {"program": "a", "command_line": "b"},
            {}, 7,
            {"program": "a", "env": {"A": 1}, "args": [null], "step": "1", "timeout_ms": -1},
            {"command": ["ls", "-l"]}, {"command": "ls -l"}, {"command": "ls"},
        ]}))
        .unwrap_err();
        for part in [
            "unknown argument \"comands\" (valid: commands, dry_run, timeout_ms; did you mean commands?)",
            "dry_run must be true or false, not a number",
            "commands[0]: unknown argument \"command_line\" (valid: command_type, cwd, env, id, step, timeout_ms, args, program",
            "commands[1]: program is required",
            "commands[1]: args must be an array of strings, not a string",
            "commands[2]: command_type must be \"argv\" or \"shell_command\", not a string",
            "commands[3]: unknown argument \"stdin\"",
            "commands[3]: step must be an integer from 1 to 1000, not 0",
            "commands[3]: timeout_ms must be a positive integer (milliseconds), not 0.5",
            "commands[3]: id must be a string, not a number",
            "commands[3]: cwd must be a string, not an array",
            "commands[3]: env must be an object of strings, not an array",
            "commands[4]: give program and args, or command_line",
            "commands[5]: give program and args, or command_line",
            "commands[8]: give program and args, or command_line (command_type says which); did you mean program (its first",
            "commands[9]: give program and args, or command_line (command_type says which); did you mean command_line?",
            "commands[10]: give program and args, or command_line (command_type says which); did you mean program?",
            "commands[6]: must be an object, not a number",
            "commands[7]: env must be an object of strings: a value is a number",
            "commands[7]: args must be an array of strings: element 0 is null",
            "commands[7]: step must be an integer from 1 to 1000, not a string",
            "commands[7]: timeout_ms must be a positive integer (milliseconds), not -1",
        ] {
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }

    #[test]
    fn one_to_thirty_commands_are_taken() {
        let many = |count| given(json!({"commands": vec![json!({"program": "a"}); count]}));
        for good in [1, 30] {
            assert_eq!(many(good).unwrap().commands.len(), good);
        }
        for bad in [0, 31] {
            assert_eq!(
                many(bad).unwrap_err(),
                format!("commands has {bad} elements; 1 to 30 are taken in one call")
            );
        }
        assert!(given(json!({})).unwrap_err().contains("commands is required"));
        assert!(given(json!({"commands": {}})).unwrap_err().contains("must be an array"));
        assert!(read(None).is_err());
    }
}
