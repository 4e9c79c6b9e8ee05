//! Instalments against a model that keeps everything.

use proptest::prelude::*;

use super::*;

const BYTES: usize = 1024;

/// What a reader made of its pieces.
#[derive(Debug, Default)]
struct Reader {
    at: Position,
    text: String,
    held: u64,
    lost: Dropped,
    invalid: u64,
}

impl Reader {
    /// Reads one piece, holding it against all that was written.
    fn read(&mut self, buffer: &CappedBuffer, all: &[u8], most: usize, cut: Cut) -> bool {
        let piece = buffer.piece(self.at, most, cut).unwrap();
        assert_eq!(buffer.piece(self.at, most, cut).unwrap(), piece, "the same position is the same piece");
        assert!(piece.before.len() + piece.after.len() <= most);
        let from = usize::try_from(self.at.bytes).unwrap();
        let gap = from + piece.before.len();
        let dropped = piece.dropped.unwrap_or_default();
        let after = gap + usize::try_from(dropped.bytes).unwrap();
        let end = after + piece.after.len();
        assert_eq!(piece.before, all[from..gap]);
        assert_eq!(piece.after, all[after..end]);
        assert_eq!(dropped.lines, newlines(&all[gap..after]));
        assert_eq!(piece.next, Position { bytes: end as u64, lines: newlines(&all[..end]) });
        if cut == Cut::Bytes {
            assert!(piece.dropped.is_none() || piece.before.is_empty(), "bytes have no marker between them");
        }
        let (text, invalid) = piece.text();
        self.text.push_str(&text);
        self.invalid += invalid;
        self.held += (piece.before.len() + piece.after.len()) as u64;
        self.lost.bytes += dropped.bytes;
        self.lost.lines += dropped.lines;
        let moved = piece.next != self.at;
        self.at = piece.next;
        moved
    }
}

fn cuts() -> impl Strategy<Value = Cut> {
    prop_oneof![Just(Cut::Bytes), Just(Cut::Characters)]
}

/// Bytes written, and the budget of a read after them.
fn steps<T: std::fmt::Debug>(
    piece: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<(T, Option<usize>)>> {
    proptest::collection::vec((piece, proptest::option::of(4_usize..700)), 0..40)
}

fn follow(steps: &[(Vec<u8>, Option<usize>)], cut: Cut) -> (Reader, Vec<u8>) {
    let (mut buffer, mut all, mut reader) = (CappedBuffer::new(BYTES, 100), Vec::new(), Reader::default());
    for (bytes, read) in steps {
        buffer.push(bytes);
        all.extend_from_slice(bytes);
        if let Some(most) = read {
            reader.read(&buffer, &all, *most, cut);
        }
    }
    let last = if cut == Cut::Bytes { cut } else { Cut::Last };
    while reader.read(&buffer, &all, 300, last) {}
    assert_eq!(reader.at.bytes, all.len() as u64, "a reader that goes on comes to the end");
    assert!(buffer.piece(reader.at, 300, last).unwrap().end);
    (reader, all)
}

proptest! {
    #[test]
    fn any_interleaving_of_reads_and_writes_gives_all_bytes_or_counts_them(
        steps in steps(proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..400)), cut in cuts(),
    ) {
        let (reader, all) = follow(&steps, cut);
        prop_assert_eq!(reader.held + reader.lost.bytes, all.len() as u64);
        if reader.lost.bytes == 0 && cut != Cut::Bytes {
            prop_assert_eq!(reader.text, String::from_utf8_lossy(&all));
        }
    }

    #[test]
    fn no_instalment_splits_a_character(
        steps in steps("[a\u{e9}\u{20ac}\u{1f600}\n]{0,150}"), odd in 0_usize..4,
    ) {
        // Writes that split characters themselves.
        let all: Vec<u8> = steps.iter().flat_map(|(text, _)| text.bytes()).collect();
        let mut from = 0;
        let mut odd_steps = Vec::new();
        for (text, read) in &steps {
            let to = (from + text.len() + odd).min(all.len());
            odd_steps.push((all[from.min(to)..to].to_vec(), *read));
            from = from.max(to);
        }
        let (reader, _) = follow(&odd_steps, Cut::Characters);
        prop_assert_eq!(reader.invalid, 0);
    }

    #[test]
    fn a_shortened_view_holds_its_budget_and_counts_the_rest(
        text in "[a-c\u{e9}\u{1f600}\n]{0,2000}", most in 0_usize..1500, piece in 1_usize..300,
    ) {
        let mut buffer = CappedBuffer::new(BYTES, 100_000);
        text.as_bytes().chunks(piece).for_each(|chunk| buffer.push(chunk));
        let (shown, position) = buffer.read_within(most, true);
        prop_assert_eq!(position.bytes, text.len() as u64);
        prop_assert_eq!(position, buffer.end(false));
        prop_assert_eq!(position.lines, newlines(text.as_bytes()));
        prop_assert_eq!(shown.invalid_bytes, 0);
        match shown.dropped {
            None => prop_assert_eq!(&shown.text, &text),
            Some(dropped) => {
                let kept = text.len() - usize::try_from(dropped.bytes).unwrap();
                prop_assert!(kept <= most.min(BYTES));
                let marker = marker(dropped);
                prop_assert!(shown.text.contains(&marker));
                prop_assert!(shown.text.len() <= kept + marker.len() + 2);
            }
        }
        if most >= BYTES {
            prop_assert_eq!(shown, buffer.read());
        }
    }
}

