//! Tests of `policy/toolkit.rs` through the judge.

use std::time::Duration;

use super::*;
use crate::config::Limits;

#[test]
fn a_toolkit_narrows_commands_in_arguments_too() {
    let policy = policy(&["timeout", "sort", "cat"], |config| {
        set(config, Command { interpreter: true, ..command("timeout") });
        let names = vec!["timeout".to_owned(), "sort".to_owned()];
        config.toolkits.insert("few".to_owned(), Toolkit::plain("few", Some(names)));
    });
    let ask = |argv: &[&str], toolkit: &str| {
        policy.judge(&Request { toolkit: Some(toolkit.to_owned()), ..request(argv) }, root())
    };
    allowed(ask(&["timeout", "5", "sort", "x"], "few"));
    allowed(ask(&["timeout", "5", "cat", "x"], "sh"));
    let denial = denied(ask(&["timeout", "5", "cat", "x"], "few"));
    assert_eq!((denial.rule.as_ref(), denial.at), ("toolkit.commands", Some(2)));
    assert_eq!(denial.message, "Command 'cat' is not allowlisted. Allowed: sort, timeout");
}

#[test]
fn a_toolkit_admits_nothing_that_the_policy_refuses() {
    let policy = policy(&["git"], |config| {
        set(config, Command { subcommands: Some(vec!["log".to_owned()]), ..command("git") });
        config.allow_patterns = vec![regex::Regex::new("ls|sh").unwrap()];
        let names = ["git", "ls", "sh"].map(str::to_owned).to_vec();
        config.toolkits.insert("x".to_owned(), Toolkit::plain("x", Some(names)));
    });
    let ask =
        |argv: &[&str]| policy.judge(&Request { toolkit: Some("x".to_owned()), ..request(argv) }, root());
    assert_eq!(allowed(ask(&["ls"])).rule(), "allow_patterns");
    allowed(ask(&["git", "log"]));
    for argv in [&["git", "push"][..], &["sh"], &["git", "-c", "core.pager=id", "log"], &["cat"]] {
        let own = denied(policy.judge(&request(argv), root()));
        let through = denied(ask(argv));
        if argv == ["cat"] {
            assert_eq!((own.rule.as_ref(), through.rule.as_ref()), ("allow", "toolkit.commands"));
        } else {
            assert_eq!(through, own, "{argv:?}");
        }
    }
}

#[test]
fn limits_of_a_toolkit_hold_for_its_runs() {
    let policy = policy(&["ls"], |config| {
        let second = Duration::from_secs;
        let limits =
            Limits { timeout: second(2), max_timeout: second(3), memory: 1 << 25, ..config.limits.clone() };
        let kit = Toolkit { limits: Some(limits), ..Toolkit::plain("x", None) };
        config.toolkits.insert("x".to_owned(), kit);
    });
    let ask = |toolkit: &str, timeout| {
        allowed(
            policy.judge(&Request { toolkit: Some(toolkit.to_owned()), timeout, ..request(&["ls"]) }, root()),
        )
    };
    let plan = ask("x", None);
    assert_eq!((plan.timeout().as_secs(), plan.limits().memory), (2, 1 << 25));
    let plan = ask("x", Some(Duration::from_secs(200)));
    assert_eq!((plan.timeout().as_secs(), plan.timeout_clamped()), (3, true));
    let plan = ask("sh", Some(Duration::from_secs(200)));
    assert_eq!(
        (plan.timeout().as_secs(), plan.timeout_clamped(), plan.limits().memory),
        (200, false, 1 << 30)
    );
}
