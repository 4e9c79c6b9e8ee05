//! Command lines inside of one string: the operand of `sh -c`, a recipe, a script of one line.
//!
//! Purpose: `sh -c 'mysql -pSECRET'` is as telling as `mysql -pSECRET`. The words are split as a shell would, as far
//! as finding a secret needs it; nothing is run by what is found here. Pure. Called by `redact`.

use super::Found;
use super::names::{Kind, harmless};
use super::programs;

/// A word of a line: where it stands and what it says.
struct Word<'a> {
    start: usize,
    text: &'a str,
}

/// Replaces what the tables of programs name in the commands of a text.
pub(super) fn embedded(text: &str, found: &mut Found) -> Option<String> {
    if !programs::mentions(text) {
        return None;
    }
    let mut spans: Vec<(usize, usize, &'static str)> = Vec::new();
    for command in commands(text) {
        let words: Vec<&str> = command.iter().map(|word| word.text).collect();
        let first = words.iter().take_while(|word| is_assignment(word)).count();
        for spot in programs::scan(words.get(first..).unwrap_or(&[])) {
            let Some(word) = command.get(first + spot.index) else { continue };
            let value = word.text.get(spot.from..).unwrap_or("");
            if !value.is_empty() && !harmless(Kind::Strong, value) {
                spans.push((word.start + spot.from, word.start + word.text.len(), spot.rule));
            }
        }
    }
    if spans.is_empty() {
        return None;
    }
    spans.sort_unstable();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (from, to, rule) in spans {
        let (Some(before), Some(value)) = (text.get(at..from), text.get(from..to)) else { continue };
        out.push_str(before);
        out.push_str(&found.note(rule, value));
        at = to;
    }
    out.push_str(text.get(at..).unwrap_or(""));
    Some(out)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The commands of a text, each as its words without their outer quotes.
fn commands(text: &str) -> Vec<Vec<Word<'_>>> {
    let mut commands = vec![Vec::new()];
    let mut start: Option<usize> = None;
    let mut quote: Option<char> = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) if at < text.len() => {}
            (None, '\'' | '"') => {
                quote = Some(character);
                start.get_or_insert(at);
            }
            (_, ' ' | '\t' | '\n' | ';' | '|' | '&' | '(' | ')' | '`') => {
                if let Some(from) = start.take()
                    && let Some(command) = commands.last_mut()
                {
                    command.push(unquoted(text, from, at));
                }
                if !matches!(character, ' ' | '\t') {
                    commands.push(Vec::new());
                }
            }
            _ => {
                start.get_or_insert(at);
            }
        }
    }
    commands
}

fn unquoted(text: &str, from: usize, to: usize) -> Word<'_> {
    let word = text.get(from..to).unwrap_or("");
    for quote in ['"', '\''] {
        if let Some(inner) = word.strip_prefix(quote).and_then(|word| word.strip_suffix(quote)) {
            return Word { start: from + 1, text: inner };
        }
    }
    Word { start: from, text: word }
}
