//! What a policy says of a command's arguments beyond subcommands and denied options.
//!
//! Purpose: `allow_options`, `deny_arguments`, `allow_arguments` and `max_args` as values, patterns
//! compiled while the policy loads. Inputs: the sections of the reader. Read by `commands.rs`; the
//! values are applied by the policy room.

use regex::bytes::{Regex, RegexBuilder};

use super::load::Loader;
use super::read::{Reader, Row, Section, Word};

/// The operator's own rules for arguments.
#[derive(Debug, Clone, Default)]
pub struct ArgumentRules {
    /// When set, options other than these are refused.
    pub allow_options: Option<Vec<String>>,
    /// What refuses an operand, or the value of an option.
    pub deny: Vec<ArgumentPattern>,
    /// What an operand or a value must match when some of these are about it.
    pub allow: Vec<ArgumentPattern>,
    /// Most arguments after the name.
    pub max_args: Option<usize>,
}

/// A pattern, and what it is about.
#[derive(Debug, Clone)]
pub struct ArgumentPattern {
    /// What it is matched against.
    pub subject: Subject,
    /// Matches whole arguments, whatever anchors its author wrote.
    pub pattern: Regex,
    /// As written.
    pub text: String,
    /// Matches ends of arguments.
    end: Regex,
}

/// What a pattern is matched against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Operands from the first to the last of these, counted from 0.
    Operands(usize, usize),
    /// The value of this option.
    Value(String),
}

impl ArgumentRules {
    /// Whether some pattern is about operands or values.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        !(self.deny.is_empty() && self.allow.is_empty())
    }

    /// Whether some pattern is about operands of some positions only.
    #[must_use]
    pub fn has_positions(&self) -> bool {
        let positional = |own: &ArgumentPattern| matches!(own.subject, Subject::Operands(from, to) if (from, to) != (0, usize::MAX));
        self.deny.iter().chain(&self.allow).any(positional)
    }

    /// Whether there is any rule at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_patterns() && self.allow_options.is_none() && self.max_args.is_none()
    }

    /// The first option that a pattern is about.
    #[must_use]
    pub fn valued_option(&self) -> Option<&str> {
        self.deny.iter().chain(&self.allow).find_map(|own| match &own.subject {
            Subject::Value(option) => Some(option.as_str()),
            Subject::Operands(..) => None,
        })
    }
}

impl ArgumentPattern {
    /// Compiles `text` to match whole arguments. A pattern that refuses lets `.` stand for a line break,
    /// which would otherwise be a way around it.
    ///
    /// # Errors
    /// When it is not a regular expression: what the compiler says.
    pub fn new(subject: Subject, text: &str, refuses: bool) -> Result<Self, String> {
        let compile =
            |text: &str| RegexBuilder::new(text).size_limit(1 << 20).dot_matches_new_line(refuses).build();
        // Alone first: `a)(b` would otherwise become well-formed, and unanchored, inside the anchors.
        let said = |error: regex::Error| {
            let error = error.to_string();
            let last = error.lines().last().unwrap_or(&error).trim_start_matches("error: ");
            format!("bad pattern \"{}\": {last}", text.escape_debug())
        };
        compile(text).map_err(said)?;
        let pattern = compile(&format!(r"\A(?:{text})\z")).map_err(said)?;
        let end = compile(&format!(r"(?:{text})\z")).map_err(said)?;
        Ok(Self { subject, pattern, text: text.to_owned(), end })
    }

    /// Whether it is about some operand between these two, counted from 0.
    #[must_use]
    pub fn is_about(&self, least: usize, most: usize) -> bool {
        matches!(self.subject, Subject::Operands(from, to) if from <= most && least <= to)
    }

    /// Whether it refuses `value`. One that is not UTF-8 could hide from `.` and from classes.
    #[must_use]
    pub fn refuses(&self, value: &[u8]) -> bool {
        std::str::from_utf8(value).is_err() || self.pattern.is_match(value)
    }

    /// Whether it refuses some end of `value`: nobody knows where in a cluster of letters a value begins.
    #[must_use]
    pub fn refuses_end(&self, value: &[u8]) -> bool {
        std::str::from_utf8(value).is_err() || self.end.is_match(value)
    }
}

/// Reads the rules of one command.
pub(super) fn read<'t>(
    loader: &mut Loader<'t, '_>,
    section: &Section<'t>,
    denied: &[String],
) -> ArgumentRules {
    let allow_options = loader.reader.list(section, "allow_options").map(|words| {
        for word in &words {
            option_name(loader, word);
            if denied.iter().any(|other| bare(other) == bare(&word.text)) {
                let what = format!(
                    "\"{}\" is also in deny_options, which would win: keep it in one of them",
                    word.text.escape_debug()
                );
                loader.reader.problem(word.at, &word.key, what);
            }
        }
        words.into_iter().map(|word| word.text).collect()
    });
    let deny = patterns(loader, section, "deny_arguments");
    let allow = patterns(loader, section, "allow_arguments");
    // The bounds of the key fit usize.
    let max_args = section
        .get("max_args")
        .map(|_| usize::try_from(loader.reader.number(section, "max_args")).unwrap_or(usize::MAX));
    ArgumentRules { allow_options, deny, allow, max_args }
}

/// Checks the name of an option: `-x`, `--name`, or `key=` for programs like dd.
pub(super) fn option_name(loader: &mut Loader<'_, '_>, word: &Word) {
    let text = &word.text;
    let body = text.trim_start_matches('-');
    let name = if body.len() == text.len() { body.strip_suffix('=').unwrap_or("") } else { body };
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '=') {
        let what = format!("\"{}\" is not an option: write -x or --name", text.escape_debug());
        loader.reader.problem(word.at, &word.key, what);
    }
}

