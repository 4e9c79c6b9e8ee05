//! GNU tar and bsdtar.
//!
//! Purpose: both take a first word without a dash, each letter of which is an option that finds its
//! value among the next elements. GNU tar then reads on as `getopt_long` does. bsdtar stops at the first
//! operand, skips a lonely `-`, and reads the value of `-W` as a long option. Called through `dialect`.

use std::ops::ControlFlow;

use super::event::{Event, Finding, Flow, Sink};
use super::gnu::{self, Order, Step};
use super::model::{Arity, Node};

/// Reads `args` from `from` on, as GNU tar does.
pub(super) fn walk<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    let mut at = from;
    if let Some(word) = old_word(args, from) {
        let mut reader = Letters { node, args, at, next: at.saturating_add(1), old: true, prefix: None };
        reader.read(word, sink)?;
        at = reader.next;
    }
    gnu::walk(node, args, at, Order::Permute, sink)
}

/// Reads `args` from `from` on, as bsdtar does.
pub(super) fn walk_bsd<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    let mut at = from;
    let mut doubtful = false;
    let mut operands = 0;
    while let Some(argument) = args.get(at).copied() {
        let next = at.saturating_add(1);
        let mut reader = Letters { node, args, at, next, old: false, prefix: Some(b'W') };
        if let Some(word) = old_word(args, at).filter(|_| at == from) {
            reader.old = true;
            reader.read(word, sink)?;
            at = reader.next;
            continue;
        }
        match argument {
            b"--" if !doubtful => return gnu::rest(args, next, operands, sink),
            [b'-', b'-', ..] => {
                let step = gnu::option(node, args, at, Order::Posix, sink)?;
                doubtful = step == Step::Doubtful;
                at = at.saturating_add(step.elements());
            }
            [b'-', word @ ..] => {
                doubtful = reader.read(word, sink)?;
                at = reader.next;
            }
            _ if !doubtful => return gnu::rest(args, at, operands, sink),
            // Perhaps the value of an option that is not known.
            _ => {
                sink(Event::Operand { value: argument, index: operands, at })?;
                operands = operands.saturating_add(1);
                doubtful = false;
                at = next;
            }
        }
    }
    ControlFlow::Continue(())
}

/// The first element, when it is a word of letters.
fn old_word<'a>(args: &[&'a [u8]], at: usize) -> Option<&'a [u8]> {
    args.get(at).copied().filter(|word| word.first() != Some(&b'-'))
}

/// Reads letters one by one.
struct Letters<'r, 'g, 'a> {
    node: &'g Node,
    args: &'r [&'a [u8]],
    /// The element that the letters stand in.
    at: usize,
    /// The first element that no letter has taken.
    next: usize,
    /// Values never follow the letter in the same element.
    old: bool,
    /// The letter whose value is a long option.
    prefix: Option<u8>,
}

impl<'g, 'a> Letters<'_, 'g, 'a> {
    /// Reads `word`. Answers whether an option in it may take the next element.
    fn read(&mut self, word: &'a [u8], sink: &mut Sink<'_, 'g, 'a>) -> ControlFlow<Finding, bool> {
        let mut left = word;
        let mut unknown = false;
        let mut doubtful = false;
        let mut doubt = gnu::Doubt::default();
        while let Some((letter, tail)) = left.split_first() {
            left = tail;
            let Some(option) = self.node.table.short(*letter) else {
                if !unknown {
                    sink(Event::Unknown { text: word, short: true, at: self.at })?;
                }
                unknown = true;
                continue;
            };
            if option.arity != Arity::Required {
                sink(Event::Option { option, value: None, at: self.at })?;
                continue;
            }
            let attached = !self.old && !tail.is_empty();
            if unknown && attached {
                doubt.next(self.node, self.at)?;
            }
            let value = if attached { Some(tail) } else { self.args.get(self.next).copied() };
            // After a letter that is not known, nothing says that the value is taken.
            if !attached && (self.old || !unknown) && value.is_some() {
                self.next = self.next.saturating_add(1);
            }
            match value {
                Some(name) if self.prefix == Some(*letter) => {
                    let next = self.args.get(self.next).copied();
                    let step = gnu::long(self.node, name, name, next, self.at, sink)?;
                    doubtful = step == Step::Doubtful;
                    if step == Step::TookNext && !unknown {
                        self.next = self.next.saturating_add(1);
                    }
                }
                _ => sink(Event::Option { option, value, at: self.at })?,
            }
            if attached && !unknown {
                break;
            }
        }
        ControlFlow::Continue(unknown || doubtful)
    }
}
