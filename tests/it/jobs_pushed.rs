//! What is told without being asked: output of a run to a request that opted in, progress, and lines and
//! events of background jobs.

use cofferdam::run::Stream;
use serde_json::{Value, json};

use crate::mcp_stand_in::{Client, modern};

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Sends a `run` of the held command and hands out its tap.
async fn hold(client: &mut Client, params: Value) -> std::sync::Arc<cofferdam::run::Tap> {
    client.send(json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})).await;
    client.calls.recv().await.unwrap().tap.unwrap()
}

fn run() -> Value {
    json!({"name": "sh_run", "arguments": {"command": "hold"}})
}

fn asking(level: &str) -> Value {
    let mut params = modern(run());
    params["_meta"][LEVEL] = json!(level);
    params
}

/// All notifications up to the answer, and the answer.
async fn until_answered(client: &mut Client) -> (Vec<Value>, Value) {
    let mut heard = Vec::new();
    loop {
        let message = client.next().await;
        if message["method"].is_null() {
            return (heard, message);
        }
        heard.push(message);
    }
}

#[tokio::test]
async fn output_of_a_run_is_streamed_to_a_request_that_asks_for_it() {
    for level in ["info", "debug"] {
        let mut client = Client::start();
        let tap = hold(&mut client, asking(level)).await;
        tap.push(Stream::Stdout, "caf\u{e9} \u{20ac}".as_bytes().split_at(7).0);
        tap.push(Stream::Stderr, b"err\n");
        let first = client.next().await;
        let expected = json!({"jsonrpc": "2.0", "method": "notifications/message", "params":
            {"level": "info", "logger": "sh_run", "data": {"stream": "stdout", "text": "caf\u{e9} ", "untrusted": true}}});
        assert_eq!(first, expected);
        assert_eq!(
            client.next().await["params"]["data"],
            json!({"stream": "stderr", "text": "err\n", "untrusted": true})
        );
        tap.push(Stream::Stdout, "\u{20ac}\n".as_bytes().split_at(1).1);
        tap.push(Stream::Stdout, b"end \xff");
        client.finish.notify_one();
        let (heard, answer) = until_answered(&mut client).await;
        let rest: String = heard.iter().map(|one| one["params"]["data"]["text"].as_str().unwrap()).collect();
        assert_eq!(answer["result"]["structuredContent"]["stdout"], format!("caf\u{e9} {rest}"));
        assert!(rest.ends_with("end \u{fffd}"), "{rest}");
    }
}

#[tokio::test]
async fn a_burst_comes_in_batches_of_bounded_size_and_in_order() {
    let mut client = Client::with_kept(1 << 20);
    let tap = hold(&mut client, asking("info")).await;
    let all: String = (0..30_000).map(|n| format!("{n}\u{e9}\n")).collect();
    tap.push(Stream::Stdout, all.as_bytes());
    client.finish.notify_one();
    let (heard, answer) = until_answered(&mut client).await;
    let batches: Vec<&str> =
        heard.iter().map(|one| one["params"]["data"]["text"].as_str().unwrap()).collect();
    assert!(batches.len() > all.len() / (32 * 1024) && batches.iter().all(|batch| batch.len() <= 32 * 1024));
    assert_eq!(batches.concat(), all);
    assert_eq!(answer["result"]["truncated"], Value::Null);
}

#[tokio::test]
async fn fault_08_nothing_is_streamed_to_those_who_did_not_ask() {
    for params in [modern(run()), asking("warning"), asking("emergency")] {
        let mut client = Client::start();
        let tap = hold(&mut client, params).await;
        tap.push(Stream::Stdout, b"text");
        client.finish.notify_one();
        assert_eq!(until_answered(&mut client).await.0, Vec::<Value>::new());
    }
    let mut client = Client::start();
    client.legacy().await;
    let mut params = run();
    params["_meta"] = json!({LEVEL: "debug"});
    let tap = hold(&mut client, params).await;
    tap.push(Stream::Stdout, b"text");
    client.finish.notify_one();
    assert_eq!(until_answered(&mut client).await.0, Vec::<Value>::new(), "the older era has no such thing");
}

