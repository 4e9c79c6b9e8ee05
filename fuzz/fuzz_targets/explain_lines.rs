//! Lines for `explain --stdin`: no line has more than one answer, and no bytes stop the reader.

#![no_main]

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use cofferdam::cli::explain;
use cofferdam::config::{Config, LoadOptions};
use cofferdam::policy::Policy;
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let options = LoadOptions {
        workspace: Some(PathBuf::from(env!("CARGO_MANIFEST_DIR"))),
        audit_file: Some(PathBuf::from("/nonexistent/audit.jsonl")),
        ..LoadOptions::default()
    };
    let config = Config::builtin_with(&options).expect("the built-in policy loads");
    Policy::new(Arc::new(config), &[]).expect("the built-in policy compiles")
});

fuzz_target!(|data: &[u8]| {
    let mut answers = Vec::new();
    let bad = explain::judge_lines(&POLICY, None, data, &mut answers).expect("memory does not fail");
    assert!(answers.is_empty() || answers.ends_with(b"\n"));
    let lines = data.split(|byte| *byte == b'\n').count();
    let answered = answers.iter().filter(|byte| **byte == b'\n').count();
    assert!(answered <= lines, "{answered} answers to {lines} lines");
    assert!(bad <= lines as u64, "{bad} bad lines of {lines}");
});
