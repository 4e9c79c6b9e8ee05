//! Pipelines: kernel pipes between real processes.

use serde_json::json;

use super::{fed, line, line_with, output, read_only, writable};

fn statuses(done: &serde_json::Value) -> Vec<i64> {
    done["stages"].as_array().unwrap().iter().map(|stage| stage["status"].as_i64().unwrap()).collect()
}

#[test]
fn a_reader_that_has_enough_ends_the_writer() {
    let lab = read_only();
    let done = line(&lab, "yes | head -n 2");
    assert_eq!((&done["stdout"], &done["exit"]), (&json!("y\ny\n"), &json!(0)), "{done}");
    assert_eq!(statuses(&done), [141, 0], "SIGPIPE acts");
    assert_eq!(done["pipefail"], 141);
    let grouped = line(&lab, "yes | { head -n 1; } | cat");
    assert_eq!(grouped["stdout"], "y\n", "{grouped}");
}

#[test]
fn three_megabytes_go_through() {
    let lab = crate::support::Lab::new(&crate::support::Rules {
        top: super::ALLOW,
        limits: "stdin_bytes = \"4MiB\"",
        ..crate::support::Rules::default()
    });
    let bytes = vec![b'x'; 3 << 20];
    assert_eq!(fed(&lab, "cat | cat | wc -c", &bytes), (0, b"3145728\n".to_vec()));
    // The first command reads standard input, and the next one what is left of it.
    assert_eq!(fed(&lab, "true; wc -c", b"abc"), (0, b"3\n".to_vec()));
}

#[test]
fn a_stage_that_never_reads_or_dies_early_holds_nobody_up() {
    let lab = crate::support::Lab::new(&crate::support::Rules {
        top: super::ALLOW,
        limits: "stdin_bytes = \"4MiB\"",
        ..crate::support::Rules::default()
    });
    let bytes = vec![b'x'; 3 << 20];
    assert_eq!(fed(&lab, "cat | true", &bytes), (0, Vec::new()));
    assert_eq!(fed(&lab, "true | cat | wc -c", &bytes), (0, b"0\n".to_vec()));
    assert_eq!(fed(&lab, "cat | false | echo end", &bytes), (0, b"end\n".to_vec()));
    let done = line(&lab, "cat missing | wc -c");
    assert_eq!((&done["stdout"], &done["exit"], &done["pipefail"]), (&json!("0\n"), &json!(0), &json!(1)));
}

#[test]
fn bytes_are_not_touched() {
    let lab = read_only();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(fed(&lab, "cat | cat", &bytes), (0, bytes.clone()));
    std::fs::write(lab.ws().join("bytes"), &bytes).unwrap();
    assert_eq!(output(&lab, "cat bytes | cat | wc -c"), "100000\n");
    assert_eq!(output(&lab, "head -c 100 /dev/urandom | wc -c"), "100\n");
}

#[test]
fn empty_arguments_stay() {
    let lab = read_only();
    assert_eq!(output(&lab, "printf '[%s][%s]' '' x | cat"), "[][x]");
    assert_eq!(output(&lab, "printf '[%s]' \"\" ''\"\""), "[][]");
}

#[test]
fn statuses_are_those_of_a_shell() {
    let lab = writable();
    for (text, status, pipefail) in [
        ("false | true", 0, 1),
        ("true | false", 1, 1),
        ("! false", 0, 0),
        ("! true | false", 0, 0),
        ("false && true", 1, 1),
        ("false || true", 0, 0),
        ("false; true", 0, 0),
        ("{ false; true; }", 0, 0),
        ("cat < missing", 2, 2),
        ("cat < missing | true", 0, 2),
        ("cat missing; echo a > b/c", 2, 2),
    ] {
        let done = line(&lab, text);
        assert_eq!((&done["exit"], &done["pipefail"]), (&json!(status), &json!(pipefail)), "{text}: {done}");
    }
}

#[test]
fn a_command_that_is_not_there_is_one_that_failed() {
    let lab = crate::support::Lab::new(&crate::support::Rules {
        top: "allow_any = true",
        ..crate::support::Rules::default()
    });
    let done = line(&lab, "nosuchtool | wc -c; nosuchtool || echo 'so it is'");
    assert_eq!(done["stdout"], "0\nso it is\n", "{done}");
    assert_eq!(statuses(&done), [127, 0, 127, 0]);
    assert_eq!(done["stderr"], "nosuchtool: not found\nnosuchtool: not found\n");
}

#[test]
fn the_end_of_a_line_leaves_nobody() {
    let lab = read_only();
    let done = line_with(&lab, &["--timeout", "1s"], "yes | cat | sleep 600");
    assert_eq!(done["timed_out"], true, "{done}");
    let ends = lab.records().into_iter().filter(|record| record["event_type"] == "run.end");
    let ends: Vec<_> = ends.collect();
    assert!(ends.len() == 3 && ends.iter().all(|end| end["procs_left"] == 0), "{ends:?}");
    // A writer may meet the end of its reader (SIGPIPE) before its own.
    assert!(ends.iter().all(|end| end["outcome"] == "timeout" || end["signal"] == "SIGPIPE"), "{ends:?}");
    assert!(ends.iter().any(|end| end["cmd"] == "sleep" && end["outcome"] == "timeout"), "{ends:?}");
}
