//! The open catalogue of ways around, rows that are lines of shell: each is sent to `shell_execute` as an
//! agent would send it, split at its blanks with operators as elements, and as one element; and each is run
//! as a line. None may reach what its row forbids.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::{call, lab};
use crate::lines::line;
use crate::scan::root;
use crate::support::Served;

/// Rows that are not refused, how they were sent, and what became of them: their payload is text there, or
/// it met the kernel. All others are refused before anything is started.
const NOT_REFUSED: &[(&str, &str, &str)] = &[
    ("agent-sh-ansi-c-newline", "elements", "failed"),
    ("agent-sh-arith-index", "elements", "ran"),
    ("agent-sh-at-P-default", "elements", "ran"),
    ("agent-sh-comment-newline", "elements", "failed"),
    ("agent-sh-dollar-hash", "elements", "failed"),
    ("agent-sh-echo-quote-break", "line", "ran"),
    ("agent-sh-echo-quote-break", "elements", "ran"),
    ("agent-sh-echo-real-break", "elements", "ran"),
    ("agent-sh-error-expand", "elements", "ran"),
    ("agent-sh-hash-in-word", "elements", "failed"),
    ("agent-sh-newline", "elements", "ran"),
    ("agent-sh-printf-v", "line", "ran"),
    ("agent-sh-printf-v", "elements", "ran"),
    ("agent-sh-procsub-in", "elements", "failed"),
    ("agent-sh-procsub-out", "elements", "failed"),
    ("agent-sh-redir-nospace", "elements", "ran"),
    ("agent-sh-subst-arith", "elements", "failed"),
    ("agent-sh-subst-backtick", "elements", "failed"),
    ("agent-sh-subst-dollar", "elements", "failed"),
    ("agent-sh-subst-dquote", "elements", "failed"),
    ("agent-sh-subst-heredoc", "elements", "failed"),
    ("agent-sh-subst-herestring", "elements", "failed"),
    ("agent-sh-subst-nested", "elements", "failed"),
    ("agent-sh-tilde", "elements", "failed"),
    ("agent-sh-unbalanced-comment", "elements", "ran"),
    ("agent-zsh-equals-procsub", "elements", "failed"),
    ("agent-zsh-glob-qual-e", "elements", "ran"),
    ("agent-zsh-multios", "elements", "ran"),
];

/// What became of a row.
fn outcome(result: &Value) -> &'static str {
    if result["structuredContent"]["execution_time"] == 0 {
        "refused"
    } else if result["isError"] == true {
        "failed"
    } else {
        "ran"
    }
}

/// A payload that leaves a mark where rows want one: were it started, it would be seen.
fn put(lab: &crate::support::Lab, row: &Value, text: &str) -> String {
    let own = lab.ws().to_str().unwrap().to_owned();
    let moved = |text: &str| {
        text.replace("/tmp/escape-lab/ws", &own)
            .replace("/tmp/escape-lab/secret", &lab.text("outside"))
            .replace("/tmp/marker-", &format!("{}/marker-", lab.text("outside")))
    };
    for (name, file) in row["files"].as_object().unwrap() {
        let path = lab.ws().join(name);
        if name.contains("..") {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, moved(file["content"].as_str().unwrap_or(""))).unwrap();
        use std::os::unix::fs::PermissionsExt;
        let mode = u32::try_from(file["mode"].as_u64().unwrap_or(0o644)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(lab.at("outside/hostname"), "cnry5e1f0c7d9b42\n").unwrap();
    moved(text)
}

/// Nothing was made outside, nothing of outside was read, nothing unlisted was started.
fn nothing_happened(lab: &crate::support::Lab, id: &str, told: &str) {
    let mut outside: Vec<String> = fs::read_dir(lab.at("outside"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    outside.sort();
    assert_eq!(outside, ["hostname", "secret"], "{id}");
    let ran = fs::read_dir(lab.ws()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!ran.into_iter().any(|name| name.starts_with("ran-")), "{id}");
    assert!(!told.contains("cnry5e1f0c7d9b42"), "{id}: {told}");
    for record in lab.records().iter().filter(|record| record["event_type"] == "run.start") {
        let exe = record["exe"].as_str().unwrap();
        assert!(exe.starts_with("/usr/bin/"), "{id}: {exe}");
    }
}

#[test]
fn none_of_the_rows_with_a_line_succeeds() {
    let corpus = fs::read_to_string(root().join("tests/corpora/agent_bypasses_open.jsonl")).unwrap();
    let rows: Vec<Value> = corpus.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let rows: Vec<&Value> = rows.iter().filter(|row| row["shell"].is_string()).collect();
    assert!(rows.len() >= 100, "{}", rows.len());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut came = Vec::new();
    for row in rows {
        let id = row["id"].as_str().unwrap();
        let lab = lab(true, "operators = true", "");
        let text = put(&lab, row, row["shell"].as_str().unwrap());
        crate::lines::give(&lab.ws());
        let as_line = line(&lab, &text);
        let word = if as_line["outcome"] == "denied" { "refused" } else { "ran" };
        if word == "ran" {
            came.push((id.to_owned(), "line", word));
        }
        *counts.entry(format!("line {word}")).or_default() += 1;
        nothing_happened(&lab, id, &as_line["stdout"].to_string());
        let mut served = Served::start(&lab);
        let split: Vec<&str> = text.split_ascii_whitespace().collect();
        for command in [json!(split), json!([text])] {
            let result = call(&mut served, json!({"command": command, "timeout": 20}));
            *counts.entry(format!("elements {}", outcome(&result))).or_default() += 1;
            if outcome(&result) != "refused" {
                came.push((id.to_owned(), "elements", outcome(&result)));
            }
            let told =
                format!("{}{}", result["structuredContent"]["stdout"], result["structuredContent"]["stderr"]);
            // What is only repeated (`echo` of its own words) was never read.
            if !text.contains("cnry5e1f0c7d9b42") {
                nothing_happened(&lab, id, &told);
            } else {
                nothing_happened(&lab, id, "");
            }
            if split.len() == 1 {
                assert_eq!(outcome(&result), "refused", "{id}: {result}");
            }
        }
        served.stop();
    }
    println!("{counts:?}");
    let came: Vec<(&str, &str, &str)> = came.iter().map(|(id, how, word)| (&**id, *how, *word)).collect();
    assert_eq!(came, NOT_REFUSED);
}
