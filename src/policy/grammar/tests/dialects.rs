//! What each dialect reports, element by element.

use std::ops::ControlFlow;

use super::{grammar, rule, split};
use crate::policy::grammar::dialect::walk_all;
use crate::policy::grammar::event::Event;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The events of a line, one word each: `OPTION`, `OPTION=VALUE`, `OPERAND`, `?UNKNOWN`, `!TAKEN-BACK`, `~A|B`, `[NODE]`.
fn events(file: &str, line: &str) -> String {
    let grammar = grammar(file);
    let words = split(line).unwrap();
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let mut seen = Vec::new();
    let flow = walk_all(&grammar.root, None, &args, 0, &mut |event| {
        seen.push(match event {
            Event::Enter { name: None, .. } => return ControlFlow::Continue(()),
            Event::Enter { node, .. } => format!("[{}]", node.id),
            Event::Option { option, value: Some(value), .. } => {
                format!("{}={}", option.names[0], text(value))
            }
            Event::Option { option, value: None, .. } => option.names[0].clone(),
            Event::TakenBack { option, .. } => format!("!{}", option.names[0]),
            Event::Ambiguous { candidates, .. } => {
                let names: Vec<String> = candidates.iter().map(|long| text(&long.name)).collect();
                format!("~{}", names.join("|"))
            }
            Event::Unknown { text: word, .. } => format!("?{}", text(word)),
            Event::Operand { value, index, at } => {
                assert_eq!(args[at], value);
                format!("{index}:{}", text(value))
            }
        });
        ControlFlow::Continue(())
    });
    assert_eq!(flow, ControlFlow::Continue(()));
    seen.join(" ")
}

#[track_caller]
fn table(file: &str, rows: &[(&str, &str)]) {
    for (line, expected) in rows {
        assert_eq!(events(file, line), *expected, "{line}");
    }
}

const GNU: &str = r#"
    program = "t"
    flags = "ab"
    values = "v"
    optional = "p"
    long = ["output|o=", "color|colour=?", "count", "context=", "all", "all-files"]
"#;

#[test]
fn an_option_may_take_two_elements() {
    let file = "program = \"t\"\nflags = \"i\"\nlong = [\"arg=2\"]";
    let rows = [
        ("--arg a -i x -i", "--arg=a 0:x -i"),
        ("--arg -i -i -i", "--arg=-i -i"),
        ("--arg=a -i", "--arg=a -i"),
        ("x --arg a", "0:x --arg=a"),
        ("--arg a -- -i", "--arg=a -i"),
    ];
    table(file, &rows);
}

#[test]
fn gnu_short_options() {
    table(
        GNU,
        &[
            ("-a -b", "-a -b"),
            ("-ab", "-a -b"),
            ("-abv x y", "-a -b -v=x 0:y"),
            ("-avx y", "-a -v=x 0:y"),
            ("-v -a", "-v=-a"),
            ("-v -- -a", "-v=-- -a"),
            ("-px", "-p=x"),
            ("-p x", "-p 0:x"),
            ("-o x", "--output=x"),
            ("-v", "-v"),
            ("-", "0:-"),
            ("x -a y", "0:x -a 1:y"),
            ("'' -a", "0: -a"),
        ],
    );
}

#[test]
fn gnu_long_options() {
    table(
        GNU,
        &[
            ("--output=x", "--output=x"),
            ("--output= y", "--output= 0:y"),
            ("--output x=y", "--output=x=y"),
            ("--out x", "--output=x"),
            ("--o=x", "--output=x"),
            ("--output -- x", "--output=-- 0:x"),
            ("--col", "--color"),
            ("--colour=x y", "--color=x 0:y"),
            ("--color x", "--color 0:x"),
            ("--all", "--all"),
            ("--all-", "--all-files"),
            ("--al", "~all|all-files"),
            ("--co=x", "~color|colour|context|count"),
            ("--count=x", "--count=x"),
            ("--=x", "~all|all-files|color|colour|context|count|output"),
        ],
    );
}

