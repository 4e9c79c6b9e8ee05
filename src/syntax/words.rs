//! Words: quoting, variables, patterns, alternatives.
//!
//! Purpose: reads one word into its parts, each as what it is: what was quoted is text and can never
//! become a pattern, an alternative or a variable later. Inputs: the reader at the word's first character.
//! Called by the parser's files.

use super::constructs as c;
use super::cursor::{Reader, begins_name, ends_word, in_name};
use super::placeholder;
use super::refusal::Refusal;
use super::tree::{Glob, Part, Word};

/// What a shell would do with a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// An argument: patterns and alternatives become several words.
    Argument,
    /// A value or the text of `<<<`: one word, in which `*`, `?`, `[` and `{` are text.
    Value,
    /// A file of a redirection or the directory of `cd`: one word; patterns are refused.
    One,
}

/// A word and whether any of it was quoted.
pub(super) struct Read {
    pub(super) word: Word,
    pub(super) quoted: bool,
}

impl Reader {
    /// The word that begins here.
    pub(super) fn word(&mut self, mode: Mode) -> Result<Read, Refusal> {
        self.count()?;
        let mut read = Read { word: Word::default(), quoted: false };
        self.parts(mode, false, &mut read)?;
        Ok(read)
    }

    /// Parts up to the end of the word, or of the alternative when `inside` braces.
    pub(super) fn parts(&mut self, mode: Mode, inside: bool, read: &mut Read) -> Result<(), Refusal> {
        let mut open = 0_usize;
        while let Some(c) = self.peek() {
            let at = self.at;
            match c {
                _ if self.placeholders && self.sees(placeholder::OPEN) => {
                    let part = self.placeholder()?;
                    read.word.push(part);
                    read.quoted = true;
                }
                ',' | '}' if inside && open == 0 => return Ok(()),
                c if ends_word(c) => return Ok(()),
                '\'' | '"' | '\\' => self.quoting(c, read)?,
                '`' => return Err(self.refuse(&c::BACKTICK, at)),
                // bash puts alternatives side by side before it reads names: `$A{b,c}` is `$Ab $Ac` there.
                '$' if inside && self.ahead(1) != Some('{') => return Err(self.refuse(&c::BROKEN_NAME, at)),
                '$' => {
                    let braced = self.ahead(1) == Some('{');
                    self.dollar(mode == Mode::Value, false, &mut read.word)?;
                    if !braced && mode != Mode::Value && self.peek() == Some('{') {
                        return Err(self.refuse(&c::BROKEN_NAME, at));
                    }
                }
                '*' | '?' if mode == Mode::Argument => {
                    self.skip(1);
                    read.word.push(Part::Glob(if c == '*' { Glob::Stars(1) } else { Glob::One }));
                }
                '*' | '?' if mode == Mode::One => return Err(self.refuse(&c::REDIRECTION_TARGET, at)),
                '[' if mode != Mode::Value => match self.class(inside)? {
                    None => self.plain(c, read),
                    Some(_) if mode == Mode::One => return Err(self.refuse(&c::REDIRECTION_TARGET, at)),
                    Some(class) => read.word.push(Part::Glob(Glob::Class(class))),
                },
                '{' if mode != Mode::Value => match self.brace(mode)? {
                    Some(part) => read.word.push(part),
                    None => {
                        open = open.saturating_add(1);
                        self.plain(c, read);
                    }
                },
                '}' => {
                    open = open.saturating_sub(1);
                    self.plain(c, read);
                }
                '~' if read.word.parts.is_empty() && !read.quoted => self.tilde(inside, read)?,
                '~' if self.get(at.saturating_sub(1)).is_some_and(|before| matches!(before, '=' | ':'))
                    && (mode == Mode::Value || assigns(&read.word)) =>
                {
                    return Err(self.refuse(&c::TILDE, at));
                }
                c if c.is_control() || c.is_whitespace() => {
                    return Err(self.refuse_about(&c::CONTROL_CHARACTER, at, &c.to_string()));
                }
                c => self.plain(c, read),
            }
        }
        Ok(())
    }

    fn plain(&mut self, c: char, read: &mut Read) {
        read.word.push_text(c.encode_utf8(&mut [0; 4]));
        self.skip(1);
    }

    /// `~` alone or before `/`; any other is refused, and each one `inside` braces.
    fn tilde(&mut self, inside: bool, read: &mut Read) -> Result<(), Refusal> {
        match self.ahead(1) {
            None | Some('/') if !inside => {}
            Some(c) if !inside && ends_word(c) => {}
            _ => return Err(self.refuse(&c::TILDE, self.at)),
        }
        self.skip(1);
        read.word.push(Part::Tilde);
        Ok(())
    }

