//! The corpus of lines, run here and by a shell in equal directories: stdout, stderr, status and files.
//!
//! The shell's own `echo`, `printf` and `test` give way to the programs, since a shell's differ from them.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::Regex;
use serde_json::Value;

use super::{ALLOW, give, line};
use crate::scan::root;
use crate::shell_corpus::{collected, fill, in_shell};
use crate::support::{Lab, Rules};

const ENVIRONMENT: &str = "set = { LC_ALL = \"C\", HOME = \"home\", WORD = \"alpha\", SPACED = \"two  words\", \
    FILE = \"a.txt\", SUB = \"dir\", EMPTY = \"\" }\npass = [\"A\", \"B\", \"_a1\", \"LC_ALL\", \"WORD\", \"HOME_DIR\"]";
/// Builtins of a shell that are programs here.
const PROGRAMS: &str = "echo() { /usr/bin/echo \"$@\"; }; printf() { /usr/bin/printf \"$@\"; }; \
    test() { /usr/bin/test \"$@\"; }\n";

/// Rules that refuse lines of the corpus, with the reason, as the documents state it.
const REFUSED: [(&str, &str); 3] = [
    ("allow", "`:` is looked up like any other name, and there is no such program"),
    ("names.unknown", "the same"),
    ("redirection.parent", "a redirection leads below the working directory only"),
];

#[derive(Debug, PartialEq, Eq)]
struct Done {
    stdout: String,
    stderr: String,
    status: i64,
    files: BTreeMap<String, String>,
}

/// Messages of programs without the directory that a shell finds them in, and of a shell without its name.
fn plain(text: &str) -> String {
    let shell = Regex::new(r"\b(?:bash|dash): (?:(?:line )?\d+: )?").unwrap();
    let program = Regex::new(r"/usr/bin/(echo|printf|test|\[)").unwrap();
    program.replace_all(&shell.replace_all(text, ""), "$1").into_owned()
}

fn by_shell(shell: &str, text: &str) -> Done {
    let path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    let (output, mut files) = in_shell(shell, &format!("{PROGRAMS}{text}"), path);
    files.values_mut().for_each(|content| *content = plain(content));
    Done {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: plain(&String::from_utf8_lossy(&output.stderr)),
        status: output.status.code().unwrap().into(),
        files,
    }
}

/// What it did here, or the rule that refused it.
fn here(text: &str) -> Result<Done, String> {
    let lab = Lab::new(&Rules { top: ALLOW, write: true, environment: ENVIRONMENT, ..Rules::default() });
    fs::remove_file(lab.ws().join("plain")).unwrap();
    fill(&lab.ws());
    give(&lab.ws());
    let done = line(&lab, text);
    if done["outcome"] == "denied" {
        return Err(done["rule"].as_str().unwrap().to_owned());
    }
    let mut files = collected(&lab.ws());
    files.values_mut().for_each(|content| *content = plain(content));
    let word = |key: &str| done[key].as_str().unwrap_or_else(|| panic!("{text}: {done}")).to_owned();
    Ok(Done {
        stdout: word("stdout"),
        stderr: plain(&word("stderr")),
        status: done["exit"].as_i64().unwrap(),
        files,
    })
}

#[test]
fn each_line_of_the_corpus_does_what_a_shell_does() {
    let corpus = fs::read_to_string(root().join("tests/corpora/shell_lines.jsonl")).unwrap();
    let rows: Vec<Value> = corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<(String, &str)> = rows
        .iter()
        .filter(|row| row["tree"] == "accepted")
        .map(|row| {
            let shell = if row["dialect"] == "posix" { "dash" } else { "bash" };
            (row["line"].as_str().unwrap().to_owned(), shell)
        })
        .collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let refused: Mutex<BTreeMap<String, Vec<String>>> = Mutex::default();
    let agreed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((text, shell)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match here(text) {
                        Err(rule) => refused.lock().unwrap().entry(rule).or_default().push(text.clone()),
                        Ok(done) => {
                            let expected = by_shell(shell, text);
                            if done == expected {
                                agreed.fetch_add(1, Ordering::Relaxed);
                            } else {
                                wrong
                                    .lock()
                                    .unwrap()
                                    .push(format!("{text:?}\n  {shell} {expected:?}\n  here {done:?}"));
                            }
                        }
                    }
                }
            });
        }
    });
    let (wrong, refused) = (wrong.into_inner().unwrap(), refused.into_inner().unwrap());
    println!("{} agree of {}; refused: {refused:?}", agreed.load(Ordering::Relaxed), rows.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
    for (rule, texts) in &refused {
        assert!(REFUSED.iter().any(|(known, _)| known == rule), "{rule}: {texts:?}");
    }
    assert!(agreed.load(Ordering::Relaxed) >= 380, "{} agree", agreed.load(Ordering::Relaxed));
}
