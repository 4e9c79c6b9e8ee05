//! Lines of shell syntax, run: `exec --line` in the built binary, so that every command goes through the
//! launcher, the judge and the records.

mod differential;
mod explained;
mod pipes;
mod redirections;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Lab, Ran, Rules};

/// Programs of the corpus of lines, and those that tests of pipes need.
pub(crate) const ALLOW: &str = "allow = [\"cat\", \"echo\", \"false\", \"find\", \"grep\", \"head\", \"ls\", \"printenv\", \
    \"printf\", \"seq\", \"sleep\", \"sort\", \"tail\", \"tee\", \"test\", \"[\", \"tr\", \"true\", \"uniq\", \"wc\", \"yes\", \
    \"base64\", \"od\", \"touch\"]";

/// A workspace that commands may write, with the programs of the corpus.
pub(crate) fn writable() -> Lab {
    Lab::new(&Rules { top: ALLOW, write: true, limits: "jobs = 8", ..Rules::default() })
}

pub(crate) fn read_only() -> Lab {
    Lab::new(&Rules { top: ALLOW, ..Rules::default() })
}

/// Gives what the test wrote to whom commands run as.
pub(crate) fn give(path: &Path) {
    if nix::unistd::Uid::effective().is_root() {
        let done = Command::new("chown").args(["-R", "65534:65534"]).arg(path).status().unwrap();
        assert!(done.success());
    }
}

/// The JSON object of a line that was run with `flags`.
pub(crate) fn line_with(lab: &Lab, flags: &[&str], line: &str) -> Value {
    let mut command = lab.command("exec");
    command.args(flags).args(["--json", "--line", line]);
    Ran::of(&command.output().unwrap()).json()
}

pub(crate) fn line(lab: &Lab, text: &str) -> Value {
    line_with(lab, &[], text)
}

/// The output of a line that must have ended well.
#[track_caller]
fn output(lab: &Lab, text: &str) -> String {
    let done = line(lab, text);
    assert_eq!((&done["outcome"], &done["exit"]), (&json!("ran"), &json!(0)), "{done}");
    done["stdout"].as_str().unwrap().to_owned()
}

/// A line whose standard input is `bytes`: what it wrote, byte for byte.
fn fed(lab: &Lab, text: &str, bytes: &[u8]) -> (i32, Vec<u8>) {
    let from = lab.at("stdin");
    std::fs::write(&from, bytes).unwrap();
    let mut command = lab.command("exec");
    command.args(["--stdin", "--line", text]).stdin(Stdio::from(std::fs::File::open(from).unwrap()));
    let done = command.output().unwrap();
    (done.status.code().unwrap_or(-1), done.stdout)
}

#[test]
fn a_refused_command_refuses_the_line_before_anything_is_made() {
    let lab = writable();
    for text in [
        "echo a > made && sh -c true",
        "touch made; rm made",
        "echo a | tee made | sh",
        "{ touch made; } && ( echo a; bash )",
        "touch made; echo a > /etc/made",
        "touch made; echo a > ../made",
        "touch made; cat < /etc/passwd",
        "touch made; FOO=1 true",
        "touch made; echo $NOBODY",
        "touch made; (cd nowhere && ls)",
        "touch made; echo $(true)",
    ] {
        let done = line(&lab, text);
        assert_eq!(done["outcome"], "denied", "{text}: {done}");
        assert!(!lab.ws().join("made").exists(), "{text}");
    }
    let records = lab.records();
    assert!(records.iter().all(|record| record["event_type"] != "run.start"), "nothing was started");
    assert_eq!(records.iter().filter(|record| record["event_type"] == "run.denied").count(), 11);
}

