//! Operators as elements of an argument vector.

use cofferdam::syntax::List;
use cofferdam::syntax::operators::{Problem, Sequencing, parse};

use super::read;

fn accepted(elements: &[&str]) -> Result<List, Problem> {
    parse(elements, Sequencing::Accepted)
}

#[test]
fn elements_and_lines_give_the_same_tree() {
    for (elements, line) in [
        (&["ls"][..], "ls"),
        (&["ls", "|", "grep", "x"], "ls | grep x"),
        (&["a", "|", "b", "|", "c", "-x"], "a | b | c -x"),
        (&["a", "|&", "b"], "a |& b"),
        (&["a", "&&", "b", "||", "c", ";", "d"], "a && b || c; d"),
        (&["a", ";"], "a;"),
        (&["sort", "input", ">", "output"], "sort input > output"),
        (&["sort", "<", "in", "|", "uniq", ">>", "out"], "sort < in | uniq >> out"),
        (&["<", "in", "cat"], "< in cat"),
        (&["a", "2>", "e", "1>&2"], "a 2> e 1>&2"),
        (&["a", ">", "o", "2>&1"], "a > o 2>&1"),
        (&["a", "&>", "o"], "a &> o"),
        (&["cat", "<<<", "a b"], "cat <<< 'a b'"),
    ] {
        assert_eq!(accepted(elements).unwrap(), read(line).unwrap(), "{line}");
    }
}

#[test]
fn punctuation_in_a_longer_element_is_data() {
    for data in [
        "a|b",
        "text|",
        "|x",
        "a;b",
        "$HOME; rm -rf /",
        "a && b",
        "*",
        "~",
        "{a,b}",
        "$(x)",
        "`x`",
        ">x",
        "a>b",
        "2>x",
        " |",
        "#x",
        "",
        "'",
        "\"",
        "\\",
        "a\nb",
        "(",
        ")",
        "!",
        "&",
        "`",
        "#@#${a.stdout}#@#$",
    ] {
        let tree = accepted(&["echo", data, "|", "cat"]).unwrap();
        let programs = tree.programs();
        assert_eq!(programs.len(), 2, "{data}");
        assert_eq!(programs[0].words[1].as_literal(), Some(data));
        assert_eq!(read(&tree.to_string()).unwrap(), tree, "{data}");
    }
}

#[test]
fn errors_are_those_of_the_documents() {
    for (elements, text) in [
        (&[][..], "No command provided"),
        (&["|", "a"], "Empty command before pipe operator"),
        (&["a", "|", "|", "b"], "Empty command before pipe operator"),
        (&["a", "|"], "Empty command after pipe operator"),
        (&["a", ";", "b"], "Unexpected shell operator: ;"),
        (&["a", "&&", "b"], "Unexpected shell operator: &&"),
        (&["a", "|", "b", "||", "c"], "Unexpected shell operator in pipeline: ||"),
        (&["a", ">"], "Missing path for output redirection"),
        (&["a", "<"], "Missing path for input redirection"),
        (&["a", ">", ">>", "b"], "Invalid redirection syntax: consecutive operators"),
        (&["a", ">", "|", "b"], "Invalid redirection target: operator found"),
        (&[">", "b"], "Empty command after redirection operator"),
    ] {
        assert_eq!(parse(elements, Sequencing::Refused).unwrap_err().to_string(), text, "{elements:?}");
    }
    assert_eq!(accepted(&["a", "&&"]).unwrap_err().to_string(), "Empty command after && operator");
    assert_eq!(accepted(&["a", "&&", ";", "b"]).unwrap_err(), Problem::EmptyBefore(2, ";"));
    assert_eq!(accepted(&["a", "|", ";", "b"]).unwrap_err(), Problem::EmptyBefore(2, ";"));
    assert_eq!(accepted(&["a", ";", ";"]).unwrap_err().element(), Some(2));
    assert_eq!(
        accepted(&["a", ";", ">", "b"]).unwrap_err().to_string(),
        "Empty command after redirection operator"
    );
    assert!(matches!(accepted(&["a"; 5_000]).unwrap_err(), Problem::TooMany(5_000, _)));
}
