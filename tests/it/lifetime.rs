//! Nothing outlives its run (design invariant 8), whoever dies first; and every run has its records
//! (invariant 7).

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Going, Lab, Rules, Served, descendants, eventually, is_gone, kill, parent, status_of};

/// The process that `lab` knows by its program and that nobody of its own kind started.
fn main_process(lab: &Lab) -> i32 {
    let alive = lab.alive();
    *alive.iter().find(|pid| parent(**pid).is_some_and(|up| !alive.contains(&up) && is_stub(up))).unwrap()
}

fn is_stub(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"cofferdam-launcher"))
}

fn ends(records: &[Value]) -> Vec<&Value> {
    records.iter().filter(|record| record["event_type"] == "run.end").collect()
}

#[test]
fn e090_daemons_die_with_a_run_that_ends_by_itself() {
    let lab = Lab::plain();
    let ran = lab.probed(&["daemons", "30"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "30 up\n"));
    assert!(lab.alive().is_empty());
    let end = lab.end();
    assert_eq!((&end["procs_killed"], &end["procs_left"]), (&json!(30), &json!(0)));
}

#[test]
fn e090_e091_daemons_die_with_a_run_that_times_out() {
    let lab = Lab::plain();
    let ran = lab.probed_with(&["--timeout", "2s"], &["daemons-hang", "30"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (124, "30 up\n"));
    assert!(lab.alive().is_empty());
    let end = lab.end();
    assert_eq!((&end["outcome"], &end["procs_killed"]), (&json!("timeout"), &json!(30)));
    assert_eq!(end["procs_left"], 0);
}

#[test]
fn e089_a_daemon_that_holds_stdout_does_not_hold_the_answer() {
    let lab = Lab::plain();
    // It would hold it for ever: that this returns at all is the test.
    let ran = lab.probed_with(&["--timeout", "5m"], &["daemons-hold", "3"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "3 up\n"));
    assert!(lab.alive().is_empty());
}

#[test]
fn processes_that_fork_faster_than_a_list_is_read_die_as_well() {
    let lab = Lab::plain();
    assert_eq!(lab.probed(&["hoppers", "4"]).stdout, "hopping ok\n");
    assert!(lab.alive().is_empty());
    let ran = lab.probed_with(&["--timeout", "500ms"], &["hoppers-hang", "4"]);
    assert_eq!(ran.status, 124);
    assert!(lab.alive().is_empty());
    assert!(ends(&lab.records()).iter().all(|end| end["procs_left"] == 0));
}

#[test]
fn e064_a_command_cannot_stop_kill_or_outwit_its_supervisor() {
    let lab = Lab::plain();
    for signal in ["9", "19", "15", "0"] {
        assert_eq!(lab.tried(&[("kill", "parent", signal)]), ["kill errno=1"]);
    }
    assert_eq!(lab.tried(&[("kill", "1", "0")]), ["kill errno=1"]);
    // Its own group and all that it can reach: that is itself, and the run ends as any other.
    assert_eq!(lab.probed(&["try", "kill", "0", "9"]).status, 137);
    assert_eq!(lab.probed(&["try", "kill", "-1", "9", "kill", "0", "9"]).status, 137);
    // Stopped, it is still killed in time.
    assert_eq!(lab.probed_with(&["--timeout", "500ms"], &["try", "kill", "0", "19"]).status, 124);
    assert!(ends(&lab.records()).iter().all(|end| end["procs_left"] == 0));
}

#[test]
fn a_killed_supervisor_leaves_nothing_and_is_an_error() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    let call = served.send_run(json!({"command": lab.probe(), "args": ["daemons-hang", "10"]}));
    eventually("daemons are up", || lab.alive().len() == 11);
    let stub = parent(main_process(&lab)).unwrap();
    kill(stub, Signal::SIGKILL);
    let (text, _) = served.result(call);
    assert!(text.contains("supervisor"), "{text}");
    eventually("nothing is left", || lab.alive().is_empty());
    let end = lab.end();
    assert_eq!((&end["outcome"], &end["error_code"]), (&json!("lost"), &json!("supervisor_died")), "{end}");
    assert_eq!(served.probed(&lab, &["say", "on"])["stdout"], "on\n", "the next run is as good as any");
}

