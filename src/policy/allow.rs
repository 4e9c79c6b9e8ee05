//! The allow-list, compiled: exact names, full-match patterns, or any name.
//!
//! Purpose: one look-up tells whether a name may run, and with which grants. What does not depend on
//! the request (the always-denied names behind each entry) is judged once, when the list is made.
//! Inputs: commands of the policy. Called by `judge`.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use regex::Regex;

use super::grammar::Library;
use super::grammars::Grammars;
use super::names::DeniedNames;
use super::words::quoted;
use super::{Denial, PolicyError, Reason, RuleKind};
use crate::config::Command;

/// Names that a refusal lists before it goes over to a count.
const LISTED: usize = 40;

/// A compiled allow-list. Made by [`Policy::allow_list`](super::Policy::allow_list).
#[derive(Debug)]
pub struct AllowList {
    entries: HashMap<Vec<u8>, Entry>,
    patterns: Vec<Regex>,
    any: bool,
    /// What a refusal says after `Allowed: `.
    shown: String,
}

/// One exact name.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) command: Arc<Command>,
    /// Set when the name, or a file behind it, is always denied.
    pub(super) refused: Option<Denial>,
    /// What its arguments mean.
    pub(super) grammars: Grammars,
}

impl AllowList {
    pub(super) fn new(
        commands: impl IntoIterator<Item = Arc<Command>>,
        patterns: &[Regex],
        any: bool,
        denied: &DeniedNames,
        library: &Library,
    ) -> Result<Self, PolicyError> {
        let mut entries = HashMap::new();
        for command in commands {
            let refused = if command.interpreter { None } else { refusal(&command, denied) };
            let grammars = Grammars::of(library, command.name.as_bytes(), command.program.as_deref())
                .map_err(PolicyError::Grammar)?;
            grammars.fit(&command)?;
            let command = grammars.with_presets(command);
            entries.insert(command.name.clone().into_bytes(), Entry { command, refused, grammars });
        }
        let patterns = patterns.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let shown = shown(&entries, &patterns, any);
        Ok(Self { entries, patterns, any, shown })
    }

    /// The entry of exactly this name.
    pub(super) fn entry(&self, name: &[u8]) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Every exact name.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The rule that admits a name which has no entry of its own.
    pub(super) fn admits(&self, name: &str) -> Option<(&'static str, RuleKind)> {
        if self.patterns.iter().any(|pattern| pattern.is_match(name)) {
            Some(("allow_patterns", RuleKind::AllowPattern))
        } else if self.any {
            Some(("allow_any", RuleKind::Allow))
        } else {
            None
        }
    }

    /// The refusal of a name that nothing here admits.
    pub(super) fn not_listed(&self, name: &[u8]) -> Denial {
        let message = format!("Command {} is not allowlisted. Allowed: {}", quoted(name), self.shown);
        Denial::new("allow", RuleKind::Allow, Reason::CommandNotAllowed, message)
            .at(0)
            .instead(format!("allowed: {}", self.shown))
    }
}

pub(super) fn refusal(command: &Command, denied: &DeniedNames) -> Option<Denial> {
    let name = command.name.as_bytes();
    denied
        .check_asked(name)
        .and_then(|()| {
            command.program.as_ref().map_or(Ok(()), |program| denied.check_resolved(name, program))
        })
        .err()
}

/// A pattern that matches whole names only, whatever anchors its author wrote: with leftmost-first
/// alternation, "the match spans the name" would refuse `ls` under `l|ls`.
fn whole(pattern: &Regex) -> Result<Regex, PolicyError> {
    let text = pattern.as_str();
    Regex::new(&format!(r"\A(?:{text})\z"))
        .map_err(|error| PolicyError::Pattern { pattern: text.to_owned(), problem: error.to_string() })
}

fn shown(entries: &HashMap<Vec<u8>, Entry>, patterns: &[Regex], any: bool) -> String {
    if any {
        return "any name that is not always refused".to_owned();
    }
    // A listed name that never runs is no offer.
    let runs = entries.values().filter(|entry| entry.refused.is_none());
    let names: BTreeSet<&str> = runs.map(|entry| entry.command.name.as_str()).collect();
    let mut parts: Vec<Cow<'_, str>> = names.iter().take(LISTED).map(|name| Cow::Borrowed(*name)).collect();
    if let Some(more) = names.len().checked_sub(LISTED).filter(|more| *more > 0) {
        parts.push(Cow::Owned(format!("… and {more} more")));
    }
    if !patterns.is_empty() {
        let count = patterns.len();
        let noun = if count == 1 { "pattern" } else { "patterns" };
        parts.push(Cow::Owned(format!("names that match {count} {noun}")));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}
