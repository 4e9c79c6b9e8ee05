//! Tests of `policy/grammars.rs`: grammars hold in every way that a name can be allowed.

use std::os::unix::fs::symlink;

use crate::config::program::Programs;
use crate::config::workspace::CwdError;
use crate::config::{Config, Toolkit};
use crate::policy::testing::{command, policy, program, set};
use crate::policy::{Policy, Request};

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn rule(policy: &Policy, line: &str) -> String {
    policy
        .judge_argv(&words(line), None)
        .map_or_else(|denial| denial.rule.into_owned(), |rule| format!("ok {}", rule.id))
}

fn patterns(config: &mut Config, patterns: &[&str]) {
    config.allow_patterns = patterns.iter().map(|pattern| regex::Regex::new(pattern).unwrap()).collect();
}

#[test]
fn grammars_hold_for_every_way_to_allow_a_name() {
    let listed = policy(&["sort", "/usr/bin/sort"], |_| {});
    let pattern = policy(&[], |config| patterns(config, &["(/usr/bin/)?g?sort"]));
    let any = policy(&[], |config| config.allow_any = true);
    for (policy, id) in [(&listed, "allow"), (&pattern, "allow_patterns"), (&any, "allow_any")] {
        for name in ["sort", "/usr/bin/sort"] {
            assert_eq!(rule(policy, &format!("{name} -u x")), format!("ok {id}"));
            assert_eq!(rule(policy, &format!("{name} -uo x")), "sort.output");
            assert_eq!(rule(policy, &format!("{name} -- -o x")), format!("ok {id}"));
        }
    }
    assert_eq!(rule(&pattern, "gsort --co=x"), "sort.compress-program");
    let other = listed.allow_list(&["gsort"], &["f.nd"]).unwrap();
    for (line, expected) in [("gsort -o x", "sort.output"), ("find . -delete", "find.delete")] {
        assert_eq!(listed.judge_argv(&words(line), Some(&other)).unwrap_err().rule, expected);
    }
}

#[test]
fn grammars_hold_in_a_toolkit() {
    let policy = policy(&["sort"], |config| {
        let commands = Some(vec!["sort".to_owned()]);
        config.toolkits.insert("few".to_owned(), Toolkit::plain("few", commands));
    });
    let argv = ["sort", "-o", "x"].map(|word| word.as_bytes().to_vec()).to_vec();
    let request = Request { argv, toolkit: Some("few".to_owned()), ..Request::default() };
    let crate::policy::Verdict::Deny(denial) = policy.judge(&request, Err(CwdError::Missing("x".into())))
    else {
        unreachable!("sort -o is refused")
    };
    assert_eq!(denial.rule, "sort.output");
}

#[test]
fn a_renamed_program_keeps_the_grammar_of_its_file() {
    let policy = policy(&[], |config| {
        let renamed =
            crate::config::Command { program: Some(program("mysort", "sort")), ..command("mysort") };
        set(config, renamed);
        let both = crate::config::Command { program: Some(program("uniq", "sort")), ..command("uniq") };
        set(config, both);
    });
    assert_eq!(rule(&policy, "mysort -o x"), "sort.output");
    assert_eq!(rule(&policy, "uniq -o x"), "sort.output");
    assert_eq!(rule(&policy, "uniq a b"), "uniq.output");
}

#[test]
fn a_link_that_a_pattern_admits_keeps_the_grammar_of_its_file() {
    let bin = tempfile::tempdir().unwrap();
    std::fs::write(bin.path().join("sort"), "").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.path().join("sort"), mode).unwrap();
    symlink("sort", bin.path().join("soft")).unwrap();
    std::fs::hard_link(bin.path().join("sort"), bin.path().join("hard")).unwrap();
    let programs = Programs::new(bin.path().to_str().unwrap());
    let policy = policy(&[], |config| {
        let sort = crate::config::Command { program: programs.find("sort"), ..command("sort") };
        set(config, sort);
        patterns(config, &["soft|hard"]);
        config.programs = programs;
    });
    assert_eq!(rule(&policy, "soft -o x"), "sort.output");
    assert_eq!(rule(&policy, "hard -o x"), "sort.output");
    assert_eq!(rule(&policy, "hard -u x"), "ok allow_patterns");
}

#[test]
fn the_policy_files_options_are_read_through_the_grammar() {
    let policy = policy(&["date", "grep"], |config| {
        let deny_options = vec!["-z".to_owned(), "--search-zip".to_owned()];
        set(config, crate::config::Command { deny_options, ..command("rg") });
    });
    for (line, expected) in [
        ("rg -nz x", "rg.option.z"),
        ("rg --search-z x", "rg.option.z"),
        ("rg -e -z", "ok allow"),
        ("rg -tzig x", "ok allow"),
        ("rg -- -z", "ok allow"),
        ("rg --pre=x y", "rg.pre"),
        ("date -Iseconds", "ok allow"),
        ("grep a;b x", "ok allow"),
    ] {
        assert_eq!(rule(&policy, line), expected, "{line}");
    }
}

