//! What this server in particular knows to be secret: exact values, and the operator's own patterns.
//!
//! Purpose: the one layer without guesses. A value is found as it stands, percent-encoded, and in base64 at any
//! offset. Called by `redact`; filled by `mod.rs` of the room from the policy and from what the transports hold.

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex::Regex;

use super::names::{Kind, harmless, kind};

/// A shorter value would be found in words that have nothing to do with it.
const SHORTEST: usize = 6;
/// A value whose name says nothing is taken for a secret from this length on, if it looks like one.
const TELLING: usize = 16;

/// Values that must not stand in any record.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Vec<String>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Adds a value that is a secret, such as a token of the HTTP transport. One of less than six bytes is left
    /// out: it would be found everywhere.
    pub fn push(&mut self, value: &str) {
        if value.len() >= SHORTEST && !self.0.iter().any(|known| known == value) {
            Arc::make_mut(&mut self.0).push(value.to_owned());
        }
    }

    /// Adds all of `others`.
    pub fn extend(&mut self, others: &Self) {
        others.0.iter().for_each(|value| self.push(value));
    }

    /// Adds the value of a variable, if its name or its looks say that it is a secret: `LANG=C.UTF-8` is none.
    pub fn push_variable(&mut self, name: &str, value: &str) {
        if kind(name) != Kind::Plain && !harmless(Kind::Strong, value) {
            return self.push(value);
        }
        let one_word =
            value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b',' | b':'));
        let mixed = value.bytes().any(|byte| byte.is_ascii_digit())
            && value.bytes().any(|byte| byte.is_ascii_alphabetic());
        if value.len() >= TELLING && one_word && mixed && !value.contains("://") {
            self.push(value);
        }
    }
}

impl Secrets {
    /// The values of those variables that are secret. A value that holds another one comes first.
    #[must_use]
    pub fn of<'v>(variables: impl Iterator<Item = (&'v String, &'v String)>) -> Self {
        let mut secrets = Self::default();
        for (name, value) in variables {
            secrets.push_variable(name, value);
        }
        Arc::make_mut(&mut secrets.0).sort_by_key(|value| std::cmp::Reverse(value.len()));
        secrets
    }

    /// `text` with something else in the place of each of them.
    pub(super) fn hide<'t>(&self, text: &'t str, mut with: impl FnMut(&str) -> String) -> Cow<'t, str> {
        let mut hidden = Cow::Borrowed(text);
        for value in self.0.iter() {
            let Some(instead) = hidden.matches(value.as_str()).map(&mut with).last() else { continue };
            hidden = Cow::Owned(hidden.replace(value.as_str(), &instead));
        }
        hidden
    }
}

/// Secrets and patterns of this site, ready to search; and the key of the hashes that stand in their place.
#[derive(Default)]
pub(in crate::audit) struct Own {
    known: Option<AhoCorasick>,
    patterns: Vec<Regex>,
    key: Option<[u8; 32]>,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Own").field("patterns", &self.patterns).finish_non_exhaustive()
    }
}

impl Own {
    /// Makes ready to search. Nothing where the values are more than a search can hold.
    pub(in crate::audit) fn new(
        secrets: &Secrets,
        patterns: &[Regex],
        key: [u8; 32],
    ) -> Result<Self, aho_corasick::BuildError> {
        let forms: Vec<String> = secrets.0.iter().flat_map(|secret| forms(secret)).collect();
        let known = match forms.is_empty() {
            true => None,
            false => Some(AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms)?),
        };
        Ok(Self { known, patterns: patterns.to_vec(), key: Some(key) })
    }

    /// Finds exact values.
    pub(super) fn known(&self) -> Option<&AhoCorasick> {
        self.known.as_ref()
    }

    pub(in crate::audit) fn patterns(&self) -> &[Regex] {
        &self.patterns
    }

    pub(super) fn key(&self) -> Option<&[u8; 32]> {
        self.key.as_ref()
    }
}

/// How a secret may stand in a text.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), percent(secret, false), percent(secret, true)];
    for offset in 0..3 {
        // Whatever stands before and after: the digits that depend on the secret alone.
        let padded = [vec![0; offset], secret.as_bytes().to_vec()].concat();
        let first = (offset * 8).div_ceil(6);
        let last = padded.len() * 8 / 6;
        for text in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            if let Some(part) = text.get(first..last).filter(|part| part.len() >= SHORTEST) {
                forms.push(part.to_owned());
            }
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

fn percent(text: &str, lower: bool) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| match (plain(byte), lower) {
            (true, _) => char::from(byte).to_string(),
            (false, true) => format!("%{byte:02x}"),
            (false, false) => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_value_is_found_in_every_form() {
        let mut secrets = Secrets::default();
        secrets.push("p@ss/w0rd!x");
        let own = Own::new(&secrets, &[], [0; 32]).unwrap();
        let find = |text: &str| own.known().unwrap().is_match(text);
        assert!(find("a p@ss/w0rd!x b") && find("p%40ss%2Fw0rd%21x") && find("p%40ss%2fw0rd%21x"));
        for before in ["", "u", "us", "usr:"] {
            let whole = STANDARD_NO_PAD.encode(format!("{before}p@ss/w0rd!x:rest"));
            assert!(find(&whole), "{before}: {whole}");
        }
        assert!(!find("p@ss/w0rd?x"));
    }

    #[test]
    fn secrets_of_a_call_are_hidden_wherever_they_stand() {
        let variables = [("API_TOKEN", "s3cr3t-one"), ("TOKEN_LONG", "s3cr3t-one-more"), ("LANG", "C.UTF-8")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::of(variables.iter().map(|(name, value)| (name, value)));
        let mut count = 0;
        let hidden = secrets.hide("X: s3cr3t-one-more, s3cr3t-one; C.UTF-8", |_| {
            count += 1;
            "[…]".to_owned()
        });
        assert_eq!((hidden.as_ref(), count), ("X: […], […]; C.UTF-8", 2));
        assert_eq!(secrets.hide("nothing", |_| String::new()), "nothing");
        assert!(!format!("{secrets:?}").contains("s3cr3t"));
    }

    #[test]
    fn variables_are_secret_by_name_or_by_looks() {
        let taken = |name: &str, value: &str| {
            let mut secrets = Secrets::default();
            secrets.push_variable(name, value);
            !secrets.0.is_empty()
        };
        assert!(taken("DB_PASSWORD", "hunter2"));
        assert!(taken("DATA", "a1b2c3d4e5f6a7b8c9d0"));
        for (name, value) in [
            ("LANG", "C.UTF-8"),
            ("GIT_PAGER", "cat"),
            ("CARGO_HOME", "/work/.cargo/registry1"),
            ("URL", "https://example.org/a1b2c3d4e5"),
            ("TOKEN_FILE", "/run/secrets/token1"),
            ("PASSWORD", "abc"),
        ] {
            assert!(!taken(name, value), "{name}={value}");
        }
    }
}
