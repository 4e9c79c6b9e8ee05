//! What rmcp leaves to its users on standard input and output, each with the tests that show it handled, over
//! the real binary here and over the stand-in elsewhere. The numbers are those of the list of faults that was
//! measured on rmcp 3.11.0; the missing ones concern HTTP alone.
//!
//! | # | fault of rmcp | handled by | tests |
//! |---|---|---|---|
//! | 1 | a notification before the first request ends the server | `mcp/wire.rs` drops it | `fault_01_stray_messages_before_the_first_request_do_not_end_the_server`, `fault_01_an_early_notification_does_not_end_the_real_server` |
//! | 2 | at the end of the input, runs go on for 5 s and are left behind | `mcp/wire.rs` stops every run | `fault_02_the_end_of_the_input_kills_every_run_and_ends_the_server`, `fault_02_a_client_that_closes_its_end_takes_its_commands_with_it`, `fault_02_at_the_end_of_the_input_the_server_is_gone_soon` |
//! | 3 | SIGTERM leaves the tree of a command running | `mcp/stdio.rs` | `fault_03_a_signal_kills_every_run_and_ends_the_server`, `fault_03_signals_end_the_server_cleanly_and_its_commands_too`, `fault_03_after_sigterm_the_server_is_gone_soon` |
//! | 4 | of two requests with one id, one is never answered | `mcp/in_flight.rs` | `fault_04_an_id_in_flight_is_refused_and_free_again_once_it_is_cancelled` |
//! | 8 | log levels are not enforced, messages follow a cancellation | `mcp/level.rs`, `mcp/channel.rs` | `fault_08_nothing_is_streamed_to_those_who_did_not_ask`, `fault_08_a_level_that_is_none_is_an_error_of_the_request`, `fault_08_a_cancelled_request_hears_nothing_more` |
//! | 9 | `logging/setLevel` is served in the era that has none | `mcp/server.rs` | `fault_09_the_modern_era_is_told_while_the_start_is_in_flight_and_never_after` |
//! | 10 | a panic is never answered | `mcp/unwound.rs` | `fault_10_a_panic_is_answered_and_the_server_goes_on`, `fault_10_a_panic_anywhere_in_a_call_is_an_error_of_it` |
//! | 11 | parameters of the wrong type are an unknown method | `mcp/server.rs` | `fault_11_protocol_mistakes_get_the_codes_of_json_rpc` |
//! | 12 | a line that is no message, or too long, is ignored | `mcp/wire.rs`, `mcp/unread.rs` | `fault_12_lines_that_are_no_messages_are_answered_and_the_next_one_is_served`, `fault_12_a_line_beyond_the_limit_is_thrown_away_and_answered`, `fault_12_a_line_beyond_the_limit_is_recorded` |
//! | 14 | of a key given twice, the last counts | one parse: what is judged is what is run | `fault_14_of_a_key_given_twice_the_one_that_runs_is_the_one_that_was_judged` |
//! | 15 | a message takes a hundred times its size | lines of 1 MiB at most | `fault_15_a_message_of_the_largest_size_takes_bounded_memory` |
//! | 16 | any number of requests at once | `mcp/in_flight.rs`, `mcp/stdio.rs` | `fault_16_more_runs_than_the_policy_allows_are_told_to_wait` |
//! | 17 | whole requests in the log | the filter is fixed | `fault_17_no_request_stands_in_the_log_whatever_is_asked_for` |
//! | 19 | `serverInfo` on two results only | `mcp/server.rs` | `the_modern_era_needs_no_handshake` |
//! | 22 | a client that does not read holds runs up | `mcp/stream.rs`, `mcp/push.rs` | `fault_22_a_client_that_does_not_read_holds_up_no_job` |

use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use cofferdam::mcp::MAX_LINE_BYTES;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::mcp_stdio::{Server, running, until};
use crate::scan::rust;

/// Promised are 0.1 s to the exit of the server and 0.25 s to the end of a cancelled run; a busy machine takes its
/// time. `cargo bench --bench cancel` measures both.
const SOON: Duration = Duration::from_secs(10);

