//! What a dialect reports while it reads an argument vector.
//!
//! Purpose: dialects only say what each element is; `rules` alone decides what is refused. `at` is the
//! index of the element in the arguments, the program's name left out. Made by the dialects, read by
//! `rules`.

use std::ops::ControlFlow;

use super::model::{LongName, Node, Opt};

/// One step of a walk. `'g` is the grammar, `'a` the arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<'g, 'a> {
    /// From here on the arguments belong to `node`: at the start of each pass over the program's own
    /// (`name` is absent), and at each subcommand. What was seen of another pass is forgotten.
    Enter { node: &'g Node, name: Option<&'a [u8]>, at: usize },
    /// An option, with the value that the program would take for it.
    Option { option: &'g Opt, value: Option<&'a [u8]>, at: usize },
    /// An option that the program is told to leave off (`--no-NAME`).
    TakenBack { option: &'g Opt, at: usize },
    /// A long option that may be any of these.
    Ambiguous { candidates: &'g [LongName], at: usize },
    /// Something that looks like an option and is not in the grammar. `short` for a letter of a cluster.
    Unknown { text: &'a [u8], short: bool, at: usize },
    /// An operand, counted from 0 within its node.
    Operand { value: &'a [u8], index: usize, at: usize },
}

/// Goes on, or stops with the refusal.
pub(super) type Flow = ControlFlow<Finding>;

/// Takes the events of a walk.
pub(super) type Sink<'s, 'g, 'a> = dyn FnMut(Event<'g, 'a>) -> Flow + 's;

/// A refusal, before it is put into words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable id of the rule, such as `sort.output`.
    pub rule: String,
    /// What the rule is about, as the program's manual spells it: `-o/--output`. Empty for operands.
    pub subject: String,
    /// Why, as a clause.
    pub reason: String,
    /// What to do instead, as a clause.
    pub instead: Option<String>,
    /// Index of the argument; 0 is the first one after the program's name.
    pub at: usize,
}
