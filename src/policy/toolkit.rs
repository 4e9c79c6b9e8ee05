//! What a toolkit is narrowed to: a set of names in front of the policy's own allow-list.
//!
//! Purpose: a name that is not in it is refused, at any depth of a command line; one that is goes on to
//! be judged as if there were no toolkit. A toolkit holds no commands of its own, so it has nothing to
//! loosen. Pure. Made and asked by `judge`.

use std::collections::BTreeSet;

use super::allow::AllowList;
use super::words::quoted;
use super::{Denial, PolicyError, Reason, RuleKind};
use crate::config::Toolkit;

/// Names that a refusal lists before it goes over to a count.
const LISTED: usize = 40;

/// The names of one toolkit.
#[derive(Debug)]
pub(super) struct Narrowed {
    names: BTreeSet<Vec<u8>>,
    /// What a refusal says after `Allowed: `.
    shown: String,
}

impl Narrowed {
    /// `None` for a toolkit of all the policy's names.
    pub(super) fn new(toolkit: &Toolkit, policy: &AllowList) -> Result<Option<Self>, PolicyError> {
        let Some(names) = &toolkit.commands else { return Ok(None) };
        let missing = names
            .iter()
            .find(|name| policy.entry(name.as_bytes()).is_none() && policy.admits(name).is_none());
        if let Some(name) = missing {
            return Err(PolicyError::Toolkit { prefix: toolkit.prefix.clone(), name: name.clone() });
        }
        let sorted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        // A listed name that never runs is no offer.
        let runs = |name: &&&str| policy.entry(name.as_bytes()).is_none_or(|entry| entry.refused.is_none());
        let offered: Vec<&str> = sorted.iter().filter(runs).copied().collect();
        let mut shown: Vec<String> = offered.iter().take(LISTED).map(|name| (*name).to_owned()).collect();
        if let Some(more) = offered.len().checked_sub(LISTED).filter(|more| *more > 0) {
            shown.push(format!("… and {more} more"));
        }
        let shown = if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") };
        let names = sorted.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Some(Self { names, shown }))
    }

    pub(super) fn admits(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// The refusal of a name that is not among them.
    pub(super) fn refusal(&self, name: &[u8]) -> Denial {
        let message = format!("Command {} is not allowlisted. Allowed: {}", quoted(name), self.shown);
        Denial::new("toolkit.commands", RuleKind::Allow, Reason::CommandNotAllowed, message)
            .at(0)
            .instead(format!("allowed: {}", self.shown))
    }
}
