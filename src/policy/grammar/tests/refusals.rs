//! What is refused, and under which rule.

use super::{Operator, grammar, rule, rule_with};
use crate::policy::grammar::Grammar;

const FILE: &str = r#"
    program = "t"
    flags = "a"
    values = "f"
    long = ["output|o=", "outline", "color=?", "port=", "mode|m="]

    [[deny]]
    id = "output"
    options = ["--output"]
    reason = "writes a file"
    instead = "use standard output"

    [[deny]]
    id = "port"
    options = ["--port"]
    except = '^[0-9]+$'
    reason = "may be a path"

    [[deny]]
    id = "mode"
    options = ["-m"]
    value = '^w'
    reason = "writes"

    [[deny]]
    id = "third"
    operand = "3.."
    value = '^/'
    reason = "is written"
"#;

#[track_caller]
fn check(grammar: &Grammar, rows: &[(&str, &str)]) {
    for (line, expected) in rows {
        assert_eq!(rule(grammar, line), *expected, "{line}");
    }
}

#[test]
fn options_are_refused_under_every_spelling() {
    check(
        &grammar(FILE),
        &[
            ("t --output x", "t.output"),
            ("t --output=x", "t.output"),
            ("t --outp=x", "t.output"),
            ("t --out x", "t.output"),
            ("t -o x", "t.output"),
            ("t -ox", "t.output"),
            ("t -aox", "t.output"),
            ("t x y -ao", "t.output"),
            ("t --outl", "ok"),
            ("t --outline", "ok"),
            ("t -f -o", "ok"),
            ("t -fo", "ok"),
            ("t -- -o", "ok"),
            ("t -a o", "ok"),
        ],
    );
}

#[test]
fn values_decide_where_a_rule_says_so() {
    check(
        &grammar(FILE),
        &[
            ("t --port 25", "ok"),
            ("t --port=/x", "t.port"),
            ("t --port=", "t.port"),
            ("t --port", "t.port"),
            ("t --mode=read", "ok"),
            ("t -mwrite", "t.mode"),
            ("t -m write", "t.mode"),
        ],
    );
}

#[test]
fn operands_are_counted_without_options() {
    check(
        &grammar(FILE),
        &[
            ("t /a /b", "ok"),
            ("t a b c", "ok"),
            ("t a b /c", "t.third"),
            ("t a -a b -f x /c", "t.third"),
            ("t a b c -- /d", "t.third"),
        ],
    );
}

/// `@FILE` is expanded before options are read: neither `--` nor an option in front of it helps.
#[test]
fn elements_are_looked_at_wherever_they_stand() {
    let file = "program = \"nm\"\nvalues = \"t\"\n[[deny]]\nid = \"file\"\noperand = \"element\"\nvalue = '^@'\nreason = \"r\"";
    check(
        &grammar(file),
        &[
            ("nm @x", "nm.file"),
            ("nm -- @x", "nm.file"),
            ("nm -t @x y", "nm.file"),
            ("nm -t@x y", "ok"),
            ("nm x@y", "ok"),
        ],
    );
}

#[test]
fn a_finding_has_all_that_a_message_needs() {
    let finding = grammar(FILE).judge(&[b"x", b"-ao", b"y"], &Operator::default()).unwrap_err();
    assert_eq!(finding.rule, "t.output");
    assert_eq!(finding.subject, "-o/--output");
    assert_eq!(finding.reason, "writes a file");
    assert_eq!(finding.instead.as_deref(), Some("use standard output"));
    assert_eq!(finding.at, 1);
}

