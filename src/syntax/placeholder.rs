//! `#@#${id.field}#@#$`: what an earlier command of a batch gave, as text inside of one word.
//!
//! Purpose: reads placeholders, and binds them after a line was parsed, so that what is bound can never
//! become syntax: it is text, whatever it holds, and is not read again. Inputs: the text of an argument,
//! or a tree; what the earlier commands gave. Called by the parser and by the executor of batches.

use std::fmt;

use serde_json::Value;

use super::tree::{List, Part, Word};

/// What begins one.
pub const OPEN: &str = "#@#${";
/// What ends one.
pub const CLOSE: &str = "}#@#$";

/// Bytes that a name or a step of a path may have.
const NAME: usize = 64;
/// Steps of a path.
const STEPS: usize = 16;

/// What a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The command it is about.
    pub id: String,
    /// What of it.
    pub field: Field,
}

/// What of an earlier command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// Its exit status, in digits.
    ExitCode,
    /// Its output, without the newlines at its end, as `$(…)` would give it.
    Stdout,
    /// The same of its errors.
    Stderr,
    /// A value in its output, which is one JSON object or array: names of fields, and indices of arrays.
    Json(Vec<String>),
}

/// What an earlier command gave.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Exit status.
    pub exit_code: i32,
    /// Whole output.
    pub stdout: Vec<u8>,
    /// Whole errors.
    pub stderr: Vec<u8>,
}

/// What may still be bound.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Bytes of one value: an argument of a program cannot be longer.
    pub value: usize,
    /// Bytes of all of them.
    pub total: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { value: 128 * 1024 - 1, total: 1024 * 1024 }
    }
}

/// Why a placeholder has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unbound {
    /// A text holds the beginning of one and nothing that makes it one.
    #[error("placeholder at character {0} is malformed; write '#@#${{id.field}}#@#$'")]
    Malformed(usize),
    /// No earlier command has this name.
    #[error("placeholder '{0}' names no command of an earlier step; give that command this id")]
    Unknown(Reference),
    /// The output is no JSON.
    #[error("placeholder '{0}' needs JSON, and the output is none ({1}); use .stdout for the text")]
    NotJson(Reference, String),
    /// The output has no such field.
    #[error("placeholder '{0}' names a field that the output does not have")]
    Missing(Reference),
    /// The value is no text.
    #[error("placeholder '{0}' stands for bytes that are no text of an argument (NUL, or not UTF-8)")]
    NotText(Reference),
    /// The value is longer than what is left.
    #[error(
        "placeholder '{0}' stands for {1} bytes, more than the {2} that are left; take a smaller field of it"
    )]
    Large(Reference, usize, usize),
}

impl Reference {
    /// What stands between [`OPEN`] and [`CLOSE`].
    #[must_use]
    pub fn read(inner: &str) -> Option<Self> {
        let (id, path) = inner.split_once('.')?;
        let name = |text: &str, more: &[char]| {
            let holds = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || more.contains(&c);
            !text.is_empty() && text.len() <= NAME && text.chars().all(holds)
        };
        let steps: Vec<&str> = path.split('.').collect();
        let further = ['@', '/', ':', '+'];
        if !name(id, &[]) || steps.len() > STEPS || !steps.iter().all(|step| name(step, &further)) {
            return None;
        }
        let field = match steps.as_slice() {
            ["exit_code"] => Field::ExitCode,
            ["stdout"] => Field::Stdout,
            ["stderr"] => Field::Stderr,
            // A step below one of these three could mean either; strictness refuses it.
            ["exit_code" | "stdout" | "stderr", ..] => return None,
            steps => Field::Json(steps.iter().map(|step| (*step).to_owned()).collect()),
        };
        Some(Self { id: id.to_owned(), field })
    }

