//! Background jobs of real commands over real pipes.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::mcp_stdio::{Server, running, until};

fn tool(server: &mut Server, name: &str, arguments: Value) -> Value {
    let answer = server.ask("tools/call", json!({"name": name, "arguments": arguments}));
    let payload = answer["result"]["structuredContent"].clone();
    assert!(payload.is_object(), "{answer}, log: {}", server.log());
    payload
}

fn start(server: &mut Server, arguments: Value) -> String {
    let started = tool(server, "sh_start", arguments);
    assert_eq!(started["state"], "running");
    started["job"].as_str().unwrap().to_owned()
}

/// A job that runs until it is killed, and the file by which it is found.
fn follow(server: &mut Server, extra: Value) -> (String, PathBuf) {
    let file = server.home.path().join("workspace").join(uuid::Uuid::new_v4().to_string());
    fs::write(&file, "").unwrap();
    let mut arguments = json!({"command": "tail", "args": ["-f", file]});
    arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let job = start(server, arguments);
    until("the command runs", || !running(&file).is_empty());
    (job, file)
}

fn ended(server: &mut Server, job: &str) -> Value {
    let mut polled = Value::Null;
    while polled["state"] != "exited" && polled["state"] != "killed" {
        polled = tool(server, "sh_poll", json!({"job": job}));
    }
    polled
}

/// The instalments of standard output from the start to the end.
fn read(server: &mut Server, job: &str, encoding: &str) -> Vec<Value> {
    let (mut cursor, mut pieces) = (json!("0"), Vec::new());
    loop {
        let asked = json!({"job": job, "cursor": cursor, "encoding": encoding, "escapes": "raw"});
        let piece = tool(server, "sh_output", asked);
        cursor = piece["cursor"].clone();
        let eof = piece["eof"] == true;
        pieces.push(piece);
        if eof {
            return pieces;
        }
    }
}

fn concatenated(pieces: &[Value]) -> String {
    pieces.iter().map(|piece| piece["stdout"].as_str().unwrap()).collect()
}

/// RFC 4648, as written by this server.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other}"),
    };
    let group = |four: &[u8]| {
        let digits: Vec<u8> = four.iter().filter(|byte| **byte != b'=').map(|byte| digit(*byte)).collect();
        let bits = digits.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit))
            << (6 * (4 - digits.len()));
        bits.to_be_bytes()[1..digits.len()].to_vec()
    };
    text.as_bytes().chunks(4).flat_map(group).collect()
}

fn records_of(server: &Server, event: &str) -> Vec<Value> {
    server.records().into_iter().filter(|record| record["event_type"] == event).collect()
}

#[test]
fn a_job_that_died_within_milliseconds_is_there_with_its_output_and_status() {
    let mut server = Server::opened();
    for n in 0..10 {
        let job = start(&mut server, json!({"command": "echo", "args": [n]}));
        assert_eq!(concatenated(&read(&mut server, &job, "text")), format!("{n}\n"));
        let polled = tool(&mut server, "sh_poll", json!({"job": job}));
        assert_eq!((&polled["exit"], &polled["state"]), (&json!(0), &json!("exited")), "{polled}");
        assert_eq!(polled["stdout-bytes"], 2);
    }
    let job = start(&mut server, json!({"command": "cat", "stdin": "fed"}));
    assert_eq!(concatenated(&read(&mut server, &job, "text")), "fed");
    let started = records_of(&server, "run.start");
    assert_eq!((started.len(), &started[0]["tool"]), (11, &json!("sh_start")));
    assert_eq!(records_of(&server, "run.end").len(), 11);
}

#[test]
fn instalments_make_up_the_whole_and_none_is_large() {
    let mut server = Server::opened();
    let file = server.home.path().join("workspace/long");
    let whole: String = (0..60_000).map(|n| format!("{n} \u{e9}\u{1f600}\t\"\u{1}\n")).collect();
    fs::write(&file, &whole[..900_000]).unwrap();
    // Lines are bounded as well as bytes: 20,000 of them are less than these bytes.
    let job = start(&mut server, json!({"command": "cat", "args": [file]}));
    let pieces = read(&mut server, &job, "text");
    assert!(pieces.len() > 3, "{}", pieces.len());
    assert_eq!(concatenated(&pieces), whole[..900_000]);
    let snapshot = tool(&mut server, "sh_output", json!({"job": job}));
    assert!(snapshot["truncated"]["stdout"]["bytes"].as_u64().unwrap() > 0);
    assert!(server.longest <= 256 * 1024, "an answer has {} bytes", server.longest);
}

#[test]
fn what_a_reader_missed_is_counted() {
    let mut server = Server::opened();
    let file = server.home.path().join("workspace/long");
    let whole: String = (0..400_000).map(|n| format!("{n:07}\n")).collect();
    fs::write(&file, &whole).unwrap();
    let job = start(&mut server, json!({"command": "cat", "args": [file]}));
    ended(&mut server, &job);
    let pieces = read(&mut server, &job, "text");
    let text = concatenated(&pieces);
    let lost: u64 = pieces.iter().filter_map(|piece| piece["truncated"]["stdout"]["bytes"].as_u64()).sum();
    let lines: u64 = pieces.iter().filter_map(|piece| piece["truncated"]["stdout"]["lines"].as_u64()).sum();
    let (head, tail) = text.split_once(&format!("[... {lost} bytes / {lines} lines dropped ...]\n")).unwrap();
    assert_eq!(whole.len() as u64 - lost, 1 << 20);
    assert!(whole.starts_with(head) && whole.ends_with(tail));
    assert_eq!((head.len() + tail.len()) as u64 + lost, whole.len() as u64);
    let bytes: Vec<u8> = read(&mut server, &job, "base64")
        .iter()
        .flat_map(|piece| decoded(piece["stdout"].as_str().unwrap()))
        .collect();
    assert_eq!(bytes, [head, tail].concat().as_bytes());
}

