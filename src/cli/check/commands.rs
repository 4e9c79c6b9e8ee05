//! Lints of the commands: what they can start, and rules that do not say what they seem to.
//!
//! Purpose: knowledge about programs meets the rules that the policy adds. Inputs: the policy, the
//! grammars and lists of this build. Called by `check` only.

use std::collections::BTreeMap;

use super::lint::Book;
use crate::config::Command;
use crate::policy::grammar::{Found, Grammar, Standing};
use crate::policy::{PolicyError, Reason, knowledge};
use crate::sandbox::profile::Profile;

pub(super) fn look(book: &mut Book<'_>) -> Result<(), PolicyError> {
    let config = book.config;
    for command in config.commands.values() {
        let found = book.policy.grammars(command)?;
        let grammars: Vec<&Grammar> = found.iter().map(|grammar| &**grammar).collect();
        if !name(book, command)? {
            continue;
        }
        powers(book, command, &grammars)?;
        starts(book, command);
        if command.any_path {
            let key = format!("{}.paths", book.places.command(&command.name));
            let message = format!(
                "{} may be given file names outside of the workspace; the kernel alone says what it can open",
                command.name
            );
            book.add("paths-any", key, message, "remove the key where that is not needed");
        }
        subcommands(book, command, &grammars);
        options(book, command, &grammars);
    }
    same_program(book)
}

/// Whether the name can run at all, and is not opted in whatever it does.
fn name(book: &mut Book<'_>, command: &Command) -> Result<bool, PolicyError> {
    let name = command.name.as_str();
    let key = book.places.command(name);
    if !command.interpreter {
        return Ok(match book.policy.judge_argv(&[name.as_bytes()], None) {
            Err(denial) if denial.reason == Reason::CommandAlwaysDenied => {
                let message = format!("{name} is listed, but never runs: {}", denial.message);
                let remedy = "remove it; or, where running whatever text it is given is meant, set interpreters = \"confine\" in \
                              its table: the kernel then confines it";
                book.add("always-denied", key, message, remedy);
                false
            }
            _ => true,
        });
    }
    let real = command.program.as_ref().and_then(|program| program.real.to_str());
    let denied = |name: &str| knowledge::always_denied(name).map(|group| group.is_some());
    let key = format!("{key}.interpreters");
    if denied(name)? || real.map_or(Ok(false), denied)? {
        let message = format!(
            "command.{name}: interpreters = \"confine\": it runs any program text it is given; only the kernel \
             confines it"
        );
        book.add("interpreter-confined", key, message, "allow the programs that the scripts would call");
        return Ok(false);
    }
    let message =
        format!("{name} is not a name that is always refused; interpreters = \"confine\" adds nothing");
    book.add("confine-needless", key, message, "remove the key");
    Ok(true)
}

/// A script of a shell that is not listed, an interpreter that is not there, a broken file.
fn starts(book: &mut Book<'_>, command: &Command) {
    let Some(program) = &command.program else { return };
    if let Err(error) = Profile::compile(book.config, command, program) {
        let key = book.places.command(&command.name);
        let message = format!("{} cannot start: {error}", command.name);
        book.add("cannot-start", key, message, "as it says, or remove the name");
    }
}

/// What the program can do by what is known of it.
fn powers(book: &mut Book<'_>, command: &Command, grammars: &[&Grammar]) -> Result<(), PolicyError> {
    let name = command.name.as_str();
    let key = book.places.command(name);
    let runs = knowledge::runs_programs(name).map_err(PolicyError::Grammar)?;
    let delegated = grammars.iter().find_map(|grammar| grammar.delegated());
    if let Some(why) = delegated {
        let message = format!("what it starts and writes is delegated to the kernel profile: {name}");
        if runs || why.contains("start") || why.contains("run") {
            book.add("runs-programs", key, message, format!("allow it only where that is wanted: it {why}"));
        } else {
            book.add("writes-files", key, message, format!("nothing, where that is wanted: it {why}"));
        }
    } else if runs && (grammars.is_empty() || !book.config.argument_rules) {
        let why = if grammars.is_empty() { "no grammar says how" } else { "the rules against it are off" };
        let message =
            format!("{name} is known to start other programs, and {why}; only the kernel confines it");
        let remedy = "remove it, or narrow it with subcommands and deny_options, and grant it no execute";
        book.add("runs-programs", key, message, remedy);
    } else if grammars.is_empty() {
        if command.subcommands.is_none() && command.deny_options.is_empty() {
            let message = format!("no argument rules, kernel confinement only: {name}");
            book.add("no-grammar", key, message, "narrow it with subcommands or deny_options if need be");
        } else {
            let message =
                format!("{name} has no grammar: what its options mean is guessed from their spelling");
            book.add("no-grammar", key, message, "prove its rules by examples");
        }
    }
    Ok(())
}

