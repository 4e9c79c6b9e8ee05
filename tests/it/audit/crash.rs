//! What a crash or a hand in the file leaves behind, and what the next record says of it.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use cofferdam::audit::Ending;
use cofferdam::audit::verify::{Kind, verify};
use serde_json::Value;

use super::{
    argv, assert_valid, context, denied, end, events, lines, open, place, records, start, wait, whole,
};

#[test]
fn a_torn_tail_is_closed_and_accounted_for() {
    let (_dir, path) = place();
    let argv = argv(&["rm"]);
    wait(open(&path).unwrap().run_denied(&context(), &denied(&argv))).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&bytes[..500]).unwrap();
    assert_eq!(verify(std::slice::from_ref(&path), None).unwrap().broken.unwrap().kind, Kind::Torn);
    wait(open(&path).unwrap().run_denied(&context(), &denied(&argv))).unwrap();
    let report = verify(std::slice::from_ref(&path), None).unwrap();
    assert_eq!((report.broken, report.recovered, report.records), (None, 1, 3));
    let recover: Value = serde_json::from_str(&lines(&path)[2]).unwrap();
    assert_eq!(
        (recover["event_type"].as_str(), recover["torn_bytes"].as_u64()),
        (Some("audit.recover"), Some(500))
    );
    assert_valid(&recover);
}

/// What a process that was killed leaves behind: its records, but neither its ends nor its locks.
fn crash(path: &Path, starts: usize) {
    let audit = open(path).unwrap();
    let argv = argv(&["sleep", "9"]);
    let mut runs = Vec::new();
    for _ in 0..starts {
        runs.push(wait(audit.run_start(&context(), &start(&argv, &[]))).unwrap());
    }
    let list = path.with_file_name("audit.jsonl.instances");
    let (log, instances) = (fs::read(path).unwrap(), fs::read(&list).unwrap());
    drop(runs);
    drop(audit);
    // The same inode: other handles go on.
    fs::write(path, log).unwrap();
    fs::write(list, instances).unwrap();
}

#[test]
fn runs_of_a_killed_server_are_lost_and_said_so_once() {
    let (_dir, path) = place();
    crash(&path, 2);
    let report = verify(std::slice::from_ref(&path), None).unwrap();
    assert_eq!(report.broken.unwrap().kind, Kind::StartWithoutEnd);
    for _ in 0..2 {
        drop(open(&path).unwrap());
        assert_eq!(
            events(&path),
            ["run.start", "run.start", "audit.recover", "run.end lost", "run.end lost"]
        );
    }
    assert_eq!(whole(&path), 5);
    let records = records(&path);
    records.iter().for_each(assert_valid);
    assert_eq!(records[2]["lost_runs"], 2);
    assert_eq!(records[3]["argv"], records[0]["argv"]);
    assert_ne!(records[3]["instance_id"], records[0]["instance_id"]);
}

#[test]
fn lost_runs_are_found_without_the_list_of_instances() {
    let (_dir, path) = place();
    crash(&path, 1);
    fs::remove_file(path.with_file_name("audit.jsonl.instances")).unwrap();
    drop(open(&path).unwrap());
    assert_eq!(events(&path), ["run.start", "audit.recover", "run.end lost"]);
}

#[test]
fn a_run_of_a_live_server_is_never_lost() {
    let (_dir, path) = place();
    let argv = argv(&["sleep", "9"]);
    let server = open(&path).unwrap();
    let run = wait(server.run_start(&context(), &start(&argv, &[]))).unwrap();
    drop(open(&path).unwrap());
    fs::remove_file(path.with_file_name("audit.jsonl.instances")).unwrap();
    let other = open(&path).unwrap();
    wait(other.run_denied(&context(), &denied(&argv))).unwrap();
    let report = verify(std::slice::from_ref(&path), None).unwrap();
    assert_eq!((report.broken, report.open_runs), (None, 1));
    wait(server.run_end(run, &end(Ending::Exited(0)))).unwrap();
    assert_eq!(events(&path), ["run.start", "run.denied denied", "run.end success"]);
    assert_eq!(whole(&path), 3);
}

#[test]
fn an_unlinked_or_replaced_file_is_noticed() {
    let (_dir, path) = place();
    let argv = argv(&["rm"]);
    let audit = open(&path).unwrap();
    wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
    let old = path.with_extension("1");
    fs::rename(&path, &old).unwrap();
    wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
    assert_eq!(events(&path), ["audit.gap", "run.denied denied"]);
    assert_valid(&records(&path)[0]);
    assert_eq!(verify(&[old, path.clone()], None).unwrap().broken, None);
    fs::remove_file(&path).unwrap();
    wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
    assert_eq!(verify(std::slice::from_ref(&path), None).unwrap().broken.unwrap().kind, Kind::Missing);
}

#[test]
fn a_shrunk_file_shows_what_is_missing() {
    let (_dir, path) = place();
    let argv = argv(&["rm"]);
    let audit = open(&path).unwrap();
    for _ in 0..3 {
        wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
    }
    let first = lines(&path)[0].len() as u64 + 1;
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(first).unwrap();
    wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
    assert_eq!(events(&path), ["run.denied denied", "audit.gap", "run.denied denied"]);
    let found = verify(std::slice::from_ref(&path), None).unwrap().broken.unwrap();
    assert_eq!((found.kind, found.line), (Kind::Missing, 2));
}
