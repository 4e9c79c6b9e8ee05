//! Global options, then a subcommand with options of its own.
//!
//! Purpose: the first operand names the subcommand, whose node reads the rest under its own dialects.
//! Called through `dialect`.

use std::ops::ControlFlow;

use super::dialect::walk_all;
use super::event::{Event, Flow, Sink};
use super::gnu::{self, Order, Step};
use super::model::Node;

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
            let step = gnu::option(node, args, at, Order::Posix, sink)?;
            at = at.saturating_add(if step == Step::TookNext { 2 } else { 1 });
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
