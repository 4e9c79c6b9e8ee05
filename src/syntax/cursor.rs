//! The line as characters, and the place in it.
//!
//! Purpose: the only code that moves through a line. Inputs: the text. Called by the parser's files.

use super::refusal::{Construct, Refusal};
use super::tree::Word;
use super::{Options, constructs as c, limits};

/// A here-document of which the delimiter was read and the text was not.
#[derive(Debug)]
pub(super) struct Pending {
    /// Its number among the texts of the line.
    pub(super) text: usize,
    /// The line that ends it.
    pub(super) delimiter: Vec<char>,
    /// Whether its text is taken as it is.
    pub(super) verbatim: bool,
    /// `<<-`: tabs at the beginning of a line are dropped.
    pub(super) tabs: bool,
    /// Where it began.
    pub(super) at: usize,
}

/// A text for stdin.
#[derive(Debug)]
pub(super) enum Text {
    /// Not a byte; also until a here-document is read.
    Empty,
    /// This and a newline.
    Word(Word),
}

/// A line that is being read.
#[derive(Debug)]
pub(super) struct Reader {
    chars: Vec<char>,
    pub(super) at: usize,
    pub(super) placeholders: bool,
    pub(super) depth: usize,
    /// Texts for stdin in the order of their redirections.
    pub(super) texts: Vec<Text>,
    pub(super) pending: Vec<Pending>,
    counted: usize,
    looked: usize,
}

impl Reader {
    pub(super) fn new(line: &str, options: Options) -> Result<Self, Refusal> {
        let mut reader = Self {
            chars: Vec::new(),
            at: 0,
            placeholders: options.placeholders,
            depth: 0,
            texts: Vec::new(),
            pending: Vec::new(),
            counted: 0,
            looked: 0,
        };
        if line.len() > limits::LINE {
            return Err(reader.refuse(&c::TOO_LONG, 0));
        }
        reader.chars = line.chars().collect();
        match reader.chars.iter().position(|c| *c == '\0') {
            Some(at) => Err(reader.refuse(&c::NUL, at)),
            None => Ok(reader),
        }
    }

    pub(super) fn refuse(&self, construct: &'static Construct, at: usize) -> Refusal {
        let before = || self.chars.iter().take(at);
        let line = before().filter(|c| **c == '\n').count().saturating_add(1);
        let column = before().rev().take_while(|c| **c != '\n').count().saturating_add(1);
        Refusal { construct, line, column, detail: None }
    }

    pub(super) fn refuse_about(&self, construct: &'static Construct, at: usize, about: &str) -> Refusal {
        let detail = Some(about.chars().take(64).collect());
        Refusal { detail, ..self.refuse(construct, at) }
    }

    /// Counts a word, a command or a text, of which there may be so many.
    pub(super) fn count(&mut self) -> Result<(), Refusal> {
        self.counted = self.counted.saturating_add(1);
        if self.counted > limits::WORDS { Err(self.refuse(&c::TOO_MANY, self.at)) } else { Ok(()) }
    }

    /// Counts characters that were looked at ahead: a line of nothing but open brackets must not take long.
    pub(super) fn looked(&mut self, from: usize, to: usize) -> Result<(), Refusal> {
        self.looked = self.looked.saturating_add(to.saturating_sub(from));
        if self.looked > limits::LOOKED { Err(self.refuse(&c::TOO_MANY, self.at)) } else { Ok(()) }
    }

    /// Goes one level down; the caller comes up again.
    pub(super) fn down(&mut self) -> Result<(), Refusal> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > limits::DEPTH { Err(self.refuse(&c::TOO_DEEP, self.at)) } else { Ok(()) }
    }

    pub(super) fn up(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn ahead(&self, by: usize) -> Option<char> {
        self.chars.get(self.at.saturating_add(by)).copied()
    }

    pub(super) fn get(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    pub(super) fn skip(&mut self, by: usize) {
        self.at = self.at.saturating_add(by);
    }

    pub(super) fn text(&self, from: usize, to: usize) -> String {
        self.chars.get(from..to).map(|chars| chars.iter().collect()).unwrap_or_default()
    }

    /// Whether exactly this stands here.
    pub(super) fn sees(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(by, c)| self.ahead(by) == Some(c))
    }

    /// The same, and goes past it.
    pub(super) fn takes(&mut self, text: &str) -> bool {
        let seen = self.sees(text);
        if seen {
            self.skip(text.chars().count());
        }
        seen
    }

    /// Characters from here for which it holds; goes past them.
    pub(super) fn take_while(&mut self, holds: impl Fn(char) -> bool) -> String {
        let from = self.at;
        while self.peek().is_some_and(&holds) {
            self.skip(1);
        }
        self.text(from, self.at)
    }

    /// Past blanks, comments and joined lines: to a newline, an operator, a word or the end.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.skip(1),
                Some('\\') if self.ahead(1) == Some('\n') => self.skip(2),
                Some('#') if !(self.placeholders && self.sees(super::placeholder::OPEN)) => {
                    self.take_while(|c| c != '\n');
                }
                _ => return,
            }
        }
    }

    /// The next line of a here-document, without its end, if there is one.
    pub(super) fn raw_line(&self) -> Option<&[char]> {
        let rest = self.chars.get(self.at..)?;
        let line = rest.split(|c| *c == '\n').next()?;
        (!rest.is_empty()).then_some(line)
    }
}

/// Whether a character ends a word that is not quoted.
pub(super) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '|' | '&' | ';' | '<' | '>' | '(' | ')')
}

/// Whether a name may begin with it.
pub(super) fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether a name may hold it.
pub(super) fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
