//! What the records of a policy leave out, and how they are signed: `[audit] redact`, `checkpoint_*`.
//!
//! Called by `sections.rs` and `load.rs` only. Reports every fault to the reader and goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::CheckpointConfig;
use super::load::Loader;
use super::read::{Reader, Section};
use super::sections::settled;
use super::values;
use super::workspace::Workspace;

pub(super) fn redact<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>) -> Vec<regex::Regex> {
    let mut patterns = Vec::new();
    for word in loader.reader.list(section, "redact").unwrap_or_default() {
        match regex::Regex::new(&word.text) {
            // It would stand between all characters of every field.
            Ok(pattern) if pattern.is_match("") => {
                loader.reader.problem(word.at, &word.key, "matches the empty text");
            }
            Ok(pattern) => patterns.push(pattern),
            Err(error) => loader.reader.problem(word.at, &word.key, error.to_string()),
        }
    }
    patterns
}

pub(super) fn checkpoint<'t>(
    loader: &mut Loader<'t, '_>,
    section: &Section<'t>,
    workspace: Option<&Workspace>,
) -> Option<CheckpointConfig> {
    let records = loader.reader.number(section, "checkpoint_records");
    let time = Duration::from_millis(loader.reader.number(section, "checkpoint_time"));
    let Some(word) = Reader::text(section, "checkpoint_key") else {
        for name in ["checkpoint_records", "checkpoint_time"] {
            if let Some(item) = section.get(name) {
                loader.reader.problem(item.at, &item.key, "is of no use without checkpoint_key");
            }
        }
        return None;
    };
    let key = match values::absolute(&word.text) {
        Ok(key) => key,
        Err(what) => {
            loader.reader.problem(word.at, &word.key, what);
            return None;
        }
    };
    if let Some(workspace) = workspace
        && settled(&key).starts_with(&workspace.path)
    {
        let what = format!(
            "the key {} lies inside of the workspace {}, where commands see it",
            key.display(),
            workspace.path.display()
        );
        loader.reader.problem(word.at, &word.key, what);
    }
    Some(CheckpointConfig { key, records, time })
}

/// A key lies where no command may read, whatever the rest of the policy grants. `at`: the key of the policy that
/// names it, and where.
pub(super) fn hidden_key(
    loader: &mut Loader<'_, '_>,
    (at, name): (usize, &str),
    asked: &Path,
    granted: &[PathBuf],
) {
    let key = settled(asked);
    for path in granted.iter().filter(|path| key.starts_with(settled(path))) {
        let what = format!(
            "commands may read {}, and with it the key {}: keep the key elsewhere",
            path.display(),
            asked.display()
        );
        loader.reader.problem(at, name, what);
    }
}
