//! `getopt_long` and its relatives.
//!
//! Purpose: clusters, attached and separate values, abbreviations, `--`, options after operands. An
//! option that the grammar does not know may take the next element as its value: then neither `--` nor
//! an operand after it is trusted to end the options. Called through `dialect`, and by dialects that
//! differ from this one in their first words only.

use std::ops::ControlFlow;

use super::event::{Event, Finding, Flow, Sink};
use super::model::{Arity, Found, Node, Opt};

/// Where options may stand, and how they may be spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Anywhere before `--`.
    Permute,
    /// Before the first operand.
    Posix,
    /// Anywhere before `--`; `-word` may be a long option.
    LongOnly,
    /// Git's commands: anywhere before `--` or `--end-of-options`; `--no-` before a name takes it back.
    Git,
    /// The same, but the first operand that is not a bracket ends the options.
    GitPosix,
}

impl Order {
    /// Whether it is that of a git command.
    fn is_git(self) -> bool {
        matches!(self, Self::Git | Self::GitPosix)
    }

    /// Whether an operand ends the options.
    fn stops(self) -> bool {
        matches!(self, Self::Posix | Self::GitPosix)
    }
}

/// Attached values that are tried in an element that holds a letter which is not known: each may be as
/// long as the element, and time is to stay linear in it.
const TRIED: usize = 128;

/// Counts attached values in a doubtful element, and refuses it when they are too many to try each.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    tried: usize,
}

impl Doubt {
    pub(super) fn next(&mut self, node: &Node, at: usize) -> Flow {
        self.tried = self.tried.saturating_add(1);
        if self.tried <= TRIED {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(Finding {
            rule: format!("{}.unknown-option", node.id),
            subject: String::new(),
            reason: "holds a letter that the policy does not know, and too many others behind it".to_owned(),
            instead: Some("write each option as an element of its own".to_owned()),
            at,
        })
    }
}

/// What one element did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is complete.
    Done,
    /// It took the next element as its value.
    TookNext,
    /// It took the next two.
    TookTwo,
    /// It is not known whether it takes the next element.
    Doubtful,
}

impl Step {
    /// Elements that were read, the option itself among them.
    pub(super) fn elements(self) -> usize {
        match self {
            Self::Done | Self::Doubtful => 1,
            Self::TookNext => 2,
            Self::TookTwo => 3,
        }
    }
}

/// Reads `args` from `from` on.
pub(super) fn walk<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    order: Order,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    let mut operands = 0;
    let mut doubtful = false;
    let mut at = from;
    while let Some(argument) = args.get(at).copied() {
        let step = match argument {
            b"--" if doubtful => Step::Done,
            b"--" => return rest(args, at.saturating_add(1), operands, sink),
            b"--end-of-options" if order.is_git() && !doubtful => {
                return rest(args, at.saturating_add(1), operands, sink);
            }
            // Operators of an expression, which may be followed by more options.
            b"(" | b")" if order == Order::GitPosix => Step::Done,
            _ if is_option(argument) => option(node, args, at, order, sink)?,
            _ if order.stops() && !doubtful => return rest(args, at, operands, sink),
            _ => {
                sink(Event::Operand { value: argument, index: operands, at })?;
                operands = operands.saturating_add(1);
                Step::Done
            }
        };
        doubtful = step == Step::Doubtful;
        at = at.saturating_add(step.elements());
    }
    ControlFlow::Continue(())
}

/// Whether an element is read as an option: `-` alone is an operand.
pub(super) fn is_option(argument: &[u8]) -> bool {
    matches!(argument, [b'-', _, ..])
}