#[test]
fn gnu_double_dash_ends_options() {
    table(
        GNU,
        &[
            ("-- -a --output=x", "0:-a 1:--output=x"),
            ("x -- -a", "0:x 1:-a"),
            ("-a -- --", "-a 0:--"),
            ("--color -- -a", "--color 0:-a"),
        ],
    );
}

/// An option that the grammar does not know may take a value: a `--` after it may be that.
#[test]
fn gnu_distrusts_what_follows_the_unknown() {
    table(
        GNU,
        &[
            ("--new -- -a", "?--new -a"),
            ("--new=x -- -a", "?--new=x 0:-a"),
            ("-N -- -a", "?-N -a"),
            ("-Na x", "?-Na -a 0:x"),
            ("-Novx y", "?-Novx --output=vx -v=x 0:y"),
            ("--al -- -a", "~all|all-files -a"),
            ("-N x -- -a", "?-N 0:x 1:-a"),
        ],
    );
}

#[test]
fn posix_stops_at_the_first_operand() {
    let posix = format!("dialects = [\"posix\"]\n{GNU}");
    table(
        &posix,
        &[
            ("-a x -b --output=y", "-a 0:x 1:-b 2:--output=y"),
            ("-v x -b y -a", "-v=x -b 0:y 1:-a"),
            ("-a -- -b", "-a 0:-b"),
            ("-N x -b y -a", "?-N 0:x -b 1:y 2:-a"),
        ],
    );
}

#[test]
fn long_only_reads_single_dashes_too() {
    let file = r#"
        program = "ld"
        dialects = ["long-only"]
        flags = "sp"
        values = "o"
        long = ["plugin=", "plugin-opt=", "pie", "output="]
    "#;
    table(
        file,
        &[
            ("-plugin x", "-plugin=x"),
            ("--plugin=x", "-plugin=x"),
            ("-o x", "-o=x"),
            ("-p", "-p"),
            ("-pi", "-pie"),
            ("-pl", "~plugin|plugin-opt"),
            ("-ox", "-o=x"),
            ("-sp x", "-s -p 0:x"),
        ],
    );
}

#[test]
fn find_words_stand_anywhere() {
    let file = r#"
        program = "find"
        dialects = ["find"]
        long = ["L", "D=", "name=", "newer=", "exec=", "print", "delete"]
    "#;
    table(
        file,
        &[
            (". -name x -print", "0:. -name=x -print"),
            (". -newer -exec -print", "0:. -newer=-exec -print"),
            (". -newerXt -exec -print", "0:. -newer=-exec -print"),
            (". -newest -exec x", "0:. ?-newest -exec=x"),
            ("-- . -delete", "0:. -delete"),
            (". --delete", "0:. -delete"),
            (". -del", "0:. ?-del"),
            ("-L -D x . -exec", "-L -D=x 0:. -exec"),
            ("( -name a )", "0:( -name=a 1:)"),
        ],
    );
}

#[test]
fn keys_and_values() {
    let file = "program = \"dd\"\ndialects = [\"key-value\"]\nlong = [\"if=\", \"of=\", \"help\", \"k=\"]";
    table(
        file,
        &[
            ("if=a of=b=c", "if==a of==b=c"),
            ("of", "0:of"),
            ("new=x", "?new=x"),
            ("--help -x", "help= ?-x"),
            ("k=v k", "k==v 0:k"),
            ("-- of=x", "of==x"),
        ],
    );
}

#[test]
fn plain_has_operands_only() {
    table("program = \"echo\"\ndialects = [\"plain\"]", &[("-n --x -- y", "0:-n 1:--x 2:-- 3:y")]);
}

#[test]
fn subcommands_have_options_of_their_own() {
    let file = r#"
        program = "git"
        dialects = ["git"]
        flags = "p"
        values = "C"
        long = ["git-dir="]
        [set.diff]
        long = ["stat", "output="]
        [subcommand.log]
        sets = ["diff"]
        flags = "p"
        [subcommand.switch]
        aliases = ["sw"]
        dialects = ["posix"]
    "#;
    table(
        file,
        &[
            ("log -p --sta", "[git.log] -p --stat"),
            ("-p log -C x", "-p [git.log] ?-C 0:x"),
            ("-C log log --out x", "-C=log [git.log] --output=x"),
            ("--git-dir log log", "--git-dir=log [git.log]"),
            ("sw a -x", "[git.switch] 0:a 1:-x"),
            ("other -p", "0:other 1:-p"),
        ],
    );
}

