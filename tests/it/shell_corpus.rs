//! The directory and the variables that lines of the corpus run in, as `tests/corpora/shell_lines.md` states
//! them, and a shell that runs one there.
//!
//! For tests that hold what is done here against what a shell does.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) const VARIABLES: [(&str, &str); 5] =
    [("WORD", "alpha"), ("SPACED", "two  words"), ("FILE", "a.txt"), ("SUB", "dir"), ("EMPTY", "")];
pub(crate) const HOME: &str = "home";
const FILES: [(&str, &str); 8] = [
    ("a.txt", "apple\nbanana\ncherry\n"),
    ("b.txt", "b2\nb1\nb1\n"),
    ("with space.txt", "spaced\n"),
    (".hidden", "hidden\n"),
    ("dir/deep.txt", "deep\n"),
    ("dir/other.txt", "other\n"),
    ("dir/sub/x.txt", "x\n"),
    ("home/note.txt", "note\n"),
];

/// Makes the files.
pub(crate) fn fill(at: &Path) {
    for (name, content) in FILES {
        let path = at.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// The same in a directory of its own.
pub(crate) fn filled() -> tempfile::TempDir {
    let made = tempfile::tempdir().unwrap();
    fill(made.path());
    made
}

/// Files below `base` by their names, with what they hold.
pub(crate) fn collected(base: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    collect(base, base, &mut files);
    files
}

fn collect(base: &Path, at: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(base, &path, files);
        } else {
            let name = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// What a shell does with a line in such a directory.
pub(crate) fn in_shell(
    shell: &str,
    line: &str,
    path: impl AsRef<OsStr>,
) -> (Output, BTreeMap<String, String>) {
    let made = filled();
    let options: &[&str] = if shell == "bash" { &["-O", "globstar"] } else { &[] };
    let output = Command::new(shell)
        .args(options)
        .args(["-c", line])
        .env_clear()
        .env("PATH", path)
        .envs(VARIABLES)
        .envs([("HOME", HOME), ("LC_ALL", "C")])
        .current_dir(made.path())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|problem| panic!("{shell}: {problem}"));
    (output, collected(made.path()))
}
