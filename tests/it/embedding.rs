//! The library in somebody else's MCP server (`examples/embedded.rs`): its tools beside ours, and what ends with it.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::hosts::example;
use crate::support::{Lab, Served, eventually, records};

struct Host {
    lab: Lab,
    served: Served,
}

fn host() -> Host {
    let lab = Lab::plain();
    let mut command = example("embedded");
    command.arg(lab.ws()).arg(lab.log());
    Host { served: Served::by(command), lab }
}

impl Host {
    fn ask(&mut self, name: &str, arguments: Value) -> Value {
        let id = self.served.send("tools/call", json!({"name": name, "arguments": arguments}));
        self.served.answer(id)
    }

    fn events(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        records(&self.lab.log()).iter().map(|r| (text(&r["event_type"]), text(&r["outcome"]))).collect()
    }
}

#[test]
fn the_tools_of_the_host_stand_beside_ours_and_both_answer() {
    let mut host = host();
    let instructions = host.served.hello["instructions"].as_str().unwrap();
    assert!(
        instructions.starts_with("greet says hello.") && instructions.contains("shell_run"),
        "{instructions}"
    );
    let own = json!({"name": "embedded", "version": env!("CARGO_PKG_VERSION")});
    assert_eq!(host.served.hello["serverInfo"], own);
    let id = host.served.send("tools/list", json!({}));
    let listed = host.served.answer(id);
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let ours = ["allowed", "kill", "output", "poll", "run", "start"].map(|verb| format!("shell_{verb}"));
    assert_eq!(names[0], "greet");
    assert_eq!(names[1..], ours);

    let hello = host.ask("greet", json!({}));
    assert_eq!(hello["result"]["content"][0]["text"], "hello");
    let ran = host.ask("shell_run", json!({"command": "cat", "args": ["plain"]}));
    assert_eq!(ran["result"]["structuredContent"]["stdout"], "plain\n");
    assert_eq!(ran["result"]["structuredContent"]["sandbox"]["active"], true);
    assert_eq!(ran["result"]["_meta"], Value::Null);
    let outside = host.lab.text("outside/secret");
    let refused = host.ask("shell_run", json!({"command": "cat", "args": [outside]}));
    assert_eq!(refused["result"]["isError"], true);
    assert!(refused["result"]["content"][1]["text"].as_str().unwrap().contains("path.outside"), "{refused}");
    assert_eq!(host.ask("shell_fly", json!({}))["error"]["message"], "Unknown tool: shell_fly");
    assert_eq!(host.ask("shell_run", json!({"command": "cat", "argv": []}))["result"]["isError"], true);

    let events = host.events();
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["server.start", "policy.load", "run.start", "run.end", "run.denied"]);
    let records = records(&host.lab.log());
    assert_eq!((&records[2]["tool"], &records[2]["toolkit"]), (&json!("shell_run"), &json!("shell")));
    assert_eq!(records[2]["transport"], "stdio");
    assert_eq!(host.served.stop(), Some(0));
}

#[test]
fn jobs_and_cancelled_runs_of_an_embedded_server_end_and_are_recorded() {
    let mut host = host();
    let run = host
        .served
        .send("tools/call", json!({"name": "shell_run", "arguments": {"command": "sleep", "args": ["600"]}}));
    let begun = |host: &Host| host.events().iter().filter(|(kind, _)| kind == "run.start").count();
    eventually("the run has begun", || begun(&host) == 1);
    host.served.cancel(run);
    eventually("it is cancelled", || host.events().contains(&("run.end".into(), "cancelled".into())));
    let job = host.ask("shell_start", json!({"command": "sleep", "args": ["600"]}));
    let job = job["result"]["structuredContent"].clone();
    assert_eq!(job["state"], "running", "{job}");
    let polled = host.ask("shell_poll", json!({"job": job["job"]}));
    assert_eq!(polled["result"]["structuredContent"]["state"], "running");
    let Host { lab, served } = host;
    assert_eq!(served.stop(), Some(0), "the end waits for no command");
    let ends: Vec<Value> = records(&lab.log()).into_iter().filter(|r| r["event_type"] == "run.end").collect();
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert!(ends.iter().all(|end| end["outcome"] == "cancelled" && end["procs_left"] == 0), "{ends:?}");
    assert_eq!(records(&lab.log()).last().unwrap()["event_type"], "server.stop");
}

/// A program of its own, linked with the library that the tests are linked with.
fn starts_without_asking() -> std::process::Output {
    // This test program never calls become_launcher_if_asked: the harness has its main.
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "embedding::a_start_in_a_program_that_cannot_be_its_launcher",
        "--ignored",
        "--nocapture",
    ]);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
#[ignore = "it is the program of the test below"]
fn a_start_in_a_program_that_cannot_be_its_launcher() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("ws")).unwrap();
    let policy =
        cofferdam::PolicyBuilder::new(dir.path().join("ws")).audit_file(dir.path().join("log/a.jsonl"));
    let error = cofferdam::Appliance::start(policy.allow(["cat"]).build().unwrap()).unwrap_err();
    println!("refused: {error}");
}

#[test]
fn a_program_that_would_not_know_that_it_is_the_launcher_is_refused_at_start() {
    let output = starts_without_asking();
    let text = String::from_utf8_lossy(&output.stdout);
    let remedy = "call cofferdam::become_launcher_if_asked() as the first thing in main";
    assert!(output.status.success() && text.contains("refused: sandbox:") && text.contains(remedy), "{text}");
}
