//! Tests of `launch/seam.rs`: what becomes of each answer of a wrapper. No process is started.

use serde_json::json;

use super::*;
use crate::config::{Config, PolicyBuilder};
use crate::policy::{Policy, Request, Verdict};
use crate::sandbox::profile::Profile;

/// A policy that allows `cat`, whose profile may execute `env` besides.
struct House {
    _keep: tempfile::TempDir,
    config: Arc<Config>,
    plan: Box<Authorized>,
    prepared: Prepared,
}

fn house(execute: &[&str]) -> House {
    let keep = tempfile::tempdir().unwrap();
    let place = |name: &str| keep.path().join(name);
    std::fs::create_dir(place("ws")).unwrap();
    let config = PolicyBuilder::new(place("ws")).audit_file(place("log/audit.jsonl"));
    let config = Arc::new(config.command("cat", [("execute", json!(execute))]).build().unwrap());
    let policy = Policy::new(Arc::clone(&config), &[]).unwrap();
    let argv = ["cat", "a b", "--"].map(|word| word.as_bytes().to_vec()).to_vec();
    let request = Request { argv, ..Request::default() };
    let plan = match policy.judge(&request, config.workspace.resolve(None)) {
        Verdict::Allow(plan) => plan,
        other => panic!("{other:?}"),
    };
    let Target::Found(program) = plan.target() else { panic!("no cat") };
    let profile = Profile::compile(&config, plan.command(), program).unwrap();
    let digest = profile.digest().unwrap();
    House { _keep: keep, config, plan, prepared: Prepared { profile: Arc::new(profile), digest } }
}

const HELPER: &str = "/usr/bin/prlimit";

async fn passed(house: &House, wrapper: impl Wrapper) -> Result<Ready<'_>, LaunchError> {
    Seam::new(wrapper).pass(&house.plan, &house.prepared, &house.config.programs).await
}

#[track_caller]
fn refused(outcome: Result<Ready<'_>, LaunchError>, why: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.step, "wrapper");
    assert!(
        error.message.contains(why) && error.message.ends_with("nothing was started"),
        "{}",
        error.message
    );
}

fn words(ready: &Ready<'_>) -> Vec<String> {
    ready.argv().iter().map(|word| word.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn without_a_wrapper_the_judged_plan_is_what_runs() {
    let house = house(&[]);
    let ready = Seam::default().pass(&house.plan, &house.prepared, &house.config.programs).await.unwrap();
    assert_eq!((words(&ready), ready.wrapped()), (vec!["cat".into(), "a b".into(), "--".into()], None));
    assert!(ready.program().unwrap().path.ends_with("cat"));
}

#[tokio::test]
async fn what_was_judged_stands_whole_at_the_end_of_what_it_is_put_into() {
    let house = house(&[HELPER]);
    let ready = passed(&house, |plan: &Plan| {
        assert_eq!((plan.name.to_str(), plan.args.len()), (Some("cat"), 2));
        Ok(Wrapping::new(HELPER).arg("--nofile=64").arg("--").sandboxed(true))
    });
    let ready = ready.await.unwrap();
    let Target::Found(cat) = house.plan.target() else { panic!() };
    let cat = cat.path.to_str().unwrap();
    assert_eq!(words(&ready), [HELPER, "--nofile=64", "--", cat, "a b", "--"]);
    assert_eq!(ready.program().unwrap().path.to_str(), Some(HELPER));
    let wrapped = ready.wrapped().unwrap();
    assert_eq!((wrapped.args.len(), wrapped.sandboxed), (2, true));
    let by_name = passed(&house, |_: &Plan| Ok(Wrapping::new("prlimit"))).await.unwrap();
    assert_eq!(by_name.program().unwrap().real, ready.program().unwrap().real);
}

#[tokio::test]
async fn a_wrapper_that_leaves_a_command_alone_has_to_say_so() {
    let house = house(&[]);
    let ready =
        passed(&house, |_: &Plan| Ok(Wrapping::unchanged().arg("ignored").sandboxed(true))).await.unwrap();
    assert_eq!(words(&ready), ["cat", "a b", "--"]);
    let nothing = Wrapped { program: None, args: Vec::new(), sandboxed: false };
    assert_eq!(ready.wrapped(), Some(&nothing));
}

#[tokio::test]
async fn errors_panics_and_answers_that_cannot_be_started_are_refusals() {
    let house = house(&[HELPER]);
    refused(passed(&house, |_: &Plan| Err("no\nprofile\u{1b}[2J".into())).await, "no profile [2J");
    #[allow(clippy::panic, reason = "that it is caught is what is tested")]
    let panics = |_: &Plan| -> Result<Wrapping, BoxError> { panic!("in the wrapper") };
    refused(passed(&house, panics).await, "it panicked");
    refused(passed(&house, |_: &Plan| Ok(Wrapping::new(""))).await, "no such program");
    refused(passed(&house, |_: &Plan| Ok(Wrapping::new("/nonexistent/wrap"))).await, "no such program");
    refused(passed(&house, |_: &Plan| Ok(Wrapping::new("./prlimit"))).await, "relative path");
    refused(passed(&house, |_: &Plan| Ok(Wrapping::new(HELPER).arg("a\0b"))).await, "NUL");
    refused(passed(&house, |_: &Plan| Ok(Wrapping::new("/usr/bin/env"))).await, "command.cat.execute");
    let loader = "/lib64/ld-linux-x86-64.so.2";
    refused(passed(&house, move |_: &Plan| Ok(Wrapping::new(loader))).await, "command.cat.execute");
}

#[tokio::test]
async fn a_wrapper_that_does_not_answer_starts_nothing() {
    let house = house(&[HELPER]);
    let Target::Found(cat) = house.plan.target() else { panic!("no cat") };
    let (answer, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let hangs = move |_: &Plan| {
        let _gone = wait.lock().unwrap().recv();
        Ok(Wrapping::new(HELPER))
    };
    let error = ask(Arc::new(hangs), shown(&house.plan, cat), Duration::from_millis(10)).await.unwrap_err();
    assert!(error.message.contains("did not answer within 10ms; nothing was started"), "{}", error.message);
    drop(answer);
}
