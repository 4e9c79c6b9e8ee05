//! A tap: what a run has written so far, open to readers while it runs.
//!
//! Purpose: one pair of capped buffers serves as the capture of the run, as the log of a job and as the
//! source of what is streamed, so that memory is one budget a stream however many read. Readers hold
//! positions of their own and take nothing away: none can hold up the command or another reader. Filled by
//! `foreground.rs`; read by whoever handed the tap in with the call.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use super::{CappedBuffer, Captured, Cut, Piece, Position, Stream};

/// Budget of one stream.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Bytes kept.
    pub bytes: usize,
    /// Lines kept.
    pub lines: usize,
}

/// The output of one run, from its start on.
#[derive(Debug, Default)]
pub struct Tap {
    streams: OnceLock<[Mutex<CappedBuffer>; 2]>,
    begun: CancellationToken,
}

impl Tap {
    /// The command has started: from now on there is output.
    ///
    /// # Errors
    /// The tap belongs to another run already.
    pub fn begin(&self, budget: Budget) -> io::Result<()> {
        let buffer = || Mutex::new(CappedBuffer::new(budget.bytes, budget.lines));
        self.streams.set([buffer(), buffer()]).map_err(|_| {
            io::Error::new(io::ErrorKind::AlreadyExists, "the tap of this call serves another run")
        })?;
        self.begun.cancel();
        Ok(())
    }

    /// Adds the reason why there is no more output to standard error, also of a run that never started.
    pub fn close(&self, reason: &str) {
        let buffer = || Mutex::new(CappedBuffer::new(0, 0));
        self.streams.get_or_init(|| [buffer(), buffer()]);
        self.push(Stream::Stderr, reason.as_bytes());
    }

    /// Takes what the command wrote next. Nothing is taken before [`Tap::begin`].
    pub fn push(&self, stream: Stream, bytes: &[u8]) {
        self.with(stream, |buffer| buffer.push(bytes));
    }

    /// Completes once the command has started.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Whether the command has started.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Bytes ever written to a stream.
    #[must_use]
    pub fn total_bytes(&self, stream: Stream) -> u64 {
        self.with(stream, |buffer| buffer.total_bytes()).unwrap_or(0)
    }

    /// All of a stream that is held.
    #[must_use]
    pub fn captured(&self, stream: Stream) -> Captured {
        self.with(stream, |buffer| buffer.read()).unwrap_or_else(nothing)
    }

    /// See [`CappedBuffer::read_within`].
    #[must_use]
    pub fn read_within(&self, stream: Stream, most: usize, last: bool) -> (Captured, Position) {
        let read = self.with(stream, |buffer| buffer.read_within(most, last));
        read.unwrap_or_else(|| (nothing(), Position::default()))
    }

    /// See [`CappedBuffer::end`].
    #[must_use]
    pub fn end(&self, stream: Stream) -> Position {
        self.with(stream, |buffer| buffer.end(false)).unwrap_or_default()
    }

    /// See [`CappedBuffer::piece`].
    #[must_use]
    pub fn piece(&self, stream: Stream, at: Position, most: usize, cut: Cut) -> Option<Piece> {
        match self.with(stream, |buffer| buffer.piece(at, most, cut)) {
            Some(piece) => piece,
            None => (at == Position::default()).then(Piece::nothing),
        }
    }

    fn with<T>(&self, stream: Stream, act: impl FnOnce(&mut CappedBuffer) -> T) -> Option<T> {
        let [stdout, stderr] = self.streams.get()?;
        let buffer = match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        // A buffer that a panic left behind holds valid bytes still.
        Some(act(&mut buffer.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn nothing() -> Captured {
    Captured { text: String::new(), dropped: None, total_bytes: 0, invalid_bytes: 0 }
}
