//! What a hostile client sends over HTTP: each is refused with the right status, nothing is executed, memory stays
//! bounded, and another client is answered meanwhile.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http_client::{Answer, Caller, OTHER, Serving, TOKEN, lab, post, two};
use crate::support::Lab;

/// How soon another client is answered. Far above what it takes: a loaded machine is no fault.
const SOON: Duration = Duration::from_secs(20);
/// Memory that a server may take beyond what it had, in KiB.
const GROWTH: u64 = 64 * 1024;

fn server() -> (Lab, Serving) {
    // Short, so that a slow client does not make a slow test.
    let lab = lab(&format!("{}[server.http]\nread_timeout = \"1s\"\nconnections = 100\n", two("")));
    let serving = Serving::tcp(&lab, &[]);
    (lab, serving)
}

/// Another client is answered, and nothing was executed.
fn unharmed(lab: &Lab, serving: &Serving) {
    let start = Instant::now();
    let answer = Caller::modern(&serving.at, Some(OTHER)).ask(1, "tools/list", json!({}));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let runs = lab.records().into_iter().filter(|record| record["event_type"] == "run.start").count();
    assert_eq!(runs, 0, "something was executed");
}

fn bearer() -> String {
    format!("Bearer {TOKEN}")
}

#[test]
fn a_foreign_host_or_origin_is_refused_before_the_token_is_looked_at() {
    let (lab, serving) = server();
    let list = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let auth = bearer();
    for token in [None, Some(auth.as_str())] {
        let with = |headers: &[(&'static str, &str)]| {
            let mut all: Vec<(&str, &str)> = headers.to_vec();
            all.extend(token.map(|token| ("Authorization", token)));
            serving.at.raw(&post(&all, list)).status
        };
        assert_eq!(with(&[("Host", "evil.example")]), 403);
        assert_eq!(with(&[("Host", "localhost"), ("Host", "localhost")]), 400);
        assert_eq!(with(&[("Origin", "http://evil.example")]), 403);
        assert_eq!(with(&[("Origin", "null")]), 403);
    }
    let bytes = format!(
        "POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {auth}\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(serving.at.raw(bytes.as_bytes()).status, 403);
    let without = format!("POST /mcp HTTP/1.1\r\nAuthorization: {auth}\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(serving.at.raw(without.as_bytes()).status, 400);
    unharmed(&lab, &serving);
}

#[test]
fn a_body_of_100_megabytes_is_refused_announced_or_not() {
    let (lab, serving) = server();
    let before = serving.resident();
    let auth = bearer();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {auth}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n"
    );
    let announced = format!("{head}Content-Length: 104857600\r\n\r\n");
    assert_eq!(serving.at.raw(announced.as_bytes()).status, 413);

    let mut wire = serving.at.connect();
    wire.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let piece = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..1600 {
        if wire.write_all(piece.as_bytes()).is_err() {
            break;
        }
    }
    // The answer may be lost to the reset that a body nobody reads ends in; a 413 it is if it arrives.
    assert!(matches!(Answer::read(&mut *wire).status, 413 | 0));
    // Without a token not a byte of it is looked at.
    let nobody = announced.replace(TOKEN, "token-of-nobody-00000000");
    assert_eq!(serving.at.raw(nobody.as_bytes()).status, 401);
    unharmed(&lab, &serving);
    let after = serving.resident();
    assert!(after < before + GROWTH, "{before} KiB before, {after} after");
}

#[test]
fn ten_thousand_headers_and_a_head_without_end_are_refused() {
    let (lab, serving) = server();
    let before = serving.resident();
    let many: String = (0..10_000).map(|number| format!("x-{number}: y\r\n")).collect();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{many}Content-Length: 0\r\n\r\n");
    assert!(matches!(serving.at.raw(head.as_bytes()).status, 431 | 0));
    let few: String = (0..100).map(|number| format!("x-{number}: y\r\n")).collect();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{few}Content-Length: 0\r\n\r\n");
    assert_eq!(serving.at.raw(head.as_bytes()).status, 431);
    let long = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    assert!(matches!(serving.at.raw(long.as_bytes()).status, 431 | 0));
    unharmed(&lab, &serving);
    assert!(serving.resident() < before + GROWTH);
}

#[test]
fn slow_heads_and_slow_bodies_are_cut_off_and_idle_connections_make_room() {
    let (lab, serving) = server();
    let before = serving.resident();
    let auth = bearer();
    let mut slow_head = serving.at.connect();
    slow_head.write_all(b"POST /mcp HTTP/1.1\r\nHost: local").unwrap();
    let mut slow_body = serving.at.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {auth}\r\nContent-Type: application/json\r\n\
         Content-Length: 1000\r\n\r\n{{\"jsonrpc\""
    );
    slow_body.write_all(head.as_bytes()).unwrap();
    unharmed(&lab, &serving);
    assert!(matches!(Answer::read(&mut *slow_head).status, 408 | 0));
    assert_eq!(Answer::read(&mut *slow_body).status, 408);

    // A descriptor each is all that they cost the test as well.
    let most = 2_000;
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 8192, 8192).ok();
    let idle: Vec<_> = (0..most).map(|_| serving.at.connect()).collect();
    unharmed(&lab, &serving);
    drop(idle);
    assert!(serving.resident() < before + GROWTH);
}

#[test]
fn what_is_no_message_is_answered_400_in_the_words_of_json_rpc() {
    let (lab, serving) = server();
    let before = serving.resident();
    let auth = bearer();
    let send = |body: &[u8]| serving.at.raw(&post(&[("Authorization", auth.as_str())], body));
    let batch = format!("[{}]", vec![r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#; 10_000].join(","));
    let zeros =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[{}0]}}", "0,".repeat(500_000));
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{}{}}}",
        "[".repeat(9000),
        "]".repeat(9000)
    );
    for (body, code) in [
        (&b""[..], -32700),
        (b"{", -32700),
        (b"nonsense", -32700),
        (b"\xff\xfe", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"", -32700),
        (b"[]", -32600),
        (b"[1]", -32600),
        (b"\"text\"", -32600),
        (b"17", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/list\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}", -32600),
        (batch.as_bytes(), -32600),
        (zeros.as_bytes(), -32600),
        (deep.as_bytes(), -32600),
    ] {
        let answer = send(body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(answer.status, 400, "{shown}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"], code, "{shown}: {answer:?}");
    }
    let mut text = post(&[("Authorization", auth.as_str())], b"{}");
    text = String::from_utf8(text)
        .unwrap()
        .replace("application/json\r\nConn", "text/plain\r\nConn")
        .into_bytes();
    assert_eq!(serving.at.raw(&text).status, 415);
    for method in ["PUT", "PATCH", "OPTIONS", "TRACE"] {
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {auth}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(serving.at.raw(request.as_bytes()).status, 405, "{method}");
    }
    unharmed(&lab, &serving);
    assert!(serving.resident() < before + GROWTH);
}

#[test]
fn a_request_id_over_1024_bytes_is_answered_400_in_both_eras() {
    let (lab, serving) = server();
    let list = |id: String| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}});
    let legacy = Caller::legacy(&serving.at, Some(TOKEN));
    assert_eq!(legacy.tell(&list("x".repeat(1024))).status, 200);
    for caller in [legacy, Caller::modern(&serving.at, Some(TOKEN))] {
        let answer = caller.tell(&list("x".repeat(1025)));
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32600)), "{answer:?}");
    }
    unharmed(&lab, &serving);
}
