//! Expansion: what words stand for, with files that exist in memory only.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cofferdam::syntax::expand::{Budget, Directory, Entry, Problem, Surroundings, arguments, single};
use cofferdam::syntax::tree::Word;

use super::words;

/// Directories by their path, as asked; a name with `/` at its end is a directory.
struct Files {
    of: BTreeMap<&'static str, Vec<&'static [u8]>>,
    asked: RefCell<Vec<String>>,
}

impl Directory for Files {
    fn entries(&self, path: &[u8]) -> Option<Vec<Entry>> {
        let path = String::from_utf8_lossy(path).into_owned();
        self.asked.borrow_mut().push(path.clone());
        let names = self.of.get(path.trim_start_matches("./"))?;
        let entry = |name: &&[u8]| Entry {
            name: name.strip_suffix(b"/").unwrap_or(name).to_vec(),
            directory: name.ends_with(b"/"),
        };
        Some(names.iter().map(entry).collect())
    }
}

fn files() -> Files {
    let of = BTreeMap::from([
        (
            "",
            vec![
                &b"b.txt"[..],
                b"a.txt",
                b".hidden",
                b"with space.txt",
                b"dir/",
                b"link",
                b"*",
                b"\xff.txt",
                b".git/",
            ],
        ),
        ("dir/", vec![&b"deep.txt"[..], b"sub/", b".x"]),
        ("dir/sub/", vec![&b"x.txt"[..], b"a.txt"]),
        // A link to a directory: who asks for it gets an answer, but no pattern may ask.
        ("link/", vec![&b"secret.txt"[..]]),
        (".git/", vec![&b"config.txt"[..]]),
        ("/", vec![&b"etc/"[..]]),
        ("/etc/", vec![&b"passwd"[..], b"group"]),
        ("../", vec![&b"up.txt"[..]]),
    ]);
    Files { of, asked: RefCell::default() }
}

