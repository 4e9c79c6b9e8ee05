//! A grammar, compiled for look-up.
//!
//! Purpose: the tables that dialects read: short options by byte, long names sorted, so that all names
//! with a prefix stand together. Made by `compile`, immutable afterwards, shared between threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::bytes::Regex;

use super::dialect::Dialect;
use super::text::TextKind;

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arity {
    /// None.
    Flag,
    /// Attached (`-oX`, `--output=X`) or the next element.
    Required,
    /// Attached only.
    Optional,
}

/// One option under all of its names.
#[derive(Debug)]
pub(super) struct Opt {
    /// Names as the manual spells them: `-o`, `--output`.
    pub(super) names: Vec<String>,
    pub(super) arity: Arity,
    /// Its value is a number; where the dialect looks at that.
    pub(super) number: bool,
    /// Another element, which is text, follows its value.
    pub(super) pair: bool,
    /// The pass that reads it, from 0; absent for the last one.
    pub(super) pass: Option<usize>,
    /// What is refused about it.
    pub(super) rules: Vec<Arc<Rule>>,
    /// Set when its value is program text.
    pub(super) text: Option<Arc<Text>>,
    /// Its value is not a file name.
    pub(super) data: bool,
    /// One bit when some rule of the node asks whether it is there (`unless`), else 0.
    pub(super) bit: u64,
}

impl Opt {
    /// Whether `name` (`-o`, `--output`, `-exec`, `of=`) is one of its names.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let wanted = bare(name);
        self.names.iter().any(|own| bare(own) == wanted)
    }
}

/// A name without dashes in front and without what follows a `=`.
pub(super) fn bare(name: &str) -> &str {
    let name = name.trim_start_matches('-');
    name.split_once('=').map_or(name, |(name, _)| name)
}

/// One name of a long option.
#[derive(Debug)]
pub(super) struct LongName {
    pub(super) name: Vec<u8>,
    pub(super) option: Arc<Opt>,
}

/// The options that one reader of arguments knows.
#[derive(Debug)]
pub(super) struct Table {
    /// By byte; 256 places.
    pub(super) shorts: Vec<Option<Arc<Opt>>>,
    /// Sorted by name.
    pub(super) longs: Vec<LongName>,
}

/// What a long name, perhaps cut short, stands for.
#[derive(Debug)]
pub(super) enum Found<'g> {
    Option(&'g Opt),
    Ambiguous(&'g [LongName]),
    Unknown,
}

impl Table {
    /// The short option of this letter.
    pub(super) fn short(&self, letter: u8) -> Option<&Opt> {
        self.shorts.get(usize::from(letter))?.as_deref()
    }

    /// Every option, as often as it has names.
    pub(super) fn options(&self) -> impl Iterator<Item = &Opt> {
        self.shorts.iter().flatten().chain(self.longs.iter().map(|long| &long.option)).map(|option| &**option)
    }

    /// The option of exactly this name, which is a short one when it has one letter.
    pub(super) fn named(&self, name: &[u8]) -> Option<&Opt> {
        match name {
            [letter] => self.short(*letter),
            _ => self.exact(name),
        }
    }

    /// The long option of exactly this name.
    pub(super) fn exact(&self, name: &[u8]) -> Option<&Opt> {
        let first = self.longs.partition_point(|long| long.name.as_slice() < name);
        self.longs.get(first).filter(|long| long.name == name).map(|long| &*long.option)
    }

    /// All long names that begin with `prefix`.
    pub(super) fn prefixed(&self, prefix: &[u8]) -> &[LongName] {
        let start = self.longs.partition_point(|long| long.name.as_slice() < prefix);
        let (_, tail) = self.longs.split_at(start);
        let length = tail.partition_point(|long| long.name.starts_with(prefix));
        tail.split_at(length).0
    }

    /// What `name` stands for under the rule of `getopt_long`: an exact name wins, then a prefix all of
    /// whose names are the same option.
    pub(super) fn abbreviated(&self, name: &[u8]) -> Found<'_> {
        if let Some(option) = self.exact(name) {
            return Found::Option(option);
        }
        let candidates = self.prefixed(name);
        match candidates.split_first() {
            None => Found::Unknown,
            Some((first, rest)) if rest.iter().all(|other| Arc::ptr_eq(&other.option, &first.option)) => {
                Found::Option(&first.option)
            }
            Some(_) => Found::Ambiguous(candidates),
        }
    }
}

