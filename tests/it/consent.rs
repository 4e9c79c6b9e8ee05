//! Consent over both eras of MCP and on the command line: who is asked, what counts as an answer, and what
//! the records say of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Lab, Ran, Rules};

#[path = "consent/terminal.rs"]
mod terminal;

/// A laboratory whose test program asks.
pub(crate) fn asking(limits: &'static str) -> Lab {
    let commands = "consent = \"ask\"\n[toolkit.sh]\n[toolkit.two]\n".to_owned();
    Lab::new(&Rules { limits, commands, ..Rules::default() })
}

/// A raw client of `serve`.
struct Raw {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
}

impl Raw {
    fn start(lab: &Lab) -> Self {
        let mut command = lab.command("serve");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, last: 0 }
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
        self.to.flush().unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the server is gone");
        serde_json::from_str(&line).unwrap()
    }

    /// The next message of this method; others are passed over.
    fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.read();
            if message["method"] == method {
                return message;
            }
        }
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        self.last
    }

    /// A call in the modern era: its result, or its error.
    fn call(&mut self, params: &Value) -> Value {
        let id = self.send("tools/call", params);
        let answer = self.read();
        assert_eq!(answer["id"], id, "{answer}");
        if answer["result"].is_object() { answer["result"].clone() } else { answer["error"].clone() }
    }

    /// Opens a session of the older era.
    fn legacy(mut self, capabilities: Value) -> Self {
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": {"name": "it", "version": "1"}});
        self.send("initialize", &hello);
        self.read();
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Parameters of a call of the modern era, by a client that can ask.
fn modern(tool: &str, arguments: &Value) -> Value {
    declaring(&json!({"elicitation": {}}), tool, arguments)
}

fn declaring(capabilities: &Value, tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "asker", "version": "1"}}})
}

/// The same call with an answer.
fn answered(params: &Value, question: &Value, action: &str) -> Value {
    let mut params = params.clone();
    params["requestState"] = question["requestState"].clone();
    params["inputResponses"] = json!({"consent": {"action": action, "content": {}}});
    params
}

fn message(question: &Value) -> &str {
    assert_eq!(question["resultType"], "input_required", "{question}");
    let request = &question["inputRequests"]["consent"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["requestedSchema"]["properties"], json!({}));
    request["params"]["message"].as_str().unwrap()
}

#[track_caller]
fn refused(result: &Value, rule: &str) {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][1]["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("Refused by rule {rule}")), "{text}");
}

/// Kind, what was said, question, rule: of each record about a command.
fn told(lab: &Lab) -> Vec<(String, String, String)> {
    let text = |record: &Value, key: &str| record[key].as_str().unwrap_or("").to_owned();
    lab.records()
        .iter()
        .filter(|record| text(record, "event_type").starts_with("run."))
        .map(|record| (text(record, "event_type"), text(record, "consent"), text(record, "consent_id")))
        .collect()
}

fn kinds(lab: &Lab) -> Vec<String> {
    told(lab).into_iter().map(|(kind, said, _)| format!("{kind} {said}").trim_end().to_owned()).collect()
}

#[test]
fn a_modern_client_is_asked_and_what_is_accepted_runs_once() {
    let lab = asking("");
    let mut client = Raw::start(&lab);
    let params = modern(
        "sh_run",
        &json!({"command": lab.probe(), "args": ["argv", "a b", "x\u{202e}y\n"], "stdin": "in\u{1b}"}),
    );
    let question = client.call(&params);
    let shown = message(&question);
    assert!(shown.contains(r"argv 'a b' $'x\u202ey\n'"), "{shown}");
    assert!(shown.contains(r"input:     $'in\x1b'"), "{shown}");
    assert!(shown.contains(lab.ws().to_str().unwrap()), "{shown}");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert_eq!(kinds(&lab), ["run.asked asked"], "nothing has run");

    let result = client.call(&answered(&params, &question, "accept"));
    assert_eq!(result["structuredContent"]["exit"], 0, "{result}");
    refused(&client.call(&answered(&params, &question, "accept")), "consent.replayed");
    assert_eq!(kinds(&lab), ["run.asked asked", "run.start given", "run.end", "run.denied replayed"]);
    let ids: Vec<String> = told(&lab).into_iter().map(|(_, _, id)| id).filter(|id| !id.is_empty()).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| *id == ids[0] && id.len() == 32), "{ids:?}");
    let records = lab.records();
    let start = records.iter().find(|record| record["event_type"] == "run.start").unwrap();
    assert_eq!(start["consent_by"], "elicitation");
    assert_eq!(start["client_name"], "asker");
    assert!(start["consent_who"].as_str().unwrap().contains("not authenticated"));
    let asked = records.iter().find(|record| record["event_type"] == "run.asked").unwrap();
    assert_eq!((&asked["decision"], &asked["rule_id"]), (&json!("ask"), &json!("allow")));
}

