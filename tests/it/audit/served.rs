//! The log of a real server, behind its own walls: standard error as the required sink, rotation, SIGHUP, and
//! sinks that are connected again.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Command;

use cofferdam::audit::verify::verify;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::failure::soon;
use super::rotation::files;
use crate::support::{Lab, Served, eventually, kill, records};

/// A laboratory with these lines in place of its `[audit]` section's.
pub(super) fn lab(audit: impl Fn(&Lab) -> String) -> Lab {
    let lab = Lab::plain();
    let text = fs::read_to_string(lab.policy()).unwrap();
    let begins = text.find("sinks = [").unwrap();
    let ends = begins + text[begins..].find('\n').unwrap();
    fs::write(lab.policy(), format!("{}{}{}", &text[..begins], audit(&lab), &text[ends..])).unwrap();
    lab
}

/// `serve` with a FIFO as standard error, which a reader has open already or opens now.
fn served_with_stderr(lab: &Lab) -> Served {
    // A shell in between, since the client of the tests takes standard error for itself.
    let direct = lab.command("serve");
    let mut command = Command::new("sh");
    command.args(["-c", "fifo=$1; shift; exec \"$@\" 2>\"$fifo\"", "sh", &lab.text("err")]);
    command.arg(direct.get_program()).args(direct.get_args()).current_dir(lab.at(""));
    Served::by(command)
}

fn fifo(lab: &Lab) {
    nix::unistd::mkfifo(&lab.at("err"), nix::sys::stat::Mode::S_IRWXU).unwrap();
}

/// A reader that never reads, without waiting for a writer.
fn idle(lab: &Lab) -> File {
    fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(lab.at("err")).unwrap()
}

fn call(lab: &Lab) -> Value {
    json!({"command": lab.probe(), "args": ["say", "ran"]})
}

#[test]
fn a_stopped_reader_of_standard_error_refuses_runs_and_its_return_brings_them_back() {
    let lab = lab(|_| "sinks = [{ kind = \"stderr\" }]".to_owned());
    fifo(&lab);
    let copy = lab.at("copy");
    let mut cat =
        Command::new("cat").arg(lab.at("err")).stdout(File::create(&copy).unwrap()).spawn().unwrap();
    let mut served = served_with_stderr(&lab);
    assert!(!served.run(call(&lab)).1);
    let pid = i32::try_from(cat.id()).unwrap();
    kill(pid, Signal::SIGSTOP);
    let mut runs = 0;
    let text = loop {
        let (text, error) = soon("a call", || served.run(call(&lab)));
        if error {
            break text;
        }
        runs += 1;
        assert!(runs < 1_000, "nobody reads, and nothing is refused");
    };
    assert!(text.contains("audit_unavailable") && text.contains("standard error"), "{text}");
    kill(pid, Signal::SIGCONT);
    eventually("runs are taken again", || !served.run(call(&lab)).1);
    served.stop();
    cat.wait().unwrap();
    // The log of the program stands among the records on this stream.
    let text = fs::read_to_string(copy).unwrap();
    let all: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let count = |event: &str| all.iter().filter(|record| record["event_type"] == event).count();
    assert_eq!(count("run.start"), count("run.end"));
    assert!(count("audit.gap") >= 1);
}

#[test]
fn a_reader_of_standard_error_that_is_gone_refuses_runs() {
    let lab = lab(|_| "sinks = [{ kind = \"stderr\" }]".to_owned());
    fifo(&lab);
    let reader = idle(&lab);
    let mut served = served_with_stderr(&lab);
    assert!(!served.run(call(&lab)).1);
    drop(reader);
    let (text, error) = soon("a call", || served.run(call(&lab)));
    assert!(error && text.contains("audit_unavailable") && text.contains("Broken pipe"), "{text}");
    let (text, error) = soon("the next", || served.run(call(&lab)));
    assert!(error, "{text}");
}

#[test]
fn a_copy_on_standard_error_that_nobody_reads_delays_nothing() {
    let lab = lab(|lab| {
        format!("sinks = [{{ kind = \"file\", path = {:?} }}, {{ kind = \"stderr\" }}]", lab.log())
    });
    fifo(&lab);
    let reader = idle(&lab);
    let mut served = served_with_stderr(&lab);
    for _ in 0..60 {
        let (text, error) = soon("a call", || served.run(call(&lab)));
        assert!(!error, "{text}");
    }
    soon("the end", || assert_eq!(served.stop(), Some(0)));
    drop(reader);
    let last = lab.records().pop().unwrap();
    assert_eq!((last["event_type"].as_str(), last["sink"].as_str()), (Some("audit.drop"), Some("stderr")));
}

