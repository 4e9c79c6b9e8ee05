//! `check FILE --diff OTHER`: what FILE judges otherwise than OTHER.
//!
//! Purpose: a change of a policy is read by its effect. Inputs: two policies and a corpus of argument
//! vectors: a file of JSON lines, else the examples of all grammars and of both policies. Called by
//! `check` only; starts nothing.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::report::source;
use crate::config::examples;
use crate::policy::{Policy, grammar};

/// Longest line of a corpus.
const LINE: u64 = 16 << 20;

/// One argument vector of a corpus. Other fields are not looked at.
#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    argv: Vec<String>,
    /// Stands for both policies' own allow-list.
    allow: Option<Vec<String>>,
}

/// What became of the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Allowed,
    Refused,
    /// Allowed before and after, by another rule.
    StillAllowed,
    /// Refused before and after, by another rule.
    StillRefused,
}

impl Change {
    /// Whether it is allowed, before and after.
    fn verdicts(self) -> [&'static str; 2] {
        match self {
            Self::Allowed => ["deny", "allow"],
            Self::Refused => ["allow", "deny"],
            Self::StillAllowed => ["allow", "allow"],
            Self::StillRefused => ["deny", "deny"],
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "newly allowed",
            Self::Refused => "newly refused",
            Self::StillAllowed => "allowed by another rule",
            Self::StillRefused => "refused by another rule",
        }
    }
}

/// A verdict: how far it is allowed, and the rule that says so.
type Verdict = (Reach, String);

/// How far a command is allowed, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Refused,
    /// A person has to agree.
    Asked,
    Allowed,
}

/// Rows with the same change, by change and by the rules before and after.
#[derive(Debug, Default)]
pub(super) struct Diff<'r> {
    groups: BTreeMap<(Change, String, String), Vec<&'r Row>>,
    rows: usize,
}

impl Diff<'_> {
    /// Rows that are judged otherwise only in the rule.
    fn otherwise(&self) -> usize {
        self.count(Change::StillAllowed).saturating_add(self.count(Change::StillRefused))
    }

    pub(super) fn count(&self, change: Change) -> usize {
        self.groups.iter().filter(|((own, _, _), _)| *own == change).map(|(_, rows)| rows.len()).sum()
    }
}

/// Reads a corpus.
///
/// # Errors
/// A file that cannot be read, or the first line that is not an argument vector.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, String> {
    let failed = |error: std::io::Error| format!("read of corpus {} failed: {error}", path.display());
    let mut input = BufReader::new(File::open(path).map_err(failed)?);
    let (mut rows, mut line, mut number) = (Vec::new(), Vec::new(), 0u64);
    loop {
        line.clear();
        let read = (&mut input).take(LINE).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            return Ok(rows);
        }
        number = number.saturating_add(1);
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        rows.push(serde_json::from_slice(&line).map_err(|error| {
            let path = path.display();
            format!("read of corpus {path}:{number} failed: {error}; give {{\"argv\":[…],\"allow\":[…]?}}")
        })?);
    }
}

/// The examples of all grammars, and of these policies.
///
/// # Errors
/// A grammar or an example that is broken.
pub(super) fn known(policies: [&Policy; 2]) -> Result<Vec<Row>, String> {
    let mut lines: Vec<&str> = Vec::new();
    for grammar in grammar::programs()? {
        lines.extend(grammar.examples().iter().map(|example| example.line.as_str()));
    }
    for policy in policies {
        for command in policy.config().commands.values() {
            let own = command.examples_allow.iter().chain(&command.examples_deny);
            lines.extend(own.map(String::as_str));
        }
    }
    let mut rows = Vec::with_capacity(lines.len());
    for line in lines {
        let words = examples::split(line)?;
        let argv = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        rows.push(Row { argv, allow: None });
    }
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}

/// Judges every row under both.
///
/// # Errors
/// An allow-list of a row that cannot be compiled.
pub(super) fn compare<'r>(before: &Policy, after: &Policy, rows: &'r [Row]) -> Result<Diff<'r>, String> {
    let mut diff = Diff { rows: rows.len(), ..Diff::default() };
    for row in rows {
        let (old, new) = (judge(before, row)?, judge(after, row)?);
        // With consent is less than without: to drop it allows something.
        let change = match old.0.cmp(&new.0) {
            Ordering::Less => Change::Allowed,
            Ordering::Greater => Change::Refused,
            Ordering::Equal if old.1 == new.1 => continue,
            Ordering::Equal if old.0 == Reach::Refused => Change::StillRefused,
            Ordering::Equal => Change::StillAllowed,
        };
        diff.groups.entry((change, old.1, new.1)).or_default().push(row);
    }
    Ok(diff)
}

fn judge(policy: &Policy, row: &Row) -> Result<Verdict, String> {
    let names = row.allow.as_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    let list =
        names.map(|names| policy.allow_list(&names, &[])).transpose().map_err(|error| error.to_string())?;
    let argv: Vec<&[u8]> = row.argv.iter().map(String::as_bytes).collect();
    Ok(match policy.judge_argv(&argv, list.as_ref()) {
        Ok(rule) if rule.asks => (Reach::Asked, format!("{}, with consent", rule.id)),
        Ok(rule) => (Reach::Allowed, rule.id.to_owned()),
        Err(denial) => (Reach::Refused, denial.rule.into_owned()),
    })
}

/// The changes for people: counts, then each group with its rows.
pub(super) fn text(before: &Policy, after: &Policy, diff: &Diff<'_>) -> String {
    let mut out = String::new();
    let count = |change| diff.count(change);
    let _ = writeln!(out, "before  {}", source(before.config()));
    let _ = writeln!(out, "after   {}", source(after.config()));
    let _ = writeln!(
        out,
        "{} argument vectors: {} newly allowed, {} newly refused, {} by another rule",
        diff.rows,
        count(Change::Allowed),
        count(Change::Refused),
        diff.otherwise()
    );
    for ((change, old, new), rows) in &diff.groups {
        let _ = writeln!(out, "\n{} ({old} -> {new}): {}", change.as_str(), rows.len());
        for row in rows {
            let words: Vec<String> = row.argv.iter().map(|word| shown(word)).collect();
            let _ = writeln!(out, "  {}", words.join(" "));
        }
    }
    out
}

/// A word as one would write it in an example.
fn shown(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^~*".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.escape_debug().to_string().replace("\\\"", "\""))
}

/// The same for scripts.
pub(super) fn object(before: &Policy, after: &Policy, diff: &Diff<'_>) -> Value {
    let group = |((change, old, new), rows): (&(Change, String, String), &Vec<&Row>)| {
        let [was, is] = change.verdicts();
        json!({
            "change": change.as_str(),
            "before": {"verdict": was, "rule": old},
            "after": {"verdict": is, "rule": new},
            "count": rows.len(),
            "rows": rows.iter().map(|row| &row.argv).collect::<Vec<_>>(),
        })
    };
    let side = |policy: &Policy| json!({"policy": source(policy.config()), "digest": policy.config().digest});
    json!({
        "ok": true,
        "before": side(before),
        "after": side(after),
        "rows": diff.rows,
        "newly_allowed": diff.count(Change::Allowed),
        "newly_refused": diff.count(Change::Refused),
        "other_rule": diff.otherwise(),
        "groups": diff.groups.iter().map(group).collect::<Vec<_>>(),
    })
}