#[test]
fn every_other_answer_is_refused_with_an_outcome_of_its_own() {
    let lab = asking("");
    let mut client = Raw::start(&lab);
    let call = |args: &[&str]| modern("sh_run", &json!({"command": lab.probe(), "args": args}));
    let params = call(&["argv", "x"]);
    let mut expected = Vec::new();
    for (action, word) in [("decline", "declined"), ("cancel", "cancelled")] {
        let question = client.call(&params);
        refused(&client.call(&answered(&params, &question, action)), &format!("consent.{word}"));
        refused(&client.call(&answered(&params, &question, "accept")), "consent.replayed");
        expected.extend([
            "run.asked asked".to_owned(),
            format!("run.denied {word}"),
            "run.denied replayed".to_owned(),
        ]);
    }
    let question = client.call(&params);
    expected.push("run.asked asked".to_owned());
    let state = question["requestState"].as_str().unwrap().to_owned();
    let flipped = if state.starts_with('0') { "1" } else { "0" };
    for forged in
        [format!("{flipped}{}", &state[1..]), String::new(), "x".repeat(100_000), state[2..].to_owned()]
    {
        let mut forged_question = question.clone();
        forged_question["requestState"] = json!(forged);
        refused(&client.call(&answered(&params, &forged_question, "accept")), "consent.forged");
        expected.push("run.denied forged".to_owned());
    }
    let others = [
        call(&["argv", "y"]),
        call(&["argv", "x", ""]),
        modern("two_run", &json!({"command": lab.probe(), "args": ["argv", "x"]})),
        modern("sh_start", &json!({"command": lab.probe(), "args": ["argv", "x"]})),
        modern("sh_run", &json!({"command": lab.probe(), "args": ["argv", "x"], "stdin": ""})),
        modern("sh_run", &json!({"command": lab.probe(), "args": ["argv", "x"], "timeout": 7})),
    ];
    for other in others {
        refused(&client.call(&answered(&other, &question, "accept")), "consent.other_command");
        expected.push("run.denied other_command".to_owned());
    }
    // Another server has another key.
    let mut elsewhere = Raw::start(&lab);
    refused(&elsewhere.call(&answered(&params, &question, "accept")), "consent.forged");
    drop(elsewhere);
    expected.push("run.denied forged".to_owned());

    let mut odd = answered(&params, &question, "accept");
    for answer in [json!({"action": "yes"}), json!({}), json!("accept"), json!({"action": true})] {
        odd["inputResponses"] = json!({"consent": answer});
        assert_eq!(client.call(&odd)["code"], -32602);
    }
    assert_eq!(client.call(&answered(&params, &question, "accept"))["structuredContent"]["exit"], 0);
    expected.extend(["run.start given".to_owned(), "run.end".to_owned()]);
    assert_eq!(kinds(&lab), expected);
}

