//! `policy/RULES.md`: every shipped rule in words, generated from the data that decides.

use std::fmt::Write as _;
use std::fs;

use cofferdam::policy::grammar::{self, Grammar};

use crate::scan::root;

const FILE: &str = "policy/RULES.md";

/// Set to 1, it makes the test write the file in place of comparing it.
const REWRITE: &str = "COFFERDAM_REWRITE";

const COMMAND: &str = "COFFERDAM_REWRITE=1 cargo test --test it -- rules::the_document_is_the_data";

const HEAD: &str = "\
# Rules

What cofferdam refuses whatever the allow-list says: options and operands of programs it has a grammar for,
and names that are always denied. A refusal and its audit record name the rule by its id.

A rule is a lint that speaks first, and in words; the kernel profile is the boundary. A program without a
grammar has no argument rules here: only those of its `[command.NAME]` table (`cofferdam check --help-keys`).

These ids are made when a rule applies, and stand in no table:

| rule | refuses |
|---|---|
| `PROGRAM.subcommand` | what `subcommands` of the policy file leaves out |
| `PROGRAM.option.NAME` | what `deny_options` of the policy file names |
| `PROGRAM.allow-options` | an option that `allow_options` of the policy file leaves out, an unknown or an ambiguous one |
| `PROGRAM.deny-arguments` | an operand, or the value of an option, that matches a pattern of `deny_arguments` |
| `PROGRAM.allow-arguments` | one that matches none of the patterns of `allow_arguments` that are about it |
| `PROGRAM.max-args` | more arguments than `max_args` of the policy file |
| `PROGRAM.unknown-option` | an option that the grammar does not know: where it is named below, and everywhere under `arguments = \"known\"` and where `deny_arguments` or `allow_arguments` stand: it might take an operand as its value |
| `PROGRAM.unknown-subcommand` | a subcommand that the grammar has no entry for, under `arguments = \"known\"` |

With `arguments = \"known\"` a name that several programs share (`tar`, `awk`) takes only what each of their
grammars knows, and one whose arguments are all data (`echo`, `true`) takes what it takes without.

Presets are what a command of the program finds in its environment, unless `[command.NAME.environment]` sets
the same name. Helpers are what the program starts for its ordinary work: they run only if `execute` of the
policy file names them. `programs = \"DIR\"` adds grammars of the operator's own; for the names that one lists
it takes the place of a shipped one.
";

/// Text in a table cell: bars would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn program(out: &mut String, grammar: &Grammar) {
    let names: Vec<String> = grammar.names().iter().map(|name| format!("`{name}`")).collect();
    let _ = write!(out, "\n### {}\n\nNames: {}.\n", grammar.program(), names.join(", "));
    if let Some(why) = grammar.delegated() {
        let _ = writeln!(out, "Left to the kernel profile: {}.", why.trim_end_matches('.'));
    }
    let strict: Vec<String> =
        grammar.strict().into_iter().map(|id| format!("`{id}.unknown-option`")).collect();
    if !strict.is_empty() {
        let _ = writeln!(out, "Options that the grammar does not know are refused: {}.", strict.join(", "));
    }
    for (title, list) in [("Presets", presets(grammar)), ("Helpers", helpers(grammar))] {
        if !list.is_empty() {
            let _ = writeln!(out, "\n{title}: {}.", list.join(", "));
        }
    }
    let mut rules = grammar.rules().peekable();
    if rules.peek().is_none() {
        out.push_str("No rules.\n");
        return;
    }
    out.push_str("\n| rule | refuses | because it | instead |\n|---|---|---|---|\n");
    for rule in rules {
        let (about, reason) = (cell(rule.about), cell(rule.reason));
        let instead = cell(rule.instead.unwrap_or(""));
        let _ = writeln!(out, "| `{}` | {about} | {reason} | {instead} |", rule.id);
    }
}

fn presets(grammar: &Grammar) -> Vec<String> {
    grammar.environment().iter().map(|(name, value)| format!("`{name}={value}`")).collect()
}

fn helpers(grammar: &Grammar) -> Vec<String> {
    grammar.helpers().iter().map(|name| format!("`{name}`")).collect()
}

fn denied_names(out: &mut String) {
    let text = fs::read_to_string(root().join("policy/denied-names.toml")).unwrap();
    let table: toml::Table = toml::from_str(&text).unwrap();
    for group in table["group"].as_array().unwrap() {
        let word = |key: &str| group[key].as_str().unwrap();
        let list = |key: &str| -> Vec<String> {
            let words = group.get(key).and_then(toml::Value::as_array).into_iter().flatten();
            words.map(|word| format!("`{}`", word.as_str().unwrap())).collect()
        };
        let _ = write!(out, "\n### names.{}\n\nRefused because {}.", word("id"), word("reason"));
        if group.get("resolved").and_then(toml::Value::as_bool) == Some(false) {
            out.push_str(" Only the name that was asked for counts, not the file behind it.");
        }
        out.push('\n');
        for (title, words) in [("Names", list("names")), ("Patterns", list("patterns"))] {
            if !words.is_empty() {
                let _ = write!(out, "\n{title}: {}.\n", words.join(", "));
            }
        }
    }
}

fn document() -> String {
    let mut out = format!("<!-- Generated. To rewrite it: {COMMAND} -->\n\n{HEAD}");
    out.push_str("\n## Arguments\n");
    for grammar in grammar::programs().unwrap() {
        program(&mut out, grammar);
    }
    out.push_str(
        "\n## Names that are always denied\n\n\
         By base name, of what was asked for and of every file it resolves to. Only `interpreters = \"confine\"`\n\
         in the table of a command lifts it. Patterns match the whole name. Instead: call the program that does\n\
         the work by itself.\n",
    );
    denied_names(&mut out);
    out
}

#[test]
fn the_document_is_the_data() {
    let (path, data) = (root().join(FILE), document());
    if std::env::var(REWRITE).is_ok_and(|value| value == "1") {
        fs::write(&path, &data).unwrap();
    }
    let file = fs::read_to_string(&path).unwrap_or_default();
    let first = file.lines().zip(data.lines()).position(|(file, data)| file != data);
    let line = first.unwrap_or_else(|| file.lines().count().min(data.lines().count())) + 1;
    assert!(file == data, "{FILE} differs from the rules at line {line}; rewrite it with\n    {COMMAND}");
}

#[test]
fn every_rule_is_said_to_be_about_something() {
    for grammar in grammar::programs().unwrap() {
        for rule in grammar.rules() {
            assert!(!rule.about.is_empty() && !rule.about.ends_with("in "), "{}: {}", rule.id, rule.about);
        }
    }
    let text = document();
    for row in [
        "| `sort.output` | `-o`/`--output` | writes a file of the caller's choice |",
        "| `git.config-override` | `-c`, `--config-env` with a value",
        "### names.shell",
    ] {
        assert!(text.contains(row), "{row}");
    }
}
