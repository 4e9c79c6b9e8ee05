//! What one answer of `output` shows of the two streams, cut so that the answer stays small.
//!
//! Text is sent twice, once as JSON and once as text that holds the JSON, so a newline costs five bytes and
//! a control character thirteen. What is cut off is not lost: the next answer begins with it.

use super::render::Escapes;
use crate::run::plain::Plain;
use crate::run::{Captured, Cut, Dropped, Position, Stream, Tap};

/// Bytes of the wire that the output in one answer may take; the rest of the answer has what is left of
/// 256 KiB.
pub(super) const WINDOW: usize = 216 * 1024;

/// Where a reader stands in one stream: after these bytes as they were written, and with what they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) at: Position,
    pub(super) plain: Plain,
}

/// What is wanted of a job's output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Where to go on; absent for all that is held, shortened.
    pub(super) from: Option<[Place; 2]>,
    /// Bytes as base64, or text.
    pub(super) base64: bool,
    /// What becomes of escape sequences in text.
    pub(super) escapes: Escapes,
    /// Most bytes of output in the answer.
    pub(super) max_bytes: Option<usize>,
    /// The job has ended.
    pub(super) last: bool,
}

/// What is shown of one stream.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) dropped: Option<Dropped>,
    pub(super) invalid: u64,
    /// Bytes of the text as it was written that are not shown as they are.
    pub(super) stripped: u64,
    pub(super) next: Place,
    pub(super) end: bool,
}

/// Both streams, or nothing when a position lies beyond its stream.
pub(super) fn both(tap: &Tap, wanted: Wanted) -> Option<[Shown; 2]> {
    let budget = wanted.max_bytes.map_or(WINDOW, |bytes| bytes.saturating_mul(2).min(WINDOW));
    let [from_out, from_err] = wanted.from.map_or([None, None], |[out, err]| [Some(out), Some(err)]);
    let out = |budget| fit(tap, Stream::Stdout, from_out, wanted, budget);
    let err = |budget| fit(tap, Stream::Stderr, from_err, wanted, budget);
    // Each has half of the room, and what the other leaves of its half.
    let half = budget / 2;
    let shown = out(budget - err(half).map(|shown| cost(&shown.text))?.min(half))?;
    let left = budget.saturating_sub(cost(&shown.text)).max(half);
    Some([shown, err(left)?])
}

fn fit(tap: &Tap, stream: Stream, from: Option<Place>, wanted: Wanted, budget: usize) -> Option<Shown> {
    let mut most = (budget / 2).max(4);
    for _ in 0..8 {
        let shown = show(tap, stream, from, wanted, most)?;
        let cost = cost(&shown.text);
        if cost <= budget {
            return Some(shown);
        }
        most = (most.saturating_mul(budget) / cost).min(most - most / 16).max(4);
    }
    // Nothing costs more than a control character.
    show(tap, stream, from, wanted, (budget / 14).max(4))
}

fn show(tap: &Tap, stream: Stream, from: Option<Place>, wanted: Wanted, most: usize) -> Option<Shown> {
    let cut = match (wanted.base64, wanted.last) {
        (true, _) => Cut::Bytes,
        (false, true) => Cut::Last,
        (false, false) => Cut::Characters,
    };
    let from = from.or_else(|| wanted.base64.then(Place::default));
    let Some(from) = from else {
        let (captured, next) = tap.read_within(stream, most, wanted.last);
        let Captured { text, dropped, invalid_bytes, .. } = captured;
        let mut plain = Plain::default();
        let (text, stripped) = wanted.escapes.piece(&mut plain, text, wanted.last);
        let next = Place { at: next, plain };
        return Some(Shown { text, dropped, invalid: invalid_bytes, stripped, next, end: true });
    };
    let piece = tap.piece(stream, from.at, most, cut)?;
    let (dropped, end) = (piece.dropped, piece.end);
    let mut next = Place { at: piece.next, plain: from.plain };
    if wanted.base64 {
        next.plain = Plain::default();
        let text = base64(&[piece.before, piece.after].concat());
        return Some(Shown { text, dropped, invalid: 0, stripped: 0, next, end });
    }
    let (text, invalid) = piece.text();
    let (text, stripped) = wanted.escapes.piece(&mut next.plain, text, wanted.last && end);
    Some(Shown { text, dropped, invalid, stripped, next, end })
}

/// Bytes that a text takes in an answer: as JSON, and as JSON in JSON.
pub(super) fn cost(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'\n' | b'\r' | b'\t' | 8 | 12 => 2 + 3,
            b'"' | b'\\' => 2 + 4,
            0..0x20 => 6 + 7,
            _ => 1 + 1,
        })
        .sum()
}

/// RFC 4648 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS.get(bits >> (18 - 6 * place) & 63).filter(|_| place <= group.len());
            text.push(digit.map_or('=', |digit| char::from(*digit)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Budget;
    use serde_json::json;

    fn tap(stdout: &[u8], stderr: &[u8]) -> Tap {
        let tap = Tap::default();
        tap.begin(Budget { bytes: 1 << 20, lines: 1 << 20 }).unwrap();
        tap.push(Stream::Stdout, stdout);
        tap.push(Stream::Stderr, stderr);
        tap
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{0}\u{7f}~", "AH9+"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
    }

    #[test]
    fn the_cost_is_what_an_answer_takes() {
        let text: String = (0..0x180).filter_map(char::from_u32).collect();
        let once = json!(text).to_string();
        let twice = json!(once).to_string();
        // Quotes around the text: two bytes of the first, four of the second, and those of the second itself.
        assert_eq!(cost(&text), once.len() + twice.len() - 8);
    }

    #[test]
    fn whatever_the_output_one_answer_stays_in_its_window() {
        for byte in [b"a".as_slice(), b"\n", b"\x01", b"\xff", b"\"", "\u{1f600}".as_bytes()] {
            let tap = tap(&byte.repeat((3 << 20) / byte.len()), &byte.repeat(300_000));
            for from in [None, Some([Place::default(); 2])] {
                for (base64, max_bytes) in
                    [(false, None), (true, None), (false, Some(64)), (false, Some(usize::MAX))]
                {
                    let [out, err] =
                        both(&tap, Wanted { from, base64, escapes: Escapes::Raw, max_bytes, last: true })
                            .unwrap();
                    let (most, slack) =
                        (max_bytes.map_or(WINDOW, |most| most.saturating_mul(2).min(WINDOW)), 300);
                    assert!(
                        cost(&out.text) + cost(&err.text) <= most + slack,
                        "{byte:?} {base64} {max_bytes:?}"
                    );
                    assert!(!out.text.is_empty() && !err.text.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_stream_that_says_little_leaves_its_room_to_the_other() {
        let big = vec![b'x'; 1 << 20];
        for (stdout, stderr) in [(big.as_slice(), b"y".as_slice()), (b"y", &big)] {
            let from = Some([Place::default(); 2]);
            let tap = tap(stdout, stderr);
            let [out, err] = both(
                &tap,
                Wanted { from, base64: false, escapes: Escapes::Strip, max_bytes: None, last: true },
            )
            .unwrap();
            assert_eq!(out.text.len() + err.text.len(), WINDOW / 2);
        }
    }
}
