//! Patterns against the names of files.
//!
//! Purpose: the sorted names that a pattern stands for, and the pattern itself where there are none, as
//! POSIX has it. Differences that are on purpose: links are named but not gone through, `**` goes down
//! (hidden directories left out), `.` and `..` never match. Inputs: the pieces of a word. Called by
//! `expand.rs`.

use super::{Budget, Directory, Entry, Piece, Problem};
use crate::syntax::class::{self, Class};
use crate::syntax::tree::Glob;

/// Directories that `**` goes down.
const DEPTH: usize = 64;

/// One character of a pattern.
enum Unit {
    Char(u32),
    One,
    Stars(usize),
    Class(Class),
}

/// What stands between slashes, and how many of these come before.
struct Component {
    slashes: usize,
    units: Vec<Unit>,
}

/// Adds the names that match, or the word as it is.
pub(super) fn expand(
    pieces: &[Piece],
    directory: &dyn Directory,
    budget: &mut Budget,
    into: &mut Vec<Vec<u8>>,
) -> Result<(), Problem> {
    let text: String = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Glob(glob) => glob.to_string(),
        })
        .collect();
    let mut found = Vec::new();
    if pieces.iter().any(|piece| matches!(piece, Piece::Glob(_))) {
        let components = components(pieces);
        let mut walk = Walk { directory, budget, found: &mut found, text: &text };
        walk.component(Vec::new(), &components, Step::default())?;
    }
    if found.is_empty() {
        into.push(text.into_bytes());
    }
    found.sort();
    found.dedup();
    into.extend(found);
    Ok(())
}

fn components(pieces: &[Piece]) -> Vec<Component> {
    let mut found = Vec::new();
    let mut last = Component { slashes: 0, units: Vec::new() };
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                for c in text.chars() {
                    match c {
                        '/' if last.units.is_empty() => last.slashes = last.slashes.saturating_add(1),
                        '/' => found
                            .push(std::mem::replace(&mut last, Component { slashes: 1, units: Vec::new() })),
                        c => last.units.push(Unit::Char(u32::from(c))),
                    }
                }
            }
            Piece::Glob(Glob::One) => last.units.push(Unit::One),
            Piece::Glob(Glob::Stars(many)) => last.units.push(Unit::Stars(*many)),
            // The parser took no class that cannot be read.
            Piece::Glob(Glob::Class(text)) => last.units.extend(class::read(text).map(Unit::Class)),
        }
    }
    found.push(last);
    found
}

impl Component {
    /// The name, where it is one and no pattern.
    fn name(&self) -> Option<Vec<u8>> {
        let mut name = String::new();
        for unit in &self.units {
            match unit {
                Unit::Char(c) => name.push(char::from_u32(*c)?),
                _ => return None,
            }
        }
        Some(name.into_bytes())
    }

    fn matches(&self, name: &[u8]) -> bool {
        let hidden = name.first() == Some(&b'.');
        if hidden && !matches!(self.units.first(), Some(Unit::Char(c)) if *c == u32::from('.')) {
            return false;
        }
        let name = units(name);
        let least = self
            .units
            .iter()
            .filter(|unit| !matches!(unit, Unit::Stars(_)))
            .take(name.len().saturating_add(1));
        least.count() <= name.len() && matches(&self.units, &name)
    }
}

/// Characters of a name; bytes that are none, each by itself, beyond the last character.
fn units(name: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    for chunk in name.utf8_chunks() {
        found.extend(chunk.valid().chars().map(u32::from));
        found.extend(chunk.invalid().iter().map(|byte| 0x11_0000_u32.saturating_add(u32::from(*byte))));
    }
    found
}

impl Unit {
    fn is(&self, c: u32) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::One => true,
            Self::Class(class) => char::from_u32(c).is_some_and(|c| class.holds(c)),
            Self::Stars(_) => false,
        }
    }
}

