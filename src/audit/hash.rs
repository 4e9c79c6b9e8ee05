//! "Was it this value?": the keyed hashes of a log, for whoever holds the site key.
//!
//! Purpose: a record shows neither a redacted value nor what was cut from an argument vector, but their HMAC. With
//! the key beside the log anybody who has a candidate can ask; without it nobody can test a guess. Reads only.
//! Called by `argv.rs`, `redact` and `cli/audit/hash.rs`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::lines::Lines;
use super::recover::Part;
use super::{key, locks};

/// Digits of the hash of one redacted value: 128 bits.
const VALUE_DIGITS: usize = 32;

/// The site key of a log.
pub struct SiteKey([u8; 32]);

impl std::fmt::Debug for SiteKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SiteKey").finish_non_exhaustive()
    }
}

impl SiteKey {
    /// Reads the key; never makes one.
    ///
    /// # Errors
    /// When it is not there, not private or no key.
    pub fn load(path: &Path) -> io::Result<Self> {
        key::read(path).map(Self)
    }

    /// What `argv_hmac` says of an argument vector.
    #[must_use]
    pub fn argv(&self, argv: &[Vec<u8>]) -> String {
        of_argv(argv, &self.0)
    }

    /// What `redaction_hmacs` says of a value.
    #[must_use]
    pub fn value(&self, value: &str) -> String {
        of_value(value, &self.0)
    }
}

/// HMAC-SHA-256 over the elements, separated by NUL, as 64 hex digits.
pub(super) fn of_argv(argv: &[Vec<u8>], key: &[u8; 32]) -> String {
    let separated = argv.iter().enumerate().flat_map(|(position, element)| {
        let separator: &[u8] = if position > 0 { &[0] } else { &[] };
        [separator, element.as_slice()]
    });
    hex(key, separated)
}

/// The same over one redacted value, with a prefix that no argument vector has, cut to 32 digits.
pub(super) fn of_value(value: &str, key: &[u8; 32]) -> String {
    let mut digits = hex(key, [b"\0value\0".as_slice(), value.as_bytes()].into_iter());
    digits.truncate(VALUE_DIGITS);
    digits
}

fn hex<'a>(key: &[u8; 32], parts: impl Iterator<Item = &'a [u8]>) -> String {
    // HMAC takes keys of any length; 32 bytes are no error.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return "0".repeat(64) };
    parts.for_each(|part| mac.update(part));
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value & 15)).copied().map_or('0', char::from);
    mac.finalize().into_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// A record that holds a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// File and line, from 1.
    pub place: (PathBuf, u64),
    /// The record.
    pub record: Map<String, Value>,
}

/// The records of `files` whose `argv_hmac` is `argv`, or whose `redaction_hmacs` hold `value`.
///
/// # Errors
/// When a file cannot be read.
pub fn find(files: &[PathBuf], hash: &str, mut hit: impl FnMut(Hit)) -> io::Result<()> {
    for path in files {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("read of {}: {error}", path.display()));
        let file = File::open(path).map_err(named)?;
        let to = locks::settled_size(&file).map_err(named)?;
        for (position, line) in Lines::new(Part { file: &file, from: 0, to }).enumerate() {
            let line = line.map_err(named)?;
            let holds = line.bytes.windows(hash.len()).any(|window| window == hash.as_bytes());
            if !holds {
                continue;
            }
            let Ok(record) = serde_json::from_slice::<Map<String, Value>>(&line.bytes) else { continue };
            let one = record.get("argv_hmac").and_then(Value::as_str) == Some(hash);
            let values = record.get("redaction_hmacs").and_then(Value::as_array);
            if one || values.is_some_and(|values| values.iter().any(|value| value == hash)) {
                hit(Hit { place: (path.clone(), position as u64 + 1), record });
            }
        }
    }
    Ok(())
}

/// `SEQ:HASH` of the last whole record of a log, read from its end: the walk to it is not checked.
///
/// # Errors
/// When it cannot be read, or its end holds no record.
pub fn head(path: &Path) -> io::Result<Option<String>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("read of {}: {error}", path.display()));
    let file = File::open(path).map_err(named)?;
    let size = locks::settled_size(&file).map_err(named)?;
    let end = super::recover::end_of(&file, size).map_err(named)?;
    Ok(end.head.map(|head| format!("{}:{}", head.seq, super::chain::ascii(&head.hash))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_mistaken_for_an_argument_vector() {
        let key = SiteKey([7; 32]);
        assert_eq!(key.value("hunter2").len(), VALUE_DIGITS);
        assert!(!key.argv(&[b"hunter2".to_vec()]).starts_with(&key.value("hunter2")));
        assert_ne!(key.value("hunter2"), key.value("hunter3"));
        assert_ne!(key.value("hunter2"), SiteKey([8; 32]).value("hunter2"));
    }
}
