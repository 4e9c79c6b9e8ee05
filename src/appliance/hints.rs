//! "The sandbox said no" or "the file is not there": a hint for the reader of a failed run.
//!
//! The kernel tells nobody but its audit log which path Landlock refused. So what the command was given, what
//! it printed last and what it tried to start is compared with its profile, by name alone: no path of
//! the program's choice is touched, no link is followed. Inputs: the profile, the argument vector, the end of standard error, starts. It is a
//! guess from what an untrusted program says, and marked as one: nothing is decided by it. Called by
//! `appliance.rs`.

use std::ffi::CString;
use std::path::{Component, Path, PathBuf};

use crate::config::Config;
use crate::launch::Execution;
use crate::sandbox::profile::Profile;

/// Most hints of one run.
const MOST: usize = 8;
/// Lines at the end of standard error that are looked at, and bytes of each.
const LINES: usize = 32;
const BYTES: usize = 1024;
/// Where nothing beyond a few named files should ever be granted.
const NEVER: &[&str] = &["/proc", "/sys", "/dev", "/root", "/home"];
/// Longest path that is reported.
const PATH: usize = 512;
/// How programs say EACCES, EPERM, EROFS and EXDEV.
const REFUSED: &[&str] =
    &["permission denied", "operation not permitted", "read-only file system", "cross-device link"];
/// How they say ENOENT: the file is not there, whoever asks.
const MISSING: &str = "no such file";

/// A path that the profile does not grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The path, without `.` and `..`.
    pub path: String,
    /// What seems to have been missing: `read`, `write` or `execute`.
    pub right: &'static str,
    /// What would grant it.
    pub remedy: String,
}

/// What hints are taken from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traces<'a> {
    pub(super) argv: &'a [CString],
    pub(super) cwd: &'a Path,
    pub(super) stderr: &'a str,
    /// Directory that scratch directories lie in.
    pub(super) scratch: Option<&'a Path>,
    pub(super) starts: &'a [Execution],
    /// It ended with status 0.
    pub(super) success: bool,
}

/// What the profile seems to have refused, the last words first.
pub(super) fn of(config: &Config, profile: &Profile, traces: Traces<'_>) -> Vec<Hint> {
    let lines: Vec<String> = traces
        .stderr
        .lines()
        .rev()
        .take(LINES)
        .map(|line| line.chars().take(BYTES).collect())
        .filter(|line: &String| !line.trim().is_empty())
        .collect();
    let said = |line: &String, phrases: &[&str]| {
        let line = line.to_lowercase();
        phrases.iter().any(|phrase| line.contains(phrase))
    };
    let mut found: Vec<Hint> = Vec::new();
    let mut add = |hint: Option<Hint>| {
        if let Some(hint) = hint.filter(|hint| !found.contains(hint))
            && found.len() < MOST
        {
            found.push(hint);
        }
    };
    let refused: Vec<&String> = lines.iter().filter(|line| said(line, REFUSED)).collect();
    for path in refused.iter().flat_map(|line| paths(line)) {
        add(judge(profile, &absolute(traces.cwd, path), said_to_write(&refused, path), traces.scratch));
    }
    if !refused.is_empty() {
        traces.starts.iter().for_each(|start| add(started(config, profile, &start.path)));
    }
    // Programs that fail without naming the file; what they say is not there is not refused.
    if !traces.success && !lines.is_empty() {
        for word in traces.argv.iter().skip(1).filter_map(|word| word.to_str().ok()) {
            let word = word.split_once('=').map_or(word, |(_, value)| value);
            let named = |line: &&String| line.contains(word) && said(line, &[MISSING]);
            if (word.starts_with('/') || word.starts_with("../")) && !lines.iter().any(|line| named(&line)) {
                add(judge(profile, &absolute(traces.cwd, word), false, traces.scratch));
            }
        }
    }
    found
}

/// The paths that a message names: quoted words, and words up to a colon.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quotes = ['\'', '"', '‘', '’', '`', '“', '”'];
    let quoted = line.split(quotes).skip(1).step_by(2).filter(|word| !word.is_empty());
    let plain =
        line.split([' ', '\t', ':', ',', '(', ')', '[', ']']).map(move |word| word.trim_matches(quotes));
    quoted.chain(plain.filter(|word| word.contains('/'))).filter(|word| word.len() <= PATH)
}

/// Whether the line that names `path` speaks of writing.
fn said_to_write(lines: &[&String], path: &str) -> bool {
    const WRITING: &[&str] = &[
        "read-only",
        "creat",
        "remov",
        "writ",
        "renam",
        "delet",
        "unlink",
        "mkdir",
        "touch",
        "chang",
        "setting",
        "truncat",
    ];
    lines.iter().filter(|line| line.contains(path)).any(|line| {
        let line = line.replace(path, "").to_lowercase();
        WRITING.iter().any(|word| line.contains(word))
    })
}

/// `.` and `..` are taken away by name: what a link means is not looked at.
fn absolute(cwd: &Path, word: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in cwd.join(word.trim_end_matches('.')).components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

fn within(path: &Path, list: &[PathBuf]) -> bool {
    list.iter().any(|own| path.starts_with(own))
}

fn judge(profile: &Profile, path: &Path, write: bool, scratch: Option<&Path>) -> Option<Hint> {
    let name = &profile.name;
    let shown = shown(path)?;
    if path.starts_with(&profile.workspace) {
        let refused = write && !profile.workspace_write;
        let remedy =
            "the workspace is read-only: workspace.write = true lets commands write in it".to_owned();
        return refused.then_some(Hint { path: shown, right: "write", remedy });
    }
    if within(path, &profile.write)
        || within(path, &profile.terminals)
        || scratch.is_some_and(|dir| path.starts_with(dir))
    {
        return None;
    }
    if write {
        let remedy = format!(
            "commands write in $TMPDIR, and in the workspace {} where the policy says so",
            profile.workspace.display()
        );
        return Some(Hint { path: shown, right: "write", remedy });
    }
    if within(path, &profile.read) || within(path, &profile.execute) {
        return None;
    }
    if NEVER.iter().any(|dir| path.starts_with(dir)) {
        let remedy = "not granted on purpose: it tells of the host and of other processes".to_owned();
        return Some(Hint { path: shown, right: "read", remedy });
    }
    let remedy = format!(
        "read of [command.{name:?}] (or of [sandbox], for every command) would grant it; the operator decides"
    );
    Some(Hint { path: shown, right: "read", remedy })
}

/// A program that was to be started and may not. Callers try each directory of PATH in turn: what counts
/// is the file that the safe path knows under that name.
fn started(config: &Config, profile: &Profile, path: &str) -> Option<Hint> {
    let base = Path::new(path).file_name()?.to_str()?;
    let program = config.programs.find(base)?;
    let granted = within(&program.real, &profile.execute) || within(&program.path, &profile.execute);
    let parent = Path::new(path).parent()?;
    if granted || !config.environment.path.split(':').any(|dir| parent == Path::new(dir)) {
        return None;
    }
    let remedy = format!(
        "execute of [command.{:?}] would grant it; or ask for {base} itself, where the policy allows it",
        profile.name
    );
    Some(Hint { path: shown(&program.path)?, right: "execute", remedy })
}

/// Printable, or not at all: it goes to people's terminals.
fn shown(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.len() <= PATH && text.len() > 1)?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}