/// Whether a name matches; goes back only to the last star, so that no pattern takes long.
fn matches(pattern: &[Unit], name: &[u32]) -> bool {
    let (mut at, mut read) = (0_usize, 0_usize);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), name.get(read)) {
            (Some(Unit::Stars(_)), _) => {
                at = at.saturating_add(1);
                star = Some((at, read));
            }
            (Some(unit), Some(c)) if unit.is(*c) => {
                at = at.saturating_add(1);
                read = read.saturating_add(1);
            }
            (None, None) => return true,
            _ => {
                let Some((after, from)) = star.filter(|(_, from)| *from < name.len()) else { return false };
                at = after;
                read = from.saturating_add(1);
                star = Some((after, read));
            }
        }
    }
}

/// Where a walk is.
#[derive(Clone, Copy, Default)]
struct Step {
    /// A pattern stood before: names must be there.
    matched: bool,
    /// The slash before the next component is written already.
    joined: bool,
    depth: usize,
}

struct Walk<'w> {
    directory: &'w dyn Directory,
    budget: &'w mut Budget,
    found: &'w mut Vec<Vec<u8>>,
    text: &'w str,
}

impl Walk<'_> {
    fn entries(&mut self, path: &[u8]) -> Result<Vec<Entry>, Problem> {
        let entries = self.directory.entries(path).unwrap_or_default();
        Budget::take(&mut self.budget.entries, entries.len().saturating_add(1), "files")?;
        Ok(entries)
    }

    fn found(&mut self, path: Vec<u8>) -> Result<(), Problem> {
        self.found.push(path);
        if self.found.len() > self.budget.words { Err(Problem::TooMany("words")) } else { Ok(()) }
    }

    fn component(&mut self, mut path: Vec<u8>, left: &[Component], step: Step) -> Result<(), Problem> {
        let Some((component, rest)) = left.split_first() else { return self.found(path) };
        if !step.joined {
            path.extend(std::iter::repeat_n(b'/', component.slashes));
        }
        let name = component.name();
        match name {
            // A slash at the end: whoever comes here is a directory.
            Some(name) if name.is_empty() => self.component(path, rest, step),
            Some(name) if !step.matched => {
                path.extend(name);
                self.component(path, rest, Step { joined: false, ..step })
            }
            Some(name) if name == b"." || name == b".." => Err(Problem::Dots(self.text.to_owned())),
            _ if matches!(component.units.as_slice(), [Unit::Stars(2)]) => self.below(path, left, rest, step),
            name => {
                let wanted = |entry: &Entry| match &name {
                    Some(name) => entry.name == *name,
                    None => component.matches(&entry.name),
                };
                for entry in self.entries(&path)? {
                    if wanted(&entry) && (entry.directory || rest.is_empty()) {
                        let path = [path.as_slice(), &entry.name].concat();
                        self.component(path, rest, Step { matched: true, joined: false, ..step })?;
                    }
                }
                Ok(())
            }
        }
    }

    /// `**`: this directory and each one below it.
    fn below(
        &mut self,
        path: Vec<u8>,
        left: &[Component],
        rest: &[Component],
        step: Step,
    ) -> Result<(), Problem> {
        if step.depth > DEPTH {
            return Err(Problem::TooMany("directories"));
        }
        let here = Step { matched: true, joined: true, depth: step.depth.saturating_add(1) };
        // `**/` with nothing behind it: the working directory itself is no match.
        let slash_only = path.is_empty() && rest.iter().all(|c| c.units.is_empty());
        if !rest.is_empty() && !slash_only {
            self.component(path.clone(), rest, here)?;
        }
        for entry in self.entries(&path)? {
            if entry.name.first() == Some(&b'.') {
                continue;
            }
            let mut path = [path.as_slice(), &entry.name].concat();
            if rest.is_empty() {
                self.found(path.clone())?;
            }
            if entry.directory {
                path.push(b'/');
                self.component(path, left, here)?;
            }
        }
        Ok(())
    }
}
