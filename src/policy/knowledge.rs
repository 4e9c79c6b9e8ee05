//! What this build knows about programs, for people who write policies.
//!
//! Purpose: the always-denied names, the grammars behind a command and the programs that are known to
//! start others (`policy/runs-programs.toml`), as facts. Decides nothing. Inputs: names. Called by
//! `cli/check` and `cli/learn`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::allow;
use super::grammar::{self, Found};
use super::grammars::Grammars;
use super::names::{DeniedNames, base_name};
use super::{Policy, PolicyError};
use crate::config::{Command, Config, Source};

/// The shipped list.
const SHIPPED: &str = include_str!("../../policy/runs-programs.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    names: BTreeSet<String>,
}

static RUNS: LazyLock<Result<File, String>> =
    LazyLock::new(|| toml::from_str(SHIPPED).map_err(|error| error.to_string()));

/// Whether a program of this name is known to start other programs.
///
/// # Errors
/// When the shipped list is broken, which a test of the build would have found.
pub fn runs_programs(name: &str) -> Result<bool, String> {
    let base = String::from_utf8_lossy(base_name(name.as_bytes())).into_owned();
    RUNS.as_ref().map(|file| file.names.contains(&base)).map_err(Clone::clone)
}

/// Programs that start others, and of which nothing else is known: neither always denied nor with a grammar.
///
/// # Errors
/// When shipped data is broken.
pub fn open_runners() -> Result<Vec<&'static str>, PolicyError> {
    let file = RUNS.as_ref().map_err(|problem| PolicyError::Grammar(problem.clone()))?;
    let mut found = Vec::new();
    for name in &file.names {
        let known = always_denied(name)?.is_some()
            || grammar::program(name.as_bytes()).map_err(PolicyError::Grammar)?.is_some();
        if !known {
            found.push(name.as_str());
        }
    }
    Ok(found)
}

/// Id and reason of the group of always-denied names that a name belongs to.
///
/// # Errors
/// When the shipped table is broken.
pub fn always_denied(name: &str) -> Result<Option<(&'static str, &'static str)>, PolicyError> {
    Ok(DeniedNames::shipped()?.known(base_name(name.as_bytes())))
}

/// Whether a listed command is refused all the same, because its name or its file is always denied.
///
/// # Errors
/// When the shipped table is broken.
pub fn never_runs(command: &Command) -> Result<bool, PolicyError> {
    Ok(!command.interpreter && allow::refusal(command, DeniedNames::shipped()?).is_some())
}

/// What is to be said at start of listed names that no call can ever run: those that are always denied and,
/// of a policy of environment variables, which nobody checks beforehand, those that are not installed.
///
/// # Errors
/// When the shipped table is broken.
pub fn idle_names(config: &Config) -> Result<Vec<String>, PolicyError> {
    let (mut denied, mut missing) = (Vec::new(), Vec::new());
    for (name, command) in &config.commands {
        if never_runs(command)? {
            denied.push(name.as_str());
        } else if command.program.is_none() && config.source == Source::Environment {
            missing.push(name.as_str());
        }
    }
    let mut said = Vec::new();
    if !denied.is_empty() {
        said.push(format!(
            "always refused, although the allow-list names them: {}; they start any other program, so leave them out",
            denied.join(", ")
        ));
    }
    if !missing.is_empty() {
        said.push(format!(
            "not found in {}, although ALLOW_COMMANDS names them: {}; install them, or set MCP_SHELL_SAFE_PATH",
            config.environment.path,
            missing.join(", ")
        ));
    }
    Ok(said)
}

/// Every always-denied name, and every pattern of such names.
///
/// # Errors
/// When the shipped table is broken.
pub fn denied_names() -> Result<(Vec<&'static str>, Vec<&'static str>), PolicyError> {
    let (names, patterns) = DeniedNames::shipped()?.written();
    Ok((names.collect(), patterns.collect()))
}

impl Policy {
    /// The grammars that the arguments of a command are judged by.
    ///
    /// # Errors
    /// When a compiled-in program file is broken.
    pub fn grammars(&self, command: &Command) -> Result<Vec<Found>, PolicyError> {
        Grammars::of(&self.library, command.name.as_bytes(), command.program.as_deref())
            .map(|grammars| grammars.iter().cloned().collect())
            .map_err(PolicyError::Grammar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_list_loads() {
        assert_eq!(runs_programs("/usr/bin/watch"), Ok(true));
        assert_eq!(runs_programs("cat"), Ok(false));
    }

    #[test]
    fn always_denied_names_are_known_with_their_group() {
        assert_eq!(always_denied("/bin/bash").unwrap().map(|(id, _)| id), Some("shell"));
        assert_eq!(always_denied("python3.12").unwrap().map(|(id, _)| id), Some("interpreter"));
        assert_eq!(always_denied("cat").unwrap(), None);
        let (names, patterns) = denied_names().unwrap();
        assert!(names.contains(&"bash") && !patterns.is_empty());
    }
}
