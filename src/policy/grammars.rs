//! The joint between a command and the grammars of its program.
//!
//! Purpose: finds the grammars by every base name that the program goes by (as asked, as found in the
//! safe PATH, the file behind it), applies the policy file's own rules through them, and puts a finding
//! into words. A program without a grammar is left to `arguments`. Called by `allow` and `judge`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::allow::Entry;
use super::grammar::{Finding, Found, Grammar, Library, Operator};
use super::names::base_name;
use super::paths::{self, View};
use super::words::quoted;
use super::{Denial, PolicyError, Reason, RuleKind, arguments, plain};
use crate::config::Command;
use crate::config::program::Program;

/// Grammars of one command. A renamed link has that of its name and that of its file: both hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Grammars {
    found: [Option<Found>; 3],
}

impl Grammars {
    /// The grammars of what `name` asks for and `program` is.
    ///
    /// # Errors
    /// When a compiled-in program file is broken: what is wrong with it.
    pub(super) fn of(library: &Library, name: &[u8], program: Option<&Program>) -> Result<Self, String> {
        let file = |path: &std::path::Path| library.find(base_name(path.as_os_str().as_bytes()));
        let first = library.find(base_name(name))?;
        let (mut second, mut third) = match program {
            Some(program) => (file(&program.path)?, file(&program.real)?),
            None => (None, None),
        };
        let same = |one: &Option<Found>, other: &Option<Found>| match (one, other) {
            (Some(one), Some(other)) => std::ptr::eq::<Grammar>(&**one, &**other),
            _ => false,
        };
        if same(&third, &first) || same(&third, &second) {
            third = None;
        }
        if same(&second, &first) {
            second = None;
        }
        Ok(Self { found: [first, second, third] })
    }

    /// Whether the program has none.
    pub(super) fn is_empty(&self) -> bool {
        self.found.iter().all(Option::is_none)
    }

    /// `command` with the environment that makes the program harmless, where the policy file does not set
    /// the same name for it.
    pub(super) fn with_presets(&self, command: Arc<Command>) -> Arc<Command> {
        let presets = self.found.iter().flatten().flat_map(|grammar| grammar.environment());
        let mut missing = presets.filter(|(name, _)| !command.environment.contains_key(*name)).peekable();
        if missing.peek().is_none() {
            return command;
        }
        let mut with = Command::clone(&command);
        for (name, value) in missing {
            with.environment.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Arc::new(with)
    }

    /// Whether the policy file's rules of `command` fit what is known of the program.
    ///
    /// # Errors
    /// The rule that does not.
    pub(super) fn fit(&self, command: &Command) -> Result<(), PolicyError> {
        let rules = &command.argument_rules;
        let name = || command.name.clone();
        if self.is_empty() {
            if command.known_only {
                return Err(PolicyError::NoGrammar(name()));
            }
            if let Some(option) = rules.valued_option() {
                return Err(PolicyError::NoGrammarForValue { command: name(), option: option.to_owned() });
            }
        }
        let allowed = rules.allow_options.as_deref().unwrap_or(&[]);
        for grammar in self.found.iter().flatten() {
            if let Some((allowed, denied)) =
                grammar.same_option(command.subcommands.as_deref(), allowed, &command.deny_options)
            {
                let (allowed, denied) = (allowed.to_owned(), denied.to_owned());
                return Err(PolicyError::OptionTwice { command: name(), allowed, denied });
            }
        }
        Ok(())
    }

    /// Each of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().flatten()
    }

