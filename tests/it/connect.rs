//! The bridge from standard input and output to a served socket, and the server's own pages on it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::scan::root;
use crate::support::{BINARY, Lab, Ran, Rules, Served, eventually, kill};

/// A server on a Unix socket, with its log.
pub(crate) struct Up {
    pub(crate) lab: Lab,
    child: Child,
}

impl Up {
    pub(crate) fn new(flags: &[&str]) -> Self {
        let commands = "[command.cat]\n[command.sleep]\n".to_owned();
        let lab = Lab::new(&Rules { commands, ..Rules::default() });
        let child = Self::spawn(&lab, flags);
        let up = Self { lab, child };
        eventually("the server listens", || UnixStream::connect(up.socket()).is_ok());
        up
    }

    fn spawn(lab: &Lab, flags: &[&str]) -> Child {
        let mut command = lab.command("serve");
        command.arg("--unix").arg(lab.at("mcp.sock")).args(flags);
        command.stdout(Stdio::null()).stderr(File::create(lab.at("stderr")).unwrap()).spawn().unwrap()
    }

    /// Another server in place of one that is gone.
    pub(crate) fn again(&mut self) {
        self.child = Self::spawn(&self.lab, &[]);
        eventually("the server listens", || UnixStream::connect(self.socket()).is_ok());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.lab.at("mcp.sock")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.lab.at("stderr")).unwrap()
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for the end.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn bridge(&self) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("connect").arg("--unix").arg(self.socket());
        command
    }

    fn count(&self, kind: &str) -> usize {
        self.lab.records().iter().filter(|record| record["event_type"] == kind).count()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// One GET, head and body.
pub(crate) fn get(mut stream: impl Read + Write, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: pod.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_client_of_pipes_is_bridged() {
    let up = Up::new(&[]);
    let mut served = Served::by(up.bridge());
    assert_eq!(served.hello["serverInfo"]["name"], "cofferdam");
    let (text, error) = served.run(json!({"command": "cat", "args": ["plain"]}));
    assert!(!error && text.contains("plain"), "{text}");
    let (text, error) = served.run(json!({"command": "rm"}));
    assert!(error && text.contains("not allowlisted"), "{text}");
    // Side by side, and each its own answer.
    let ids: Vec<u64> = (0..8).map(|_| served.send_run(json!({"command": "cat", "stdin": "x"}))).collect();
    for id in ids.into_iter().rev() {
        assert!(!served.result(id).1);
    }
    let records = up.lab.records();
    let started = records.iter().find(|record| record["event_type"] == "run.start").unwrap();
    assert_eq!(started["transport"], "unix");
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn cancel_and_the_end_of_the_client_kill_what_runs() {
    let up = Up::new(&[]);
    let mut served = Served::by(up.bridge());
    let sleep = json!({"command": "sleep", "args": ["1000"]});
    let id = served.send_run(sleep.clone());
    eventually("it runs", || up.count("run.start") == 1);
    served.cancel(id);
    eventually("it was killed", || up.count("run.end") == 1);
    served.send_run(sleep);
    eventually("it runs", || up.count("run.start") == 2);
    assert_eq!(served.stop(), Some(0));
    eventually("it was killed", || up.count("run.end") == 2);
}

#[test]
fn the_modern_era_is_bridged_without_a_session() {
    let up = Up::new(&[]);
    let mut child = up.bridge().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params":
        {"name": "sh_run", "arguments": {"command": "cat", "args": ["plain"]}, "_meta": meta}});
    writeln!(to, "not json\n[]\n{call}").unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        [next(), next()].map(|mut answer| answer["error"]["code"].take()),
        [json!(-32700), json!(-32600)]
    );
    let answer = next();
    assert_eq!(
        (&answer["id"], &answer["result"]["resultType"]),
        (&json!("a"), &json!("complete")),
        "{answer}"
    );
    assert_eq!(answer["result"]["structuredContent"]["stdout"], "plain\n");
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_that_dies_costs_its_calls_and_no_call_runs_twice() {
    let mut up = Up::new(&[]);
    let mut served = Served::by(up.bridge());
    let id = served.send_run(json!({"command": "sleep", "args": ["1000"]}));
    eventually("it runs", || up.count("run.start") == 1);
    kill(up.pid(), Signal::SIGKILL);
    up.end();
    let said = served.answer(id)["error"]["message"].take();
    assert!(said.as_str().unwrap().contains("may have been carried out"), "{said}");
    up.again();
    let (text, error) = served.run(json!({"command": "cat", "args": ["plain"]}));
    assert!(!error && text.contains("plain"), "{text}");
    let records = up.lab.records();
    let sleeps = records.iter().filter(|r| r["event_type"] == "run.start" && r["argv"][0] == "sleep");
    assert_eq!(sleeps.count(), 1);
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn the_official_python_client_is_bridged() {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "the Python client is not installed; make it with: tests/run test");
    let up = Up::new(&[]);
    let mut client = Command::new(python);
    client.arg(root().join("tests/clients/connect_client.py")).arg(BINARY).arg(up.socket());
    let ran = Ran::of(&client.output().unwrap());
    assert!(ran.status == 0 && ran.stdout.trim_end().ends_with("checks passed"), "{ran:?}");
    // What was cancelled was killed, each time.
    let sleeps = || {
        up.lab.records().into_iter().filter(|r| r["event_type"] == "run.end" && r["outcome"] == "cancelled")
    };
    eventually("they are killed", || sleeps().count() == 3);
}

#[test]
fn without_a_server_the_bridge_fails_and_says_how_to_start_one() {
    let lab = Lab::plain();
    let path = lab.text("none.sock");
    let output = Command::new(BINARY).args(["connect", "--wait", "0", "--unix", &path]).output().unwrap();
    let ran = Ran::of(&output);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""));
    assert!(ran.stderr.contains("start cofferdam serve --unix"), "{ran:?}");
}

