//! `{a,b}` and `[…]`: whether they are what they look like.
//!
//! Purpose: finds the end of alternatives and of a class before their text is read, since without an end
//! both are ordinary text. Inputs: the reader at the opening character. Called by `words.rs`.

use super::cursor::{Reader, ends_word};
use super::refusal::Refusal;
use super::tree::{Part, Word};
use super::words::{Mode, Read};
use super::{class, constructs as c};

/// What a `{` begins.
enum Brace {
    Text,
    Alternatives,
    Sequence,
}

impl Reader {
    /// The alternatives that begin here, unless the `{` is text.
    pub(super) fn brace(&mut self, mode: Mode) -> Result<Option<Part>, Refusal> {
        let at = self.at;
        self.count()?;
        let (kind, end) = self.brace_kind();
        self.looked(at, end)?;
        match kind {
            Brace::Text => return Ok(None),
            _ if mode == Mode::One => return Err(self.refuse(&c::REDIRECTION_TARGET, at)),
            Brace::Sequence => return Err(self.refuse(&c::SEQUENCE, at)),
            Brace::Alternatives => {}
        }
        self.down()?;
        let mut words = Vec::new();
        while self.peek() != Some('}') {
            self.count()?;
            self.skip(1);
            let mut read = Read { word: Word::default(), quoted: false };
            self.parts(mode, true, &mut read)?;
            words.push(read.word);
            // The end was found before: anything else here is a reading that differs from it.
            if !matches!(self.peek(), Some(',' | '}')) {
                return Err(self.refuse(&c::BRACE, at));
            }
        }
        self.skip(1);
        self.up();
        Ok(Some(Part::Brace(words)))
    }

    /// What begins here, and how far one had to look.
    fn brace_kind(&self) -> (Brace, usize) {
        let begin = self.at.saturating_add(1);
        let (mut at, mut depth, mut comma) = (begin, 1_usize, false);
        while let Some(c) = self.get(at) {
            match c {
                c if ends_word(c) => return (Brace::Text, at),
                '\\' => at = at.saturating_add(1),
                '\'' | '"' => at = self.closing(at, c),
                '$' if self.get(at.saturating_add(1)) == Some('{') => at = self.closing(at, '}'),
                '{' => depth = depth.saturating_add(1),
                '}' if depth == 1 && comma => return (Brace::Alternatives, at),
                '}' if depth == 1 && is_sequence(&self.text(begin, at)) => return (Brace::Sequence, at),
                '}' if depth == 1 => return (Brace::Text, at),
                '}' => depth = depth.saturating_sub(1),
                ',' if depth == 1 => comma = true,
                _ => {}
            }
            at = at.saturating_add(1);
        }
        (Brace::Text, at)
    }

    /// Where a quote that begins at `at` ends; beyond the line if it does not.
    fn closing(&self, at: usize, end: char) -> usize {
        let mut at = at.saturating_add(1);
        while let Some(c) = self.get(at) {
            match c {
                c if c == end => break,
                '\\' if end == '"' => at = at.saturating_add(1),
                _ => {}
            }
            at = at.saturating_add(1);
        }
        at
    }

    /// The text of a class that begins here, goes past it; `None` where `[` is text.
    pub(super) fn class(&mut self, inside: bool) -> Result<Option<String>, Refusal> {
        let begin = self.at.saturating_add(1);
        let mut at = begin;
        if matches!(self.get(at), Some('!' | '^')) {
            at = at.saturating_add(1);
        }
        let first = at;
        let mut odd = false;
        loop {
            match self.get(at) {
                None => return self.looked(begin, at).map(|()| None),
                Some(']') if at > first => break,
                Some('[') if matches!(self.get(at.saturating_add(1)), Some(':' | '.' | '=')) => {
                    at = self.named(at);
                }
                Some(c) if ends_word(c) || c == '/' => return self.looked(begin, at).map(|()| None),
                Some('\'' | '"' | '\\' | '$' | '`' | '{' | '}') => odd = true,
                Some(',') => odd |= inside,
                Some(c) => odd |= c.is_control() || c.is_whitespace(),
            }
            at = at.saturating_add(1);
        }
        let text = self.text(begin, at);
        if odd || class::read(&text).is_none() {
            return Err(self.refuse(&c::BRACKET, self.at));
        }
        self.at = at.saturating_add(1);
        Ok(Some(text))
    }

    /// Past `[:alpha:]`: where its `]` stands, or where it began if it has none.
    fn named(&self, at: usize) -> usize {
        let mut end = at.saturating_add(2);
        while self.get(end).is_some_and(|c| c.is_ascii_alphabetic()) {
            end = end.saturating_add(1);
        }
        match (self.get(end), self.get(end.saturating_add(1))) {
            (Some(':'), Some(']')) => end.saturating_add(1),
            _ => at,
        }
    }
}

/// `1..3`, `a..e`, `1..9..2`.
fn is_sequence(text: &str) -> bool {
    let pieces: Vec<&str> = text.split("..").collect();
    let number = |piece: &str| piece.parse::<i64>().is_ok();
    let letter = |piece: &str| piece.len() == 1 && piece.chars().all(|c| c.is_ascii_alphabetic());
    match pieces.as_slice() {
        [from, to] | [from, to, _] => [from, to].iter().all(|piece| number(piece) || letter(piece)),
        _ => false,
    }
}