fn variables() -> BTreeMap<String, String> {
    [("A", "one"), ("SPACED", "two  words"), ("STAR", "*.txt"), ("EMPTY", ""), ("SLASH", "a\\b")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn expanded_with(line: &str, budget: &mut Budget) -> Result<Vec<String>, Problem> {
    let (files, variables) = (files(), variables());
    let seen = Surroundings { home: Some("/home/me"), variables: &variables, directory: &files };
    let found = arguments(&words(line)[1..], &seen, budget)?;
    assert!(files.asked.borrow().iter().all(|path| !path.starts_with("link")), "a link was gone through");
    Ok(found.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

fn expanded(line: &str) -> Vec<String> {
    expanded_with(line, &mut Budget::default()).unwrap_or_else(|problem| panic!("{line}: {problem}"))
}

#[test]
fn patterns_stand_for_sorted_names() {
    for (line, names) in [
        ("e *.txt", &["a.txt", "b.txt", "with space.txt", "\u{fffd}.txt"][..]),
        ("e *", &["*", "a.txt", "b.txt", "dir", "link", "with space.txt", "\u{fffd}.txt"]),
        ("e .*", &[".git", ".hidden"]),
        ("e [.]*", &["[.]*"]),
        ("e ?.txt", &["a.txt", "b.txt", "\u{fffd}.txt"]),
        ("e [ab].txt", &["a.txt", "b.txt"]),
        ("e [!a].txt", &["b.txt"]),
        ("e [^a].txt", &["b.txt"]),
        ("e [[:alpha:]].txt", &["a.txt", "b.txt"]),
        ("e []a].txt [a-].txt", &["a.txt", "a.txt"]),
        ("e */", &["dir/"]),
        ("e */*", &["dir/deep.txt", "dir/sub"]),
        ("e d*/sub/*", &["dir/sub/a.txt", "dir/sub/x.txt"]),
        ("e dir/*/x.txt", &["dir/sub/x.txt"]),
        ("e ./*.txt", &["./a.txt", "./b.txt", "./with space.txt", "./\u{fffd}.txt"]),
        ("e /*/p*", &["/etc/passwd"]),
        ("e ../*", &["../up.txt"]),
        ("e \"with \"*", &["with space.txt"]),
        ("e '*'*", &["*"]),
        ("e *' '*", &["with space.txt"]),
    ] {
        assert_eq!(expanded(line), names, "{line}");
    }
}

#[test]
fn two_stars_go_down_but_through_no_link_and_nothing_hidden() {
    for (line, names) in [
        (
            "e **/*.txt",
            &[
                "a.txt",
                "b.txt",
                "dir/deep.txt",
                "dir/sub/a.txt",
                "dir/sub/x.txt",
                "with space.txt",
                "\u{fffd}.txt",
            ][..],
        ),
        ("e dir/**/x.txt", &["dir/sub/x.txt"]),
        ("e dir/**", &["dir/deep.txt", "dir/sub", "dir/sub/a.txt", "dir/sub/x.txt"]),
        ("e **/", &["dir/", "dir/sub/"]),
        ("e **/sub/**/x.txt", &["dir/sub/x.txt"]),
        ("e **/**/deep.txt", &["dir/deep.txt"]),
        ("e d**/deep.txt", &["dir/deep.txt"]),
    ] {
        assert_eq!(expanded(line), names, "{line}");
    }
}

#[test]
fn without_a_match_the_word_stays_as_it_is() {
    for (line, word) in [
        ("e none*", "none*"),
        ("e *.rs", "*.rs"),
        ("e '*'.r?", "*.r?"),
        ("e link/*", "link/*"),
        ("e */secret.txt", "*/secret.txt"),
        ("e x[^0-9]***", "x[^0-9]***"),
        ("e nowhere/**", "nowhere/**"),
        ("e .items[0]", ".items[0]"),
        ("e $A*", "one*"),
    ] {
        let (files, variables) = (Files { of: BTreeMap::new(), ..files() }, variables());
        let seen = Surroundings { home: None, variables: &variables, directory: &files };
        let found = arguments(&words(line)[1..], &seen, &mut Budget::default()).unwrap();
        assert_eq!(found, [word.as_bytes()], "{line}");
    }
}

#[test]
fn alternatives_come_in_their_order_and_before_patterns() {
    for (line, found) in [
        ("e {b,a}.txt", &["b.txt", "a.txt"][..]),
        ("e {a,b}{1,2}", &["a1", "a2", "b1", "b2"]),
        ("e x{a,{b,c}d,}y", &["xay", "xbdy", "xcdy", "xy"]),
        ("e {b*,a*}", &["b.txt", "a.txt"]),
        ("e {'a b',c}", &["a b", "c"]),
        ("e {a,${A}}", &["a", "one"]),
        ("e {~,a}x", &[]),
    ] {
        if found.is_empty() {
            assert!(super::read(line).is_err(), "{line}");
        } else {
            assert_eq!(expanded(line), found, "{line}");
        }
    }
    assert_eq!(expanded_with("e {,a}", &mut Budget::default()), Err(Problem::EmptyAlternative));
    assert_eq!(expanded("e ''"), [""]);
}

#[test]
fn variables_are_those_given_and_are_never_split() {
    assert_eq!(
        expanded("e $A ${A}s \"$SPACED\" \"$STAR\" \"$EMPTY\""),
        ["one", "ones", "two  words", "*.txt", ""]
    );
    for name in ["SPACED", "STAR", "EMPTY", "SLASH"] {
        let found = expanded_with(&format!("e ${name}"), &mut Budget::default());
        assert_eq!(found, Err(Problem::Unquoted(name.to_owned())));
    }
    assert_eq!(expanded_with("e $PATH", &mut Budget::default()), Err(Problem::Variable("PATH".to_owned())));
}

#[test]
fn a_home_is_used_where_there_is_one() {
    assert_eq!(expanded("e ~ ~/x a~"), ["/home/me", "/home/me/x", "a~"]);
    let (files, variables) = (files(), variables());
    let seen = Surroundings { home: None, variables: &variables, directory: &files };
    assert_eq!(arguments(&words("e ~")[1..], &seen, &mut Budget::default()), Err(Problem::Home));
    assert_eq!(single(&words("e ~")[1], &seen, &mut Budget::default()), Err(Problem::Home));
    let several = single(&words("e *")[1], &seen, &mut Budget::default());
    assert_eq!(several, Err(Problem::Several("*".to_owned())));
    assert_eq!(single(&Word::default(), &seen, &mut Budget::default()), Ok(String::new()));
}

#[test]
fn no_pattern_goes_up_again() {
    for line in ["e */../x", "e **/..", "e */./x"] {
        assert!(matches!(expanded_with(line, &mut Budget::default()), Err(Problem::Dots(_))), "{line}");
    }
}

#[test]
fn expansion_has_bounds() {
    let twice = "{a,b}".repeat(20);
    assert_eq!(expanded_with(&format!("e {twice}"), &mut Budget::default()), Err(Problem::TooMany("words")));
    let long = format!("e {}{}{0}", "x".repeat(30_000), "{a,b}".repeat(10));
    assert_eq!(expanded_with(&long, &mut Budget::default()), Err(Problem::TooMany("bytes")));
    let mut few = Budget { words: 3, ..Budget::default() };
    assert_eq!(expanded_with("e *", &mut few), Err(Problem::TooMany("words")));
    let mut few = Budget { entries: 5, ..Budget::default() };
    assert_eq!(expanded_with("e *.txt", &mut few), Err(Problem::TooMany("files")));
    let mut few = Budget { bytes: 5, ..Budget::default() };
    assert_eq!(expanded_with("e abcdef", &mut few), Err(Problem::TooMany("bytes")));
}

/// A directory that holds itself, as a bind mount may.
struct Endless;

impl Directory for Endless {
    fn entries(&self, _: &[u8]) -> Option<Vec<Entry>> {
        Some(vec![Entry { name: b"d".to_vec(), directory: true }])
    }
}

#[test]
fn a_tree_without_an_end_is_too_much() {
    let variables = BTreeMap::new();
    let seen = Surroundings { home: None, variables: &variables, directory: &Endless };
    for line in ["e **", "e **/x", "e **/**/**/**/x"] {
        let found = arguments(&words(line)[1..], &seen, &mut Budget::default());
        assert!(matches!(found, Err(Problem::TooMany(_))), "{line}");
    }
}
