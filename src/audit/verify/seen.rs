//! What a walk needs of a record: read without a map of all its members.
//!
//! Called by `verify.rs` only.

use std::borrow::Cow;

use serde::Deserialize;

/// Some members of a record; text that is absent is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen<'a> {
    #[serde(borrow)]
    pub(super) event_type: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) run_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) instance_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) head_hash: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) sig: Cow<'a, str>,
    pub(super) head_seq: Option<u64>,
    pub(super) torn_bytes: Option<u64>,
}

impl<'a> Seen<'a> {
    /// Reads a line; nothing where it is not one JSON object of text, or where a member comes twice.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let Ok(text) = std::str::from_utf8(line) else { return None };
        let Ok(seen) = serde_json::from_str(text) else { return None };
        Some(seen)
    }
}
