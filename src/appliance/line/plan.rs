//! A line that is ready to run: every word expanded, every directory open.
//!
//! Purpose: the tree of [`crate::syntax::tree`] with text in place of words, and its commands in one list,
//! so that they are judged one by one and found again. Made by `expansion.rs`, read by `judge.rs` and
//! `execute.rs`.

use crate::config::workspace::Cwd;
use crate::launch::OpenFor;
use crate::policy::Request;
use crate::syntax::tree::Connector;

/// A list and its commands.
#[derive(Debug)]
pub(super) struct Expanded {
    pub(super) list: Vec<Entry>,
    /// In the order of the text; the tree names them by their place here.
    pub(super) stages: Vec<Stage>,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(Connector, Pipeline)>,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) negated: bool,
    pub(super) members: Vec<Member>,
}

/// One member of a pipeline.
#[derive(Debug)]
pub(super) enum Member {
    /// The command of this number.
    Stage(usize),
    Group {
        list: Vec<Entry>,
        redirections: Vec<Redirection>,
    },
    /// `cd`, which has happened.
    Directory,
}

/// A command.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) request: Request,
    pub(super) redirections: Vec<Redirection>,
}

#[derive(Debug)]
pub(super) struct Redirection {
    pub(super) descriptor: u8,
    pub(super) to: Target,
}

#[derive(Debug)]
pub(super) enum Target {
    /// `/dev/null`.
    Null,
    /// A path below the directory.
    File {
        cwd: Cwd,
        path: String,
        purpose: OpenFor,
    },
    /// Where that descriptor leads at this moment.
    Same(u8),
    Text(Vec<u8>),
}

/// Commands of a list that can run at the same time, at most.
pub(super) fn at_once(list: &[Entry]) -> usize {
    let of_member = |member: &Member| match member {
        Member::Stage(_) => 1,
        Member::Group { list, .. } => at_once(list),
        Member::Directory => 0,
    };
    let pipelines =
        list.iter().flat_map(|entry| std::iter::once(&entry.first).chain(entry.rest.iter().map(|(_, p)| p)));
    pipelines.map(|pipeline| pipeline.members.iter().map(of_member).sum()).max().unwrap_or(0)
}
