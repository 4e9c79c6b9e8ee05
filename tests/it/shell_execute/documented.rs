//! Rows of the documents of both predecessors that no other test holds, each by its own request.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{call, configured, lab, refused, succeeded, text};
use crate::lines::line;
use crate::support::{Lab, Rules, Served};

/// What a server with these variables says when it starts.
fn warned(variables: &[(&str, &str)]) -> String {
    let (_home, mut command) = configured(variables);
    // It has nobody to serve, and ends.
    let done = command.stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn a_pattern_is_for_whole_names() {
    let (_home, command) = configured(&[("ALLOW_PATTERNS", "ec,ech[a-z],l"), ("ALLOWED_COMMANDS", "cat")]);
    let mut served = Served::by(command);
    succeeded(&call(&mut served, json!({"command": ["echo", "x"]})));
    for name in ["ls", "ls -la", "echo x"] {
        refused(&call(&mut served, json!({"command": [name]})), &format!("Command not allowed: {name}"));
    }
}

#[test]
fn a_longer_timeout_than_the_policy_allows_is_clamped_without_a_word() {
    let lab = lab(false, "", "timeout = \"1s\"\nmax_timeout = \"2s\"");
    let mut served = Served::start(&lab);
    let late = call(&mut served, json!({"command": ["sleep", "600"], "timeout": 600}));
    assert_eq!(text(&late), "Error executing command: Command timed out after 2 seconds");
    let default = call(&mut served, json!({"command": ["sleep", "600"]}));
    assert_eq!(text(&default), "Error executing command: Command timed out after 1 seconds");
}

#[test]
fn a_signal_is_named_and_what_was_printed_is_in_no_record_or_log() {
    let lab = lab(false, "", "");
    let mut served = Served::start(&lab);
    let killed = call(&mut served, json!({"command": [lab.probe(), "signal", "9"]}));
    assert_eq!(killed["isError"], true);
    assert!(text(&killed).starts_with("Error executing command: Command terminated by signal 9"), "{killed}");
    std::fs::write(lab.ws().join("body"), "the-body-of-a-file\n").unwrap();
    let failed = call(&mut served, json!({"command": ["cat", "body", "missing"]}));
    assert!(text(&failed).contains("the-body-of-a-file"));
    served.stop();
    assert!(!std::fs::read_to_string(lab.log()).unwrap().contains("the-body-of-a-file"));
}

#[test]
fn bytes_that_are_no_text_are_shown_as_replacement_characters() {
    let lab = lab(false, "", "");
    let mut served = Served::start(&lab);
    let raw = succeeded(&call(&mut served, json!({"command": [lab.probe(), "raw"]})));
    assert!(raw["stdout"].as_str().unwrap().starts_with("a\u{fffd}"), "{raw}");
}

#[test]
fn a_file_that_is_not_there_is_told_for_input_too() {
    let lab = lab(false, "", "");
    let mut served = Served::start(&lab);
    let missing = call(&mut served, json!({"command": ["cat", "<", "missing"]}));
    assert!(text(&missing).starts_with("Error executing command: Failed to open input file"), "{missing}");
}

#[test]
fn redirections_of_every_stage_of_a_pipeline_count() {
    let lab = lab(true, "", "");
    let mut served = Served::start(&lab);
    let command =
        json!(["cat", "<", "plain", "|", "tr", "a-z", "A-Z", "2>", "errors", "|", "cat", ">", "out"]);
    succeeded(&call(&mut served, json!({ "command": command })));
    assert_eq!(std::fs::read_to_string(lab.ws().join("out")).unwrap(), "PLAIN\n");
    assert_eq!(std::fs::read_to_string(lab.ws().join("errors")).unwrap(), "");
}

#[test]
fn nothing_is_cut_before_the_whole_is_judged() {
    let lab = lab(true, "", "");
    let mut served = Served::start(&lab);
    for command in [json!(["echo", "x", ">", "plain", "|", "rm"]), json!(["echo", ">", "plain", ">", "../x"])]
    {
        assert_eq!(call(&mut served, json!({ "command": command }))["isError"], true);
    }
    assert_eq!(std::fs::read_to_string(lab.ws().join("plain")).unwrap(), "plain\n");
}

#[test]
fn a_variable_that_is_not_passed_is_left_out_and_named() {
    let (_home, command) = configured(&[
        ("ALLOW_COMMANDS", "printenv"),
        ("MCP_SHELL_CHILD_ENV_ALLOWLIST", "MY_TOOL_HOME"),
        ("MY_TOOL_HOME", "/of/the/server"),
    ]);
    let mut served = Served::by(command);
    let envs = json!({"MY_TOOL_HOME": "/of/the/call", "PATH": "/evil", "LD_PRELOAD": "x", "OTHER": "y"});
    let told = succeeded(&call(&mut served, json!({"command": ["printenv"], "envs": envs})));
    let env = told["stdout"].as_str().unwrap();
    assert!(env.contains("MY_TOOL_HOME=/of/the/call"), "{env}");
    assert!(env.contains("PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), "{env}");
    assert!(!env.contains("evil") && !env.contains("LD_PRELOAD") && !env.contains("OTHER"), "{env}");
    assert_eq!(told["env_ignored"], json!(["PATH", "LD_PRELOAD", "OTHER"]));
}

#[test]
fn names_are_looked_up_in_the_safe_path_and_nowhere_else() {
    let variables = [("ALLOW_COMMANDS", "ls"), ("MCP_SHELL_SAFE_PATH", "/nonexistent-cofferdam")];
    let (_home, command) = configured(&variables);
    let mut served = Served::by(command);
    let missing = call(&mut served, json!({"command": ["ls"]}));
    assert_eq!(missing["isError"], true, "{missing}");
    let said = warned(&variables);
    assert!(said.contains("not found in /nonexistent-cofferdam") && said.contains(": ls;"), "{said}");
}

#[test]
fn command_run_s_list_of_variables_offers_command_run() {
    let (_home, command) = configured(&[
        ("ALLOW_COMMANDS", "printenv"),
        ("COMMAND_RUN_ENV_ALLOWLIST", "MY_TOOL_HOME"),
        ("MY_TOOL_HOME", "/opt/tool"),
    ]);
    let mut served = Served::by(command);
    let arguments = json!({"commands": [{"program": "printenv", "env": {"MY_TOOL_HOME": "/x", "NO": "y"}}]});
    let id = served.send("tools/call", json!({"name": "command_run", "arguments": arguments}));
    let result = &served.answer(id)["result"]["structuredContent"]["results"][0];
    assert!(result["stdout"].as_str().unwrap().contains("MY_TOOL_HOME=/x"), "{result}");
    assert_eq!(result["env_ignored"], json!(["NO"]));
    succeeded(&call(&mut served, json!({"command": ["printenv", "MY_TOOL_HOME"]})));
}

#[test]
fn names_that_can_never_run_are_warned_of_at_start() {
    let variables = [("ALLOW_COMMANDS", "ls,bash,python3")];
    let (_home, command) = configured(&variables);
    let mut served = Served::by(command);
    refused(&call(&mut served, json!({"command": ["bash"]})), "Command not allowed: bash");
    let said = warned(&variables);
    assert!(said.contains("always refused, although the allow-list names them: bash, python3"), "{said}");
}

#[test]
fn a_refused_operator_says_what_to_do_instead() {
    let lab = lab(false, "", "");
    let mut served = Served::start(&lab);
    let result = call(&mut served, json!({"command": ["ls", ";", "ls"]}));
    refused(&result, "Unexpected shell operator: ;");
    let remedy = result["content"][1]["text"].as_str().unwrap();
    assert!(remedy.contains("make one call for each command"), "{remedy}");
}

#[test]
fn the_texts_of_the_release_are_a_switch() {
    let lab = lab(false, "compat_text = \"1.1.14\"", "");
    let mut served = Served::start(&lab);
    let good = call(&mut served, json!({"command": ["cat", "plain"]}));
    assert_eq!((text(&good), good["content"].as_array().unwrap().len()), ("plain\n", 1));
    assert_eq!(good["structuredContent"]["stdout"], "plain\n");
    let both = call(&mut served, json!({"command": [lab.probe(), "both"]}));
    assert_eq!((text(&both), &both["content"][1]["text"]), ("out", &json!("err")));
    let denied = call(&mut served, json!({"command": ["rm", "x"]}));
    assert_eq!(text(&denied), "Error executing command: Command not allowed: rm");
    let empty = call(&mut served, json!({"command": []}));
    assert_eq!(text(&empty), "Error executing command: No command provided");
    let failed = call(&mut served, json!({"command": ["cat", "missing"]}));
    assert!(
        text(&failed).starts_with("Error executing command: Command failed with exit status 1\nstderr:\n")
    );
}

#[test]
fn a_status_as_an_answer_is_a_switch() {
    let lab = lab(false, "nonzero_is_error = false", "");
    let mut served = Served::start(&lab);
    let none = call(&mut served, json!({"command": ["grep", "nothing", "plain"]}));
    assert_ne!(none["isError"], true, "{none}");
    let object: Value = serde_json::from_str(text(&none)).unwrap();
    assert_eq!((&object["status"], &object["error"]), (&json!(1), &Value::Null));
    for command in [json!(["rm"]), json!(["cat", "<", "missing"]), json!([lab.probe(), "signal", "9"])] {
        assert_eq!(call(&mut served, json!({"command": command}))["isError"], true, "{command}");
    }
    let late = call(&mut served, json!({"command": ["sleep", "600"], "timeout": 1}));
    assert_eq!(late["isError"], true, "{late}");
}

#[test]
fn a_command_is_asked_to_end_before_it_is_killed() {
    let lab = lab(false, "", "");
    let mut served = Served::start(&lab);
    let polite = call(&mut served, json!({"command": [lab.probe(), "polite"], "timeout": 4}));
    assert_eq!(polite["structuredContent"]["error"], "Command timed out after 4 seconds");
    assert!(text(&polite).contains("goodbye"), "{polite}");
    let begun = Instant::now();
    let deaf = call(&mut served, json!({"command": [lab.probe(), "deaf"], "timeout": 1}));
    assert!(begun.elapsed() >= Duration::from_millis(1400), "{:?}", begun.elapsed());
    assert_eq!(deaf["structuredContent"]["error"], "Command timed out after 1 seconds");
    let flood = call(&mut served, json!({"command": ["yes", "|", lab.probe(), "polite"], "timeout": 4}));
    assert!(text(&flood).contains("goodbye"), "{flood}");
    assert!(lab.alive().is_empty());
    served.stop();
    let ends = super::of_type(&lab, "run.end");
    let signals: Vec<&Value> = ends.iter().map(|end| &end["signal"]).collect();
    assert_eq!(signals.get(1), Some(&&json!("SIGKILL")), "who does not listen: {ends:?}");
    // What writes to one that has ended may end by that.
    assert!(ends.iter().take(2).all(|end| end["outcome"] == "timeout"), "{ends:?}");
    // Other tools kill at once.
    let mut other = lab_of_toolkits();
    let (told, _) = other.1.run(json!({"command": other.0.probe(), "args": ["polite"], "timeout": 1}));
    assert!(!told.contains("goodbye"), "{told}");
}

fn lab_of_toolkits() -> (Lab, Served) {
    let lab = Lab::plain();
    let served = Served::start(&lab);
    (lab, served)
}

#[test]
fn what_a_toolkit_is_given_is_data() {
    let (lab, mut served) = lab_of_toolkits();
    let (told, error) = served.run(json!({"command": lab.probe(), "args": ["say", "a > b | c ; d"]}));
    assert!(!error && told.contains("a > b | c ; d"), "{told}");
    let (told, error) = served.run(json!({"command": lab.probe(), "args": ["say", ">", "made"]}));
    assert!(!error && told.contains(">"), "{told}");
    assert!(!lab.ws().join("made").exists());
}

#[test]
fn a_line_has_an_end_of_its_own_in_the_records() {
    let schema: Value = serde_json::from_str(include_str!("../../../siem/record.schema.json")).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let lab = lab(false, "", "output_bytes = \"4KiB\"");
    let mut served = Served::start(&lab);
    call(&mut served, json!({"command": ["cat", "plain", "missing", "|", "cat"]}));
    call(&mut served, json!({"command": ["yes"]}));
    call(&mut served, json!({"command": ["rm"]}));
    served.stop();
    let ends = super::of_type(&lab, "line.end");
    assert_eq!(ends.len(), 2, "one that was refused never began: {ends:?}");
    assert_eq!((&ends[0]["outcome"], &ends[0]["line_commands"]), (&json!("success"), &json!(2)));
    assert_eq!(ends[0]["stdout_bytes"], 6);
    assert!(ends[0]["stderr_bytes"].as_u64().unwrap() > 0 && ends[0]["tool"] == "shell_execute");
    assert_eq!((&ends[1]["outcome"], &ends[1]["output_truncated"]), (&json!("output_limit"), &json!(true)));
    for record in lab.records() {
        let errors: Vec<String> = schema.iter_errors(&record).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}: {record}");
    }
}

#[test]
fn a_secret_that_a_variable_puts_into_a_word_is_in_no_record() {
    let lab = Lab::new(&Rules {
        top: crate::lines::ALLOW,
        environment: "set = { API_TOKEN = \"s3cr3t-of-the-policy\", WORD = \"harmless\" }",
        ..Rules::default()
    });
    let done = line(&lab, "echo \"X: $API_TOKEN\" $WORD | cat");
    assert_eq!(done["stdout"], "X: s3cr3t-of-the-policy harmless\n", "{done}");
    // A refusal of one command, and of the whole.
    assert_eq!(line(&lab, "rm $API_TOKEN")["outcome"], "denied");
    assert_eq!(line(&lab, "cat a | curl -u me:hidden-pass $(x)")["outcome"], "denied");
    let log = std::fs::read_to_string(lab.log()).unwrap();
    assert!(!log.contains("s3cr3t") && !log.contains("hidden-pass"), "{log}");
    assert!(log.contains("[REDACTED:configured]") && log.contains("harmless"));
    assert!(lab.records().iter().any(|record| {
        record["argv"] == json!(["cat", "a", "|", "curl", "-u", "[REDACTED:short-option]", "$(x)"])
    }));
}

#[test]
fn a_stage_of_a_line_is_told_what_its_walls_refused() {
    let lab = Lab::new(&Rules {
        top: "allow = [\"wc\"]",
        commands: "[command.cat]\npaths = \"any\"\n[server]\ntools = [\"command_run\"]\n".to_owned(),
        ..Rules::default()
    });
    let secret = lab.text("outside/secret");
    let mut served = Served::start(&lab);
    let arguments = json!({"commands": [{"command_line": format!("cat {secret} | wc -l")},
                                        {"command_line": "cat missing | wc -l"}]});
    let id = served.send("tools/call", json!({"name": "command_run", "arguments": arguments}));
    let results = served.answer(id)["result"]["structuredContent"]["results"].take();
    assert_eq!(results[0]["sandbox"]["hints"][0]["path"], secret, "{results}");
    assert!(results[1]["sandbox"].is_null(), "{results}");
}

#[test]
fn three_megabytes_of_input_are_a_file_and_not_a_message() {
    let lab = lab(false, "", "");
    let big = "0123456789abcde\n".repeat(3 * 65_536);
    std::fs::write(lab.ws().join("big"), &big).unwrap();
    let mut served = Served::start(&lab);
    served.send(
        "tools/call",
        json!({"name": "shell_execute", "arguments": {"command": ["cat"], "stdin": big}}),
    );
    let told = served.message();
    let message = told["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("longer than 1048576 bytes") && message.contains("a file of the workspace"),
        "{told}"
    );
    let command = json!(["cat", "<", "big", "|", "cat", "|", "wc", "-c"]);
    assert_eq!(succeeded(&call(&mut served, json!({ "command": command })))["stdout"], "3145728\n");
}