fn call(server: &mut Server, arguments: Value) -> Value {
    server.ask("tools/call", json!({"name": "sh_run", "arguments": arguments}))
}

fn next(server: &mut Server) -> Value {
    let mut line = String::new();
    server.from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}, log: {}", server.log()))
}

#[test]
fn every_test_in_the_table_exists() {
    let table: String =
        include_str!("mcp_faults.rs").lines().filter(|line| line.starts_with("//! |")).collect();
    let sources: Vec<_> = ["tests/it", "src/mcp"].into_iter().flat_map(rust).collect();
    let names = regex::Regex::new("`((?:fault_|the_)[a-z0-9_]+)`").unwrap();
    let named: Vec<&str> = names.captures_iter(&table).map(|hit| hit.get(1).unwrap().as_str()).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        let heading = format!("fn {name}(");
        assert!(sources.iter().any(|text| text.content.contains(&heading)), "no test is called {name}");
    }
}

#[test]
fn fault_01_an_early_notification_does_not_end_the_real_server() {
    let mut server = Server::start();
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.send(&json!({"jsonrpc": "2.0", "id": 8, "result": {}}));
    let early = call(&mut server, json!({"command": "true"}));
    assert!(early["error"]["message"].as_str().unwrap().contains("initialize"), "{early}");
    let mut server = server.open();
    assert_eq!(call(&mut server, json!({"command": "true"}))["result"]["structuredContent"]["exit"], 0);
}

/// How long the server takes to be gone once `end` has been called, with a command running.
fn gone_after(what: &str, end: impl FnOnce(&mut Server)) {
    let mut server = Server::opened();
    let mark = server.follow();
    let began = Instant::now();
    end(&mut server);
    assert_eq!(server.end().code(), Some(0), "log: {}", server.log());
    let took = began.elapsed();
    println!("{what}: gone after {:.1} ms (debug build, busy machine)", took.as_secs_f64() * 1e3);
    assert_eq!(running(&mark), Vec::<String>::new());
    assert!(took < SOON, "{what}: {took:?}");
    let records = server.records();
    let run = records.iter().find(|record| record["event_type"] == "run.end").unwrap();
    assert_eq!(run["outcome"], "cancelled", "{run}");
    assert_eq!(records.last().unwrap()["event_type"], "server.stop");
}

#[test]
fn fault_02_at_the_end_of_the_input_the_server_is_gone_soon() {
    gone_after("end of the input", |server| server.to = None);
}

#[test]
fn fault_03_after_sigterm_the_server_is_gone_soon() {
    gone_after("SIGTERM", |server| {
        kill(Pid::from_raw(i32::try_from(server.child.id()).unwrap()), Signal::SIGTERM).unwrap();
    });
}

#[test]
fn a_cancelled_run_is_gone_soon_and_recorded_as_that() {
    let mut server = Server::opened();
    let mark = server.follow();
    let began = Instant::now();
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}));
    until("the command is gone", || running(&mark).is_empty());
    let took = began.elapsed();
    println!("cancelled: gone after {:.1} ms (debug build, busy machine)", took.as_secs_f64() * 1e3);
    assert!(took < SOON, "{took:?}");
    server.to = None;
    assert_eq!(server.end().code(), Some(0), "log: {}", server.log());
    let ends: Vec<Value> =
        server.records().into_iter().filter(|record| record["event_type"] == "run.end").collect();
    assert_eq!((ends.len(), &ends[0]["outcome"]), (1, &json!("cancelled")), "not timed out: {ends:?}");
    assert_eq!(ends[0]["procs_left"], 0, "{ends:?}");
}

