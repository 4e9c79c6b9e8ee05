//! Plain text: output without what steers a terminal or hides from a reader.
//!
//! Purpose: a log window, a terminal or a model that is shown a command's output sees what was printed, in
//! the order in which it was printed. Inputs: valid text, in pieces of any size; [`Plain`] carries what
//! lies between two pieces, and any cutting of the same text gives the same plain text. Pure. Called by
//! `mcp/render.rs`, which every tool that shows output goes through.
//!
//! What becomes of the text (ECMA-48 names the sequences, UAX #9 the bidirectional controls):
//! - **Sequences** go: CSI, OSC (OSC 8 and 52 too), DCS, SOS, PM, APC and the short ones, introduced by ESC
//!   or by the C1 controls U+0080 to U+009F, which go as well. Each ends at its final character, at ST, BEL,
//!   CAN or SUB, and at the latest **with its line**: one that is never ended hides no further line.
//! - **Carriage return** before a newline goes; any other becomes a newline, so that nothing is hidden by
//!   printing over it. A row of them counts as one.
//! - **Backspace** and every other C0 control but newline and tab go, and DEL. What was struck over stays.
//! - **Invisible characters that reorder or hide text** are shown as `\u{202e}`: the bidirectional controls,
//!   the deprecated format characters, U+200B, U+2060 to U+2064, U+FEFF, U+180E, line and paragraph
//!   separators, interlinear annotations, fillers, soft hyphens and whatever else Unicode calls ignorable, the
//!   tag characters and the supplementary variation selectors.
//!   U+200C and U+200D stay, with U+FE00 to U+FE0F: Persian, Indic scripts and emoji need them.
//!
//! Newlines always stay, so numbers of lines only grow. Nobody may take plain text for the bytes: positions
//! and counts of output are always those of the bytes as they were written.

use std::fmt::Write;

/// Where a reader of plain text stands: what the text before has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plain {
    within: Within,
    /// A carriage return waits for what follows.
    returned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Within {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and intermediate characters.
    Intermediate,
    /// After CSI.
    Control,
    /// In the string of an OSC, DCS, SOS, PM or APC.
    String,
}

const WITHIN: [Within; 5] =
    [Within::Text, Within::Escape, Within::Intermediate, Within::Control, Within::String];

const ESC: char = '\u{1b}';

impl Plain {
    /// A number that stands for it, below 16.
    #[must_use]
    pub fn code(self) -> u8 {
        let within = match self.within {
            Within::Text => 0,
            Within::Escape => 1,
            Within::Intermediate => 2,
            Within::Control => 3,
            Within::String => 4,
        };
        within << 1 | u8::from(self.returned)
    }

    /// What a number stands for.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        let within = WITHIN.get(usize::from(code >> 1)).copied()?;
        Some(Self { within, returned: code & 1 == 1 })
    }

    /// Appends the next piece of text to `out`. Returns how many bytes of it are not shown as they are.
    pub fn push(&mut self, text: &str, out: &mut String) -> u64 {
        let (mut rest, mut changed) = (text, 0);
        while !rest.is_empty() {
            if *self == Self::default() {
                let (plain, after) = rest.split_at(harmless(rest));
                out.push_str(plain);
                rest = after;
            }
            let mut letters = rest.chars();
            let Some(letter) = letters.next() else { break };
            rest = letters.as_str();
            if !self.take(letter, out) {
                changed += letter.len_utf8() as u64;
            }
        }
        changed
    }

    /// The text has ended: what was begun is given up, and a waiting carriage return ends its line.
    pub fn finish(&mut self, out: &mut String) {
        if self.returned {
            out.push('\n');
        }
        *self = Self::default();
    }

    /// Takes one character. Whether it was shown as it is.
    fn take(&mut self, letter: char, out: &mut String) -> bool {
        // These mean the same wherever they stand.
        match letter {
            '\n' => {
                *self = Self::default();
                out.push('\n');
                return true;
            }
            '\r' => {
                *self = Self { within: Within::Text, returned: true };
                return false;
            }
            ESC => return self.now(Within::Escape),
            '\u{18}' | '\u{1a}' | '\u{9c}' => return self.now(Within::Text),
            '\u{9b}' => return self.now(Within::Control),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => return self.now(Within::String),
            '\u{7}' if self.within == Within::String => return self.now(Within::Text),
            '\t' if self.within == Within::Text => {}
            _ if letter.is_control() => return false,
            _ => {}
        }
        match (self.within, letter) {
            (Within::Escape, '[') => self.now(Within::Control),
            (Within::Escape, ']' | 'P' | 'X' | '^' | '_') => self.now(Within::String),
            (Within::Escape | Within::Intermediate, ' '..='/') => self.now(Within::Intermediate),
            (Within::Escape | Within::Intermediate, '0'..='~') | (Within::Control, '@'..='~') => {
                self.now(Within::Text)
            }
            (Within::Control, ' '..='?') | (Within::String, _) => false,
            // No sequence holds it: it is text, and what came before was none.
            _ => self.show(letter, out),
        }
    }

    fn now(&mut self, within: Within) -> bool {
        self.within = within;
        false
    }

    fn show(&mut self, letter: char, out: &mut String) -> bool {
        if self.returned {
            out.push('\n');
        }
        *self = Self::default();
        let shown = !hides(letter);
        if shown {
            out.push(letter);
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(letter));
        }
        shown
    }
}

