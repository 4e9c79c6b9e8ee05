//! The environment of a command: built up from nothing.
//!
//! Purpose: the effective `NAME=value` entries, and the refusal of what a caller may not set. Order,
//! the last one wins: the safe `PATH`, names passed from the server, fixed values of the policy,
//! presets of the command, the caller's own. `HOME` and `TMPDIR` come from the launcher (scratch).
//! Called by `judge` only.

use std::collections::{BTreeMap, BTreeSet};

use super::words::quoted;
use super::{Denial, Reason, RuleKind};
use crate::config::{Command, Environment, hooks};

/// What does not change from call to call.
#[derive(Debug)]
pub(super) struct Base {
    pass: BTreeSet<String>,
    fixed: BTreeMap<String, String>,
}

impl Base {
    /// Takes the passed names from the server's environment, once.
    pub(super) fn new(environment: &Environment, server: &[(String, String)]) -> Self {
        let pass: BTreeSet<String> = environment.pass.iter().cloned().collect();
        let mut fixed = BTreeMap::from([("PATH".to_owned(), environment.path.clone())]);
        for (name, value) in server {
            if pass.contains(name) && is_name(name) && hook(name).is_none() {
                fixed.insert(name.clone(), value.clone());
            }
        }
        fixed.extend(environment.set.iter().map(|(name, value)| (name.clone(), value.clone())));
        Self { pass, fixed }
    }

    /// Names that a command finds set, without what a caller adds.
    pub(super) fn names<'a>(&'a self, command: &'a Command) -> BTreeSet<&'a str> {
        self.fixed.keys().chain(command.environment.keys()).map(String::as_str).collect()
    }

    /// What every command finds set, without what its own entry adds.
    pub(super) fn fixed(&self) -> BTreeMap<String, String> {
        self.fixed.clone()
    }

    /// Judges what the caller asks for; `most` bounds its bytes.
    pub(super) fn check(&self, asked: &[(String, String)], most: usize) -> Result<(), Denial> {
        let mut bytes = 0usize;
        for (name, value) in asked {
            if !is_name(name) {
                let message = format!(
                    "Environment name {} is refused: use letters, digits and '_'.",
                    quoted(name.as_bytes())
                );
                return Err(denial("environment.name", message).instead("use letters, digits and '_'"));
            }
            if value.contains('\0') {
                let message = format!("Value of environment name '{name}' holds a NUL byte.");
                return Err(Denial::new("environment.nul", RuleKind::Env, Reason::NulInArgument, message)
                    .instead("leave the NUL byte out"));
            }
            if let Some(why) = hook(name) {
                let message =
                    format!("Environment name {} is always refused: {why}.", quoted(name.as_bytes()));
                return Err(denial("environment.hook", message).instead("leave the name out"));
            }
            if !self.pass.contains(name) {
                return Err(
                    denial("environment.pass", not_passed(name, &self.pass)).instead("leave the name out")
                );
            }
            bytes = bytes.saturating_add(name.len()).saturating_add(value.len()).saturating_add(2);
        }
        if bytes > most {
            let message = format!("Environment of {bytes} bytes exceeds the limit of {most}.");
            return Err(Denial::new("limits.environment", RuleKind::Limit, Reason::ArgvTooLarge, message)
                .instead("send fewer or shorter values"));
        }
        Ok(())
    }

    /// The complete environment, one entry a name, sorted by name.
    pub(super) fn effective<'a>(
        &'a self,
        command: &'a Command,
        asked: &'a [(String, String)],
    ) -> BTreeMap<&'a str, &'a str> {
        let asked = asked.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let kept = self.fixed.iter().chain(&command.environment);
        kept.map(|(name, value)| (name.as_str(), value.as_str())).chain(asked).collect()
    }
}

fn denial(rule: &'static str, message: String) -> Denial {
    Denial::new(rule, RuleKind::Env, Reason::EnvNotAllowed, message)
}

fn not_passed(name: &str, pass: &BTreeSet<String>) -> String {
    let allowed: Vec<&str> = pass.iter().map(String::as_str).collect();
    let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    format!("Environment name {} may not be set. Allowed: {allowed}", quoted(name.as_bytes()))
}

/// Why this name is never taken over, if it is one of the hooks of `config/hooks.rs`.
fn hook(name: &str) -> Option<&'static str> {
    hooks::refused(name, false)
}

fn is_name(name: &str) -> bool {
    hooks::is_env_name(name)
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
