//! The launcher seam of the library, whole (`examples/wrapper.rs`): around runs and jobs alike, inside of the
//! built-in walls, and closed when it fails. What becomes of each answer is tested in `src/launch/seam_tests.rs`.

use serde_json::{Value, json};

use crate::hosts::example;
use crate::support::{Lab, Rules, Served};

const PRLIMIT: &str = "/usr/bin/prlimit";

fn wrapped(lines: &[&str], execute: &str) -> (Lab, Served) {
    started(lines, execute, &[])
}

fn started(lines: &[&str], execute: &str, more: &[&str]) -> (Lab, Served) {
    let lab = Lab::new(&Rules { commands: format!("execute = {execute}\n"), ..Rules::default() });
    std::fs::write(lab.at("wrapper"), lines.join("\n")).unwrap();
    let mut command = example("wrapper");
    command.arg(lab.policy()).arg(lab.at("wrapper")).args(more);
    let served = Served::by(command);
    (lab, served)
}

fn ask(served: &mut Served, name: &str, arguments: Value) -> Value {
    let id = served.send("tools/call", json!({"name": name, "arguments": arguments}));
    served.answer(id)["result"]["structuredContent"].clone()
}

/// Output and sandbox of a run, and of a job.
fn both(lab: &Lab, served: &mut Served, words: &[&str]) -> [Value; 2] {
    let call = json!({"command": lab.probe(), "args": words});
    let run = ask(served, "sh_run", call.clone());
    let job = ask(served, "sh_start", call)["job"].clone();
    let mut last = Value::Null;
    crate::support::eventually("the job has ended", || {
        last = ask(served, "sh_output", json!({"job": job}));
        last["eof"] == true
    });
    [run, last]
}

#[test]
fn a_wrapper_is_put_around_runs_and_jobs_and_takes_away() {
    let (lab, mut served) = wrapped(&[PRLIMIT, "--nofile=33"], &format!("[{PRLIMIT:?}]"));
    for said in both(&lab, &mut served, &["state"]) {
        let stdout = said["stdout"].as_str().unwrap_or_else(|| panic!("{said}"));
        assert!(stdout.contains("limit nofile 33 33"), "{said}");
        assert!(stdout.contains(&format!("cwd {}", lab.ws().display())), "{said}");
        assert_eq!(said["sandbox"]["active"], true);
        assert_eq!(said["sandbox"]["wrapper"]["sandboxed"], true, "{said}");
        assert!(said["sandbox"]["wrapper"]["program"].as_str().unwrap().ends_with("prlimit"));
    }
    let starts: Vec<Value> = lab.records().into_iter().filter(|r| r["event_type"] == "run.start").collect();
    assert_eq!(starts.len(), 2);
    for start in starts {
        assert!(start["wrapper"].as_str().unwrap().ends_with("prlimit"), "{start}");
        assert_eq!(start["wrapper_args"], json!(["--nofile=33"]));
        assert_eq!(start["wrapper_sandboxed"], true);
        assert_eq!(start["argv"], json!([lab.probe(), "state"]), "the judged one");
        assert!(start["exe"].as_str().unwrap().ends_with("bin/probe"));
    }
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn a_server_that_confined_itself_wraps_as_well_and_fails_closed() {
    let (lab, mut served) = started(&[PRLIMIT, "--nofile=33"], &format!("[{PRLIMIT:?}]"), &["confined"]);
    for said in both(&lab, &mut served, &["state"]) {
        assert!(said["stdout"].as_str().unwrap().contains("limit nofile 33 33"), "{said}");
        assert_eq!(said["sandbox"]["wrapper"]["sandboxed"], true, "{said}");
    }
    std::fs::remove_file(lab.at("wrapper")).unwrap();
    let run = ask(&mut served, "sh_run", json!({"command": lab.probe(), "args": ["say", "it ran"]}));
    assert_eq!((&run["exit"], &run["stdout"]), (&json!(-1), &json!("")), "{run}");
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn the_walls_stand_around_the_wrapper_and_what_needs_a_namespace_fails_in_there() {
    let unshare = "/usr/bin/unshare";
    let (lab, mut served) = wrapped(&[unshare, "--user", "--mount"], &format!("[{unshare:?}]"));
    for said in both(&lab, &mut served, &["say", "it ran"]) {
        assert_eq!(said["stdout"], "", "never the bare command: {said}");
        let stderr = said["stderr"].as_str().unwrap();
        assert!(stderr.contains("unshare failed"), "{said}");
        assert_eq!(said["sandbox"]["active"], true);
    }
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn a_wrapper_that_fails_or_is_not_in_the_profile_starts_nothing_and_is_recorded() {
    let (lab, mut served) = wrapped(&["/usr/bin/prlimit", "--nofile=33"], "[]");
    let refused = |lab: &Lab, served: &mut Served, why: &str| {
        let call = json!({"command": lab.probe(), "args": ["say", "it ran"]});
        let run = ask(served, "sh_run", call.clone());
        assert_eq!((&run["exit"], &run["stdout"]), (&json!(-1), &json!("")), "{run}");
        let stderr = run["stderr"].as_str().unwrap();
        assert!(stderr.contains(why) && stderr.contains("nothing was started"), "{stderr}");
        let job = ask(served, "sh_start", call);
        assert_eq!(job["state"], "exited", "{job}");
        let output = ask(served, "sh_output", json!({"job": job["job"]}));
        assert_eq!(output["stdout"], "", "{output}");
        assert!(output["stderr"].as_str().unwrap().contains(why), "{output}");
    };
    refused(&lab, &mut served, "does not execute");
    std::fs::write(lab.at("wrapper"), "").unwrap();
    refused(&lab, &mut served, "no wrapper for");
    std::fs::remove_file(lab.at("wrapper")).unwrap();
    refused(&lab, &mut served, "No such file");
    let ends: Vec<Value> = lab.records().into_iter().filter(|r| r["event_type"] == "run.end").collect();
    assert_eq!(ends.len(), 6);
    for end in ends {
        assert_eq!(
            (&end["outcome"], &end["error_code"]),
            (&json!("sandbox_error"), &json!("sandbox_wrapper")),
            "{end}"
        );
        assert_eq!((&end["sandbox"], &end["pid"]), (&json!("failed"), &Value::Null));
    }
    assert_eq!(served.stop(), Some(0));
}
