//! Instalments: what a capped buffer holds from a position on.
//!
//! Purpose: follow a stream piece by piece. The pieces of a reader that keeps up concatenate to all that
//! was written; a reader that falls behind the rolling tail finds what was lost counted between `before`
//! (the rest of the head, which is kept for ever) and `after` (the tail). Reading changes nothing, so the
//! same position gives the same piece for as long as nothing was written. Called through `tap.rs`.

use super::{
    CappedBuffer, Captured, Dropped, complete_characters, continuation_bytes, marker, newlines, push_lossy,
};

/// How far a stream has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Bytes before it.
    pub bytes: u64,
    /// Newlines among them.
    pub lines: u64,
}

/// One instalment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// What follows the position.
    pub before: Vec<u8>,
    /// What was lost after that, if anything.
    pub dropped: Option<Dropped>,
    /// What follows the loss.
    pub after: Vec<u8>,
    /// Where the next piece begins.
    pub next: Position,
    /// The stream held nothing more when this was read, up to an incomplete character.
    pub end: bool,
    /// The marker of the loss begins a line of its own.
    fresh_line: bool,
}

/// How a piece is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Anywhere, and never with a loss in the middle: for bytes.
    Bytes,
    /// Between characters; one that is incomplete at the end waits for its rest.
    Characters,
    /// Between characters; the stream has ended, so what is incomplete at its end stays so.
    Last,
}

impl Piece {
    /// Of a stream that holds nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { end: true, ..Self::default() }
    }

    /// As text, the loss in its usual words; and how many bytes were no text.
    #[must_use]
    pub fn text(&self) -> (String, u64) {
        let (mut text, mut invalid) = (String::new(), 0);
        push_lossy(&mut text, &mut invalid, &self.before);
        if let Some(dropped) = self.dropped {
            if !self.fresh_line {
                text.push('\n');
            }
            text.push_str(&marker(dropped));
            text.push('\n');
        }
        push_lossy(&mut text, &mut invalid, &self.after);
        (text, invalid)
    }
}

impl CappedBuffer {
    /// At most `most` bytes from `at` on. Nothing when the position lies beyond what was written.
    #[must_use]
    pub fn piece(&self, at: Position, most: usize, cut: Cut) -> Option<Piece> {
        if at.bytes > self.total_bytes || at.lines > self.total_newlines {
            return None;
        }
        let head_end = self.head.len() as u64;
        let tail_start = self.total_bytes - self.tail.len() as u64;
        let from_head = self.head.iter().skip(index(at.bytes)).take(most);
        let mut piece = Piece { before: from_head.copied().collect(), ..Piece::default() };
        let mut reached = at.bytes + piece.before.len() as u64;
        if reached < head_end {
            // The budget ended in the head.
        } else if reached >= tail_start {
            let room = most - piece.before.len();
            piece.before.extend(self.tail.iter().skip(index(reached - tail_start)).take(room));
            reached = at.bytes + piece.before.len() as u64;
        } else if cut != Cut::Bytes || piece.before.is_empty() {
            let cut_off = if cut == Cut::Bytes { 0 } else { incomplete(&piece.before) };
            piece.before.truncate(piece.before.len() - cut_off);
            let (one, two) = self.tail.as_slices();
            let start: Vec<u8> = self.tail.iter().take(3).copied().collect();
            let first = if cut == Cut::Bytes { 0 } else { continuation_bytes(&start) };
            let lost_from = at.bytes + piece.before.len() as u64;
            let lines = self.total_newlines - newlines(one) - newlines(two) - at.lines;
            let lines = lines - newlines(&piece.before);
            piece.dropped = Some(Dropped { bytes: tail_start + first as u64 - lost_from, lines });
            piece.fresh_line = self.newline_before(lost_from, &piece.before);
            let room = most - piece.before.len();
            piece.after.extend(self.tail.iter().skip(first).take(room));
            reached = tail_start + (first + piece.after.len()) as u64;
        }
        piece.end = reached == self.total_bytes;
        let last = if piece.dropped.is_some() { &mut piece.after } else { &mut piece.before };
        if cut == Cut::Characters || (cut == Cut::Last && !piece.end) {
            let waits = incomplete(last);
            last.truncate(last.len() - waits);
            reached -= waits as u64;
        }
        let lost = piece.dropped.map_or(0, |dropped| dropped.lines);
        let lines = at.lines + newlines(&piece.before) + lost + newlines(&piece.after);
        piece.next = Position { bytes: reached, lines };
        Some(piece)
    }

    /// All that is held within `most` bytes, as [`CappedBuffer::read`] shows it, and the position after it.
    /// Unless `last`, a character that is incomplete at the end waits for its rest.
    #[must_use]
    pub fn read_within(&self, most: usize, last: bool) -> (Captured, Position) {
        let position = self.end(last);
        let held = index(self.total_bytes - position.bytes);
        (self.show(most, held), position)
    }

    /// The position after all that was written; unless `last`, before a character that is incomplete.
    #[must_use]
    pub fn end(&self, last: bool) -> Position {
        let newest = self.tail.iter().rev().chain(self.head.iter().rev()).take(3).copied();
        let mut end: Vec<u8> = newest.collect();
        end.reverse();
        let held = if last { 0 } else { incomplete(&end) };
        Position { bytes: self.total_bytes - held as u64, lines: self.total_newlines }
    }

    /// Whether what stands before `at` ends a line, as far as that is still known.
    fn newline_before(&self, at: u64, read: &[u8]) -> bool {
        let held = || at.checked_sub(1).and_then(|before| self.head.get(index(before)));
        read.last().or_else(held).is_some_and(|byte| *byte == b'\n')
    }
}

/// Bytes at the end that begin a character without ending it.
fn incomplete(bytes: &[u8]) -> usize {
    bytes.len() - complete_characters(bytes)
}

/// A distance within a buffer; what lies beyond every buffer is beyond this one.
fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
