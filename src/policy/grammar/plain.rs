//! Programs without options: each element is an operand. Called through `dialect`.

use super::event::{Flow, Sink};
use super::gnu;

/// Reads `args` from `from` on.
pub(super) fn walk<'g, 'a>(args: &[&'a [u8]], from: usize, sink: &mut Sink<'_, 'g, 'a>) -> Flow {
    gnu::rest(args, from, 0, sink)
}
