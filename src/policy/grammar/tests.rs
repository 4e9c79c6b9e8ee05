//! Tests of the grammars, by subject, and what they share.

use super::*;
use crate::config::examples::split;

mod awk;
mod dialects;
mod files;
mod operator;
mod outside;
mod paths;
mod properties;
mod refusals;
mod sed;
mod sql;
mod tar;

/// A grammar written in a test.
fn grammar(text: &str) -> Grammar {
    Grammar::parse(text).unwrap()
}

/// The rule that refuses a line, or `ok`.
fn rule(grammar: &Grammar, line: &str) -> String {
    rule_with(grammar, line, &Operator::default())
}

fn rule_with(grammar: &Grammar, line: &str, operator: &Operator<'_>) -> String {
    let words = split(line).unwrap();
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).skip(1).collect();
    grammar.judge(&args, operator).map_or_else(|finding| finding.rule, |_| "ok".to_owned())
}
