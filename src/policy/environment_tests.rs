//! Tests of `policy/environment.rs`.

use super::*;
use crate::policy::testing;

fn base(pass: &[&str], set: &[(&str, &str)], server: &[(&str, &str)]) -> Base {
    let environment = Environment {
        path: "/usr/bin:/bin".to_owned(),
        pass: pass.iter().map(|name| (*name).to_owned()).collect(),
        set: set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    Base::new(&environment, &pairs(server))
}

fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn rule(base: &Base, name: &str, value: &str) -> Option<String> {
    base.check(&pairs(&[(name, value)]), 1000).err().map(|denial| denial.rule.into_owned())
}

#[test]
fn f066_only_what_the_policy_names_is_there() {
    let base = base(
        &["LANG"],
        &[("TZ", "UTC")],
        &[("LANG", "C"), ("AWS_SECRET_ACCESS_KEY", "x"), ("PATH", "/evil"), ("HOME", "/h")],
    );
    let command = testing::command("ls");
    let entries: Vec<_> = base.effective(&command, &[]).into_iter().collect();
    assert_eq!(entries, [("LANG", "C"), ("PATH", "/usr/bin:/bin"), ("TZ", "UTC")]);
}

#[test]
fn the_last_one_wins() {
    let base = base(
        &["A", "B", "C", "D"],
        &[("B", "set"), ("C", "set"), ("D", "set")],
        &[("A", "server"), ("B", "server")],
    );
    let mut command = testing::command("ls");
    command.environment =
        BTreeMap::from([("C".to_owned(), "preset".to_owned()), ("D".to_owned(), "preset".to_owned())]);
    let asked = pairs(&[("D", "first"), ("D", "call")]);
    let entries: Vec<_> = base.effective(&command, &asked).into_iter().collect();
    assert_eq!(
        entries,
        [("A", "server"), ("B", "set"), ("C", "preset"), ("D", "call"), ("PATH", "/usr/bin:/bin")]
    );
    assert_eq!(base.names(&command).into_iter().collect::<Vec<_>>(), ["A", "B", "C", "D", "PATH"]);
}

#[test]
fn e001_a_caller_sets_only_what_is_passed() {
    let base = base(&["LANG"], &[], &[]);
    assert_eq!(rule(&base, "LANG", "de_DE.UTF-8"), None);
    for name in ["PATH", "HOME", "TMPDIR", "lang", "LANGUAGE", "GIT_DIR"] {
        assert_eq!(rule(&base, name, "x").as_deref(), Some("environment.pass"), "{name}");
    }
    let denial = base.check(&pairs(&[("FOO", "x")]), 1000).unwrap_err();
    assert_eq!(denial.message, "Environment name 'FOO' may not be set. Allowed: LANG");
    assert_eq!((denial.kind, denial.reason), (RuleKind::Env, Reason::EnvNotAllowed));
}

#[test]
fn e001_hooks_are_refused_even_if_listed() {
    let hooks = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "GLIBC_TUNABLES",
        "BASH_ENV",
        "ENV",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "GIT_EXEC_PATH",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "PAGER",
        "GIT_PAGER",
        "EDITOR",
        "GIT_EDITOR",
        "VISUAL",
        "LESSOPEN",
        "TAR_OPTIONS",
        "RIPGREP_CONFIG_PATH",
        "GIT_ASKPASS",
        "_JAVA_OPTIONS",
        "POSIXLY_CORRECT",
        "SHELL",
    ];
    let server: Vec<_> = hooks.iter().map(|name| (*name, "evil")).collect();
    let base = base(&hooks, &[], &server);
    for name in hooks {
        assert_eq!(rule(&base, name, "x").as_deref(), Some("environment.hook"), "{name}");
    }
    let command = testing::command("ls");
    assert_eq!(base.effective(&command, &[]).into_keys().collect::<Vec<_>>(), ["PATH"]);
    for name in ["LANG", "LC_ALL", "TZ", "NODE_ENV", "GIT_AUTHOR_NAME", "TERM", "ENVIRONMENT", "LDFLAGS"] {
        assert_eq!(hook(name), None, "{name}");
    }
}

#[test]
fn names_values_and_sizes() {
    let base = base(&["A B", "1A", "", "A=B", "OK"], &[], &[("A B", "x"), ("A=B", "y")]);
    for name in ["A B", "1A", "", "A=B", "Ä", "A\0"] {
        assert_eq!(rule(&base, name, "x").as_deref(), Some("environment.name"), "{name:?}");
    }
    assert_eq!(rule(&base, "OK", "a\0b").as_deref(), Some("environment.nul"));
    assert_eq!(rule(&base, "OK", &"x".repeat(996)), None);
    assert_eq!(rule(&base, "OK", &"x".repeat(997)).as_deref(), Some("limits.environment"));
    assert_eq!(base.effective(&testing::command("ls"), &[]).into_keys().collect::<Vec<_>>(), ["PATH"]);
}
