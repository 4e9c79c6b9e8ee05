//! The path rule through the shipped grammars: which positions are file names, and which are text.

use std::path::{Path, PathBuf};

use super::rule_with;
use crate::policy::grammar::{Operator, program, programs};
use crate::policy::paths::View;

const NOTHING: &[PathBuf] = &[];

/// What a command in the root of an empty workspace may name.
fn operator() -> Operator<'static> {
    let view = View { workspace: Path::new("/srv/ws"), granted: [NOTHING; 3], depth: 0 };
    Operator { view: Some(view), ..Operator::default() }
}

/// The rule that refuses a line of a program that has a file.
fn refusal(line: &str) -> String {
    let name = line.split(' ').next().unwrap();
    rule_with(program(name.as_bytes()).unwrap().unwrap(), line, &operator())
}

#[test]
fn ordinary_use_names_nothing_outside() {
    let mut wrong = Vec::new();
    for grammar in programs().unwrap() {
        for example in grammar.examples().iter().filter(|example| example.allowed) {
            let rule = rule_with(grammar, &example.line, &operator());
            // One example is about `--`, and writes where it may not.
            if rule != "ok" && example.line != "sort -- -o /tmp/name" {
                wrong.push(format!("{}: {rule}", example.line));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn patterns_formats_and_separators_are_text() {
    for line in [
        "grep /usr/lib file",
        "grep -e /usr -e ../x f",
        "grep --include=/x -r p .",
        "rg '^/etc' src",
        "rg -e /x src -g /foo",
        "rg /x -r /y",
        "ag /usr/local src",
        "ag -g /x/.*rs",
        "fd -p /src/.*rs",
        "fd -E /target x",
        "find . -path /usr/x -o -path ../x",
        "find . -perm /222",
        "find . -printf /%p",
        "tr / _",
        "tr -d /",
        "cut -d/ -f2 a",
        "cut -d / -f2 a",
        "sort -t/ -k2 a",
        "paste -d/ a b",
        "join -t / a b",
        "column -t -s/ a",
        "date -d ../x",
        "date +/%F",
        "echo /etc/shadow ../../x",
        "printf /%s /etc/x",
        "basename /etc/shadow",
        "dirname ../../x",
        "seq -s / 1 3",
        "jq --arg p /etc/x '.[$p]' f",
        "jq -n --arg a /x --argjson b 2 ..",
        "jq .. f",
        "awk -F/ '{print $2}' f",
        "awk -F / '{print $2}' f",
        "awk -v p=/etc/x '/a/{print p}' f",
        "gawk --assign=/x // f",
        "sed /x/d f",
        "sed -e /x/d f",
        "stat -c /%n f",
        "ls -I /x --hide=/y",
        "du --exclude=/x .",
        "diff --label=/a --label /b a b",
        "diff -I /x a b",
        "csplit f /x/ /y/",
        "cpio -it '/usr/*'",
        "look /usr words",
        "expr /usr/x : x",
        "getopt -o a -l b -- -a /x",
    ] {
        assert_eq!(refusal(line), "ok", "{line}");
    }
}

#[test]
fn files_beside_them_are_not() {
    for line in [
        "grep -e x /etc/shadow",
        "grep -f p /etc/shadow",
        "grep --file=/etc/shadow x",
        "grep x /etc/shadow",
        "grep -r x ..",
        "rg -e x /etc",
        "rg --files /etc",
        "rg -f p /etc",
        "rg --ignore-file /etc/x y",
        "ag -g x /etc",
        "ag x /etc",
        "fd x /etc",
        "fd -C /etc x",
        "find /etc",
        "find . -newer /etc/shadow",
        "jq -f /etc/shadow .",
        "jq . /etc/shadow",
        "jq -n --slurpfile a /etc/shadow $a",
        "jq --arg a b . /etc/shadow",
        "yq /etc/shadow",
        "awk // /etc/shadow",
        "awk -F: // ../x",
        "sed -n p /etc/shadow",
        "sed -e p /etc/shadow",
        "cut -d: -f1 /etc/shadow",
        "sort --random-source=/etc/shadow f",
        "date -r /etc/shadow",
        "diff --from-file=/etc/shadow f",
        "csplit /etc/shadow 1",
        "csplit -b /../../x f 1",
        "split f /tmp/x",
        "unzip x.zip -d /tmp",
        "unzip -d/tmp x.zip",
        "unzip /etc/x.zip",
        "unzip -x /etc/x.zip",
        "unzip x.zip -- -d /tmp",
        "zip x.zip a -x@/etc/shadow",
        "zip x.zip a -i @/etc/shadow",
        "column -t -n /etc/shadow",
        "compress -C /etc/shadow",
        "uuencode -o x /etc/shadow name",
        "patch -Y ../../x a b.diff",
        "ar rc /tmp/m f",
        "ar x lib.a --output /tmp",
        "7z x -y -O/tmp x.7z",
        "arj e x /tmp/",
        "zstd -o/tmp/x f",
        "dos2unix -n in /tmp/x",
        "objcopy a /tmp/x",
        "addr2line -e /bin/ls 0",
        "readelf -a /bin/ls",
        "uuencode /etc/shadow x",
        "look root /etc/shadow",
        "recode a..b /etc/shadow",
        "patch -p0 -d /tmp",
        "test -f /etc/shadow",
        "md5sum -c /etc/shadow",
        "mkdir /tmp/x",
        "rm -rf ..",
        "touch -r /etc/shadow x",
        "tar -xf x.tar --one-top-level=/tmp/x",
    ] {
        assert_eq!(refusal(line), "path.outside", "{line}");
    }
}