fn subcommands(book: &mut Book<'_>, command: &Command, grammars: &[&Grammar]) {
    let trees: Vec<&&Grammar> = grammars.iter().filter(|grammar| grammar.has_subcommands()).collect();
    let list = format!("{}.subcommands", book.places.command(&command.name));
    for name in command.subcommands.iter().flatten() {
        for grammar in &trees {
            let key = book.places.element(&list, name);
            match grammar.subcommand(name) {
                Standing::Known => {}
                Standing::Refused(rule) => {
                    let message = format!(
                        "subcommand {name} of {} is listed, but refused by rule {rule}",
                        command.name
                    );
                    book.add("subcommand-refused", key, message, "remove it");
                }
                Standing::Unknown => {
                    let message = format!("the grammar of {} knows no subcommand {name}", grammar.program());
                    book.add(
                        "subcommand-unknown",
                        key,
                        message,
                        "check its spelling; an alias runs what settings say",
                    );
                }
            }
        }
    }
}

fn options(book: &mut Book<'_>, command: &Command, grammars: &[&Grammar]) {
    let list = format!("{}.deny_options", book.places.command(&command.name));
    for option in &command.deny_options {
        let standings: Vec<Standing<'_>> =
            grammars.iter().map(|grammar| grammar.option(option, command.subcommands.as_deref())).collect();
        let key = book.places.element(&list, option);
        if standings.is_empty() || standings.contains(&Standing::Known) {
            if grammars.iter().any(|grammar| grammar.is_spelled_once(option, command.subcommands.as_deref()))
            {
                let message = format!("the grammar of {} knows {option} by this name only", command.name);
                book.add("deny-option-spelling", key, message, "list its other name, too, if it has one");
            }
            continue;
        }
        let refused = standings.iter().find_map(|standing| match standing {
            Standing::Refused(rule) => Some(*rule),
            Standing::Known | Standing::Unknown => None,
        });
        if let Some(rule) = refused {
            let message = format!("option {option} of {} is refused by rule {rule} anyway", command.name);
            book.add("deny-option-refused", key, message, "remove it, or keep it as a statement");
        } else if grammars.iter().any(|grammar| grammar.option(option, None) != Standing::Unknown) {
            let message =
                format!("option {option} of {} is one of subcommands that are not listed", command.name);
            book.add("deny-option-unreached", key, message, "remove it, or keep it as a statement");
        } else {
            let message = format!("the grammar of {} knows no option {option}", command.name);
            book.add("deny-option-unknown", key, message, "check its spelling, or remove it");
        }
    }
}

/// Names that reach one file under rules of their own: a caller takes the laxer one.
fn same_program(book: &mut Book<'_>) -> Result<(), PolicyError> {
    let mut files: BTreeMap<(u64, u64), Vec<&Command>> = BTreeMap::new();
    for command in book.config.commands.values() {
        if let Some(program) = &command.program {
            files.entry((program.dev, program.ino)).or_default().push(command);
        }
    }
    for commands in files.into_values().filter(|commands| commands.len() > 1) {
        for lax in &commands {
            for strict in &commands {
                if loosens(lax, strict) && related(book, lax, strict)? {
                    let message = format!(
                        "{} and {} are the same program, but the rules of {} do not hold for {}",
                        strict.name, lax.name, strict.name, lax.name
                    );
                    let key = book.places.command(&lax.name);
                    book.add("same-program", key, message, "give both the same rules, or keep one");
                }
            }
        }
    }
    Ok(())
}

/// Whether `lax` lacks a rule that `strict` has.
fn loosens(lax: &Command, strict: &Command) -> bool {
    let narrowed = match (&lax.subcommands, &strict.subcommands) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(own), Some(others)) => own.iter().all(|name| others.contains(name)),
    };
    let denied = strict.deny_options.iter().all(|option| lax.deny_options.contains(option));
    let unruled = lax.argument_rules.is_empty() && !strict.argument_rules.is_empty();
    !narrowed
        || !denied
        || unruled
        || (lax.any_path && !strict.any_path)
        || (strict.known_only && !lax.known_only)
}

/// Whether two names mean one program: one file may be hundreds (uutils, busybox).
fn related(book: &Book<'_>, one: &Command, other: &Command) -> Result<bool, PolicyError> {
    let base = |command: &Command| command.name.rsplit('/').next().map(str::to_owned);
    if base(one) == base(other) {
        return Ok(true);
    }
    let others = book.policy.grammars(other)?;
    let shared = |own: &Found| others.iter().any(|other| std::ptr::eq::<Grammar>(&**own, &**other));
    Ok(book.policy.grammars(one)?.iter().any(shared))
}
