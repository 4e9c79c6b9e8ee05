//! Expansion: alternatives, variables, `~`, patterns of file names.
//!
//! Purpose: from words to the argument vector that is judged. Where a shell would do something that
//! depends on the value of a variable (split it, match it against files, drop it), the word is refused:
//! an unquoted variable is never split here, and never silently differs. Inputs: words of a tree, what
//! the policy lets them see, and a [`Directory`] that answers for the files. Called before the verdict.

mod glob;

use std::collections::BTreeMap;

use super::placeholder::Reference;
use super::tree::{Glob, Part, Word};

/// Files, as a pattern may see them.
pub trait Directory {
    /// What a directory holds, `.` and `..` left out; `None` if it is none, is out of bounds, is reached
    /// through a link, or cannot be read. The path is as the caller wrote it: empty for the working
    /// directory, else with a slash at its end.
    fn entries(&self, path: &[u8]) -> Option<Vec<Entry>>;
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As the kernel has it.
    pub name: Vec<u8>,
    /// A directory itself, not a link to one: patterns follow no link.
    pub directory: bool,
}

/// What words may see.
#[derive(Clone, Copy)]
pub struct Surroundings<'s> {
    /// What `~` stands for.
    pub home: Option<&'s str>,
    /// The only variables there are.
    pub variables: &'s BTreeMap<String, String>,
    /// The files.
    pub directory: &'s dyn Directory,
}

/// What expansion may still use.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Words.
    pub words: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// Names of files that are looked at.
    pub entries: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { words: 8192, bytes: 1024 * 1024, entries: 200_000 }
    }
}

impl Budget {
    fn take(of: &mut usize, many: usize, what: &'static str) -> Result<(), Problem> {
        *of = of.checked_sub(many).ok_or(Problem::TooMany(what))?;
        Ok(())
    }
}

/// Why a word cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not among the given names.
    #[error("variable '${0}' is not one that commands here can see; write its value")]
    Variable(String),
    /// A shell would split it, or match it against files, or drop it.
    #[error("variable '${0}' holds spaces, patterns or nothing, and is never split here; write \"${0}\"")]
    Unquoted(String),
    /// There is no home directory.
    #[error("'~' stands for nothing here; write the path")]
    Home,
    /// A placeholder was not bound.
    #[error("placeholder '{0}' has no value here")]
    Unbound(Reference),
    /// An alternative is empty, and a shell would drop the word.
    #[error("an empty alternative of '{{…}}' makes a word of nothing; write the words out")]
    EmptyAlternative,
    /// A pattern would go up again.
    #[error("'.' or '..' after a pattern in '{0}' is refused; write the directory out")]
    Dots(String),
    /// One word was wanted.
    #[error("'{0}' would stand for several words where one is wanted; quote it")]
    Several(String),
    /// Beyond the budget.
    #[error("patterns and alternatives stand for too many {0}; narrow them")]
    TooMany(&'static str),
}

/// The arguments that words stand for, in their order.
///
/// # Errors
/// See [`Problem`].
pub fn arguments(
    words: &[Word],
    seen: &Surroundings<'_>,
    budget: &mut Budget,
) -> Result<Vec<Vec<u8>>, Problem> {
    let mut found = Vec::new();
    for word in words {
        let alternatives = alternatives(word, budget)?;
        let several = alternatives.len() > 1;
        for alternative in alternatives {
            if several && alternative.parts.is_empty() {
                return Err(Problem::EmptyAlternative);
            }
            let before = found.len();
            let pieces = resolve(&alternative, seen, budget)?;
            glob::expand(&pieces, seen.directory, budget, &mut found)?;
            let new =
                found.iter().skip(before).map(|word: &Vec<u8>| word.len()).fold(0, usize::saturating_add);
            Budget::take(&mut budget.words, found.len().saturating_sub(before), "words")?;
            Budget::take(&mut budget.bytes, new, "bytes")?;
        }
    }
    Ok(found)
}

/// The one text that a word stands for: a value, a text for stdin, a file, a directory.
///
/// # Errors
/// See [`Problem`].
pub fn single(word: &Word, seen: &Surroundings<'_>, budget: &mut Budget) -> Result<String, Problem> {
    let mut text = String::new();
    for piece in resolve(word, seen, budget)? {
        match piece {
            Piece::Text(more) => text.push_str(&more),
            Piece::Glob(_) => return Err(Problem::Several(word.to_string())),
        }
    }
    Budget::take(&mut budget.bytes, text.len(), "bytes")?;
    Ok(text)
}