    /// Judges the arguments. Answers where in them a command of its own begins, if one does.
    pub(super) fn check(
        &self,
        command: &Command,
        arguments: &[&[u8]],
        view: Option<View<'_>>,
    ) -> Result<Option<usize>, Denial> {
        plain::check_count(command, arguments)?;
        if self.is_empty() {
            arguments::check(command, arguments)?;
            check_paths(command, arguments, view)?;
            return plain::check(command, arguments).map(|()| None);
        }
        let operator = Operator {
            subcommands: command.subcommands.as_deref(),
            deny_options: &command.deny_options,
            known_only: command.known_only,
            view,
            rules: (!command.argument_rules.is_empty()).then_some(&command.argument_rules),
        };
        let mut nested = None;
        for grammar in self.found.iter().flatten() {
            if !grammar.has_subcommands() {
                arguments::check_subcommands(command, arguments)?;
            }
            // To such a grammar every element is an operand, to the operator perhaps not.
            if grammar.is_plain() {
                arguments::check(command, arguments)?;
                plain::check_options(command, arguments)?;
            }
            let judged = grammar
                .judge(arguments, &operator)
                .map_err(|finding| denial(&command.name, &finding, arguments))?;
            nested = nested.or(judged.command);
        }
        Ok(nested)
    }
}

/// Commands that have no argument rules, and those whose rules leave their work to the kernel profile.
pub(super) fn notes<'e>(entries: impl Iterator<Item = &'e Entry>) -> Vec<String> {
    let (mut bare, mut delegated) = (BTreeSet::new(), BTreeSet::new());
    for Entry { command, grammars, .. } in entries.filter(|entry| !entry.command.interpreter) {
        let name = command.name.as_str();
        if grammars.is_empty()
            && command.subcommands.is_none()
            && command.deny_options.is_empty()
            && command.argument_rules.is_empty()
        {
            bare.insert(name);
        }
        if grammars.found.iter().flatten().any(|grammar| grammar.delegated().is_some()) {
            delegated.insert(name);
        }
    }
    let line = |what: &str, names: BTreeSet<&str>| {
        let names: Vec<&str> = names.into_iter().collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    [
        line("no argument rules, kernel confinement only", bare),
        line("what they start and write is delegated to the kernel profile", delegated),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The path rule without a grammar. Which elements are file names is not known: each may be one.
fn check_paths(command: &Command, arguments: &[&[u8]], view: Option<View<'_>>) -> Result<(), Denial> {
    let Some(view) = view else { return Ok(()) };
    match arguments.iter().position(|argument| view.holds_outside(argument)) {
        None => Ok(()),
        Some(at) => Err(denial(&command.name, &paths::refusal(String::new(), at), arguments)),
    }
}

fn denial(name: &str, finding: &Finding, arguments: &[&[u8]]) -> Denial {
    let argument = match arguments.get(finding.at) {
        Some(argument) => format!("Argument {} of '{name}'", quoted(argument)),
        None => format!("Command '{name}' without an argument"),
    };
    let subject = if finding.subject.is_empty() { "it" } else { &finding.subject };
    let mut message = format!("{argument} is refused: {subject} {}", finding.reason);
    if let Some(instead) = &finding.instead {
        message.push_str("; ");
        message.push_str(instead);
    }
    message.push('.');
    let instead = match &finding.instead {
        Some(instead) => Cow::Owned(instead.clone()),
        None if finding.subject.is_empty() => Cow::Borrowed("leave it out, or give another value"),
        None => Cow::Borrowed("leave the option out"),
    };
    let denial = Denial::new(finding.rule.clone(), RuleKind::ArgDeny, Reason::ArgumentDenied, message)
        .instead(instead);
    if finding.at < arguments.len() { denial.at(finding.at.saturating_add(1)) } else { denial }
}

/// The refusal when a compiled-in program file is broken: nothing is allowed unread.
pub(super) fn broken(problem: &str) -> Denial {
    Denial::new(
        "arguments.grammar",
        RuleKind::BuiltinDeny,
        Reason::ArgumentDenied,
        format!("The option grammar of this program is broken ({problem})."),
    )
    .instead("tell the operator of this server, and use another program")
}

#[cfg(test)]
#[path = "grammars_tests.rs"]
mod tests;
