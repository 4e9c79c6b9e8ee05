//! The grammar: lists, pipelines, groups.
//!
//! Purpose: from a line to its tree. Whatever is not in this grammar is refused by name; nothing is
//! guessed. Inputs: the text. Called through [`parse`].

use super::Options;
use super::constructs as c;
use super::cursor::{Reader, Text, ends_word};
use super::refusal::Refusal;
use super::tree::{AndOr, Command, Connector, List, Pipeline, Redirection, Target, Word};

/// Reads a line into the tree that is judged and executed.
///
/// # Errors
/// Everything outside of the subset, with the construct's name, its place and what to do instead.
pub fn parse(line: &str, options: Options) -> Result<List, Refusal> {
    let mut reader = Reader::new(line, options)?;
    let mut list = reader.list(End::Line, 0)?;
    if let Some(pending) = reader.pending.first() {
        return Err(reader.refuse(&c::HERE_DOCUMENT_OPEN, pending.at));
    }
    let mut texts = std::mem::take(&mut reader.texts).into_iter();
    place_texts(&mut list, &mut texts);
    Ok(list)
}

/// Where a list ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Line,
    Parenthesis,
    Brace,
}

/// A command, and where it stands if it is `cd`.
struct Placed {
    pipeline: Pipeline,
    directory: Option<usize>,
}

impl Reader {
    /// The list that was opened at `begin`.
    fn list(&mut self, end: End, begin: usize) -> Result<List, Refusal> {
        let mut list = List::default();
        loop {
            self.blank_lines()?;
            if self.at_end(end, begin)? {
                break;
            }
            let (entry, dangling) = self.and_or(end)?;
            list.entries.push(entry);
            self.blanks();
            match self.peek() {
                Some(';') if !matches!(self.ahead(1), Some(';' | '&')) => self.skip(1),
                Some('\n') => {}
                Some('&') => return Err(self.refuse(&c::BACKGROUND, self.at)),
                _ if self.at_end(end, begin)? => {}
                _ => return Err(self.refuse(&c::MISSING_COMMAND, self.at)),
            }
            self.blank_lines()?;
            if self.at_end(end, begin)? {
                if let Some(at) = dangling {
                    return Err(self.refuse(&c::DIRECTORY_PLACE, at));
                }
                break;
            }
        }
        if list.entries.is_empty() {
            return Err(self.refuse(&c::MISSING_COMMAND, begin));
        }
        Ok(list)
    }

    /// Past blanks and newlines, with the here-documents that these bring.
    fn blank_lines(&mut self) -> Result<(), Refusal> {
        self.blanks();
        while self.peek() == Some('\n') {
            self.newline()?;
            self.blanks();
        }
        Ok(())
    }

    /// Whether the list ends here: the end is left for who opened it.
    fn at_end(&self, end: End, begin: usize) -> Result<bool, Refusal> {
        match self.peek() {
            None if end == End::Line => Ok(true),
            None => Err(self.refuse(&c::OPEN_GROUP, begin)),
            Some(')') if end == End::Parenthesis => Ok(true),
            Some(')') => Err(self.refuse(&c::PARENTHESIS, self.at)),
            Some('}') if end == End::Brace => Ok(self.ahead(1).is_none_or(ends_word)),
            _ => Ok(false),
        }
    }

    /// Pipelines up to `;`, a newline or the end of the list; where a `cd` stands that is the last of them.
    fn and_or(&mut self, end: End) -> Result<(AndOr, Option<usize>), Refusal> {
        let placed = self.pipeline()?;
        let mut dangling = self.directory(end, true, &placed)?;
        let mut entry = AndOr { first: placed.pipeline, rest: Vec::new() };
        loop {
            self.blanks();
            let connector = match (self.peek(), self.ahead(1)) {
                (Some('&'), Some('&')) => Connector::And,
                (Some('|'), Some('|')) => Connector::Or,
                _ => return Ok((entry, dangling)),
            };
            if let (Connector::Or, Some(at)) = (connector, dangling) {
                return Err(self.refuse(&c::DIRECTORY_PLACE, at));
            }
            self.skip(2);
            self.blank_lines()?;
            let placed = self.pipeline()?;
            dangling = self.directory(end, dangling.is_some(), &placed)?;
            entry.rest.push((connector, placed.pipeline));
        }
    }

