//! Global options, then a subcommand with options of its own.
//!
//! Purpose: the first operand names the subcommand, whose node reads the rest under its own dialects.
//! Global options have no abbreviations and no clusters; `-cname=value` counts as `-c name=value`.
//! `--version` as the last argument is the subcommand `version`, as git itself reads it.
//! Called through `dialect`.

use std::ops::ControlFlow;

use super::dialect::walk_all;
use super::event::{Event, Finding, Flow, Sink};
use super::gnu::{self, Step};
use super::model::{Arity, Node};

/// Reads `args` from `from` on.
pub(super) fn walk<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    let mut at = from;
    while let Some(argument) = args.get(at).copied() {
        if gnu::is_option(argument) {
            if let Some(child) = version(node, argument).filter(|_| at.saturating_add(1) == args.len()) {
                return walk_all(child, Some(b"version"), args, at.saturating_add(1), sink);
            }
            let step = global(node, argument, args.get(at.saturating_add(1)).copied(), at, sink)?;
            at = at.saturating_add(step.elements());
            continue;
        }
        let Some(child) = node.child(argument) else {
            sink(Event::Operand { value: argument, index: 0, at })?;
            return gnu::rest(args, at.saturating_add(1), 1, sink);
        };
        return walk_all(child, Some(argument), args, at.saturating_add(1), sink);
    }
    ControlFlow::Continue(())
}

/// The subcommand that `git --version` and `git -v` are another spelling of.
fn version<'g>(node: &'g Node, argument: &[u8]) -> Option<&'g Node> {
    let asked = matches!(argument, b"--version" | b"-v") && node.table.exact(b"version").is_some();
    asked.then(|| node.child(b"version")).flatten()
}

/// Reads one global option.
fn global<'g, 'a>(
    node: &'g Node,
    argument: &'a [u8],
    next: Option<&'a [u8]>,
    at: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> ControlFlow<Finding, Step> {
    let (option, attached) = match argument {
        [b'-', b'-', word @ ..] => {
            let (name, value) = gnu::split(word);
            (node.table.exact(name), value)
        }
        [_, letter, tail @ ..] => (node.table.short(*letter), Some(tail).filter(|tail| !tail.is_empty())),
        _ => (None, None),
    };
    match option {
        Some(option) if attached.is_none() || option.arity != Arity::Flag => {
            gnu::report(option, attached, next, at, sink)
        }
        _ => {
            sink(Event::Unknown { text: argument, short: false, at })?;
            ControlFlow::Continue(Step::Done)
        }
    }
}
