//! What holds for any argument vector, for every shipped grammar.

use std::ops::ControlFlow;

use proptest::prelude::*;

use super::Operator;
use crate::policy::grammar::dialect::walk_all;
use crate::policy::grammar::event::Event;
use crate::policy::grammar::{Grammar, programs};

/// Arguments that look like what programs read: dashes, names of options, values, junk.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<String> = programs()
        .unwrap()
        .iter()
        .flat_map(|grammar| grammar.root.table.longs.iter())
        .map(|long| String::from_utf8(long.name.clone()).unwrap())
        .collect();
    prop_oneof![
        Just(b"--".to_vec()),
        Just(b"-".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
        "-{1,2}[a-zA-Z0-9=]{0,6}".prop_map(String::into_bytes),
        (proptest::sample::select(names), 1..20usize, "-{0,2}", "(=[a-z/]{0,3})?").prop_map(
            |(name, cut, dashes, value)| {
                let name: String = name.chars().take(cut).collect();
                format!("{dashes}{name}{value}").into_bytes()
            }
        ),
    ]
}

fn arguments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(argument(), 0..12)
}

fn slices(arguments: &[Vec<u8>]) -> Vec<&[u8]> {
    arguments.iter().map(Vec::as_slice).collect()
}

/// How many events a walk reports, with every candidate of an ambiguous name.
fn steps(grammar: &Grammar, args: &[&[u8]]) -> usize {
    let mut steps = 0;
    let _ = walk_all(&grammar.root, None, args, 0, &mut |event| {
        steps += match event {
            Event::Ambiguous { candidates, .. } => candidates.len(),
            _ => 1,
        };
        ControlFlow::Continue(())
    });
    steps
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No panic, one verdict, and no more steps than letters and a table's names for each element.
    #[test]
    fn any_vector_has_a_verdict_in_linear_work(arguments in arguments()) {
        let args = slices(&arguments);
        let bytes: usize = args.iter().map(|argument| argument.len() + 1).sum();
        for grammar in programs().unwrap() {
            let first = grammar.judge(&args, &Operator::default());
            prop_assert_eq!(&first, &grammar.judge(&args, &Operator::default()));
            if let Err(finding) = first {
                prop_assert!(finding.at < args.len());
                let general = [".unknown-option", ".program-text"].iter().any(|id| finding.rule.ends_with(id));
                prop_assert!(general || grammar.rules().any(|rule| rule.id == finding.rule));
            }
            let nodes = std::iter::once(&grammar.root).chain(grammar.root.also.iter().map(|also| &**also));
            let most: usize = nodes
                .map(|node| node.dialects.len() * (1 + 2 * bytes + args.len() * node.table.longs.len()))
                .sum();
            prop_assert!(steps(grammar, &args) <= most, "{}", grammar.program());
        }
    }

    /// What stands after a `--` that is not the value of an option is data to every reader of options.
    #[test]
    fn nothing_after_a_double_dash_is_an_option(arguments in arguments()) {
        let mut args: Vec<&[u8]> = vec![b"--"];
        args.extend(arguments.iter().map(Vec::as_slice));
        for name in ["sort", "rg", "fd", "ag", "shuf", "split", "install", "file", "sdiff", "grep", "wc"] {
            let grammar = crate::policy::grammar::program(name.as_bytes()).unwrap().unwrap();
            prop_assert_eq!(grammar.judge(&args, &Operator::default()).map(drop), Ok(()), "{}", name);
        }
    }

    /// Nothing that is put around a refused option, short of making it a value or ending the options,
    /// makes it allowed.
    #[test]
    fn flags_and_operands_do_not_hide_a_refused_option(
        before in proptest::collection::vec("(-[bdfgi]{1,3}|--reverse|--uniq|[a-z]{0,3})", 0..6),
        spelling in "(-[rnu]{0,2}o[a-z/]{0,3}|--o(u(t(p(u(t)?)?)?)?)?(=[a-z]{0,2})?|--co[a-z]{0,0}=x|-T/tmp)",
        after in arguments(),
    ) {
        let sort = crate::policy::grammar::program(b"sort").unwrap().unwrap();
        let mut args: Vec<&[u8]> = before.iter().map(String::as_bytes).collect();
        args.push(spelling.as_bytes());
        args.extend(after.iter().map(Vec::as_slice));
        prop_assert!(sort.judge(&args, &Operator::default()).is_err());
    }
}

/// A long vector costs steps in proportion to its length.
#[test]
fn long_vectors_cost_in_proportion() {
    for grammar in programs().unwrap() {
        let cost = |count: usize| steps(grammar, &vec![b"-abc".as_slice(); count]);
        assert_eq!(cost(4000) - cost(2000), cost(3000) - cost(1000), "{}", grammar.program());
    }
}
