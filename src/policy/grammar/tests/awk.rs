//! What the lexer of awk programs finds, and what it knows to be data.

use proptest::prelude::*;

use crate::policy::grammar::awk::scan;

#[track_caller]
fn table(rows: &[(&str, Option<&str>)]) {
    for (text, expected) in rows {
        assert_eq!(scan(text.as_bytes()), *expected, "{text:?}");
    }
}

#[test]
fn comparisons_strings_and_expressions_are_data() {
    for text in [
        "",
        "-f",
        "$3 > 100",
        "$1 < 5 {print $2}",
        "$1==\"a\" || $2==\"b\"",
        "/a|b/{print}",
        "{print \"system(x)\"}",
        "/system\\(/{print}",
        "# system(\"P\")\n{print}",
        "{print ($1 > 2)}",
        "{print(1 >= 2), 1 >= 2}",
        "{ if ($1 >= 3) n++ } END { print n }",
        "{ n++ / 2; x = $NF / 3 / 4; print \"a|b>c\" }",
        "{ systems = 1; printer = 2; getlines = 3 }",
        "{print a\n b > c}",
        "{print a; b > c}",
        "a > b { print } c > d",
        "BEGIN { while ((getline line) > 0) n++ }",
        "BEGIN { getline x; if (x < 3) print }",
        "{ x = y ? /a>b/ : /c|d/ }",
        "/[^/]+$/ && NR > 1",
        "/[[:alpha:]_]+/ { print 1 && (2 > 1) }",
        "{ gsub(/[\\/.]+/, \"|\"); print }",
        "$0 ~ /=/ { a /= 2 }",
        "a &&\\\n/b|c/",
        "{print \"it\\\"s > |\"}",
        "function f(a) { return /x|y/ } { print f($1) }",
    ] {
        assert_eq!(scan(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn commands_are_found() {
    table(&[
        ("BEGIN{system(\"P\")}", Some("system")),
        ("BEGIN { system  ( \"P\" ) }", Some("system")),
        ("BEGIN{system\\\n(\"P\")}", Some("system")),
        ("BEGIN{system\\\r\n(\"P\")}", Some("system")),
        ("{system}", Some("system")),
        ("{awk::system(\"P\")}", Some("system")),
        ("{x = 1e5system(\"P\")}", Some("unclear")),
        ("{x = 1 system(\"P\")}", Some("system")),
        ("BEGIN{\"P\"|getline x}", Some("pipe")),
        ("BEGIN{\"P\" |& getline x}", Some("pipe")),
        ("BEGIN{print \"x\" | \"P\"}", Some("pipe")),
        ("{print a || b | \"P\"}", Some("pipe")),
        ("{f=$1; @f($2)}", Some("indirect-call")),
        ("{@$1($2)}", Some("indirect-call")),
        ("@include \"f\"", Some("include")),
        ("@nsinclude \"f\"", Some("include")),
        ("@load \"f\"", Some("load-library")),
        ("{extension (\"f\")}", Some("extension")),
        ("{extension = 1}", None),
    ]);
}

#[test]
fn files_are_found() {
    table(&[
        ("{print > \"f\"}", Some("redirection")),
        ("{print >> \"f\"}", Some("redirection")),
        ("{print $1 > $2}", Some("redirection")),
        ("{print ($1) > $2}", Some("redirection")),
        ("{print(1)(2)>\"f\"}", Some("redirection")),
        ("{printf \"%s\", x > \"f\"}", Some("redirection")),
        ("{print a,\n b > \"f\"}", Some("redirection")),
        ("{print a \\\n > \"f\"}", Some("redirection")),
        ("BEGIN{for (print 1 > \"f\";;) x}", Some("redirection")),
        ("{if (a > b) print c > d}", Some("redirection")),
        ("{getline l < \"f\"}", Some("file-input")),
        ("{getline < \"f\"}", Some("file-input")),
        ("{while ((getline l < \"f\") > 0) n++}", Some("file-input")),
        ("{getline a[(1)] < \"f\"}", Some("file-input")),
    ]);
}

#[test]
fn where_readers_differ_the_rest_must_be_harmless() {
    table(&[
        ("BEGIN { if (x) /\"/; system(\"P\") # \"/ }", Some("unclear")),
        ("{ if (x) /a/ }", None),
        ("/[/]/ { print \"a\" > \"/f\" }", Some("unclear")),
        ("/[/\"]/; system(\"P\") # \"/", Some("unclear")),
        ("/[]/\"]/; system(\"P\") # \"/", Some("unclear")),
        ("/[\\]/\"]/ { \"P\" | getline } # \"/", Some("unclear")),
        ("{ length / system(\"P\") /1 }", Some("unclear")),
        ("{ x = length / 2 || y }", None),
        ("{ x = length / 2 | y }", Some("unclear")),
        ("{ getline / 2 < \"f\" }", Some("unclear")),
        ("{ case /\"/: system(\"P\") # \"/ }", Some("unclear")),
        ("{ \u{e9}/ system(\"P\") /1 }", Some("unclear")),
        ("{print \"open", Some("unclear")),
        ("{print \"a\nb\"}", Some("unclear")),
        ("/open", Some("unclear")),
        ("/a\nb/", Some("unclear")),
        ("a \\ b", Some("unclear")),
        (&"(".repeat(61), Some("unclear")),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_have_an_answer(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(scan(&text), scan(&text));
    }

    /// Statements of ordinary programs around it do not hide a command.
    #[test]
    fn harmless_statements_do_not_hide_a_command(
        before in proptest::collection::vec(
            proptest::sample::select(vec![
                "x = 1", "print \"a>b\"", "y = $1 / 2", "z = /a\"b/", "if (a > b) { c }", "# it's \"", "w = \"/\"",
                "v = \"#\"", "print (a > b)", "s = a[1] / 2 / b", "getline", "t = !/[a\"]/", "u++ / 2",
            ]),
            0..8,
        ),
        command in proptest::sample::select(vec![
            "system(\"P\")", "print | \"P\"", "\"P\" | getline", "print > \"f\"", "getline < \"f\"", "@f()",
        ]),
    ) {
        let text = format!("BEGIN {{\n{}\n{command} }}", before.join("\n"));
        prop_assert!(scan(text.as_bytes()).is_some(), "{}", text);
        let text = format!("BEGIN {{\n{}\n}}", before.join("\n"));
        prop_assert_eq!(scan(text.as_bytes()), None, "{}", text);
    }

    /// Inside a string everything is data.
    #[test]
    fn strings_are_data(text in "[ -!#-\\[\\]-~]{0,40}") {
        let program = format!("{{ print \"{text}\" }}");
        prop_assert_eq!(scan(program.as_bytes()), None);
    }
}
