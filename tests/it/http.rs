//! Streamable HTTP on the whole road: both eras, TCP and Unix socket, sessions, hang-ups, the end of the server.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::http_client::{Answer, Caller, Serving, TOKEN, lab};
use crate::support::{Lab, eventually};

/// A server whose clients send the token of a file.
fn with_token(unix: bool) -> (Lab, Serving) {
    let lab = Lab::plain();
    std::fs::write(lab.at("token"), format!("{TOKEN}\n")).unwrap();
    let file = lab.text("token");
    let flags = ["--token-file", file.as_str()];
    let serving = if unix { Serving::unix(&lab, &flags) } else { Serving::tcp(&lab, &flags) };
    (lab, serving)
}

fn say(lab: &Lab, what: &str) -> Value {
    json!({"command": lab.probe(), "args": ["say", what]})
}

fn pause(lab: &Lab) -> Value {
    json!({"command": lab.probe(), "args": ["pause"]})
}

fn listed(answer: &Answer) -> Vec<String> {
    let tools = answer.json()["result"]["tools"].clone();
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn both_eras_list_run_and_are_refused_over_tcp_and_over_a_socket() {
    for unix in [false, true] {
        let (lab, serving) = with_token(unix);
        for caller in [Caller::modern(&serving.at, Some(TOKEN)), Caller::legacy(&serving.at, Some(TOKEN))] {
            let tools = listed(&caller.ask(1, "tools/list", json!({})));
            assert!(tools.contains(&"sh_run".to_owned()), "{tools:?}");
            let (text, error) = caller.call("sh_run", say(&lab, "hello")).result();
            assert!(!error && text.contains("hello"), "{text}");
            let (text, error) = caller.call("sh_run", json!({"command": "curl"})).result();
            assert!(error && text.contains("curl"), "{text}");
        }
        let at = &serving.at;
        for token in [None, Some("token-of-nobody-00000000"), Some("")] {
            let answer = Caller::modern(at, token).call("sh_run", say(&lab, "never"));
            assert_eq!(answer.status, 401, "{answer:?}");
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.starts_with("Bearer ") && challenge.contains("resource_metadata=\"http"));
            assert_eq!(Caller::modern(at, token).initialize().status, 401);
        }
        let metadata = at.get("/.well-known/oauth-protected-resource/mcp");
        assert_eq!(metadata.status, 200);
        assert!(metadata.json()["resource"].as_str().unwrap().ends_with("/mcp"));
        assert_eq!(at.get("/mcp").status, 401);
        assert_eq!(at.get("/elsewhere").status, 404);
        assert_eq!(serving.stop(), Some(0));

        let records = lab.records();
        let runs: Vec<&Value> = records.iter().filter(|record| record["event_type"] == "run.start").collect();
        assert_eq!(runs.len(), 2, "nothing of those without a token: {runs:?}");
        for record in &runs {
            assert_eq!((&record["principal"], &record["auth"]), (&json!("operator"), &json!("bearer")));
            assert_eq!(record["transport"], if unix { "unix" } else { "http" });
            if unix {
                assert_eq!(record["peer_uid"], nix::unistd::Uid::effective().as_raw());
                assert_eq!(record["peer_pid"], std::process::id());
            } else {
                assert_eq!(record["peer_ip"], "127.0.0.1");
                assert!(record["peer_port"].as_u64().unwrap() > 0);
            }
        }
        assert!(runs[0]["session_id"].is_null() && runs[1]["session_id"].is_string(), "{runs:?}");
        let text = std::fs::read_to_string(lab.log()).unwrap();
        assert!(!text.contains(TOKEN), "a token in a record");
        assert_eq!(records.last().unwrap()["event_type"], "server.stop");
    }
}

#[test]
fn the_token_is_in_no_log() {
    let (_lab, serving) = with_token(false);
    Caller::modern(&serving.at, Some(TOKEN)).ask(1, "tools/list", json!({}));
    Caller::modern(&serving.at, Some("token-of-nobody-00000000")).ask(1, "tools/list", json!({}));
    let log = serving.log();
    assert!(!log.contains(TOKEN) && !log.contains("token-of-nobody"), "{log}");
}

#[test]
fn an_open_address_without_authentication_is_refused() {
    let lab = Lab::plain();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = lab.command("serve").args(["--listen", address]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("without authentication only a loopback address"), "{said}");
    }
    let output = lab.command("serve").args(["--token-file", "x"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn on_loopback_without_authentication_anybody_is_served_and_it_is_said() {
    let lab = Lab::plain();
    let serving = Serving::tcp(&lab, &[]);
    let (text, error) = Caller::modern(&serving.at, None).call("sh_run", say(&lab, "open")).result();
    assert!(!error, "{text}");
    assert!(serving.log().contains("there is no authentication"));
    // A token that nobody has given out is wrong here as well.
    let answer = Caller::modern(&serving.at, Some(TOKEN)).call("sh_run", say(&lab, "x"));
    assert_eq!(answer.status, 401);
}

#[test]
fn a_socket_has_its_mode_from_the_start_a_stale_one_is_replaced_and_a_live_one_is_not() {
    let lab = Lab::plain();
    let path = lab.at("mcp.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let serving = Serving::unix(&lab, &[]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let output = lab.command("serve").arg("--unix").arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another server listens"));
    // By the kernel's word alone: whoever may open it is known by its user.
    let (text, error) = Caller::modern(&serving.at, None).call("sh_run", say(&lab, "peer")).result();
    assert!(!error, "{text}");
    serving.stop();
    let uid = nix::unistd::Uid::effective();
    let records = lab.records();
    let run = records.iter().find(|record| record["event_type"] == "run.start").unwrap();
    assert_eq!((&run["principal"], &run["auth"]), (&json!(format!("uid:{uid}")), &json!("peercred")));

    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "x").unwrap();
    let output = lab.command("serve").arg("--unix").arg(&path).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no socket"));
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
}

