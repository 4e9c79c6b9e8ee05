//! Text of a record on a terminal or in a page: nothing in it can steer either.
//!
//! Purpose: an argument may hold escape sequences, line breaks and characters that reorder what stands beside
//! them. A record keeps them escaped as JSON; whoever shows its values must not let them out again. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::audit::escape::is_risky;

/// `text` with every control, invisible and reordering character as `\u{1b}`. What is left are characters that
/// are seen.
#[must_use]
pub fn safe(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_risky) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        push(&mut out, character);
    }
    Cow::Owned(out)
}

fn push(out: &mut String, character: char) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        risky if is_risky(risky) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(risky));
        }
        plain => out.push(plain),
    }
}

/// `word` as an element of a command line: bare where no reader could take it for something else, in single
/// quotes where it needs them, and as `$'…'` with escapes where it holds what is not seen.
#[must_use]
pub fn quoted(word: &str) -> Cow<'_, str> {
    let bare = |c: char| c.is_alphanumeric() || "_@%+=:,./-[]…".contains(c);
    if !word.is_empty() && word.chars().all(|c| bare(c) && !is_risky(c)) {
        return Cow::Borrowed(word);
    }
    if !word.chars().any(is_risky) {
        return Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")));
    }
    let mut out = String::from("$'");
    for character in word.chars() {
        match character {
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            other => push(&mut out, other),
        }
    }
    out.push('\'');
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_or_hides_is_spelled_out() {
        assert_eq!(safe("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(safe("plain é 漢"), "plain é 漢");
        assert_eq!(quoted("--file=a/b.c"), "--file=a/b.c");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a\n'\\"), "$'a\\n\\'\\\\'");
    }

    proptest! {
        #[test]
        fn nothing_risky_is_left(text in any::<String>()) {
            prop_assert!(!safe(&text).chars().any(is_risky));
            prop_assert!(!quoted(&text).chars().any(is_risky));
        }
    }
}
