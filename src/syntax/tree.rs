//! The tree of a line: what the policy judges and what the executor runs.
//!
//! Purpose: one value that says everything about a line, in a canonical form: two spellings of the same
//! commands (`'a'b` and `ab`, `x |& y` and `x 2>&1 | y`) are the same tree. Inputs: none; made by
//! [`parse`](super::parse), by [`operators`](super::operators) and by the caller of a single argument
//! vector. Anyone may read it.

use super::placeholder::Reference;

/// And-or lists, one after the other (`;` or a newline between them).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// In their order.
    pub entries: Vec<AndOr>,
}

/// Pipelines of which each later one depends on the status so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AndOr {
    /// The first, which always runs.
    pub first: Pipeline,
    /// The others, with what stands before each.
    pub rest: Vec<(Connector, Pipeline)>,
}

/// What decides whether the next pipeline runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connector {
    /// `&&`: only after success.
    And,
    /// `||`: only after failure.
    Or,
}

/// Commands whose outputs feed the next one's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// `!`: the status is turned round.
    pub negated: bool,
    /// At least one.
    pub stages: Vec<Command>,
}

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program with its arguments.
    Simple(Simple),
    /// `( … )` or `{ …; }`: a list with redirections of its own. Both mean the same here: nothing that
    /// could outlive a group exists, except [`Command::Directory`], which the parser takes in `( … )` only.
    Group {
        /// What it holds.
        list: List,
        /// In their order.
        redirections: Vec<Redirection>,
    },
    /// `cd DIR`: the working directory of everything that follows in the same list. The parser takes it
    /// only where it runs whatever happens before, so that each command has one directory.
    Directory(Word),
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    /// `NAME=value` before the name.
    pub assignments: Vec<Assignment>,
    /// The name and the arguments: never empty; the name is plain text.
    pub words: Vec<Word>,
    /// In their order, which matters.
    pub redirections: Vec<Redirection>,
}

/// A variable for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Letters, digits and `_`.
    pub name: String,
    /// One word, never split.
    pub value: Word,
}

/// A standard descriptor and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// 0, 1 or 2.
    pub descriptor: u8,
    /// Where to.
    pub to: Target,
}

/// Where a descriptor leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `< FILE`
    Read(Word),
    /// `> FILE`: made, or emptied.
    Write(Word),
    /// `>> FILE`: made, or written at its end.
    Append(Word),
    /// `2>&1`: where that descriptor leads at this moment.
    Same(u8),
    /// `<<` and `<<<`: this text and one newline after it.
    Text(Word),
}

/// One word: its parts side by side. No parts: the empty word `''`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Two texts never stand side by side, nor two stars; no text is empty.
    pub parts: Vec<Part>,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text that stands for itself, quoted or without a special character.
    Literal(String),
    /// `$NAME`, `${NAME}`
    Variable {
        /// Letters, digits and `_`.
        name: String,
        /// Between double quotes, or where a shell would not split it either.
        quoted: bool,
    },
    /// `*`, `?`, `[…]`, never quoted.
    Glob(Glob),
    /// `~` alone or before `/`.
    Tilde,
    /// `{a,b}`: two alternatives or more.
    Brace(Vec<Word>),
    /// `#@#${id.field}#@#$`, until it is bound.
    Placeholder(Reference),
}

/// What stands for characters of file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Glob {
    /// So many `*`. Exactly two that are a whole component of a path go down directories.
    Stars(usize),
    /// `?`
    One,
    /// `[…]`: what stands between the brackets, as written.
    Class(String),
}

impl Word {
    /// A word that is this text.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        let mut word = Self::default();
        word.push_text(&text.into());
        word
    }

    /// The text of a word that is nothing else.
    #[must_use]
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Adds text, kept canonical.
    pub fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Literal(last)) => last.push_str(text),
            _ => self.parts.push(Part::Literal(text.to_owned())),
        }
    }

    /// Adds a part, kept canonical.
    pub fn push(&mut self, part: Part) {
        match (self.parts.last_mut(), part) {
            (_, Part::Literal(text)) => self.push_text(&text),
            (Some(Part::Glob(Glob::Stars(last))), Part::Glob(Glob::Stars(more))) => {
                *last = last.saturating_add(more);
            }
            (_, part) => self.parts.push(part),
        }
    }

    /// Takes the newline from its end; false without one.
    pub(super) fn chop_newline(&mut self) -> bool {
        let Some(Part::Literal(last)) = self.parts.last_mut() else { return false };
        let chopped = last.ends_with('\n');
        if chopped {
            last.pop();
        }
        if last.is_empty() {
            self.parts.pop();
        }
        chopped
    }

    /// Adds all parts of another word.
    pub fn append(&mut self, other: &Word) {
        for part in &other.parts {
            self.push(part.clone());
        }
    }
}

impl Pipeline {
    /// One command by itself.
    #[must_use]
    pub fn of(command: Command) -> Self {
        Self { negated: false, stages: vec![command] }
    }
}

impl AndOr {
    /// The pipelines, in their order.
    pub fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        std::iter::once(&self.first).chain(self.rest.iter().map(|(_, pipeline)| pipeline))
    }

    pub(super) fn pipelines_mut(&mut self) -> impl Iterator<Item = &mut Pipeline> {
        std::iter::once(&mut self.first).chain(self.rest.iter_mut().map(|(_, pipeline)| pipeline))
    }
}

impl List {
    /// The programs of a line, groups included, in the order in which they are written.
    #[must_use]
    pub fn programs(&self) -> Vec<&Simple> {
        let mut found = Vec::new();
        for command in self.entries.iter().flat_map(AndOr::pipelines).flat_map(|p| &p.stages) {
            match command {
                Command::Simple(simple) => found.push(simple),
                Command::Group { list, .. } => found.extend(list.programs()),
                Command::Directory(_) => {}
            }
        }
        found
    }

    /// Visits each word of a line, in the order in which they are written, to change it.
    ///
    /// # Errors
    /// The first one of the visitor.
    pub fn each_word<E>(&mut self, visit: &mut impl FnMut(&mut Word) -> Result<(), E>) -> Result<(), E> {
        let pipelines = self.entries.iter_mut().flat_map(AndOr::pipelines_mut);
        for command in pipelines.flat_map(|pipeline| &mut pipeline.stages) {
            let redirections = match command {
                Command::Simple(simple) => {
                    for word in simple.assignments.iter_mut().map(|a| &mut a.value).chain(&mut simple.words) {
                        visit(word)?;
                    }
                    &mut simple.redirections
                }
                Command::Group { list, redirections } => {
                    list.each_word(visit)?;
                    redirections
                }
                Command::Directory(word) => {
                    visit(word)?;
                    continue;
                }
            };
            for word in redirections.iter_mut().filter_map(|redirection| redirection.to.word_mut()) {
                visit(word)?;
            }
        }
        Ok(())
    }
}

impl Target {
    /// The file or the text, unless it is another descriptor.
    #[must_use]
    pub fn word(&self) -> Option<&Word> {
        match self {
            Self::Read(word) | Self::Write(word) | Self::Append(word) | Self::Text(word) => Some(word),
            Self::Same(_) => None,
        }
    }

    fn word_mut(&mut self) -> Option<&mut Word> {
        match self {
            Self::Read(word) | Self::Write(word) | Self::Append(word) | Self::Text(word) => Some(word),
            Self::Same(_) => None,
        }
    }
}
