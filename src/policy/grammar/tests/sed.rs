//! What the reader of sed scripts finds.

use proptest::prelude::*;

use crate::policy::grammar::sed::scan;

#[track_caller]
fn table(rows: &[(&str, Option<&str>)]) {
    for (text, expected) in rows {
        assert_eq!(scan(text.as_bytes()), *expected, "{text:?}");
    }
}

#[test]
fn commands_are_told_from_text() {
    table(&[
        ("", None),
        ("p", None),
        ("$!N;P;D", None),
        ("/e/,/w/p", None),
        ("\\,e,p", None),
        ("\\,x,e id", Some("execute")),
        ("/x/I,+2!{e id", Some("execute")),
        ("0~3e", Some("execute")),
        ("s/e/w/g;p", None),
        ("s/e/w/2e", Some("execute")),
        ("s,a,b,gw out", Some("write")),
        ("s/a\\/e/b/;e", Some("execute")),
        ("s/a/b\\\ne id/", None),
        ("s/a/b/\ne id", Some("execute")),
        ("s/a/b/ e", Some("execute")),
        ("s/a/b/}e", Some("execute")),
        ("y/e/w/", None),
        ("y/e/w/;w out", Some("write")),
        ("# e id\np", None),
        ("# x\ne id", Some("execute")),
        ("a e id", None),
        ("a\\\ne id\np", None),
        ("a\\\nx\ne id", Some("execute")),
        ("a x\\\\\ne id", Some("execute")),
        ("a\\", Some("unclear")),
        ("1r names", Some("read")),
        ("R names", Some("read")),
        ("W out", Some("write")),
        ("{p};{e id}", Some("execute")),
        ("v", Some("unclear")),
        ("s/a/b", Some("unclear")),
        ("s/a\nb/c/", Some("unclear")),
    ]);
}

#[test]
fn where_readers_differ_the_script_is_refused() {
    table(&[
        (":a;N;$!ba;s/\\n/ /g", None),
        (":a\nN\nba\ne id", Some("execute")),
        (":a;e id", Some("execute")),
        (":a;a\\\ne id", Some("unclear")),
        (":a;s/x/y\\\ne id/", Some("unclear")),
        ("/x/{bend}", None),
        ("b}a\\;e id", Some("unclear")),
        ("s/[/]/x/", Some("unclear")),
        ("s/[]/x]/y/e", Some("unclear")),
        ("s/[^[:alpha:]_]/x/", None),
        ("s/[a\\]/]/x/", Some("unclear")),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_have_an_answer(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(scan(&text), scan(&text));
    }

    /// Commands around it do not hide one that reaches out.
    #[test]
    fn harmless_commands_do_not_hide_another(
        before in proptest::collection::vec(
            proptest::sample::select(vec![
                "p", "s/e/w/g", "y/ab/ba/", "/w/d", "a e id", "i\\\ntext", "# r", ":x", "bx", "{p}", "s,[^e],\\n,2",
            ]),
            0..8,
        ),
        command in proptest::sample::select(vec!["e id", "w out", "s/a/b/e", "1,2r f", "/x/!R f", "$W f"]),
    ) {
        let text = format!("{}\n{command}", before.join("\n"));
        prop_assert!(scan(text.as_bytes()).is_some(), "{}", text);
        prop_assert_eq!(scan(before.join("\n").as_bytes()), None, "{}", text);
    }
}
