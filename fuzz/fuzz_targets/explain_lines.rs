//! Lines for `explain --stdin`: no line has more than one answer, and no bytes stop the reader.

#![no_main]

use std::sync::LazyLock;

use cofferdam::cli::explain;
use cofferdam::policy::Policy;
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(cofferdam_fuzz::builtin::policy);

fuzz_target!(|data: &[u8]| {
    let mut answers = Vec::new();
    let bad = explain::judge_lines(&POLICY, None, data, &mut answers).expect("memory does not fail");
    assert!(answers.is_empty() || answers.ends_with(b"\n"));
    let lines = data.split(|byte| *byte == b'\n').count();
    let answered = answers.iter().filter(|byte| **byte == b'\n').count();
    assert!(answered <= lines, "{answered} answers to {lines} lines");
    assert!(bad <= lines as u64, "{bad} bad lines of {lines}");
});
