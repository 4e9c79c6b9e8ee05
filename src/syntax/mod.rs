//! Shell syntax, no shell: from a line to the tree that is judged and executed.
//!
//! Purpose: the one reading of shell syntax. What [`parse`] returns is what the policy judges and what the
//! executor runs; there is no second parser. A documented subset of POSIX `sh` with a little of bash is
//! accepted (`docs/shell-syntax.md`), everything else is refused by name. Pure: no I/O, no policy. Inputs:
//! text of a caller. Called by the tools that take a line, operators in argv, or placeholders.
//!
//! Why a parser of our own. Compared: `yash-syntax` 0.21 (19,141 lines, 46 packages, a fallible parser of
//! all of POSIX, GPL-3.0-or-later: not linkable here); `tree-sitter-bash` 0.25 (350,631 lines of generated C,
//! needs the tree-sitter runtime too, and recovers from errors where a refusal is wanted); `brush-parser` 0.4
//! (MIT, no unsafe code, 10,489 lines, 64 packages of which 40 would be new here, a snapshot-test library
//! among them): it keeps a word as raw text that a second parser takes apart later, keeps the last lines of
//! all callers in process-wide caches, and accepts nearly all of bash, so that each refusal would have to be
//! found again among its 63 types of nodes and words. The subset is smaller than that conversion would be.

pub mod accepted;
mod braces;
mod class;
pub mod constructs;
mod cursor;
mod display;
pub mod expand;
mod here;
pub mod operators;
mod parse;
pub mod placeholder;
mod refusal;
pub mod shown;
mod simple;
pub mod tree;
mod words;

pub use parse::parse;
pub use refusal::{Construct, Refusal};
pub use tree::List;

/// How a line is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether `#@#${id.field}#@#$` stands for a value, as in a batch.
    pub placeholders: bool,
}

/// Bounds of what is read; beyond them a line is refused.
pub mod limits {
    /// Bytes of a line.
    pub const LINE: usize = 64 * 1024;
    /// Words, commands, redirections and alternatives of a line together.
    pub const WORDS: usize = 4096;
    /// Characters that are looked at ahead for the ends of `[…]` and `{…}`, all together.
    pub const LOOKED: usize = 16 * LINE;
    /// Groups and alternatives inside one another.
    pub const DEPTH: usize = 8;
    /// Here-documents that wait for their text.
    pub const HERE_DOCUMENTS: usize = 16;
}