#[test]
fn a_character_that_is_not_whole_yet_waits_and_one_that_never_is_comes_last() {
    let mut buffer = CappedBuffer::new(BYTES, 100);
    buffer.push(b"a\xe2\x82");
    let piece = buffer.piece(Position::default(), 100, Cut::Characters).unwrap();
    assert_eq!((piece.text().0.as_str(), piece.next.bytes), ("a", 1));
    let (shown, position) = buffer.read_within(100, false);
    assert_eq!((shown.text.as_str(), position.bytes), ("a", 1));
    let last = buffer.piece(piece.next, 100, Cut::Last).unwrap();
    assert_eq!((last.text(), last.end), (("\u{fffd}".to_owned(), 2), true));
    buffer.push(b"\xac!");
    assert_eq!(buffer.piece(piece.next, 100, Cut::Characters).unwrap().text().0, "\u{20ac}!");
}

#[test]
fn a_reader_that_fell_behind_finds_the_marker_on_a_line_of_its_own() {
    let mut buffer = CappedBuffer::new(BYTES, 1000);
    buffer.push(&b"0123456\n".repeat(1000));
    let first = buffer.piece(Position::default(), 10, Cut::Characters).unwrap();
    assert_eq!(first.text().0, "0123456\n01", "the head is kept whoever falls behind");
    let all = buffer.piece(first.next, 10_000, Cut::Characters).unwrap();
    let text = all.text().0;
    assert!(text.starts_with("23456\n0123456\n"), "{text}");
    assert!(text.contains("0123456\n[... 6976 bytes / 872 lines dropped ...]\n0123456\n"), "{text}");
    assert_eq!(all.dropped, Some(Dropped { bytes: 6976, lines: 872 }));
    let behind = Position { bytes: 4, lines: 0 };
    let cut_line =
        CappedBuffer::piece(&buffer, Position { bytes: 300, lines: 37 }, 100, Cut::Characters).unwrap();
    assert!(cut_line.text().0.starts_with("\n[... 6932 bytes / 867 lines dropped ...]\n"), "{cut_line:?}");
    assert_eq!(buffer.piece(Position { bytes: 8001, lines: 0 }, 10, Cut::Characters), None);
    assert!(buffer.piece(behind, 10, Cut::Bytes).unwrap().dropped.is_none());
}
