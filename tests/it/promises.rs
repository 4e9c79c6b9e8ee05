//! What the documents of the predecessors promise of `shell_execute`, its variables and its records, and of
//! `command_run`: one row a promise, with the tests that hold it (`promises.jsonl`).
//!
//! Purpose: a maintainer sees which test to look at, and that none was lost. Rows `F` are numbered promises,
//! rows `C` conflicts between documents and what was decided. A row that nothing holds says why not.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::house::known_tests;
use crate::scan::root;

/// The rows that have to be there.
fn expected() -> Vec<String> {
    let promises = [2..=2, 17..=22, 33..=80, 88..=93, 188..=207].into_iter().flatten();
    let conflicts = [5..=5, 9..=9, 11..=19].into_iter().flatten();
    promises
        .map(|number| format!("F{number}"))
        .chain(conflicts.map(|number: u32| format!("C{number}")))
        .collect()
}

#[test]
fn every_promise_has_a_test_or_a_reason() {
    let text = fs::read_to_string(root().join("tests/it/promises.jsonl")).unwrap();
    let known = known_tests();
    let mut rows: BTreeMap<String, Value> = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(row["says"].as_str().is_some_and(|says| !says.is_empty()), "{line}");
        let tests = row["tests"].as_array().unwrap();
        let reason = row["not"].as_str().unwrap_or_default();
        assert_ne!(tests.is_empty(), reason.is_empty(), "tests, or a reason why there are none: {line}");
        for test in tests {
            let name = test.as_str().unwrap();
            assert!(known.contains(name), "{}: `{name}` is no test", row["row"]);
        }
        let name = row["row"].as_str().unwrap().to_owned();
        assert!(rows.insert(name, row).is_none(), "twice: {line}");
    }
    for name in expected() {
        assert!(rows.remove(&name).is_some(), "{name} is missing");
    }
    assert!(rows.is_empty(), "{rows:?}");
}

#[test]
fn the_rules_for_agents_name_what_there_is() {
    let text = fs::read_to_string(root().join("docs/agent-rules.md")).unwrap();
    for tool in ["command_run", "sh_run", "sh_start", "sh_poll", "sh_output", "sh_kill"] {
        assert!(text.contains(&format!("`{tool}`")), "{tool}");
    }
    let result = fs::read_to_string(root().join("src/mcp/batch/result.rs")).unwrap();
    for status in ["succeeded", "failed", "rejected", "timed_out", "cancelled", "skipped"] {
        assert!(
            text.contains(&format!("`{status}`")) && result.contains(&format!("\"{status}\"")),
            "{status}"
        );
    }
    let taken = fs::read_to_string(root().join("src/mcp/batch/tool.rs")).unwrap();
    for field in ["id", "step", "program", "args", "command_line", "cwd", "timeout_ms", "dry_run"] {
        assert!(text.contains(&format!("`{field}")) && taken.contains(&format!("\"{field}\"")), "{field}");
    }
    assert!(text.contains("#@#${"), "the placeholder");
}
