//! Simple commands: assignments, name, arguments, redirections; and `cd`.
//!
//! Purpose: reads one command and refuses the names that only a shell gives a meaning to. Inputs: the
//! reader at its first character. Called by `parse.rs`.

use super::constructs as c;
use super::cursor::{Reader, Text, begins_name, ends_word, in_name};
use super::refusal::{Construct, Refusal};
use super::tree::{Assignment, Command, Part, Redirection, Simple, Target, Word};
use super::words::{Mode, Read};

impl Reader {
    pub(super) fn simple(&mut self) -> Result<Command, Refusal> {
        let begin = self.at;
        let mut simple = Simple::default();
        let mut name_at = begin;
        loop {
            self.blanks();
            let at = self.at;
            match (self.peek(), self.ahead(1)) {
                (Some('<' | '>'), _) | (Some('&'), Some('>')) => {
                    self.redirection(None, &mut simple.redirections)?
                }
                (Some('('), _) if simple.words.is_empty() => return Err(self.refuse(&c::PARENTHESIS, at)),
                (Some('('), next) => return Err(self.parenthesis(&simple, next, at)),
                (None, _) => break,
                (Some(c), _) if ends_word(c) => break,
                _ if simple.words.is_empty() && self.assignment(&mut simple)? => {}
                _ => {
                    let read = self.word(Mode::Argument)?;
                    if self.descriptor(&read, at, &mut simple.redirections)? {
                        continue;
                    }
                    if simple.words.is_empty() {
                        name_at = at;
                        self.name(&read, at)?;
                    }
                    simple.words.push(read.word);
                }
            }
        }
        let Some(name) = simple.words.first() else {
            let alone =
                if simple.assignments.is_empty() { &c::REDIRECTION_ALONE } else { &c::ASSIGNMENT_ALONE };
            return Err(self.refuse(alone, begin));
        };
        if name.as_literal() == Some("cd") {
            return self.change(simple, begin, name_at);
        }
        Ok(Command::Simple(simple))
    }

    fn parenthesis(&self, simple: &Simple, next: Option<char>, at: usize) -> Refusal {
        let before = at.checked_sub(1).and_then(|before| self.get(before));
        let construct = match before {
            _ if simple.words.len() == 1 && next == Some(')') => &c::FUNCTION,
            Some('@' | '?' | '*' | '+' | '!') => &c::EXTENDED_GLOB,
            _ => &c::PARENTHESIS,
        };
        self.refuse(construct, at)
    }

    /// What a command may be called.
    fn name(&mut self, read: &Read, at: usize) -> Result<(), Refusal> {
        let Some(name) = read.word.as_literal().filter(|name| !name.is_empty()) else {
            return Err(self.refuse(&c::COMMAND_NAME, at));
        };
        let about = |construct: &'static Construct| Err(self.refuse_about(construct, at, name));
        if self.peek() == Some('(') && self.ahead(1) == Some(')') {
            return about(&c::FUNCTION);
        }
        if !read.quoted {
            if let Some(construct) = super::constructs::reserved(name) {
                return about(construct);
            }
            match name.strip_prefix('!') {
                Some("") => return Err(self.refuse(&c::MISSING_COMMAND, at)),
                Some(_) => return about(&c::HISTORY),
                None if name.starts_with('{') => return about(&c::BRACE),
                None => {}
            }
        }
        super::constructs::builtin(name).map_or(Ok(()), about)
    }

    /// `NAME=value` before the name of the command.
    fn assignment(&mut self, simple: &mut Simple) -> Result<bool, Refusal> {
        let at = self.at;
        if !self.peek().is_some_and(begins_name) {
            return Ok(false);
        }
        let name = self.take_while(in_name);
        match (self.peek(), self.ahead(1)) {
            (Some('='), Some('(')) | (Some('+'), Some('=')) => {
                return Err(self.refuse_about(&c::ARRAY, at, &name));
            }
            (Some('['), _) => return Err(self.refuse_about(&c::ARRAY, at, &name)),
            (Some('='), _) => self.skip(1),
            _ => {
                self.at = at;
                return Ok(false);
            }
        }
        let value = self.word(Mode::Value)?.word;
        simple.assignments.push(Assignment { name, value });
        Ok(true)
    }