#[test]
fn every_command_has_its_own_records_and_they_share_the_id_of_the_line() {
    let lab = read_only();
    let done = line(&lab, "cat plain | wc -l && echo b; false || true");
    assert_eq!((&done["exit"], &done["stdout"]), (&json!(0), &json!("1\nb\n")), "{done}");
    let records = lab.records();
    for event in ["run.start", "run.end"] {
        let mut of: Vec<(u64, String)> = records
            .iter()
            .filter(|record| record["event_type"] == event)
            .map(|record| {
                assert_eq!(record["line_id"], done["line_id"]);
                (record["line_stage"].as_u64().unwrap(), record["cmd"].as_str().unwrap().to_owned())
            })
            .collect();
        of.sort();
        let expected = [(1, "cat"), (2, "wc"), (3, "echo"), (4, "false"), (5, "true")];
        assert_eq!(of, expected.map(|(at, name)| (at, name.to_owned())), "{event}");
    }
}

#[test]
fn what_was_judged_is_what_runs_patterns_included() {
    let lab = read_only();
    std::fs::write(lab.ws().join("-rf"), "").unwrap();
    let done = line(&lab, "printf '[%s]' *");
    assert_eq!(done["stdout"], "[-rf][plain]", "{done}");
    let start = lab.records().into_iter().find(|record| record["event_type"] == "run.start").unwrap();
    assert_eq!(start["argv"], json!(["printf", "[%s]", "-rf", "plain"]));
}

#[test]
fn a_pattern_tells_nothing_that_a_command_could_not_list() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let lab = read_only();
    let hidden = lab.ws().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    std::fs::write(hidden.join("name"), "").unwrap();
    symlink(lab.at("outside"), lab.ws().join("out")).unwrap();
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(output(&lab, "echo out/* ../outside/* /etc/pass*"), "out/* ../outside/* /etc/pass*\n");
    if nix::unistd::Uid::effective().is_root() {
        assert_eq!(output(&lab, "echo hidden/*"), "hidden/*\n", "only root could list it");
    }
}

#[test]
fn a_pipeline_takes_its_places_at_once_or_none() {
    let lab = Lab::new(&Rules { top: ALLOW, limits: "jobs = 2\nmax_jobs = 2", ..Rules::default() });
    let done = line(&lab, "cat plain | cat | cat");
    assert_eq!((&done["outcome"], &done["rule"]), (&json!("denied"), &json!("limits.jobs")), "{done}");
    assert_eq!(output(&lab, "cat plain | cat; cat plain | cat"), "plain\nplain\n", "one after the other");
    let nested = line(&lab, "{ echo a | cat; } | cat");
    assert_eq!(nested["rule"], "limits.jobs", "a group runs beside what it feeds: {nested}");
}

#[test]
fn one_deadline_ends_all_of_a_line() {
    let lab = writable();
    let done = line_with(&lab, &["--timeout", "1s"], "sleep 600 | sleep 600; touch made");
    assert_eq!((&done["timed_out"], &done["status"]), (&json!(true), &json!(124)), "{done}");
    assert!(!lab.ws().join("made").exists());
    let ends: Vec<Value> =
        lab.records().into_iter().filter(|record| record["event_type"] == "run.end").collect();
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|end| end["outcome"] == "timeout" && end["procs_left"] == 0), "{ends:?}");
    let both = line_with(&lab, &["--timeout", "1s"], "sleep 0.7; sleep 0.7; touch made");
    assert_eq!(both["timed_out"], true, "the time of a line is that of all its commands: {both}");
    assert!(!lab.ws().join("made").exists());
}

#[test]
fn patterns_that_take_longer_than_the_line_may_are_refused_and_nothing_is_made() {
    let lab = writable();
    // What is left at the deadline would be a command with fewer words than were asked for.
    let done = line_with(&lab, &["--timeout", "1ns"], "touch made; echo *");
    assert_eq!((&done["outcome"], &done["rule"]), (&json!("denied"), &json!("line.expansion")), "{done}");
    assert_eq!(done["reason"], "limit_too_high", "{done}");
    assert!(!lab.ws().join("made").exists());
    let records = lab.records();
    assert!(records.iter().all(|record| record["event_type"] != "run.start"), "nothing was started");
    let denied: Vec<_> = records.iter().filter(|record| record["event_type"] == "run.denied").collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
}