#[test]
fn fault_04_equal_ids_in_flight_never_cross_answers() {
    let (lab, serving) = with_token(false);
    for caller in [Caller::legacy(&serving.at, Some(TOKEN)), Caller::modern(&serving.at, Some(TOKEN))] {
        let slow = json!({"command": lab.probe(), "args": ["pause"], "timeout": 2});
        let mut first = caller.begin(7, "sh_run", slow);
        eventually("the first one runs", || !lab.alive().is_empty());
        let second = caller.ask(7, "tools/call", json!({"name": "sh_run", "arguments": say(&lab, "second")}));
        assert_eq!(second.json()["id"], 7);
        assert!(second.result().0.contains("second"));
        let first = Answer::read(&mut *first);
        assert_eq!(first.json()["id"], 7);
        let text = first.result().0;
        assert!(text.contains("\"timed-out\":true") && !text.contains("second"), "{text}");
    }
}

#[test]
fn who_hangs_up_has_cancelled_in_both_eras() {
    let (lab, serving) = with_token(false);
    for caller in [Caller::legacy(&serving.at, Some(TOKEN)), Caller::modern(&serving.at, Some(TOKEN))] {
        let wire = caller.begin(1, "sh_run", pause(&lab));
        eventually("it runs", || !lab.alive().is_empty());
        drop(wire);
        eventually("it is gone", || lab.alive().is_empty());
    }
    let ends =
        || lab.records().into_iter().filter(|record| record["event_type"] == "run.end").collect::<Vec<_>>();
    eventually("both ends are recorded", || ends().len() == 2);
    assert!(ends().iter().all(|end| end["outcome"] == "cancelled"), "{:?}", ends());
}

#[test]
fn fault_05_a_session_that_is_deleted_stops_its_calls_and_a_cancellation_finds_them_by_the_clients_id() {
    let (lab, serving) = with_token(false);
    let caller = Caller::legacy(&serving.at, Some(TOKEN));
    let _wire = caller.begin(5, "sh_run", pause(&lab));
    eventually("it runs", || !lab.alive().is_empty());
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(caller.tell(&cancel).status, 202);
    eventually("it was cancelled", || lab.alive().is_empty());

    let _wire = caller.begin(6, "sh_run", pause(&lab));
    eventually("it runs", || !lab.alive().is_empty());
    let session = caller.session.clone().unwrap();
    let delete = format!(
        "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nMcp-Session-Id: {session}\r\n\
         Connection: close\r\n\r\n"
    );
    assert!(matches!(serving.at.raw(delete.as_bytes()).status, 200..=204));
    eventually("it is gone with its session", || lab.alive().is_empty());
    assert_eq!(caller.ask(7, "tools/list", json!({})).status, 404);
}

#[test]
fn fault_06_a_stream_that_nobody_reads_holds_up_nobody() {
    let (lab, serving) = with_token(false);
    let caller = Caller::legacy(&serving.at, Some(TOKEN));
    let session = caller.session.clone().unwrap();
    let mut unread = serving.at.connect();
    let get = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nMcp-Session-Id: {session}\r\n\
         Accept: text/event-stream\r\n\r\n"
    );
    unread.write_all(get.as_bytes()).unwrap();
    let flood = json!({"command": lab.probe(), "args": ["lines", "400000"]});
    for id in 0..3 {
        let answer = caller.ask(id, "tools/call", json!({"name": "sh_start", "arguments": flood}));
        assert!(!answer.result().1, "{answer:?}");
    }
    for id in 10..20 {
        let answer =
            caller.ask(id, "tools/call", json!({"name": "sh_run", "arguments": say(&lab, "still here")}));
        assert!(answer.result().0.contains("still here"), "{answer:?}");
    }
}

#[test]
fn sigterm_lets_a_run_end_and_kills_what_does_not() {
    let sections = "[server.http]\ndrain = \"1s\"\n";
    let lab = lab(sections);
    let serving = Serving::tcp(&lab, &[]);
    let caller = Caller::modern(&serving.at, None);
    let mut endless = caller.begin(1, "sh_run", pause(&lab));
    eventually("it runs", || !lab.alive().is_empty());
    serving.signal(Signal::SIGTERM);
    serving.says("nothing new is begun");
    assert_eq!(serving.stop(), Some(0));
    // It was told, or the connection ended: not left open.
    drop(Answer::read(&mut *endless));
    assert!(lab.alive().is_empty());
    let records = lab.records();
    assert_eq!(records.iter().filter(|record| record["event_type"] == "run.end").count(), 1);
    assert_eq!(records.last().unwrap()["event_type"], "server.stop");
}