/// A refusal, compiled.
#[derive(Debug)]
pub(super) struct Rule {
    /// Whole id: `git.grep.open-files-in-pager`.
    pub(super) id: String,
    /// What is refused, as the manual spells it, and under which condition; for documents.
    pub(super) about: String,
    pub(super) reason: String,
    pub(super) instead: Option<String>,
    pub(super) value: Option<Regex>,
    pub(super) except: Option<Regex>,
    /// Bits of the options whose presence lifts it.
    pub(super) unless: u64,
}

impl Rule {
    /// Whether the rule refuses this value; a missing one counts as empty.
    pub(super) fn refuses(&self, value: Option<&[u8]>) -> bool {
        let value = value.unwrap_or(b"");
        self.value.as_ref().is_none_or(|pattern| pattern.is_match(value))
            && !self.except.as_ref().is_some_and(|pattern| pattern.is_match(value))
    }
}

/// An operand that is refused.
#[derive(Debug)]
pub(super) struct OperandRule {
    /// First and last index it holds for, counted from 0.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) rule: Arc<Rule>,
}

/// Operands that are not file names.
#[derive(Debug)]
pub(super) struct DataOperands {
    /// First and last index, counted from 0.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Bits of the options whose presence makes file names of them.
    pub(super) unless: u64,
}

/// Program text and what an analyser may find in it.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) kind: TextKind,
    /// By the short id that the analyser answers.
    pub(super) rules: BTreeMap<String, Arc<Rule>>,
    /// Bits of the options after which no operand is program text.
    pub(super) unless: u64,
    /// Id of a finding that the file does not describe; refused all the same.
    pub(super) fallback: String,
}

/// A program or one of its subcommands.
#[derive(Debug)]
pub(super) struct Node {
    /// `git` or `git.grep`: rule ids begin with it.
    pub(super) id: String,
    pub(super) dialects: Vec<Dialect>,
    pub(super) table: Table,
    pub(super) operands: Vec<OperandRule>,
    /// Rules about every element, whatever it is to the program. Only a program has any.
    pub(super) elements: Vec<Arc<Rule>>,
    /// Operands that are not file names.
    pub(super) data: Vec<DataOperands>,
    /// The operand (from 0) that is program text.
    pub(super) operand_text: Option<(usize, Arc<Text>)>,
    /// The operand (from 0) that names a command of its own.
    pub(super) command: Option<usize>,
    /// Set when the node as a whole is refused.
    pub(super) refused: Option<Arc<Rule>>,
    /// Passes before the last one.
    pub(super) passes: usize,
    pub(super) deny_unknown: bool,
    pub(super) deny_unknown_short: bool,
    /// Grammars that the same arguments are read under as well.
    pub(super) also: Vec<Arc<Node>>,
    /// By name and by alias.
    pub(super) children: BTreeMap<Vec<u8>, Arc<Node>>,
    /// Stands for subcommands without an entry.
    pub(super) any_child: Option<Arc<Node>>,
}

impl Node {
    /// The entry of a subcommand.
    pub(super) fn child(&self, name: &[u8]) -> Option<&Node> {
        self.children.get(name).or(self.any_child.as_ref()).map(|child| &**child)
    }

    /// Whether it has subcommands.
    pub(super) fn is_tree(&self) -> bool {
        !self.children.is_empty() || self.any_child.is_some()
    }
}
