//! Argument vectors, one element a line: each has a verdict, the same one each time, and says why.
//!
//! The built-in policy judges, and a list of every program that has an option grammar.

#![no_main]

use std::sync::LazyLock;

use cofferdam::policy::{AllowList, Policy, grammar};
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(cofferdam_fuzz::builtin::policy);

static EVERY: LazyLock<AllowList> = LazyLock::new(|| {
    let names: Vec<&str> = grammar::names().collect();
    POLICY.allow_list(&names, &[]).expect("names are no patterns")
});

fuzz_target!(|data: &[u8]| {
    let argv: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    for list in [None, Some(&*EVERY)] {
        let verdict = || match POLICY.judge_argv(&argv, list) {
            Ok(rule) => (true, rule.id.to_owned(), String::new()),
            Err(denial) => (false, denial.rule.into_owned(), denial.message),
        };
        let (allowed, rule, message) = verdict();
        assert!(!rule.is_empty());
        assert!(allowed || !message.is_empty());
        assert_eq!(verdict(), (allowed, rule, message));
    }
});