#[tokio::test]
async fn fault_08_a_level_that_is_none_is_an_error_of_the_request() {
    for level in [json!("loud"), json!(3), Value::Null] {
        for tool in ["sh_run", "sh_start"] {
            let mut client = Client::start();
            let mut params = modern(json!({"name": tool, "arguments": {"command": "hold"}}));
            params["_meta"][LEVEL] = level.clone();
            let answer = client.ask(1, "tools/call", params).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            assert!(client.calls.try_recv().is_err(), "nothing was run");
        }
    }
}

#[tokio::test]
async fn fault_08_a_cancelled_request_hears_nothing_more() {
    let mut client = Client::start();
    let tap = hold(&mut client, asking("info")).await;
    tap.push(Stream::Stdout, b"first");
    client.next().await;
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}))
        .await;
    while client.killed.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    tap.push(Stream::Stdout, b"second");
    let answer = client.ask(6, "tools/list", modern(json!({}))).await;
    assert!(answer["result"].is_object());
    assert_eq!(client.heard, Vec::<Value>::new());
}

#[tokio::test]
async fn progress_is_told_to_a_request_with_a_token_in_either_era() {
    for (era, mut params) in [("legacy", run()), ("modern", modern(run()))] {
        let mut client = Client::start();
        if era == "legacy" {
            client.legacy().await;
            params["_meta"] = json!({});
        }
        params["_meta"]["progressToken"] = json!("t1");
        let tap = hold(&mut client, params).await;
        tap.push(Stream::Stdout, b"12345");
        tap.push(Stream::Stderr, b"67");
        let told = client.next().await;
        assert_eq!(told["method"], "notifications/progress", "{era}: {told}");
        assert_eq!(told["params"]["progressToken"], "t1");
        assert_eq!(told["params"]["message"], "7 bytes of output so far");
        assert!(told["params"]["progress"].as_f64().unwrap() > 0.0);
        client.finish.notify_one();
    }
}

/// The method and the state or the data of each notification.
fn kinds(heard: &[Value]) -> Vec<String> {
    let kind = |one: &Value| match one["method"].as_str().unwrap() {
        "notifications/job" => format!("job {}", one["params"]["state"].as_str().unwrap()),
        _ => format!("{} {}", one["params"]["level"].as_str().unwrap(), one["params"]["data"]),
    };
    heard.iter().map(kind).collect()
}

/// Notifications up to the terminal event of a job.
async fn until_ended(client: &mut Client) -> Vec<Value> {
    let mut heard = std::mem::take(&mut client.heard);
    while heard
        .last()
        .is_none_or(|one| one["method"] != "notifications/job" || one["params"]["state"] == "started")
    {
        heard.push(client.next().await);
    }
    heard
}

#[tokio::test]
async fn a_job_tells_its_start_its_output_and_its_end_once_each() {
    let mut client = Client::start();
    client.legacy().await;
    let (job, tap) = client.start_job(1).await;
    tap.push(Stream::Stdout, b"[event] obey\n");
    client.finish.notify_one();
    let heard = until_ended(&mut client).await;
    let data = json!({"job": job, "stream": "stdout", "text": "[event] obey\n", "untrusted": true});
    assert_eq!(
        kinds(&heard)[..3],
        [format!("info \"job {job} started: hold\""), "job started".to_owned(), format!("debug {data}")]
    );
    assert_eq!(kinds(&heard)[4..], ["job exited".to_owned()]);
    assert!(
        kinds(&heard)[3].starts_with(&format!("info \"job {job} exited with status 0 after ")),
        "{heard:?}"
    );
    for one in &heard {
        assert_eq!(one["params"]["logger"], "sh_start");
    }
    let started =
        json!({"job": job, "state": "started", "runtime": 0, "logger": "sh_start", "command": "hold"});
    assert_eq!(heard[1]["params"], started);
    let ended = heard[4]["params"].as_object().unwrap();
    assert_eq!(ended.keys().collect::<Vec<_>>(), ["job", "state", "exit", "runtime", "logger", "command"]);
    assert_eq!(ended["exit"], 0);
    client.ask(2, "ping", json!({})).await;
    assert_eq!(client.heard, Vec::<Value>::new(), "nothing comes after the end");
}

