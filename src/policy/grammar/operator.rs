//! The policy file's own rules for options, operands and values.
//!
//! Purpose: what `allow_options`, `deny_arguments` and `allow_arguments` refuse, asked for each event of
//! a walk. Options are known by the grammar, so that every spelling of one is that one. Where a pattern
//! has to know what is an operand, an option that the grammar does not know is refused: it might take
//! one as its value. Called by `rules` only.

use std::ops::ControlFlow;

use super::event::{Finding, Flow};
use super::gnu;
use super::model::{Node, Opt, bare};
use super::rules::{Operator, program, subject};
use crate::config::{ArgumentPattern, ArgumentRules, Subject};
use crate::policy::words::quoted;

/// One element of the arguments and the node it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Element<'g, 'a> {
    pub(super) node: &'g Node,
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl Element<'_, '_> {
    /// Whether it is spelled as `name`, an attached value left out.
    pub(super) fn is_spelled(&self, name: &str) -> bool {
        // After one letter, `=` begins its value or is a letter itself.
        let own = if name.len() > 2 { gnu::split(self.text).0 } else { self.text };
        own == name.as_bytes()
    }

    /// The refusal of this element by the rule `PROGRAM.rule`.
    pub(super) fn refuse(
        &self,
        rule: &str,
        subject: String,
        reason: String,
        instead: Option<String>,
    ) -> Flow {
        let program = program(&self.node.id);
        ControlFlow::Break(Finding {
            rule: format!("{program}.{rule}"),
            subject,
            reason,
            instead,
            at: self.at,
        })
    }

    fn not_allowed(&self, allowed: &[String], subject: String) -> Flow {
        let instead = match allowed {
            [] => "no option is".to_owned(),
            _ => format!("allowed: {}", allowed.join(", ")),
        };
        let reason = "is not an option that the policy file allows".to_owned();
        self.refuse("allow-options", subject, reason, Some(instead))
    }
}

impl<'c> Operator<'c> {
    fn allow_options(&self) -> Option<&'c [String]> {
        self.rules.and_then(|rules| rules.allow_options.as_deref())
    }

    /// Judges an option that the grammar knows, and its value.
    pub(super) fn option(&self, here: Element<'_, '_>, option: &Opt, value: Option<&[u8]>) -> Flow {
        if let Some(allowed) = self.allow_options()
            && !allowed.iter().any(|own| option.is_named(own) || here.is_spelled(own))
        {
            return here.not_allowed(allowed, subject(Some(option)));
        }
        let Some(rules) = self.rules.filter(|rules| rules.has_patterns()) else {
            return ControlFlow::Continue(());
        };
        let about = |own: &&ArgumentPattern| matches!(&own.subject, Subject::Value(name) if option.is_named(name) || here.is_spelled(name));
        let value = value.unwrap_or(b"");
        let said = || format!("has the value {}, which", quoted(value));
        self.patterns(rules, about, value, here, subject(Some(option)), &said)
    }

    /// Judges an option that `--no-NAME` takes back.
    pub(super) fn taken_back(&self, here: Element<'_, '_>, option: &Opt) -> Flow {
        match self.allow_options() {
            Some(allowed) if !allowed.iter().any(|own| option.is_named(own) || is_negation(own, option)) => {
                here.not_allowed(allowed, String::new())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Judges an option that the grammar does not know.
    pub(super) fn unknown(&self, here: Element<'_, '_>) -> Flow {
        if let Some(allowed) = self.allow_options()
            && !allowed.iter().any(|own| here.is_spelled(own))
        {
            return here.not_allowed(allowed, String::new());
        }
        self.countable(here)
    }

    /// Judges an abbreviation of several options.
    pub(super) fn ambiguous(&self, here: Element<'_, '_>) -> Flow {
        match self.allow_options() {
            Some(allowed) => here.not_allowed(allowed, String::new()),
            None => self.countable(here),
        }
    }

    /// Refuses what makes it doubtful which elements are operands.
    fn countable(&self, here: Element<'_, '_>) -> Flow {
        if !self.rules.is_some_and(ArgumentRules::has_patterns) {
            return ControlFlow::Continue(());
        }
        let reason = "is not an option that the policy knows, so that what follows could be its value or not";
        here.refuse("unknown-option", String::new(), reason.to_owned(), None)
    }

    /// Judges an operand, counted from 0.
    pub(super) fn operand(&self, here: Element<'_, '_>, index: usize) -> Flow {
        let Some(rules) = self.rules.filter(|rules| rules.has_patterns()) else {
            return ControlFlow::Continue(());
        };
        let about = |own: &&ArgumentPattern| own.is_about(index, index);
        self.patterns(rules, about, here.text, here, String::new(), &String::new)
    }

    fn patterns(
        &self,
        rules: &ArgumentRules,
        about: impl Fn(&&ArgumentPattern) -> bool,
        value: &[u8],
        here: Element<'_, '_>,
        subject: String,
        said: &dyn Fn() -> String,
    ) -> Flow {
        match refused(rules, about, value) {
            None => ControlFlow::Continue(()),
            Some(Refused { rule, clause }) => {
                let said = said();
                let space = if said.is_empty() { "" } else { " " };
                here.refuse(rule, subject, format!("{said}{space}{clause}"), None)
            }
        }
    }
}

/// Whether an entry of the policy file is the `--no-` form of `option`.
pub(super) fn is_negation(entry: &str, option: &Opt) -> bool {
    bare(entry).strip_prefix("no-").is_some_and(|name| option.is_named(name))
}

/// A refusal by pattern: the last part of its rule id, and why.
pub(in crate::policy) struct Refused {
    pub(in crate::policy) rule: &'static str,
    pub(in crate::policy) clause: String,
}

/// What the patterns that `about` chooses say of `value`.
pub(in crate::policy) fn refused(
    rules: &ArgumentRules,
    about: impl Fn(&&ArgumentPattern) -> bool,
    value: &[u8],
) -> Option<Refused> {
    if let Some(refused) = denied(rules, &about, value, ArgumentPattern::refuses) {
        return Some(refused);
    }
    let mut wanted = rules.allow.iter().filter(&about).peekable();
    wanted.peek()?;
    let texts: Vec<String> = match wanted.clone().any(|own| own.pattern.is_match(value)) {
        true => return None,
        false => wanted.map(|own| quoted(own.text.as_bytes())).collect(),
    };
    let noun = if texts.len() == 1 { "the pattern" } else { "any of the patterns" };
    let clause = format!("does not match {noun} {} of allow_arguments", texts.join(", "));
    Some(Refused { rule: "allow-arguments", clause })
}

/// What the patterns that refuse say of `value`, among those that `about` chooses.
pub(in crate::policy) fn denied(
    rules: &ArgumentRules,
    about: impl Fn(&&ArgumentPattern) -> bool,
    value: &[u8],
    refuses: impl Fn(&ArgumentPattern, &[u8]) -> bool,
) -> Option<Refused> {
    let own = rules.deny.iter().filter(about).find(|own| refuses(own, value))?;
    let text = std::str::from_utf8(value).is_ok();
    let matches = if text { "matches" } else { "is not UTF-8 to hold against" };
    let clause = format!("{matches} the pattern {} of deny_arguments", quoted(own.text.as_bytes()));
    Some(Refused { rule: "deny-arguments", clause })
}
