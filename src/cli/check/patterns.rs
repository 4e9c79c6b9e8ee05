//! Lints of `allow_patterns`.
//!
//! Purpose: a pattern is tried on names instead of being read: all always-denied names, samples of their
//! patterns, names that nobody uses, and samples of itself. Called by `check` only.

use regex::Regex;

use super::lint::Book;
use super::samples;
use crate::policy::{PolicyError, knowledge};

/// Names that no pattern of a careful author matches.
const UNHEARD: &[&str] = &["zq7-unheard.of", "Zq_9x", "xqz", "/opt/zq/unheard"];
/// Names shown of those that a pattern matches.
const SHOWN: usize = 6;

pub(super) fn look(book: &mut Book<'_>) -> Result<(), PolicyError> {
    if book.config.allow_patterns.is_empty() {
        return Ok(());
    }
    let denied = denied()?;
    let runners = knowledge::open_runners()?;
    let config = book.config;
    for pattern in &config.allow_patterns {
        let text = written(pattern);
        let key = book.places.element("allow_patterns", text);
        if UNHEARD.iter().filter(|name| pattern.is_match(name)).count() > 1 {
            let message = format!("pattern '{text}' admits nearly any name");
            book.add("pattern-any", key.clone(), message, "list the names that are needed");
        }
        let matched: Vec<&str> =
            denied.iter().map(String::as_str).filter(|name| pattern.is_match(name)).collect();
        if !matched.is_empty() {
            let message = format!(
                "pattern '{text}' matches names that are always refused: {}; it is wider than meant",
                few(&matched)
            );
            book.add("pattern-denied-name", key.clone(), message, "list the names that are needed");
        }
        let matched: Vec<&str> = runners.iter().copied().filter(|name| pattern.is_match(name)).collect();
        if !matched.is_empty() {
            let message = format!(
                "pattern '{text}' admits programs that are known to start others, and no grammar says how: {}",
                few(&matched)
            );
            book.add("runs-programs", key.clone(), message, "list the names that are needed");
        }
        let own = samples::of(text);
        let mut names = own.names.iter().filter(|name| pattern.is_match(name)).peekable();
        if own.complete && names.peek().is_some() && names.all(|name| config.commands.contains_key(name)) {
            let message = format!("pattern '{text}' matches only names that are listed anyway");
            book.add("pattern-shadowed", key, message, "remove it");
        }
    }
    Ok(())
}

/// The first of some names, and how many there are beside them.
fn few(names: &[&str]) -> String {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// All always-denied names, and samples of the patterns for such names.
fn denied() -> Result<Vec<String>, PolicyError> {
    let (names, patterns) = knowledge::denied_names()?;
    let mut all: Vec<String> = names.into_iter().map(str::to_owned).collect();
    for pattern in patterns {
        for sample in samples::of(pattern).names {
            if knowledge::always_denied(&sample)?.is_some() {
                all.push(sample);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// A pattern as its author wrote it, without the anchors that loading adds.
fn written(pattern: &Regex) -> &str {
    let text = pattern.as_str();
    text.strip_prefix(r"\A(?:").and_then(|text| text.strip_suffix(r")\z")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_denied_pattern_gives_a_name_that_is_denied() {
        let (_, patterns) = knowledge::denied_names().unwrap();
        for pattern in patterns {
            let whole = Regex::new(&format!(r"\A(?:{pattern})\z")).unwrap();
            let samples = samples::of(pattern).names;
            assert!(samples.iter().any(|name| whole.is_match(name)), "{pattern}: {samples:?}");
        }
    }

    #[test]
    fn versions_are_among_the_denied_names() {
        let names = denied().unwrap();
        for name in ["bash", "python3", "sudo"] {
            assert!(names.iter().any(|own| own == name), "{name}");
        }
        assert!(
            names.iter().any(|own| own.starts_with("python0")),
            "an instance of the pattern for versions"
        );
    }
}
