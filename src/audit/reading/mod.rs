//! Reading a log for people: records in the order of their chain, whatever files they lie in.
//!
//! Purpose: what `audit show`, `audit report` and `audit replay` share. A log may be a gigabyte and may hold
//! anything, so it is read line by line in bounded memory, and a line that is no whole record is a value, not
//! an error. Reads only. Called by `cli/audit/`.

mod files;
mod filter;
mod follow;
mod safe;
mod shown;
mod walk;
mod when;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::chain::{self, Fault};

pub use files::{Chain, Log, chains, logs, with_rotated};
pub(crate) use filter::is_denied;
pub use filter::{Filter, known_events, known_outcomes};
pub use follow::{Followed, Follower};
pub use safe::{quoted, safe};
pub(crate) use shown::shortened;
pub use shown::{Colours, command_line, line, long};
pub use walk::{Entries, entries};
pub use when::{Moment, ago_or_moment};

/// Where a line stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file; `-` is standard input.
    pub file: Arc<PathBuf>,
    /// The line, from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", safe(&self.file.to_string_lossy()), self.line)
    }
}

/// Why a line is not a whole record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// It does not look like a record.
    Foreign,
    /// It is longer than any record.
    TooLong,
    /// Its bytes do not give the hash that it names.
    Edited,
    /// The beginning of a record, and nothing accounts for it.
    Torn,
    /// The beginning of a record; the `audit.recover` that follows accounts for it, so nothing is wrong.
    Recovered,
}

impl Bad {
    /// Stable code for scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "foreign_line",
            Self::TooLong => "too_long",
            Self::Edited => "edited",
            Self::Torn => "torn",
            Self::Recovered => "recovered",
        }
    }

    /// Whether the log is not as it was written.
    #[must_use]
    pub fn counts(self) -> bool {
        self != Self::Recovered
    }

    /// One clause for people.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::Foreign => "not a record",
            Self::TooLong => "longer than any record",
            Self::Edited => "its bytes do not give its record_hash",
            Self::Torn => "an unfinished record",
            Self::Recovered => "an unfinished record, accounted for by the audit.recover that follows",
        }
    }
}

/// One line of a log.
#[derive(Debug)]
pub struct Entry {
    /// Where it stands.
    pub place: Place,
    /// The record, or why it is none.
    pub content: Result<Record, Bad>,
}

/// A whole record: its bytes give its hash.
#[derive(Debug, Clone)]
pub struct Record {
    bytes: Vec<u8>,
    members: Map<String, Value>,
}

impl Record {
    /// Reads one line, without its newline.
    ///
    /// # Errors
    /// Why it is no record.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Bad> {
        match chain::read(&bytes) {
            Ok(_) => {}
            Err(Fault::Edited) => return Err(Bad::Edited),
            Err(Fault::Foreign) => {
                return Err(if super::verify::looks_torn(&bytes) { Bad::Torn } else { Bad::Foreign });
            }
        }
        match serde_json::from_slice(&bytes) {
            Ok(members) => Ok(Self { bytes, members }),
            Err(_) => Err(Bad::Foreign),
        }
    }

    /// The line as it stands in the file, without its newline.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All members, in their order.
    #[must_use]
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// A member that is text; absent where it is not there or something else.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    /// A member that is a count.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.members.get(name).and_then(Value::as_u64)
    }

    /// A member that is true.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.members.get(name).and_then(Value::as_bool) == Some(true)
    }

    /// The words of a member that is a list.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        let list = self.members.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// What the record is.
    #[must_use]
    pub fn event(&self) -> &str {
        self.text("event_type").unwrap_or("")
    }

    /// When it was made, as it says; times of this form sort as text.
    #[must_use]
    pub fn timestamp(&self) -> &str {
        self.text("timestamp").unwrap_or("")
    }

    /// Its number in the chain; its frame was found right, so there is one.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.number("seq").unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