#[test]
fn the_policy_file_refuses_options_through_the_grammar() {
    let grammar = grammar(FILE);
    let denied = ["--color".to_owned(), "-a".to_owned(), "--newer".to_owned(), "-Z".to_owned()];
    let operator = Operator { deny_options: &denied, ..Operator::default() };
    for (line, expected) in [
        ("t --col=x", "t.option.color"),
        ("t -fa", "ok"),
        ("t -f -a", "ok"),
        ("t -a", "t.option.a"),
        ("t -af x", "t.option.a"),
        ("t -- -a", "ok"),
        ("t --newer=x", "t.option.newer"),
        ("t --new x", "t.option.newer"),
        ("t -QZ", "t.option.Z"),
        ("t --zeta", "ok"),
        ("t --o x", "t.output"),
    ] {
        assert_eq!(rule_with(&grammar, line, &operator), expected, "{line}");
    }
}

#[test]
fn strict_mode_refuses_the_unknown() {
    let operator = Operator { known_only: true, ..Operator::default() };
    let grammar = grammar(FILE);
    for (line, expected) in [
        ("t -a --color", "ok"),
        ("t --new", "t.unknown-option"),
        ("t -aQ", "t.unknown-option"),
        ("t -- -Q", "ok"),
    ] {
        assert_eq!(rule_with(&grammar, line, &operator), expected, "{line}");
    }
}

#[test]
fn strict_mode_refuses_subcommands_without_an_entry() {
    let operator = Operator { known_only: true, ..Operator::default() };
    let tree = grammar(
        "program = \"t\"\ndialects = [\"git\"]\n[subcommand.two]\ndialects = [\"gnu\", \"posix\"]\n\
         flags = \"a\"\n",
    );
    for (line, expected) in
        [("t two -a x", "ok"), ("t two -b", "t.two.unknown-option"), ("t other", "t.unknown-subcommand")]
    {
        assert_eq!(rule_with(&tree, line, &operator), expected, "{line}");
        assert_eq!(rule(&tree, line), "ok", "{line}");
    }
}

const TREE: &str = r#"
    program = "vcs"
    dialects = ["git"]
    values = "C"

    [set.diff]
    long = ["output="]
    [[set.diff.deny]]
    id = "output"
    options = ["--output"]
    reason = "writes a file"

    [subcommand.log]
    sets = ["diff"]
    long = ["oneline"]

    [subcommand.grep]
    unknown_short = "deny"
    flags = "n"
    optional = "O"
    [[subcommand.grep.deny]]
    id = "pager"
    options = ["-O"]
    reason = "opens files in a pager"

    [subcommand.log.subcommand.deep]

    [subcommand.old]
    [[subcommand.old.deny]]
    id = "old"
    reason = "runs a script"

    [subcommand.set]
    long = ["get", "list|l"]
    [[subcommand.set.deny]]
    id = "write"
    operand = "2.."
    unless = ["--get", "--list"]
    reason = "changes the configuration"

    [subcommand."*"]
    long = ["exec="]
    [[subcommand."*".deny]]
    id = "exec"
    options = ["--exec"]
    reason = "starts a program"
"#;

#[test]
fn subcommands_have_rules_of_their_own() {
    check(
        &grammar(TREE),
        &[
            ("vcs log --oneline", "ok"),
            ("vcs log --outp=x", "vcs.log.output"),
            ("vcs -C log log --out x", "vcs.log.output"),
            ("vcs log -- --output=x", "ok"),
            ("vcs grep -nO", "vcs.grep.pager"),
            ("vcs grep -nQ", "vcs.grep.unknown-option"),
            ("vcs grep --quiet", "ok"),
            ("vcs grep --exec=x", "ok"),
            ("vcs fetch --ex=x", "vcs.exec"),
            ("vcs old", "vcs.old.old"),
            ("vcs old --help", "vcs.old.old"),
            ("vcs log old", "ok"),
        ],
    );
}

#[test]
fn an_option_anywhere_may_lift_a_rule() {
    check(
        &grammar(TREE),
        &[
            ("vcs set name", "ok"),
            ("vcs set name value", "vcs.set.write"),
            ("vcs set name value --get", "ok"),
            ("vcs set --li name value", "ok"),
            ("vcs set -l name value", "ok"),
            ("vcs set -- name value --get", "vcs.set.write"),
            ("vcs set a b c d e f g h", "vcs.set.write"),
            ("vcs set a b c d e f g h --get", "ok"),
        ],
    );
}

