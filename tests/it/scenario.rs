//! The shared scenario of `tests/clients/scenario.json` by raw JSON-RPC lines, in both protocol eras; the official
//! clients drive the same one (`tests/clients/SCENARIO.md` says what its steps mean).

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mcp_stdio::{running, until};

/// Bound on waiting for what has to happen: a failure, never a measure of speed.
const PATIENCE: Duration = Duration::from_secs(60);

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn content(file: &Value) -> String {
    match file["text"].as_str() {
        Some(text) => text.to_owned(),
        None => {
            let (rest, lines) = (file["numbered"].as_str().unwrap(), file["lines"].as_u64().unwrap());
            (0..lines).map(|n| format!("{n:05}{rest}")).collect()
        }
    }
}

/// A workspace, a policy and the words that steps may use.
struct Stage {
    _base: TempDir,
    policy: PathBuf,
    words: HashMap<String, String>,
}

impl Stage {
    fn new(scenario: &Value) -> Self {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["workspace", "log", "bin"] {
            fs::create_dir(at(name)).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let built =
            Command::new("cc").arg("-o").arg(at("bin/sleeper")).arg(clients().join("sleeper.c")).status();
        assert!(built.unwrap().success());
        let paths = [("workspace", "workspace"), ("audit", "log/audit.jsonl"), ("sleeper", "bin/sleeper")];
        let mut words: HashMap<String, String> = paths
            .iter()
            .map(|(word, path)| ((*word).to_owned(), at(path).to_str().unwrap().to_owned()))
            .collect();
        for (name, file) in scenario["files"].as_object().unwrap() {
            fs::write(at("workspace").join(name), content(file)).unwrap();
            words.insert(name.clone(), content(file));
        }
        for mark in scenario["marks"].as_array().unwrap() {
            words.insert(mark.as_str().unwrap().to_owned(), format!("mark-{}", uuid::Uuid::new_v4()));
        }
        let policy = at("policy.toml");
        let stage = Self { _base: base, policy, words };
        let lines = stage.filled(&scenario["policy"]);
        let lines: Vec<&str> = lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        fs::write(&stage.policy, lines.join("\n")).unwrap();
        stage
    }

    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let words = Regex::new(r"\{([a-z.-]+)\}").unwrap();
                Value::String(
                    words.replace_all(text, |hit: &regex::Captures| &*self.words[&hit[1]]).into_owned(),
                )
            }
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, item)| (key.clone(), self.filled(item))).collect()
            }
            other => other.clone(),
        }
    }

    fn recorded(&self, wanted: &Value) -> bool {
        let text = fs::read_to_string(&self.words["audit"]).unwrap();
        text.lines().any(|line| holds(wanted, &serde_json::from_str(line).unwrap()))
    }
}

/// Whether `object` has the members of `wanted`.
fn holds(wanted: &Value, object: &Value) -> bool {
    wanted.as_object().is_none_or(|wanted| wanted.iter().all(|(key, value)| object[key] == *value))
}

/// What came of a call.
struct Done {
    good: bool,
    answer: Value,
    told: Vec<Value>,
}

/// One connection.
struct Session {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    modern: bool,
    last: u64,
}

impl Session {
    fn start(stage: &Stage, modern: bool) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .args(["serve", "--policy"])
            .arg(&stage.policy)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (heard, from) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                // The test has ended when nobody listens.
                if heard.send(serde_json::from_str(&line.unwrap()).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut session = Self { child, to, from, modern, last: 0 };
        if !modern {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"}});
            assert_eq!(session.ask("initialize", params).answer["result"]["protocolVersion"], "2025-11-25");
            session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        session
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        if self.modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn ask(&mut self, method: &str, params: Value) -> Done {
        let (id, mut told) = (self.begin(method, params), Vec::new());
        loop {
            let message = self.from.recv_timeout(PATIENCE).expect("an answer");
            if message.get("method").is_some() {
                told.push(message);
            } else {
                assert_eq!(message["id"], id, "{message}");
                return Done { good: true, answer: message, told };
            }
        }
    }

    fn call(&mut self, step: &Value) -> Done {
        let mut params = json!({"name": step["tool"], "arguments": step["arguments"]});
        if self.modern && step["stream"].is_u64() {
            params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "info"});
        }
        let done = self.ask("tools/call", params);
        let (error, result) = (&done.answer["error"], &done.answer["result"]);
        let good = if step["code"].is_i64() {
            error["code"] == step["code"]
        } else if let Some(start) = step["refused"].as_str() {
            let text = result["content"][0]["text"].as_str().unwrap();
            result["isError"] == true && text.starts_with(start)
        } else {
            result["isError"] != true && holds(&step["expect"], &result["structuredContent"])
        };
        Done { good, ..done }
    }