#[test]
fn health_and_readiness_ask_nobody_who_he_is() {
    let mut up = Up::new(&["--metrics", "127.0.0.1:0"]);
    let socket = || UnixStream::connect(up.socket()).unwrap();
    for (path, status) in [("/healthz", "alive"), ("/readyz", "ready")] {
        let text = get(socket(), path);
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(text.contains(&format!("{{\"status\":\"{status}\"}}")), "{text}");
    }
    assert!(get(socket(), "/metrics").starts_with("HTTP/1.1 4"), "counters have an address of their own");
    let health =
        |socket: &str| Ran::of(&Command::new(BINARY).args(["health", "--unix", socket]).output().unwrap());
    assert_eq!(health(up.socket().to_str().unwrap()).status, 0);
    assert_eq!(health("/nonexistent.sock").status, 125);

    // The launcher gone is the end of all runs: not ready, and the check says why.
    let launcher = crate::support::descendants(up.pid()).remove(0);
    kill(launcher, Signal::SIGKILL);
    eventually("it is not ready", || health(up.socket().to_str().unwrap()).status == 1);
    let ran = health(up.socket().to_str().unwrap());
    assert!(ran.stderr.contains("launcher"), "{ran:?}");
    assert!(get(socket(), "/readyz").starts_with("HTTP/1.1 503"));
    assert!(get(socket(), "/healthz").starts_with("HTTP/1.1 200"));
    kill(up.pid(), Signal::SIGTERM);
    assert_eq!(up.end(), Some(0));
}

#[test]
fn counters_are_text_that_prometheus_reads() {
    let up = Up::new(&["--metrics", "127.0.0.1:0"]);
    let mut served = Served::by(up.bridge());
    assert!(!served.run(json!({"command": "cat", "args": ["plain"]})).1);
    assert!(!served.run(json!({"command": "cat", "args": ["missing"]})).1);
    assert!(served.run(json!({"command": "rm"})).1);
    let log = up.log();
    let address = log.split("counters at http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let text = get(TcpStream::connect(address).unwrap(), "/metrics");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let samples = parsed(body);
    let value = |name: &str| samples.iter().find(|(own, _)| own == name).map(|(_, value)| *value);
    assert_eq!(value("cofferdam_runs_total{outcome=\"success\"}"), Some(1.0), "{body}");
    assert_eq!(value("cofferdam_runs_total{outcome=\"nonzero_exit\"}"), Some(1.0));
    assert_eq!(value("cofferdam_refusals_total{rule=\"allow\"}"), Some(1.0));
    assert_eq!(value("cofferdam_run_duration_seconds_count"), Some(2.0));
    assert_eq!(value("cofferdam_audit_up"), Some(1.0));
    assert_eq!(value("cofferdam_calls_in_flight"), Some(0.0));
    assert_eq!(value("cofferdam_sessions"), Some(1.0));
    assert!(value("cofferdam_audit_wait_seconds_count").unwrap() >= 7.0);
}

#[test]
fn counters_are_for_this_host_unless_it_is_said_otherwise() {
    let lab = Lab::plain();
    let ran = |flags: &[&str]| Ran::of(&lab.command("serve").args(flags).output().unwrap());
    let refused = ran(&["--metrics", "0.0.0.0:0"]);
    assert_eq!(refused.status, 125);
    assert!(refused.stderr.contains("--metrics-anywhere"), "{refused:?}");
    // Standard input is at its end: it serves nobody, and well.
    assert_eq!(ran(&["--metrics", "0.0.0.0:0", "--metrics-anywhere"]).status, 0);
}

/// Reads the exposition format strictly: every sample after its HELP and TYPE, names and numbers well formed, each
/// series once, buckets cumulative up to the count.
fn parsed(text: &str) -> Vec<(String, f64)> {
    let name = regex::Regex::new("^[a-zA-Z_:][a-zA-Z0-9_:]*$").unwrap();
    let sample =
        regex::Regex::new(r#"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-z]+="(?:[^"\\\n]|\\.)*"\})? ([0-9.]+)$"#)
            .unwrap();
    let (mut samples, mut family, mut families) = (Vec::new(), (String::new(), String::new()), Vec::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (own, text) = help.split_once(' ').unwrap();
            assert!(name.is_match(own) && !text.is_empty(), "{line}");
            assert!(!families.contains(&own.to_owned()), "twice: {line}");
            families.push(own.to_owned());
            family.0 = own.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (own, kind) = kind.split_once(' ').unwrap();
            assert_eq!(own, family.0);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", own.ends_with("_total"), "{line}");
            family.1 = kind.to_owned();
        } else {
            let found = sample.captures(line).unwrap_or_else(|| panic!("no sample: {line}"));
            let own = &found[1];
            let suffixes: &[&str] =
                if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.iter().any(|suffix| own == format!("{}{suffix}", family.0)), "{line}");
            let whole = format!("{own}{}", found.get(2).map_or("", |labels| labels.as_str()));
            assert!(samples.iter().all(|(known, _)| *known != whole), "twice: {line}");
            let value: f64 = found[3].parse().unwrap();
            if own.ends_with("_bucket") && !whole.contains("le=\"0.00025\"") {
                assert!(samples.last().is_some_and(|(_, before)| *before <= value), "not cumulative: {line}");
            }
            samples.push((whole, value));
        }
    }
    assert!(samples.len() > 40, "{text}");
    samples
}
