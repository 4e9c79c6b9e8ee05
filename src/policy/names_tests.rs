//! Tests of `policy/names.rs`.

use proptest::prelude::*;

use super::*;
use crate::policy::testing;

fn denied() -> &'static DeniedNames {
    DeniedNames::shipped().unwrap()
}

fn rule(name: &str) -> Option<String> {
    denied().check_asked(name.as_bytes()).err().map(|denial| denial.rule.into_owned())
}

#[test]
fn f099_shells_and_interpreters_are_denied() {
    for name in
        ["sh", "bash", "zsh", "fish", "csh", "ksh", "dash", "ash", "rbash", "sh.distrib", "bash-static"]
    {
        assert_eq!(rule(name).as_deref(), Some("names.shell"), "{name}");
    }
    for name in [
        "python",
        "python3",
        "python3.11",
        "python2.7",
        "perl",
        "perl5.36.0",
        "ruby",
        "ruby3.1",
        "php",
        "php8.2",
        "lua",
        "lua5.4",
        "pypy3.10",
        "tclsh8.6",
        "m4",
        "/usr/bin/python3.11",
    ] {
        assert_eq!(rule(name).as_deref(), Some("names.interpreter"), "{name}");
    }
}

#[test]
fn f100_to_f104_wrappers_runtimes_and_shell_escapes_are_denied() {
    for (name, group) in [
        ("node", "names.js-runtime"),
        ("nodejs", "names.js-runtime"),
        ("deno", "names.js-runtime"),
        ("bun", "names.js-runtime"),
        ("timeout", "names.wrapper"),
        ("nice", "names.wrapper"),
        ("nohup", "names.wrapper"),
        ("setarch", "names.wrapper"),
        ("linux64", "names.wrapper"),
        ("chrt", "names.wrapper"),
        ("setpriv", "names.wrapper"),
        ("prlimit", "names.wrapper"),
        ("choom", "names.wrapper"),
        ("run-parts", "names.wrapper"),
        ("parallel", "names.wrapper"),
        ("start-stop-daemon", "names.wrapper"),
        ("strace", "names.debugger"),
        ("valgrind", "names.debugger"),
        ("gdb", "names.debugger"),
        ("perf", "names.debugger"),
        ("env", "names.wrapper"),
        ("xargs", "names.wrapper"),
        ("sed", "names.shell-escape"),
        ("gsed", "names.shell-escape"),
        ("less", "names.shell-escape"),
        ("vim", "names.shell-escape"),
        ("vim.tiny", "names.shell-escape"),
        ("zip", "names.shell-escape"),
        ("ssh", "names.remote-shell"),
        ("rsync", "names.remote-shell"),
        ("socat", "names.remote-shell"),
        ("su", "names.privilege"),
        ("sg", "names.privilege"),
        ("runuser", "names.privilege"),
        ("sudo", "names.privilege"),
        ("tmux", "names.terminal"),
        ("script", "names.terminal"),
        ("crontab", "names.scheduler"),
        ("busybox", "names.multi-call"),
        ("toybox", "names.multi-call"),
        ("ld.so", "names.loader"),
        ("ld-linux-x86-64.so.2", "names.loader"),
        ("ld-musl-x86_64.so.1", "names.loader"),
        ("ld-2.31.so", "names.loader"),
        ("ldd", "names.loader"),
        ("ccache", "names.wrapper"),
    ] {
        assert_eq!(rule(name).as_deref(), Some(group), "{name}");
    }
}

/// Names that the built-in policy serves, that argument rules cover or that resemble denied ones.
#[test]
fn served_names_are_not_denied() {
    for name in [
        "git",
        "rg",
        "grep",
        "cat",
        "ls",
        "head",
        "tail",
        "wc",
        "sort",
        "uniq",
        "cut",
        "find",
        "jq",
        "diff",
        "stat",
        "file",
        "du",
        "echo",
        "printf",
        "pwd",
        "true",
        "date",
        "tar",
        "gtar",
        "bsdtar",
        "awk",
        "gawk",
        "mawk",
        "nawk",
        "gfind",
        "bfind",
        "gsort",
        "fd",
        "fdfind",
        "make",
        "cargo",
        "npm",
        "dd",
        "tee",
        "bc",
        "ps",
        "unzip",
        "touch",
        "tr",
        "shuf",
        "printenv",
        "basename",
        "sleep",
        "gcc",
        "ld",
        "ldconfig",
        "cmake",
        "go",
        "curl",
        "split",
        "install",
        "python3-config",
        "shasum",
        "shred",
        "bashful",
        "luac",
        "nodeset",
        "edit",
        "viewer",
        "lsof",
        "[",
        "g++",
        "x86_64-linux-gnu-gcc",
    ] {
        assert_eq!(rule(name), None, "{name}");
    }
}

