//! The operator's rules against every spelling of every option of every program file.

use super::*;
use crate::config::{ArgumentPattern, ArgumentRules, Subject};
use crate::policy::grammar::dialect::Dialect;
use crate::policy::grammar::model::{Arity, Found, Node, Opt};

/// Words in front of the options of a node, and the node.
type Place<'g> = (Vec<&'g [u8]>, &'g Node);

/// Nodes whose options have abbreviations and clusters.
fn places(grammar: &Grammar) -> Vec<Place<'_>> {
    let children = grammar.root.children.iter().map(|(name, child)| (vec![name.as_slice()], &**child));
    let getopt = |node: &Node| {
        node.dialects.iter().all(|dialect| {
            matches!(
                dialect,
                Dialect::Gnu | Dialect::Posix | Dialect::ParseOptions | Dialect::ParseOptionsPosix
            )
        })
    };
    std::iter::once((Vec::new(), &grammar.root))
        .chain(children)
        .filter(|(_, node)| getopt(node) && node.refused.is_none())
        .collect()
}

/// Every way to write `option`, with a value where it takes one; `alone`: not behind another letter.
fn spellings(node: &Node, option: &Opt, alone: bool) -> Vec<Vec<Vec<u8>>> {
    let same = |found: Found<'_>| matches!(found, Found::Option(own) if std::ptr::eq(own, option));
    let mut heads: Vec<(Vec<u8>, bool)> = Vec::new();
    for name in &option.names {
        if let Some(long) = name.strip_prefix("--") {
            for length in 1..=long.len() {
                if same(node.table.abbreviated(&long.as_bytes()[..length])) {
                    heads.push((format!("--{}", &long[..length]).into_bytes(), true));
                }
            }
        } else {
            heads.push((name.clone().into_bytes(), false));
            let flag = (b'a'..=b'z').find(|letter| {
                node.table
                    .short(*letter)
                    .is_some_and(|own| own.arity == Arity::Flag && !std::ptr::eq(own, option))
            });
            if let Some(flag) = flag.filter(|_| !alone) {
                heads.push((vec![b'-', flag, name.as_bytes()[1]], false));
            }
        }
    }
    let mut all = Vec::new();
    for (head, long) in heads {
        let attached = |value: &str| [&head[..], if long { b"=" } else { b"" }, value.as_bytes()].concat();
        if option.arity != Arity::Required {
            all.push(vec![head.clone()]);
        }
        if option.arity != Arity::Flag {
            all.push(vec![attached("~")]);
        }
        if option.arity == Arity::Required {
            all.push(vec![head.clone(), b"~".to_vec()]);
        }
    }
    all
}

/// The rule that refuses `words` behind those of the place.
fn judged(grammar: &Grammar, front: &[&[u8]], words: &[Vec<u8>], operator: &Operator<'_>) -> String {
    let args: Vec<&[u8]> = front.iter().copied().chain(words.iter().map(Vec::as_slice)).collect();
    grammar.judge(&args, operator).map_or_else(|finding| finding.rule, |_| "ok".to_owned())
}

/// Calls `each` for every option of every file, with the words in front of it.
fn every_option(mut each: impl FnMut(&Grammar, &[&[u8]], &Node, &Opt)) -> usize {
    let mut count = 0;
    for grammar in programs().unwrap() {
        for (front, node) in places(grammar) {
            for option in node.table.options() {
                each(grammar, &front, node, option);
                count += 1;
            }
        }
    }
    count
}

#[test]
fn no_spelling_of_any_option_slips_past_an_empty_allow_list() {
    let rules = ArgumentRules { allow_options: Some(Vec::new()), ..ArgumentRules::default() };
    let operator = Operator { rules: Some(&rules), ..Operator::default() };
    let mut wrong = Vec::new();
    let count = every_option(|grammar, front, node, option| {
        for words in spellings(node, option, false) {
            if judged(grammar, front, &words, &operator) == "ok" {
                wrong.push(format!("{} {:?} {words:?}", grammar.program(), front));
            }
        }
    });
    assert_eq!(wrong, Vec::<String>::new());
    assert!(count > 1000, "{count}");
}

#[test]
fn no_spelling_of_any_option_slips_past_a_deny_list() {
    let mut wrong = Vec::new();
    every_option(|grammar, front, node, option| {
        for name in &option.names {
            let denied = [name.clone()];
            let operator = Operator { deny_options: &denied, ..Operator::default() };
            for words in spellings(node, option, false) {
                if judged(grammar, front, &words, &operator) == "ok" {
                    wrong.push(format!("{} {front:?} {words:?}: {name}", grammar.program()));
                }
            }
        }
    });
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn no_spelling_of_a_value_slips_past_a_pattern() {
    let mut wrong = Vec::new();
    every_option(|grammar, front, node, option| {
        let name = option.names[0].clone();
        let one = ArgumentPattern::new(Subject::Value(name), "~", true).unwrap();
        let rules = ArgumentRules { deny: vec![one], ..ArgumentRules::default() };
        let operator = Operator { rules: Some(&rules), ..Operator::default() };
        for words in spellings(node, option, false) {
            let valued = option.arity == Arity::Required || words[0].ends_with(b"~");
            if valued && option.arity != Arity::Flag && judged(grammar, front, &words, &operator) == "ok" {
                wrong.push(format!("{} {front:?} {words:?}", grammar.program()));
            }
        }
    });
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_spelling_of_an_allowed_option_is_that_option() {
    let mut wrong = Vec::new();
    every_option(|grammar, front, node, option| {
        // Where several programs share a name, an option of one may be none of another.
        if node.dialects.len() > 1 || !node.also.is_empty() {
            return;
        }
        for name in &option.names {
            let allow_options = Some(vec![name.clone()]);
            let rules = ArgumentRules { allow_options, ..ArgumentRules::default() };
            let operator = Operator { rules: Some(&rules), ..Operator::default() };
            for words in spellings(node, option, true) {
                if judged(grammar, front, &words, &operator).ends_with(".allow-options") {
                    wrong.push(format!("{} {front:?} {words:?}: {name}", grammar.program()));
                }
            }
        }
    });
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn operands_behind_what_is_not_known_are_not_counted_but_refused() {
    let own = grammar("program = \"p\"\nflags = \"a\"\nvalues = \"o\"\nlong = [\"one=\", \"once\"]\n");
    let first = ArgumentPattern::new(Subject::Operands(0, 0), "x", true).unwrap();
    let rules = ArgumentRules { deny: vec![first], ..ArgumentRules::default() };
    let operator = Operator { rules: Some(&rules), ..Operator::default() };
    for (line, expected) in [
        ("p a x", "ok"),
        ("p x a", "p.deny-arguments"),
        ("p -o y x", "p.deny-arguments"),
        ("p -a x", "p.deny-arguments"),
        ("p -- x", "p.deny-arguments"),
        ("p -o x y", "ok"),
        ("p -z y x", "p.unknown-option"),
        ("p a x -z", "p.unknown-option"),
        ("p --on y x", "p.unknown-option"),
        ("p --two=1 y", "p.unknown-option"),
    ] {
        assert_eq!(rule_with(&own, line, &operator), expected, "{line}");
    }
}