#[test]
fn the_policy_file_narrows_subcommands() {
    let allowed = ["log".to_owned()];
    let operator = Operator { subcommands: Some(&allowed), ..Operator::default() };
    let grammar = grammar(TREE);
    for (line, expected) in [
        ("vcs log", "ok"),
        ("vcs -C log log x", "ok"),
        ("vcs grep x", "vcs.subcommand"),
        ("vcs fetch", "vcs.subcommand"),
        ("vcs -C log grep x", "vcs.subcommand"),
        ("vcs", "vcs.subcommand"),
        ("vcs -C log", "vcs.subcommand"),
        ("vcs log -- grep", "ok"),
    ] {
        assert_eq!(rule_with(&grammar, line, &operator), expected, "{line}");
    }
}

#[test]
fn subcommands_are_counted_in_each_reading_for_itself() {
    let allowed = ["log".to_owned()];
    let operator = Operator { subcommands: Some(&allowed), ..Operator::default() };
    let flat = "[also.flat]\nlong = [\"exec=\"]\n[[also.flat.deny]]\nid = \"exec\"\noptions = [\"--exec\"]\nreason = \"runs\"";
    let grammar = grammar(&format!("{TREE}\n{flat}"));
    for (line, expected) in [
        ("vcs log", "ok"),
        ("vcs log --exec x", "vcs.flat.exec"),
        ("vcs grep x", "vcs.subcommand"),
        ("vcs", "vcs.subcommand"),
    ] {
        assert_eq!(rule_with(&grammar, line, &operator), expected, "{line}");
    }
}

#[test]
fn a_command_among_the_operands_is_found() {
    let nice =
        grammar("program = \"nice\"\ndialects = [\"posix\"]\nvalues = \"n\"\ncommand = { operand = 1 }");
    let at = |args: &[&[u8]]| nice.judge(args, &Operator::default()).unwrap().command;
    assert_eq!(at(&[b"-n", b"5", b"sort", b"-o"]), Some(2));
    assert_eq!(at(&[b"--", b"sort"]), Some(1));
    assert_eq!(at(&[b"-n", b"5"]), None);
}

#[test]
fn broken_files_say_what_is_wrong() {
    for (text, says) in [
        ("flags = \"a\"", "names no program"),
        ("program = \"t\"\nflag = \"a\"", "unknown field"),
        ("program = \"t\"\nflags = \"aa\"", "option 'a' stands twice"),
        ("program = \"t\"\nlong = [\"--x\"]", "without dashes"),
        (
            "program = \"t\"\n[[deny]]\nid = \"x\"\noptions = [\"-x\"]\nreason = \"r\"",
            "which is not declared",
        ),
        ("program = \"t\"\n[[deny]]\nid = \"x\"\nreason = \"r\"", "options or an operand"),
        ("program = \"t\"\n[[deny]]\nid = \"x\"\noperand = 0\nreason = \"r\"", "a number from 1"),
        ("program = \"t\"\n[[deny]]\nid = \"x\"\noperand = 1\nvalue = \"(\"\nreason = \"r\"", "rule 't.x'"),
        ("program = \"t\"\nsets = [\"x\"]", "set 'x' is not in the file"),
        ("program = \"t\"\n[set.x]\ndialects = [\"gnu\"]", "options, texts and rules only"),
        ("program = \"t\"\n[subcommand.x]\nhelpers = [\"y\"]", "belong to the whole file"),
        (
            "program = \"t\"\ndialects = [\"gnu\", \"posix\"]\ncommand = { operand = 1 }",
            "exactly one dialect",
        ),
    ] {
        let error = Grammar::parse(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}
