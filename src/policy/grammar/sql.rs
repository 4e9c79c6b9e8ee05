//! Texts for the clients of databases: SQL, and the commands that a client takes beside it.
//!
//! Purpose: answers what in a text would start a program, load code, or open a file by itself. The text
//! of sqlite3 is read as its own lexer reads it. What psql and mysql send to a server is searched word by
//! word, quotes or not: escapes differ between servers and modes, and a word too many costs less than one
//! that was overlooked. What a server's own permissions refuse is no business of this room. Pure, linear.
//! Called through `text`.
//!
//! Findings: `command` (of the client), `file`, `code`.

use std::iter::from_fn;

/// Commands of sqlite3 that only describe or set how rows are shown.
const SQLITE_SHOWS: &[&[u8]] = &[
    b".bail",
    b".changes",
    b".databases",
    b".dbinfo",
    b".dump",
    b".echo",
    b".eqp",
    b".exit",
    b".explain",
    b".fullschema",
    b".header",
    b".headers",
    b".help",
    b".indexes",
    b".indices",
    b".mode",
    b".nullvalue",
    b".print",
    b".quit",
    b".schema",
    b".separator",
    b".sha3sum",
    b".show",
    b".stats",
    b".tables",
    b".timeout",
    b".timer",
    b".version",
    b".width",
];

/// Names of sqlite3 that open files: functions, tables, statements, settings.
const SQLITE_FILES: &[&[u8]] = &[
    b"attach",
    b"data_store_directory",
    b"fsdir",
    b"readfile",
    b"sqlar_extract",
    b"temp_store_directory",
    b"writefile",
    b"zipfile",
];

/// Names of sqlite3 that load code or start an editor.
const SQLITE_CODE: &[&[u8]] = &[b"fts3_tokenizer", b"load_extension"];

/// What the text of sqlite3 reaches for: an operand, or the value of `-cmd`.
pub(super) fn sqlite(text: &[u8]) -> Option<&'static str> {
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii_start();
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or(line);
        if word.starts_with(b".") && !SQLITE_SHOWS.contains(&word) {
            return Some("command");
        }
    }
    let mut left = text;
    let mut vacuum = false;
    let mut edit = false;
    while let Some((token, rest)) = sqlite_token(left) {
        left = rest;
        let name = match token {
            Token::Blank => continue,
            Token::Other(byte) if byte == b'(' && edit => return Some("code"),
            Token::Other(byte) => {
                vacuum &= byte != b';';
                edit = false;
                continue;
            }
            Token::Name(name) => name.trim_ascii().to_ascii_lowercase(),
        };
        let name = name.as_slice();
        if SQLITE_CODE.contains(&name) {
            return Some("code");
        }
        if SQLITE_FILES.contains(&name) || (vacuum && name == b"into") {
            return Some("file");
        }
        vacuum |= name == b"vacuum";
        edit = name == b"edit";
    }
    None
}

enum Token<'a> {
    /// White space or a comment.
    Blank,
    /// A word, or what stands in quotes: sqlite3 takes strings for names in many places.
    Name(&'a [u8]),
    Other(u8),
}

/// The first token of `text` and what follows it.
fn sqlite_token(text: &[u8]) -> Option<(Token<'_>, &[u8])> {
    let (first, tail) = text.split_first()?;
    Some(match (first, tail) {
        (b'-', [b'-', rest @ ..]) => (Token::Blank, after(rest, b"\n")),
        (b'/', [b'*', rest @ ..]) => (Token::Blank, after(rest, b"*/")),
        // To sqlite3 a byte order mark between words is white space.
        (0xef, [0xbb, 0xbf, rest @ ..]) => (Token::Blank, rest),
        (b'\'' | b'"' | b'`', _) => quoted(tail, *first),
        (b'[', _) => quoted(tail, b']'),
        (byte, _) if is_word(*byte) => {
            let (word, rest) = split_while(text, is_word);
            (Token::Name(word), rest)
        }
        (byte, _) if byte.is_ascii_whitespace() || *byte == 0x0b => (Token::Blank, tail),
        (byte, _) => (Token::Other(*byte), tail),
    })
}

/// What stands before the closing quote. A doubled quote makes two pieces of it, neither of which hides
/// more than the whole would.
fn quoted(text: &[u8], quote: u8) -> (Token<'_>, &[u8]) {
    let (inner, rest) = split_while(text, |byte| byte != quote);
    (Token::Name(inner), rest.get(1..).unwrap_or(b""))
}

/// What follows the first `end` in `text`.
fn after<'a>(text: &'a [u8], end: &[u8]) -> &'a [u8] {
    let at = text.windows(end.len()).position(|window| window == end);
    at.and_then(|at| text.get(at.saturating_add(end.len())..)).unwrap_or(b"")
}