    fn quoting(&mut self, quote: char, read: &mut Read) -> Result<(), Refusal> {
        let at = self.at;
        self.skip(1);
        if quote == '\\' {
            match self.peek() {
                Some('\n') => {}
                Some(c) => {
                    read.quoted = true;
                    self.plain(c, read);
                    return Ok(());
                }
                None => return Err(self.refuse(&c::OPEN_ESCAPE, at)),
            }
            self.skip(1);
            return Ok(());
        }
        read.quoted = true;
        loop {
            match self.peek() {
                None => return Err(self.refuse(&c::OPEN_QUOTE, at)),
                Some(c) if c == quote => break,
                _ if self.placeholders && self.sees(placeholder::OPEN) => {
                    let part = self.placeholder()?;
                    read.word.push(part);
                }
                Some('\\' | '$' | '`') if quote == '"' => self.expanding('"', &mut read.word)?,
                Some(c) => self.plain(c, read),
            }
        }
        self.skip(1);
        Ok(())
    }

    /// `\`, `$` or a backtick between double quotes, or in the text of a here-document.
    pub(super) fn expanding(&mut self, end: char, word: &mut Word) -> Result<(), Refusal> {
        match (self.peek(), self.ahead(1)) {
            (Some('$'), _) => return self.dollar(true, true, word),
            (Some('`'), _) => return Err(self.refuse(&c::BACKTICK, self.at)),
            (_, Some('\n')) => {}
            (_, Some(c)) if matches!(c, '$' | '`' | '\\') || c == end => {
                word.push_text(c.encode_utf8(&mut [0; 4]));
            }
            _ => {
                word.push_text("\\");
                self.skip(1);
                return Ok(());
            }
        }
        self.skip(2);
        Ok(())
    }

    /// What begins with `$`: `whole` where a value is never split, `between` where quotes are text.
    fn dollar(&mut self, whole: bool, between: bool, word: &mut Word) -> Result<(), Refusal> {
        let at = self.at;
        self.skip(1);
        let braced = self.peek() == Some('{');
        match self.peek() {
            Some('(') if self.ahead(1) == Some('(') => return Err(self.refuse(&c::ARITHMETIC, at)),
            Some('[') => return Err(self.refuse(&c::ARITHMETIC, at)),
            Some('(') => return Err(self.refuse(&c::COMMAND_SUBSTITUTION, at)),
            Some('\'') if !between => return Err(self.refuse(&c::ANSI_QUOTE, at)),
            Some('"') if !between => return Err(self.refuse(&c::LOCALE_QUOTE, at)),
            Some('\\') if self.ahead(1) == Some('\n') => return Err(self.refuse(&c::BROKEN_NAME, at)),
            Some(c) if c.is_ascii_digit() || matches!(c, '?' | '$' | '@' | '*' | '#' | '!' | '-') => {
                return Err(self.refuse_about(&c::SPECIAL_PARAMETER, at, &format!("${c}")));
            }
            Some('{') => self.skip(1),
            Some(c) if begins_name(c) => {}
            _ => {
                word.push_text("$");
                return Ok(());
            }
        }
        let name =
            if self.peek().is_some_and(begins_name) { self.take_while(in_name) } else { String::new() };
        if self.sees("\\\n") {
            return Err(self.refuse(&c::BROKEN_NAME, at));
        }
        if braced && !name.is_empty() && self.peek() != Some('}') || braced && name.is_empty() {
            return Err(self.refuse(&c::PARAMETER_EXPANSION, at));
        }
        if name == "_" {
            return Err(self.refuse_about(&c::SPECIAL_PARAMETER, at, "$_"));
        }
        if braced {
            self.skip(1);
        }
        word.push(Part::Variable { name, quoted: whole });
        Ok(())
    }

    /// A placeholder that begins here.
    pub(super) fn placeholder(&mut self) -> Result<Part, Refusal> {
        let at = self.at;
        self.skip(placeholder::OPEN.len());
        let inner = self.take_while(|c| c != '}' && c != '\n');
        match placeholder::Reference::read(&inner) {
            Some(reference) if self.takes(placeholder::CLOSE) => Ok(Part::Placeholder(reference)),
            _ => Err(self.refuse(&c::PLACEHOLDER, at)),
        }
    }
}

/// Whether a word begins like `NAME=`: shells differ about a `~` in it.
fn assigns(word: &Word) -> bool {
    let Some(Part::Literal(text)) = word.parts.first() else { return false };
    text.split_once('=').is_some_and(|(name, _)| name.starts_with(begins_name) && name.chars().all(in_name))
}
