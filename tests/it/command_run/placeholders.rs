//! Bound output is text of one word, whatever it holds: over the whole road, to the argv of real processes.

use std::fs;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{batch, lab, of_type, statuses};
use crate::support::Served;

/// What would be something else if it were read again.
const PIECES: &[&str] = &[
    "'",
    "\"",
    "`",
    "\\",
    "\n",
    "\r",
    "\t",
    " ",
    ";",
    "&",
    "&&",
    "|",
    "||",
    ">",
    ">>",
    "<",
    "2>&1",
    "$",
    "$(",
    ")",
    "${",
    "}",
    "{a,b}",
    "*",
    "?",
    "[a]",
    "~",
    "#",
    "!",
    "=",
    "-",
    "--",
    "#@#$",
    "#@#${",
    "#@#${a.stdout}#@#$",
    "}#@#$",
    "rm",
    "echo",
    "a",
    "é",
    "\u{202e}",
    "\u{1}",
    "EOF",
    "\n\n",
    "/",
    "..",
    "(",
    "cd /",
    "\u{feff}",
];

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_value_never_becomes_a_command_or_a_word() {
    let lab = lab();
    let probe = lab.probe().to_str().unwrap().to_owned();
    let mut runner = TestRunner::deterministic();
    let value = prop::collection::vec(prop::sample::select(PIECES), 0..12).prop_map(|pieces| pieces.concat());
    let mut served = Served::start(&lab);
    let mut runs = 0;
    for round in 0..6 {
        let values: Vec<String> = (0..9).map(|_| value.new_tree(&mut runner).unwrap().current()).collect();
        let mut commands = Vec::new();
        for (at, value) in values.iter().enumerate() {
            fs::write(lab.at(&format!("ws/{at}")), value).unwrap();
            commands.push(json!({"program": "cat", "args": [at.to_string()], "id": format!("v{at}")}));
        }
        for at in 0..values.len() {
            let hole = format!("#@#${{v{at}.stdout}}#@#$");
            let line = match at % 4 {
                0 => format!("{probe} argv <{hole}> 'x {hole}' | cat")
                    .replace(&format!("<{hole}>"), &format!("l{hole}r")),
                1 => format!("{probe} argv l{hole}r 'x {hole}' && true"),
                2 => format!("{probe} argv \"l{hole}r\" x\\ {hole}; true"),
                _ => format!("true && {{ {probe} argv l'{hole}'r \"x {hole}\"; }}"),
            };
            commands.push(json!({"command_line": line, "step": 2}));
            commands.push(json!({"program": probe, "args": ["argv", format!("l{hole}r"), format!("x {hole}")], "step": 2}));
        }
        let result = batch(&mut served, Value::from(commands));
        assert_eq!(statuses(&result), ["succeeded"; 27], "round {round}: {values:?}: {result}");
        for (at, value) in values.iter().enumerate() {
            let value = value.trim_end_matches('\n');
            let expected = format!(
                "{}\n{}\n{}\n{}\n",
                hex(&probe),
                hex("argv"),
                hex(&format!("l{value}r")),
                hex(&format!("x {value}"))
            );
            for result in [&result["results"][9 + 2 * at], &result["results"][10 + 2 * at]] {
                assert_eq!(result["stdout"], expected, "{value:?}: {result}");
            }
            // cat, the vector, the line, and its other command.
            runs += 4;
        }
    }
    served.stop();
    assert_eq!(of_type(&lab, "run.start").len(), runs);
    assert!(of_type(&lab, "run.denied").is_empty());
}

#[test]
fn fields_of_json_are_bound_by_their_paths() {
    let lab = lab();
    fs::write(lab.at("ws/j"), r#"{"a":[{"b":"x y"},2],"n":null,"o":{"k":"$(rm)"},"0":"zero"}"#).unwrap();
    fs::write(lab.at("ws/t"), "plain\n").unwrap();
    let mut served = Served::start(&lab);
    let hole = |path: &str| format!("<#@#${{{path}}}#@#$>");
    let first =
        json!([{"program": "cat", "args": ["j"], "id": "j"}, {"program": "cat", "args": ["t"], "id": "t"}]);
    let mut ask = |path: &str| {
        let mut commands = first.as_array().unwrap().clone();
        commands.push(json!({"program": "echo", "args": [hole(path)], "step": 2}));
        batch(&mut served, Value::from(commands))["results"][2].take()
    };
    for (path, text) in [
        ("j.a.0.b", "<x y>\n"),
        ("j.a.1", "<2>\n"),
        ("j.a.0", "<{\"b\":\"x y\"}>\n"),
        ("j.n", "<null>\n"),
        ("j.o.k", "<$(rm)>\n"),
        ("j.0", "<zero>\n"),
        ("t.stdout", "<plain>\n"),
        ("t.stderr", "<>\n"),
        ("t.exit_code", "<0>\n"),
    ] {
        assert_eq!(ask(path)["stdout"], text, "{path}");
    }
    for (path, part) in [
        ("j.a.2", "names a field that the output does not have"),
        ("j.a.x", "names a field that the output does not have"),
        ("j.none", "names a field that the output does not have"),
        ("t.field", "needs JSON, and the output is none"),
    ] {
        let result = ask(path);
        assert_eq!(
            (&result["status"], &result["rule"]),
            (&json!("rejected"), &json!("batch.placeholder")),
            "{path}"
        );
        assert!(result["error"].as_str().unwrap().contains(part), "{path}: {result}");
    }
    served.stop();
    // A refusal is recorded with the words as they were written.
    let denied = of_type(&lab, "run.denied");
    assert_eq!(denied.len(), 4);
    assert_eq!(denied[0]["argv"], json!(["echo", hole("j.a.2")]));
}

#[test]
fn a_bound_argument_is_judged_as_what_it_is() {
    let lab = lab();
    fs::write(lab.at("ws/path"), lab.text("outside/secret")).unwrap();
    fs::write(lab.at("ws/option"), "--files0-from=-").unwrap();
    let mut served = Served::start(&lab);
    let first = json!({"program": "cat", "args": ["path"], "id": "p"});
    let result = batch(
        &mut served,
        json!([first, {"program": "cat", "args": ["#@#${p.stdout}#@#$"], "step": 2},
               {"command_line": "cat #@#${p.stdout}#@#$", "step": 2},
               {"command_line": "cat < #@#${p.stdout}#@#$", "step": 2}]),
    );
    assert_eq!(statuses(&result), ["succeeded", "rejected", "rejected", "rejected"], "{result}");
    assert_eq!(result["results"][1]["rule"], "path.outside");
    assert!(!result.to_string().contains("the secret"), "{result}");
}
