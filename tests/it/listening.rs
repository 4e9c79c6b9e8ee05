//! Subscriptions of the 2026-07-28 era, in front of a stand-in: tasks by their ids, and events of jobs.

use std::time::Duration;

use cofferdam::run::Stream;
use serde_json::{Value, json};

use crate::mcp_stand_in::{Client, modern};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const JOBS: &str = "dev.cofferdam/jobs";
const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn declaring(extensions: &[&str], params: Value) -> Value {
    let mut params = modern(params);
    let all: serde_json::Map<String, Value> =
        extensions.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"extensions": all});
    params
}

async fn listen(client: &mut Client, id: &str, filter: Value) -> Value {
    let params = declaring(&[TASKS, JOBS], json!({"notifications": filter}));
    client
        .send(json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}))
        .await;
    let acknowledged = client.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    assert_eq!(acknowledged["params"]["_meta"][ID], id);
    acknowledged["params"]["notifications"].clone()
}

async fn start(client: &mut Client, id: i64, command: &str) -> String {
    let call = json!({"name": "sh_start", "arguments": {"command": command}});
    let created = client.ask(id, "tools/call", declaring(&[TASKS], call)).await["result"].clone();
    created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

#[tokio::test]
async fn fault_20_a_task_is_told_of_when_it_is_listened_to_and_when_it_ends() {
    let mut client = Client::with_kept(4096);
    let task = start(&mut client, 1, "hold").await;
    let accepted = listen(&mut client, "ear", json!({"taskIds": [task, "j9-none.00", task]})).await;
    assert_eq!(accepted, json!({"taskIds": [task]}), "what is not there is not agreed to");
    let now = client.next().await;
    assert_eq!((&now["method"], &now["params"]["_meta"][ID]), (&json!("notifications/tasks"), &json!("ear")));
    assert_eq!((&now["params"]["taskId"], &now["params"]["status"]), (&json!(task), &json!("working")));

    let tap = client.calls.recv().await.unwrap().tap.unwrap();
    tap.push(Stream::Stdout, b"built\n");
    client.finish.notify_one();
    let last = client.next().await;
    assert_eq!(last["params"]["status"], "completed", "{last}");
    assert_eq!(last["params"]["_meta"][ID], "ear");
    assert_eq!(last["params"]["result"]["structuredContent"]["stdout"], "built\n");
    let mut got =
        client.ask(2, "tasks/get", declaring(&[TASKS], json!({"taskId": task}))).await["result"].clone();
    let mut told = last["params"].clone();
    for one in [&mut got, &mut told] {
        let one = one.as_object_mut().unwrap();
        one.remove("_meta");
        one.remove("resultType");
    }
    assert_eq!(told, got, "what tasks/get says");
    // One that is over already is told of at once.
    listen(&mut client, "late", json!({"taskIds": [task]})).await;
    let late = client.next().await;
    assert_eq!(
        (&late["params"]["status"], &late["params"]["_meta"][ID]),
        (&json!("completed"), &json!("late"))
    );
}

#[tokio::test]
async fn jobs_are_told_of_by_one_event_for_the_start_and_one_for_the_end() {
    let mut client = Client::start();
    assert_eq!(
        listen(&mut client, "jobs", json!({JOBS: true, "toolsListChanged": true})).await,
        json!({JOBS: true})
    );
    let task = start(&mut client, 1, "sleep").await;
    let (job, _) = task.rsplit_once('.').unwrap();
    let mut heard = std::mem::take(&mut client.heard);
    if heard.is_empty() {
        heard.push(client.next().await);
    }
    client.ask(2, "tasks/cancel", declaring(&[TASKS], json!({"taskId": task}))).await;
    heard.append(&mut client.heard);
    if heard.len() < 2 {
        heard.push(client.next().await);
    }
    let states: Vec<&Value> = heard.iter().map(|event| &event["params"]["state"]).collect();
    assert_eq!(states, ["started", "killed"]);
    for event in &heard {
        let params = &event["params"];
        assert_eq!((&event["method"], &params["_meta"][ID]), (&json!("notifications/job"), &json!("jobs")));
        assert_eq!((&params["job"], &params["logger"]), (&json!(job), &json!("sh_start")));
        assert_eq!(params["command"], "sleep");
    }
    assert_eq!(heard[0]["params"].get("exit"), None);
    // What could not be spawned has a terminal event alone; what is refused is no job.
    start(&mut client, 3, "gone").await;
    if client.heard.is_empty() {
        let event = client.next().await;
        client.heard.push(event);
    }
    let refused = json!({"name": "sh_start", "arguments": {"command": "rm"}});
    client.ask(4, "tools/call", modern(refused)).await;
    client.ask(5, "tools/list", modern(json!({}))).await;
    assert_eq!(client.heard.len(), 1, "{:?}", client.heard);
    let params = &client.heard[0]["params"];
    assert_eq!((&params["state"], &params["exit"]), (&json!("exited"), &json!(-1)));
}

#[tokio::test]
async fn a_subscription_ends_with_its_request_and_with_the_server() {
    let mut client = Client::start();
    listen(&mut client, "one", json!({JOBS: true})).await;
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "one"}}))
        .await;
    start(&mut client, 1, "sleep").await;
    client.ask(2, "tools/list", modern(json!({}))).await;
    assert!(client.heard.is_empty(), "nothing more is said: {:?}", client.heard);
    // An id is free again, and sixteen fit at the same time.
    for number in 0..16 {
        listen(&mut client, &format!("ear {number}"), json!({})).await;
    }
    let params = declaring(&[], json!({"notifications": {}}));
    let busy = client.ask(3, "subscriptions/listen", params).await;
    assert_eq!(busy["error"]["code"], -32600, "{busy}");
    assert!(busy["error"]["message"].as_str().unwrap().contains("16 subscriptions"), "{busy}");

    client.interrupt.take().unwrap().send("SIGTERM").unwrap();
    let mut ended = Vec::new();
    let patience = Duration::from_secs(60);
    while let Ok(Ok(Some(line))) = tokio::time::timeout(patience, client.from.next_line()).await {
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["result"].is_object() {
            assert_eq!(message["result"]["resultType"], "complete", "{message}");
            assert_eq!(message["result"]["_meta"][ID], message["id"]);
            ended.push(message["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ended.len(), 16, "each is told that it is over: {ended:?}");
}

#[tokio::test]
async fn what_was_not_declared_or_has_no_shape_is_refused() {
    let mut client = Client::start();
    let ask = |extensions: &[&str], filter: Value| declaring(extensions, json!({"notifications": filter}));
    for (declared, filter, missing) in
        [(JOBS, json!({"taskIds": []}), TASKS), (TASKS, json!({JOBS: true}), JOBS)]
    {
        let answer = client.ask(1, "subscriptions/listen", ask(&[declared], filter)).await;
        assert_eq!(answer["error"]["code"], -32021, "{answer}");
        assert_eq!(answer["error"]["data"]["requiredCapabilities"]["extensions"], json!({missing: {}}));
    }
    for filter in [json!(5), json!({"taskIds": 5}), json!({"toolsListChanged": 5}), json!({JOBS: 5})] {
        let answer = client.ask(2, "subscriptions/listen", ask(&[TASKS, JOBS], filter)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let found = client.ask(3, "server/discover", modern(json!({}))).await;
    assert_eq!(found["result"]["capabilities"]["extensions"], json!({TASKS: {}, JOBS: {}}));
    let mut old = Client::start();
    old.legacy().await;
    let answer = old.ask(4, "subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}
