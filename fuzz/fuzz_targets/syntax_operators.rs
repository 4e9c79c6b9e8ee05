//! Operators as elements of argv: every other element is one word, as it was sent.

#![no_main]

use cofferdam::syntax::operators::{Sequencing, parse};
use cofferdam_fuzz::input::Choices;
use libfuzzer_sys::fuzz_target;

const OPERATORS: &[&str] =
    &["|", "|&", ";", "&&", "||", "<", "<<<", ">", ">>", "2>", "2>>", "1>", "1>>", "&>", "&>>", "2>&1", "1>&2", ">&2"];

fuzz_target!(|data: &[u8]| {
    let vocabulary: Vec<Vec<u8>> = OPERATORS.iter().map(|operator| operator.as_bytes().to_vec()).collect();
    let mut choices = Choices::new(data);
    let sequencing = if choices.byte() & 1 == 1 { Sequencing::Accepted } else { Sequencing::Refused };
    let elements: Vec<String> =
        choices.elements(&vocabulary).iter().map(|element| String::from_utf8_lossy(element).into_owned()).collect();
    let is_operator = |element: &String| OPERATORS.contains(&element.as_str());
    match parse(&elements, sequencing) {
        Err(problem) => assert!(problem.element().is_none_or(|at| at < elements.len()), "{problem}"),
        Ok(tree) => {
            let programs = tree.programs();
            let targets = programs.iter().flat_map(|program| &program.redirections);
            let files = targets.filter(|redirection| redirection.to.word().is_some()).count();
            let words: Vec<&str> = programs
                .iter()
                .flat_map(|program| &program.words)
                .map(|word| word.as_literal().expect("text only"))
                .collect();
            let data = elements.iter().filter(|element| !is_operator(element)).count();
            assert_eq!(words.len() + files, data);
            assert!(words.iter().all(|word| elements.iter().any(|element| element == word)));
            let ends = |element: &&String| ["|", "|&", ";", "&&", "||"].contains(&element.as_str());
            let ended = elements.iter().filter(ends).count() + usize::from(!elements.last().is_some_and(|e| e == ";"));
            assert_eq!(programs.len(), ended, "a command was made or lost");
        }
    }
});
