//! One run: standard input written without blocking the reads, both output streams drained into
//! capped buffers that may be read meanwhile, the end awaited; and the registry of background jobs.
//! Knows nothing of MCP or of option grammars.

pub mod buffer;
pub mod foreground;
pub mod jobs;
pub mod plain;
pub mod tap;

pub use buffer::{CappedBuffer, Captured, Cut, Dropped, Piece, Position};
pub use tap::{Budget, Tap};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited by itself with this status.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
    /// It was killed and its status never arrived.
    Unknown,
}

/// Which output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// Output as it came, for callers that want it live.
#[derive(Debug)]
pub struct Chunk {
    /// Where it was written.
    pub stream: Stream,
    /// What was written.
    pub bytes: Vec<u8>,
}
