//! What the supervisor hears of a run: forbidden calls and programs that were started.

use serde_json::{Value, json};

use crate::support::{Lab, Rules};

/// The end record of a run of these attempts.
fn end(rules: &Rules, attempts: &[(&str, &str, &str)]) -> (Vec<String>, Value) {
    let lab = Lab::new(rules);
    let probe = lab.text("bin/probe");
    let own: Vec<_> =
        attempts.iter().map(|(what, a, b)| (*what, if *a == "SELF" { &probe } else { *a }, *b)).collect();
    (lab.tried(&own), lab.end())
}

#[test]
fn forbidden_calls_are_named_and_counted() {
    let (lines, end) =
        end(&Rules::default(), &[("chmod", "plain", ""), ("chmod", "plain", ""), ("link", "a", "b")]);
    assert_eq!(lines[..2], ["chmod errno=1", "chmod errno=1"], "{lines:?}");
    assert_eq!(end["denied_syscalls"], json!(["chmod=2"]), "{end}");
    assert_eq!(end.get("exec"), None, "{end}");
}

#[test]
fn starts_are_recorded_whether_they_succeed_or_not() {
    let (lines, end) = end(&Rules::default(), &[("exec", "SELF", ""), ("exec", "/usr/bin/id", "")]);
    assert_eq!(lines[..2], ["exec status 2", "exec errno=13"], "{lines:?}");
    assert_eq!(end["exec_count"], 2, "{end}");
    let starts: Vec<&str> =
        end["exec"].as_array().unwrap().iter().map(|start| start.as_str().unwrap()).collect();
    assert!(starts[0].ends_with("/bin/probe") && starts[1].starts_with("/usr/bin/id"), "{starts:?}");
    assert!(["observed", "confirmed", "mismatch"].contains(&end["argv_fidelity"].as_str().unwrap()), "{end}");
}

#[test]
fn a_plain_run_says_neither() {
    let (_, end) = end(&Rules::default(), &[("read", "plain", "")]);
    for key in ["denied_syscalls", "exec", "exec_count", "argv_fidelity"] {
        assert_eq!(end.get(key), None, "{end}");
    }
}
