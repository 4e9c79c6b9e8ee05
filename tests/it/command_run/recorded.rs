//! What the records say of a batch as a whole.

use serde_json::{Value, json};

use super::{batch, call, lab, of_type};
use crate::support::Served;

#[test]
fn a_batch_stands_between_two_records() {
    let lab = lab();
    let mut served = Served::start(&lab);
    let commands = json!([{"program": "echo"}, {"program": "false"}, {"program": "rm"},
                          {"command_line": "echo a | cat"}, {"program": "echo", "step": 2}]);
    batch(&mut served, commands.clone());
    call(&mut served, json!({"commands": [{"program": "rm"}]}));
    call(&mut served, json!({"commands": commands, "dry_run": true}));
    // What is wrong as a whole never begins.
    call(&mut served, json!({"commands": []}));
    served.stop();
    let (starts, ends) = (of_type(&lab, "batch.start"), of_type(&lab, "batch.end"));
    assert_eq!((starts.len(), ends.len()), (3, 3));
    for (start, end) in starts.iter().zip(&ends) {
        for name in ["batch_id", "batch_size", "tool", "toolkit", "session_id", "request_id", "policy_digest"]
        {
            assert!(!start[name].is_null() && start[name] == end[name], "{name}: {start} {end}");
        }
        assert_eq!((&start["batch_index"], &start["outcome"]), (&Value::Null, &Value::Null), "{start}");
    }
    let counts = |end: &Value| {
        ["succeeded", "failed", "rejected", "timed_out", "cancelled", "skipped"]
            .map(|status| end[format!("batch_{status}")].as_u64().unwrap())
    };
    assert_eq!((&ends[0]["outcome"], counts(&ends[0])), (&json!("nonzero_exit"), [2, 1, 1, 0, 0, 1]));
    assert_eq!((&ends[1]["outcome"], counts(&ends[1])), (&json!("denied"), [0, 0, 1, 0, 0, 0]));
    assert_eq!((&ends[2]["outcome"], counts(&ends[2])), (&json!("success"), [0, 0, 1, 0, 0, 4]));
    assert_eq!((&starts[0]["dry_run"], &starts[2]["dry_run"]), (&Value::Null, &json!(true)));
    // Its members lie between, and carry its id.
    let records = lab.records();
    let at = |event: &str| records.iter().position(|record| record["event_type"] == event).unwrap();
    let id = &starts[0]["batch_id"];
    let members: Vec<usize> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| {
            record["batch_id"] == *id && record["event_type"].as_str().unwrap().starts_with("run.")
        })
        .map(|(at, _)| at)
        .collect();
    assert_eq!(members.len(), 9, "four runs of two records, one refusal");
    assert!(
        members.iter().all(|member| (at("batch.start")..at("batch.end")).contains(member)),
        "{members:?}"
    );
}
