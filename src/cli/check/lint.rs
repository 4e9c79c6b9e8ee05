//! What a lint is: the table of their ids, and the book that findings are written into.
//!
//! Purpose: stable ids, one severity each, so that scripts and `--accept` can hang on them. Inputs: what
//! the other rooms of `check` find. Called by `check` only.

use std::collections::BTreeSet;

use crate::config::places::Places;
use crate::config::{Config, Place};
use crate::policy::Policy;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// A layer is taken away, or a rule does not say what its author thought.
    Warning,
    /// Worth knowing; nothing is wrong with it.
    Note,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

use Severity::{Note, Warning};

/// Every lint: id, severity, what it finds.
#[rustfmt::skip]
pub(super) const LINTS: &[(&str, Severity, &str)] = &[
    ("allow-any", Warning, "any name may run"),
    ("argument-rules-off", Warning, "arguments are not judged"),
    ("interpreter-confined", Warning, "a shell, interpreter or wrapper is opted in"),
    ("always-denied", Warning, "a listed name is always refused"),
    ("runs-programs", Warning, "an allowed program is known to start others, and no rule stands in the way"),
    ("writes-files", Note, "writing files is what an allowed program is for"),
    ("no-grammar", Note, "nothing is known about the arguments of an allowed program"),
    ("confine-needless", Note, "interpreters = \"confine\" on a name that is not always refused"),
    ("paths-any", Note, "file names outside of the workspace are left to the kernel"),
    ("pattern-any", Warning, "a pattern admits names that nobody has thought of"),
    ("pattern-denied-name", Warning, "a pattern matches always-denied names"),
    ("pattern-shadowed", Warning, "a pattern matches only names that are listed anyway"),
    ("program-in-workspace", Warning, "programs are searched in the workspace, or found there"),
    ("program-writable", Warning, "a program, or a directory on the way to it, can be replaced by the command's user or by others"),
    ("write-and-execute", Warning, "what a command may execute can be written"),
    ("same-program", Warning, "two names reach one program under different rules"),
    ("deny-option-refused", Note, "a denied option is refused by the program's grammar anyway"),
    ("deny-option-unknown", Warning, "a denied option is none that the program's grammar knows"),
    ("deny-option-unreached", Note, "a denied option is one of subcommands only that are not listed"),
    ("subcommand-refused", Warning, "a listed subcommand is refused by the program's grammar"),
    ("subcommand-unknown", Warning, "a listed subcommand is none that the program's grammar knows"),
    ("network-open", Warning, "commands may connect"),
    ("kernel-opened", Warning, "a kernel switch takes away what is promised for every other command"),
    ("kernel-switch", Note, "a kernel switch is on"),
    ("cannot-start", Warning, "an allowed program has no kernel profile that it could start under"),
    ("environment-hook", Warning, "a variable that programs take code or programs from names a file"),
    ("environment-secret", Warning, "commands get a variable whose name says that it is a secret"),
    ("repository-write", Warning, "the repository of the workspace may be written"),
    ("read-secret", Warning, "commands may read where secrets are kept"),
    ("read-audit", Warning, "commands may read the audit records"),
    ("require-missing", Warning, "a layer is not required: a host without it is served all the same"),
    ("user-root", Warning, "commands run as root on purpose"),
];

/// One finding.
#[derive(Debug)]
pub(super) struct Lint {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// Offending dotted key.
    pub(super) key: String,
    pub(super) place: Option<Place>,
    pub(super) message: String,
    /// What to do about it.
    pub(super) remedy: String,
    /// The operator knows and wants it so.
    pub(super) accepted: bool,
}

/// Everything found so far, with what finding needs.
pub(super) struct Book<'p> {
    pub(super) policy: &'p Policy,
    pub(super) config: &'p Config,
    pub(super) places: Places,
    accepted: BTreeSet<String>,
    pub(super) found: Vec<Lint>,
}

impl<'p> Book<'p> {
    pub(super) fn new(policy: &'p Policy, accepted: &[String]) -> Self {
        let config = policy.config();
        Self {
            policy,
            config,
            places: Places::of(&config.source),
            accepted: accepted.iter().cloned().collect(),
            found: Vec::new(),
        }
    }

    /// Writes a finding down.
    pub(super) fn add(
        &mut self,
        id: &'static str,
        key: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let key = key.into();
        let accepted = self.accepted.contains(id);
        let listed = LINTS.iter().find(|(own, _, _)| *own == id);
        let severity = if accepted { Note } else { listed.map_or(Warning, |(_, severity, _)| *severity) };
        let place = self.places.find(&key).or_else(|| self.around(&key));
        let (message, remedy) = (message.into(), remedy.into());
        self.found.push(Lint { id, severity, key, place, message, remedy, accepted });
    }

    /// The place of the nearest table around a key that is not written itself.
    fn around(&self, key: &str) -> Option<Place> {
        let (table, _) = key.rsplit_once('.')?;
        self.places.find(table)
    }

    /// Warnings first, then by place.
    pub(super) fn sorted(self) -> Vec<Lint> {
        let mut found = self.found;
        found.sort_by(|a, b| {
            let rank = |lint: &Lint| (lint.severity == Note, lint.place.is_none(), lint.place);
            rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(b.id)).then_with(|| a.key.cmp(&b.key))
        });
        found
    }
}

/// Ids that nobody knows, among those to accept.
pub(super) fn unknown(accepted: &[String]) -> Vec<&str> {
    let known = |id: &&str| !LINTS.iter().any(|(own, _, _)| own == id);
    accepted.iter().map(String::as_str).filter(known).collect()
}

/// The table, for people.
pub(super) fn help() -> String {
    let line = |(id, severity, about): &(&str, Severity, &str)| {
        format!("{id:<22} {:<8} {about}\n", severity.as_str())
    };
    LINTS.iter().map(line).collect()
}