#[test]
fn a_confined_server_rotates_its_log_and_follows_one_that_is_moved() {
    let lab = lab(|lab| format!("sinks = [{{ kind = \"file\", path = {:?}, max_size = 30000 }}]", lab.log()));
    let mut served = Served::start(&lab);
    for _ in 0..25 {
        assert!(!served.run(call(&lab)).1);
    }
    assert!(files(&lab.log()).len() > 2, "{:?}", files(&lab.log()));
    fs::rename(lab.log(), lab.at("audit/moved")).unwrap();
    kill(served.pid(), Signal::SIGHUP);
    // The record of the reload is the first one behind the signal.
    eventually("the server goes on in a new file", || lab.log().exists());
    assert!(!served.run(call(&lab)).1);
    assert_eq!(served.stop(), Some(0));
    assert_eq!(lab.records()[0]["event_type"], "audit.rotate");
    let mut chain = files(&lab.log());
    chain.insert(chain.len() - 1, lab.at("audit/moved"));
    assert_eq!(verify(&chain, None).unwrap().broken, None);
}

#[test]
fn a_confined_server_connects_its_sinks_again_and_reaches_their_port_only() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lab = lab(|lab| {
        let (log, socket) = (lab.log(), lab.at("audit/collector"));
        format!(
            "sinks = [{{ kind = \"file\", path = {log:?} }}, {{ kind = \"unix\", path = {socket:?} }}, \
             {{ kind = \"syslog\", transport = \"tcp\", address = \"{address}\" }}]"
        )
    });
    // Nobody listens at the socket yet; the port is accepted and closed once.
    let mut served = Served::start(&lab);
    drop(listener.accept().unwrap());
    let collector = UnixListener::bind(lab.at("audit/collector")).unwrap();
    assert!(!served.run(call(&lab)).1);
    let (mut again, _) = listener.accept().unwrap();
    let (stream, _) = collector.accept().unwrap();
    assert_eq!(served.stop(), Some(0));
    let lines: Vec<String> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    let text = fs::read_to_string(lab.log()).unwrap();
    assert_eq!(lines, text.lines().collect::<Vec<_>>(), "all of it, from the first");
    let mut bytes = String::new();
    again.read_to_string(&mut bytes).unwrap();
    assert!(bytes.contains(" run.end - {") && bytes.contains(" server.stop - {"), "{bytes}");
}

#[test]
fn with_on_failure_kill_runs_that_go_on_are_killed() {
    let lab =
        lab(|lab| format!("on_failure = \"kill\"\nsinks = [{{ kind = \"file\", path = {:?} }}]", lab.log()));
    let mut served = Served::start(&lab);
    let going = served.send_run(json!({"command": lab.probe(), "args": ["pause"]}));
    eventually("it runs", || records(&lab.log()).iter().any(|record| record["event_type"] == "run.start"));
    let away = lab.at("away");
    fs::rename(lab.at("audit"), &away).unwrap();
    let (text, error) = served.run(call(&lab));
    assert!(error && text.contains("audit_unavailable"), "{text}");
    eventually("it is killed", || lab.alive().is_empty());
    fs::rename(&away, lab.at("audit")).unwrap();
    served.answer(going);
    eventually("runs are taken again", || !served.run(call(&lab)).1);
    served.stop();
    let ends: Vec<Value> =
        lab.records().into_iter().filter(|record| record["event_type"] == "run.end").collect();
    assert!(ends.iter().any(|end| end["outcome"] == "cancelled"), "{ends:?}");
}

#[test]
fn with_on_failure_exit_the_server_ends_with_74() {
    let lab =
        lab(|lab| format!("on_failure = \"exit\"\nsinks = [{{ kind = \"file\", path = {:?} }}]", lab.log()));
    let mut served = Served::start(&lab);
    assert!(!served.run(call(&lab)).1);
    fs::rename(lab.at("audit"), lab.at("away")).unwrap();
    served.send_run(call(&lab));
    assert_eq!(soon("the end", || served.stop()), Some(74));
}
