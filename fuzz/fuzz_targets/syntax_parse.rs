//! A line of shell syntax: no text stops the reader, a tree is shown as what it is, a refusal has a place.

#![no_main]

use std::collections::BTreeMap;

use cofferdam::syntax::expand::{Budget, Directory, Entry, Surroundings, arguments};
use cofferdam::syntax::{Options, parse};
use libfuzzer_sys::fuzz_target;

/// The same few names wherever a pattern looks.
struct Names;

impl Directory for Names {
    fn entries(&self, path: &[u8]) -> Option<Vec<Entry>> {
        let entry = |name: &[u8], directory| Entry { name: name.to_vec(), directory };
        (path.len() < 12).then(|| vec![entry(b"a.txt", false), entry(b".h", false), entry(b"\xff", false), entry(b"d", true)])
    }
}

fuzz_target!(|data: &[u8]| {
    let (head, data) = data.split_first().unwrap_or((&0, data));
    let line = String::from_utf8_lossy(data);
    let options = Options { placeholders: head & 1 == 1 };
    let tree = match parse(&line, options) {
        Ok(tree) => tree,
        Err(refusal) => {
            let at = line.split('\n').nth(refusal.line - 1).expect("a line of the text");
            assert!(refusal.column <= at.chars().count() + 1, "{refusal}");
            return;
        }
    };
    let text = tree.to_string();
    let again = parse(&text, options).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"));
    assert_eq!(again, tree, "{text:?}");
    let variables = BTreeMap::from([("A".to_owned(), "one".to_owned()), ("E".to_owned(), String::new())]);
    let seen = Surroundings { home: Some("/home/me"), variables: &variables, directory: &Names };
    let most = Budget { words: 512, bytes: 1 << 16, entries: 1 << 14 };
    for program in tree.programs() {
        if let Ok(words) = arguments(&program.words, &seen, &mut most.clone()) {
            assert!(words.len() >= program.words.len(), "{text:?}: a word was lost");
            assert!(words.len() <= most.words, "{text:?}");
        }
    }
});