#[test]
fn bytes_come_whole_as_base64() {
    let mut server = Server::opened();
    let file = server.home.path().join("workspace/bytes");
    let whole: Vec<u8> = (0..300_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    fs::write(&file, &whole).unwrap();
    let job = start(&mut server, json!({"command": "cat", "args": [file]}));
    let pieces = read(&mut server, &job, "base64");
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| decoded(piece["stdout"].as_str().unwrap())).collect();
    assert_eq!(bytes, whole);
    assert!(server.longest <= 256 * 1024, "an answer has {} bytes", server.longest);
}

#[test]
fn a_killed_job_is_recorded_as_cancelled_and_one_out_of_time_as_that() {
    let mut server = Server::opened();
    let (job, mark) = follow(&mut server, json!({}));
    assert_eq!(tool(&mut server, "sh_kill", json!({"job": job}))["killed"], true);
    let polled = ended(&mut server, &job);
    assert_eq!(running(&mark), Vec::<String>::new());
    assert_eq!((&polled["exit"], &polled["state"]), (&json!(137), &json!("killed")));
    assert_eq!((&polled["killed"], &polled["timed-out"]), (&json!(true), &json!(false)));

    let job = start(&mut server, json!({"command": "tail", "args": ["-f", mark], "timeout": 0.2}));
    let polled = ended(&mut server, &job);
    assert_eq!((&polled["state"], &polled["timed-out"]), (&json!("killed"), &json!(true)));
    let outcomes: Vec<Value> =
        records_of(&server, "run.end").iter().map(|record| record["outcome"].clone()).collect();
    assert_eq!(outcomes, [json!("cancelled"), json!("timeout")]);
}

#[test]
fn jobs_end_with_the_connection_and_their_ends_are_recorded() {
    let mut server = Server::opened();
    let marks: Vec<PathBuf> = (0..3).map(|_| follow(&mut server, json!({})).1).collect();
    server.to = None;
    assert_eq!(server.end().code(), Some(0), "log: {}", server.log());
    for mark in marks {
        assert_eq!(running(&mark), Vec::<String>::new());
    }
    let ends = records_of(&server, "run.end");
    assert_eq!(ends.len(), 3);
    assert!(ends.iter().all(|end| end["outcome"] == "cancelled"), "{ends:?}");
    assert_eq!(server.records().last().unwrap()["event_type"], "server.stop");
}

#[test]
fn a_job_is_bound_neither_to_the_time_of_a_run_nor_to_the_last_place() {
    let mut server = Server::opened();
    // As many as may run by default; runs beside them still have their places.
    let jobs: Vec<String> = (0..4).map(|_| follow(&mut server, json!({"timeout": 3600})).0).collect();
    let answer = server.ask("tools/call", json!({"name": "sh_start", "arguments": {"command": "true"}}));
    let refusal = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        answer["result"]["isError"] == true && jobs.iter().all(|job| refusal.contains(job.as_str())),
        "{answer}"
    );
    let denied = records_of(&server, "run.denied");
    assert_eq!((denied.len(), &denied[0]["rule_id"]), (1, &json!("limits.max_jobs")), "{denied:?}");
    assert_eq!(tool(&mut server, "sh_run", json!({"command": "true"}))["exit"], 0);
    let times: Vec<Value> =
        records_of(&server, "run.start").iter().map(|record| record["timeout_ms"].clone()).collect();
    assert_eq!(times[..4], vec![json!(3_600_000); 4], "a run would have been held to five minutes");
}

#[test]
fn a_cancelled_request_is_recorded_as_that_and_its_tree_is_gone() {
    let mut server = Server::opened();
    let mark = server.follow();
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}));
    until("the command is gone", || running(&mark).is_empty());
    until("its end is recorded", || !records_of(&server, "run.end").is_empty());
    let ends = records_of(&server, "run.end");
    assert_eq!((ends.len(), &ends[0]["outcome"]), (1, &json!("cancelled")));
}

/// Largest memory that the server has had, in KiB.
fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn many_jobs_that_flood_take_their_budgets_and_no_more() {
    let mut server =
        Server::with_limits("jobs = 20\nmax_jobs = 16\noutput_bytes = \"256KiB\"\noutput_lines = 1000000");
    let file = server.home.path().join("workspace/long");
    let whole: String = (0..1_000_000).map(|n| format!("{n:07}\n")).collect();
    fs::write(&file, &whole).unwrap();
    let before = peak(&server);
    let jobs: Vec<String> =
        (0..16).map(|_| start(&mut server, json!({"command": "cat", "args": [file]}))).collect();
    for job in &jobs {
        ended(&mut server, job);
        let pieces = read(&mut server, job, "base64");
        let lost: u64 =
            pieces.iter().filter_map(|piece| piece["truncated"]["stdout"]["bytes"].as_u64()).sum();
        let bytes: Vec<u8> =
            pieces.iter().flat_map(|piece| decoded(piece["stdout"].as_str().unwrap())).collect();
        assert_eq!(bytes.len() as u64 + lost, whole.len() as u64);
        let (head, tail) = bytes.split_at(64 * 1024);
        assert!(whole.as_bytes().starts_with(head) && whole.as_bytes().ends_with(tail));
    }
    // Both streams of each job, and what comes and goes.
    let most = 16 * 2 * 256 + 32 * 1024;
    let taken = peak(&server) - before;
    assert!(taken <= most, "{taken} KiB are more than {most}");
}
