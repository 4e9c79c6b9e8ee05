//! Placeholders: whatever a value holds, commands, words and targets stay as many, and it is not read again.

#![no_main]

use cofferdam::syntax::placeholder::{Budget, Given, argument, bind, bind_word, references};
use cofferdam::syntax::{List, Options, parse};
use libfuzzer_sys::fuzz_target;

fn shape(tree: &List) -> Vec<(usize, usize, usize)> {
    tree.programs().iter().map(|p| (p.assignments.len(), p.words.len(), p.redirections.len())).collect()
}

fuzz_target!(|data: &[u8]| {
    let mut pieces = data.splitn(3, |byte| *byte == 0xff);
    let mut piece = || pieces.next().unwrap_or_default();
    let (value, before, after) = (piece(), piece(), piece());
    let line = format!(
        "{}#@#${{a.stdout}}#@#${}",
        String::from_utf8_lossy(before),
        String::from_utf8_lossy(after)
    );
    let given = Given { exit_code: 1, stdout: value.to_vec(), stderr: after.to_vec() };
    let from = |id: &str| (id == "a").then_some(&given);
    let options = Options { placeholders: true };
    if let Ok(mut tree) = parse(&line, options) {
        let counted = shape(&tree);
        if bind(&mut tree, &from, &mut Budget::default()).is_ok() {
            assert_eq!(shape(&tree), counted, "{line:?}");
            assert!(references(&tree).is_empty(), "{line:?}");
            let text = tree.to_string();
            assert_eq!(parse(&text, options).as_ref(), Ok(&tree), "{line:?} as {text:?}");
        }
    }
    if let Ok(mut word) = argument(&line)
        && bind_word(&mut word, &from, &mut Budget::default()).is_ok()
    {
        assert!(word.as_literal().is_some(), "{line:?}");
    }
});
