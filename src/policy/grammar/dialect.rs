//! Ways to read an argument vector, by name.
//!
//! Purpose: the one place that joins the name of a dialect in a program file to its walker. A walker
//! reads `args` from index `from` on and reports events for `node`; it holds no state of its own and
//! refuses nothing itself. Called by `rules`, and by walkers of trees for their subcommands.

use std::ops::ControlFlow;

use serde::Deserialize;

use super::event::{Event, Flow, Sink};
use super::gnu::Order;
use super::model::Node;
use super::{find, git, gnu, keyvalue, perl, plain, tar};

/// A way to read arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Dialect {
    /// `getopt_long`: options may follow operands.
    Gnu,
    /// The same, but the first operand ends the options.
    Posix,
    /// `getopt_long_only`: `-word` may be a long option, too.
    LongOnly,
    /// Words of an expression, anywhere.
    Find,
    /// `key=value` operands.
    KeyValue,
    /// Operands only.
    Plain,
    /// Global options, then a subcommand with its own.
    Git,
    /// A command of git: `--end-of-options` and `--no-name`, too.
    ParseOptions,
    /// The same, but the first operand ends the options.
    ParseOptionsPosix,
    /// Perl's Getopt::Long.
    Perl,
    /// GNU tar, its old-style first word included.
    Tar,
    /// bsdtar.
    Bsdtar,
}

impl Dialect {
    /// Reads `args` from `from` on.
    pub(super) fn walk<'g, 'a>(
        self,
        node: &'g Node,
        args: &[&'a [u8]],
        from: usize,
        sink: &mut Sink<'_, 'g, 'a>,
    ) -> Flow {
        match self {
            Self::Gnu => gnu::walk(node, args, from, Order::Permute, sink),
            Self::Posix => gnu::walk(node, args, from, Order::Posix, sink),
            Self::LongOnly => gnu::walk(node, args, from, Order::LongOnly, sink),
            Self::Find => find::walk(node, args, from, sink),
            Self::KeyValue => keyvalue::walk(node, args, from, sink),
            Self::Plain => plain::walk(args, from, sink),
            Self::Git => git::walk(node, args, from, sink),
            Self::ParseOptions => gnu::walk(node, args, from, Order::Git, sink),
            Self::ParseOptionsPosix => gnu::walk(node, args, from, Order::GitPosix, sink),
            Self::Perl => perl::walk(node, args, from, sink),
            Self::Tar => tar::walk(node, args, from, sink),
            Self::Bsdtar => tar::walk_bsd(node, args, from, sink),
        }
    }
}

/// Reads `args` under each dialect of `node`, one pass after the other, then under its other grammars.
pub(super) fn walk_all<'g, 'a>(
    node: &'g Node,
    name: Option<&'a [u8]>,
    args: &[&'a [u8]],
    from: usize,
    sink: &mut Sink<'_, 'g, 'a>,
) -> Flow {
    for dialect in &node.dialects {
        sink(Event::Enter { node, name, at: from.saturating_sub(1) })?;
        dialect.walk(node, args, from, sink)?;
    }
    for other in &node.also {
        walk_all(other, name, args, from, sink)?;
    }
    ControlFlow::Continue(())
}
