//! Several principals of one server: what belongs to one is not there for another.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::http_client::{Caller, OTHER, Serving, TOKEN, digest, lab, two};
use crate::support::{Rules, eventually};

#[test]
fn jobs_tasks_and_sessions_of_one_principal_are_not_there_for_another() {
    let lab = lab(&two(""));
    let serving = Serving::tcp(&lab, &[]);
    let (alice, bob) = (Caller::modern(&serving.at, Some(TOKEN)), Caller::modern(&serving.at, Some(OTHER)));
    let started = alice.call("sh_start", json!({"command": lab.probe(), "args": ["pause"]}));
    let job = started.json()["result"]["structuredContent"]["job"].as_str().unwrap().to_owned();
    for tool in ["sh_poll", "sh_output", "sh_kill"] {
        let (text, error) = bob.call(tool, json!({"job": job})).result();
        assert!(error, "{tool}: {text}");
    }
    assert_eq!(lab.alive().len(), 1, "bob has killed alice's job");
    let (text, error) = alice.call("sh_poll", json!({"job": job})).result();
    assert!(!error && text.contains("running"), "{text}");

    // The id of a session is no authentication.
    let session = Caller::legacy(&serving.at, Some(TOKEN));
    let mut thief = Caller::modern(&serving.at, Some(OTHER));
    thief.session = session.session.clone();
    let stolen = thief.call("sh_run", json!({"command": lab.probe(), "args": ["say", "stolen"]}));
    assert_eq!(stolen.status, 404, "{stolen:?}");
    // A job is the principal's, in whichever era and session it asks.
    let (text, error) = session.call("sh_poll", json!({"job": job})).result();
    assert!(!error, "{text}");
    assert!(!session.call("sh_kill", json!({"job": job})).result().1);
    eventually("the job is gone", || lab.alive().is_empty());
    serving.stop();
    let principals: Vec<_> = lab
        .records()
        .iter()
        .filter(|record| record["event_type"] == "run.start")
        .map(|record| record["principal"].clone())
        .collect();
    assert_eq!(principals, ["alice"]);
}

#[test]
fn a_principal_has_its_toolkits_and_its_places_and_is_told_when_they_are_taken() {
    let more = "toolkits = [\"few\"]\njobs = 1\n[toolkit.few]\ncommands = []\n[toolkit.all]\n";
    let lab = crate::support::Lab::plain();
    let more = more.replace("[]", &format!("[{:?}]", lab.probe()));
    lab.write_policy(&Rules { commands: two(&more), ..Rules::default() });
    let serving = Serving::tcp(&lab, &[]);
    let (alice, bob) = (Caller::modern(&serving.at, Some(TOKEN)), Caller::modern(&serving.at, Some(OTHER)));
    let names = |caller: &Caller| {
        let answer = caller.ask(1, "tools/list", json!({})).json();
        answer["result"]["tools"].as_array().unwrap().len()
    };
    assert_eq!((names(&alice), names(&bob)), (12, 6));
    let say = json!({"command": lab.probe(), "args": ["say", "x"]});
    assert!(!alice.call("all_run", say.clone()).result().1);
    let refused = bob.call("all_run", say.clone());
    assert_eq!(refused.json()["error"]["code"], -32602, "{refused:?}");
    assert!(!bob.call("few_run", say.clone()).result().1);
    let wire = bob.begin(2, "few_run", json!({"command": lab.probe(), "args": ["pause"]}));
    eventually("it runs", || !lab.alive().is_empty());
    let (text, error) = bob.call("few_run", say.clone()).result();
    assert!(error && text.contains("busy"), "{text}");
    assert!(!alice.call("all_run", say).result().1, "alice waits for nobody");
    drop(wire);
    eventually("it is gone", || lab.alive().is_empty());
}

