//! `explain --line`: the verdict on each command of a line, and nothing happens.

use std::process::Output;

use serde_json::{Value, json};

use super::{read_only, writable};
use crate::support::Lab;

fn explain(lab: &Lab, flags: &[&str], line: &str) -> (Option<i32>, String) {
    let mut command = lab.command("explain");
    let Output { status, stdout, .. } = command.args(flags).args(["--line", line]).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

fn answers(lab: &Lab, line: &str) -> (Option<i32>, Vec<Value>) {
    let (status, text) = explain(lab, &["--json"], line);
    (status, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn each_command_of_a_line_has_an_answer() {
    let lab = writable();
    let (status, found) = answers(&lab, "cat plain *.txt {a,b} | head -n 1 > out ; true");
    assert_eq!(status, Some(0), "{found:?}");
    let argv: Vec<&Value> = found.iter().map(|one| &one["argv"]).collect();
    assert_eq!(
        argv,
        [&json!(["cat", "plain", "*.txt", "a", "b"]), &json!(["head", "-n", "1"]), &json!(["true"])],
        "patterns stay as they are written"
    );
    assert!(found.iter().all(|one| one["verdict"] == "allow" && one["profile"].is_object()), "{found:?}");
    let (status, found) = answers(&lab, "cat plain | rm x");
    assert_eq!((status, found.len()), (Some(1), 2));
    assert_eq!((&found[0]["verdict"], &found[1]["rule"]), (&json!("allow"), &json!("allow")));
    assert_eq!((&found[1]["verdict"], &found[1]["argv"]), (&json!("deny"), &json!(["rm", "x"])));
    // Nothing was made, and nothing recorded.
    assert!(!lab.ws().join("out").exists() && !lab.log().exists());
}

#[test]
fn what_refuses_the_whole_line_is_one_answer() {
    let lab = read_only();
    for (line, rule, part) in [
        ("echo 'a b' $(date)", "line.command-substitution", "command substitution"),
        ("cd nowhere && ls", "cwd.missing", "working directory"),
        ("echo a > out", "redirection.read_only", "read-only"),
        ("echo $NOBODY", "line.expansion", "NOBODY"),
    ] {
        let (status, found) = answers(&lab, line);
        assert_eq!((status, found.len()), (Some(1), 1), "{found:?}");
        assert_eq!((&found[0]["verdict"], &found[0]["rule"]), (&json!("deny"), &json!(rule)), "{found:?}");
        assert!(found[0]["reason"].as_str().unwrap().contains(part), "{found:?}");
    }
    let (_, text) = explain(&lab, &[], "cat plain | rm x");
    for part in ["command      1: cat plain\nallow\n", "\ncommand      2: rm x\ndeny\n", "\ninstead "] {
        assert!(text.contains(part), "{part:?}: {text}");
    }
    let (status, text) = explain(&lab, &["--allow", "rm"], "rm x; ls");
    assert_eq!(status, Some(1));
    assert!(text.contains("1: rm x\nallow\n") && text.contains("2: ls\ndeny\n"), "{text}");
}
