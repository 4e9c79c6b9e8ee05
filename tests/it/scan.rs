//! Reading the source tree as text: files, and Rust code without its comments and literals.
//!
//! For `house.rs` and other tests that judge the tree itself.

use std::fs;
use std::path::{Path, PathBuf};

/// Root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One text file: path relative to the root, with `/`, and content.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// Every text file of the tree below `dir`, build products and version control left out.
pub(crate) fn texts(dir: &str) -> Vec<Text> {
    let mut found = Vec::new();
    walk(&root().join(dir), &mut found);
    assert!(!found.is_empty(), "nothing found below {dir:?}");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The Rust files among them.
pub(crate) fn rust(dir: &str) -> Vec<Text> {
    let found: Vec<Text> = texts(dir).into_iter().filter(|t| t.path.ends_with(".rs")).collect();
    assert!(!found.is_empty(), "no Rust file below {dir:?}");
    found
}

fn walk(dir: &Path, found: &mut Vec<Text>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("read_dir {}: {e}", dir.display())) {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            let built = ["target", ".git", ".venv", "node_modules", "__pycache__", "corpus", "artifacts"];
            if !built.contains(&name) {
                walk(&path, found);
            }
        } else if kind.is_file()
            && name != ".git" // a file in a linked worktree
            && let Ok(content) = String::from_utf8(fs::read(&path).unwrap())
        {
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            found.push(Text { path, content });
        }
    }
}

/// A Rust source taken apart.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// The code, with comments gone and each literal empty (`""`).
    pub(crate) bare: String,
    /// The contents of its string literals.
    pub(crate) strings: Vec<String>,
}

/// Takes a source apart; its `#[cfg(test)] mod` at the end is left out.
pub(crate) fn code(source: &str) -> Code {
    let shipped = source.split("#[cfg(test)]\nmod ").next().unwrap();
    let mut code = Code::default();
    let mut rest = shipped;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
            code.bare.push('\n');
        } else if rest.starts_with("/*") {
            rest = after_block_comment(rest);
        } else if let Some((content, after)) = string_at(rest, &code.bare) {
            code.strings.push(content.to_owned());
            code.bare.push_str("\"\"");
            rest = after;
        } else if let Some(after) = after_char_literal(rest) {
            code.bare.push_str("' '");
            rest = after;
        } else {
            code.bare.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    code
}

fn after_block_comment(text: &str) -> &str {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return &text[at..];
            }
        } else {
            at += rest.chars().next().unwrap().len_utf8();
        }
    }
    ""
}

/// A string literal that begins here (`"…"`, `r#"…"#`; a `b` or `c` before it is plain code).
fn string_at<'a>(text: &'a str, before: &str) -> Option<(&'a str, &'a str)> {
    let in_word =
        before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with(['b', 'c']);
    if let Some(raw) = text.strip_prefix('r').filter(|_| !in_word) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let body = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return body.split_once(&end);
    }
    let body = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((&body[..at], &body[at + 1..])),
            _ => {}
        }
    }
    panic!("unterminated string: {}", &body[..body.len().min(60)]);
}

/// A character literal that begins here; a lifetime is none.
fn after_char_literal(text: &str) -> Option<&str> {
    let body = text.strip_prefix('\'')?;
    if let Some(escape) = body.strip_prefix('\\') {
        let first = escape.chars().next()?;
        return escape[first.len_utf8()..].split_once('\'').map(|(_, after)| after);
    }
    let first = body.chars().next()?;
    body[first.len_utf8()..].strip_prefix('\'')
}

#[test]
fn sources_are_taken_apart() {
    let source = r##"
        // fork() in a comment "and a quote
        /* nested /* execve */ still a comment */
        fn a<'a>(x: &'a str) -> char { let _ = ("a \" fork", b"vfork", r#"raw " text"#, '"', '\''); '\u{7f}' }
        // done
    "##;
    let code = code(&format!("{source}\n#[cfg(test)]\nmod tests {{ fork() }}"));
    assert!(!code.bare.contains("fork") && !code.bare.contains("exec"), "{}", code.bare);
    assert!(code.bare.contains("fn a<'a>(x: &'a str)"), "{}", code.bare);
    assert_eq!(code.strings, ["a \\\" fork", "vfork", "raw \" text"]);
}