#[test]
fn who_asks_too_often_is_told_when_to_come_again_and_others_are_served() {
    let lab = lab(&two("requests_per_minute = 20"));
    let serving = Serving::tcp(&lab, &[]);
    let (alice, bob) = (Caller::modern(&serving.at, Some(TOKEN)), Caller::modern(&serving.at, Some(OTHER)));
    let limited = (0..10).map(|id| bob.ask(id, "tools/list", json!({}))).find(|answer| answer.status == 429);
    let limited = limited.expect("ten at once are more than two");
    assert!(limited.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(alice.ask(1, "tools/list", json!({})).status, 200);
}

#[test]
fn sessions_are_bounded_and_the_idle_ones_make_room() {
    let lab = lab(&two("sessions = 3"));
    let serving = Serving::tcp(&lab, &[]);
    let sessions: Vec<Caller> = (0..6).map(|_| Caller::legacy(&serving.at, Some(OTHER))).collect();
    let list = |caller: &Caller| caller.ask(1, "tools/list", json!({})).status;
    let statuses: Vec<u16> = sessions.iter().map(list).collect();
    assert_eq!(statuses, [404, 404, 404, 200, 200, 200]);
    // None of them is idle: there is no room.
    let wires: Vec<_> = sessions[3..]
        .iter()
        .map(|caller| caller.begin(2, "sh_run", json!({"command": lab.probe(), "args": ["pause"]})))
        .collect();
    eventually("three run", || lab.alive().len() == 3);
    assert_eq!(sessions[3].initialize().status, 429);
    assert_eq!(Caller::modern(&serving.at, Some(OTHER)).ask(1, "tools/list", json!({})).status, 200);
    drop(wires);
}

#[test]
fn tokens_are_read_again_at_sighup_and_sessions_and_jobs_go_on() {
    let lab = crate::support::Lab::plain();
    let file = lab.text("tokens");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let sections = format!("[principal.alice]\ntoken_file = {file:?}\n");
    lab.write_policy(&Rules { commands: sections, ..Rules::default() });
    let serving = Serving::tcp(&lab, &[]);
    let before = Caller::legacy(&serving.at, Some(TOKEN));
    let started = before.call("sh_start", json!({"command": lab.probe(), "args": ["pause"]}));
    let job = started.json()["result"]["structuredContent"]["job"].as_str().unwrap().to_owned();

    std::fs::write(&file, "short\n").unwrap();
    serving.signal(Signal::SIGHUP);
    serving.says("the tokens stay as they were");
    assert_eq!(before.ask(1, "tools/list", json!({})).status, 200);

    std::fs::write(&file, format!("{OTHER}\n")).unwrap();
    serving.signal(Signal::SIGHUP);
    serving.says("1 tokens are valid");
    assert_eq!(before.ask(1, "tools/list", json!({})).status, 401, "the old token is worth nothing");
    let mut after = Caller::modern(&serving.at, Some(OTHER));
    after.session = before.session.clone();
    let (text, error) = after.call("sh_poll", json!({"job": job})).result();
    assert!(!error && text.contains("running"), "{text}");
}

#[test]
fn a_user_at_a_socket_is_the_principal_that_the_policy_names_and_nobody_else_is() {
    let uid = nix::unistd::Uid::effective();
    for (of, status) in [(uid.as_raw(), 200), (uid.as_raw() + 1, 401)] {
        let lab = lab(&format!(
            "[principal.local]\nuid = [\"{of}\"]\n[principal.remote]\ntoken_sha256 = [\"{}\"]\n",
            digest(TOKEN)
        ));
        let serving = Serving::unix(&lab, &[]);
        assert_eq!(Caller::modern(&serving.at, None).ask(1, "tools/list", json!({})).status, status);
        assert_eq!(Caller::modern(&serving.at, Some(TOKEN)).ask(1, "tools/list", json!({})).status, 200);
        // A wrong token is wrong, whoever sends it.
        assert_eq!(Caller::modern(&serving.at, Some(OTHER)).ask(1, "tools/list", json!({})).status, 401);
    }
}
