//! Perl's Getopt::Long, as `git send-email` uses it.
//!
//! Purpose: several passes over one argument vector, each of which takes the options it knows and leaves
//! the rest (`pass_through`); once as Perl permutes, once as it does under `POSIXLY_CORRECT`, where the
//! first element that is no option ends a pass and abbreviations and `+` mean nothing. Names are read
//! without case. Called through `dialect`.

use std::ops::ControlFlow;

use super::event::{Event, Finding, Flow, Sink};
use super::gnu;
use super::model::{Arity, LongName, Node, Opt};

/// An element that is left, and its index in the arguments.
type Left<'a> = (usize, &'a [u8]);

/// Reads `args` from `from` on.
pub(super) fn walk<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    for permute in [true, false] {
        let mut left: Vec<Left<'a>> = args.iter().copied().enumerate().skip(from).collect();
        for number in 0..node.passes {
            left = Pass { node, number: Some(number), permute }.read(&left, sink)?;
        }
        left = Pass { node, number: None, permute }.read(&left, sink)?;
        report_left(&left, sink)?;
    }
    ControlFlow::Continue(())
}

/// What no pass has taken: options that the program does not know, and operands.
fn report_left<'a>(left: &[Left<'a>], sink: &mut Sink<'_, '_, 'a>) -> Flow {
    let mut ended = false;
    let mut index = 0_usize;
    for (at, value) in left.iter().copied() {
        if !ended && value == b"--" {
            ended = true;
        } else if !ended && gnu::is_option(value) {
            sink(Event::Unknown { text: value, short: false, at })?;
        } else {
            sink(Event::Operand { value, index, at })?;
            index = index.saturating_add(1);
        }
    }
    ControlFlow::Continue(())
}

struct Pass<'g> {
    node: &'g Node,
    /// Absent for the last one.
    number: Option<usize>,
    permute: bool,
}

/// What a name stands for in a pass.
enum Named<'g> {
    Option(&'g Opt),
    Ambiguous(&'g [LongName]),
    Unknown,
}

impl<'g> Pass<'g> {
    /// Takes what the pass knows out of `elements` and answers what is left.
    fn read<'a>(
        &self,
        elements: &[Left<'a>],
        sink: &mut Sink<'_, 'g, 'a>,
    ) -> ControlFlow<Finding, Vec<Left<'a>>> {
        let mut left = Vec::with_capacity(elements.len());
        let mut rest = elements;
        while let Some((element, tail)) = rest.split_first() {
            if element.1 == b"--" {
                break;
            }
            match self.option(*element, tail.first().map(|(_, next)| *next), sink)? {
                Some(1) => rest = tail,
                Some(_) => rest = tail.split_first().map_or(tail, |(_, tail)| tail),
                None if self.permute => {
                    left.push(*element);
                    rest = tail;
                }
                None => break,
            }
        }
        left.extend_from_slice(rest);
        ControlFlow::Continue(left)
    }

    /// How many elements the option takes, if the pass knows it and its value is one.
    fn option<'a>(
        &self,
        (at, argument): Left<'a>,
        next: Option<&'a [u8]>,
        sink: &mut Sink<'_, 'g, 'a>,
    ) -> ControlFlow<Finding, Option<usize>> {
        let Some((word, long)) = self.word(argument) else { return ControlFlow::Continue(None) };
        let (name, attached) = if long || self.permute { gnu::split(word) } else { (word, None) };
        let option = match self.named(&name.to_ascii_lowercase()) {
            Named::Option(option) => option,
            Named::Ambiguous(candidates) => {
                sink(Event::Ambiguous { candidates, at })?;
                return ControlFlow::Continue(None);
            }
            Named::Unknown => return ControlFlow::Continue(None),
        };
        let wrong = |value: &[u8]| option.number && !is_number(value);
        let (value, taken) = match (option.arity, attached, next) {
            (Arity::Flag, Some(_), _) => return ControlFlow::Continue(None),
            (Arity::Flag, None, _) => (None, Some(1)),
            // Without a value it stays where it is; what its absence means is up to the rules.
            (Arity::Required, Some(b""), _) | (Arity::Required, None, None) => (None, None),
            (_, Some(value), _) => (Some(value), Some(1).filter(|_| value.is_empty() || !wrong(value))),
            (Arity::Required, None, Some(next)) => (Some(next), Some(2).filter(|_| !wrong(next))),
            (Arity::Optional, None, Some(next))
                if !wrong(next) && (option.number || !self.is_option(next)) =>
            {
                (Some(next), Some(2))
            }
            (Arity::Optional, None, _) => (None, Some(1)),
        };
        sink(Event::Option { option, value, at })?;
        ControlFlow::Continue(taken)
    }

    /// The word after the prefix of an option, and whether the prefix is `--`.
    fn word<'a>(&self, argument: &'a [u8]) -> Option<(&'a [u8], bool)> {
        let (word, long) = match argument {
            [b'-', b'-', word @ ..] => (word, true),
            [b'-', word @ ..] => (word, false),
            [b'+', word @ ..] if self.permute => (word, false),
            _ => return None,
        };
        (!word.is_empty()).then_some((word, long))
    }

    /// Whether an optional value leaves this element alone.
    fn is_option(&self, argument: &[u8]) -> bool {
        argument == b"--" || self.word(argument).is_some()
    }

    fn named(&self, name: &[u8]) -> Named<'g> {
        let table = &self.node.table;
        if let Some(option) = table.named(name).filter(|option| option.pass == self.number) {
            return Named::Option(option);
        }
        if !self.permute {
            return Named::Unknown;
        }
        let candidates = table.prefixed(name);
        let mut mine = candidates.iter().map(|long| &*long.option).filter(|own| own.pass == self.number);
        match mine.next() {
            None => Named::Unknown,
            Some(first) if mine.all(|other| std::ptr::eq(other, first)) => Named::Option(first),
            Some(_) => Named::Ambiguous(candidates),
        }
    }
}

/// Perl's `[-+]?_*[0-9][0-9_]*`.
fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").or_else(|| value.strip_prefix(b"+")).unwrap_or(value);
    digits.iter().any(u8::is_ascii_digit) && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'_')
}
