//! `explain --stdin`: one JSON object a line in, one verdict a line out.
//!
//! Purpose: whole corpora judged at once. Rows repeat few allow-lists and few names, so lists and
//! profiles are compiled once and kept (bounded); strings are borrowed from the line where JSON
//! escapes allow it. Called by `explain` only.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use serde::Deserialize;

use super::{profile, rule_id, sentence, verdict_word};
use crate::policy::{AllowList, Denial, Policy, PolicyError, Rule};

/// Longest line that is read.
const LINE: u64 = 16 << 20;
/// Answers are handed on in pieces of about this size.
const PIECE: usize = 1 << 16;
/// Most allow-lists kept, and most profiles kept for each.
const KEPT: usize = 1024;

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    argv: Vec<Text<'a>>,
    #[serde(borrow)]
    allow: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    allow_patterns: Option<Vec<Text<'a>>>,
    /// Names and values asked for, as in a request.
    env: Option<BTreeMap<String, String>>,
    /// Working directory asked for.
    cwd: Option<PathBuf>,
}

/// A string that is borrowed from the line unless it holds escapes. (Serde borrows through this one
/// field, but not inside of a `Vec<Cow<str>>`.)
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// An allow-list with the profiles of its names, as JSON text. `None` is the policy's own list.
type Kept = (Option<AllowList>, HashMap<String, String>);

/// Judges every line of `input`; returns how many could not be judged.
pub(super) fn judge_lines<R: Read>(
    policy: &Policy,
    allow: Option<AllowList>,
    mut input: BufReader<R>,
    mut out: impl Write,
) -> io::Result<u64> {
    let mut judge = Judge { policy, given: (allow, HashMap::new()), lists: HashMap::new() };
    let (mut line, mut answers) = (Vec::new(), Vec::with_capacity(PIECE * 2));
    let (mut number, mut bad) = (0u64, 0u64);
    loop {
        // Nothing more is at hand: whoever waits for an answer gets it before the next read blocks.
        if answers.len() >= PIECE || input.buffer().is_empty() {
            out.write_all(&answers)?;
            out.flush()?;
            answers.clear();
        }
        line.clear();
        if (&mut input).take(LINE).read_until(b'\n', &mut line)? == 0 {
            out.write_all(&answers)?;
            out.flush()?;
            return Ok(bad);
        }
        number = number.saturating_add(1);
        let judged = if !line.ends_with(b"\n") && line.len() as u64 >= LINE {
            input.skip_until(b'\n')?;
            Err(format!("longer than {LINE} bytes"))
        } else {
            judge.line(&line, &mut answers)?
        };
        if let Err(problem) = judged {
            bad = bad.saturating_add(1);
            let text = format!("line {number}: {problem}; give {{\"argv\":[…],\"allow\":[…]?}}");
            serde_json::to_writer(&mut answers, &serde_json::json!({ "error": text }))?;
            answers.push(b'\n');
        }
    }
}

struct Judge<'p> {
    policy: &'p Policy,
    /// For lines that name no list.
    given: Kept,
    lists: HashMap<Vec<u8>, Kept>,
}

