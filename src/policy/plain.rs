//! `allow_options`, `deny_arguments` and `allow_arguments` without a grammar.
//!
//! Purpose: the rules of the policy file for a program whose options nobody has written down. Nothing
//! says which options take a value, or whether `--` ends them, so each doubt is a refusal:
//! - what begins with a dash must be an allowed option as it is written, or a cluster of allowed letters;
//!   only `--name=value` of an allowed `--name` may have a value attached;
//! - a pattern that refuses is held against every element and every value that one may have attached;
//! - patterns with positions refuse whatever begins with a dash: it may take an operand as its value.
//!
//! Called by `grammars`.

use super::arguments::rule_base;
use super::grammar::{Refused, denied, refused};
use super::words::quoted;
use super::{Denial, Reason, RuleKind};
use crate::config::{ArgumentPattern, ArgumentRules, Command};

/// Judges everything after the name.
pub(super) fn check(command: &Command, arguments: &[&[u8]]) -> Result<(), Denial> {
    check_options(command, arguments)?;
    let rules = &command.argument_rules;
    if rules.has_patterns() { check_operands(command, rules, arguments) } else { Ok(()) }
}

/// Judges the number of arguments.
pub(super) fn check_count(command: &Command, arguments: &[&[u8]]) -> Result<(), Denial> {
    let (count, most) = (arguments.len(), command.argument_rules.max_args.unwrap_or(usize::MAX));
    if count <= most {
        return Ok(());
    }
    let message =
        format!("{count} arguments of '{}' exceed the {most} that the policy file allows.", command.name);
    let rule = format!("{}.max-args", rule_base(command));
    Err(Denial::new(rule, RuleKind::Limit, Reason::ArgvTooLarge, message).instead("give fewer arguments"))
}

/// Judges whatever begins with a dash.
pub(super) fn check_options(command: &Command, arguments: &[&[u8]]) -> Result<(), Denial> {
    let Some(allowed) = &command.argument_rules.allow_options else { return Ok(()) };
    let mut all = arguments.iter().enumerate();
    let refused = all.find(|(_, argument)| is_option(argument) && !is_allowed(allowed, argument));
    let Some((index, argument)) = refused else { return Ok(()) };
    let list = if allowed.is_empty() {
        "no option is".to_owned()
    } else {
        format!("allowed: {}", allowed.join(", "))
    };
    let clause = format!("it is not an option that the policy file allows; {list}");
    Err(denial(command, "allow-options", argument, &clause).at(index.saturating_add(1)))
}

/// `--` alone is none: what follows it is looked at all the same.
fn is_option(argument: &[u8]) -> bool {
    matches!(argument, [b'-', _, ..]) && argument != b"--"
}

fn is_allowed(allowed: &[String], argument: &[u8]) -> bool {
    let name = argument.split(|byte| *byte == b'=').next().unwrap_or(argument);
    let long = argument.starts_with(b"--");
    let mut entries = allowed.iter().map(String::as_bytes);
    if entries.any(|entry| entry == argument || (long && entry == name)) {
        return true;
    }
    let letter = |letter: &u8| allowed.iter().any(|entry| entry.as_bytes() == [b'-', *letter]);
    argument.strip_prefix(b"-").is_some_and(|cluster| !long && cluster.iter().all(letter))
}

fn check_operands(command: &Command, rules: &ArgumentRules, arguments: &[&[u8]]) -> Result<(), Denial> {
    let positional = rules.has_positions();
    let mut ended = false;
    for (index, argument) in arguments.iter().enumerate() {
        let dashed = matches!(argument, [b'-', _, ..]);
        if dashed && positional {
            let clause = "what stands where cannot be told after an option: the program has no option grammar, \
                          and the patterns of the policy file have positions";
            let rule = if rules.deny.is_empty() { "allow-arguments" } else { "deny-arguments" };
            return Err(denial(command, rule, argument, clause).at(index.saturating_add(1)));
        }
        let here = |denial: Denial| denial.at(index.saturating_add(1));
        let about = |own: &&ArgumentPattern| own.is_about(index, index);
        if !dashed || ended {
            judged(command, refused(rules, about, argument), argument).map_err(here)?;
        }
        if dashed {
            judged(command, denied(rules, about, argument, may_refuse), argument).map_err(here)?;
        }
        ended = ended || *argument == b"--";
    }
    Ok(())
}

/// Whether a pattern refuses something that an element with a dash may mean: itself as the value of an
/// option before it, what follows its `=`, or what follows a letter of it.
fn may_refuse(own: &ArgumentPattern, argument: &[u8]) -> bool {
    if !argument.starts_with(b"--") {
        return own.refuses_end(argument);
    }
    let equals = argument.iter().position(|byte| *byte == b'=').and_then(|at| argument.split_at_checked(at));
    let attached = equals.and_then(|(_, value)| value.strip_prefix(b"="));
    own.refuses(argument) || attached.is_some_and(|value| own.refuses(value))
}

fn judged(command: &Command, found: Option<Refused>, argument: &[u8]) -> Result<(), Denial> {
    match found {
        None => Ok(()),
        Some(found) => Err(denial(command, found.rule, argument, &format!("it {}", found.clause))),
    }
}

fn denial(command: &Command, rule: &str, argument: &[u8], clause: &str) -> Denial {
    let message = format!("Argument {} of '{}' is refused: {clause}.", quoted(argument), command.name);
    let rule = format!("{}.{rule}", rule_base(command));
    Denial::new(rule, RuleKind::ArgDeny, Reason::ArgumentDenied, message)
        .instead("leave it out, or give another value")
}
