//! Redaction: the one choke point that every string passes before it is hashed.
//!
//! Purpose: no secret in a record, best effort. Layers, in order: options and program-specific short
//! flags whose next element is the secret; `NAME=value` in any place, headers, JSON and query
//! members; user information of URLs; token formats. No entropy rule: it hits hashes and digests.
//! False negatives are certain, so the file's mode guards it too. Pure. Called by `record.rs` only.

mod formats;
mod names;
mod programs;
mod secrets;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{LazyLock, OnceLock};

use regex::{Captures, Regex};

use formats::FORMATS;
use names::{Kind, harmless, kind};
use secrets::CONFIGURED;
pub use secrets::Secrets;

/// What was found while the strings of one record were cleaned.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Ids of the rules that fired.
    pub(super) rules: BTreeSet<&'static str>,
    /// Spans replaced.
    pub(super) count: u64,
    /// Values that are known to be secret.
    secrets: Secrets,
}

impl Found {
    /// Where these values are known to be secret.
    pub(super) fn knowing(secrets: &Secrets) -> Self {
        Self { secrets: secrets.clone(), ..Self::default() }
    }

    fn note(&mut self, rule: &'static str) -> String {
        self.rules.insert(rule);
        self.count += 1;
        // F93's marker rule has no id in the text; the others say which rule it was.
        if rule == MARKER { "[REDACTED]".to_owned() } else { format!("[REDACTED:{rule}]") }
    }
}

/// What stands between the commands of a line.
const OPERATORS: [&str; 5] = ["|", "|&", ";", "&&", "||"];
const MARKER: &str = "marker";
const URL: &str = "url";
const HEADER: &str = "header";
const QUERY: &str = "query";
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
    r#"(^|[\s&?;,{("'\[])([A-Za-z_][A-Za-z0-9_.-]*)(["']?\s*=\s*|["']\s*:\s*|:\s+)("[^"]*"|'[^']*'|[^\s"'&;,|})]+)"#
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

/// Cleans a whole argument vector.
pub(super) fn argv(arguments: &[Cow<'_, str>], found: &mut Found) -> Vec<String> {
    let base = |name: &str| name.rsplit('/').next().unwrap_or("").to_owned();
    let program = arguments.first().map_or_else(String::new, |name| base(name));
    // In the words of a line, another program may begin behind an operator: the rules of both count then.
    let (mut other, mut begins, mut start) = (program.clone(), false, 0);
    let mut clean = Vec::with_capacity(arguments.len());
    let mut pending: Option<(Kind, &'static str)> = None;
    for (position, argument) in arguments.iter().enumerate() {
        if let Some((kind, rule)) = pending.take()
            && !(argument.starts_with('-') && argument.len() > 1 && rule == MARKER)
            && !harmless(kind, argument)
        {
            clean.push(found.note(rule));
            continue;
        }
        if std::mem::take(&mut begins) {
            (other, start) = (base(argument), position);
        }
        begins = OPERATORS.contains(&argument.as_ref());
        if position > 0 {
            let joined = programs::joined(&program, argument).or_else(|| programs::joined(&other, argument));
            if let Some(joined) = joined {
                let (flag, _) = argument.split_at_checked(joined.keep).unwrap_or((argument, ""));
                clean.push(format!("{flag}{}", found.note(joined.rule)));
                continue;
            }
            let separate = |program: &str, start: usize| {
                programs::separate(program, arguments.get(start..position).unwrap_or(&[]), argument)
            };
            pending =
                separate(&program, 0).or_else(|| separate(&other, start)).map(|rule| (Kind::Strong, rule));
            if pending.is_none() {
                pending = option_name(argument)
                    .map(|name| (kind(name), MARKER))
                    .filter(|(kind, _)| *kind != Kind::Plain);
            }
        }
        clean.push(text(argument, found));
    }
    clean
}

/// The name of an option whose value would be the next element.
fn option_name(argument: &str) -> Option<&str> {
    let name = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    (name.len() > 1 && is_name).then_some(name)
}

/// Cleans one string of any kind.
pub(super) fn text(input: &str, found: &mut Found) -> String {
    match found.secrets.hidden_in(input) {
        None => by_rules(input, found),
        Some((hidden, count)) => {
            found.rules.insert(CONFIGURED);
            found.count += count;
            by_rules(&hidden, found)
        }
    }
}

fn by_rules(input: &str, found: &mut Found) -> String {
    let mut out = Cow::Borrowed(input);
    if let Some((flag, value)) = input.split_once('=')
        && let Some(name) = option_name(flag)
    {
        let value = if harmless(kind(name), value) { by_rules(value, found) } else { found.note(MARKER) };
        return format!("{flag}={value}");
    }
    if input.contains("://") {
        replace(&mut out, &USERINFO, found, |parts, found| {
            Some(format!("{}{}:{}@", at(parts, 1), at(parts, 2), found.note(URL)))
        });
        replace(&mut out, &USERTOKEN, found, |parts, found| {
            Some(format!("{}{}@", at(parts, 1), found.note(URL)))
        });
    }
    if out.contains(':') {
        replace(&mut out, &HEADERS, found, |parts, found| {
            let (name, value) = (at(parts, 1), at(parts, 3));
            let always = name.to_ascii_lowercase();
            let always = always.ends_with("authorization") || always.ends_with("cookie");
            if !always && (kind(name) == Kind::Plain || harmless(kind(name), value) || at(parts, 2) == ":") {
                return None;
            }
            Some(format!("{name}{}{}", at(parts, 2), found.note(HEADER)))
        });
    }
    if out.contains(['?', '&']) {
        replace(&mut out, &MEMBERS, found, |parts, found| {
            (!harmless(Kind::Strong, at(parts, 2))).then(|| format!("{}{}", at(parts, 1), found.note(QUERY)))
        });
    }
    if out.contains(['=', ':']) {
        replace(&mut out, &ASSIGNED, found, |parts, found| {
            let (name, value) = (at(parts, 2), at(parts, 4));
            (!harmless(kind(name), value))
                .then(|| format!("{}{name}{}{}", at(parts, 1), at(parts, 3), found.note(MARKER)))
        });
    }
    if out.contains(char::is_whitespace) && out.contains('-') {
        replace(&mut out, &OPTIONS, found, |parts, found| {
            let (name, value) = (at(parts, 2), at(parts, 4));
            (!harmless(kind(name), value)).then(|| {
                let dashes = at(parts, 0).trim_start_matches(['"', '\'', ' ', '\t', '\n']);
                let dashes = if dashes.starts_with("--") { "--" } else { "-" };
                format!("{}{dashes}{name}{}{}", at(parts, 1), at(parts, 3), found.note(MARKER))
            })
        });
    }
    tokens(&mut out, found);
    out.into_owned()
}

fn tokens(out: &mut Cow<'_, str>, found: &mut Found) {
    static COMPILED: [OnceLock<Result<Regex, regex::Error>>; FORMATS.len()] =
        [const { OnceLock::new() }; FORMATS.len()];
    if out.len() < 16 {
        return;
    }
    for (format, compiled) in FORMATS.iter().zip(&COMPILED) {
        if !format.needles.iter().any(|needle| out.contains(needle)) {
            continue;
        }
        let regex = compiled.get_or_init(|| Regex::new(format.pattern)).as_ref();
        apply(out, regex, found, |_, found| Some(found.note(format.id)));
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
        *out = Cow::Owned(found.note(BROKEN));
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
