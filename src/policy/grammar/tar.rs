//! GNU tar and bsdtar. Called through `dialect`.

use super::event::{Flow, Sink};
use super::gnu::{self, Order};
use super::model::Node;

/// Reads `args` from `from` on, as GNU tar does.
pub(super) fn walk<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    gnu::walk(node, args, from, Order::Permute, sink)
}

/// Reads `args` from `from` on, as bsdtar does.
pub(super) fn walk_bsd<'g, 'a>(
    node: &'g Node,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    gnu::walk(node, args, from, Order::Permute, sink)
}