#[test]
fn known_arguments_refuse_what_the_grammar_does_not_know() {
    let policy = policy(&["uniq"], |config| {
        for name in ["sort", "git"] {
            set(config, crate::config::Command { known_only: true, ..command(name) });
        }
    });
    for (line, expected) in [
        ("sort -u --rev x", "ok allow"),
        ("sort -uQ x", "sort.unknown-option"),
        ("sort --nosuch x", "sort.unknown-option"),
        ("sort -- --nosuch", "ok allow"),
        ("sort -o x", "sort.output"),
        ("uniq --nosuch x", "ok allow"),
        ("git log --oneline", "ok allow"),
        ("git log --nosuch", "git.log.unknown-option"),
        ("git nosuch", "git.unknown-subcommand"),
    ] {
        assert_eq!(rule(&policy, line), expected, "{line}");
    }
}

#[test]
fn known_arguments_without_a_grammar_do_not_compile() {
    let mut config = crate::policy::testing::config(&[]);
    set(&mut config, crate::config::Command { known_only: true, ..command("nosuch") });
    let error = Policy::new(std::sync::Arc::new(config), &[]).unwrap_err();
    assert_eq!(error, crate::policy::PolicyError::NoGrammar("nosuch".to_owned()));
    assert!(error.to_string().starts_with("command.nosuch.arguments: "), "{error}");
}

#[test]
fn argument_rules_switch_grammars_off_too() {
    let policy = policy(&["sort"], |config| config.argument_rules = false);
    assert_eq!(rule(&policy, "sort -o x"), "ok allow");
}

#[test]
fn a_refusal_says_what_why_and_what_instead() {
    let policy = policy(&["sort", "uniq"], |_| {});
    let denial = policy.judge_argv(&[b"sort", b"-uo\x1b", b"x"], None).unwrap_err();
    assert_eq!(
        denial.message,
        "Argument '-uo\\u{1b}' of 'sort' is refused: -o/--output writes a file of the caller's choice; \
         read the result from standard output."
    );
    let denial = policy.judge_argv(&words("uniq a b"), None).unwrap_err();
    assert!(
        denial.message.starts_with("Argument 'b' of 'uniq' is refused: it is a file"),
        "{}",
        denial.message
    );
}

#[test]
fn notes_name_what_the_kernel_alone_confines() {
    let policy = policy(&["sort", "tee", "nosuch"], |config| {
        let deny_options = vec!["-x".to_owned()];
        set(config, crate::config::Command { deny_options, ..command("ruled") });
        set(config, crate::config::Command { interpreter: true, ..command("python3") });
    });
    let notes = policy.notes();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].ends_with("only: nosuch"), "{notes:?}");
    assert!(notes[1].ends_with(": tee"), "{notes:?}");
}

#[test]
fn file_names_outside_are_refused_with_and_without_a_grammar() {
    let policy = policy(&["cat", "nosuch", "git", "loose"], |config| {
        let workspace = std::sync::Arc::get_mut(&mut config.workspace).unwrap();
        workspace.path = "/srv/ws".into();
        set(config, crate::config::Command { any_path: true, ..command("loose") });
        let read = vec!["/srv/own".into()];
        set(config, crate::config::Command { read, ..command("nosuch") });
    });
    for line in [
        "cat /etc/shadow",
        "cat ../x",
        "nosuch --file=/etc/shadow",
        "nosuch -x/o",
        "git -C / log",
        "nosuch ..",
    ] {
        assert_eq!(rule(&policy, line), "path.outside", "{line}");
    }
    // /usr/share is granted to all, /srv/own to one.
    for line in [
        "cat /srv/ws/x /usr/share/x /dev/null",
        "nosuch a=/srv/own/x",
        "loose /etc/shadow ..",
        "git log -G/x",
    ] {
        assert_eq!(rule(&policy, line), "ok allow", "{line}");
    }
    assert_eq!(rule(&policy, "cat /srv/own/x"), "path.outside");
    let denial = policy.judge_argv(&words("git -C /etc log"), None).unwrap_err();
    assert!(denial.message.contains("'/etc' of 'git' is refused: -C names a file outside"), "{denial:?}");
    let denial = policy.judge_argv(&words("cat -n /etc/shadow"), None).unwrap_err();
    assert!(
        denial.message.contains("'/etc/shadow' of 'cat' is refused: it names a file outside"),
        "{denial:?}"
    );
}

#[test]
fn a_program_of_the_workspace_is_refused_however_it_is_allowed() {
    let names = ["./s", "bin/grep", "/srv/ws/bin/grep", "/srv/ws/../ws/x", "/usr/bin/sort"];
    let inside = |config: &mut Config| {
        std::sync::Arc::get_mut(&mut config.workspace).unwrap().path = "/srv/ws".into();
    };
    let any = policy(&[], |config| {
        inside(config);
        config.allow_any = true;
    });
    for policy in [policy(&names, inside), any] {
        for name in &names[..2] {
            assert_eq!(rule(&policy, name), "names.relative", "{name}");
        }
        for name in &names[2..4] {
            assert_eq!(rule(&policy, name), "names.workspace", "{name}");
        }
        assert!(rule(&policy, names[4]).starts_with("ok "));
    }
}