#[test]
fn nothing_in_the_arguments_is_an_answer() {
    let lab = asking("");
    let mut client = Raw::start(&lab);
    let plain = json!({"command": lab.probe(), "args": ["argv", "x"]});
    let question = client.call(&modern("sh_run", &plain));
    for (key, value) in [
        ("consent", json!({"action": "accept"})),
        ("inputResponses", json!({"consent": {"action": "accept"}})),
        ("requestState", question["requestState"].clone()),
        ("approved", json!(true)),
    ] {
        let mut arguments = plain.clone();
        arguments[key] = value;
        let result = client.call(&modern("sh_run", &arguments));
        assert_eq!(result["isError"], true, "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains("unknown argument"), "{result}");
    }
    // An answer to no question, and a question without an answer: it is asked (again).
    let mut bare = modern("sh_run", &plain);
    bare["inputResponses"] = json!({"consent": {"action": "accept"}});
    message(&client.call(&bare));
    let mut silent = modern("sh_run", &plain);
    silent["requestState"] = question["requestState"].clone();
    message(&client.call(&silent));
    silent["inputResponses"] = json!({"other": {"action": "accept"}});
    message(&client.call(&silent));
    assert!(kinds(&lab).iter().all(|kind| kind == "run.asked asked"), "{:?}", kinds(&lab));
}

#[test]
fn an_answer_that_comes_too_late_is_refused() {
    let lab = asking("consent_time = \"1ms\"");
    let mut client = Raw::start(&lab);
    let params = modern("sh_run", &json!({"command": lab.probe(), "args": ["argv"]}));
    let question = client.call(&params);
    std::thread::sleep(Duration::from_millis(5));
    refused(&client.call(&answered(&params, &question, "accept")), "consent.expired");
    assert_eq!(kinds(&lab), ["run.asked asked", "run.denied expired"]);
}

#[test]
fn two_answers_at_the_same_time_run_one_command() {
    let lab = asking("");
    let mut client = Raw::start(&lab);
    let params = modern("sh_run", &json!({"command": lab.probe(), "args": ["argv"]}));
    let question = client.call(&params);
    let both = answered(&params, &question, "accept");
    for _ in 0..6 {
        client.send("tools/call", &both);
    }
    let ran = (0..6).map(|_| client.read()).filter(|answer| answer["result"]["isError"] != true).count();
    assert_eq!(ran, 1);
    let starts = kinds(&lab).iter().filter(|kind| kind.starts_with("run.start")).count();
    assert_eq!(starts, 1);
}

#[test]
fn a_client_that_cannot_ask_is_refused_and_told_so() {
    let lab = asking("");
    let arguments = json!({"command": lab.probe(), "args": ["argv"]});
    let mut client = Raw::start(&lab);
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}}), json!({"sampling": {}})] {
        for tool in ["sh_run", "sh_start"] {
            let result = client.call(&declaring(&capabilities, tool, &arguments));
            refused(&result, "consent.unavailable");
            let text = result["content"][1]["text"].as_str().unwrap();
            assert!(text.contains("declares the elicitation capability"), "{text}");
        }
    }
    let mut old = Raw::start(&lab).legacy(json!({}));
    let result = old.call(&json!({"name": "sh_run", "arguments": arguments}));
    refused(&result, "consent.unavailable");
    assert_eq!(kinds(&lab), ["run.denied unavailable"; 7]);
    let record = lab.records().into_iter().find(|record| record["consent"] == "unavailable").unwrap();
    assert_eq!(record["reason"], "consent_unavailable");
    assert_eq!(record["consent_by"], Value::Null);
}

#[test]
fn a_job_is_asked_about_before_there_is_one() {
    let lab = asking("");
    let mut client = Raw::start(&lab);
    let params = modern("sh_start", &json!({"command": lab.probe(), "args": ["argv"]}));
    let question = client.call(&params);
    assert!(message(&question).contains("in the background"));
    let started = client.call(&answered(&params, &question, "accept"));
    let job = started["structuredContent"]["job"].as_str().unwrap_or_else(|| panic!("{started}"));
    assert!(job.starts_with("j2-"), "the question was no job that stayed: {job}");
    let question = client.call(&params);
    refused(&client.call(&answered(&params, &question, "decline")), "consent.declined");
}

#[test]
fn an_older_client_is_asked_by_a_request_in_between() {
    let lab = asking("");
    let mut client = Raw::start(&lab).legacy(json!({"elicitation": {}}));
    for tool in ["sh_run", "sh_start"] {
        for (action, said) in [("accept", "given"), ("decline", "declined"), ("cancel", "cancelled")] {
            let call = client.send(
                "tools/call",
                &json!({"name": tool, "arguments": {"command": lab.probe(), "args": ["argv"]}}),
            );
            let request = client.until("elicitation/create");
            assert!(request["params"]["message"].as_str().unwrap().contains(" argv\n"));
            // Answers to requests that were never made, and a second answer, reach nobody.
            client.write(&json!({"jsonrpc": "2.0", "id": 987, "result": {"action": "accept"}}));
            client.write(
                &json!({"jsonrpc": "2.0", "id": request["id"], "result": {"action": action, "content": {}}}),
            );
            client.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "accept"}}));
            let result = loop {
                let message = client.read();
                if message["id"] == call {
                    break message["result"].clone();
                }
            };
            match action {
                "accept" => assert_ne!(result["isError"], true, "{result}"),
                _ => refused(&result, &format!("consent.{said}")),
            }
        }
    }
    let said = kinds(&lab);
    for word in ["run.start given", "run.denied declined", "run.denied cancelled"] {
        assert_eq!(said.iter().filter(|kind| *kind == word).count(), 2, "{said:?}");
    }
    assert_eq!(said.iter().filter(|kind| *kind == "run.asked asked").count(), 6);
}

