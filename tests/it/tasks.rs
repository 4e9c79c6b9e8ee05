//! Jobs as tasks of the protocol's extension, for clients that declare it: in front of a stand-in.

use std::time::Duration;

use cofferdam::run::Stream;
use serde_json::{Value, json};

use crate::mcp_stand_in::{Client, modern, text};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Parameters of a client that takes tasks.
fn declared(params: Value) -> Value {
    let mut params = modern(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"extensions": {EXTENSION: {}}});
    params
}

fn start(command: &str) -> Value {
    json!({"name": "sh_start", "arguments": {"command": command}})
}

async fn task(client: &mut Client, id: i64, method: &str, task: &str) -> Value {
    client.ask(id, method, declared(json!({"taskId": task, "inputResponses": {}}))).await
}

/// Asks until the task is no longer at work.
async fn ended(client: &mut Client, id: i64, name: &str) -> Value {
    loop {
        let answer = task(client, id, "tasks/get", name).await;
        if answer["result"]["status"] != "working" {
            return answer["result"].clone();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_job_is_a_task_and_its_result_holds_what_poll_and_output_say() {
    let mut client = Client::with_kept(4096);
    let found = client.ask(1, "server/discover", modern(json!({}))).await;
    assert_eq!(found["result"]["capabilities"]["extensions"][EXTENSION], json!({}));
    let created = client.ask(2, "tools/call", declared(start("hold"))).await["result"].clone();
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    assert_eq!(created["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "cofferdam");
    assert_eq!(created["ttlMs"], Value::Null);
    assert!(created["pollIntervalMs"].as_u64().unwrap() > 0);
    let name = created["taskId"].as_str().unwrap().to_owned();
    let (job, seal) = name.rsplit_once('.').unwrap();
    assert_eq!(seal.len(), 32, "128 bits that nobody guesses");
    assert!(created["statusMessage"].as_str().unwrap().contains(job));

    let working = task(&mut client, 3, "tasks/get", &name).await["result"].clone();
    assert_eq!((&working["resultType"], &working["status"]), (&json!("complete"), &json!("working")));
    assert_eq!(working["result"], Value::Null);
    assert_eq!(working["createdAt"], created["createdAt"]);
    // The same job by its handle.
    let polled =
        client.ask(4, "tools/call", modern(json!({"name": "sh_poll", "arguments": {"job": job}}))).await;
    assert_eq!(polled["result"]["structuredContent"]["state"], "running");

    let tap = client.calls.recv().await.unwrap().tap.unwrap();
    tap.push(Stream::Stdout, b"built\n");
    tap.push(Stream::Stderr, b"warned\n");
    client.finish.notify_one();
    let done = ended(&mut client, 5, &name).await;
    assert_eq!(done["status"], "completed");
    let result = &done["result"];
    let said = &result["structuredContent"];
    assert_eq!((&said["exit"], &said["job"], &said["state"]), (&json!(0), &json!(job), &json!("exited")));
    assert_eq!((&said["stdout"], &said["stderr"]), (&json!("built\n"), &json!("warned\n")));
    assert_eq!((&said["eof"], &said["stdout-bytes"]), (&json!(true), &json!(6)));
    assert_eq!(text(&json!({"result": result})), said.to_string());
    assert!(done["ttlMs"].as_u64().unwrap() >= 600_000);
    let listed = client.ask(6, "tools/list", declared(json!({}))).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let schema = &tools.iter().find(|tool| tool["name"] == "sh_start").unwrap()["outputSchema"];
    assert!(jsonschema::validator_for(schema).unwrap().is_valid(said), "the result is one of the tool");
}

#[tokio::test]
async fn a_task_is_cancelled_once_and_only_by_its_whole_id() {
    let mut client = Client::start();
    let created = client.ask(1, "tools/call", declared(start("sleep"))).await["result"].clone();
    let name = created["taskId"].as_str().unwrap().to_owned();
    let (job, seal) = name.rsplit_once('.').unwrap();
    let other = if seal.starts_with('0') { "1" } else { "0" };
    let wrong = [
        job.to_owned(),
        format!("{job}."),
        format!("{job}.{other}{}", &seal[1..]),
        format!("{job}.{}", &seal[..30]),
        format!("j9-aaaaaa.{seal}"),
        String::new(),
        name.to_uppercase(),
    ];
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for wrong in &wrong {
            let answer = task(&mut client, 2, method, wrong).await;
            assert_eq!(answer["error"]["code"], -32602, "{method} {wrong}: {answer}");
        }
    }
    assert_eq!(task(&mut client, 3, "tasks/get", &name).await["result"]["status"], "working");
    let update = task(&mut client, 4, "tasks/update", &name).await;
    assert_eq!(update["result"]["resultType"], "complete", "{update}");
    assert_eq!(task(&mut client, 5, "tasks/cancel", &name).await["result"]["resultType"], "complete");
    let done = ended(&mut client, 6, &name).await;
    assert_eq!((&done["status"], &done["result"]), (&json!("cancelled"), &Value::Null));
    assert_eq!(task(&mut client, 7, "tasks/cancel", &name).await["result"]["resultType"], "complete");
    assert_eq!(ended(&mut client, 8, &name).await["status"], "cancelled");
}

#[tokio::test]
async fn whatever_a_command_became_its_task_is_completed() {
    let mut client = Client::start();
    let created = client.ask(1, "tools/call", declared(start("gone"))).await["result"].clone();
    let done = ended(&mut client, 2, created["taskId"].as_str().unwrap()).await;
    assert_eq!(done["status"], "completed");
    assert_eq!(done["result"]["structuredContent"]["exit"], -1);
    let refused = client.ask(3, "tools/call", declared(start("rm"))).await;
    assert_eq!(refused["result"]["isError"], true, "what is refused becomes no task: {refused}");
}

#[tokio::test]
async fn a_client_that_declares_nothing_gets_a_handle_and_no_tasks() {
    let mut client = Client::start();
    let started = client.ask(1, "tools/call", modern(start("sleep"))).await;
    assert!(started["result"]["structuredContent"]["job"].is_string(), "{started}");
    let answer = client.ask(2, "tasks/get", modern(json!({"taskId": "j1-aaaaaa.00"}))).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    let shapeless = client.ask(3, "tasks/get", declared(json!({"taskId": 7}))).await;
    assert_eq!(shapeless["error"]["code"], -32602, "{shapeless}");

    let mut old = Client::start();
    old.legacy().await;
    let started = old.call(1, "sh_start", json!({"command": "sleep"})).await;
    assert!(started["result"]["structuredContent"]["job"].is_string(), "{started}");
}

#[tokio::test]
async fn a_task_whose_time_is_over_is_gone() {
    let mut client = Client::with_ttl(Duration::from_millis(1));
    let created = client.ask(1, "tools/call", declared(start("echo"))).await["result"].clone();
    let name = created["taskId"].as_str().unwrap().to_owned();
    loop {
        let answer = task(&mut client, 2, "tasks/get", &name).await;
        if answer["error"]["code"] == -32602 {
            break;
        }
        assert!(answer["result"].is_object(), "{answer}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
