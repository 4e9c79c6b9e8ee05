//! A command as a person is shown it before it runs: whole, in one line, in no doubt.
//!
//! Purpose: nothing of it can hide, reorder or forge what stands beside it: words are quoted as a shell would
//! read them (`$'…'` where a character needs an escape), and what would be too long is not shown cut but not
//! asked about at all. Pure. Called by `consent.rs`.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::audit::is_risky;
use crate::policy::consent::Asking;
use crate::policy::{Request, Target};

/// Longest command line that is shown, in bytes.
const LINE: usize = 8 * 1024;
/// Longest standard input that is shown.
const INPUT: usize = 2 * 1024;
/// Scripts that run from right to left, which reorder what stands beside them with no mark at all.
const LEFTWARD: [(u32, u32); 5] =
    [(0x0590, 0x08ff), (0xfb1d, 0xfdff), (0xfe70, 0xfeff), (0x1_0800, 0x1_0fff), (0x1_e800, 0x1_efff)];

/// The question; none where the command line is too long to be shown whole.
pub(super) fn question(asking: &Asking, request: &Request, stdin: Option<&[u8]>) -> Option<String> {
    let mut words = Vec::new();
    let mut foreign = Vec::new();
    for (index, argument) in asking.argv().enumerate() {
        words.push(word(argument));
        if !argument.is_ascii() {
            foreign.push(index.to_string());
        }
    }
    let line = words.join(" ");
    let directory = word(asking.directory().as_os_str().as_encoded_bytes());
    let program = match asking.target() {
        Target::Found(program) => word(program.real.as_os_str().as_encoded_bytes()),
        Target::Missing => "not installed".to_owned(),
    };
    let given: Vec<String> =
        request.env.iter().map(|(name, value)| word(format!("{name}={value}").as_bytes())).collect();
    let given = given.join(" ");
    if line.len() + directory.len() + program.len() + given.len() > LINE {
        return None;
    }
    // Indented by four: where a client takes this for Markdown, it is text all the same.
    let how = if request.background { " in the background" } else { "" };
    let mut text = format!(
        "May this command run{how}, once? An AI agent asks for it.\n\n    {line}\n\n    directory: {directory}\n    \
         program:   {program}\n"
    );
    // Writing to a String cannot fail.
    if !given.is_empty() {
        let _ = writeln!(text, "    variables: {given}");
    }
    if let Some(input) = stdin {
        let _ = match input.len() {
            0..=INPUT => writeln!(text, "    input:     {}", word(input)),
            bytes => {
                let digest: String = Sha256::digest(input).iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(text, "    input:     {bytes} bytes, too many to be shown, SHA-256 {digest}")
            }
        };
    }
    if !foreign.is_empty() {
        let _ = writeln!(
            text,
            "\nLetters that may look like others (not ASCII) stand in argument {} (0 is the command).",
            foreign.join(", ")
        );
    }
    Some(text)
}

/// A word as a shell would have to be given it, of characters that stand for themselves.
fn word(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-+@%:=,".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut escaped = false;
    let mut inside = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            escaped |= push(&mut inside, character);
        }
        for byte in chunk.invalid() {
            escaped = true;
            let _ = write!(inside, "\\x{byte:02x}");
        }
    }
    if escaped { format!("$'{inside}'") } else { format!("'{inside}'") }
}

/// Appends a character, escaped as `$'…'` reads it where it has to be. Answers whether it was.
fn push(out: &mut String, character: char) -> bool {
    let code = u32::from(character);
    let leftward = LEFTWARD.iter().any(|(low, high)| (*low..=*high).contains(&code));
    match character {
        ' '..='~' if !matches!(character, '\'' | '\\') => {
            out.push(character);
            false
        }
        '\'' | '\\' => {
            out.push('\\');
            out.push(character);
            true
        }
        '\n' => push_str(out, "\\n"),
        '\t' => push_str(out, "\\t"),
        '\r' => push_str(out, "\\r"),
        // Letters and digits of other scripts stand for themselves; blanks, marks and signs may not be seen.
        _ if character.is_alphanumeric() && !leftward && !is_risky(character) => {
            out.push(character);
            false
        }
        _ if code < 0x80 => push_str(out, &format!("\\x{code:02x}")),
        _ if code < 0x1_0000 => push_str(out, &format!("\\u{code:04x}")),
        _ => push_str(out, &format!("\\U{code:08x}")),
    }
}

fn push_str(out: &mut String, text: &str) -> bool {
    out.push_str(text);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_quoted_so_that_each_is_one() {
        for (bytes, expected) in [
            (&b"git"[..], "git"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"$(rm -rf x)", "'$(rm -rf x)'"),
            (b"it's", r"$'it\'s'"),
            (b"a\\nb", r"$'a\\nb'"),
            (b"a\n\x1b[2Jb\x7f", r"$'a\n\x1b[2Jb\x7f'"),
            (b"\xff-", r"$'\xff-'"),
            ("äß本".as_bytes(), "'äß本'"),
            ("a\u{202e}b".as_bytes(), r"$'a\u202eb'"),
            ("a\u{a0}\u{3000}b".as_bytes(), r"$'a\u00a0\u3000b'"),
            ("e\u{301}".as_bytes(), r"$'e\u0301'"),
            ("א/b".as_bytes(), r"$'\u05d0/b'"),
            ("\u{e0041}".as_bytes(), r"$'\U000e0041'"),
        ] {
            assert_eq!(word(bytes), expected);
        }
    }

    /// What a shell makes of a word that was shown.
    fn read(shown: &str) -> Vec<u8> {
        let Some(inside) = shown.strip_prefix("$'").and_then(|rest| rest.strip_suffix('\'')) else {
            return shown.trim_matches('\'').as_bytes().to_vec();
        };
        let mut out = Vec::new();
        let mut rest = inside.chars();
        while let Some(character) = rest.next() {
            let mut buffer = [0; 4];
            let kind = if character == '\\' { rest.next().unwrap() } else { '=' };
            let many = match kind {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            let code = u32::from_str_radix(&rest.by_ref().take(many).collect::<String>(), 16);
            let character = match kind {
                'x' => {
                    out.push(u8::try_from(code.unwrap()).unwrap());
                    continue;
                }
                'u' | 'U' => char::from_u32(code.unwrap()).unwrap(),
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '=' => character,
                other => other,
            };
            out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
        out
    }

    proptest! {
        #[test]
        fn a_shown_word_has_no_character_that_is_not_seen(bytes in prop::collection::vec(any::<u8>(), 0..40), text in any::<String>()) {
            for input in [&bytes[..], text.as_bytes()] {
                let shown = word(input);
                prop_assert!(shown.chars().all(|c| matches!(c, ' '..='~') || (c.is_alphanumeric() && !is_risky(c))), "{shown:?}");
                prop_assert_eq!(read(&shown), input);
            }
        }
    }
}