#[test]
fn an_older_client_that_calls_off_or_fails_has_not_agreed() {
    let lab = asking("");
    let mut client = Raw::start(&lab).legacy(json!({"elicitation": {}}));
    let call = json!({"name": "sh_run", "arguments": {"command": lab.probe(), "args": ["argv"]}});
    client.send("tools/call", &call);
    let request = client.read();
    client.write(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "no"}}));
    refused(&client.read()["result"], "consent.cancelled");
    let id = client.send("tools/call", &call);
    assert_eq!(client.read()["method"], "elicitation/create");
    client
        .write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    crate::support::eventually("the end of the question is recorded", || {
        kinds(&lab).iter().filter(|kind| *kind == "run.denied cancelled").count() == 2
    });
    // A state that the modern era hands out counts for nothing here.
    let mut odd = call.clone();
    odd["requestState"] = json!("00");
    odd["inputResponses"] = json!({"consent": {"action": "accept"}});
    client.send("tools/call", &odd);
    loop {
        let message = client.read();
        if message["method"] == "elicitation/create" {
            break;
        }
        assert_eq!(message["method"], "notifications/cancelled", "{message}");
    }
    assert!(kinds(&lab).iter().all(|kind| !kind.starts_with("run.start")));
}

#[test]
fn the_command_line_asks_nobody_without_a_terminal() {
    let lab = asking("");
    let ran = lab.probed(&["argv"]);
    assert_eq!(ran.status, 126, "{ran:?}");
    assert!(ran.stderr.contains("refused (consent.unavailable)"), "{ran:?}");
    assert!(ran.stderr.contains("on a terminal"), "{ran:?}");
    let json = lab.probed_with(&["--json"], &["argv"]).json();
    assert_eq!(json["layer"], "consent");
    assert_eq!(kinds(&lab), ["run.denied unavailable"; 2]);
}

#[test]
fn a_command_line_that_cannot_be_shown_whole_is_not_asked_about() {
    let lab = asking("");
    let mut client = Raw::start(&lab);
    let long = modern("sh_run", &json!({"command": lab.probe(), "args": ["argv", "x".repeat(9000)]}));
    refused(&client.call(&long), "consent.too_long");
    let input = "y".repeat(3000);
    let wide = modern("sh_run", &json!({"command": lab.probe(), "args": ["argv"], "stdin": input}));
    let question = client.call(&wide);
    assert!(message(&question).contains("3000 bytes, too many to be shown, SHA-256 "));
}

#[test]
fn explain_and_check_know_consent() {
    let lab = asking("");
    let explained = |flags: &[&str]| {
        Ran::of(&lab.command("explain").args(flags).arg("--").arg(lab.probe()).output().unwrap())
    };
    let text = explained(&[]);
    assert_eq!(text.status, 0);
    assert!(
        text.stdout.contains("consent      ask") && text.stdout.contains("A person is asked"),
        "{text:?}"
    );
    let json = explained(&["--json"]).json();
    assert_eq!((&json["verdict"], &json["consent"]), (&json!("allow"), &json!("ask")));

    let open = lab.at("open.toml");
    let policy = std::fs::read_to_string(lab.policy()).unwrap();
    std::fs::write(&open, policy.replace("consent = \"ask\"\n", "")).unwrap();
    let corpus = lab.at("corpus.jsonl");
    std::fs::write(&corpus, json!({"argv": [lab.probe()]}).to_string()).unwrap();
    let mut diff = std::process::Command::new(crate::support::BINARY);
    diff.arg("check").arg(&open).arg("--diff").arg(lab.policy()).arg("--corpus").arg(&corpus);
    let diff = Ran::of(&diff.output().unwrap());
    assert!(diff.stdout.contains("1 newly allowed"), "to drop consent allows something: {diff:?}");

    std::fs::write(&open, policy.replace("version = 1\n", "version = 1\nargument_rules = \"off\"\n"))
        .unwrap();
    let off = Ran::of(
        &std::process::Command::new(crate::support::BINARY).arg("check").arg(&open).output().unwrap(),
    );
    assert_ne!(off.status, 0);
    assert!(
        off.stderr.contains("exclude each other") || off.stdout.contains("exclude each other"),
        "{off:?}"
    );
    std::fs::write(&open, policy.replace("consent = \"ask\"\n", "consent = \"yes\"\n")).unwrap();
    let odd = Ran::of(
        &std::process::Command::new(crate::support::BINARY).arg("check").arg(&open).output().unwrap(),
    );
    assert_ne!(odd.status, 0);
}
