//! Tests of `policy/arguments.rs`.

use super::*;
use crate::policy::testing;

fn command(name: &str, subcommands: Option<&[&str]>, deny: &[&str]) -> Command {
    Command {
        subcommands: subcommands.map(|list| list.iter().map(|word| (*word).to_owned()).collect()),
        deny_options: deny.iter().map(|option| (*option).to_owned()).collect(),
        ..testing::command(name)
    }
}

fn verdict(command: &Command, line: &str) -> Result<(), String> {
    let words: Vec<&[u8]> = line.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect();
    check(command, &words).map_err(|denial| denial.rule.into_owned())
}

#[track_caller]
fn refused(command: &Command, line: &str, rule: &str) {
    assert_eq!(verdict(command, line), Err(rule.to_owned()), "{line}");
}

#[test]
fn subcommands_are_exact() {
    let git = command("git", Some(&["log", "grep"]), &[]);
    assert_eq!(verdict(&git, "log --oneline -3"), Ok(()));
    for line in ["push", "logx", "lo", "LOG", "", "-C /tmp log", "--exec-path=/tmp log", "-- log"] {
        refused(&git, line, "git.subcommand");
    }
    let denial = check(&git, &[b"push"]).unwrap_err();
    assert_eq!(denial.message, "Subcommand 'push' of 'git' is not allowed. Allowed: log, grep");
    assert!(
        check(&git, &[b"-c"]).unwrap_err().message.starts_with("Option '-c' before the subcommand of 'git'")
    );
    assert!(check(&git, &[]).unwrap_err().message.contains("needs a subcommand"));
}

/// Peers looked at the subcommand wherever it stood.
#[test]
fn e013_global_options_do_not_hide_a_subcommand() {
    let git = command("git", Some(&["status"]), &[]);
    for option in
        ["--git-dir=x", "--work-tree", "--exec-path=x", "--namespace=x", "--super-prefix=x", "-p", "-c"]
    {
        refused(&git, &format!("{option} status"), "git.subcommand");
    }
}

#[test]
fn e012_long_options_in_every_spelling() {
    let git = command("git", None, &["--output"]);
    for line in ["log --output=x", "log --output x", "log --outp", "log --o=x", "log x --output", "--output"]
    {
        refused(&git, line, "git.option.output");
    }
    for line in [
        "log --outputs",
        "log --pretty=--output",
        "log -- --output",
        "log output",
        "log x -- --output=y",
        "-o",
    ] {
        assert_eq!(verdict(&git, line), Ok(()), "{line}");
    }
    let with_value = command("tool", None, &["--mode=write"]);
    refused(&with_value, "--mode write", "tool.option.mode");
}

#[test]
fn e012_short_options_in_clusters() {
    let git = command("git", None, &["-O"]);
    for line in ["grep -O", "grep -Oless", "grep -nOless", "grep -1O x", "grep x -nO"] {
        refused(&git, line, "git.option.O");
    }
    for line in ["grep --Only", "grep -o", "grep -- -O", "grep O", "-"] {
        assert_eq!(verdict(&git, line), Ok(()), "{line}");
    }
}

#[test]
fn e019_single_dash_words_hold_everywhere() {
    let find = command("/usr/bin/find", None, &["-exec", "-delete"]);
    for line in [". -exec id ;", "-- . -exec id ;", ". -name x -exec id +", ". --exec", ". -exec=x"] {
        refused(&find, line, "find.option.exec");
    }
    refused(&find, ". -delete", "find.option.delete");
    for line in [". -executable", ". -name exec", ". -exe", ". -execdir"] {
        assert_eq!(verdict(&find, line), Ok(()), "{line}");
    }
}

/// `-e` takes the `--` as its value, and what follows is an option again.
#[test]
fn a_double_dash_that_may_be_a_value_does_not_end_options() {
    let git = command("git", None, &["-O", "--output"]);
    refused(&git, "grep -e -- -Oless", "git.option.O");
    refused(&git, "log --grep -- --output=x", "git.option.output");
    assert_eq!(verdict(&git, "grep -e x -- -O"), Ok(()));
}

#[test]
fn messages_escape_what_the_caller_sent() {
    let git = command("git", Some(&["log"]), &["--output"]);
    let denial = check(&git, &[b"a\n\x1b[31mb"]).unwrap_err();
    assert!(!denial.message.contains(['\n', '\u{1b}']), "{:?}", denial.message);
    let denial = check(&git, &[b"log", b"--output=\n"]).unwrap_err();
    assert!(!denial.message.contains('\n'), "{:?}", denial.message);
}
