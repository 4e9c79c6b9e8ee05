//! The stream of verdicts: order, profiles, bad lines.

use serde_json::{Value, json};

use super::*;
use crate::config::Command;
use crate::policy::testing::{command, policy, set};

/// Answers for `input`, and how many lines were bad.
fn answers(input: &str, allow: Option<&[&str]>) -> (Vec<Value>, u64) {
    let policy = policy(&["ls"], |config| {
        set(config, Command { subcommands: Some(vec!["log".to_owned()]), ..command("git") });
    });
    let allow = allow.map(|names| policy.allow_list(names, &[]).unwrap());
    let mut out = Vec::new();
    // A small buffer: lines span reads.
    let input = BufReader::with_capacity(7, input.as_bytes());
    let bad = judge_lines(&policy, allow, input, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), bad)
}

#[test]
fn each_line_gets_its_verdict_in_order() {
    let input = r#"{"argv":["git","log"]}
{"argv":["git","push"]}
{"argv":["rm","-rf","x"],"allow":["rg","git"]}
{"argv":["cat","\u0041\"\n"],"allow":["cat"],"id":"v1","verdict":"x"}

{"argv":["bash"],"allow":["bash"]}
{"argv":["lsx"],"allow_patterns":["ls.?"]}
{"argv":[]}"#;
    let (answers, bad) = answers(input, None);
    assert_eq!(bad, 0);
    let short: Vec<_> =
        answers.iter().map(|a| (a["verdict"].as_str().unwrap(), a["rule"].as_str().unwrap())).collect();
    assert_eq!(
        short,
        [
            ("allow", "allow"),
            ("deny", "git.subcommand"),
            ("deny", "allow"),
            ("allow", "allow"),
            ("deny", "names.shell"),
            ("allow", "allow_patterns"),
            ("deny", "names.empty"),
        ]
    );
    assert_eq!(answers[2]["reason"], "Command 'rm' is not allowlisted. Allowed: git, rg");
    assert_eq!(answers[2].get("profile"), None);
    assert_eq!(answers[3]["argv"], json!(["cat", "A\"\n"]));
    let keys: Vec<_> = answers[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["argv", "verdict", "rule", "reason", "profile"]);
}

#[test]
fn a_profile_says_what_is_granted() {
    let (answers, _) =
        answers("{\"argv\":[\"ls\"]}\n{\"argv\":[\"nosuchtool\"],\"allow\":[\"nosuchtool\"]}", None);
    let profile = &answers[0]["profile"];
    assert_eq!(profile["program"], "/usr/lib/x/ls");
    // The table of these tests names a file that is not there: said, not guessed.
    assert_eq!(profile["read"], json!([]));
    assert!(profile["note"].as_str().unwrap().contains("/usr/lib/x/ls"), "{profile}");
    assert_eq!(profile["network"], json!([]));
    assert_eq!(profile["environment"], json!(["PATH"]));
    assert_eq!(profile["limits"]["timeout_ms"], 30_000);
    assert_eq!(answers[1]["profile"]["program"], Value::Null);
    assert_eq!(answers[1]["profile"]["execute"], json!([]));
    assert_eq!(answers[1]["profile"]["note"], "the program is not installed");
}

