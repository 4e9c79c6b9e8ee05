//! Background jobs over MCP in front of a stand-in that writes what the test tells it to: handles, states,
//! cursors, limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cofferdam::run::Stream;
use serde_json::{Value, json};

use crate::mcp_stand_in::{Client, KEPT, text};

/// The payload of an answer, which is the same twice.
fn payload(answer: &Value) -> &Value {
    let payload = &answer["result"]["structuredContent"];
    assert_eq!(*payload, serde_json::from_str::<Value>(text(answer)).unwrap(), "{answer}");
    payload
}

fn keys(payload: &Value) -> Vec<&str> {
    payload.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The text of a refusal.
fn refused(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["structuredContent"], Value::Null);
    text(answer)
}

async fn ask(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let answer = client.call(7, tool, arguments).await;
    payload(&answer).clone()
}

/// Asks until the job has ended.
async fn ended(client: &mut Client, job: &str) -> Value {
    loop {
        let polled = ask(client, "sh_poll", json!({"job": job})).await;
        if polled["state"] != "running" {
            return polled;
        }
    }
}

#[tokio::test]
async fn a_job_is_started_followed_and_read_to_its_end() {
    let mut client = Client::start();
    client.legacy().await;
    let started = client.call(1, "sh_start", json!({"command": "hold", "args": ["x"], "timeout": 5})).await;
    let started = payload(&started).clone();
    assert_eq!((keys(&started), &started["state"]), (vec!["job", "state"], &json!("running")));
    let job = started["job"].as_str().unwrap();
    assert!(regex::Regex::new("^j1-[0-9a-z]{6}$").unwrap().is_match(job), "{job}");
    let call = client.calls.recv().await.unwrap();
    assert!(call.request.background);
    assert_eq!(call.request.timeout, Some(Duration::from_secs(5)));
    assert_eq!(call.context.tool.as_deref(), Some("sh_start"));
    let tap = call.tap.unwrap();

    tap.push(Stream::Stdout, "caf\u{e9}\n".as_bytes());
    tap.push(Stream::Stderr, b"warned\n");
    let polled = ask(&mut client, "sh_poll", json!({"job": job})).await;
    let all_keys = "exit job killed runtime started-at state stderr-bytes stdout-bytes timed-out"
        .split(' ')
        .collect::<Vec<_>>();
    assert_eq!(keys(&polled), all_keys);
    for (key, value) in [
        ("exit", Value::Null),
        ("job", json!(job)),
        ("killed", json!(false)),
        ("state", json!("running")),
        ("stderr-bytes", json!(7)),
        ("stdout-bytes", json!(6)),
        ("timed-out", json!(false)),
    ] {
        assert_eq!(polled[key], value, "{key}");
    }
    assert!(polled["runtime"].is_number());
    let time = polled["started-at"].as_str().unwrap();
    assert!(regex::Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$").unwrap().is_match(time), "{time}");

    let first = ask(&mut client, "sh_output", json!({"job": job})).await;
    assert_eq!(keys(&first), ["cursor", "eof", "job", "output", "state", "stderr", "stdout"]);
    assert_eq!((&first["stdout"], &first["stderr"]), (&json!("caf\u{e9}\n"), &json!("warned\n")));
    assert_eq!((&first["eof"], &first["state"]), (&json!(false), &json!("running")));
    let nothing = ask(&mut client, "sh_output", json!({"job": job, "cursor": first["cursor"]})).await;
    assert_eq!((&nothing["stdout"], &nothing["cursor"]), (&json!(""), &first["cursor"]));

    tap.push(Stream::Stdout, b"more \xe2\x82");
    let second = ask(&mut client, "sh_output", json!({"job": job, "cursor": first["cursor"]})).await;
    let again = ask(&mut client, "sh_output", json!({"job": job, "cursor": first["cursor"]})).await;
    assert_eq!(second, again, "the same cursor is the same answer");
    assert_eq!(second["stdout"], "more ", "half a character waits");
    tap.push(Stream::Stdout, b"\xac\n");
    client.finish.notify_one();
    let end = ended(&mut client, job).await;
    assert_eq!((&end["exit"], &end["state"], &end["killed"]), (&json!(0), &json!("exited"), &json!(false)));
    let last = ask(&mut client, "sh_output", json!({"job": job, "cursor": second["cursor"]})).await;
    assert_eq!((&last["stdout"], &last["eof"]), (&json!("\u{20ac}\n"), &json!(true)));
    assert_eq!(last["sandbox"]["active"], true);
    let whole = ask(&mut client, "sh_output", json!({"job": job, "cursor": "0"})).await;
    assert_eq!(
        (&whole["stdout"], &whole["stderr"]),
        (&json!("caf\u{e9}\nmore \u{20ac}\n"), &json!("warned\n"))
    );
}

#[tokio::test]
async fn answers_hold_to_the_schemas_of_their_tools() {
    let mut client = Client::start();
    client.legacy().await;
    let listed = client.ask(1, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let schema = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        jsonschema::validator_for(&tool["outputSchema"]).unwrap()
    };
    let started = ask(&mut client, "sh_start", json!({"command": "hold"})).await;
    assert!(schema("sh_start").is_valid(&started));
    let job = &started["job"];
    for (tool, at_end) in
        [("sh_poll", false), ("sh_output", false), ("sh_kill", true), ("sh_poll", true), ("sh_output", true)]
    {
        let answer = ask(&mut client, tool, json!({"job": job})).await;
        let errors: Vec<String> = schema(tool).iter_errors(&answer).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{tool}: {answer}");
        if at_end {
            ended(&mut client, job.as_str().unwrap()).await;
        }
    }
}

#[tokio::test]
async fn a_reader_that_falls_behind_is_told_what_it_missed() {
    let mut client = Client::start();
    client.legacy().await;
    let (job, tap) = client.start_job(1).await;
    let line = |n: usize| format!("line {n:04}\n");
    let all: String = (0..2000).map(line).collect();
    tap.push(Stream::Stdout, all.as_bytes());
    client.finish.notify_one();
    ended(&mut client, &job).await;

    let snapshot = ask(&mut client, "sh_output", json!({"job": job})).await;
    let shown = snapshot["stdout"].as_str().unwrap();
    assert_eq!(snapshot["truncated"]["stdout"]["bytes"], all.len() - KEPT);
    assert!(shown.starts_with("line 0000\n") && shown.ends_with("line 1999\n"), "{shown}");
    assert_eq!((&snapshot["eof"], &snapshot["truncated"]["stderr"]), (&json!(true), &Value::Null));

    let (mut cursor, mut pieces, mut lost) = (json!("0"), String::new(), 0);
    loop {
        let piece =
            ask(&mut client, "sh_output", json!({"job": job, "cursor": cursor, "max_bytes": 500})).await;
        let text = piece["stdout"].as_str().unwrap();
        assert!(text.len() <= 500 + 60, "{text}");
        lost += piece["truncated"]["stdout"]["bytes"].as_u64().unwrap_or(0);
        pieces.push_str(text);
        cursor = piece["cursor"].clone();
        if piece["eof"] == true {
            break;
        }
    }
    let marker = regex::Regex::new(r"\n?\[\.\.\. (\d+) bytes / (\d+) lines dropped \.\.\.\]\n").unwrap();
    let found: Vec<_> = marker.captures_iter(&pieces).collect();
    assert_eq!(found.len(), 1, "{pieces}");
    assert_eq!(found[0][1].parse::<u64>().unwrap(), lost);
    let (head, tail) = pieces.split_once(&found[0][0]).unwrap();
    assert!(all.starts_with(head) && all.ends_with(tail));
    assert_eq!(head.len() as u64 + lost + tail.len() as u64, all.len() as u64);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_counted_or_had_whole_as_base64() {
    let mut client = Client::start();
    client.legacy().await;
    let (job, tap) = client.start_job(1).await;
    tap.push(Stream::Stdout, &[0xff, 0xef, 0xbe]);
    let plain = ask(&mut client, "sh_output", json!({"job": job})).await;
    assert_eq!(plain["stdout"], "\u{fffd}", "a character may begin in the last two bytes");
    client.finish.notify_one();
    ended(&mut client, &job).await;
    let plain = ask(&mut client, "sh_output", json!({"job": job})).await;
    assert_eq!(plain["invalid-bytes"], json!({"stdout": 3}));
    let bytes = ask(&mut client, "sh_output", json!({"job": job, "encoding": "base64"})).await;
    assert_eq!((&bytes["stdout"], &bytes["encoding"]), (&json!("/+++"), &json!("base64")));
    assert_eq!((&bytes["eof"], &bytes["invalid-bytes"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn a_cursor_that_was_not_given_out_is_refused() {
    let mut client = Client::start();
    client.legacy().await;
    let (one, tap) = client.start_job(1).await;
    let (two, _) = client.start_job(2).await;
    tap.push(Stream::Stdout, b"text");
    let first = ask(&mut client, "sh_output", json!({"job": one})).await;
    let cursor = first["cursor"].as_str().unwrap();
    for (job, cursor) in [(&one, "made up"), (&one, ""), (&two, cursor), (&one, &cursor[1..])] {
        let answer = client.call(3, "sh_output", json!({"job": job, "cursor": cursor})).await;
        assert!(refused(&answer).starts_with("cursor is not one that output returned"), "{answer}");
    }
}

#[tokio::test]
async fn kill_answers_at_once_and_leaves_what_has_ended_alone() {
    let mut client = Client::start();
    client.legacy().await;
    let (job, _) = client.start_job(1).await;
    let killed = ask(&mut client, "sh_kill", json!({"job": job})).await;
    assert_eq!(keys(&killed), ["job", "killed", "state"]);
    assert_eq!((&killed["job"], &killed["killed"]), (&json!(job), &json!(true)));
    let end = ended(&mut client, &job).await;
    assert_eq!((&end["exit"], &end["state"]), (&json!(137), &json!("killed")));
    assert_eq!((&end["killed"], &end["timed-out"]), (&json!(true), &json!(false)));
    assert_eq!(client.killed.load(Ordering::SeqCst), 1);

    let (job, _) = client.start_job(2).await;
    client.finish.notify_one();
    ended(&mut client, &job).await;
    for _ in 0..2 {
        let killed = ask(&mut client, "sh_kill", json!({"job": job})).await;
        assert_eq!(killed, json!({"job": job, "killed": false, "state": "exited"}));
    }
    assert_eq!(ended(&mut client, &job).await["exit"], 0);
}

#[tokio::test]
async fn no_more_jobs_run_than_may_and_the_refusal_names_those_in_the_way() {
    let mut client = Client::start();
    client.legacy().await;
    let (one, _) = client.start_job(1).await;
    let (two, _) = client.start_job(2).await;
    let answer = client.call(3, "sh_start", json!({"command": "hold"})).await;
    let expected = format!(
        "2 jobs are running already, as many as the policy allows (limits.max_jobs): {one} (hold), {two} (hold). Wait \
         for one of them or kill it."
    );
    assert_eq!(refused(&answer), expected);
    assert!(
        client.calls.recv().await.unwrap().refused.is_some(),
        "the refusal goes the way of all, to be recorded"
    );
    ask(&mut client, "sh_kill", json!({"job": one})).await;
    ended(&mut client, &one).await;
    client.start_job(4).await;
}

#[tokio::test]
async fn a_job_is_known_to_the_prefix_that_started_it_alone() {
    let mut client = Client::start();
    client.legacy().await;
    let (job, _) = client.start_job(1).await;
    for tool in ["git_poll", "git_output", "git_kill"] {
        let answer = client.call(2, tool, json!({"job": job})).await;
        assert_eq!(
            refused(&answer),
            format!("There is no job {job} here. Use the handle that start returned.")
        );
    }
    assert_eq!(ask(&mut client, "sh_poll", json!({"job": job})).await["killed"], false);
}

#[tokio::test]
async fn of_finished_jobs_the_newest_are_kept_and_the_others_said_to_be_gone() {
    let mut client = Client::start();
    client.legacy().await;
    let mut jobs = Vec::new();
    for n in 0..4 {
        let started = client.call(n, "sh_start", json!({"command": "echo", "args": [n]})).await;
        jobs.push(payload(&started)["job"].as_str().unwrap().to_owned());
        ended(&mut client, jobs.last().unwrap()).await;
    }
    // What was refused was no job and displaces none.
    for n in 0..4 {
        refused(&client.call(n, "sh_start", json!({"command": "rm"})).await);
    }
    let answer = client.call(9, "sh_poll", json!({"job": jobs[0]})).await;
    let gone = "is gone: only the 3 most recently finished jobs are kept (limits.max_finished_jobs). Start a new job.";
    assert_eq!(refused(&answer), format!("Job {} {gone}", jobs[0]));
    let kept = ask(&mut client, "sh_output", json!({"job": jobs[1]})).await;
    assert_eq!((&kept["stdout"], &kept["eof"]), (&json!("1\n"), &json!(true)));
}

#[tokio::test]
async fn a_finished_job_is_kept_for_its_time() {
    let mut client = Client::with_ttl(Duration::from_millis(1));
    client.legacy().await;
    let started = client.call(1, "sh_start", json!({"command": "echo"})).await;
    let job = payload(&started)["job"].as_str().unwrap().to_owned();
    loop {
        let answer = client.call(2, "sh_poll", json!({"job": job})).await;
        if answer["result"]["isError"] == true {
            let gone = "finished more than 0.001 s ago and is gone (limits.job_ttl). Start a new job.";
            assert_eq!(refused(&answer), format!("Job {job} {gone}"));
            return;
        }
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_spawned_is_a_job_with_the_reason_and_one_refused_is_none() {
    let mut client = Client::start();
    client.legacy().await;
    let started = ask(&mut client, "sh_start", json!({"command": "gone"})).await;
    assert_eq!(started["state"], "exited");
    let polled = ask(&mut client, "sh_poll", json!({"job": started["job"]})).await;
    assert_eq!((&polled["exit"], &polled["state"]), (&json!(-1), &json!("exited")));
    let output = ask(&mut client, "sh_output", json!({"job": started["job"]})).await;
    let reason = "Failed to spawn process gone: no such file or directory (error code -2)";
    assert_eq!((&output["stderr"], &output["eof"]), (&json!(reason), &json!(true)));
    assert_eq!(output["sandbox"], Value::Null);

    let answer = client.call(2, "sh_start", json!({"command": "rm"})).await;
    assert_eq!(refused(&answer), "Command 'rm' is not allowlisted. Allowed: echo, sleep");
    let answer = client.call(3, "sh_start", json!({"command": "echo", "args": "x"})).await;
    assert_eq!(refused(&answer), "args must be an array of strings, not a string");
}

#[tokio::test]
async fn a_job_whose_task_panics_has_ended_and_holds_no_place() {
    let mut client = Client::start();
    client.legacy().await;
    for id in 0..3 {
        let started = ask(&mut client, "sh_start", json!({"command": "panic"})).await;
        let job = started["job"].as_str().unwrap();
        assert_eq!(ended(&mut client, job).await["exit"], Value::Null);
        let answer = client.call(id, "sh_output", json!({"job": job})).await;
        assert!(refused(&answer).starts_with("the job failed inside of the server"), "{answer}");
    }
}

#[tokio::test]
async fn a_job_outlives_the_cancellation_of_its_request_and_ends_with_the_connection() {
    let mut client = Client::start();
    client.legacy().await;
    let (job, _) = client.start_job(1).await;
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    let polled = ask(&mut client, "sh_poll", json!({"job": job})).await;
    assert_eq!((&polled["state"], &polled["killed"]), (&json!("running"), &json!(false)));
    client.to = None;
    client.server.await.unwrap().unwrap();
    assert_eq!(client.killed.load(Ordering::SeqCst), 1, "the server waits until its jobs have ended");
}