#[test]
fn fault_12_a_line_beyond_the_limit_is_recorded() {
    let mut server = Server::opened();
    let to = server.to.as_mut().unwrap();
    to.write_all(&vec![b'x'; 2 * MAX_LINE_BYTES]).unwrap();
    to.write_all(b"\n{\"jsonrpc\":\n").unwrap();
    for _ in 0..2 {
        let answer = next(&mut server);
        assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(-32700), None));
    }
    assert_eq!(call(&mut server, json!({"command": "true"}))["result"]["structuredContent"]["exit"], 0);
    server.to = None;
    assert_eq!(server.end().code(), Some(0), "log: {}", server.log());
    let denied: Vec<Value> =
        server.records().into_iter().filter(|record| record["event_type"] == "run.denied").collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!((&denied[0]["rule_id"], &denied[0]["rule_kind"]), (&json!("message.bytes"), &json!("limit")));
    assert_eq!((&denied[0]["argc"], &denied[0]["transport"]), (&json!(0), &json!("stdio")));
    assert!(denied[0]["session_id"].is_string(), "{denied:?}");
}

#[test]
fn fault_14_of_a_key_given_twice_the_one_that_runs_is_the_one_that_was_judged() {
    let mut server = Server::opened();
    for (first, last, refused) in [("echo", "rm", true), ("rm", "echo", false)] {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"sh_run\",\
             \"arguments\":{{\"command\":\"{first}\",\"command\":\"{last}\"}}}}}}"
        );
        writeln!(server.to.as_mut().unwrap(), "{line}").unwrap();
        let answer = next(&mut server);
        assert_eq!(answer["result"]["isError"] == json!(true), refused, "{answer}");
        let records = server.records();
        let kind = if refused { "run.denied" } else { "run.start" };
        let record = records.iter().rfind(|record| record["event_type"] == kind).unwrap();
        assert_eq!(record["cmd"], last, "{record}");
    }
}

#[test]
fn fault_15_a_message_of_the_largest_size_takes_bounded_memory() {
    let mut server = Server::opened();
    let zeros = "0,".repeat(MAX_LINE_BYTES / 2 - 200);
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"sh_run\",\
         \"arguments\":{{\"command\":\"echo\",\"args\":[{zeros}0]}}}}}}"
    );
    writeln!(server.to.as_mut().unwrap(), "{line}").unwrap();
    let answer = next(&mut server);
    assert_eq!(answer["result"]["isError"], true, "refused: too many arguments");
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    println!("a message of {} bytes: peak of {} MiB", line.len(), kib / 1024);
    assert!(kib < 256 * 1024, "{kib} KiB");
}

#[test]
fn fault_17_no_request_stands_in_the_log_whatever_is_asked_for() {
    // The server is started with RUST_LOG=trace.
    let mut server = Server::opened();
    let secret = "a-word-that-no-log-may-hold";
    let answer = call(&mut server, json!({"command": "cat", "stdin": secret, "args": []}));
    assert_eq!(answer["result"]["structuredContent"]["stdout"], secret);
    call(&mut server, json!({"command": "echo", "args": [secret]}));
    call(&mut server, json!({"command": "rm", "args": [secret]}));
    server.to = None;
    server.end();
    assert!(!server.log().contains(secret), "{}", server.log());
}

/// The session that the README offers, typed into a shell.
#[test]
fn the_session_in_the_readme_works_as_it_stands() {
    use std::io::{BufReader, Read};
    use std::process::{Command, Stdio};
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let blocks: Vec<&str> = readme.split("```").filter(|block| block.contains("| cofferdam serve")).collect();
    assert_eq!(blocks.len(), 1);
    let script = blocks[0].split_once('\n').unwrap().1.trim_start_matches("$ ");
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    fs::create_dir(&workspace).unwrap();
    for path in [home.path(), &workspace] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::write(workspace.join("seen-by-ls"), "").unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_cofferdam")).parent().unwrap();
    let mut shell = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(&workspace)
        .env("PATH", format!("{}:{}", binary.display(), std::env::var("PATH").unwrap()))
        .env("XDG_STATE_HOME", home.path().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut from = BufReader::new(shell.stdout.take().unwrap());
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        answers.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "cofferdam", "{answers:?}");
    assert_eq!(answers[1]["result"]["structuredContent"]["stdout"], "seen-by-ls\n", "{answers:?}");
    drop(shell.stdin.take()); // Ctrl-D
    let mut rest = String::new();
    from.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), shell.wait().unwrap().code()), ("", Some(0)));
}