#[test]
fn an_allow_list_of_the_command_line_stands_for_lines_without_one() {
    let input = "{\"argv\":[\"rg\"]}\n{\"argv\":[\"ls\"]}\n{\"argv\":[\"ls\"],\"allow\":[\"ls\"]}\n{\"argv\":[\"rg\"],\"allow\":[]}";
    let (answers, _) = answers(input, Some(&["rg"]));
    let verdicts: Vec<_> = answers.iter().map(|answer| answer["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["allow", "deny", "allow", "deny"]);
}

#[test]
fn bad_lines_are_answered_and_counted() {
    let input = "nonsense\n{\"argv\":\"ls\"}\n{\"allow\":[\"ls\"]}\n{\"argv\":[\"ls\"],\"allow_patterns\":[\"(\"]}\n{\"argv\":[\"ls\"]}";
    let (answers, bad) = answers(input, None);
    assert_eq!((answers.len(), bad), (5, 4));
    for (index, answer) in answers.iter().take(4).enumerate() {
        let error = answer["error"].as_str().unwrap();
        assert!(error.starts_with(&format!("line {}: ", index + 1)), "{error}");
        assert_eq!(answer.as_object().unwrap().len(), 1);
    }
    assert_eq!(answers[4]["verdict"], "allow");
}

/// Lists are told apart by their elements, not by their joined text.
#[test]
fn lists_that_look_alike_are_not_confused() {
    let input = r#"{"argv":["ab"],"allow":["a","b"]}
{"argv":["ab"],"allow":["ab"]}
{"argv":["a"],"allow":["a\u0000b"]}
{"argv":["a"],"allow":["a"],"allow_patterns":["b"]}
{"argv":["b"],"allow":["a","b"],"allow_patterns":[]}
{"argv":["c"],"allow":["a"],"allow_patterns":["c"]}
{"argv":["c"],"allow":["a","c"]}"#;
    let (answers, _) = answers(input, None);
    let rules: Vec<_> =
        answers.iter().map(|a| format!("{} {}", a["verdict"], a["rule"]).replace('"', "")).collect();
    assert_eq!(
        rules,
        [
            "deny allow",
            "allow allow",
            "deny allow",
            "allow allow",
            "allow allow",
            "allow allow_patterns",
            "allow allow"
        ]
    );
}

/// More lists and more names than are kept: forgetting must not change an answer.
#[test]
fn forgotten_lists_are_made_again() {
    let mut input = String::new();
    for round in 0..2 {
        for index in 0..KEPT + 5 {
            let asked = if round == 0 { index } else { index + 1 };
            input.push_str(&format!("{{\"argv\":[\"n{asked}\"],\"allow\":[\"n{index}\"]}}\n"));
        }
    }
    for index in 0..KEPT + 5 {
        input.push_str(&format!("{{\"argv\":[\"zz{index}\"],\"allow_patterns\":[\"zz[0-9]+\"]}}\n"));
    }
    let (answers, bad) = answers(&input, None);
    assert_eq!(bad, 0);
    for (index, answer) in answers.iter().enumerate() {
        let expected = if (KEPT + 5..2 * (KEPT + 5)).contains(&index) { "deny" } else { "allow" };
        assert_eq!(answer["verdict"], expected, "{index}");
    }
}

#[test]
fn a_line_without_end_is_refused_and_the_next_one_judged() {
    let long = usize::try_from(LINE).unwrap();
    let input = format!("{}\n{{\"argv\":[\"ls\"]}}", "x".repeat(long + 10));
    let policy = policy(&["ls"], |_| {});
    let mut out = Vec::new();
    let bad = judge_lines(&policy, None, BufReader::new(input.as_bytes()), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(bad, 1);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("longer than"), "{}", lines[0]);
    assert!(lines[1].contains("\"verdict\":\"allow\"") && lines.len() == 2, "{text}");
}

/// One answer in text: rule, reason and the walls, nothing of the caller's bytes unescaped.
#[test]
fn text_for_people() {
    let policy = policy(&["ls"], |_| {});
    let asked = super::super::Asked { policy: &policy, allow: None, toolkit: None, json: false };
    let mut out = Vec::new();
    assert!(asked.one(&[b"ls"], &mut out).unwrap());
    let text = String::from_utf8(out).unwrap();
    for line in ["allow\n", "rule         allow\n", "program      /usr/lib/x/ls\n", "write        none\n"] {
        assert!(text.contains(line), "{text}");
    }
    let mut out = Vec::new();
    assert!(!asked.one(&[b"r\x1b[m"], &mut out).unwrap());
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("deny\nrule         names.unsafe\n") && !text.contains('\u{1b}'), "{text}");
}
