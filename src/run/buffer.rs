//! The capped buffer: the first quarter of the budget as head, the last three quarters as a
//! rolling tail, the middle dropped and counted. Bounded memory however much is written.
//!
//! Purpose: hold what one output stream wrote without ever holding more than the budget. Inputs:
//! byte slices of any size and content. Called by `run/`, once for each stream, and by programs
//! that embed the library. Taking bytes in is a few block copies and one pass that counts
//! newlines; everything about lines, characters and the marker is decided in [`CappedBuffer::read`].

mod piece;
#[cfg(test)]
mod piece_tests;

use std::collections::VecDeque;

pub use piece::{Cut, Piece, Position};

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
/// A last line without its newline counts as a line.
#[derive(Debug)]
pub struct CappedBuffer {
    max_lines: usize,
    head_bytes: usize,
    tail_bytes: usize,
    /// The first `head_bytes` bytes.
    head: Vec<u8>,
    /// The last `tail_bytes` of what came after the head.
    tail: VecDeque<u8>,
    total_bytes: u64,
    total_newlines: u64,
}

impl CappedBuffer {
    /// A buffer of at most `max_bytes` bytes (floor 1,024) and `max_lines` lines (floor 10).
    #[must_use]
    pub fn new(max_bytes: usize, max_lines: usize) -> Self {
        let max_bytes = max_bytes.max(1024);
        let head_bytes = max_bytes / 4;
        Self {
            max_lines: max_lines.max(10),
            head_bytes,
            tail_bytes: max_bytes - head_bytes,
            head: Vec::new(),
            tail: VecDeque::new(),
            total_bytes: 0,
            total_newlines: 0,
        }
    }

    /// Takes what the stream wrote next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        self.total_newlines += newlines(bytes);

        let room = self.head_bytes.saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        grow_and_extend(&mut self.head, first, self.head_bytes);

        // Only the last `tail_bytes` of a large slice can survive: the others are not copied.
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_bytes));
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_bytes);
        self.tail.drain(..excess.min(self.tail.len()));
        let needed = self.tail.len() + rest.len();
        if needed > self.tail.capacity() {
            // Doubling by itself would end above the budget.
            let target = needed.max(self.tail.capacity() * 2).min(self.tail_bytes);
            self.tail.reserve_exact(target - self.tail.len());
        }
        self.tail.extend(rest);
    }

    /// Everything ever written, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Head, marker and tail, with the numbers that belong to them. Leaves the buffer as it is.
    #[must_use]
    pub fn read(&self) -> Captured {
        self.show(usize::MAX, 0)
    }

    /// The same within a smaller budget of `most` bytes, without the last `held` bytes.
    fn show(&self, most: usize, held: usize) -> Captured {
        let (one, two) = self.tail.as_slices();
        let mut all = [self.head.as_slice(), one, two].concat();
        all.truncate(all.len().saturating_sub(held));
        let total = self.total_bytes - held as u64;
        let mut gap = total > all.len() as u64;
        let mut start = self.head.len().min(all.len());
        if all.len() > most {
            start = start.min(most / 4);
            let (head, rest) = all.split_at(start);
            let (_, tail) = rest.split_at(rest.len().saturating_sub(most - start));
            (all, gap) = ([head, tail].concat(), true);
        }
        let mut text = String::with_capacity(all.len() + 64);
        let mut invalid_bytes = 0;

        let whole = !gap && lines(&all, self.total_newlines) <= self.max_lines as u64;
        let dropped = if whole {
            push_lossy(&mut text, &mut invalid_bytes, &all);
            None
        } else {
            let (head, tail) = self.ends(&all, start, gap);
            let kept = (head.len() + tail.len()) as u64;
            let dropped =
                Dropped { bytes: total - kept, lines: self.total_newlines - newlines(head) - newlines(tail) };
            push_lossy(&mut text, &mut invalid_bytes, head);
            if !head.is_empty() && !head.ends_with(b"\n") {
                text.push('\n');
            }
            text.push_str(&marker(dropped));
            text.push('\n');
            push_lossy(&mut text, &mut invalid_bytes, tail);
            Some(dropped)
        };
        Captured { text, dropped, total_bytes: self.total_bytes, invalid_bytes }
    }

    /// What is shown of the head, the first `start` bytes, and of the tail when something has to go.
    /// `gap`: bytes between the two are gone already.
    fn ends<'a>(&self, all: &'a [u8], start: usize, gap: bool) -> (&'a [u8], &'a [u8]) {
        let (start, rolled) = all.split_at(start);
        let head_lines = self.max_lines / 4;
        let (head, after) = all.split_at(end_of_line(start, head_lines));
        // Without a gap the piece of `start` that the line budget cut off is followed directly by
        // the rest, so it takes part in the tail; behind a gap it is dropped with the gap.
        let rest = if gap { rolled } else { after };
        let tail_lines = self.max_lines - head_lines;
        let from = if lines(rest, newlines(rest)) > tail_lines as u64 {
            start_of_last_lines(rest, tail_lines)
        } else {
            continuation_bytes(rest)
        };
        (head.split_at(complete_characters(head)).0, rest.split_at(from).1)
    }
}