/// Reports everything from `at` on as operands.
pub(super) fn rest<'g, 'a>(
    args: &[&'a [u8]],
    at: usize,
    operands: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    for (index, (at, value)) in args.iter().enumerate().skip(at).enumerate() {
        sink(Event::Operand { value, index: index.saturating_add(operands), at })?;
    }
    ControlFlow::Continue(())
}

/// Reads the option at `at`, which [`is_option`] and is not `--`.
pub(super) fn option<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    at: usize,
    order: Order,
    sink: &mut Sink<'_, 'g, 'a>,
) -> ControlFlow<Finding, Step> {
    let Some(argument) = args.get(at).copied() else { return ControlFlow::Continue(Step::Done) };
    let next = args.get(at.saturating_add(1)).copied();
    if let Some(word) = argument.strip_prefix(b"--") {
        let taken_back = word.strip_prefix(b"no-").filter(|_| order.is_git());
        if let Some(option) = taken_back.and_then(|name| taken(node, word, name)) {
            sink(Event::TakenBack { option, at })?;
            return ControlFlow::Continue(Step::Done);
        }
        return long(node, argument, word, next, at, sink);
    }
    let word = argument.strip_prefix(b"-").unwrap_or(argument);
    if order == Order::LongOnly {
        let short = word.first().is_some_and(|letter| node.table.short(*letter).is_some());
        let known = !matches!(node.table.abbreviated(split(word).0), Found::Unknown);
        if known && (word.len() > 1 || !short) {
            return long(node, argument, word, next, at, sink);
        }
    }
    cluster(node, argument, word, next, at, sink)
}

/// The option `name` (`exec`), if `word` (`no-exec`) is none of its own.
fn taken<'g>(node: &'g Node, word: &[u8], name: &[u8]) -> Option<&'g Opt> {
    match (node.table.abbreviated(word), node.table.abbreviated(name)) {
        (Found::Unknown, Found::Option(option)) => Some(option),
        _ => None,
    }
}

/// The name and the attached value of `name=value`.
pub(super) fn split(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    match word.iter().position(|byte| *byte == b'=').and_then(|at| word.split_at_checked(at)) {
        Some((name, value)) => (name, value.split_first().map(|(_, value)| value)),
        None => (word, None),
    }
}

/// Reports `option` with the value it takes: `attached`, or `next` when it needs one.
pub(super) fn report<'g, 'a>(
    option: &'g Opt,
    attached: Option<&'a [u8]>,
    next: Option<&'a [u8]>,
    at: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> ControlFlow<Finding, Step> {
    let takes = attached.is_none() && option.arity == Arity::Required;
    let value = if takes { next } else { attached };
    sink(Event::Option { option, value, at })?;
    ControlFlow::Continue(match (takes, option.pair) {
        (true, true) => Step::TookTwo,
        (true, false) => Step::TookNext,
        (false, _) => Step::Done,
    })
}

/// Reads `word`, a long option without its dashes. `argument` is the element as it stands.
pub(super) fn long<'g, 'a>(
    node: &'g Node,
    argument: &'a [u8],
    word: &'a [u8],
    next: Option<&'a [u8]>,
    at: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> ControlFlow<Finding, Step> {
    let (name, value) = split(word);
    match node.table.abbreviated(name) {
        Found::Option(option) => report(option, value, next, at, sink),
        Found::Ambiguous(candidates) => {
            sink(Event::Ambiguous { candidates, at })?;
            ControlFlow::Continue(if value.is_some() { Step::Done } else { Step::Doubtful })
        }
        Found::Unknown => {
            sink(Event::Unknown { text: argument, short: false, at })?;
            ControlFlow::Continue(if value.is_some() { Step::Done } else { Step::Doubtful })
        }
    }
}

/// Reads a cluster of short options. After a letter that is not known the rest may be its value, or
/// more letters: each is looked at.
fn cluster<'g, 'a>(
    node: &'g Node,
    argument: &'a [u8],
    word: &'a [u8],
    next: Option<&'a [u8]>,
    at: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> ControlFlow<Finding, Step> {
    let mut left = word;
    let mut unknown = false;
    let mut doubt = Doubt::default();
    while let Some((letter, tail)) = left.split_first() {
        left = tail;
        match node.table.short(*letter) {
            Some(option) if option.arity == Arity::Flag => {
                sink(Event::Option { option, value: None, at })?;
            }
            Some(option) => {
                let attached = Some(tail).filter(|tail| !tail.is_empty());
                if unknown {
                    doubt.next(node, at)?;
                }
                let step = report(option, attached, next, at, sink)?;
                if !unknown {
                    return ControlFlow::Continue(step);
                }
            }
            None => {
                if !unknown {
                    sink(Event::Unknown { text: argument, short: true, at })?;
                }
                unknown = true;
            }
        }
    }
    ControlFlow::Continue(if unknown { Step::Doubtful } else { Step::Done })
}
