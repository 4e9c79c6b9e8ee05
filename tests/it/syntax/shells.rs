//! What a line is read as, against what shells read it as.
//!
//! Each accepted line of the corpus runs in a real shell, and so does the tree that it was read as, shown as
//! text, and the same tree with each word expanded here: in equal directories all three have the same
//! output, status and files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cofferdam::syntax::expand::{Budget, Directory, Entry, Surroundings, arguments, single};
use cofferdam::syntax::tree::{Command, Part, Word};
use cofferdam::syntax::{List, tree};
use proptest::prelude::*;
use regex::Regex;
use serde_json::Value;

use super::read;
use crate::scan::root;
use crate::shell_corpus::{HOME, VARIABLES, filled, in_shell};

struct Real<'r>(&'r Path);

impl Directory for Real<'_> {
    fn entries(&self, path: &[u8]) -> Option<Vec<Entry>> {
        let path = self.0.join(std::str::from_utf8(path).unwrap());
        let entry = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            Entry {
                name: entry.file_name().into_encoded_bytes(),
                directory: entry.file_type().unwrap().is_dir(),
            }
        };
        Some(fs::read_dir(path).ok()?.map(entry).collect())
    }
}

/// What a line does: stdout, stderr, status, files.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    stdout: String,
    stderr: Option<String>,
    status: Option<i32>,
    succeeded: bool,
    files: BTreeMap<String, String>,
}

fn run(shell: &str, line: &str) -> Done {
    let (output, mut files) = in_shell(shell, line, std::env::var_os("PATH").unwrap());
    // A shell's own complaints name the line, and a tree is one line.
    let numbers = Regex::new(r"\b(bash|dash): (line )?\d+: ").unwrap();
    let text = |bytes: &[u8]| numbers.replace_all(&String::from_utf8_lossy(bytes), "$1: ").into_owned();
    files.values_mut().for_each(|content| *content = text(content.as_bytes()));
    Done {
        stdout: text(&output.stdout),
        stderr: Some(text(&output.stderr)),
        status: output.status.code(),
        succeeded: output.status.success(),
        files,
    }
}

/// The same tree, each word of it expanded; nothing where the directory changes on the way.
fn expanded(list: &List, seen: &Surroundings<'_>) -> Option<List> {
    let mut list = list.clone();
    expand(&mut list, seen)?;
    Some(list)
}

fn expand(list: &mut List, seen: &Surroundings<'_>) -> Option<()> {
    let mut budget = Budget::default();
    let mut one = |word: &mut Word| *word = Word::literal(single(word, seen, &mut budget).unwrap());
    for entry in &mut list.entries {
        for pipeline in std::iter::once(&mut entry.first).chain(entry.rest.iter_mut().map(|(_, p)| p)) {
            for stage in &mut pipeline.stages {
                let redirections = match stage {
                    Command::Directory(_) => return None,
                    Command::Group { list, redirections } => {
                        expand(list, seen)?;
                        redirections
                    }
                    Command::Simple(simple) => {
                        let words = arguments(&simple.words, seen, &mut Budget::default()).unwrap();
                        simple.words = words
                            .into_iter()
                            .map(|word| Word::literal(String::from_utf8(word).unwrap()))
                            .collect();
                        simple.assignments.iter_mut().for_each(|assignment| one(&mut assignment.value));
                        &mut simple.redirections
                    }
                };
                for redirection in redirections {
                    match &mut redirection.to {
                        tree::Target::Same(_) => {}
                        tree::Target::Read(word)
                        | tree::Target::Write(word)
                        | tree::Target::Append(word)
                        | tree::Target::Text(word) => one(word),
                    }
                }
            }
        }
    }
    Some(())
}

