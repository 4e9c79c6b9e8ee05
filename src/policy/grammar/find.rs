//! Expressions of `find`: words anywhere, each with at most one value.
//!
//! Purpose: a word is refused wherever it stands, unless it is the value of another one; `--` protects
//! nothing. A word that the grammar does not know takes no value, so that what follows is looked at.
//! Called through `dialect`.

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
    let mut at = from;
    while let Some(argument) = args.get(at).copied() {
        let next = args.get(at.saturating_add(1)).copied();
        let mut step = gnu::Step::Done;
        if argument == b"--" {
        } else if gnu::is_option(argument) {
            let word = argument.strip_prefix(b"--").or_else(|| argument.strip_prefix(b"-"));
            let (name, attached) = gnu::split(word.unwrap_or(argument));
            match node.table.named(name) {
                Some(option) => step = gnu::report(option, attached, next, at, sink)?,
                // -newerXY compares with the file, or the time, that follows.
                None if name.len() == 7 && name.starts_with(b"newer") => {
                    step = match node.table.exact(b"newer") {
                        Some(option) => gnu::report(option, attached, next, at, sink)?,
                        None => gnu::Step::TookNext,
                    };
                }
                None => sink(Event::Unknown { text: argument, short: false, at })?,
            }
        } else {
            sink(Event::Operand { value: argument, index: operands, at })?;
            operands = operands.saturating_add(1);
        }
        at = at.saturating_add(step.elements());
    }
    ControlFlow::Continue(())
}