/// The line that stands where something was dropped.
fn marker(dropped: Dropped) -> String {
    format!("[... {} bytes / {} lines dropped ...]", dropped.bytes, dropped.lines)
}

fn grow_and_extend(head: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = head.len() + bytes.len();
    if needed > head.capacity() {
        let target = needed.max(head.capacity() * 2).min(limit);
        head.reserve_exact(target - head.len());
    }
    head.extend_from_slice(bytes);
}

/// Counts newlines. Chunks of 255 let the sum of one chunk stay in a byte, so that the loop
/// compiles to vector instructions.
fn newlines(bytes: &[u8]) -> u64 {
    bytes
        .chunks(255)
        .map(|chunk| {
            u64::from(chunk.iter().fold(0_u8, |sum, byte| sum.wrapping_add(u8::from(*byte == b'\n'))))
        })
        .sum()
}

fn unterminated(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|byte| *byte != b'\n')
}

fn lines(bytes: &[u8], newlines: u64) -> u64 {
    newlines + u64::from(unterminated(bytes))
}

/// Length of the first `count` lines, or of everything when there are fewer.
fn end_of_line(bytes: &[u8], count: usize) -> usize {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| at + 1).nth(count.saturating_sub(1)).unwrap_or(bytes.len())
}

/// Where the last `count` lines begin (an unterminated last line is one of them).
fn start_of_last_lines(bytes: &[u8], count: usize) -> usize {
    let skip = if unterminated(bytes) { count.saturating_sub(1) } else { count };
    let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| at + 1).nth(skip).unwrap_or(0)
}

