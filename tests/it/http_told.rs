//! What clients over HTTP are told and asked: subscriptions, and consent that belongs to one principal.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::http_client::{At, OTHER, Serving, TOKEN, Wire, lab, post, two};
use crate::support::eventually;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const JOBS: &str = "dev.cofferdam/jobs";
const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A request of the newer era by a client that declares all that there is.
fn request(token: &str, id: &Value, method: &str, name: Option<&str>, mut params: Value) -> Vec<u8> {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"elicitation": {}, "extensions": {TASKS: {}, JOBS: {}}}});
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let auth = format!("Bearer {token}");
    let mut headers = vec![
        ("Authorization", auth.as_str()),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
    ];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    post(&headers, message.to_string().as_bytes())
}

fn call(at: &At, token: &str, tool: &str, params: &Value) -> Value {
    at.raw(&request(token, &json!(1), "tools/call", Some(tool), params.clone())).json()["result"].clone()
}

/// An open stream of events.
struct Ear(BufReader<Box<dyn Wire>>);

impl Ear {
    fn open(at: &At, token: &str, id: &str, filter: &Value) -> Self {
        let mut wire = at.connect();
        let params = json!({"notifications": filter});
        wire.write_all(&request(token, &json!(id), "subscriptions/listen", None, params)).unwrap();
        Self(BufReader::new(wire))
    }

    fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
            if let Some(message) =
                line.strip_prefix("data:").and_then(|text| serde_json::from_str(text.trim()).ok())
            {
                return message;
            }
        }
    }
}

#[test]
fn tasks_and_jobs_of_a_principal_are_told_over_http_and_those_of_another_are_not() {
    let lab = lab(&two(""));
    let serving = Serving::tcp(&lab, &[]);
    let start = json!({"name": "sh_start", "arguments": {"command": lab.probe(), "args": ["pause"]}});
    let mut jobs = Ear::open(&serving.at, TOKEN, "jobs", &json!({JOBS: true}));
    let first = jobs.next();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    assert_eq!(first["params"]["notifications"], json!({JOBS: true}));
    assert_eq!(first["params"]["_meta"][ID], "jobs");
    let mut other = Ear::open(&serving.at, OTHER, "other", &json!({JOBS: true}));
    other.next();

    let task = call(&serving.at, TOKEN, "sh_start", &start)["taskId"].as_str().unwrap().to_owned();
    let event = jobs.next();
    assert_eq!(
        (&event["method"], &event["params"]["state"]),
        (&json!("notifications/job"), &json!("started"))
    );
    let mut ear = Ear::open(&serving.at, TOKEN, "task", &json!({"taskIds": [task]}));
    assert_eq!(ear.next()["params"]["notifications"], json!({"taskIds": [task]}));
    assert_eq!(ear.next()["params"]["status"], "working");
    let mut thief = Ear::open(&serving.at, OTHER, "thief", &json!({"taskIds": [task]}));
    assert_eq!(thief.next()["params"]["notifications"], json!({"taskIds": []}), "it is not there for bob");

    let cancel = request(TOKEN, &json!(2), "tasks/cancel", Some(&task), json!({"taskId": task}));
    assert_eq!(serving.at.raw(&cancel).json()["result"]["resultType"], "complete");
    let last = ear.next();
    assert_eq!(
        (&last["params"]["status"], &last["params"]["_meta"][ID]),
        (&json!("cancelled"), &json!("task"))
    );
    assert_eq!(jobs.next()["params"]["state"], "killed");
    // Bob's own job is the first thing that he hears of.
    call(&serving.at, OTHER, "sh_start", &start);
    let heard = other.next();
    assert_eq!(heard["params"]["state"], "started");
    assert!(!task.starts_with(heard["params"]["job"].as_str().unwrap()), "{heard}");
    eventually("one job is left", || lab.alive().len() == 1);

    // Who hangs up makes room, and the end of the server is told.
    for number in 0..20 {
        let mut ear = Ear::open(&serving.at, OTHER, &format!("short {number}"), &json!({}));
        let mut told = ear.next();
        while told["error"]["code"] == -32600 {
            ear = Ear::open(&serving.at, OTHER, &format!("short {number}"), &json!({}));
            told = ear.next();
        }
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
    }
    assert_eq!(serving.stop(), Some(0));
    loop {
        let message = jobs.next();
        if message["id"] == "jobs" {
            assert_eq!(message["result"]["resultType"], "complete", "{message}");
            assert_eq!(message["result"]["_meta"][ID], "jobs");
            break;
        }
    }
}

#[test]
fn the_answer_of_one_principal_is_none_of_another_and_good_once() {
    let lab = lab(&format!("consent = \"ask\"\n{}", two("")));
    let serving = Serving::tcp(&lab, &[]);
    let mut params = json!({"name": "sh_run", "arguments": {"command": lab.probe(), "args": ["say", "x"]}});
    let question = call(&serving.at, TOKEN, "sh_run", &params);
    assert_eq!(question["resultType"], "input_required", "{question}");
    params["requestState"] = question["requestState"].clone();
    params["inputResponses"] = json!({"consent": {"action": "accept", "content": {}}});
    let refused = |result: &Value, rule: &str| {
        let text = result["content"][1]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        assert!(text.starts_with(&format!("Refused by rule consent.{rule}")), "{text}");
    };
    refused(&call(&serving.at, OTHER, "sh_run", &params), "other_caller");
    let mut altered = params.clone();
    altered["arguments"]["args"] = json!(["say", "y"]);
    refused(&call(&serving.at, TOKEN, "sh_run", &altered), "other_command");
    let ran = call(&serving.at, TOKEN, "sh_run", &params);
    assert_eq!(ran["structuredContent"]["stdout"], "x\n", "{ran}");
    refused(&call(&serving.at, TOKEN, "sh_run", &params), "replayed");
    serving.stop();
    let of: Vec<(Value, Value)> = lab
        .records()
        .iter()
        .filter(|record| record["event_type"] == "run.denied" || record["event_type"] == "run.start")
        .map(|record| (record["principal"].clone(), record["consent"].clone()))
        .collect();
    let expected =
        [("bob", "other_caller"), ("alice", "other_command"), ("alice", "given"), ("alice", "replayed")];
    assert_eq!(of, expected.map(|(who, what)| (json!(who), json!(what))));
}
