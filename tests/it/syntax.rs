//! Shell syntax: the corpus of lines, the document of the subset, and what the tree of a line says.

mod expand;
mod operators;
mod placeholder;
mod random;
mod shells;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use cofferdam::syntax::accepted::ACCEPTED;
use cofferdam::syntax::constructs::REFUSED;
use cofferdam::syntax::tree::{Command, Connector, Glob, Part, Target, Word};
use cofferdam::syntax::{List, Options, Refusal, limits, parse};
use serde_json::Value;

use crate::scan::root;

const FILE: &str = "docs/shell-syntax.md";
const COMMAND: &str = "COFFERDAM_REWRITE=1 cargo test --test it -- syntax::the_document_is_the_tables";

/// What the parser itself would say without an example in the table: bounds, tested by themselves.
const BOUNDS: [&str; 3] = ["too-long", "too-many", "too-deep"];

fn read(line: &str) -> Result<List, Refusal> {
    parse(line, Options::default())
}

fn read_batch(line: &str) -> Result<List, Refusal> {
    parse(line, Options { placeholders: true })
}

/// The rows of the corpus: line, whether it is accepted, construct.
fn corpus() -> Vec<(String, bool, String)> {
    let text = fs::read_to_string(root().join("tests/corpora/shell_lines.jsonl")).unwrap();
    text.lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let word = |key: &str| row[key].as_str().unwrap_or_else(|| panic!("{key}: {line}")).to_owned();
            let tree = word("tree");
            assert!(tree == "accepted" || tree == "refused", "{line}");
            if tree == "accepted" {
                assert!(["posix", "bash"].contains(&&*word("dialect")), "{line}");
            }
            (word("line"), tree == "accepted", word("construct"))
        })
        .collect()
}

#[test]
fn the_corpus_is_read_as_it_says() {
    let rows = corpus();
    let mut wrong = String::new();
    for (line, accepted, construct) in &rows {
        match (read(line), accepted) {
            (Ok(tree), true) => {
                let text = tree.to_string();
                let again = read(&text).unwrap_or_else(|refusal| panic!("{line:?} as {text:?}: {refusal}"));
                assert_eq!(again, tree, "{line:?} as {text:?}");
            }
            (Err(refusal), false) if refusal.construct.id == construct => {}
            (Ok(tree), false) => writeln!(wrong, "{line:?} is no {construct}, but {tree}").unwrap(),
            (Err(refusal), _) => writeln!(wrong, "{line:?} is {construct}: {refusal}").unwrap(),
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(rows.len() >= 300 && rows.iter().filter(|row| row.1).count() >= 300, "{} rows", rows.len());
}

#[test]
fn the_corpus_has_every_construct() {
    let (mut accepted, mut refused) = (BTreeMap::new(), BTreeMap::new());
    for (line, is_accepted, construct) in corpus() {
        let of = if is_accepted { &mut accepted } else { &mut refused };
        of.entry(construct).or_insert_with(Vec::new).push(line);
    }
    for row in ACCEPTED.iter().filter(|row| row.id != "placeholder") {
        assert!(accepted.remove(row.id).is_some(), "no line for {}", row.id);
    }
    for row in
        REFUSED.iter().filter(|row| row.id != "placeholder" && !["too-long", "too-many"].contains(&row.id))
    {
        assert!(refused.remove(row.id).is_some(), "no line for {}", row.id);
    }
    assert!(accepted.is_empty() && refused.is_empty(), "unknown constructs: {accepted:?} {refused:?}");
}

#[test]
fn each_example_of_the_tables_holds() {
    for row in ACCEPTED {
        let tree = read_batch(row.example).unwrap_or_else(|refusal| panic!("{}: {refusal}", row.id));
        assert_eq!(read_batch(&tree.to_string()), Ok(tree), "{}", row.id);
    }
    let mut ids = BTreeSet::new();
    for row in REFUSED {
        assert!(ids.insert(row.id), "{} stands twice", row.id);
        assert!(!row.instead.is_empty() && !row.instead.ends_with('.'), "{}", row.id);
        if BOUNDS.contains(&row.id) {
            continue;
        }
        let refusal = read_batch(row.example).expect_err(row.id);
        assert_eq!(refusal.construct.id, row.id, "{:?}", row.example);
    }
}

fn cell(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('\n', "⏎");
    text.chars().map(|c| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() }).collect()
}

fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let fence = if text.contains('`') { "``" } else { "`" };
    format!("{fence}{}{fence}", cell(&text.replace('\t', "⇥")))
}

