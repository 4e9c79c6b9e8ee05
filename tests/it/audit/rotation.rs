//! Rotation: nothing is lost, the chain goes on, and a run is found whose start is in an older file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam::audit::verify::verify;
use cofferdam::audit::{Audit, Ending};
use cofferdam::config::{AuditConfig, Rotation, Sink};

use super::{argv, assert_valid, context, denied, end, events, origin, place, records, start, wait};

fn rotating(path: &Path, rotation: Rotation) -> Audit {
    let config = AuditConfig { rotation, ..AuditConfig::new(vec![Sink::File(path.to_owned())]) };
    Audit::open(&config, origin()).unwrap()
}

fn small() -> Rotation {
    Rotation { max_size: 20_000, max_age: Duration::ZERO, keep: 1_000 }
}

/// The rotated files and the file, in the order of the chain.
pub(super) fn files(path: &Path) -> Vec<PathBuf> {
    let stem = format!("{}-", path.file_stem().unwrap().to_str().unwrap());
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&stem)).collect();
    found.sort();
    found.push(path.to_owned());
    found
}

#[test]
fn rotation_under_load_loses_nothing_and_the_chain_verifies_over_the_files() {
    let (_dir, path) = place();
    // Two logs on one file: two processes would do the same.
    let audits = [rotating(&path, small()), rotating(&path, small())];
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let audit = audits[caller % 2].clone();
            std::thread::spawn(move || {
                let argv = argv(&["ls"]);
                for _ in 0..25 {
                    let run = wait(audit.run_start(&context(), &start(&argv, &[]))).unwrap();
                    wait(audit.run_end(run, &end(Ending::Exited(0)))).unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    drop(audits);
    let files = files(&path);
    assert!(files.len() > 5, "{files:?}");
    let report = verify(&files, None).unwrap();
    assert_eq!((report.broken, report.open_runs), (None, 0));
    let all: Vec<String> = files.iter().flat_map(|file| events(file)).collect();
    let count = |name: &str| all.iter().filter(|event| *event == name).count();
    assert_eq!((count("run.start"), count("run.end success")), (200, 200));
    assert_eq!(count("audit.rotate"), files.len() - 1);
    assert_eq!(count("audit.gap"), 0, "a rotation by another process is no gap");
    for (old, new) in files.iter().zip(&files[1..]) {
        let first = records(new).remove(0);
        assert_valid(&first);
        assert_eq!(first["prev_file"], old.file_name().unwrap().to_str().unwrap());
        assert_eq!(first["prev_records"], records(old).len());
        assert!(fs::metadata(old).unwrap().len() < 60_000);
    }
}

#[test]
fn old_files_are_removed_beyond_keep_and_the_rest_verifies() {
    let (_dir, path) = place();
    let audit = rotating(&path, Rotation { keep: 2, ..small() });
    for _ in 0..120 {
        wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
    }
    drop(audit);
    assert_eq!(files(&path).len(), 3);
}

#[test]
fn a_file_is_rotated_at_its_age() {
    let (_dir, path) = place();
    let rotation = Rotation { max_size: 0, max_age: Duration::from_millis(1), keep: 9 };
    let audit = rotating(&path, rotation);
    for _ in 0..3 {
        wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(audit);
    assert_eq!(files(&path).len(), 3);
    assert_eq!(verify(&files(&path), None).unwrap().broken, None);
}

#[test]
fn a_run_whose_start_is_in_a_rotated_file_gets_its_lost_end_after_a_crash() {
    let (dir, path) = place();
    let audit = rotating(&path, small());
    let run = wait(audit.run_start(&context(), &start(&argv(&["sleep", "9"]), &[]))).unwrap();
    for _ in 0..60 {
        wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
    }
    let before = files(&path);
    assert!(before.len() > 2);
    // Other inodes: without the locks of the server that lives, as after its death.
    let copy = dir.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = entry.unwrap().path();
        fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    let copied = copy.join(path.file_name().unwrap());
    drop(rotating(&copied, Rotation { max_size: 0, ..small() }));
    let tail = events(&copied);
    assert_eq!(tail[tail.len() - 2..], ["audit.recover", "run.end lost"]);
    assert_eq!(verify(&files(&copied), None).unwrap().broken, None);
    // The same without the list: only the end of the log is read then, which these files are.
    let list = copy.join("audit.jsonl.instances");
    fs::remove_file(list).unwrap();
    drop(rotating(&copied, Rotation { max_size: 0, ..small() }));
    assert_eq!(events(&copied).len(), tail.len(), "told once");
    // The server lives: another one that opens the log does not take its run for lost.
    drop(rotating(&path, small()));
    wait(audit.run_end(run, &end(Ending::Exited(0)))).unwrap();
    drop(audit);
    let report = verify(&files(&path), None).unwrap();
    assert_eq!((report.broken, report.recovered, report.open_runs), (None, 0, 0));
}

#[test]
fn a_crash_in_the_middle_of_a_rotation_is_finished_by_the_next() {
    let (_dir, path) = place();
    let audit = rotating(&path, Rotation { max_size: 0, ..small() });
    for _ in 0..30 {
        wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
    }
    drop(audit);
    // Both names are there, and the new file is not in its place yet.
    fs::hard_link(&path, path.with_file_name("audit-000000000001.jsonl")).unwrap();
    fs::write(path.with_file_name("audit.jsonl.new"), "torn").unwrap();
    let audit = rotating(&path, small());
    wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
    drop(audit);
    let files = files(&path);
    assert_eq!(files.len(), 2);
    assert_eq!(verify(&files, None).unwrap().broken, None);
    assert!(!path.with_file_name("audit.jsonl.new").exists());
}

#[test]
fn a_file_that_is_moved_on_purpose_is_followed_without_a_gap() {
    let (_dir, path) = place();
    let audit = rotating(&path, small());
    wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
    let old = path.with_file_name("moved.1");
    fs::rename(&path, &old).unwrap();
    audit.reopen();
    wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
    drop(audit);
    assert_eq!(events(&path), ["audit.rotate", "run.denied denied"]);
    assert_eq!(records(&path)[0]["prev_file"], "moved.1");
    assert_eq!(verify(&[old, path], None).unwrap().broken, None);
}

#[test]
fn a_directory_in_which_nothing_can_be_renamed_is_said_and_the_log_goes_on() {
    let (_dir, path) = place();
    let audit = rotating(&path, small());
    // In the way of the name, and not the file itself.
    fs::write(path.with_file_name("audit-000000000001.jsonl"), "in the way").unwrap();
    for _ in 0..40 {
        wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).unwrap();
    }
    let state = audit.state();
    assert!(state.reasons.iter().any(|reason| reason.contains("rotation")), "{state:?}");
    drop(audit);
    assert_eq!(events(&path).len(), 40);
}
