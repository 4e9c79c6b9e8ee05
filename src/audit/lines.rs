//! Lines of a log, one at a time, in bounded memory.
//!
//! Purpose: a log may be a gigabyte and may hold anything. Called by `recover.rs` and `verify.rs`.

use std::io::{self, BufRead, BufReader, Read};

use super::chain::MAX_LINE;

/// One line as it stands in the file.
#[derive(Debug)]
pub(super) struct Line {
    /// Its bytes without the newline; of a line longer than any record, only the beginning.
    pub(super) bytes: Vec<u8>,
    /// Its real length without the newline.
    pub(super) length: u64,
    /// A newline ended it.
    pub(super) ended: bool,
}

/// Reads lines from any source.
pub(super) struct Lines<R>(BufReader<R>);

impl<R: Read> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Self(BufReader::with_capacity(1 << 16, source))
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        let mut line = Line { bytes: Vec::with_capacity(1_536), length: 0, ended: false };
        loop {
            let chunk = self.0.fill_buf()?;
            if chunk.is_empty() {
                return Ok((line.length > 0).then_some(line));
            }
            let newline = chunk.iter().position(|byte| *byte == b'\n');
            let (part, used) = match newline {
                Some(at) => (chunk.get(..at).unwrap_or(chunk), at + 1),
                None => (chunk, chunk.len()),
            };
            let room = (MAX_LINE + 1).saturating_sub(line.bytes.len());
            line.bytes.extend(part.iter().take(room));
            line.length += part.len() as u64;
            self.0.consume(used);
            if newline.is_some() {
                line.ended = true;
                return Ok(Some(line));
            }
        }
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_counted_and_bounded() {
        let long = "x".repeat(100_000);
        let text = format!("a\n\n{long}\ntorn");
        let lines: Vec<Line> = Lines::new(text.as_bytes()).map(Result::unwrap).collect();
        let facts: Vec<(usize, u64, bool)> =
            lines.iter().map(|l| (l.bytes.len(), l.length, l.ended)).collect();
        assert_eq!(facts, [(1, 1, true), (0, 0, true), (MAX_LINE + 1, 100_000, true), (4, 4, false)]);
    }
}