fn document() -> String {
    let mut out = format!(
        "<!-- Generated. To rewrite it: {COMMAND} -->\n\n# Shell syntax, no shell\n\n\
         A line of shell syntax is read into commands that are judged and run one by one; no shell is ever\n\
         started. What the line is read as is what is judged and what runs. This is the whole of it: POSIX `sh`\n\
         with a little of bash, without anything that needs a shell's state. `⏎` is a newline, `⇥` a tab, `\\0` and\n\
         `\\u{{c}}` the characters of these numbers.\n\n\
         ## Accepted\n\n| construct | example | what it does |\n|---|---|---|\n"
    );
    for row in ACCEPTED {
        writeln!(out, "| {} | {} | {} |", row.id, code(row.example), cell(row.meaning)).unwrap();
    }
    out.push_str(
        "\n## Refused\n\nA refusal names the construct, its line and its column, and what to do instead. Nothing of\n\
         the line is run.\n\n| construct | example | it is | instead |\n|---|---|---|---|\n",
    );
    for row in REFUSED {
        let (name, instead) = (cell(row.name), cell(row.instead));
        writeln!(out, "| {} | {} | {name} | {instead} |", row.id, code(row.example)).unwrap();
    }
    writeln!(
        out,
        "\n## Bounds\n\nA line has at most {} bytes, {} words, commands, redirections and alternatives together, {} levels\n\
         of groups and alternatives inside one another, and {} here-documents that wait for their text.",
        limits::LINE,
        limits::WORDS,
        limits::DEPTH,
        limits::HERE_DOCUMENTS
    )
    .unwrap();
    out
}

#[test]
fn the_document_is_the_tables() {
    let (path, data) = (root().join(FILE), document());
    if std::env::var("COFFERDAM_REWRITE").is_ok_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &data).unwrap();
    }
    let file = fs::read_to_string(&path).unwrap_or_default();
    let first = file.lines().zip(data.lines()).position(|(file, data)| file != data);
    let line = first.unwrap_or_else(|| file.lines().count().min(data.lines().count())) + 1;
    assert!(file == data, "{FILE} differs from the tables at line {line}; rewrite it with\n    {COMMAND}");
}

#[test]
fn a_refusal_names_construct_place_and_remedy() {
    let refusal = read("cat a.txt\n  | ä $(date)").unwrap_err();
    // The line begins with an operator: that comes first.
    assert_eq!((refusal.construct.id, refusal.line, refusal.column), ("missing-command", 2, 3));
    let refusal = read("cat a.txt |\n  ä $(date)").unwrap_err();
    assert_eq!((refusal.construct.id, refusal.line, refusal.column), ("command-substitution", 2, 5));
    assert_eq!(
        refusal.to_string(),
        "command substitution '$(…)' at line 2, column 5 is refused: no shell runs here; run the inner command \
         first and give its output as an argument (command_run binds it with a placeholder)"
    );
    let refusal = read("ls; eval x").unwrap_err();
    assert!(
        refusal.to_string().starts_with("text run as commands 'eval' at column 5 is refused"),
        "{refusal}"
    );
}

/// The words of the only command of a line.
fn words(line: &str) -> Vec<Word> {
    let tree = read(line).unwrap();
    let programs = tree.programs();
    assert_eq!(programs.len(), 1, "{tree}");
    programs[0].words.clone()
}

#[test]
fn quoted_text_is_text_and_nothing_else() {
    let text = |text: &str| Word::literal(text);
    assert_eq!(
        words(r#"echo '*'"?"\[a] '{a,b}' "~" \$A '$A' "\$A""#),
        ["echo", "*?[a]", "{a,b}", "~", "$A", "$A", "$A"].map(text)
    );
    let variable = |quoted| Part::Variable { name: "A".into(), quoted };
    assert_eq!(words("echo $A")[1].parts, [variable(false)]);
    assert_eq!(words("echo \"${A}\"")[1].parts, [variable(true)]);
    assert_eq!(
        words("echo x'*'*\"$A\"")[1].parts,
        [Part::Literal("x*".into()), Part::Glob(Glob::Stars(1)), variable(true)]
    );
    assert_eq!(words("s''h -c x")[0], text("sh"), "what is judged is the name without its quotes");
    assert_eq!(words("\\s\\h -c x")[0], text("sh"));
    let braces = Part::Brace(vec![text("a"), Word::literal("b,c")]);
    assert_eq!(words("echo {a,'b,c'}")[1].parts, [braces]);
}

#[test]
fn spellings_of_the_same_commands_are_one_tree() {
    for (one, other) in [
        ("echo 'a'b\"c\"", "echo abc"),
        ("ls |& wc", "ls 2>&1 | wc"),
        ("ls &> f", "ls > f 2>&1"),
        ("{ ls; }", "(ls)"),
        ("> f echo a", "echo a > f"),
        ("cat <<E\na\nE", "cat <<< a"),
        ("cat <<E\nE", "cat < /dev/null"),
        ("ls\npwd", "ls; pwd;"),
        ("echo $A", "echo ${A}"),
    ] {
        assert_eq!(read(one), read(other), "{one:?} {other:?}");
    }
    for (one, other) in
        [("echo $A", "echo \"$A\""), ("echo *", "echo '*'"), ("a && b", "a || b"), ("! a", "a")]
    {
        assert_ne!(read(one), read(other), "{one:?} {other:?}");
    }
}

#[test]
fn a_tree_says_what_runs_when() {
    let tree = read("cd dir && a | b || ! (c; d) 2>> e\nA=1 f < g").unwrap();
    assert_eq!(tree.entries.len(), 2);
    let first = &tree.entries[0];
    assert_eq!(first.first.stages, [Command::Directory(Word::literal("dir"))]);
    let connectors: Vec<Connector> = first.rest.iter().map(|(connector, _)| *connector).collect();
    assert_eq!(connectors, [Connector::And, Connector::Or]);
    assert_eq!(first.rest[0].1.stages.len(), 2);
    assert!(first.rest[1].1.negated);
    let Command::Group { list, redirections } = &first.rest[1].1.stages[0] else { panic!("{tree}") };
    assert_eq!(list.entries.len(), 2);
    assert_eq!(redirections[0].descriptor, 2);
    assert_eq!(redirections[0].to, Target::Append(Word::literal("e")));
    let names: Vec<String> = tree.programs().iter().map(|simple| simple.words[0].to_string()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "f"]);
    assert_eq!(tree.to_string(), "cd dir && a | b || ! ( c; d ) 2>> e; A=1 f < g");
}