#[test]
fn a_killed_supervisor_of_fast_forkers_leaves_nothing() {
    let lab = Lab::plain();
    let mut going = Going::probe(&lab, &[], &["hoppers-hang", "3"]);
    assert_eq!(going.line(), "hopping ok");
    let stub = descendants(going.pid())
        .into_iter()
        .find(|pid| descendants(*pid).iter().any(|below| lab.alive().contains(below)) && is_nested_stub(*pid))
        .unwrap();
    kill(stub, Signal::SIGKILL);
    assert_eq!(going.finish().status, 125);
    eventually("nothing is left", || lab.alive().is_empty());
}

#[test]
fn a_start_that_hangs_ends_at_its_deadline() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    assert_eq!(served.probed(&lab, &["say", "x"])["exit"], 0);
    // The processes that wait for a command: they have a supervisor, and nobody below.
    let waiting: Vec<i32> = descendants(served.pid())
        .into_iter()
        .filter(|pid| parent(*pid).is_some_and(is_nested_stub) && descendants(*pid).is_empty())
        .collect();
    assert!(!waiting.is_empty());
    for pid in &waiting {
        kill(*pid, Signal::SIGSTOP);
    }
    let call = served.send_run(json!({"command": lab.probe(), "args": ["say", "y"], "timeout": 1}));
    let (text, _) = served.result(call);
    assert!(text.contains("timed out"), "{text}");
    let records = lab.records();
    let end = ends(&records).pop().unwrap();
    assert_eq!((&end["outcome"], &end["errno"]), (&json!("spawn_error"), &json!("ETIMEDOUT")), "{end}");
    // The other one still waits, stopped.
    eventually("the next runs are as good as any", || {
        served.probed(&lab, &["say", "on"])["stdout"] == "on\n"
    });
}

/// A stub, not the launcher: its parent is a launcher.
fn is_nested_stub(pid: i32) -> bool {
    is_stub(pid) && parent(pid).is_some_and(is_stub)
}

#[test]
fn a_killed_server_leaves_no_process() {
    let lab = Lab::plain();
    let mut going = Going::probe(&lab, &[], &["daemons-hang", "5"]);
    assert_eq!(going.line(), "5 up");
    let below = descendants(going.pid());
    assert!(below.len() >= 3, "launcher, stub and command: {below:?}");
    kill(going.pid(), Signal::SIGKILL);
    eventually("launcher, stubs and commands are gone", || below.iter().all(|pid| is_gone(*pid)));
    assert!(lab.alive().is_empty());
    drop(going.finish());
    // The lost run gets its end at the next start (invariant 7).
    assert_eq!(lab.probed(&["say", "x"]).status, 0);
    let records = lab.records();
    let lost: Vec<&Value> = ends(&records).into_iter().filter(|end| end["outcome"] == "lost").collect();
    assert_eq!(lost.len(), 1, "{records:?}");
    assert_eq!(lost[0]["run_id"], records[0]["run_id"]);
}

#[test]
fn a_killed_server_that_waits_leaves_no_process() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    assert_eq!(served.probed(&lab, &["say", "x"])["exit"], 0);
    let below = descendants(served.pid());
    assert!(!below.is_empty());
    kill(served.pid(), Signal::SIGKILL);
    eventually("launcher and warm stubs are gone", || below.iter().all(|pid| is_gone(*pid)));
}

#[test]
fn a_server_that_is_hung_up_on_kills_what_runs_and_says_so() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    served.send_run(json!({"command": lab.probe(), "args": ["daemons-hang", "5"]}));
    eventually("daemons are up", || lab.alive().len() == 6);
    let below = descendants(served.pid());
    assert_eq!(served.stop(), Some(0));
    assert!(lab.alive().is_empty());
    eventually("nobody is left", || below.iter().all(|pid| is_gone(*pid)));
    assert_eq!(lab.end()["outcome"], "cancelled");
    assert_eq!(lab.records().last().unwrap()["event_type"], "server.stop");
}

#[test]
fn a_killed_launcher_ends_what_runs_and_later_runs_are_refused() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    assert_eq!(served.probed(&lab, &["say", "x"])["exit"], 0);
    let call = served.send_run(json!({"command": lab.probe(), "args": ["daemons-hang", "5"]}));
    eventually("daemons are up", || lab.alive().len() == 6);
    let launcher = parent(parent(main_process(&lab)).unwrap()).unwrap();
    assert_eq!(parent(launcher), Some(served.pid()));
    kill(launcher, Signal::SIGKILL);
    // The run goes on under its supervisor or ends; an answer comes in either case.
    served.cancel(call);
    eventually("nothing is left", || lab.alive().is_empty());
    // At most two stubs were warm, and none serves twice now. From then on nothing can be confined, so nothing runs.
    let mut refused = 0;
    for _ in 0..4 {
        let payload = served.probed(&lab, &["say", "x"]);
        if payload["exit"] == 0 {
            assert_eq!((refused, &payload["stdout"]), (0, &json!("x\n")));
        } else {
            assert_eq!(payload["exit"], -1, "{payload}");
            assert!(payload["stderr"].as_str().unwrap().contains("restart the server"), "{payload}");
            refused += 1;
        }
    }
    assert!(refused >= 2);
}