fn patterns<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>, name: &str) -> Vec<ArgumentPattern> {
    let rows = loader.reader.mixed(section, name);
    if name == "allow_arguments" && rows.as_ref().is_some_and(Vec::is_empty) {
        let at = section.get(name).map_or(section.at, |item| item.at);
        let what = "is empty: leave the key out to admit all, or write max_args = 0 to admit none";
        loader.reader.problem(at, &section.key_of(name), what);
    }
    let mut found = Vec::new();
    for row in rows.into_iter().flatten() {
        let (subject, word) = match row {
            Row::Text(word) => (Some(Subject::Operands(0, usize::MAX)), word),
            Row::Table(table) => {
                let Some(word) = Reader::text(&table, "pattern") else {
                    if !table.is_written("pattern") {
                        loader.reader.problem(table.at, &table.key_of("pattern"), "is required");
                    }
                    continue;
                };
                (subject(loader, &table), word)
            }
        };
        match ArgumentPattern::new(
            subject.unwrap_or(Subject::Operands(0, 0)),
            &word.text,
            name.starts_with("deny"),
        ) {
            Ok(pattern) => found.push(pattern),
            Err(what) => loader.reader.problem(word.at, &word.key, what),
        }
    }
    found
}

/// What a row is about; a fault is reported and answers `None`.
fn subject<'t>(loader: &mut Loader<'t, '_>, table: &Section<'t>) -> Option<Subject> {
    let option = Reader::text(table, "option");
    let position = Reader::written(table, "position");
    match (option, position) {
        (Some(_), Some(word)) => {
            let what = "the value of an option has no position: keep one of option and position";
            loader.reader.problem(word.at, &word.key, what);
            None
        }
        (Some(word), None) => {
            option_name(loader, &word);
            Some(Subject::Value(word.text))
        }
        (None, None) => Some(Subject::Operands(0, usize::MAX)),
        (None, Some(word)) => {
            let found = range(&word.text);
            if found.is_none() {
                let what = format!(
                    "\"{}\" is not a position: write a number from 1, \"N..\" or \"any\"",
                    word.text.escape_debug()
                );
                loader.reader.problem(word.at, &word.key, what);
            }
            found.map(|(from, to)| Subject::Operands(from, to))
        }
    }
}

/// First and last operand, counted from 0.
fn range(text: &str) -> Option<(usize, usize)> {
    if text == "any" {
        return Some((0, usize::MAX));
    }
    let (digits, open) = text.strip_suffix("..").map_or((text, false), |digits| (digits, true));
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<usize>());
    let index = number.and_then(Result::ok)?.checked_sub(1)?;
    Some((index, if open { usize::MAX } else { index }))
}

/// The name of an option without what marks it as one.
fn bare(name: &str) -> &str {
    name.trim_start_matches('-').trim_end_matches('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(text: &str, refuses: bool) -> Result<ArgumentPattern, String> {
        ArgumentPattern::new(Subject::Operands(0, usize::MAX), text, refuses)
    }

    #[test]
    fn patterns_match_whole_arguments_whatever_their_anchors() {
        for text in ["a|ab", "^(a|ab)$", r"\Aab?\z"] {
            let pattern = any(text, false).unwrap().pattern;
            assert!(pattern.is_match(b"a") && pattern.is_match(b"ab"), "{text}");
            assert!(
                !pattern.is_match(b"abc") && !pattern.is_match(b"xa") && !pattern.is_match(b"a\n"),
                "{text}"
            );
        }
        let multi = any("(?m)^a$", false).unwrap().pattern;
        assert!(!multi.is_match(b"a\nb") && !multi.is_match(b"b\na"));
        for bad in ["a)(b", "(", "(?x)a#", "(a{1000}){1000}"] {
            assert!(any(bad, true).unwrap_err().contains("bad pattern"), "{bad}");
        }
    }

    #[test]
    fn a_refusal_cannot_be_dodged_by_bytes_that_a_dot_leaves_out() {
        let secret = any(".*secret.*", true).unwrap();
        for value in [&b"secret"[..], b"a secret b", b"x\nsecret", b"secret\n", b"\xffsecret", b"\xff"] {
            assert!(secret.refuses(value), "{value:?}");
        }
        assert!(!secret.refuses("sécret".as_bytes()));
        let word = any("^x|secret", true).unwrap();
        assert!(
            word.refuses_end(b"-absecret") && !word.refuses_end(b"-secrets") && !word.refuses(b"-absecret")
        );
        assert!(!any("a.*", false).unwrap().pattern.is_match(b"a\xff"), "what is allowed stays narrow");
        assert!(!any("a.*", false).unwrap().pattern.is_match(b"a\n"));
    }

    #[test]
    fn positions_count_from_one() {
        assert_eq!(range("1"), Some((0, 0)));
        assert_eq!(range("2.."), Some((1, usize::MAX)));
        assert_eq!(range("any"), Some((0, usize::MAX)));
        for bad in ["0", "0..", "-1", "+1", "..2", "1..3", "", "..", "all", "99999999999999999999999"] {
            assert_eq!(range(bad), None, "{bad}");
        }
        let second = ArgumentPattern::new(Subject::Operands(1, 1), "x", true).unwrap();
        assert!(second.is_about(0, 1) && second.is_about(1, 1) && !second.is_about(2, 5));
    }
}
