//! Program text among the arguments, by kind.
//!
//! Purpose: the one place that joins the kind of a `[[text]]` in a program file to its analyser. An
//! analyser answers the short id of what it found, which the program file describes in words; `None`
//! means that the text only computes. Pure, and linear in the text. Called by `rules`.

use serde::Deserialize;

use super::{awk, sed, sql};

/// A language that arguments may be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TextKind {
    /// Programs of the awk family.
    Awk,
    /// Scripts of sed.
    Sed,
    /// SQL and commands of sqlite3.
    Sqlite,
    /// SQL and commands of psql.
    Psql,
    /// SQL and commands of the client of MySQL and MariaDB.
    Mysql,
}

impl TextKind {
    /// Short id of the first thing in `text` that reaches beyond it.
    pub(super) fn scan(self, text: &[u8]) -> Option<&'static str> {
        match self {
            Self::Awk => awk::scan(text),
            Self::Sed => sed::scan(text),
            Self::Sqlite => sql::sqlite(text),
            Self::Psql => sql::psql(text),
            Self::Mysql => sql::mysql(text),
        }
    }
}