/// A word without alternatives, variables and `~`.
enum Piece {
    Text(String),
    Glob(Glob),
}

fn resolve(word: &Word, seen: &Surroundings<'_>, budget: &mut Budget) -> Result<Vec<Piece>, Problem> {
    let mut pieces = Vec::new();
    let mut bytes = 0_usize;
    for part in &word.parts {
        let text = match part {
            Part::Literal(text) => text.clone(),
            Part::Tilde => seen.home.ok_or(Problem::Home)?.to_owned(),
            Part::Variable { name, quoted } => {
                let value = seen.variables.get(name).ok_or_else(|| Problem::Variable(name.clone()))?;
                let special = |c: char| c.is_whitespace() || matches!(c, '*' | '?' | '[' | '\\');
                if !quoted && (value.is_empty() || value.contains(special)) {
                    return Err(Problem::Unquoted(name.clone()));
                }
                value.clone()
            }
            Part::Glob(glob) => {
                pieces.push(Piece::Glob(glob.clone()));
                continue;
            }
            Part::Placeholder(reference) => return Err(Problem::Unbound(reference.clone())),
            Part::Brace(_) => return Err(Problem::Several(word.to_string())),
        };
        bytes = bytes.saturating_add(text.len());
        if bytes > budget.bytes {
            return Err(Problem::TooMany("bytes"));
        }
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// The words that `{a,b}` stands for: the first alternatives first, the last brace changing fastest.
fn alternatives(word: &Word, budget: &Budget) -> Result<Vec<Word>, Problem> {
    let mut found = vec![Word::default()];
    let mut counted = 0_usize;
    for part in &word.parts {
        let Part::Brace(choices) = part else {
            // In place: a word of many parts would be copied once for each of them.
            let end = Word { parts: vec![part.clone()] };
            counted = counted.saturating_add(size(std::slice::from_ref(&end)).saturating_mul(found.len()));
            if counted > budget.bytes {
                return Err(Problem::TooMany("bytes"));
            }
            found.iter_mut().for_each(|word| word.append(&end));
            continue;
        };
        let mut ends = Vec::new();
        for choice in choices {
            ends.extend(alternatives(choice, budget)?);
        }
        // Judged before it is made.
        let many = found.len().saturating_mul(ends.len());
        let begins = counted.saturating_mul(ends.len());
        counted = size(&ends).saturating_mul(found.len()).saturating_add(begins);
        if many > budget.words {
            return Err(Problem::TooMany("words"));
        }
        if counted > budget.bytes {
            return Err(Problem::TooMany("bytes"));
        }
        let mut longer = Vec::with_capacity(many);
        for begin in &found {
            for end in &ends {
                let mut word = begin.clone();
                word.append(end);
                longer.push(word);
            }
        }
        found = longer;
    }
    Ok(found)
}

/// Bytes of words, each other part counted as one.
fn size(words: &[Word]) -> usize {
    let parts = words.iter().flat_map(|word| &word.parts);
    parts
        .map(|part| if let Part::Literal(text) = part { text.len() } else { 1 })
        .fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_before_they_are_copied_into_every_alternative() {
        let word = |text: &str| Word { parts: vec![Part::Literal(text.to_owned())] };
        let brace = || Part::Brace(vec![word("a"), word("b")]);
        // Nearly a million parts: copied once for each of them, it would not end.
        let many = Word { parts: vec![Part::Glob(Glob::One); 900_000] };
        let budget = Budget { bytes: 1_000_000, ..Budget::default() };
        let made = alternatives(&many, &budget).unwrap();
        assert_eq!((made.len(), made.first().unwrap().parts.len()), (1, 900_000));
        let twice = Word { parts: [vec![brace()], many.parts].concat() };
        assert_eq!(alternatives(&twice, &budget).unwrap_err(), Problem::TooMany("bytes"));
        let both = Word { parts: vec![Part::Literal("x".into()), brace(), Part::Literal("y".into())] };
        assert_eq!(alternatives(&both, &budget).unwrap(), [word("xay"), word("xby")]);
        let tight = Budget { bytes: 5, ..Budget::default() };
        assert_eq!(alternatives(&both, &tight).unwrap_err(), Problem::TooMany("bytes"));
    }
}
