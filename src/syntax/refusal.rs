//! A refusal: which construct, where, and what to do instead.
//!
//! Purpose: one value for everything that the parser does not take. Inputs: a row of
//! [`constructs`](super::constructs) and a place. Made in this room only; anyone may show it.

use std::fmt;

/// What the subset leaves out, or a breach of its grammar: a row of the table that becomes the document.
#[derive(Debug, PartialEq, Eq)]
pub struct Construct {
    /// Stable name, as corpora and records spell it.
    pub id: &'static str,
    /// In words, as a message names it.
    pub name: &'static str,
    /// A line that is refused because of it.
    pub example: &'static str,
    /// What to do instead, as a clause.
    pub instead: &'static str,
}

/// Why a line is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What was found.
    pub construct: &'static Construct,
    /// Line of the text, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The name or character it is about, where the construct alone does not say it.
    pub detail: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.construct.name)?;
        if let Some(detail) = &self.detail {
            write!(f, " '{}'", detail.escape_debug())?;
        }
        write!(f, " at ")?;
        if self.line > 1 {
            write!(f, "line {}, ", self.line)?;
        }
        write!(f, "column {} is refused: no shell runs here; {}", self.column, self.construct.instead)
    }
}

impl std::error::Error for Refusal {}
