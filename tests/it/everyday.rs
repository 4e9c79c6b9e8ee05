//! Everyday commands that only read, judged by the built-in policy: the corpus of false refusals.
//!
//! A policy that refuses harmless work is soon switched off. What a row needs beyond a name is in its
//! `why`. Nothing here is started, so what the host has installed decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cofferdam::config::{Config, LoadOptions};
use cofferdam::policy::Policy;
use serde_json::Value;

const CORPUS: &str = include_str!("../corpora/everyday_commands.jsonl");

/// Rows that are refused all the same, with the rule behind it.
const REFUSED: &[(&[&str], &str)] = &[
    // Harmless here; the policy refuses the option for the sake of `git diff --no-index` and `git grep`.
    (&["git", "check-ignore", "--no-index", "-v", "a.o"], "git.option.no-index"),
    // Prints a directory, but is no subcommand, and the policy asks for one.
    (&["git", "--exec-path"], "git.subcommand"),
];

/// The least number of rows of a program that its everyday use needs.
const LEAST: &[(&str, usize)] = &[
    ("cat", 5),
    ("cut", 10),
    ("date", 12),
    ("diff", 15),
    ("du", 8),
    ("echo", 5),
    ("file", 5),
    ("find", 20),
    ("git", 250),
    ("grep", 20),
    ("head", 5),
    ("jq", 25),
    ("ls", 10),
    ("printf", 5),
    ("pwd", 2),
    ("rg", 30),
    ("sort", 15),
    ("stat", 5),
    ("tail", 5),
    ("true", 1),
    ("uniq", 5),
    ("wc", 4),
];

fn rows() -> Vec<Vec<String>> {
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(!row["why"].as_str().unwrap().is_empty(), "{line}");
        row["argv"].as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    CORPUS.lines().map(row).collect()
}

fn builtin() -> Policy {
    let options = LoadOptions {
        workspace: Some(PathBuf::from(env!("CARGO_MANIFEST_DIR"))),
        audit_file: Some(std::env::temp_dir().join("cofferdam-everyday/audit.jsonl")),
        ..LoadOptions::default()
    };
    Policy::new(Arc::new(Config::builtin_with(&options).unwrap()), &[]).unwrap()
}

/// The rule that refuses, if one does.
fn refusal(policy: &Policy, argv: &[String]) -> Option<(String, String)> {
    let argv: Vec<&[u8]> = argv.iter().map(String::as_bytes).collect();
    policy.judge_argv(&argv, None).err().map(|denial| (denial.rule.into_owned(), denial.message))
}

#[test]
fn everyday_commands_are_allowed() {
    let (policy, rows) = (builtin(), rows());
    let mut refused = Vec::new();
    for argv in &rows {
        if let Some((rule, message)) = refusal(&policy, argv) {
            println!("{argv:?}: {message}");
            refused.push((argv.clone(), rule));
        }
    }
    let known: Vec<(Vec<String>, String)> = REFUSED
        .iter()
        .map(|(argv, rule)| (argv.iter().map(|&item| item.to_owned()).collect(), (*rule).to_owned()))
        .collect();
    assert_eq!(refused, known);
    assert!(rows.len() >= 400, "{} rows", rows.len());
    let allowed = rows.len() - refused.len();
    assert!(allowed * 100 >= rows.len() * 99, "{allowed} of {} allowed", rows.len());
}

/// No row stands twice, and every program of the policy has its share.
#[test]
fn everyday_commands_cover_the_programs_of_the_policy() {
    let rows = rows();
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for argv in &rows {
        *count.entry(argv[0].as_str()).or_default() += 1;
    }
    let policy = builtin();
    let own: BTreeSet<&str> = policy.config().commands.keys().map(String::as_str).collect();
    assert_eq!(count.keys().copied().collect::<BTreeSet<_>>(), own);
    assert_eq!(LEAST.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), own);
    for (name, least) in LEAST {
        assert!(count[name] >= *least, "{name}: {}", count[name]);
    }
}

/// What looks like an everyday command and starts a helper or writes stays refused.
#[test]
fn neighbours_of_everyday_commands_are_refused() {
    let policy = builtin();
    for line in [
        "git grep -O x",
        "git grep -nOid x",
        "git grep --open-files-in-pager=id x",
        "git -P grep -O x",
        "git diff --ext-diff",
        "git diff-files --output=x",
        "git whatchanged --output x",
        "git show --textconv",
        "git range-diff --ext-diff a b",
        "git annotate --textconv x",
        "git cat-file --filters HEAD:x",
        "git cat-file --filt HEAD:x",
        "git rev-list --filter --output=x HEAD",
        "git --version push",
        "git -c x.y=z --version",
        "git --exec-path=dir --version",
        "git -v commit",
        "git --no-pager push",
        "git diff -Ox --output=y",
        "git diff -O x --ext-diff",
        "rg --pre id x",
        "sort -o x y",
        "find . -delete",
        "date -s now",
        "uniq a b",
        "sed p x",
    ] {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert!(refusal(&policy, &argv).is_some(), "{line}");
    }
}