/// Global options have no abbreviations; a value that is attached to a letter counts.
#[test]
fn global_options_are_exact() {
    let file = r#"
        program = "git"
        dialects = ["git"]
        flags = "p"
        values = "c"
        long = ["git-dir=", "exec-path=?", "bare"]
        [subcommand.log]
    "#;
    table(
        file,
        &[
            ("-cx=y log", "-c=x=y [git.log]"),
            ("-c", "-c"),
            ("--git log", "?--git [git.log]"),
            ("--exec-path log", "--exec-path [git.log]"),
            ("--exec-path=d log", "--exec-path=d [git.log]"),
            ("--bare=x log", "?--bare=x [git.log]"),
            ("-pc log", "?-pc [git.log]"),
        ],
    );
}

#[test]
fn commands_of_git_take_names_back() {
    let file = r#"
        program = "git"
        dialects = ["parse-options"]
        flags = "q"
        long = ["exec=", "no-verify"]
    "#;
    table(
        file,
        &[
            ("a --no-exec -- --exec", "0:a !--exec 1:--exec"),
            ("--no-ver --ex P", "--no-verify --exec=P"),
            ("--end-of-options --exec", "0:--exec"),
            ("--exec --end-of-options -q", "--exec=--end-of-options -q"),
        ],
    );
    let stops = file.replace("parse-options", "parse-options-posix");
    table(&stops, &[("( -q ) -q a -q", "-q -q 0:a 1:-q")]);
}

/// Each line is read twice: as Perl permutes, then as it does under `POSIXLY_CORRECT`.
#[test]
fn perl_reads_in_passes_and_in_both_orders() {
    let file = r#"
        program = "mail"
        dialects = ["perl"]
        passes = [["identity"], ["h"]]
        flags = "h"
        long = ["identity=", "subject=", "cmd=", "pass=?", "debug=#?", "size=#"]
    "#;
    table(
        file,
        &[
            ("--CMD P", "--cmd=P --cmd=P"),
            ("+cm=P -c P", "--cmd=P --cmd=P 0:+cm=P ?-c 1:P"),
            ("x -cmd P", "--cmd=P 0:x 0:x ?-cmd 1:P"),
            (
                "--subject --identity=w --cmd=P",
                "--identity=w --subject=--cmd=P --subject=--identity=w --cmd=P",
            ),
            ("--pass --cmd P", "--pass --cmd=P --pass --cmd=P"),
            ("--debug x", "--debug 0:x --debug 0:x"),
            ("-- --cmd P", "0:--cmd 1:P 0:--cmd 1:P"),
        ],
    );
}

#[test]
fn each_dialect_is_a_pass_of_its_own() {
    let both = format!("dialects = [\"gnu\", \"posix\"]\n{GNU}");
    table(&both, &[("x -a", "0:x -a 0:x 1:-a")]);
}

/// Each letter behind one that is not known may begin a value as long as the rest: few enough are tried.
#[test]
fn an_endless_doubtful_element_is_refused() {
    for dialect in ["gnu", "posix", "long-only", "parse-options", "bsdtar"] {
        let text = format!("program = \"p\"\ndialects = [\"{dialect}\"]\nflags = \"ab\"\nvalues = \"f\"");
        let grammar = grammar(&text);
        let of = |letters: &str, count: usize| rule(&grammar, &format!("p -~{} x", letters.repeat(count)));
        assert_eq!(of("f", 100), "ok", "{dialect}");
        assert_eq!(of("ab", 10_000), "ok", "{dialect}");
        assert_eq!(of("f", 1_000), "p.unknown-option", "{dialect}");
        assert_eq!(rule(&grammar, &format!("p -a{} x", "f".repeat(1_000))), "ok", "{dialect}");
    }
}