/// A whole text as plain text, and how many of its bytes are not shown as they are.
#[must_use]
pub fn plain(text: &str) -> (String, u64) {
    let (mut out, mut state) = (String::with_capacity(text.len()), Plain::default());
    let changed = state.push(text, &mut out);
    state.finish(&mut out);
    (out, changed)
}

/// Bytes at the start that are shown as they are.
fn harmless(text: &str) -> usize {
    let mut from = 0;
    loop {
        let (_, rest) = text.split_at(from);
        // Almost all of almost every text.
        let quick = rest.bytes().position(|byte| !matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
        let Some(quick) = quick else { return text.len() };
        let (_, rest) = rest.split_at(quick);
        from += quick;
        match rest.chars().next() {
            Some(letter) if !letter.is_control() && !hides(letter) => from += letter.len_utf8(),
            _ => return from,
        }
    }
}

/// Invisible, and made to reorder, join or hide what is visible.
fn hides(letter: char) -> bool {
    matches!(
        letter,
        // Bidi_Control of the Unicode character database.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Line and paragraph separator.
        | '\u{2028}' | '\u{2029}'
        // Zero-width space, word joiner and invisible operators, byte order mark, Mongolian vowel separator.
        | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{feff}' | '\u{180e}'
        // Deprecated format characters, interlinear annotations.
        | '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}'
        // The rest of Default_Ignorable_Code_Point: soft hyphen, grapheme joiner, fillers, vowels that are not shown,
        // selectors of Mongolian, controls of shorthand and of music. Two that are not seen spell any text.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180d}'
        | '\u{180f}' | '\u{3164}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        // Tags and supplementary variation selectors: a whole text fits into them unseen.
        | '\u{e0000}'..='\u{e01ef}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        plain(text).0
    }

    #[test]
    fn nothing_ignorable_is_left_but_what_scripts_and_emoji_need() {
        // Default_Ignorable_Code_Point of the Unicode character database.
        let ignorable = [
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x17b4, 0x17b5),
            (0x180b, 0x180f),
            (0x200b, 0x200f),
            (0x202a, 0x202e),
            (0x2060, 0x206f),
            (0x3164, 0x3164),
            (0xfe00, 0xfe0f),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff0, 0xfff8),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe01ef),
        ];
        for letter in ignorable.into_iter().flat_map(|(low, high)| low..=high).filter_map(char::from_u32) {
            let stays = matches!(letter, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
            assert_eq!(hides(letter), !stays, "{letter:?}");
            assert!(crate::audit::is_risky(letter), "{letter:?}");
        }
    }

    #[test]
    fn sequences_go_however_they_are_introduced() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{9b}1;31mred", "red"),
            ("a\u{1b}[2J\u{1b}[Hb", "ab"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://evil/\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;cm0gLXJm\u{7}", ""),
            ("\u{9d}0;title\u{9c}x", "x"),
            ("\u{1b}P1$r0m\u{1b}\\x\u{1b}_Ga=T\u{1b}\\y\u{1b}^p\u{1b}\\\u{1b}Xs\u{1b}\\z", "xyz"),
            ("\u{1b}(B\u{1b}7\u{1b}cx", "x"),
            // What breaks a sequence off.
            ("\u{1b}[31\u{18}x", "x"),
            ("\u{1b}[31\u{1b}[32mx", "x"),
            ("\u{1b}]0;a\u{1b}[1mx", "x"),
            ("\u{1b}[3\u{e9}x", "\u{e9}x"),
            ("\u{1b}\u{e9}", "\u{e9}"),
            ("\u{1b}[3\u{8}1mx", "x"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_never_ended_ends_with_its_line() {
        for begun in ["\u{1b}]0;", "\u{1b}P", "\u{1b}_", "\u{9f}", "\u{1b}[", "\u{1b}", "\u{1b}("] {
            assert_eq!(shown(&format!("a{begun}0\nnext")), "a\nnext", "{begun:?}");
            assert_eq!(shown(&format!("a{begun}0\r\nnext")), "a\nnext", "{begun:?}");
            assert_eq!(shown(&format!("a{begun}")), "a", "{begun:?}");
        }
    }

    #[test]
    fn nothing_is_hidden_by_printing_over_it() {
        for (text, expected) in [
            ("10%\r50%\r100%\n", "10%\n50%\n100%\n"),
            ("evil\r\u{1b}[Kgood", "evil\ngood"),
            ("a\r\nb\r\r\nc\r", "a\nb\nc\n"),
            ("a\r\u{1b}[K\nb", "a\nb"),
            ("N\u{8}NA\u{8}A", "NNAA"),
            ("secret\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}public", "secretpublic"),
            ("a\u{0}b\u{7}c\u{b}d\u{c}e\u{7f}f\u{85}g\tz", "abcdefg\tz"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_hides_is_shown_and_what_writing_needs_stays() {
        assert_eq!(shown("a\u{202e}b\u{2066}c\u{200f}"), "a\\u{202e}b\\u{2066}c\\u{200f}");
        assert_eq!(
            shown("\u{feff}a\u{200b}\u{2060}\u{e0041}\u{e0101}"),
            "\\u{feff}a\\u{200b}\\u{2060}\\u{e0041}\\u{e0101}"
        );
        for kept in [
            "\u{1f468}\u{200d}\u{1f469}",
            "\u{645}\u{6cc}\u{200c}\u{62e}",
            "\u{2764}\u{fe0f}",
            "e\u{301}\u{a0}\u{fffd}",
        ] {
            assert_eq!(plain(kept), (kept.to_owned(), 0));
        }
    }

    #[test]
    fn what_is_not_shown_as_it_is_is_counted() {
        assert_eq!(plain("\u{1b}[1ma\r\n\u{202e}").1, 4 + 1 + 3);
        assert_eq!(plain("caf\u{e9}\n\t").1, 0);
    }

    #[test]
    fn a_state_is_a_number_and_back() {
        let all: Vec<Plain> = (0..=u8::MAX).filter_map(Plain::of_code).collect();
        assert_eq!(all.len(), 10);
        for state in all {
            assert_eq!(Plain::of_code(state.code()), Some(state));
        }
    }

    /// Text that is dense with what matters here.
    fn texts() -> impl Strategy<Value = String> {
        let letter = prop_oneof![
            4 => prop::char::range(' ', '~'),
            2 => Just('\n'),
            2 => prop::sample::select(vec!['\r', '\u{8}', '\u{7}', '\u{18}', '\u{0}', '\t', '\u{7f}']),
            3 => Just(ESC),
            3 => prop::sample::select(vec!['[', ']', 'P', '_', 'm', ';', '1', '\\', '(']),
            2 => prop::char::range('\u{80}', '\u{9f}'),
            1 => prop::sample::select(vec!['\u{202e}', '\u{200b}', '\u{e0041}', '\u{200d}', '\u{e9}', '\u{1f600}']),
            1 => any::<char>(),
        ];
        proptest::collection::vec(letter, 0..200).prop_map(|letters| letters.into_iter().collect())
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_text(text in texts(), sizes in proptest::collection::vec(1_usize..9, 1..40)) {
            let (whole, changed) = plain(&text);
            let (mut state, mut out, mut count) = (Plain::default(), String::new(), 0);
            let (mut rest, mut sizes) = (text.as_str(), sizes.iter().cycle());
            while !rest.is_empty() {
                let size = *sizes.next().unwrap();
                let at = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
                let (piece, after) = rest.split_at(at);
                // As a cursor carries it.
                state = Plain::of_code(state.code()).unwrap();
                count += state.push(piece, &mut out);
                rest = after;
            }
            state.finish(&mut out);
            prop_assert_eq!((out, count), (whole, changed));
        }

        #[test]
        fn nothing_that_steers_or_hides_is_left(text in texts()) {
            let (out, changed) = plain(&text);
            prop_assert!(!out.chars().any(|letter| hides(letter) || (letter.is_control() && !"\n\t".contains(letter))));
            prop_assert!(out.matches('\n').count() >= text.matches('\n').count());
            prop_assert_eq!(plain(&out), (out.clone(), 0), "plain text stays as it is");
            if changed == 0 {
                prop_assert_eq!(out, text);
            }
        }
    }
}