/// Length without a character that was cut at the end.
fn complete_characters(bytes: &[u8]) -> usize {
    let len = bytes.len();
    let cut = (1..=len.min(3)).find(|back| {
        let (_, last) = bytes.split_at(len - back);
        matches!(std::str::from_utf8(last), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
    });
    len - cut.unwrap_or(0)
}

/// Bytes at the start that belong to a character whose beginning is gone (at most three).
fn continuation_bytes(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count()
}

fn push_lossy(text: &mut String, invalid: &mut u64, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            *invalid += chunk.invalid().len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(bytes: &[u8], max_bytes: usize, max_lines: usize, piece: usize) -> CappedBuffer {
        let mut buffer = CappedBuffer::new(max_bytes, max_lines);
        bytes.chunks(piece.max(1)).for_each(|chunk| buffer.push(chunk));
        buffer
    }

    /// Splits a text at its marker: what stands before and after.
    fn around(captured: &Captured) -> (&str, &str) {
        let line = format!("{}\n", marker(captured.dropped.unwrap()));
        captured.text.split_once(line.as_str()).unwrap()
    }

    #[test]
    fn an_unused_buffer_reads_empty() {
        let captured = CappedBuffer::new(0, 0).read();
        assert_eq!(
            captured,
            Captured { text: String::new(), dropped: None, total_bytes: 0, invalid_bytes: 0 }
        );
    }

    #[test]
    fn the_marker_is_spelled_as_promised_and_stands_on_its_own_line() {
        assert_eq!(marker(Dropped { bytes: 7176, lines: 175 }), "[... 7176 bytes / 175 lines dropped ...]");
        let captured = filled(&[b'x'; 5000], 1024, 100, 4096).read();
        assert_eq!(captured.dropped, Some(Dropped { bytes: 5000 - 1024, lines: 0 }));
        let expected =
            format!("{}\n[... 3976 bytes / 0 lines dropped ...]\n{}", "x".repeat(256), "x".repeat(768));
        assert_eq!(captured.text, expected);
    }

    #[test]
    fn a_line_budget_keeps_the_first_quarter_and_the_last_three_quarters() {
        let input: String = (1..=100).map(|n| format!("{n}\n")).collect();
        let captured = filled(input.as_bytes(), 1 << 20, 20, 7).read();
        let (head, tail) = around(&captured);
        assert_eq!(head, "1\n2\n3\n4\n5\n");
        assert_eq!(tail, (86..=100).map(|n| format!("{n}\n")).collect::<String>());
        assert_eq!(captured.dropped.unwrap().lines, 80);
    }

    #[test]
    fn an_unterminated_last_line_counts_against_the_line_budget() {
        let whole = "a\n".repeat(9) + "b";
        assert_eq!(filled(whole.as_bytes(), 1024, 10, 64).read().text, whole);
        let over = "a\n".repeat(10) + "b";
        let captured = filled(over.as_bytes(), 1024, 10, 64).read();
        assert_eq!(captured.dropped, Some(Dropped { bytes: 2, lines: 1 }));
        assert!(captured.text.ends_with("a\nb"));
    }

    #[test]
    fn reading_leaves_the_buffer_as_it_is() {
        let mut buffer = filled(&"line\n".repeat(1000).into_bytes(), 1024, 50, 100);
        assert_eq!(buffer.read(), buffer.read());
        buffer.push(b"last\n");
        assert!(buffer.read().text.ends_with("line\nlast\n"));
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced_and_counted() {
        let captured = filled(b"a\xff\xfeb\xe2\x82", 1024, 10, 1).read();
        assert_eq!(captured.text, "a\u{fffd}\u{fffd}b\u{fffd}");
        assert_eq!(captured.invalid_bytes, 4);
        assert_eq!(captured.dropped, None);
    }

    #[test]
    fn a_flood_is_held_within_the_budget() {
        let mut buffer = CappedBuffer::new(100_000, 1000);
        for size in (1..200).map(|n| n * 1009) {
            buffer.push(&vec![b'y'; size]);
            assert!(buffer.head.capacity() + buffer.tail.capacity() <= 100_000);
        }
        assert_eq!(buffer.read().total_bytes, buffer.total_bytes());
    }

    proptest! {
        #[test]
        fn every_character_survives_whole_or_not_at_all(
            text in "[a-c\u{e9}\u{20ac}\u{1f600}\n]{0,3000}", piece in 1_usize..400, lines in 0_usize..400,
        ) {
            let captured = filled(text.as_bytes(), 1024, lines, piece).read();
            prop_assert_eq!(captured.invalid_bytes, 0);
            prop_assert_eq!(captured.total_bytes, text.len() as u64);
            let count = text.matches('\n').count() + usize::from(!text.is_empty() && !text.ends_with('\n'));
            let fits = text.len() <= 1024 && count <= lines.max(10);
            prop_assert_eq!(captured.dropped.is_none(), fits);
            let Some(dropped) = captured.dropped else {
                prop_assert_eq!(&captured.text, &text);
                return Ok(());
            };
            let (head, tail) = around(&captured);
            // The newline before the marker belongs to the marker when the head has none.
            let shown = text.len() - tail.len() - usize::try_from(dropped.bytes).unwrap();
            let head = if head.len() == shown { head } else { head.strip_suffix('\n').unwrap() };
            prop_assert_eq!(head.len(), shown);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            let middle = &text[head.len()..text.len() - tail.len()];
            prop_assert_eq!(dropped.bytes, middle.len() as u64);
            prop_assert_eq!(dropped.lines, middle.matches('\n').count() as u64);
            prop_assert!(head.len() <= 256 && tail.len() <= 1024);
            prop_assert!(head.len() + tail.len() <= 1024);
        }

        #[test]
        fn any_bytes_in_any_pieces_give_the_same_valid_text(
            bytes in proptest::collection::vec(any::<u8>(), 0..6000), one in 1_usize..3000, two in 1_usize..3000,
        ) {
            let a = filled(&bytes, 1024, 40, one).read();
            let b = filled(&bytes, 1024, 40, two).read();
            prop_assert_eq!(&a, &b);
            if a.dropped.is_none() {
                prop_assert_eq!(a.text, String::from_utf8_lossy(&bytes));
            }
        }

        #[test]
        fn newlines_are_counted(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..2000)) {
            prop_assert_eq!(newlines(&bytes), bytes.iter().filter(|byte| **byte == b'\n').count() as u64);
        }
    }
}
