//! The rows of the argument-vector corpus that hang on what options mean.
//!
//! A row of a program with a grammar must have the verdict of the corpus. Programs without one yet stand
//! in [`WAITING`], and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam::policy::grammar;

use crate::verdict::{Row, base, judge, needs_grammar, policy, rows};

/// Programs of the corpus whose options decide, and that have no grammar yet.
const WAITING: &[&str] = &[];

/// Rows that are refused here and allowed by the corpus: `gawk -DFILE` takes commands for its debugger,
/// which can call `system`, from a file that the policy does not see, as `-f FILE` does.
const STRICTER: &[&str] = &["v1032"];

/// Rows of each program, and how many of them are allowed.
const SCORE: &[&str] = &[
    "ag 1/0",
    "awk 19/8",
    "bfind 6/1",
    "bsdtar 11/2",
    "cmake 2/0",
    "fdfind 4/0",
    "find 12/3",
    "gawk 57/20",
    "gcc 1/0",
    "gfind 4/1",
    "git 415/131",
    "go 1/0",
    "gsort 4/0",
    "gtar 5/1",
    "install 2/0",
    "ld 1/0",
    "mawk 6/0",
    "nawk 3/0",
    "nm 1/0",
    "original-awk 1/0",
    "pandoc 1/0",
    "rg 7/3",
    "sdiff 1/0",
    "sort 44/12",
    "split 2/0",
    "ssh-keygen 1/0",
    "strip 1/0",
    "tar 196/34",
    "tcpdump 1/0",
];

/// Rows whose program has a grammar, or needs one.
fn decided_by_options() -> Vec<Row> {
    rows().into_iter().filter(needs_grammar).collect()
}

#[test]
fn rows_of_programs_with_a_grammar_agree() {
    let policy = policy();
    let mut score: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in decided_by_options().iter().filter(|row| !WAITING.contains(&base(row.name()))) {
        let (verdict, rule) = judge(&policy, row);
        let (all, allowed) = score.entry(base(row.name()).to_owned()).or_default();
        *all += 1;
        *allowed += usize::from(verdict);
        let expected = row.allowed && !STRICTER.contains(&row.id.as_str());
        if verdict != expected {
            wrong.push(format!("{} {:?}: {rule}", row.id, row.argv));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let score: Vec<String> =
        score.into_iter().map(|(name, (all, allowed))| format!("{name} {all}/{allowed}")).collect();
    assert_eq!(score, SCORE);
}

#[test]
fn programs_that_wait_have_no_grammar_yet() {
    let names: BTreeSet<&str> = grammar::names().collect();
    let waiting: BTreeSet<&str> = WAITING.iter().copied().collect();
    assert_eq!(names.intersection(&waiting).collect::<Vec<_>>(), Vec::<&&str>::new());
    let rows = decided_by_options();
    let met: BTreeSet<&str> = rows.iter().map(|row| base(row.name())).collect();
    assert_eq!(waiting.difference(&met).collect::<Vec<_>>(), Vec::<&&str>::new());
    let uncovered: BTreeSet<&str> = met.difference(&names).copied().collect();
    assert_eq!(uncovered, waiting);
}
