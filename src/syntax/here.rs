//! Here-documents.
//!
//! Purpose: reads what `<<` announces: the delimiter where it stands, the text after the next newline.
//! Inputs: the reader. Called by `parse.rs`.

use super::constructs as c;
use super::cursor::{Pending, Reader, Text, ends_word};
use super::limits;
use super::refusal::Refusal;
use super::tree::Word;

impl Reader {
    /// The delimiter after `<<` or `<<-`; the text follows later.
    pub(super) fn here_document(&mut self, at: usize, tabs: bool) -> Result<(), Refusal> {
        if self.pending.len() >= limits::HERE_DOCUMENTS {
            return Err(self.refuse(&c::TOO_MANY, at));
        }
        let (delimiter, verbatim) = self.delimiter()?;
        let text = self.texts.len();
        self.texts.push(Text::Empty);
        self.pending.push(Pending { text, delimiter, verbatim, tabs, at });
        Ok(())
    }

    /// A delimiter is never expanded, so `$` and patterns in it would not mean what they look like.
    fn delimiter(&mut self) -> Result<(Vec<char>, bool), Refusal> {
        let begin = self.at;
        let (mut delimiter, mut verbatim) = (Vec::new(), false);
        while let Some(c) = self.peek().filter(|c| !ends_word(*c)) {
            match c {
                '\'' | '"' => {
                    self.skip(1);
                    verbatim = true;
                    delimiter.extend(self.take_while(|inner| inner != c && inner != '\n').chars());
                    if self.peek() != Some(c) {
                        return Err(self.refuse(&c::OPEN_QUOTE, begin));
                    }
                }
                '\\' => {
                    self.skip(1);
                    verbatim = true;
                    delimiter.extend(self.peek().filter(|c| *c != '\n'));
                }
                c => delimiter.push(c),
            }
            self.skip(1);
        }
        let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '!' | ' ');
        if delimiter.is_empty() || !delimiter.iter().all(plain) {
            return Err(self.refuse(&c::HERE_DOCUMENT_DELIMITER, begin));
        }
        Ok((delimiter, verbatim))
    }

    /// Past a newline and the texts that it brings.
    pub(super) fn newline(&mut self) -> Result<(), Refusal> {
        self.skip(1);
        for pending in std::mem::take(&mut self.pending) {
            let mut word = self.here_text(&pending)?;
            if word.chop_newline()
                && let Some(place) = self.texts.get_mut(pending.text)
            {
                *place = Text::Word(word);
            }
        }
        Ok(())
    }

    /// The text up to its delimiter.
    fn here_text(&mut self, pending: &Pending) -> Result<Word, Refusal> {
        let mut word = Word::default();
        loop {
            if pending.tabs {
                self.take_while(|c| c == '\t');
            }
            let line = self.raw_line().ok_or_else(|| self.refuse(&c::HERE_DOCUMENT_OPEN, pending.at))?;
            if *line == *pending.delimiter {
                let length = line.len();
                self.skip(length);
                self.takes("\n");
                return Ok(word);
            }
            self.here_line(pending.verbatim, &mut word)?;
        }
    }

    /// One line with its newline, and those that are joined to it.
    fn here_line(&mut self, verbatim: bool, word: &mut Word) -> Result<(), Refusal> {
        while let Some(c) = self.peek() {
            match c {
                '\n' => {
                    self.skip(1);
                    word.push_text("\n");
                    return Ok(());
                }
                _ if self.placeholders && self.sees(super::placeholder::OPEN) => {
                    let part = self.placeholder()?;
                    word.push(part);
                }
                '\\' | '$' | '`' if !verbatim => self.expanding('$', word)?,
                c => {
                    word.push_text(c.encode_utf8(&mut [0; 4]));
                    self.skip(1);
                }
            }
        }
        Ok(())
    }
}
