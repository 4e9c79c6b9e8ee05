//! What a hostile hour has found: connections that nobody answers for, and numbers that were never counted.

use std::io::Read;
use std::net::SocketAddr;

use serde_json::json;

use crate::http_client::{At, Caller, Serving, lab};
use crate::support::eventually;

/// The address of the counters, once it was said.
fn counters(serving: &Serving) -> At {
    serving.says("counters at http://");
    let log = serving.log();
    let (_, rest) = log.split_once("counters at http://").unwrap();
    let (address, _) = rest.split_once("/metrics").unwrap();
    At::Tcp(address.parse::<SocketAddr>().unwrap())
}

#[test]
fn idle_connections_to_the_counters_are_bounded_and_end() {
    let lab = lab("[command.ls]\n");
    let serving = Serving::tcp(&lab, &["--metrics", "127.0.0.1:0"]);
    let at = counters(&serving);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", serving.pid())).unwrap().count();
    let before = open();
    let mut idle: Vec<_> = (0..150).map(|_| at.connect()).collect();
    // Those that wait for a place are in the listener's queue, not in the server.
    assert!(open() <= before + 80, "{} of {before}", open());
    // Each makes room within its time, so that whoever asks is answered.
    assert_eq!(at.get("/metrics").status, 200);
    for wire in idle.iter_mut().take(64) {
        assert_eq!(wire.read(&mut [0; 1]).unwrap_or(0), 0);
    }
}

#[test]
fn requests_that_are_being_answered_are_counted() {
    let lab = lab("[command.sleep]\n");
    let serving = Serving::tcp(&lab, &["--metrics", "127.0.0.1:0"]);
    let at = counters(&serving);
    let says = |count: u8| at.get("/metrics").body.contains(&format!("\ncofferdam_http_answering {count}\n"));
    assert!(says(0));
    let caller = Caller::modern(&serving.at, None);
    let wire = caller.begin(1, "sh_run", json!({"command": "sleep", "args": ["1000"]}));
    eventually("the request is counted", || says(1));
    drop(wire);
    eventually("it is not any more", || says(0));
}

#[test]
fn a_token_that_commands_could_read_is_refused() {
    let own = lab("[command.ls]\n");
    std::fs::write(own.ws().join("token"), "0123456789abcdef0123\n").unwrap();
    std::os::unix::fs::symlink(own.ws().join("token"), own.at("linked")).unwrap();
    for file in [own.ws().join("token"), own.at("linked")] {
        let mut command = own.command("serve");
        command.args(["--listen", "127.0.0.1:0", "--token-file"]).arg(&file);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("lies in the workspace") && !said.contains("0123456789abcdef"), "{said}");
    }
    let named = format!("[principal.a]\ntoken_file = {:?}\n", own.ws().join("token"));
    let text = std::fs::read_to_string(own.policy()).unwrap();
    std::fs::write(own.policy(), text + &named).unwrap();
    let output = own.command("serve").args(["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("lies in the workspace"));
}