impl Judge<'_> {
    /// Judges one line; the inner error says what is wrong with it.
    fn line(&mut self, line: &[u8], answers: &mut Vec<u8>) -> io::Result<Result<(), String>> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Ok(()));
        }
        let row: Row<'_> = match serde_json::from_slice(line) {
            Ok(row) => row,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let policy = self.policy;
        let (list, profiles) = match self.list(&row) {
            Ok(kept) => kept,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let argv: Vec<&[u8]> = row.argv.iter().map(|text| text.0.as_bytes()).collect();
        let verdict = match (&row.cwd, &row.env) {
            (None, None) => policy.judge_argv(&argv, list.as_ref()),
            (cwd, env) => {
                let cwd = policy.config().workspace.resolve(cwd.as_deref());
                let env: Vec<_> =
                    env.iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
                policy.judge_call(&argv, list.as_ref(), &cwd, &env)
            }
        };
        let walls = match (&verdict, row.argv.first()) {
            (Ok(rule), Some(name)) => Some(kept_profile(policy, rule, name.as_ref(), profiles)),
            _ => None,
        };
        write_answer(answers, &row.argv, &verdict, walls)?;
        Ok(Ok(()))
    }

    /// The compiled allow-list of a row, out of the kept ones if it was seen before.
    fn list(&mut self, row: &Row<'_>) -> Result<&mut Kept, PolicyError> {
        if row.allow.is_none() && row.allow_patterns.is_none() {
            return Ok(&mut self.given);
        }
        let names = row.allow.as_deref().unwrap_or(&[]);
        let patterns = row.allow_patterns.as_deref().unwrap_or(&[]);
        // Lengths, not separators: a name may hold any character.
        let mut key = names.len().to_le_bytes().to_vec();
        for text in names.iter().chain(patterns) {
            key.extend_from_slice(&text.0.len().to_le_bytes());
            key.extend_from_slice(text.0.as_bytes());
        }
        if self.lists.len() >= KEPT && !self.lists.contains_key(&key) {
            self.lists.clear();
        }
        match self.lists.entry(key) {
            Entry::Occupied(kept) => Ok(kept.into_mut()),
            Entry::Vacant(free) => {
                let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                let patterns: Vec<&str> = patterns.iter().map(AsRef::as_ref).collect();
                let list = self.policy.allow_list(&names, &patterns)?;
                Ok(free.insert((Some(list), HashMap::new())))
            }
        }
    }
}

fn kept_profile<'a>(
    policy: &Policy,
    rule: &Rule<'_>,
    name: &str,
    profiles: &'a mut HashMap<String, String>,
) -> &'a str {
    if !profiles.contains_key(name) {
        if profiles.len() >= KEPT {
            profiles.clear();
        }
        profiles.insert(name.to_owned(), profile::of(policy, &rule.command(name), None).to_string());
    }
    profiles.get(name).map_or("null", String::as_str)
}

/// Writes one answer as a line of JSON.
pub(super) fn write_answer<T: AsRef<str>>(
    out: &mut Vec<u8>,
    argv: &[T],
    verdict: &Result<Rule<'_>, Denial>,
    walls: Option<&str>,
) -> io::Result<()> {
    out.extend_from_slice(b"{\"argv\":[");
    for (index, argument) in argv.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, argument.as_ref())?;
    }
    out.extend_from_slice(b"],\"verdict\":");
    serde_json::to_writer(&mut *out, verdict_word(verdict))?;
    out.extend_from_slice(b",\"rule\":");
    serde_json::to_writer(&mut *out, rule_id(verdict))?;
    out.extend_from_slice(b",\"reason\":");
    let name = argv.first().map_or("", AsRef::as_ref);
    serde_json::to_writer(&mut *out, &sentence(verdict, name))?;
    match verdict {
        Ok(rule) if rule.asks => out.extend_from_slice(b",\"consent\":\"ask\""),
        Ok(_) => {}
        Err(denial) => write_denial(out, argv, denial)?,
    }
    if let Some(walls) = walls {
        out.extend_from_slice(b",\"profile\":");
        out.extend_from_slice(walls.as_bytes());
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// The layer that refused, the argument that triggered it, and what to do instead.
fn write_denial<T: AsRef<str>>(out: &mut Vec<u8>, argv: &[T], denial: &Denial) -> io::Result<()> {
    out.extend_from_slice(b",\"layer\":");
    serde_json::to_writer(&mut *out, denial.layer())?;
    if let Some((at, text)) = triggered(argv, denial) {
        write!(out, ",\"argument\":{{\"index\":{at},\"text\":")?;
        serde_json::to_writer(&mut *out, text)?;
        out.push(b'}');
    }
    if let Some(instead) = &denial.instead {
        out.extend_from_slice(b",\"instead\":");
        serde_json::to_writer(&mut *out, instead)?;
    }
    Ok(())
}

/// The element that triggered a refusal, with its index; 0 is the name.
pub(super) fn triggered<'a, T: AsRef<str>>(argv: &'a [T], denial: &Denial) -> Option<(usize, &'a str)> {
    let at = denial.at?;
    argv.get(at).map(|text| (at, text.as_ref()))
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