    /// Whether the word is the number of a redirection that follows at once.
    fn descriptor(&mut self, read: &Read, at: usize, into: &mut Vec<Redirection>) -> Result<bool, Refusal> {
        if read.quoted || !matches!(self.peek(), Some('<' | '>')) {
            return Ok(false);
        }
        let Some(text) = read.word.as_literal() else { return Ok(false) };
        if text.starts_with('{') && text.ends_with('}') {
            return Err(self.refuse_about(&c::DESCRIPTOR, at, text));
        }
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_digit()) {
            return Ok(false);
        }
        let text = text.to_owned();
        self.redirection(Some(&text), into)?;
        Ok(true)
    }

    /// A redirection whose operator begins here, after its number if it has one.
    pub(super) fn redirection(
        &mut self,
        number: Option<&str>,
        into: &mut Vec<Redirection>,
    ) -> Result<(), Refusal> {
        let at = self.at;
        self.count()?;
        let refused = [
            ("<>", &c::REDIRECTION_FORM),
            (">|", &c::REDIRECTION_FORM),
            ("<&", &c::REDIRECTION_FORM),
            ("<(", &c::PROCESS_SUBSTITUTION),
            (">(", &c::PROCESS_SUBSTITUTION),
        ];
        for (operator, construct) in refused {
            if self.sees(operator) {
                return Err(self.refuse(construct, at));
            }
        }
        let output = matches!(self.peek(), Some('>' | '&'));
        let descriptor = match (number, output) {
            (None | Some("1"), true) => 1,
            (Some("2"), true) => 2,
            (None | Some("0"), false) => 0,
            (Some(other), _) => return Err(self.refuse_about(&c::DESCRIPTOR, at, other)),
        };
        if self.takes(">&") {
            let same = match (self.peek(), self.ahead(1)) {
                (Some('1'), next) if next.is_none_or(ends_word) => 1,
                (Some('2'), next) if next.is_none_or(ends_word) => 2,
                _ => return Err(self.refuse(&c::REDIRECTION_FORM, at)),
            };
            self.skip(1);
            into.push(Redirection { descriptor, to: Target::Same(same) });
            return Ok(());
        }
        if self.takes("<<<") {
            let word = self.target(at, Mode::Value)?;
            self.texts.push(Text::Word(word));
            into.push(Redirection { descriptor, to: Target::Text(Word::default()) });
            return Ok(());
        }
        if self.takes("<<") {
            let tabs = self.takes("-");
            self.target_begins(at)?;
            self.here_document(at, tabs)?;
            into.push(Redirection { descriptor, to: Target::Text(Word::default()) });
            return Ok(());
        }
        let both = self.takes("&");
        let to = if self.takes(">>") {
            Target::Append(self.target(at, Mode::One)?)
        } else if self.takes(">") {
            Target::Write(self.target(at, Mode::One)?)
        } else {
            self.skip(1);
            Target::Read(self.target(at, Mode::One)?)
        };
        into.push(Redirection { descriptor, to });
        if both {
            into.push(Redirection { descriptor: 2, to: Target::Same(1) });
        }
        Ok(())
    }

    fn target_begins(&mut self, at: usize) -> Result<(), Refusal> {
        self.blanks();
        match self.peek() {
            Some('(') => Err(self.refuse(&c::PROCESS_SUBSTITUTION, self.at)),
            Some(c) if !ends_word(c) => Ok(()),
            Some('<' | '>') if matches!(self.ahead(1), Some('(')) => {
                Err(self.refuse(&c::PROCESS_SUBSTITUTION, self.at))
            }
            _ => Err(self.refuse(&c::MISSING_TARGET, at)),
        }
    }

    fn target(&mut self, at: usize, mode: Mode) -> Result<Word, Refusal> {
        self.target_begins(at)?;
        let read = self.word(mode)?;
        // `> 2>&1`: the digit belongs to the second operator.
        let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        if !read.quoted
            && matches!(self.peek(), Some('<' | '>'))
            && read.word.as_literal().is_some_and(digits)
        {
            return Err(self.refuse(&c::MISSING_TARGET, at));
        }
        Ok(read.word)
    }

    /// `cd DIR`: exactly one directory, and nothing else that a command may have.
    fn change(&self, simple: Simple, begin: usize, at: usize) -> Result<Command, Refusal> {
        if !simple.assignments.is_empty() || !simple.redirections.is_empty() {
            return Err(self.refuse(&c::DIRECTORY_PLACE, begin));
        }
        let mut operands = simple.words.into_iter().skip(1);
        let (Some(to), None) = (operands.next(), operands.next()) else {
            return Err(self.refuse(&c::DIRECTORY_OPERAND, at));
        };
        let option = match to.parts.first() {
            None => true,
            Some(Part::Literal(text)) => text.starts_with('-'),
            Some(_) => false,
        };
        if option || to.parts.iter().any(|part| matches!(part, Part::Glob(_) | Part::Brace(_))) {
            return Err(self.refuse(&c::DIRECTORY_OPERAND, at));
        }
        Ok(Command::Directory(to))
    }
}
