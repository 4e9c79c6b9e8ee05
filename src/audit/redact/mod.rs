//! Redaction: the one choke point that every string passes before it is hashed.
//!
//! Purpose: no secret in a record, best effort. Layers, in order: exact values that this server knows; options,
//! operands and assignments, by name and by program; user information and query members of URLs; token formats;
//! the same inside of percent-encoding and one level of base64; the operator's own patterns. No entropy rule: it
//! hits hashes and digests. False negatives are certain, so the file's mode guards it too. Pure. Called by
//! `record.rs`, `body.rs` and `argv.rs` only.

mod encoded;
mod formats;
mod lines;
mod names;
mod own;
mod programs;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use regex::{Captures, Regex};

use super::hash;
use formats::{formats_of, tokens};
use names::{Kind, harmless, kind};
pub(super) use own::Own;
pub use own::Secrets;

/// Most hashes of replaced values that one record holds.
const MOST_HASHES: usize = 8;

/// What was found while the strings of one record were cleaned.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Ids of the rules that fired.
    pub(super) rules: BTreeSet<&'static str>,
    /// Spans replaced.
    pub(super) count: u64,
    /// Keyed hashes of the first values that were replaced.
    pub(super) hashes: Vec<String>,
    own: Arc<Own>,
    /// What is secret in this call alone.
    call: Secrets,
}

impl Found {
    /// Nothing found yet; `own` holds what this site knows.
    pub(super) fn of(own: &Arc<Own>) -> Self {
        Self { own: Arc::clone(own), ..Self::default() }
    }

    /// Where these values are secret as well.
    pub(super) fn knowing(self, call: &Secrets) -> Self {
        Self { call: call.clone(), ..self }
    }

    /// For a look at a part that may not count.
    fn scratch(&self) -> Self {
        let (own, call) = (Arc::clone(&self.own), self.call.clone());
        Self { own, call, hashes: vec![String::new(); MOST_HASHES], ..Self::default() }
    }

    /// What stands in the place of `value`.
    fn note(&mut self, rule: &'static str, value: &str) -> String {
        self.rules.insert(rule);
        self.count += 1;
        if self.hashes.len() < MOST_HASHES
            && let Some(key) = self.own.key()
        {
            let value = value.trim_matches(|character| matches!(character, '"' | '\''));
            let hash = hash::of_value(value, key);
            if !self.hashes.contains(&hash) {
                self.hashes.push(hash);
            }
        }
        // F93's marker rule has no id in the text; the others say which rule it was.
        if rule == MARKER { "[REDACTED]".to_owned() } else { format!("[REDACTED:{rule}]") }
    }
}

const MARKER: &str = "marker";
const URL: &str = "url";
const HEADER: &str = "header";
const QUERY: &str = "query";
const KNOWN: &str = "known";
const CONFIGURED: &str = "configured";
const OPERATOR: &str = "operator";
const STATEMENT: &str = "statement";
const BROKEN: &str = "unreadable-rule";

/// A pattern of this file. Compiled at first use; a test compiles them all.
struct Pattern(LazyLock<Result<Regex, regex::Error>>);

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: Pattern = Pattern(LazyLock::new(|| Regex::new($text)));
    };
}