fn split_while(text: &[u8], keep: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !keep(*byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, b""))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// Every word of a text in small letters, with what stands before it.
fn words(text: &[u8]) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
    let mut at = 0_usize;
    from_fn(move || {
        let left = text.get(at..)?;
        let (_, rest) = split_while(left, |byte| !is_word(byte));
        let (word, tail) = split_while(rest, is_word);
        let start = text.len().saturating_sub(rest.len());
        at = text.len().saturating_sub(tail.len());
        (!word.is_empty()).then(|| (word.to_ascii_lowercase(), text.get(..start).unwrap_or(b"")))
    })
}

/// What the value of psql's `-c` reaches for.
pub(super) fn psql(text: &[u8]) -> Option<&'static str> {
    // One command of the client, or text for the server: the first byte decides.
    if let [b'\\', command @ ..] = text.trim_ascii_start() {
        let name = command.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or(command);
        let shows = matches!(
            name,
            [b'd', ..]
                | b"l"
                | b"l+"
                | b"z"
                | b"x"
                | b"sf"
                | b"sf+"
                | b"sv"
                | b"sv+"
                | b"h"
                | b"?"
                | b"conninfo"
                | b"encoding"
                | b"timing"
        );
        // Backquotes are run by a shell, and a second backslash begins another command.
        let plain = !command.iter().any(|byte| matches!(byte, b'`' | b'\\'));
        return if shows && plain { None } else { Some("command") };
    }
    let (mut copy, mut stream, mut before) = (false, false, Vec::new());
    let mut end = 0_usize;
    for (word, head) in words(text) {
        let gap = head.get(end..).unwrap_or(b"");
        let tail = text.get(head.len()..).unwrap_or(b"");
        end = head.len().saturating_add(word.len());
        // A name in quotes, or a comment that may hide one, whatever else the text says of streams.
        if copy && matches!(before.as_slice(), b"to" | b"from") && names_file(gap, tail) {
            return Some("file");
        }
        match (before.as_slice(), word.as_slice()) {
            (_, b"program") if copy => return Some("code"),
            (b"alter", b"system") | (b"create", b"extension" | b"language") => return Some("code"),
            (_, b"shared_preload_libraries" | b"archive_command" | b"dblink" | b"dblink_connect") => {
                return Some("code");
            }
            (b"" | b"begin", b"load") => return Some("code"),
            (
                _,
                b"lo_import"
                | b"lo_export"
                | b"pg_read_file"
                | b"pg_read_binary_file"
                | b"pg_ls_dir"
                | b"pg_file_write"
                | b"pg_stat_file",
            ) => return Some("file"),
            (_, b"copy") => copy = true,
            (_, b"stdin" | b"stdout") => stream = true,
            _ => {}
        }
        before = word;
    }
    if copy && !stream { Some("file") } else { None }
}

/// Whether what stands between `TO` or `FROM` and the next word, or that word itself, is a string.
fn names_file(gap: &[u8], word: &[u8]) -> bool {
    gap.contains(&b'\'')
        || gap.windows(2).any(|pair| matches!(pair, b"--" | b"/*"))
        || matches!(word, [b'$', ..] | [b'e' | b'E' | b'n' | b'N', b'\'', ..] | [b'u' | b'U', b'&', ..])
}

/// What the value of mysql's `-e` reaches for.
pub(super) fn mysql(text: &[u8]) -> Option<&'static str> {
    // Shell, source, tee, pager, editor and delimiter; in strings, too, where they mean something else.
    let short = |pair: &[u8]| matches!(pair, [b'\\', b'!' | b'.' | b'T' | b'P' | b'e' | b'd']);
    if text.windows(2).any(short) {
        return Some("command");
    }
    let mut before = Vec::new();
    for (word, head) in words(text) {
        match (before.as_slice(), word.as_slice()) {
            (_, b"system" | b"source" | b"tee" | b"pager" | b"edit" | b"delimiter") if begins(head) => {
                return Some("command");
            }
            (_, b"outfile" | b"dumpfile" | b"infile" | b"load_file") | (b"load", b"xml") => {
                return Some("file");
            }
            (_, b"soname" | b"sys_exec" | b"sys_eval" | b"prepare" | b"immediate") => return Some("code"),
            (b"install", b"plugin" | b"component") => return Some("code"),
            _ => {}
        }
        before = word;
    }
    None
}

/// Whether a word after `head` may begin a line or a statement.
fn begins(head: &[u8]) -> bool {
    let end = head.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c));
    let head = end.and_then(|end| head.get(..=end)).unwrap_or(b"");
    matches!(head, [] | [.., b'\n' | b';' | b'/' | b'\\'] | [.., b'\\', _])
}
