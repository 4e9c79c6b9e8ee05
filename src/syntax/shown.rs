//! A line that was not understood, in the words that it is recorded with.
//!
//! Purpose: secrets are found by the word that they stand in, and by the option before it: so a line is split
//! where a shell would, and what stands in quotes stays together (`"Authorization: Bearer …"`). Pure. Inputs:
//! the text. Called by whoever records a line that is refused as a whole.

/// The words of `text`; quotes and backslashes that protect are left out, and one that is never closed
/// protects the rest.
#[must_use]
pub fn words(text: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, c) if c.is_whitespace() => found.extend(word.take()),
            // An operator between two commands is a word of its own.
            (None, ';' | '|') => {
                found.extend(word.take());
                let second = characters.next_if(|next| c == '|' && matches!(next, '|' | '&'));
                found.push(std::iter::once(c).chain(second).collect());
            }
            (None, '&') if characters.next_if_eq(&'&').is_some() => {
                found.extend(word.take());
                found.push("&&".to_owned());
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found.into_iter().map(String::into_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_quotes_stays_together() {
        for (text, expected) in [
            ("a -H \"Authorization: Bearer x\" $(b)", &["a", "-H", "Authorization: Bearer x", "$(b)"][..]),
            ("a 'b  c'd  \"\" e\\ f \"g\\\"h i\"", &["a", "b  cd", "", "e f", "g\"h i"]),
            ("a 'b c", &["a", "b c"]),
            (" \t\n", &[]),
            (
                "a;b|c||d|&e 2>&1&&f ';|'",
                &["a", ";", "b", "|", "c", "||", "d", "|&", "e", "2>&1", "&&", "f", ";|"],
            ),
            ("a\\", &["a"]),
        ] {
            let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