#[test]
fn a_line_is_read_as_a_shell_reads_it() {
    let corpus = fs::read_to_string(root().join("tests/corpora/shell_lines.jsonl")).unwrap();
    let variables: BTreeMap<String, String> =
        VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let made = filled();
    let directory = Real(made.path());
    let seen = Surroundings { home: Some(HOME), variables: &variables, directory: &directory };
    let (mut compared, mut differ) = (0, Vec::new());
    for row in corpus.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if row["tree"] != "accepted" {
            continue;
        }
        let line = row["line"].as_str().unwrap();
        let shell = if row["dialect"] == "posix" { "dash" } else { "bash" };
        let tree = read(line).unwrap();
        let original = run(shell, line);
        for tree in [Some(tree.clone()), expanded(&tree, &seen)].into_iter().flatten() {
            let text = tree.to_string();
            // A text for stdin is shown as `<<<`, which only bash knows; shells word their errors differently.
            let (other, same) = if text.contains("<<<") { ("bash", shell == "bash") } else { (shell, true) };
            let mut shown = run(other, &text);
            if !same {
                (shown.stderr, shown.status) = (original.stderr.clone(), original.status);
            }
            compared += 1;
            if shown != original {
                differ.push(format!("{line:?}\n  {original:?}\nread as {text:?}\n  {shown:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n\n"));
    assert!(compared > 700, "{compared} compared");
}

/// Pieces of lines that hurt nobody: no slash, so that all files are in the directory.
const PIECES: &[&str] = &[
    "echo ",
    "echo ",
    "echo ",
    "printf ",
    "cat ",
    "true",
    "false",
    "a.txt",
    "b.txt",
    "dir",
    " ",
    " ",
    " ",
    "\n",
    "; ",
    "; ",
    " | ",
    " || ",
    " && ",
    " |& ",
    " &> ",
    " > ",
    " >> ",
    " < ",
    " <<E\n",
    "\nE\n",
    " <<'E'\n",
    " <<-E\n\t",
    " <<< ",
    " 2>&1",
    " 2>",
    " 1>&2",
    " >&2",
    "'",
    "\"",
    "\\",
    "\\\n",
    "$",
    "$WORD",
    "${WORD}",
    "\"$SPACED\"",
    "}",
    "{",
    "{ ",
    "; }",
    "{a,b}",
    "{a,{b,c}",
    ",",
    "( ",
    " )",
    "(",
    ")",
    "*",
    "**",
    "?",
    "[a-d]",
    "[",
    "]",
    "[!",
    "[^a]",
    "~",
    "#",
    " # x",
    "A=",
    "=",
    "!",
    "! ",
    "cd dir && ",
    "cd dir; ",
    "..",
    "1",
    "2",
    "é",
    "\t",
    "''",
    "\"\"",
    "'a b'",
    "x",
    "E",
    ":",
    "-n ",
    "@",
    "^",
    "%s",
    "\\\\",
    "$$",
    "`",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_lines_are_read_as_a_shell_reads_them(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 1..14),
    ) {
        let line = format!("echo {}", pieces.concat());
        if let Ok(tree) = read(&line) && !has_other_variables(&tree) {
            let text = tree.to_string();
            // A text for stdin is shown as `<<<`; `**` goes down here and in bash.
            let bash_only = ["&>", "|&", "<<<", "**"].iter().any(|sign| line.contains(sign) || text.contains(sign));
            let shells: &[&str] = if bash_only || has_alternatives(&tree) { &["bash"] } else { &["bash", "dash"] };
            for shell in shells {
                let (mut original, mut shown) = (run(shell, &line), run(shell, &text));
                (original.stderr, shown.stderr) = (None, None);
                prop_assert_eq!(&original, &shown, "{}: {:?} read as {}", shell, line, tree);
            }
        }
    }
}

fn has_alternatives(list: &List) -> bool {
    has(list, |part| matches!(part, Part::Brace(_)))
}

/// A variable that might be empty: expansion refuses it here, and in a shell it depends on quotes nearby.
fn has_other_variables(list: &List) -> bool {
    has(list, |part| matches!(part, Part::Variable { name, quoted: false } if name != "WORD"))
}

fn has(list: &List, is: fn(&Part) -> bool) -> bool {
    fn within(word: &Word, is: fn(&Part) -> bool) -> bool {
        word.parts.iter().any(|part| {
            is(part) || matches!(part, Part::Brace(words) if words.iter().any(|word| within(word, is)))
        })
    }
    list.clone().each_word(&mut |word| if within(word, is) { Err(()) } else { Ok(()) }).is_err()
}
