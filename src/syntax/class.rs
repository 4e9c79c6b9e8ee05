//! What `[…]` stands for: one reading, for the parser, which refuses what has none, and for matching.
//!
//! Inputs: the text between the brackets. Called by `braces.rs` and by expansion.

/// One member of a class.
#[derive(Debug, Clone, Copy)]
enum Member {
    Range(char, char),
    Named(fn(&char) -> bool),
}

/// A class.
#[derive(Debug, Clone)]
pub(super) struct Class {
    negated: bool,
    members: Vec<Member>,
}

impl Class {
    /// Whether a character belongs to it. Ranges go by code point and names by ASCII, as in the C locale.
    pub(super) fn holds(&self, c: char) -> bool {
        let found = self.members.iter().any(|member| match member {
            Member::Range(from, to) => (*from..=*to).contains(&c),
            Member::Named(holds) => holds(&c),
        });
        found != self.negated
    }
}

/// Reads the text between the brackets; `None` where shells differ about it.
pub(super) fn read(text: &str) -> Option<Class> {
    let negated = text.starts_with(['!', '^']);
    let mut chars = text.chars().skip(usize::from(negated)).peekable();
    let mut members = Vec::new();
    while let Some(from) = chars.next() {
        let next = chars.peek().copied();
        if from == '[' && matches!(next, Some(':' | '.' | '=')) {
            chars.next();
            let name: String = chars.by_ref().take_while(|c| *c != ':').collect();
            members.push(Member::Named(named(&name).filter(|_| next == Some(':'))?));
            if chars.next() != Some(']') {
                return None;
            }
            continue;
        }
        let mut beyond = chars.clone();
        match (beyond.next(), beyond.next()) {
            (Some('-'), Some(to)) => {
                chars = beyond;
                if from > to || to == '[' {
                    return None;
                }
                members.push(Member::Range(from, to));
            }
            _ => members.push(Member::Range(from, from)),
        }
    }
    (!members.is_empty()).then_some(Class { negated, members })
}

fn named(name: &str) -> Option<fn(&char) -> bool> {
    Some(match name {
        "alnum" => char::is_ascii_alphanumeric,
        "alpha" => char::is_ascii_alphabetic,
        "blank" => |c| matches!(c, ' ' | '\t'),
        "cntrl" => char::is_ascii_control,
        "digit" => char::is_ascii_digit,
        "graph" => char::is_ascii_graphic,
        "lower" => char::is_ascii_lowercase,
        "print" => |c| c.is_ascii_graphic() || *c == ' ',
        "punct" => char::is_ascii_punctuation,
        "space" => |c| c.is_ascii_whitespace() || *c == '\u{b}',
        "upper" => char::is_ascii_uppercase,
        "xdigit" => char::is_ascii_hexdigit,
        _ => return None,
    })
}
