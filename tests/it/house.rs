//! The house rules that a compiler cannot check, as tests over the source tree.
//!
//! Each rule has a function that finds breaches in one text, so that a test can also show that
//! the rule bites.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;

use crate::scan::{Code, Text, code, root, rust, texts};

/// Names that create a process, or that could be made to.
const PROCESS: &str = r"(?x)
    \b(fork|vfork|forkpty|clone3|posix_spawnp?|popen|fexecve|exec(l|le|lp|v|ve|vp|vpe|veat))\b
  | \b(libc|sched|unistd|nix)\s*::\s*(clone|system|daemon)\b
  | \buse\s+(libc|nix)\b[^;]*\b(clone|system|daemon)\b
  | \buse\s+(libc|nix)\s*::[^;]*\*
  | \bprocess\s*::\s*Command\b
  | \buse\s+(std|core|tokio)\b[^;]*\bprocess\b[^;]*\bCommand\b
  | \buse\s+(std|tokio)\b[^;]*\bprocess\s*::\s*\*
  | \bsys\s*::\s*(spawn|fork|child)\b
  | \bCommandExt\b | \.\s*(pre_exec|exec)\s*\( | \bTokioChildProcess\b
  | \b(asm|global_asm|naked_asm)\s*! | \bextern\s+(\x22\x22)?\s*\{
";

/// A raw system call can do the same by number.
const RAW: &str = r"\blibc\s*::\s*syscall\b|\buse\s+libc\b[^;]*\bsyscall\b";

/// The room of raw calls, which only launch/ and sandbox/ may use.
const SYS: &str = r"\bcrate\s*::\s*sys\b|\buse\s+crate\s*::\s*\{[^;]*\bsys\b";

/// Source that ships: `tests.rs` and `*_tests.rs` files are tests.
fn shipped(dir: &str) -> Vec<(String, Code)> {
    rust(dir)
        .into_iter()
        .filter(|t| {
            !t.path.ends_with("/tests.rs") && !t.path.ends_with("_tests.rs") && !t.path.contains("/tests/")
        })
        .map(|t| (t.path, code(&t.content)))
        .collect()
}

fn matches(pattern: &str, text: &str) -> Vec<String> {
    Regex::new(pattern).unwrap().find_iter(text).map(|m| m.as_str().to_owned()).collect()
}

/// Breaches of the one door in a file at `path`.
fn doors(path: &str, bare: &str) -> Vec<String> {
    if path.starts_with("src/launch/") || path.starts_with("src/sys/") {
        return Vec::new();
    }
    // Lines of the system-call table are data: `clone3 = c::SYS_clone3 => …`.
    let table = Regex::new(r"\b\w+\s*=\s*c::SYS_\w+\s*=>").unwrap();
    let bare = &*if path == "src/sandbox/syscalls.rs" { table.replace_all(bare, "") } else { bare.into() };
    let mut found = matches(PROCESS, bare);
    found.extend(matches(RAW, bare));
    // What the service manager hands over comes by number.
    if !path.starts_with("src/sandbox/") && path != "src/ops/notify.rs" {
        found.extend(matches(SYS, bare));
    }
    found
}

#[test]
fn one_door_only_launch_creates_processes() {
    let mut breaches = Vec::new();
    for (path, code) in shipped("src") {
        breaches.extend(doors(&path, &code.bare).into_iter().map(|what| format!("{path}: {what}")));
    }
    assert!(breaches.is_empty(), "only src/launch/ may create processes:\n{}", breaches.join("\n"));
}

#[test]
fn one_door_rule_bites() {
    for sample in [
        "std::process::Command::new(x)",
        "use std::process::{Command, ExitCode};",
        "use std::process::Command as C;",
        "use std::{fs, process::{Command}};",
        "use tokio::process::*;",
        "use nix::unistd::{close, fork};",
        "use libc::*;",
        "unsafe { libc::fork() }",
        "libc::clone(f, s, 0, p)",
        "nix::unistd::execveat(fd, p, a, e, f)",
        "libc::posix_spawn(a)",
        "libc::system(c)",
        "cmd.exec()",
        "core::arch::asm!(\"\")",
        "libc::syscall(n)",
        "use crate::sys;",
        "use crate::{config::Config, sys};",
        "sys::spawn(&plan)",
        "extern \"\" { fn f(); }",
    ] {
        assert!(!doors("src/policy/mod.rs", sample).is_empty(), "not found: {sample}");
        assert!(doors("src/launch/sys/spawn.rs", sample).is_empty(), "launch may: {sample}");
    }
    for sample in [
        "let a = b.clone();",
        "Command::Exec(args) => exec::run(args)",
        "use std::process::ExitCode;",
        "std::process::id()",
        "use clap::Command;",
        "table[SYS_fork]",
        "pub fn execute(&self)",
    ] {
        assert!(doors("src/cli/mod.rs", sample).is_empty(), "false alarm: {sample}");
    }
}

/// Literals that start a shell or hand text to one.
fn shells(literal: &str) -> bool {
    Regex::new(r"(?x) (^|/)(ba|da|z|k|fi|c|tc)?sh\s+-\w*c\b | ^/(usr/)?bin/(ba|da|z|k)?sh$")
        .unwrap()
        .is_match(literal)
}

#[test]
fn no_shell_is_ever_started() {
    assert!(shells("sh -c") && shells("/bin/bash -lc x") && shells("/bin/sh"));
    assert!(!shells("sh") && !shells("/usr/share"));
    for (path, code) in shipped("src") {
        for literal in code.strings {
            assert!(!shells(&literal), "{path} names a shell to run: {literal:?}");
        }
    }
}

/// What swallows an error or asks for less than was promised.
const SWALLOWS: [&str; 4] = [".ok()", "unwrap_or_default", "BestEffort", "SoftRequirement"];

/// Places where it is right: file, text, how often, why.
const SWALLOWED_ON_PURPOSE: &[(&str, &str, usize, &str)] = &[
    (
        "src/sandbox/elf.rs",
        ".ok()",
        1,
        "a name that cannot be read is granted nothing, so the program does not load",
    ),
    (
        "src/audit/redact/encoded.rs",
        ".ok()",
        4,
        "what does not decode to text is no encoded text: it is judged as it stands",
    ),
    ("src/audit/redact/formats.rs", ".ok()", 1, "without the search for needles every format is tried"),
    ("src/audit/signing.rs", ".ok()", 1, "a key of another length is none, which its caller says"),
    (
        "src/audit/rotated.rs",
        ".ok()",
        2,
        "a first line that says no number or time is that of no rotated file",
    ),
    (
        "src/audit/verify.rs",
        "unwrap_or_default",
        1,
        "a break behind the last of no files has no file to name",
    ),
];

#[test]
fn security_code_swallows_no_error() {
    let mut accepted: BTreeSet<(&str, &str)> = BTreeSet::new();
    for room in ["src/sandbox", "src/launch", "src/sys", "src/policy", "src/audit"] {
        for (path, code) in shipped(room) {
            for text in SWALLOWS {
                let count = code.bare.matches(text).count();
                let entry =
                    SWALLOWED_ON_PURPOSE.iter().find(|(file, what, ..)| *file == path && *what == text);
                let allowed = entry.map_or(0, |(_, _, times, why)| {
                    assert!(why.len() > 20, "{path}: no reason for {text}");
                    *times
                });
                assert_eq!(count, allowed, "{path}: {text} stands {count} times, {allowed} on purpose");
                accepted.extend(entry.map(|(file, what, ..)| (*file, *what)));
            }
        }
    }
    assert_eq!(accepted.len(), SWALLOWED_ON_PURPOSE.len(), "an exception names a file that is not there");
}

/// Unsafe code outside of `src/sys/`: file, how often, why.
const UNSAFE_ELSEWHERE: &[(&str, usize, &str)] =
    &[("src/launch/launcher.rs", 2, "fork: the caller vouches that the launcher has one thread")];

#[test]
fn unsafe_lives_in_one_place() {
    for text in rust("src").into_iter().filter(|t| !t.path.starts_with("src/sys/")) {
        let count = matches(r"\bunsafe\b", &code(&text.content).bare).len();
        let allowed = UNSAFE_ELSEWHERE.iter().find(|(file, ..)| *file == text.path).map_or(0, |(_, n, _)| *n);
        assert_eq!(count, allowed, "{}: unsafe code belongs into src/sys", text.path);
    }
}

#[test]
fn rust_files_are_short_and_introduced() {
    for text in ["src", "tests", "benches"].into_iter().flat_map(rust) {
        let lines = text.content.lines().count();
        assert!(lines <= 500, "{}: {lines} lines, 500 at most", text.path);
        assert!(text.content.starts_with("//!"), "{}: no //! header", text.path);
    }
}

#[test]
fn nothing_names_the_machine_it_was_made_on() {
    // Spelled in pieces: this file is searched as well.
    let places = [
        concat!("/wo", "rk/(main|wt|shared|issues)\\b"),
        concat!("/ro", "ot/\\.?(cargo|rustup|pyenv|local|work)"),
        concat!("/home/", "[a-z0-9]+/\\.(cargo|rustup|pyenv)"),
        concat!("index\\.crates", "\\.io|static\\.crates", "\\.io|files\\.python", "hosted\\."),
    ];
    let pattern = Regex::new(&places.join("|")).unwrap();
    for Text { path, content } in texts("") {
        let found = pattern.find(&content).map(|m| m.as_str());
        assert_eq!(found, None, "{path}");
        let here = env!("CARGO_MANIFEST_DIR");
        assert!(!content.contains(here), "{path} names {here}");
    }
}

#[test]
fn nothing_is_left_unfinished() {
    let pattern =
        Regex::new(concat!("FIX", r"ME\b|\bTO", r"DO\b|\bto", r"do!|unimple", r"mented!|\bXX", r"X\b"))
            .unwrap();
    for Text { path, content } in texts("") {
        // A list of what clippy refuses, and data in which such words are arguments.
        if path == "Cargo.toml"
            || path.starts_with("tests/probes/open/")
            || path.starts_with("tests/corpora/")
        {
            continue;
        }
        let found = pattern.find(&content).map(|m| m.as_str());
        assert_eq!(found, None, "{path}");
    }
}

#[test]
fn shipped_policies_are_toml() {
    let files: Vec<Text> = ["policy", "deny.toml", "clippy.toml", "rustfmt.toml", "Cargo.toml"]
        .into_iter()
        .filter(|name| root().join(name).exists())
        .flat_map(|name| {
            if root().join(name).is_dir() {
                texts(name)
            } else {
                vec![Text { path: name.to_owned(), content: fs::read_to_string(root().join(name)).unwrap() }]
            }
        })
        .filter(|t| t.path.ends_with(".toml"))
        .collect();
    assert!(files.len() >= 4, "{files:?}");
    for Text { path, content } in files {
        content.parse::<toml::Table>().unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

#[test]
fn changelog_has_this_version() {
    let log = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let heading = format!("\n## {}", env!("CARGO_PKG_VERSION"));
    assert!(log.contains(&heading), "CHANGELOG.md has no section {}", heading.trim());
}

#[test]
fn examples_in_the_readme_parse() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = |language: &str| -> Vec<String> {
        let pattern = format!("(?s)```{language}\n(.*?)```");
        Regex::new(&pattern).unwrap().captures_iter(&text).map(|c| c[1].to_owned()).collect()
    };
    let policies = blocks("toml");
    assert!(!policies.is_empty());
    for policy in policies {
        let table = policy.parse::<toml::Table>().unwrap_or_else(|e| panic!("{e}\n{policy}"));
        assert_eq!(table["version"].as_integer(), Some(1));
    }
    let json = blocks("json");
    assert!(!json.is_empty());
    for block in json {
        serde_json::from_str::<serde_json::Value>(&block).unwrap_or_else(|e| panic!("{e}\n{block}"));
    }
}

/// Names of all test functions, shell gates and probes that documents may cite.
pub(crate) fn known_tests() -> BTreeSet<String> {
    let function =
        Regex::new(r"(?:#\[(?:tokio::)?test[^\]]*\]\s*)(?:#\[[^\]]*\]\s*)*(?:async\s+)?fn\s+(\w+)").unwrap();
    let mut names = BTreeSet::new();
    for text in rust("src").into_iter().chain(rust("tests")) {
        names.extend(function.captures_iter(&text.content).map(|c| c[1].to_owned()));
    }
    names.extend(probes());
    names
}

fn probes() -> BTreeSet<String> {
    let list: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(root().join("tests/probes/probes.json")).unwrap()).unwrap();
    list.as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn probe_catalogue_matches_the_programs() {
    let programs: BTreeSet<String> = texts("tests/probes/open")
        .into_iter()
        .filter_map(|t| Some(t.path.strip_prefix("tests/probes/open/")?.strip_suffix(".c")?.to_owned()))
        .collect();
    assert_eq!(programs, probes());
    assert!(programs.len() >= 134, "{} probes: none may be lost", programs.len());
}

#[test]
fn promises_in_security_md_name_tests_that_exist() {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let table =
        text.split("## Promised").nth(1).expect("a section 'Promised'").split("\n## ").next().unwrap();
    let known = known_tests();
    let mut rows = 0;
    for row in table.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| #") && !l.contains("---")) {
        let tests = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap();
        let cited = matches(r"`[^`]+`", tests);
        assert!(!cited.is_empty(), "no test is named: {row}");
        for name in cited {
            let name = name.trim_matches('`');
            assert!(known.contains(name), "SECURITY.md cites `{name}`, which is no test and no probe");
        }
        rows += 1;
    }
    assert!(rows >= 8, "only {rows} promises");
}