#[test]
fn the_refusal_says_why_and_that_a_list_does_not_help() {
    let denial = denied().check_asked(b"bash").unwrap_err();
    assert_eq!(
        denial.message,
        "Command 'bash' is always refused (shell: it takes code as an argument). \
         An allow-list entry cannot override this."
    );
    assert_eq!((denial.kind, denial.reason), (RuleKind::BuiltinDeny, Reason::CommandAlwaysDenied));
}

/// Any way to spell the path of a shell is a shell, also one that does not exist.
#[test]
fn e028_a_path_does_not_hide_a_denied_name() {
    for name in [
        "/proc/self/root/usr/bin/npx",
        "//usr//bin//bash",
        "/usr/bin/../bin/sh",
        "/bin/sh/",
        "./bash",
        "/bin/sh//",
    ] {
        assert!(rule(name).is_some(), "{name}");
    }
}

#[test]
fn e028_a_link_or_a_copy_by_another_name_is_judged_by_its_file() {
    let link = testing::program("mynode", "node");
    let denial = denied().check_resolved(b"mynode", &link).unwrap_err();
    assert!(
        denial.message.contains("'mynode' is always refused: it resolves to 'node'"),
        "{}",
        denial.message
    );
    // One file that holds harmless and other programs is judged by what was asked for.
    assert!(denied().check_resolved(b"ls", &testing::program("ls", "coreutils")).is_ok());
    assert_eq!(rule("coreutils").as_deref(), Some("names.multi-call-coreutils"));
    assert!(denied().check_resolved(b"ls", &testing::program("ls", "busybox")).is_err());
}

#[test]
fn f021_unsafe_names() {
    for name in [
        "ls -la",
        "ls;id",
        "ls|",
        "x$(id)",
        "a`b`",
        "a&",
        "a>b",
        "a<b",
        "a\tb",
        "a\nb",
        "a\rb",
        "a\u{a0}b",
        "a\u{2028}b",
        "a\u{200b}b",
        "a\u{feff}",
        "'a'",
        "\"a\"",
        "a\\b",
        "a*",
        "-ls",
        "--",
        "a\u{7f}",
        "a\u{1b}[0m",
        " ls",
        "ls ",
    ] {
        let denial = spelled(name.as_bytes()).unwrap_err();
        assert_eq!(denial.rule, "names.unsafe", "{name:?}");
        assert!(!denial.message.contains(['\n', '\r', '\u{1b}', '\u{200b}']), "{:?}", denial.message);
    }
    assert!(spelled(b"\xff\xfe").is_err());
    for name in [
        "ls",
        "/usr/bin/jq",
        "[",
        "g++",
        "perl5.36.0",
        "x_y-z",
        "naïve",
        "a=b",
        "a:b",
        "a,b",
        "a@b",
        "a%b",
        "a~",
    ] {
        assert_eq!(spelled(name.as_bytes()).unwrap(), name);
    }
}

#[test]
fn broken_tables_are_errors() {
    for (text, part) in [
        ("group = 1", "invalid type"),
        ("[[group]]\nid = 'a'\nreason = 'b'\nnames = ['x', 'x']", "stands twice"),
        ("[[group]]\nid = 'a'\nreason = 'b'\nnames = []\npatterns = ['(']", "regex"),
        ("[[group]]\nid = 'a'\nreason = 'b'\nname = []", "unknown field"),
    ] {
        let error = DeniedNames::parse(text).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

/// Each group is spelled as a rule id, says why, and no pattern repeats an exact name of its table.
#[test]
fn the_shipped_table_is_tidy() {
    let table = denied();
    for group in &table.groups {
        assert!(group.id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", group.id);
        assert!(group.reason.len() > 10 && !group.reason.ends_with('.'), "{}", group.id);
        for name in &group.names {
            assert_eq!(spelled(name.as_bytes()).unwrap(), name);
            assert!(!name.contains('/'), "{name}");
        }
    }
    for (name, index) in &table.exact {
        for pattern in table.patterns.matches(name) {
            assert_eq!(table.pattern_groups[pattern], *index, "{}", String::from_utf8_lossy(name));
        }
    }
}

proptest! {
    #[test]
    fn names_with_metacharacters_are_denied(head in "[a-z]{0,8}", bad in "[ \t\r\n;&|<>`$(){}*?'\"\\\\]", tail in "[a-z]{0,8}") {
        let spelling = format!("{head}{bad}{tail}");
        prop_assert!(spelled(spelling.as_bytes()).is_err());
    }

    #[test]
    fn any_bytes_are_judged_without_panic(name in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = spelled(&name);
        let _ = denied().check_asked(&name);
    }

    #[test]
    fn a_directory_in_front_changes_nothing(directory in "(/[a-z.]{1,5}){0,4}/", index in 0usize..1000) {
        let mut names: Vec<_> = denied().exact.keys().collect();
        names.sort();
        let name = names[index % names.len()];
        let mut path = directory.into_bytes();
        path.extend_from_slice(name);
        prop_assert!(denied().check_asked(&path).is_err());
    }
}