#[test]
fn a_line_has_bounds() {
    let refused = |line: &str| read(line).unwrap_err().construct.id;
    assert_eq!(refused(&"a".repeat(limits::LINE + 1)), "too-long");
    assert_eq!(refused(&"a ".repeat(limits::WORDS + 1)), "too-many");
    assert_eq!(refused(&"a;".repeat(limits::WORDS)), "too-many");
    assert_eq!(refused(&format!("cat{}", " <<E".repeat(limits::HERE_DOCUMENTS + 1))), "too-many");
    assert_eq!(refused(&"( ".repeat(20_000)), "too-deep");
    assert_eq!(refused(&"{ ".repeat(20_000)), "too-deep");
    assert_eq!(refused(&format!("echo {}", "{a,".repeat(20_000))), "too-many");
    assert_eq!(refused(&format!("echo {}{}", "{a,".repeat(9), "}".repeat(9))), "too-deep");
    for open in ["[", "[[:a:]", "[!", "a["] {
        assert_eq!(
            refused(&format!("echo {}", open.repeat(limits::LINE / open.len() - 5))),
            "too-many",
            "{open}"
        );
    }
    let nested = format!("{}ls{}", "( ".repeat(limits::DEPTH), " )".repeat(limits::DEPTH));
    assert!(read(&nested).is_ok());
}

#[test]
fn lines_of_known_bypasses_are_refused_or_say_every_program() {
    let text = fs::read_to_string(root().join("tests/corpora/agent_bypasses_open.jsonl")).unwrap();
    let (mut refused, mut read_as) = (0, 0);
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let Some(shell) = row["shell"].as_str() else { continue };
        // The programs that these lines are after.
        let hidden = ["/p-", "sh", "bash", "/marker-"];
        match read(shell) {
            Err(refusal) => {
                assert!(refusal.column > 0 && refusal.line > 0);
                refused += 1;
            }
            Ok(tree) => {
                read_as += 1;
                // Whatever is reached for stands in the tree, where the policy sees it: no text of the line is lost.
                let shown = tree.to_string();
                for word in hidden.iter().filter(|word| shell.contains(*word) && !shell.contains(" #")) {
                    assert!(shown.contains(word), "{shell:?} was read as {shown}");
                }
            }
        }
    }
    assert!(refused >= 60 && read_as >= 30, "{refused} refused, {read_as} read");
}

#[test]
fn commands_of_every_day_are_read_and_shown_as_they_are() {
    let text = fs::read_to_string(root().join("tests/corpora/everyday_commands.jsonl")).unwrap();
    let mut count = 0;
    for row in text.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let argv: Vec<&str> =
            row["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let shown = argv.iter().map(|word| Word::literal(*word).to_string()).collect::<Vec<_>>().join(" ");
        let tree = read(&shown).unwrap_or_else(|refusal| panic!("{shown}: {refusal}"));
        let read: Vec<&str> =
            tree.programs()[0].words.iter().map(|word| word.as_literal().unwrap()).collect();
        assert_eq!(read, argv, "{shown}");
        count += 1;
    }
    assert!(count > 500, "{count}");
    for line in [
        "rg -n 'fn main' src | head -20 && git log -3 > out.txt",
        "find . -name '*.rs' -exec wc -l {} + | sort -rn",
        "git show HEAD~1:src/lib.rs | sed -n 1,5p; git stash show stash@{0}",
        "cd crates/core && cargo metadata --format-version 1 --no-deps 2>/dev/null | jq '.packages[].name'",
        "grep -rn \"a\\|b\" --include=*.{rs,toml} . 2>&1 | head -n 5 || true",
        "awk -F: '{print $1}' /etc/passwd | sort -u > /dev/null",
        "RUST_BACKTRACE=1 cargo test --lib -- --nocapture 2>&1 | tail -30",
        "ls -la ~/x src/**/mod.rs; wc -l <README.md",
    ] {
        let tree = read(line).unwrap_or_else(|refusal| panic!("{line}: {refusal}"));
        assert_eq!(read(&tree.to_string()), Ok(tree), "{line}");
    }
}
