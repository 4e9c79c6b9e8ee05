//! A line that was not understood, in the words that it is recorded with.
//!
//! Purpose: secrets are found by the word that they stand in, and by the option before it: so a line is split
//! where a shell would, and what stands in quotes stays together (`"Authorization: Bearer …"`). Pure. Inputs:
//! the text. Called by `run.rs`.

/// The words of `text`; quotes and backslashes that protect are left out, and one that is never closed
/// protects the rest.
pub(super) fn words(text: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, c) if c.is_whitespace() => found.extend(word.take()),
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
            ("a\\", &["a"]),
        ] {
            let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
