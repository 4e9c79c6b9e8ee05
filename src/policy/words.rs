//! Words for messages: names as they may be shown to people and logs.
//!
//! Purpose: whatever a caller sent is escaped and cut before it stands in a sentence, so that a name
//! cannot forge a line or a terminal sequence. Called by the other files of this room.

use std::fmt;

/// Longest part of a name that a message shows, in characters.
const SHOWN: usize = 120;

/// A name without quotes, escaped and cut.
pub(super) struct EscapedName<'a>(pub(super) &'a [u8]);

impl fmt::Display for EscapedName<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        let text = String::from_utf8_lossy(self.0);
        let mut characters = text.chars();
        for character in characters.by_ref().take(SHOWN) {
            if matches!(character, '\'' | '"') {
                out.write_char(character)?;
            } else {
                write!(out, "{}", character.escape_debug())?;
            }
        }
        if characters.next().is_some() { out.write_char('…') } else { Ok(()) }
    }
}

/// A name in single quotes.
pub(super) fn quoted(name: &[u8]) -> String {
    format!("'{}'", EscapedName(name))
}
