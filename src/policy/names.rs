//! Names: how one may be spelled, and which are refused whatever the allow-list says.
//!
//! Purpose: the always-denied names (`policy/denied-names.toml`, compiled in) and the spelling rule.
//! Inputs: the name as asked, the program files it resolves to. Called by `allow` and `judge` only.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use regex::bytes::RegexSet;
use serde::Deserialize;

use super::words::{EscapedName, quoted};
use super::{Denial, PolicyError, Reason, RuleKind};
use crate::config::program::Program;

/// The shipped table.
const SHIPPED: &str = include_str!("../../policy/denied-names.toml");
/// What a caller of an always-denied name can do.
const DIRECT: &str = "call an allowed program by its own name, with each argument as its own element";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    group: Vec<Group>,
}

/// One kind of danger.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    id: String,
    reason: String,
    #[serde(default = "yes")]
    resolved: bool,
    names: Vec<String>,
    #[serde(default)]
    patterns: Vec<String>,
}

fn yes() -> bool {
    true
}

/// The always-denied names, compiled for look-up.
#[derive(Debug)]
pub(super) struct DeniedNames {
    groups: Vec<Group>,
    exact: HashMap<Vec<u8>, usize>,
    patterns: RegexSet,
    /// Group of each pattern, in the order of `patterns`.
    pattern_groups: Vec<usize>,
}

impl DeniedNames {
    /// The shipped table, compiled once a process.
    pub(super) fn shipped() -> Result<&'static Self, PolicyError> {
        static COMPILED: OnceLock<Result<DeniedNames, String>> = OnceLock::new();
        COMPILED
            .get_or_init(|| Self::parse(SHIPPED))
            .as_ref()
            .map_err(|error| PolicyError::DeniedNames(error.clone()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut exact = HashMap::new();
        let mut anchored = Vec::new();
        let mut pattern_groups = Vec::new();
        for (index, group) in file.group.iter().enumerate() {
            for name in &group.names {
                if exact.insert(name.clone().into_bytes(), index).is_some() {
                    return Err(format!("name '{name}' stands twice; keep one of them"));
                }
            }
            for pattern in &group.patterns {
                anchored.push(format!(r"\A(?:{pattern})\z"));
                pattern_groups.push(index);
            }
        }
        let patterns = RegexSet::new(&anchored).map_err(|error| error.to_string())?;
        Ok(Self { groups: file.group, exact, patterns, pattern_groups })
    }

    /// The group that holds this base name.
    fn group(&self, base: &[u8]) -> Option<&Group> {
        let index = self.exact.get(base).copied().or_else(|| {
            let first = self.patterns.matches(base).iter().next()?;
            self.pattern_groups.get(first).copied()
        })?;
        self.groups.get(index)
    }

    /// Id and reason of the group that a base name belongs to.
    pub(super) fn known(&self, base: &[u8]) -> Option<(&str, &str)> {
        self.group(base).map(|group| (group.id.as_str(), group.reason.as_str()))
    }

    /// Every exact name of the table, and every pattern.
    pub(super) fn written(&self) -> (impl Iterator<Item = &str>, impl Iterator<Item = &str>) {
        let names = self.groups.iter().flat_map(|group| &group.names).map(String::as_str);
        (names, self.groups.iter().flat_map(|group| &group.patterns).map(String::as_str))
    }

    /// Judges what was asked for.
    pub(super) fn check_asked(&self, name: &[u8]) -> Result<(), Denial> {
        match self.group(base_name(name)) {
            None => Ok(()),
            Some(group) => Err(refusal(
                group,
                format!(
                    "Command {} is always refused ({}: {}). An allow-list entry cannot override this.",
                    quoted(name),
                    group.id,
                    group.reason
                ),
            )),
        }
    }

    /// Judges the files that a name resolves to: a renamed link must not hide a shell.
    pub(super) fn check_resolved(&self, name: &[u8], program: &Program) -> Result<(), Denial> {
        for file in [&program.path, &program.real] {
            let base = path_base(file);
            if let Some(group) = self.group(base).filter(|group| group.resolved) {
                return Err(refusal(
                    group,
                    format!(
                        "Command {} is always refused: it resolves to {} ({}: {}). \
                         An allow-list entry cannot override this.",
                        quoted(name),
                        quoted(base),
                        group.id,
                        group.reason
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn refusal(group: &Group, message: String) -> Denial {
    let rule = format!("names.{}", group.id);
    Denial::new(rule, RuleKind::BuiltinDeny, Reason::CommandAlwaysDenied, message).at(0).instead(DIRECT)
}

/// The last component that is not empty: `/bin/sh/` is `sh`, as the kernel would not care.
pub(super) fn base_name(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'/').rev().find(|part| !part.is_empty()).unwrap_or(name)
}

fn path_base(path: &Path) -> &[u8] {
    base_name(path.as_os_str().as_bytes())
}

/// A name is one program: no blanks, no control or invisible characters, no shell metacharacters, no
/// leading dash. Returns it as text.
pub(super) fn spelled(name: &[u8]) -> Result<&str, Denial> {
    let text = std::str::from_utf8(name).map_err(|_| unsafe_name(name))?;
    let bad = text.starts_with('-')
        || if text.is_ascii() { text.bytes().any(is_unsafe_byte) } else { text.chars().any(is_unsafe) };
    if bad { Err(unsafe_name(name)) } else { Ok(text) }
}

fn is_unsafe_byte(byte: u8) -> bool {
    byte <= b' '
        || byte == 0x7f
        || matches!(
            byte,
            b';' | b'&'
                | b'|'
                | b'<'
                | b'>'
                | b'`'
                | b'$'
                | b'('
                | b')'
                | b'{'
                | b'}'
                | b'*'
                | b'?'
                | b'\''
                | b'"'
                | b'\\'
        )
}

fn is_unsafe(character: char) -> bool {
    match u8::try_from(character) {
        Ok(byte) if byte.is_ascii() => is_unsafe_byte(byte),
        _ => {
            character.is_whitespace()
                || character.is_control()
                // Invisible or direction-changing: the name would not be the one that a person reads.
                || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        }
    }
}

fn unsafe_name(name: &[u8]) -> Denial {
    let message = format!(
        "Unsafe command name: {}. A name is one program, without blanks or shell metacharacters; \
         pass each argument as its own element.",
        EscapedName(name)
    );
    Denial::new("names.unsafe", RuleKind::BuiltinDeny, Reason::CommandNotAllowed, message)
        .at(0)
        .instead("pass each argument as its own element")
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
