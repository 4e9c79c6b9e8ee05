//! Examples of a policy: command lines that must be allowed, and lines that must be refused.
//!
//! Purpose: rules that prove themselves when a policy loads. This room knows nothing of verdicts, so
//! the judge is a closure. Called by `cli/check` and by the appliance when it starts.

use std::fmt;

use super::Config;

/// An example whose verdict is not the one the policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Dotted key, such as `command.git.examples.deny[1]`.
    pub key: String,
    /// The line.
    pub line: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}: {}", self.key, self.line, self.what)
    }
}

/// How many examples a policy has.
#[must_use]
pub fn count(config: &Config) -> usize {
    config.commands.values().map(|command| command.examples_allow.len() + command.examples_deny.len()).sum()
}

/// Judges every example. `judge` answers `Ok` for allow and the refusal's words for deny.
pub fn run(config: &Config, mut judge: impl FnMut(&[Vec<u8>]) -> Result<(), String>) -> Vec<Failure> {
    let mut failures = Vec::new();
    for command in config.commands.values() {
        let table = super::read::dotted("command", &command.name);
        let allow = command.examples_allow.iter().enumerate().map(|(index, line)| (true, index, line));
        let deny = command.examples_deny.iter().enumerate().map(|(index, line)| (false, index, line));
        for (allowed, index, line) in allow.chain(deny) {
            let what = match (split(line), allowed) {
                (Err(what), _) => what,
                (Ok(argv), true) => match judge(&argv) {
                    Ok(()) => continue,
                    Err(denial) => format!("must be allowed, but is refused: {denial}"),
                },
                (Ok(argv), false) => match judge(&argv) {
                    Ok(()) => "must be refused, but is allowed".into(),
                    Err(_) => continue,
                },
            };
            let list = if allowed { "allow" } else { "deny" };
            let key = format!("{table}.examples.{list}[{index}]");
            failures.push(Failure { key, line: line.clone(), what });
        }
    }
    failures
}

/// Splits an example into words: blanks separate; `'…'` is literal; in `"…"` a backslash protects
/// `"` and `\`; outside of quotes it protects any character. Nothing is expanded.
///
/// # Errors
/// An open quote, a backslash at the end, or no word at all.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take().map(String::into_bytes)),
            '\'' | '"' => quoted(c, &mut chars, word.get_or_insert_default())?,
            '\\' => {
                let next = chars.next().ok_or("a backslash at the end of an example protects nothing")?;
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(String::into_bytes));
    if words.is_empty() { Err("an example holds no word".into()) } else { Ok(words) }
}

fn quoted(quote: char, chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => match chars.next() {
                Some(next @ ('"' | '\\')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            c => word.push(c),
        }
    }
    Err(format!("an example has an open {quote}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap().into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn words_are_split_as_a_shell_would_without_expansion() {
        assert_eq!(words("git log  --oneline\t-3"), ["git", "log", "--oneline", "-3"]);
        assert_eq!(words(r"find . -exec id \;"), ["find", ".", "-exec", "id", ";"]);
        assert_eq!(words(r#"a 'b c' "d \"e\" \n" ''"#), ["a", "b c", r#"d "e" \n"#, ""]);
        assert_eq!(words("a$HOME*`x`|b"), ["a$HOME*`x`|b"]);
        assert_eq!(words("x'y'\"z\""), ["xyz"]);
    }

    #[test]
    fn broken_lines_are_errors() {
        for bad in ["", "  ", "a 'b", "a \"b", "a \\", "a \"b\\"] {
            assert!(split(bad).is_err(), "{bad:?}");
        }
    }
}
