//! A policy that is loaded again while a server runs: what is taken, what is refused, and what goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Lab, Rules, Served, eventually, kill};

fn rules(commands: &str) -> Rules {
    Rules { commands: commands.to_owned(), limits: "jobs = 64", ..Rules::default() }
}

const BOTH: &str = "[command.cat]\n[command.sleep]\n";

/// Records of this kind.
fn of(lab: &Lab, kind: &str) -> Vec<Value> {
    lab.records().into_iter().filter(|record| record["event_type"] == kind).collect()
}

/// Asks for a reload and waits for its record.
fn reload(lab: &Lab, served: &Served) -> Value {
    let all = || [of(lab, "policy.load"), of(lab, "policy.reject")].concat();
    let before = all().len();
    kill(served.pid(), Signal::SIGHUP);
    eventually("the reload is recorded", || all().len() > before);
    let mut all: Vec<Value> = all();
    all.sort_by_key(|record| record["seq"].as_u64());
    all.pop().unwrap()
}

/// The new one is in force a moment after its record.
fn eventually_runs(served: &mut Served, arguments: &Value, runs: bool) {
    eventually("the verdict is that of the new policy", || served.run(arguments.clone()).1 != runs);
}

#[test]
fn another_policy_is_in_force_for_the_calls_that_follow() {
    let lab = Lab::new(&rules("[command.cat]\n"));
    let mut served = Served::start(&lab);
    assert_eq!(served.hello["capabilities"]["tools"]["listChanged"], true);
    let ls = json!({"command": "ls"});
    assert!(served.run(ls.clone()).1);
    let first = of(&lab, "policy.load").remove(0);
    assert!(first["policy_prev_digest"].is_null());

    lab.write_policy(&rules("[command.ls]\n[toolkit.read]\ncommands = [\"ls\"]\n"));
    let second = reload(&lab, &served);
    assert_eq!(second["event_type"], "policy.load");
    assert_eq!(second["policy_prev_digest"], first["policy_digest"]);
    assert_ne!(second["policy_digest"], first["policy_digest"]);
    // The tools are those of the toolkit now; the client hears of it.
    loop {
        let message = served.message();
        if message["method"] == "notifications/tools/list_changed" {
            break;
        }
    }
    let id = served.send("tools/list", json!({}));
    let tools = served.answer(id)["result"]["tools"].take();
    assert!(tools.as_array().unwrap().iter().all(|tool| tool["name"].as_str().unwrap().starts_with("read_")));
    let id = served.send("tools/call", json!({"name": "read_run", "arguments": ls}));
    assert_eq!(served.answer(id)["result"]["structuredContent"]["exit"], 0);
    assert_eq!(of(&lab, "run.start").last().unwrap()["policy_digest"], second["policy_digest"]);
    let id = served.send_run(json!({"command": "ls"}));
    assert!(served.answer(id)["error"]["message"].as_str().unwrap().contains("Unknown tool"));
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn a_job_finishes_under_the_policy_that_it_began_under() {
    let lab = Lab::new(&rules(BOTH));
    let mut served = Served::start(&lab);
    let start = json!({"name": "sh_start", "arguments": {"command": "sleep", "args": ["1000"]}});
    let id = served.send("tools/call", start);
    let job = served.answer(id)["result"]["structuredContent"]["job"].take();
    lab.write_policy(&rules("[command.cat]\n"));
    assert_eq!(reload(&lab, &served)["event_type"], "policy.load");
    eventually_runs(&mut served, &json!({"command": "sleep", "args": ["0"]}), false);
    let id = served.send("tools/call", json!({"name": "sh_poll", "arguments": {"job": job}}));
    assert_eq!(served.answer(id)["result"]["structuredContent"]["state"], "running");
    let id = served.send("tools/call", json!({"name": "sh_kill", "arguments": {"job": job}}));
    assert_eq!(served.answer(id)["result"]["structuredContent"]["killed"], true);
    let start = of(&lab, "run.start").remove(0);
    let ended = || of(&lab, "run.end").iter().any(|end| end["run_id"] == start["run_id"]);
    eventually("its end is recorded", ended);
    assert_eq!(start["policy_digest"], of(&lab, "policy.load")[0]["policy_digest"]);
}

#[test]
fn what_cannot_be_taken_leaves_the_policy_in_force_and_is_recorded() {
    let lab = Lab::new(&rules("[command.cat]\n"));
    let good = fs::read_to_string(lab.policy()).unwrap();
    let mut served = Served::start(&lab);
    let cat = json!({"command": "cat", "args": ["plain"]});
    let mode = |mode| fs::set_permissions(lab.policy(), fs::Permissions::from_mode(mode)).unwrap();

    let rejected = |code: &str, text: &str| {
        let record = reload(&lab, &served);
        assert_eq!(record["event_type"], "policy.reject", "{record}");
        assert_eq!(record["outcome"], "rejected");
        assert_eq!(record["error_code"], code, "{record}");
        assert!(record["error_text"].as_str().unwrap().contains(text), "{record}");
        assert_eq!(record["policy_digest"], of(&lab, "policy.load")[0]["policy_digest"]);
    };
    fs::write(lab.policy(), "version = 1\nalow = []\n").unwrap();
    rejected("policy_invalid", "policy.toml: workspace.path");
    fs::remove_file(lab.policy()).unwrap();
    rejected("policy_invalid", "No such file");
    let examples = "[command.cat]\nexamples.deny = [\"cat plain\"]\n";
    lab.write_policy(&rules(examples));
    rejected("policy_examples", "must be refused");
    lab.write_policy(&Rules { limits: "jobs = 3", ..rules("[command.ls]\n") });
    rejected("policy_needs_restart", "limits.jobs");
    fs::write(lab.policy(), &good).unwrap();
    mode(0o666);
    rejected("policy_untrusted", "chmod go-w");
    mode(0o644);
    assert!(!served.run(cat).1);
    assert_eq!(of(&lab, "policy.load").len(), 1);
    assert_eq!(reload(&lab, &served)["event_type"], "policy.load");
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn a_hundred_reloads_lose_no_call() {
    let lab = Lab::new(&rules("[command.cat]\n[command.wc]\n"));
    let other = fs::read(lab.policy()).unwrap();
    lab.write_policy(&rules(BOTH));
    let both = fs::read(lab.policy()).unwrap();
    let mut served = Served::start(&lab);
    let (mut calls, mut loads) = (Vec::new(), 1);
    for turn in 0..100 {
        let command = json!({"command": "cat", "args": ["plain"]});
        calls.extend([served.send_run(command.clone()), served.send_run(command)]);
        fs::write(lab.at("next"), if turn % 2 == 0 { &other } else { &both }).unwrap();
        fs::rename(lab.at("next"), lab.policy()).unwrap();
        kill(served.pid(), Signal::SIGHUP);
        calls.push(served.send_run(json!({"command": "cat", "args": ["plain"]})));
        if turn % 10 == 9 {
            for id in calls.drain(..) {
                let (text, error) = served.result(id);
                assert!(!error && text.contains("plain"), "{text}");
            }
            eventually("a reload was recorded", || of(&lab, "policy.load").len() > loads);
            loads = of(&lab, "policy.load").len();
        }
    }
    assert_eq!(of(&lab, "policy.reject"), Vec::<Value>::new());
    assert_eq!(served.stop(), Some(0));
    let records = lab.records();
    let ids = |kind: &str| {
        let mut ids: Vec<String> =
            records.iter().filter(|r| r["event_type"] == kind).map(|r| r["run_id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids("run.start").len(), 300);
    assert_eq!(ids("run.start"), ids("run.end"));
}

#[test]
fn a_watched_file_is_taken_when_it_changes() {
    let lab = Lab::new(&rules("[command.cat]\n"));
    let mut command = lab.command("serve");
    command.arg("--watch");
    let mut served = Served::by(command);
    let text = fs::read_to_string(lab.policy()).unwrap();
    fs::write(lab.at("next"), format!("{text}[command.ls]\n")).unwrap();
    fs::rename(lab.at("next"), lab.policy()).unwrap();
    eventually_runs(&mut served, &json!({"command": "ls"}), true);
    assert_eq!(of(&lab, "policy.load").len(), 2);
    fs::remove_file(lab.policy()).unwrap();
    eventually("that it vanished is recorded", || !of(&lab, "policy.reject").is_empty());
    assert!(!served.run(json!({"command": "ls"})).1);
}

#[test]
fn a_file_that_others_can_write_is_not_watched() {
    let lab = Lab::new(&rules("[command.cat]\n"));
    fs::set_permissions(lab.policy(), fs::Permissions::from_mode(0o666)).unwrap();
    let output = lab.command("serve").arg("--watch").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("chmod go-w"));
}

#[test]
fn a_policy_behind_a_link_that_others_can_swap_is_not_read_again() {
    let lab = Lab::new(&rules("[command.cat]\n"));
    fs::rename(lab.policy(), lab.at("good.toml")).unwrap();
    fs::create_dir(lab.at("shared")).unwrap();
    fs::set_permissions(lab.at("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink("../good.toml", lab.at("shared/policy.toml")).unwrap();
    std::os::unix::fs::symlink("shared/policy.toml", lab.policy()).unwrap();
    let served = Served::start(&lab);
    let record = reload(&lab, &served);
    assert_eq!(
        (&record["event_type"], &record["error_code"]),
        (&json!("policy.reject"), &json!("policy_untrusted"))
    );
    assert!(record["error_text"].as_str().unwrap().contains("can be written by others"), "{record}");
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn another_redaction_is_not_said_to_be_in_force() {
    let lab = Lab::new(&rules("[command.cat]\n"));
    let served = Served::start(&lab);
    let text = fs::read_to_string(lab.policy()).unwrap();
    let more = text.replacen("[audit]\n", "[audit]\nredact = [\"acme-[0-9]+\"]\n", 1);
    assert_ne!(more, text);
    fs::write(lab.policy(), more).unwrap();
    let record = reload(&lab, &served);
    assert_eq!(record["error_code"], "policy_needs_restart", "{record}");
    assert!(record["error_text"].as_str().unwrap().contains("audit.redact"), "{record}");
    assert_eq!(served.stop(), Some(0));
}
