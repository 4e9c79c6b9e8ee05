//! Every program file that is compiled in: its examples, its names, its rules.

use std::collections::BTreeSet;

use super::rule;
use crate::policy::grammar::{Grammar, names, program, programs};

#[test]
fn every_example_has_its_verdict() {
    let mut wrong = Vec::new();
    for grammar in programs().unwrap() {
        assert!(!grammar.examples().is_empty(), "{} has no examples", grammar.program());
        for example in grammar.examples() {
            let rule = rule(grammar, &example.line);
            if (rule == "ok") != example.allowed {
                wrong.push(format!("{}: {rule}", example.line));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_list_of_files_agrees_with_the_files() {
    let mut seen = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for grammar in programs().unwrap() {
        for name in grammar.names() {
            assert!(seen.insert(name.as_str()), "{name} is named by two files");
            let found = program(name.as_bytes()).unwrap();
            assert_eq!(found.map(Grammar::program), Some(grammar.program()), "{name}");
        }
        for rule in grammar.rules() {
            assert!(ids.insert(rule.id), "rule {} stands twice", rule.id);
            assert!(rule.id.starts_with(&format!("{}.", grammar.program())), "{}", rule.id);
        }
    }
    assert_eq!(seen, names().collect());
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policy/programs");
    let files: BTreeSet<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace(".toml", ""))
        .collect();
    assert_eq!(files, programs().unwrap().iter().map(|grammar| grammar.program().to_owned()).collect());
}

#[test]
fn every_rule_is_shown_by_an_example() {
    let mut unshown = Vec::new();
    for grammar in programs().unwrap() {
        let lines = grammar.examples().iter().filter(|example| !example.allowed);
        let shown: BTreeSet<String> = lines.map(|example| rule(grammar, &example.line)).collect();
        unshown.extend(grammar.rules().map(|rule| rule.id.to_owned()).filter(|id| !shown.contains(id)));
    }
    assert_eq!(unshown, Vec::<String>::new());
}
