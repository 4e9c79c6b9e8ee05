//! Argument rules of one command: subcommands and denied options, without a grammar.
//!
//! Purpose: a lint for the caller's benefit (the kernel profile is the boundary). What the options of
//! a program mean is not known here, so each doubt is a refusal:
//! - `--name` refuses `--name`, `--name=value` and each abbreviation of it (`--n`, `--na`, …);
//! - `-O` refuses each cluster of short options that holds the letter, or has it in an attached value;
//! - `-exec` (more than one letter) refuses `-exec`, `--exec` and both with `=value`, also after `--`,
//!   which does not end the expression of such programs (`find -- . -exec`);
//! - `--` ends options only when what stands before it cannot be an option that takes it as a value
//!   (`git grep -e -- -O`);
//! - `key=` refuses every element that begins with it.
//!
//! Called by `grammars`, for programs without an option grammar; subcommands for those with one that
//! knows none.

use std::borrow::Cow;

use super::names::base_name;
use super::words::quoted;
use super::{Denial, Reason, RuleKind};
use crate::config::Command;

/// Judges everything after the name.
pub(super) fn check(command: &Command, arguments: &[&[u8]]) -> Result<(), Denial> {
    check_subcommands(command, arguments)?;
    check_options(command, arguments)
}

fn check_options(command: &Command, arguments: &[&[u8]]) -> Result<(), Denial> {
    if command.deny_options.is_empty() {
        return Ok(());
    }
    let mut ended = false;
    let mut before: &[u8] = b"";
    for (index, argument) in arguments.iter().enumerate() {
        let key = |denied: &&String| denied.ends_with('=') && argument.starts_with(denied.as_bytes());
        if let Some(denied) = command.deny_options.iter().find(key) {
            return Err(denied_option(command, denied, argument).at(index.saturating_add(1)));
        }
        if argument.starts_with(b"-") {
            if *argument == b"--" {
                ended = ended || !before.starts_with(b"-");
            } else if let Some(denied) =
                command.deny_options.iter().find(|denied| reaches(denied, argument, ended))
            {
                return Err(denied_option(command, denied, argument).at(index.saturating_add(1)));
            }
        }
        before = argument;
    }
    Ok(())
}

/// Judges the first argument of a command that is narrowed to subcommands.
pub(super) fn check_subcommands(command: &Command, arguments: &[&[u8]]) -> Result<(), Denial> {
    match &command.subcommands {
        Some(subcommands) => check_subcommand(command, subcommands, arguments.first().copied()),
        None => Ok(()),
    }
}

fn check_subcommand(command: &Command, subcommands: &[String], first: Option<&[u8]>) -> Result<(), Denial> {
    let name = command.name.as_str();
    let said = match first {
        Some(first) if subcommands.iter().any(|allowed| allowed.as_bytes() == first) => return Ok(()),
        Some(first) if first.starts_with(b"-") => {
            format!("Option {} before the subcommand of '{name}' is refused", quoted(first))
        }
        Some(first) => format!("Subcommand {} of '{name}' is not allowed", quoted(first)),
        None => format!("Command '{name}' needs a subcommand as its first argument"),
    };
    let allowed = format!("allowed: {}", subcommands.join(", "));
    let denial = Denial::new(
        format!("{}.subcommand", rule_base(command)),
        RuleKind::ArgDeny,
        Reason::ArgumentDenied,
        format!("{said}. Allowed: {}", subcommands.join(", ")),
    )
    .instead(allowed);
    Err(if first.is_some() { denial.at(1) } else { denial })
}

/// Whether `argument`, which starts with a dash, may mean the denied option.
fn reaches(denied: &str, argument: &[u8], ended: bool) -> bool {
    // A denied `--name=value` denies the option whole: the value may come as its own element.
    let denied = denied.split('=').next().unwrap_or(denied).as_bytes();
    let spelled = argument.split(|byte| *byte == b'=').next().unwrap_or(argument);
    if let Some(long) = denied.strip_prefix(b"--") {
        let asked = spelled.strip_prefix(b"--").filter(|asked| !asked.is_empty());
        return !ended && asked.is_some_and(|asked| long.starts_with(asked));
    }
    match denied.strip_prefix(b"-") {
        Some([letter]) => {
            let cluster = argument.strip_prefix(b"-").filter(|rest| !rest.starts_with(b"-"));
            !ended && cluster.is_some_and(|cluster| cluster.contains(letter))
        }
        Some(word) => {
            let asked = spelled.strip_prefix(b"--").or_else(|| spelled.strip_prefix(b"-"));
            asked == Some(word)
        }
        None => argument == denied,
    }
}

fn denied_option(command: &Command, denied: &str, argument: &[u8]) -> Denial {
    let bare = denied.split('=').next().unwrap_or(denied).trim_start_matches('-');
    let name = command.name.as_str();
    let message = if denied.as_bytes() == argument {
        format!("Option '{denied}' of '{name}' is refused by policy.")
    } else {
        format!(
            "Argument {} of '{name}' is refused: it may mean the denied option '{denied}'.",
            quoted(argument)
        )
    };
    let rule = format!("{}.option.{bare}", rule_base(command));
    Denial::new(rule, RuleKind::ArgDeny, Reason::ArgumentDenied, message).instead("leave the option out")
}

/// First part of a rule id: `jq` for `/usr/bin/jq`.
pub(super) fn rule_base(command: &Command) -> Cow<'_, str> {
    String::from_utf8_lossy(base_name(command.name.as_bytes()))
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