// A header to the end of its line or quotation.
pattern!(
    HEADERS,
    r#"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?(?:[a-z0-9]+-){0,4}(?:token|key|secret|password|auth))(\s*:\s*)([^\r\n"']+)"#
);
// NAME=value, "name":"value", name: value, in text. What stands before must be a border, so that
// `s/^token=.*//` is no assignment.
pattern!(
    ASSIGNED,
    r#"(^|[\s&?;,{("'\[:/])([A-Za-z_][A-Za-z0-9_.-]*)(["']?\]?\s*=\s*|["']\s*:\s*|:\s+)("[^"]*"|'[^']*'|[^\s"'&;,|})]+)"#
);
// --name value inside a longer text, such as the operand of `sh -c`.
pattern!(OPTIONS, r#"(^|[\s"'])--?([A-Za-z][A-Za-z0-9_-]*)([\s=]+)("[^"]*"|'[^']*'|[^\s"'-][^\s"']*)"#);
// scheme://user:password@, the last @ before the path counts.
pattern!(USERINFO, r#"([A-Za-z][A-Za-z0-9+.-]*://)([^\s/@:"']*):([^\s/"']+)@"#);
// scheme://token@: a long user name is a token.
pattern!(USERTOKEN, r#"([A-Za-z][A-Za-z0-9+.-]*://)([^\s/@:"']{20,})@"#);
// Query members that carry a secret under a harmless name.
pattern!(
    MEMBERS,
    r#"(?i)([?&;](?:key|code|sig|signature|auth|pass|sv_sig|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential))=)([^&\s"'#]+)"#
);

// SQL that sets a password.
pattern!(
    SQL,
    r#"(?i)\b((?:password|identified\s+(?:with\s+\S+\s+)?(?:by|as))(?:\s+password)?\s+)('[^']+'|"[^"]+")"#
);
// A line of .netrc.
pattern!(NETRC, r"(\blogin\s+\S+\s+password\s+)(\S+)");
// echo SECRET | tool --password-stdin
pattern!(
    PIPED,
    r#"((?:echo|printf)\s+(?:-n\s+|'?%s'?\s+)?)("[^"]+"|'[^']+'|[^\s"'|]+)(\s*\|[^|;]*--?(?:password-stdin|passphrase-fd|with-token|pass-stdin))"#
);

/// Cleans a whole argument vector.
pub(super) fn argv(arguments: &[Cow<'_, str>], found: &mut Found) -> Vec<String> {
    let spots = programs::scan(arguments);
    let mut clean = Vec::with_capacity(arguments.len());
    let mut pending: Option<Kind> = None;
    for (position, argument) in arguments.iter().enumerate() {
        let spot = spots.iter().find(|spot| spot.index == position);
        if let Some((spot, (before, value))) =
            spot.and_then(|spot| argument.split_at_checked(spot.from).map(|parts| (spot, parts)))
            && !harmless(Kind::Strong, value)
        {
            pending = None;
            clean.push(format!("{before}{}", found.note(spot.rule, value)));
            continue;
        }
        if let Some(kind) = pending.take()
            && !(argument.starts_with('-') && argument.len() > 1)
            && !harmless(kind, argument)
        {
            clean.push(found.note(MARKER, argument));
            // `--secret KEY VALUE`: which of the two it is, only the program knows.
            let before = position.checked_sub(1).and_then(|before| arguments.get(before));
            if before.is_some_and(|option| option == "--secret") && is_name(argument) {
                pending = Some(Kind::Strong);
            }
            continue;
        }
        if position > 0 {
            pending = option_name(argument).map(kind).filter(|kind| *kind != Kind::Plain);
        }
        clean.push(text(argument, found));
    }
    clean
}

/// A word that would do for the name of a setting.
fn is_name(word: &str) -> bool {
    word.len() <= 40
        && word.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b':' | b'.' | b'_' | b'-'))
}

/// The name of an option whose value would be the next element.
fn option_name(argument: &str) -> Option<&str> {
    let name = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    (name.len() > 1 && is_name).then_some(name)
}

/// Cleans one string of any kind.
pub(super) fn text(input: &str, found: &mut Found) -> String {
    let lines = lines::embedded(input, found);
    let mut out: Cow<'_, str> = Cow::Owned(plain_layers(lines.as_deref().unwrap_or(input), found));
    if out.contains("%3")
        && let Some(changed) = encoded::percent(&out, found)
    {
        out = Cow::Owned(changed);
    }
    if out.len() >= 16
        && let Some(changed) = encoded::base64(&out, found)
    {
        out = Cow::Owned(changed);
    }
    let own = Arc::clone(&found.own);
    for pattern in own.patterns() {
        apply(&mut out, Ok(pattern), found, |parts, found| Some(found.note(OPERATOR, at(parts, 0))));
    }
    out.into_owned()
}

/// The layers that look at a text as it stands.
fn plain_layers(input: &str, found: &mut Found) -> String {
    let own = Arc::clone(&found.own);
    let mut known = found.call.clone().hide(input, |value| found.note(CONFIGURED, value));
    if let Some(values) = own.known().filter(|values| values.is_match(&*known)) {
        let mut out = String::with_capacity(known.len());
        values.replace_all_with(&known, &mut out, |_, value, out| {
            out.push_str(&found.note(KNOWN, value));
            true
        });
        known = Cow::Owned(out);
    }
    if let Some((flag, value)) = known.split_once('=')
        && let Some(name) = option_name(flag)
    {
        let value = match harmless(kind(name), value) {
            true => plain_layers(value, found),
            false => found.note(MARKER, value),
        };
        return format!("{flag}={value}");
    }
    structure(&mut known, found);
    tokens(&mut known, found);
    known.into_owned()
}

/// What a name before a value says.
fn structure(out: &mut Cow<'_, str>, found: &mut Found) {
    if out.contains("://") {
        replace(out, &USERINFO, found, |parts, found| {
            Some(format!("{}{}:{}@", at(parts, 1), at(parts, 2), found.note(URL, at(parts, 3))))
        });
        replace(out, &USERTOKEN, found, |parts, found| {
            Some(format!("{}{}@", at(parts, 1), found.note(URL, at(parts, 2))))
        });
    }
    if out.contains(':') {
        replace(out, &HEADERS, found, |parts, found| {
            let (name, value) = (at(parts, 1), at(parts, 3));
            let always = name.to_ascii_lowercase();
            let always = always.ends_with("authorization") || always.ends_with("cookie");
            if !always
                && (kind(name) == Kind::Plain
                    || harmless(kind(name), value)
                    || (at(parts, 2) == ":" && !name.contains('-')))
            {
                return None;
            }
            Some(format!("{name}{}{}", at(parts, 2), found.note(HEADER, value)))
        });
    }
    if out.contains(['?', '&']) {
        replace(out, &MEMBERS, found, |parts, found| {
            (!harmless(Kind::Strong, at(parts, 2)))
                .then(|| format!("{}{}", at(parts, 1), found.note(QUERY, at(parts, 2))))
        });
    }
    if out.contains(['=', ':']) {
        replace(out, &ASSIGNED, found, |parts, found| {
            let (name, value) = (at(parts, 2), at(parts, 4));
            (!harmless(kind(name), value))
                .then(|| format!("{}{name}{}{}", at(parts, 1), at(parts, 3), found.note(MARKER, value)))
        });
    }
    if out.contains(char::is_whitespace) && out.contains('-') {
        replace(out, &OPTIONS, found, |parts, found| {
            let (name, value) = (at(parts, 2), at(parts, 4));
            (!harmless(kind(name), value)).then(|| {
                let dashes = at(parts, 0).trim_start_matches(['"', '\'', ' ', '\t', '\n']);
                let dashes = if dashes.starts_with("--") { "--" } else { "-" };
                format!("{}{dashes}{name}{}{}", at(parts, 1), at(parts, 3), found.note(MARKER, value))
            })
        });
    }
    if out.contains(char::is_whitespace) {
        for pattern in [&SQL, &NETRC, &PIPED] {
            replace(out, pattern, found, |parts, found| {
                let value = at(parts, 2);
                (!harmless(Kind::Strong, value))
                    .then(|| format!("{}{}{}", at(parts, 1), found.note(STATEMENT, value), at(parts, 3)))
            });
        }
    }
}

fn replace(
    out: &mut Cow<'_, str>,
    pattern: &Pattern,
    found: &mut Found,
    with: impl Fn(&Captures<'_>, &mut Found) -> Option<String>,
) {
    apply(out, pattern.0.as_ref(), found, with);
}

/// Replaces what matches and what `with` agrees to. A rule that does not compile redacts the whole.
fn apply(
    out: &mut Cow<'_, str>,
    regex: Result<&Regex, &regex::Error>,
    found: &mut Found,
    with: impl Fn(&Captures<'_>, &mut Found) -> Option<String>,
) {
    let Ok(regex) = regex else {
        *out = Cow::Owned(found.note(BROKEN, ""));
        return;
    };
    let changed = match regex.replace_all(out, |parts: &Captures<'_>| {
        with(parts, found).unwrap_or_else(|| at(parts, 0).to_owned())
    }) {
        Cow::Borrowed(_) => return,
        Cow::Owned(text) => text,
    };
    *out = Cow::Owned(changed);
}

fn at<'a>(parts: &Captures<'a>, group: usize) -> &'a str {
    parts.get(group).map_or("", |part| part.as_str())
}

#[cfg(test)]
mod tests;
