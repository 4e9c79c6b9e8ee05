//! Operands of the form `key=value`, as `dd` reads them.
//!
//! Purpose: each known key is an option with its value; an element without `=` is an operand; unknown
//! keys and dashes are unknown. Called through `dialect`.

use std::ops::ControlFlow;

use super::event::{Event, Flow, Sink};
use super::gnu;
use super::model::Node;

/// Reads `args` from `from` on.
pub(super) fn walk<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    let mut operands = 0;
    for (at, argument) in args.iter().enumerate().skip(from) {
        let (name, value) = gnu::split(argument);
        let bare = name.strip_prefix(b"--").unwrap_or(name);
        match node.table.named(bare) {
            Some(option) if value.is_some() || bare.len() < name.len() => {
                sink(Event::Option { option, value, at })?;
            }
            _ if *argument == b"--" => {}
            _ if value.is_some() || gnu::is_option(argument) => {
                sink(Event::Unknown { text: argument, short: false, at })?;
            }
            _ => {
                sink(Event::Operand { value: argument, index: operands, at })?;
                operands = operands.saturating_add(1);
            }
        }
    }
    ControlFlow::Continue(())
}