#[test]
fn stubs_are_zombies_of_nobody() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    for _ in 0..5 {
        assert_eq!(served.probed(&lab, &["daemons", "3"])["stdout"], "3 up\n");
    }
    // The launcher and the stubs that wait for work, each with the process of its next command: what has
    // ended is reaped, however late.
    eventually("ended stubs are reaped", || {
        let below = descendants(served.pid());
        let ended = |pid: &i32| status_of(*pid, "State").is_some_and(|state| state.starts_with('Z'));
        !below.iter().any(ended) && below.len() <= 5
    });
}

// ---- records ---------------------------------------------------------------------------------

#[test]
fn inv7_sixteen_at_once_share_one_chain() {
    let lab = Lab::plain();
    let going: Vec<Going> =
        (0..16).map(|n| Going::probe(&lab, &[], &["say", &format!("number {n}")])).collect();
    for (n, going) in going.into_iter().enumerate() {
        let ran = going.finish();
        assert_eq!((ran.status, ran.stdout), (0, format!("number {n}\n")), "{}", ran.stderr);
    }
    let records = lab.records();
    assert_eq!(records.len(), 32);
    for start in records.iter().filter(|record| record["event_type"] == "run.start") {
        let terminal = ends(&records).into_iter().filter(|end| end["run_id"] == start["run_id"]);
        assert_eq!(terminal.count(), 1, "exactly one terminal record: {start}");
    }
    let mut verify = std::process::Command::new(crate::support::BINARY);
    let verify = verify.args(["audit", "verify"]).arg(lab.log()).output().unwrap();
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
}

#[test]
fn inv7_a_record_can_be_read_before_the_program_runs() {
    let lab = Lab::plain();
    let mut going = Going::probe(&lab, &[], &["pause"]);
    assert_eq!(going.line(), "ready ok");
    let records = lab.records();
    assert_eq!((records.len(), &records[0]["event_type"]), (1, &json!("run.start")));
    kill(going.pid(), Signal::SIGTERM);
    going.finish();
    assert_eq!(lab.records().len(), 2);
}

#[test]
fn inv6_a_log_that_takes_no_more_refuses_the_run() {
    let lab = Lab::new(&Rules { write: true, ..Rules::default() });
    assert_eq!(lab.probed(&["say", "x"]).status, 0);
    // One block of 1024 bytes: the log is larger already, so that each write fails.
    let command = format!(
        "ulimit -f 1; exec '{}' exec --policy '{}' -- '{}' try write '{}' ''",
        crate::support::BINARY,
        lab.policy().display(),
        lab.probe().display(),
        lab.at("ws/made").display()
    );
    let ran = std::process::Command::new("bash").arg("-c").arg(command).output().unwrap();
    let ran = crate::support::Ran::of(&ran);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains("log.jsonl"), "{ran:?}");
    assert!(!lab.at("ws/made").exists());
    assert_eq!(lab.probed(&["say", "x"]).status, 0);
    let mut verify = std::process::Command::new(crate::support::BINARY);
    assert!(verify.args(["audit", "verify"]).arg(lab.log()).output().unwrap().status.success());
}

#[test]
fn inv7_records_hold_no_output_no_input_and_no_secret() {
    let lab = Lab::new(&Rules { environment: "pass = [\"GREETING\"]", ..Rules::default() });
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut command = lab.command("exec");
    command.env("GREETING", "marker-of-environment").args(["--stdin", "--"]).arg(lab.probe());
    command.args(["stdin", &format!("--token={token}"), "--password", "marker-of-password"]);
    let input = lab.at("input");
    fs::write(&input, "marker-of-stdin\n").unwrap();
    let output = command.stdin(fs::File::open(&input).unwrap()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("marker-of-stdin"));
    assert_eq!(lab.probed(&["both"]).stderr, "err");
    let log = fs::read_to_string(lab.log()).unwrap();
    for marker in ["marker-of", token, "outerr", "[16 bytes]"] {
        assert!(!log.contains(marker), "{marker} in\n{log}");
    }
    assert!(log.contains("[REDACTED]") && log.contains("GREETING"));
}
