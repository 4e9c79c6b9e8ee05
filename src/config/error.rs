//! What is wrong with a policy: one [`Problem`] a fault, all faults of a file in one error.
//!
//! Purpose: errors that an operator can act on without reading the source: file, line, column,
//! dotted key, what is wrong, the valid keys and the nearest one. Made by the config room only.

use std::fmt;

/// A policy that was refused, with every fault that was found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The policy as people know it: a path, or `built-in policy`.
    pub file: String,
    /// At least one, in the order of the file.
    pub problems: Vec<Problem>,
}

/// One fault of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the text; absent when the file as a whole is at fault.
    pub place: Option<Place>,
    /// Dotted key, such as `command.git.subcommands[2]`; empty for the file as a whole.
    pub key: String,
    /// What is wrong, and what to do where that is not obvious.
    pub what: String,
    /// Keys or words that would have been right here; empty when there is no such list.
    pub valid: Vec<String>,
    /// The one of them that was probably meant.
    pub nearest: Option<String>,
}

/// A place in the text of a policy, counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Place {
    /// The place of a byte offset.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        Self { line, column }
    }
}

impl ConfigError {
    /// An error about the file as a whole.
    pub(super) fn whole(file: String, what: String) -> Self {
        let problem = Problem { place: None, key: String::new(), what, valid: Vec::new(), nearest: None };
        Self { file, problems: vec![problem] }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        out.write_str(&self.what)?;
        if let Some(nearest) = &self.nearest {
            write!(out, "; did you mean {nearest}?")?;
        }
        if !self.valid.is_empty() {
            let end = if self.nearest.is_some() { "" } else { ";" };
            write!(out, "{end} valid: {}", self.valid.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{}:", self.file)?;
            if let Some(Place { line, column }) = problem.place {
                write!(out, "{line}:{column}:")?;
            }
            write!(out, " {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The candidate that `word` was probably meant to be, if one is near enough.
pub(super) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let plain = word.to_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .map(|candidate| {
            (strsim::normalized_damerau_levenshtein(&plain, &candidate.replace('-', "_")), candidate)
        })
        .filter(|(score, _)| *score >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        assert_eq!(Place::of("ab\nçd", 0), Place { line: 1, column: 1 });
        assert_eq!(Place::of("ab\nçd", 5), Place { line: 2, column: 2 });
        assert_eq!(Place::of("ab\n", 99), Place { line: 2, column: 1 }, "an offset past the end is the end");
    }

    #[test]
    fn the_nearest_word_is_near() {
        let keys = ["timeout", "max_timeout", "jobs"];
        assert_eq!(nearest("timeut", keys), Some("timeout".to_owned()));
        assert_eq!(nearest("Max-Timeout", keys), Some("max_timeout".to_owned()));
        assert_eq!(nearest("colour", keys), None);
    }

    #[test]
    fn a_problem_prints_place_key_and_remedy() {
        let error = ConfigError {
            file: "p.toml".into(),
            problems: vec![Problem {
                place: Some(Place { line: 3, column: 1 }),
                key: "limits.timeut".into(),
                what: "unknown key".into(),
                valid: vec!["timeout".into(), "jobs".into()],
                nearest: Some("timeout".into()),
            }],
        };
        let text = error.to_string();
        assert_eq!(
            text,
            "p.toml:3:1: limits.timeut: unknown key; did you mean timeout? valid: timeout, jobs"
        );
    }
}