    /// Its value.
    fn value(&self, given: &Given, budget: &mut Budget) -> Result<String, Unbound> {
        let value = match &self.field {
            Field::ExitCode => given.exit_code.to_string(),
            Field::Stdout => self.text(&given.stdout)?,
            Field::Stderr => self.text(&given.stderr)?,
            Field::Json(path) => {
                let json: Value = serde_json::from_slice(&given.stdout)
                    .map_err(|problem| Unbound::NotJson(self.clone(), problem.to_string()))?;
                match path.iter().try_fold(&json, step).ok_or_else(|| Unbound::Missing(self.clone()))? {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                }
            }
        };
        if value.contains('\0') {
            return Err(Unbound::NotText(self.clone()));
        }
        let left = budget.value.min(budget.total);
        if value.len() > left {
            return Err(Unbound::Large(self.clone(), value.len(), left));
        }
        budget.total = budget.total.saturating_sub(value.len());
        Ok(value)
    }

    fn text(&self, bytes: &[u8]) -> Result<String, Unbound> {
        let text = std::str::from_utf8(bytes).map_err(|_| Unbound::NotText(self.clone()))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }
}

fn step<'v>(value: &'v Value, step: &String) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) if step.bytes().all(|b| b.is_ascii_digit()) => {
            items.get(step.parse::<usize>().ok()?)
        }
        _ => None,
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.id)?;
        match &self.field {
            Field::ExitCode => f.write_str("exit_code"),
            Field::Stdout => f.write_str("stdout"),
            Field::Stderr => f.write_str("stderr"),
            Field::Json(path) => f.write_str(&path.join(".")),
        }
    }
}

/// Reads one argument that is no shell syntax: text and placeholders, nothing else.
///
/// # Errors
/// [`Unbound::Malformed`] where the beginning of a placeholder is not one.
pub fn argument(text: &str) -> Result<Word, Unbound> {
    let mut word = Word::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        word.push_text(before);
        let malformed = || {
            let bytes = text.len().saturating_sub(after.len()).saturating_sub(OPEN.len());
            Unbound::Malformed(
                text.chars().zip(text.char_indices()).take_while(|(_, (at, _))| *at <= bytes).count(),
            )
        };
        let (inner, behind) = after.split_once(CLOSE).ok_or_else(malformed)?;
        word.push(Part::Placeholder(Reference::read(inner).ok_or_else(malformed)?));
        rest = behind;
    }
    word.push_text(rest);
    Ok(word)
}

/// The placeholders of a line, in the order in which they are written.
#[must_use]
pub fn references(list: &List) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut list = list.clone();
    let Ok(()) = list.each_word(&mut |word| {
        in_word(word, &mut found);
        Ok::<(), std::convert::Infallible>(())
    });
    found
}

/// The placeholders of one word.
pub fn in_word(word: &Word, found: &mut Vec<Reference>) {
    for part in &word.parts {
        match part {
            Part::Placeholder(reference) => found.push(reference.clone()),
            Part::Brace(words) => words.iter().for_each(|word| in_word(word, found)),
            _ => {}
        }
    }
}

/// Puts values in the places of placeholders: text, never syntax. Commands, words and targets stay as many.
///
/// # Errors
/// Any placeholder without a value refuses the whole.
pub fn bind<'g>(
    list: &mut List,
    given: &impl Fn(&str) -> Option<&'g Given>,
    budget: &mut Budget,
) -> Result<(), Unbound> {
    list.each_word(&mut |word| bind_word(word, given, budget))
}

/// The same for one word.
///
/// # Errors
/// As [`bind`].
pub fn bind_word<'g>(
    word: &mut Word,
    given: &impl Fn(&str) -> Option<&'g Given>,
    budget: &mut Budget,
) -> Result<(), Unbound> {
    let mut bound = Word::default();
    for part in std::mem::take(&mut word.parts) {
        match part {
            Part::Placeholder(reference) => {
                let from = given(&reference.id).ok_or_else(|| Unbound::Unknown(reference.clone()))?;
                bound.push_text(&reference.value(from, budget)?);
            }
            Part::Brace(mut words) => {
                for word in &mut words {
                    bind_word(word, given, budget)?;
                }
                bound.push(Part::Brace(words));
            }
            other => bound.push(other),
        }
    }
    *word = bound;
    Ok(())
}
