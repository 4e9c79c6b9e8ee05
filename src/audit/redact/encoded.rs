//! Secrets inside of an encoding: percent-encoded assignments, one level of base64.
//!
//! Purpose: `?next=%2Fx%3Ftoken%3DVALUE` and `echo c2VjcmV0… | base64 -d`. One level, as people and tools write it;
//! whoever encodes twice wants to hide, and redaction is no guard against that. Pure. Called by `redact`.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::Regex;

use super::names::{Kind, harmless, kind};
use super::{Found, at, formats_of};

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

const BASE64: &str = "base64";
const PERCENT: &str = "percent-encoded";

/// A word that may be base64.
static CANDIDATE: LazyLock<Result<Regex, regex::Error>> =
    LazyLock::new(|| Regex::new(r"(?-u)[A-Za-z0-9+/_-]{16,}={0,2}"));

/// A word with an encoded `=` or `:`.
static ENCODED: LazyLock<Result<Regex, regex::Error>> =
    LazyLock::new(|| Regex::new(r#"[^\s"'&;=?,]*%(?i:3[AD])[^\s"'&;,]*"#));

/// An encoded assignment: the name, the separator, the value up to an encoded or plain end.
static ASSIGNED: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r#"([A-Za-z_][A-Za-z0-9_.-]*)((?:%22|%27)?(?:%20)*(?:%3[AaDd])(?:%20)*(?:%22|%27)?)((?:[^\s"'&;,%<>]|%(?:[013-9A-Fa-f][0-9A-Fa-f]|2[134589ABDEFabdef]))+)"#,
    )
});

/// Both patterns compile.
#[cfg(test)]
pub(super) fn compiles() -> bool {
    [&CANDIDATE, &ENCODED, &ASSIGNED].iter().all(|pattern| pattern.is_ok())
}

/// Replaces percent-encoded secrets.
pub(super) fn percent(text: &str, found: &mut Found) -> Option<String> {
    let (Ok(words), Ok(assigned)) = (ENCODED.as_ref(), ASSIGNED.as_ref()) else {
        return Some(found.note(super::BROKEN, text));
    };
    let changed = words.replace_all(text, |word: &regex::Captures<'_>| {
        let word = at(word, 0);
        let once = assigned.replace_all(word, |parts: &regex::Captures<'_>| {
            let (name, value) = (at(parts, 1), at(parts, 3));
            // What `%2F` leaves before a name is no part of it.
            let name_of = name.strip_prefix("2F").or_else(|| name.strip_prefix("2f")).unwrap_or(name);
            let name_of = strip_escape(word, parts, name_of);
            match harmless(kind(name_of), value) {
                true => at(parts, 0).to_owned(),
                false => format!("{name}{}{}", at(parts, 2), found.note(PERCENT, value)),
            }
        });
        // Anything else that shows only once it is decoded takes the whole word with it.
        let decoded = decode(&once);
        let mut inner = found.scratch();
        super::plain_layers(&decoded, &mut inner);
        if inner.count > 0 { found.note(PERCENT, word) } else { once.into_owned() }
    });
    match changed {
        std::borrow::Cow::Borrowed(_) => None,
        std::borrow::Cow::Owned(changed) => Some(changed),
    }
}

/// A name that was matched from within an escape (`%3Ftoken` gives `Ftoken`).
fn strip_escape<'a>(word: &str, parts: &regex::Captures<'_>, name: &'a str) -> &'a str {
    let Some(start) = parts.get(1).map(|part| part.start()) else { return name };
    let before = |back: usize| start.checked_sub(back).and_then(|at| word.as_bytes().get(at)).copied();
    match (before(1), before(2)) {
        (Some(b'%'), _) => name.get(2..).unwrap_or(name),
        (Some(digit), Some(b'%')) if digit.is_ascii_hexdigit() => name.get(1..).unwrap_or(name),
        _ => name,
    }
}

/// Decodes `%XX`; what is not UTF-8 then shows as replacement characters.
fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match pair.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or(&[]);
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Replaces words that decode to a text with a secret in it.
pub(super) fn base64(text: &str, found: &mut Found) -> Option<String> {
    let Ok(candidates) = CANDIDATE.as_ref() else { return Some(found.note(super::BROKEN, text)) };
    let changed = candidates.replace_all(text, |word: &regex::Captures<'_>| {
        let word = at(word, 0);
        match readable(word) {
            Some(decoded) if is_secret(&decoded, found) => found.note(BASE64, word),
            _ => word.to_owned(),
        }
    });
    match changed {
        std::borrow::Cow::Owned(changed) if changed != text => Some(changed),
        _ => None,
    }
}

/// The text that a word stands for, if it stands for one. A hash or a path decodes to no text.
fn readable(word: &str) -> Option<String> {
    let engine = if word.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    let text = String::from_utf8(engine.decode(word).ok()?).ok()?;
    let plain = |character: char| character == '\n' || character == '\t' || (' '..='~').contains(&character);
    (text.len() >= 8 && text.chars().all(plain)).then_some(text)
}

fn is_secret(decoded: &str, found: &Found) -> bool {
    let mut inner = found.scratch();
    super::plain_layers(decoded, &mut inner);
    if inner.count > 0 || formats_of(decoded) {
        return true;
    }
    // The user and password of `Authorization: Basic` and of a Docker configuration.
    decoded.split_once(':').is_some_and(|(user, password)| {
        let name =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'@' | b'+');
        let password = password.trim_end();
        !user.is_empty()
            && user.bytes().all(name)
            && password.len() >= 6
            && password.bytes().all(|byte| byte.is_ascii_graphic())
            && !password.starts_with("//")
            && !password.bytes().all(|byte| byte.is_ascii_digit())
            && !harmless(Kind::Strong, password)
    })
}
