//! Plain text for records: what a string may look like once it stands in a line.
//!
//! Purpose: one line stays one line and holds no byte that a terminal, a log viewer or a parser
//! could take for something else. Pure. Called by `record.rs` and `argv.rs`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Ranges that are escaped although JSON does not ask for it: DEL and C1 (terminal control), then
/// every character that is invisible or reorders its neighbours (Trojan Source, tag smuggling).
/// The value after decoding is the same; only the raw line is plain.
const RISKY: &[(u32, u32)] = &[
    (0x00, 0x1f),
    (0x7f, 0x9f),
    (0xad, 0xad),
    (0x034f, 0x034f),
    (0x061c, 0x061c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0fff),
];

/// Whether a character may mislead whoever reads the line.
pub(crate) fn is_risky(character: char) -> bool {
    let code = u32::from(character);
    if (0x20..0x7f).contains(&code) {
        return false;
    }
    RISKY.iter().any(|&(low, high)| (low..=high).contains(&code))
}

/// Appends `text` as a JSON string, quotes included. Infallible, and the only way that text gets
/// into a record.
pub(super) fn push_json(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        push_char(out, character);
    }
    out.push('"');
}

fn push_char(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        risky if is_risky(risky) => {
            let mut units = [0u16; 2];
            for unit in risky.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
        plain => out.push(plain),
    }
}

/// Bytes that `character` takes in a record.
fn rendered_char(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\t' | '\r' => 2,
        risky if is_risky(risky) => 6 * risky.len_utf16(),
        plain => plain.len_utf8(),
    }
}

/// Bytes that `text` takes in a record, without its quotes.
pub(super) fn rendered(text: &str) -> usize {
    text.chars().map(rendered_char).sum()
}

/// `text` cut in the middle so that it takes at most `budget` bytes in a record: three quarters
/// head, one quarter tail, `…[+1234B]…` between. Attack strings like to hide at the end, which a
/// cut at the end would drop.
pub(super) fn cap(text: &str, budget: usize) -> Cow<'_, str> {
    if text.len() * 6 <= budget || rendered(text) <= budget {
        return Cow::Borrowed(text);
    }
    // Two ellipses of three bytes, brackets, plus sign, unit and up to twenty digits.
    const MARKER: usize = 30;
    let room = budget.saturating_sub(MARKER);
    let head = prefix(text, room - room / 4);
    let rest = text.get(head.len()..).unwrap_or("");
    let tail = suffix(rest, room / 4);
    let dropped = rest.len() - tail.len();
    Cow::Owned(format!("{head}…[+{dropped}B]…{tail}"))
}

/// Bounds the work on a string before it is redacted: far more than any field shows of it, so that
/// a secret which this cut tears apart is not shown either.
pub(super) fn bound(text: &str) -> Cow<'_, str> {
    const MOST: usize = 32 << 10;
    if text.len() <= MOST {
        return Cow::Borrowed(text);
    }
    let head = prefix(text, MOST / 4 * 3);
    let tail = suffix(text, MOST / 4);
    Cow::Owned(format!("{head}…[+{}B]…{tail}", text.len() - head.len() - tail.len()))
}

fn prefix(text: &str, budget: usize) -> &str {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += rendered_char(character);
        if used > budget {
            return text.get(..at).unwrap_or("");
        }
    }
    text
}

fn suffix(text: &str, budget: usize) -> &str {
    let mut used = 0;
    let mut from = text.len();
    for (at, character) in text.char_indices().rev() {
        used += rendered_char(character);
        if used > budget {
            break;
        }
        from = at;
    }
    text.get(from..).unwrap_or("")
}

/// Bytes as text. Where they are not UTF-8 the foreign bytes become `%XX`, and `%` itself `%25`, so
/// that the original can be had back; valid text stays as it is.
pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> String {
        let mut out = String::new();
        push_json(&mut out, text);
        out
    }

    #[test]
    fn control_bidi_zero_width_and_tag_characters_leave_no_raw_byte() {
        let nasty = "a\u{0}\n\r\u{1b}[2J\u{7f}\u{85}\u{202e}\u{200b}\u{feff}\u{e0041}\u{2028}z";
        let line = json(nasty);
        assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line}");
        assert!(line.contains("\\u202e") && line.contains("\\udb40\\udc41"), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), nasty);
    }

    #[test]
    fn foreign_bytes_are_percent_encoded_and_plain_text_is_not() {
        assert_eq!(text_of(b"100%"), "100%");
        assert_eq!(text_of(b"100%\xff"), "100%25%FF");
        assert_eq!(text_of("é".as_bytes()), "é");
    }

    #[test]
    fn a_cut_keeps_head_and_tail_and_counts_the_rest() {
        let cut = cap("aaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbcccccccccc", 50).into_owned();
        assert!(cut.starts_with("aaaaaaaaaa") && cut.ends_with("ccccc"), "{cut}");
        assert!(cut.contains("…[+42B]…"), "{cut}");
        assert_eq!(cap("short", 50), "short");
    }

    proptest! {
        #[test]
        fn json_reads_back_as_the_same_text(text in any::<String>()) {
            let line = json(&text);
            prop_assert_eq!(rendered(&text) + 2, line.len());
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }

        #[test]
        fn a_cut_fits_its_budget(text in any::<String>(), budget in 40usize..200) {
            prop_assert!(rendered(&cap(&text, budget)) <= budget);
        }
    }
}