    /// Where `cd` stands. It may where it is reached whatever happened before, in a list of its own.
    fn directory(&self, end: End, reached: bool, placed: &Placed) -> Result<Option<usize>, Refusal> {
        let Some(at) = placed.directory else { return Ok(None) };
        let Pipeline { negated, stages } = &placed.pipeline;
        if *negated || stages.len() > 1 || !reached || end == End::Brace {
            return Err(self.refuse(&c::DIRECTORY_PLACE, at));
        }
        Ok(Some(at))
    }

    fn pipeline(&mut self) -> Result<Placed, Refusal> {
        let mut pipeline = Pipeline { negated: false, stages: Vec::new() };
        let mut directory = None;
        if self.peek() == Some('!') && matches!(self.ahead(1), Some(' ' | '\t')) {
            self.skip(1);
            self.blanks();
            pipeline.negated = true;
        }
        loop {
            let at = self.at;
            let command = self.command()?;
            if matches!(command, Command::Directory(_)) {
                directory = Some(at);
            }
            pipeline.stages.push(command);
            self.blanks();
            if self.peek() != Some('|') || self.ahead(1) == Some('|') {
                return Ok(Placed { pipeline, directory });
            }
            self.skip(1);
            if self.takes("&") {
                self.merge_stderr(at, &mut pipeline)?;
            }
            self.blank_lines()?;
        }
    }

    /// `|&`: what a command says on stderr goes where stdout goes, after its own redirections.
    fn merge_stderr(&self, at: usize, pipeline: &mut Pipeline) -> Result<(), Refusal> {
        let merged = Redirection { descriptor: 2, to: Target::Same(1) };
        match pipeline.stages.last_mut() {
            Some(Command::Simple(simple)) => simple.redirections.push(merged),
            Some(Command::Group { redirections, .. }) => redirections.push(merged),
            Some(Command::Directory(_)) | None => return Err(self.refuse(&c::DIRECTORY_PLACE, at)),
        }
        Ok(())
    }

    fn command(&mut self) -> Result<Command, Refusal> {
        self.count()?;
        let at = self.at;
        match self.peek() {
            Some('(') if self.ahead(1) == Some('(') => Err(self.refuse(&c::ARITHMETIC, at)),
            Some('(') => self.group(End::Parenthesis),
            Some('{') if matches!(self.ahead(1), Some(' ' | '\t' | '\n')) => self.group(End::Brace),
            None | Some('\n' | ';' | '|') => Err(self.refuse(&c::MISSING_COMMAND, at)),
            Some('&') if self.ahead(1) != Some('>') => Err(self.refuse(&c::MISSING_COMMAND, at)),
            Some(')') => Err(self.refuse(&c::PARENTHESIS, at)),
            _ => self.simple(),
        }
    }

    fn group(&mut self, end: End) -> Result<Command, Refusal> {
        let at = self.at;
        self.down()?;
        self.skip(1);
        let list = self.list(end, at)?;
        self.skip(1);
        self.up();
        let mut redirections = Vec::new();
        loop {
            self.blanks();
            let descriptor = self.peek().filter(char::is_ascii_digit);
            let by = usize::from(descriptor.is_some());
            match self.ahead(by) {
                Some('<' | '>') => {
                    self.skip(by);
                    self.redirection(descriptor.map(String::from).as_deref(), &mut redirections)?;
                }
                Some('&') if by == 0 && self.ahead(1) == Some('>') => {
                    self.redirection(None, &mut redirections)?;
                }
                None if by == 0 => break,
                Some(c) if by == 0 && (ends_word(c) && c != '(' || c == '}' && self.depth > 0) => break,
                _ => return Err(self.refuse(&c::AFTER_GROUP, self.at)),
            }
        }
        Ok(Command::Group { list, redirections })
    }
}

/// Gives each `<<` and `<<<` its text: they were met in the order in which the tree is read.
fn place_texts(list: &mut List, texts: &mut impl Iterator<Item = Text>) {
    for command in list.entries.iter_mut().flat_map(AndOr::pipelines_mut).flat_map(|p| &mut p.stages) {
        let redirections = match command {
            Command::Simple(simple) => &mut simple.redirections,
            Command::Group { list, redirections } => {
                place_texts(list, texts);
                redirections
            }
            Command::Directory(_) => continue,
        };
        for redirection in redirections.iter_mut() {
            if matches!(redirection.to, Target::Text(_)) {
                redirection.to = match texts.next() {
                    Some(Text::Word(word)) => Target::Text(word),
                    // A text without even a newline is an input without a byte.
                    Some(Text::Empty) | None => Target::Read(Word::literal("/dev/null")),
                };
            }
        }
    }
}
