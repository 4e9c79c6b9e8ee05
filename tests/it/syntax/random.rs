//! Properties over random lines: no text stops the reader, and a tree is shown as what it is.

use cofferdam::syntax::operators::{self, Sequencing};
use cofferdam::syntax::placeholder::{Budget, Given, bind};
use cofferdam::syntax::tree::{Command, Part, Word};
use cofferdam::syntax::{List, Options, parse};
use proptest::prelude::*;

use super::placeholder::shape;
use super::{corpus, read, read_batch};

/// Pieces of lines: what is side by side is as likely to be hostile as to be ordinary.
const PIECES: &[&str] = &[
    "a",
    "b",
    "echo",
    "ls",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "|",
    "||",
    "&&",
    "|&",
    "&",
    "&>",
    ">",
    ">>",
    "<",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n\t",
    "<<<",
    "2>&1",
    "2>",
    "1>&2",
    ">&2",
    "'",
    "\"",
    "\\",
    "\\\n",
    "$",
    "$A",
    "${A}",
    "${",
    "}",
    "{",
    "{ ",
    "; }",
    "{a,b}",
    ",",
    "( ",
    " )",
    "(",
    ")",
    "*",
    "**",
    "?",
    "[a-z]",
    "[",
    "]",
    "[!",
    "~",
    "~/",
    "/",
    "#",
    " # x",
    "A=",
    "=",
    "!",
    "! ",
    "cd d && ",
    "cd d; ",
    "$(",
    "`",
    "#@#${",
    "a.stdout",
    "}#@#$",
    "#@#${a.b.0}#@#$",
    "if",
    "eval",
    "..",
    "1",
    "3>",
    "é",
    "\u{a0}",
    "\t",
    "''",
    "\"\"",
    "'a b'",
    "\"$A b\"",
    "E",
    ":",
    "-x",
    "@",
    "^",
];

fn lines() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::collection::vec(proptest::sample::select(PIECES), 0..24).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
        1 => proptest::collection::vec(any::<u8>(), 0..64)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

/// A line of the corpus with a piece put in, taken away or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let lines: Vec<String> = corpus().into_iter().map(|row| row.0).collect();
    (proptest::sample::select(lines), any::<prop::sample::Index>(), 0..3_u8, proptest::sample::select(PIECES))
        .prop_map(|(line, index, kind, piece)| {
            let mut chars: Vec<char> = line.chars().collect();
            let at = index.index(chars.len() + 1);
            match kind {
                0 => drop(chars.splice(at..at, piece.chars())),
                1 => chars.truncate(at),
                _ if at < chars.len() => drop(chars.remove(at)),
                _ => {}
            }
            chars.into_iter().collect()
        })
}

/// What holds for every tree that was read.
fn canonical(tree: &List) {
    assert!(!tree.entries.is_empty());
    for pipeline in tree.entries.iter().flat_map(|entry| entry.pipelines()) {
        assert!(!pipeline.stages.is_empty());
        for stage in &pipeline.stages {
            match stage {
                Command::Group { list, .. } => canonical(list),
                Command::Simple(simple) => {
                    assert!(simple.words[0].as_literal().is_some_and(|name| !name.is_empty()));
                    simple.words.iter().for_each(parts);
                }
                Command::Directory(word) => parts(word),
            }
        }
    }
}

fn parts(word: &Word) {
    for pair in word.parts.windows(2) {
        assert!(!matches!(pair, [Part::Literal(_), Part::Literal(_)]), "{word:?}");
    }
    for part in &word.parts {
        match part {
            Part::Literal(text) => assert!(!text.is_empty()),
            Part::Brace(words) => {
                assert!(words.len() > 1);
                words.iter().for_each(parts);
            }
            _ => {}
        }
    }
}

fn holds(line: &str, placeholders: bool) {
    let options = Options { placeholders };
    match parse(line, options) {
        Ok(tree) => {
            canonical(&tree);
            let text = tree.to_string();
            let again =
                parse(&text, options).unwrap_or_else(|refusal| panic!("{line:?} as {text:?}: {refusal}"));
            assert_eq!(again, tree, "{line:?} as {text:?}");
        }
        Err(refusal) => {
            let lines: Vec<&str> = line.split('\n').collect();
            let length = lines.get(refusal.line - 1).map_or(0, |line| line.chars().count());
            assert!(refusal.column <= length + 1, "{line:?}: {refusal:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_stops_the_reader_and_each_tree_is_shown_as_it_is(line in lines(), placeholders in any::<bool>()) {
        holds(&line, placeholders);
    }

    #[test]
    fn neither_do_lines_that_are_nearly_right(line in mutated(), placeholders in any::<bool>()) {
        holds(&line, placeholders);
    }

    #[test]
    fn elements_are_words_or_operators_whatever_they_hold(
        elements in proptest::collection::vec(proptest::sample::select(PIECES), 0..12),
    ) {
        if let Ok(tree) = operators::parse(&elements, Sequencing::Accepted) {
            let words: usize = tree.programs().iter().map(|program| program.words.len()).sum();
            prop_assert!(words <= elements.len());
            for word in tree.programs().iter().flat_map(|program| &program.words) {
                let text = word.as_literal();
                prop_assert!(elements.iter().any(|element| Some(*element) == text));
            }
        }
    }

    #[test]
    fn no_value_changes_the_number_of_commands_or_words(
        before in lines(), value in lines(), after in lines(),
    ) {
        let line = format!("{before}#@#${{a.stdout}}#@#${after}");
        if let Ok(mut tree) = read_batch(&line) {
            let counted = shape(&tree);
            let given = Given { stdout: value.clone().into_bytes(), ..Given::default() };
            // Other placeholders of the line may have no value; then nothing runs.
            if bind(&mut tree, &|_| Some(&given), &mut Budget::default()).is_ok() {
                prop_assert_eq!(shape(&tree), counted);
                prop_assert_eq!(read_batch(&tree.to_string()).unwrap(), tree);
            }
        }
    }

    #[test]
    fn quoted_text_comes_back_as_one_word(text in any::<String>().prop_filter("no NUL", |text| !text.contains('\0'))) {
        let quoted = format!("echo '{}'", text.replace('\'', "'\\''"));
        let tree = read(&quoted).unwrap();
        prop_assert_eq!(tree.programs()[0].words[1].as_literal(), Some(&*text));
    }
}
