//! The two readings of tar's arguments.

use super::rule;
use crate::policy::grammar::{Grammar, program};

fn tar() -> &'static Grammar {
    program(b"tar").unwrap().unwrap()
}

#[track_caller]
fn table(rows: &[(&str, &str)]) {
    for (line, expected) in rows {
        assert_eq!(rule(tar(), line), *expected, "{line}");
    }
}

#[test]
fn letters_of_an_old_style_word_take_their_values_in_order() {
    table(&[
        ("tar cf -I dir", "ok"),
        ("tar cfb -I -F dir", "ok"),
        ("tar cfb -I 20 -F x dir", "tar.info-script"),
        ("tar cIf P x.tar f", "tar.use-compress-program"),
        ("tar cfI x.tar P f", "tar.use-compress-program"),
        ("tar cf host:x f", "tar.remote-archive"),
        ("tar cbf host:x y f", "ok"),
        ("tar cbf 20 host:x f", "tar.remote-archive"),
        ("tar '' -I P", "tar.use-compress-program"),
        ("tar cf", "ok"),
        ("tar c?f x --to-command=P", "tar.to-command"),
    ]);
}

#[test]
fn options_stand_before_and_after_operands() {
    table(&[
        ("tar -cf x.tar dir --to-command=P", "tar.to-command"),
        ("tar -cf x.tar -- dir --to-command=P", "ok"),
        ("tar -c -f -- --use-compress-program=P f", "tar.use-compress-program"),
        ("tar -cf x.tar --ex --use-compress-program=P", "tar.use-compress-program"),
        ("tar -cf x.tar --c P", "tar.checkpoint-action"),
        ("tar -cf x.tar --exclude --to-command=x dir", "ok"),
    ]);
}

#[test]
fn the_other_grammar_is_read_whatever_the_name() {
    table(&[
        ("tar cHf y --use-compress-program=P f", "tar.bsd.use-compress-program"),
        ("tar -cHWuse-comp=P -f y f", "tar.bsd.use-compress-program"),
        ("tar cWf use-comp=P y f", "tar.bsd.use-compress-program"),
        ("tar cWf use-comp y P f", "tar.bsd.use-compress-program"),
        ("tar -c -W u P", "tar.bsd.use-compress-program"),
        ("tar -c - -L --use-compress-program P", "tar.bsd.use-compress-program"),
        ("tar -c -W exclude --use-comp=x -f y f", "tar.use-compress-program"),
        ("tar -c -W exclude foo -f y f", "ok"),
        ("tar -cWf y dir", "ok"),
        ("bsdtar -s /I/F/ -cf y dir", "ok"),
        ("bsdtar -tf x.tar --options --use-comp", "tar.use-compress-program"),
    ]);
}

#[test]
fn a_colon_is_a_host_before_any_slash_only() {
    table(&[
        ("tar -tf host:x", "tar.remote-archive"),
        ("tar -tfuser@host:/x", "tar.remote-archive"),
        ("tar --file=host:x -t", "tar.remote-archive"),
        ("tar -tf ./host:x", "ok"),
        ("tar -tf :x", "ok"),
        ("tar --force-local -tf host:x", "ok"),
        ("tar -tf host:x -- --force-local", "tar.remote-archive"),
    ]);
    let args: [&[u8]; 2] = [b"-tf", b"h\xff:x"];
    assert!(tar().judge(&args, &crate::policy::grammar::Operator::default()).is_err());
}
