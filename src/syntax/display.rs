//! From a tree back to text, for messages and records.
//!
//! Purpose: one line of shell syntax that reads as the same tree: `parse(display(tree)) == tree`. Inputs:
//! a tree that this room made. Anyone may print one.

use std::fmt::{self, Display, Formatter, Write as _};

use super::constructs;
use super::placeholder::{CLOSE, OPEN};
use super::tree::{AndOr, Command, Connector, Glob, List, Part, Pipeline, Redirection, Simple, Target, Word};

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        separated(f, &self.entries, "; ")
    }
}

impl Display for AndOr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        for (connector, pipeline) in &self.rest {
            let connector = match connector {
                Connector::And => "&&",
                Connector::Or => "||",
            };
            write!(f, " {connector} {pipeline}")?;
        }
        Ok(())
    }
}

impl Display for Pipeline {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("! ")?;
        }
        separated(f, &self.stages, " | ")
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(simple) => simple.fmt(f),
            Self::Directory(word) => write!(f, "cd {word}"),
            Self::Group { list, redirections } => {
                write!(f, "( {list} )")?;
                redirections.iter().try_for_each(|redirection| write!(f, " {redirection}"))
            }
        }
    }
}

impl Display for Simple {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for assignment in &self.assignments {
            write!(f, "{}={} ", assignment.name, assignment.value)?;
        }
        let mut words = self.words.iter();
        if let Some(name) = words.next() {
            word(f, name, Quoting { name: true, ..Quoting::default() })?;
        }
        words.try_for_each(|word| write!(f, " {word}"))?;
        self.redirections.iter().try_for_each(|redirection| write!(f, " {redirection}"))
    }
}

impl Display for Redirection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.descriptor == 2 {
            f.write_char('2')?;
        }
        match &self.to {
            Target::Read(file) => write!(f, "< {file}"),
            Target::Write(file) => write!(f, "> {file}"),
            Target::Append(file) => write!(f, ">> {file}"),
            Target::Same(descriptor) => write!(f, ">&{descriptor}"),
            Target::Text(text) => write!(f, "<<< {text}"),
        }
    }
}

impl Display for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        word(f, self, Quoting::default())
    }
}

impl Display for Glob {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stars(many) => (0..*many).try_for_each(|_| f.write_char('*')),
            Self::One => f.write_char('?'),
            Self::Class(text) => write!(f, "[{text}]"),
        }
    }
}

/// Where text stands, which decides what of it needs quotes.
#[derive(Clone, Copy, Default)]
struct Quoting {
    name: bool,
    brace: bool,
}

fn word(f: &mut Formatter<'_>, word: &Word, quoting: Quoting) -> fmt::Result {
    // Between braces an alternative without a part is written as nothing.
    if word.parts.is_empty() && !quoting.brace {
        return f.write_str("''");
    }
    let mut home = false;
    for part in &word.parts {
        let after_home = std::mem::replace(&mut home, matches!(part, Part::Tilde));
        match part {
            // A quoted slash would make the `~` before it text.
            Part::Literal(text) if after_home => {
                f.write_char('/')?;
                literal(f, text.strip_prefix('/').unwrap_or(text), quoting)?;
            }
            Part::Literal(text) => literal(f, text, quoting)?,
            // Without the quotes of a value both forms read the same; with them it is plain to see.
            Part::Variable { name, quoted: true } => write!(f, "\"${{{name}}}\"")?,
            Part::Variable { name, quoted: false } => write!(f, "${{{name}}}")?,
            Part::Glob(glob) => glob.fmt(f)?,
            Part::Tilde => f.write_char('~')?,
            Part::Placeholder(reference) => write!(f, "{OPEN}{reference}{CLOSE}")?,
            Part::Brace(words) => {
                let mut sign = '{';
                for alternative in words {
                    f.write_char(std::mem::replace(&mut sign, ','))?;
                    self::word(f, alternative, Quoting { brace: true, ..quoting })?;
                }
                f.write_char('}')?;
            }
        }
    }
    Ok(())
}

fn literal(f: &mut Formatter<'_>, text: &str, quoting: Quoting) -> fmt::Result {
    let plain = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '_' | '.' | '/' | '-' | '+' | '@' | '%' | ':')
            || (c == '=' && !quoting.name)
            || (c == ',' && !quoting.brace)
    };
    let reserved = quoting.name && (constructs::reserved(text).is_some() || text.starts_with('!'));
    if text.chars().all(plain) && !reserved {
        return f.write_str(text);
    }
    // A placeholder's beginning as text: no quotes keep it from being one, so it is parted.
    write!(f, "'{}'", text.replace('\'', "'\\''").replace("#@#${", "#@#'\\$'{"))
}

fn separated<T: Display>(f: &mut Formatter<'_>, items: &[T], by: &str) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(by)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