#[tokio::test]
async fn a_session_hears_what_its_level_admits() {
    for (level, expected) in [("info", vec!["started", "exited"]), ("warning", vec![])] {
        let mut client = Client::start();
        client.legacy().await;
        client.ask(1, "logging/setLevel", json!({"level": level})).await;
        let (job, tap) = client.start_job(2).await;
        tap.push(Stream::Stdout, b"text");
        client.finish.notify_one();
        if expected.is_empty() {
            while client.call(3, "sh_poll", json!({"job": job})).await["result"]["structuredContent"]["state"]
                == "running"
            {}
            client.ask(4, "ping", json!({})).await;
            assert_eq!(client.heard, Vec::<Value>::new());
            continue;
        }
        let heard = until_ended(&mut client).await;
        let states: Vec<&str> = heard.iter().filter_map(|one| one["params"]["state"].as_str()).collect();
        assert_eq!(states, expected);
        assert!(heard.iter().all(|one| one["params"]["level"] != "debug"), "{heard:?}");
    }
}

#[tokio::test]
async fn a_job_that_never_ran_has_a_terminal_event_alone_and_a_refused_one_has_none() {
    let mut client = Client::start();
    client.legacy().await;
    client.call(1, "sh_start", json!({"command": "rm"})).await;
    client.call(2, "sh_start", json!({"command": "gone", "args": ["secret argument"]})).await;
    let heard = until_ended(&mut client).await;
    let events: Vec<&Value> = heard.iter().filter(|one| one["method"] == "notifications/job").collect();
    assert_eq!(events.len(), 1, "{heard:?}");
    assert_eq!((&events[0]["params"]["state"], &events[0]["params"]["exit"]), (&json!("exited"), &json!(-1)));
    assert!(!json!(heard).to_string().contains("secret"), "{heard:?}");
}

#[tokio::test]
async fn an_unknown_status_is_absent_and_a_kill_is_told_as_one() {
    let mut client = Client::start();
    client.legacy().await;
    client.call(1, "sh_start", json!({"command": "panic"})).await;
    let heard = until_ended(&mut client).await;
    assert!(!heard.last().unwrap()["params"].as_object().unwrap().contains_key("exit"), "{heard:?}");
    client.calls.recv().await.unwrap();
    let (job, _) = client.start_job(2).await;
    client.call(3, "sh_kill", json!({"job": job})).await;
    let heard = until_ended(&mut client).await;
    let last = &heard.last().unwrap()["params"];
    assert_eq!((&last["state"], &last["exit"]), (&json!("killed"), &json!(137)));
}

#[tokio::test]
async fn fault_09_the_modern_era_is_told_while_the_start_is_in_flight_and_never_after() {
    for (level, expected) in [(Some("info"), vec!["job started"]), (Some("error"), vec![]), (None, vec![])] {
        let mut client = Client::start();
        let mut params = modern(json!({"name": "sh_start", "arguments": {"command": "hold"}}));
        if let Some(level) = level {
            params["_meta"][LEVEL] = json!(level);
        }
        let started = client.ask(1, "tools/call", params).await;
        let events: Vec<String> =
            kinds(&client.heard).into_iter().filter(|kind| kind.starts_with("job ")).collect();
        assert_eq!(events, expected);
        client.heard.clear();
        client.finish.notify_one();
        let job = &started["result"]["structuredContent"]["job"];
        loop {
            let params = modern(json!({"name": "sh_poll", "arguments": {"job": job}}));
            let polled = client.ask(2, "tools/call", params).await;
            if polled["result"]["structuredContent"]["state"] == "exited" {
                break;
            }
        }
        assert_eq!(client.heard, Vec::<Value>::new());
        let refused = client.ask(3, "logging/setLevel", modern(json!({"level": "info"}))).await;
        assert_eq!(refused["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn fault_22_a_client_that_does_not_read_holds_up_no_job() {
    let mut client = Client::start();
    client.legacy().await;
    let (_, tap) = client.start_job(1).await;
    // More than all pipes between the two hold; nothing is read meanwhile.
    for _ in 0..64 {
        tap.push(Stream::Stdout, &[b'x'; 65_536]);
        tokio::task::yield_now().await;
    }
    client.finish.notify_one();
    client.interrupt.take().unwrap().send("SIGTERM").unwrap();
    client.server.await.unwrap().unwrap();
}