    fn tool(&mut self, step: &Value, stage: &mut Stage) {
        let deadline = Instant::now() + PATIENCE;
        let mut done = self.call(step);
        while !done.good && step["repeat"] == true && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            done = self.call(step);
        }
        assert!(done.good, "{}: {}", step["name"], done.answer);
        let payload = &done.answer["result"]["structuredContent"];
        for (word, key) in step["save"].as_object().into_iter().flatten() {
            stage.words.insert(word.clone(), payload[key.as_str().unwrap()].as_str().unwrap().to_owned());
        }
        if let Some(least) = step["stream"].as_u64() {
            let told = done.told.iter().filter(|message| message["params"]["logger"] == step["tool"]);
            let told: Vec<&str> =
                told.map(|message| message["params"]["data"]["text"].as_str().unwrap()).collect();
            if self.modern {
                assert!(told.len() as u64 >= least, "{} messages", told.len());
                assert_eq!(told.concat(), payload["stdout"], "{}", step["name"]);
            } else {
                assert_eq!(told, Vec::<&str>::new());
            }
        }
    }

    fn cancel(&mut self, step: &Value) {
        let id = self.begin("tools/call", json!({"name": step["tool"], "arguments": step["arguments"]}));
        let mark = Path::new(step["cancel"].as_str().unwrap());
        until("the command is there", || running(mark).len() >= 2);
        let mut params = json!({"requestId": id});
        if self.modern {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        }
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        until("the command is gone", || running(mark).is_empty());
    }

    fn follow(&mut self, step: &Value) {
        let (mut cursor, mut pieces) = (json!("0"), Vec::new());
        let tool = format!("{}_output", step["prefix"].as_str().unwrap());
        loop {
            let asked = json!({"job": step["follow"], "cursor": cursor, "max_bytes": step["max_bytes"]});
            let done = self.ask("tools/call", json!({"name": tool, "arguments": asked}));
            let piece = &done.answer["result"]["structuredContent"];
            cursor = piece["cursor"].clone();
            pieces.extend(piece["stdout"].as_str().filter(|text| !text.is_empty()).map(str::to_owned));
            if piece["eof"] == true {
                break;
            }
        }
        assert_eq!(pieces.concat(), step["stdout"], "{}", step["name"]);
        assert!(pieces.len() as u64 >= step["pieces"].as_u64().unwrap(), "{}", pieces.len());
    }

    fn listed(&mut self, step: &Value) {
        let done = self.ask("tools/list", json!({}));
        let tools = done.answer["result"]["tools"].as_array().unwrap();
        let mut names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(json!(names), step["tools"]);
    }
}

fn take(step: &Value, stage: &mut Stage, session: Option<&mut Session>) {
    let step = &stage.filled(step);
    let name = step["name"].as_str().unwrap();
    println!("{name}");
    if let Some(session) = session {
        if step["tools"].is_array() {
            session.listed(step);
        } else if step["follow"].is_string() {
            session.follow(step);
        } else if step["cancel"].is_string() {
            session.cancel(step);
        } else if step["tool"].is_string() {
            session.tool(step, stage);
        }
    }
    if step["record"].is_object() {
        until(name, || stage.recorded(&step["record"]));
    }
    if let Some(mark) = step["present"].as_str() {
        until(name, || running(Path::new(mark)).len() >= 2);
    }
    if let Some(mark) = step["gone"].as_str() {
        until(name, || running(Path::new(mark)).is_empty());
    }
}

fn drive(modern: bool) {
    let text = fs::read_to_string(clients().join("scenario.json")).unwrap();
    let scenario: Value = serde_json::from_str(&text).unwrap();
    let mut stage = Stage::new(&scenario);
    let mut session = Session::start(&stage, modern);
    for step in scenario["steps"].as_array().unwrap() {
        take(step, &mut stage, Some(&mut session));
    }
    let Session { mut child, to, .. } = session;
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for step in scenario["after"].as_array().unwrap() {
        take(step, &mut stage, None);
    }
}

#[test]
fn raw_lines_of_the_initialize_era_pass_the_shared_scenario() {
    drive(false);
}

#[test]
fn raw_lines_of_the_modern_era_pass_the_shared_scenario() {
    drive(true);
}

#[test]
fn every_key_of_a_step_is_one_that_is_explained() {
    let explained = fs::read_to_string(clients().join("SCENARIO.md")).unwrap();
    let text = fs::read_to_string(clients().join("scenario.json")).unwrap();
    let scenario: Value = serde_json::from_str(&text).unwrap();
    for step in ["steps", "after"].iter().flat_map(|part| scenario[part].as_array().unwrap()) {
        for key in step.as_object().unwrap().keys().filter(|key| !["name", "prefix"].contains(&key.as_str()))
        {
            assert!(
                explained.contains(&format!("`{key}`")) || explained.contains(&format!("`{key}: ")),
                "{key}"
            );
        }
    }
}
