//! Which logs and which records: the arguments that `show`, `report` and `replay` share.

use std::io;
use std::path::PathBuf;

use crate::audit::reading::{self, Bad, Filter, Log, Moment, Place};

/// The logs to read.
#[derive(Debug, clap::Args)]
pub(super) struct Logs {
    /// Log files in any order, a directory of them, or `-` [default: the built-in policy's log with its rotated
    /// files]
    #[arg(value_name = "LOG")]
    pub(super) files: Vec<PathBuf>,
}

impl Logs {
    /// The files, oldest record first.
    pub(super) fn open(&self) -> io::Result<Vec<Log>> {
        if self.files.is_empty() {
            return reading::logs(&reading::with_rotated(&default()?)?);
        }
        reading::logs(&self.files)
    }

    /// The one file to follow.
    pub(super) fn followed(&self) -> io::Result<PathBuf> {
        match self.files.as_slice() {
            [] => default(),
            [file] if file.as_os_str() == "-" || file.is_dir() => Err(io::Error::other(
                "--follow needs the file that is being written: name it, such as audit.jsonl",
            )),
            [file] => Ok(file.clone()),
            _ => Err(io::Error::other("--follow follows one log: name only the file that is being written")),
        }
    }
}

fn default() -> io::Result<PathBuf> {
    crate::config::default_audit_file().map_err(io::Error::other)
}

/// The records to take. Values of one option are alternatives; every option given has to hold.
#[derive(Debug, clap::Args)]
pub(super) struct Select {
    /// Not before: how long ago (90s, 2h, 3d), a day (2026-12-01) or a moment in UTC (2026-12-01T08:00:00Z)
    #[arg(long, value_name = "WHEN", value_parser = reading::ago_or_moment)]
    since: Option<Moment>,
    /// Before: the same forms
    #[arg(long, value_name = "WHEN", value_parser = reading::ago_or_moment)]
    until: Option<Moment>,
    /// How it ended, such as `timeout`
    #[arg(long, value_name = "OUTCOME,…", value_delimiter = ',', value_parser = outcome)]
    outcome: Vec<String>,
    /// Rule, or the part of its id before a dot: `git` means `git.grep.…` as well
    #[arg(long, value_name = "RULE,…", value_delimiter = ',')]
    rule: Vec<String>,
    /// Command, as asked for or by the name of its file
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    cmd: Vec<String>,
    /// Session, or the beginning of its id
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    session: Vec<String>,
    /// Who was authenticated
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    principal: Vec<String>,
    /// Run, or the beginning or end of its id
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    run: Vec<String>,
    /// Kind of record, or the part before its dot: `audit` means `audit.gap` as well
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',', value_parser = event)]
    event: Vec<String>,
    /// Only what was refused
    #[arg(long)]
    denied: bool,
}

impl Select {
    /// The filter that they mean.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            since: self.since.clone(),
            until: self.until.clone(),
            outcomes: self.outcome.clone(),
            rules: self.rule.clone(),
            commands: self.cmd.clone(),
            sessions: self.session.clone(),
            principals: self.principal.clone(),
            runs: self.run.clone(),
            events: self.event.clone(),
            denied: self.denied,
        }
    }
}

fn outcome(text: &str) -> Result<String, String> {
    one_of(text, reading::known_outcomes(), |known| known == text)
}

fn event(text: &str) -> Result<String, String> {
    let part =
        |known: &str| known.strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    one_of(text, reading::known_events(), part)
}

/// A word that nothing can have is a mistake, not an empty answer.
fn one_of(text: &str, known: &[String], holds: impl Fn(&str) -> bool) -> Result<String, String> {
    if known.iter().any(|known| holds(known)) {
        return Ok(text.to_owned());
    }
    Err(format!("there is none of that name; known are {}", known.join(", ")))
}

/// Lines that are no whole records: named on standard error as they come, and counted.
#[derive(Debug, Default)]
pub(super) struct BadLines {
    /// How many are wrong.
    pub(super) count: u64,
    named: u64,
}

/// Bad lines that are named; a file that is no log at all would say nothing else.
const NAMED: u64 = 20;

impl BadLines {
    pub(super) fn note(&mut self, place: &Place, bad: Bad) {
        if bad.counts() {
            self.count += 1;
        }
        self.named += 1;
        if self.named <= NAMED {
            eprintln!("cofferdam: {place}: {}: {}", bad.as_str(), bad.detail());
        }
    }

    /// Says how many there were, if any.
    pub(super) fn sum_up(&self) {
        if self.named > NAMED {
            eprintln!("cofferdam: {} further lines like these are not named", self.named - NAMED);
        }
        if self.count > 0 {
            eprintln!("cofferdam: {} bad lines; `cofferdam audit verify` says what they mean", self.count);
        }
    }
}
