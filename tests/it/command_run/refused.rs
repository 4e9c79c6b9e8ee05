//! Batches that are refused as a whole: nothing of them runs, and nothing is recorded as a run.

use serde_json::{Value, json};

use super::{call, lab, text};
use crate::support::Served;

#[test]
fn a_batch_that_is_wrong_anywhere_runs_nowhere() {
    let lab = lab();
    let mut served = Served::start(&lab);
    let echo = || json!({"program": "echo", "args": ["ran"]});
    let uses = |id: &str, step: u64| json!({"program": "echo", "args": [format!("#@#${{{id}.stdout}}#@#$")], "step": step});
    let many = vec![echo(); 31];
    for (arguments, part) in [
        (json!({}), "commands is required"),
        (json!({"commands": []}), "commands has 0 elements; 1 to 30 are taken"),
        (json!({"commands": many}), "commands has 31 elements; 1 to 30 are taken"),
        (
            json!({"commands": [echo(), {"program": "echo", "shell": true}]}),
            "commands[1]: unknown argument \"shell\"",
        ),
        (json!({"commands": [echo()], "parallel": 3}), "unknown argument \"parallel\""),
        (
            json!({"commands": [echo(), {"program": "echo", "command_line": "echo"}]}),
            "commands[1]: give program and args",
        ),
        (
            json!({"commands": [echo(), {"program": "echo", "timeout_ms": 0}]}),
            "timeout_ms must be a positive integer",
        ),
        (json!({"commands": [echo(), uses("cmd0", 1)]}), "which is of step 1, and not of an earlier step"),
        (json!({"commands": [uses("cmd1", 1), uses("cmd0", 2)]}), "commands[0]: placeholder 'cmd1.stdout'"),
        (
            json!({"commands": [echo(), uses("later", 2), {"program": "echo", "id": "later", "step": 3}]}),
            "which is of step 3",
        ),
        (json!({"commands": [echo(), uses("nobody", 2)]}), "id 'nobody', which no command of this call has"),
        (
            json!({"commands": [echo(), {"program": "echo", "id": "cmd0"}]}),
            "id 'cmd0' is that of commands[0] too",
        ),
        (
            json!({"commands": [echo(), {"command_line": "echo #@#${cmd0}#@#$", "step": 2}]}),
            "malformed placeholder",
        ),
        (
            json!({"commands": [echo(), {"program": "#@#${cmd0.stdout}#@#$", "step": 2}]}),
            "no placeholder is bound in program",
        ),
    ] {
        let result = call(&mut served, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["structuredContent"], Value::Null);
        let said = text(&result);
        assert!(
            said.starts_with("Nothing was run: ") && said.contains(part),
            "{part:?} is missing in {said:?}"
        );
    }
    served.stop();
    assert!(lab.records().iter().all(|record| !record["event_type"].as_str().unwrap().starts_with("run.")));
}
