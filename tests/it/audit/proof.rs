//! What `audit verify` proves: over every byte of a small log, over its tail with a checkpoint, from the command
//! line, and by two other implementations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cofferdam::audit::signing::{PublicKey, generate};
use cofferdam::audit::verify::{Anchor, Check, Kind, Report, verify};
use cofferdam::audit::{Audit, Ending};
use cofferdam::config::{AuditConfig, CheckpointConfig, Sink};
use serde_json::Value;

use super::{
    argv, assert_valid, context, denied, end, lines, open, origin, place, records, start, wait, whole,
};

/// A log of `pairs` runs and a refusal.
fn fill(audit: &Audit, pairs: usize) {
    let argv = argv(&["ls", "-l"]);
    wait(async {
        for _ in 0..pairs {
            let run = audit.run_start(&context(), &start(&argv, &[])).await.unwrap();
            audit.run_end(run, &end(Ending::Exited(0))).await.unwrap();
        }
        audit.run_denied(&context(), &denied(&argv)).await.unwrap();
    });
}

fn signed(path: &Path, records: u64) -> (Audit, PublicKey) {
    let key = path.with_file_name("checkpoint.key");
    if !key.exists() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        generate(&key).unwrap();
    }
    let public = PublicKey::load(&path.with_file_name("checkpoint.key.pub")).unwrap();
    let checkpoint = Some(CheckpointConfig { key, records, time: std::time::Duration::from_secs(3_600) });
    let config = AuditConfig { checkpoint, ..AuditConfig::new(vec![Sink::File(path.to_owned())]) };
    (Audit::open(&config, origin()).unwrap(), public)
}

fn check(path: &Path, key: &PublicKey, expect: Option<Anchor>) -> Report {
    let check = Check { files: vec![path.to_owned()], expect, keys: vec![key.clone()], ..Check::default() };
    check.run(&mut |_| {}).unwrap()
}

#[test]
fn every_single_byte_flip_is_found_and_named() {
    let (dir, path) = place();
    let audit = open(&path).unwrap();
    fill(&audit, 1);
    drop(audit);
    let good = fs::read(&path).unwrap();
    let line_of = |at: usize| good[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let copy = dir.path().join("copy.jsonl");
    for at in 0..good.len() {
        let mut bad = good.clone();
        // Another bit at each place: all eight are tried many times over.
        bad[at] ^= 1 << (at % 8);
        fs::write(&copy, &bad).unwrap();
        let found = verify(std::slice::from_ref(&copy), None).unwrap().broken;
        let found = found.unwrap_or_else(|| panic!("byte {at} is not found"));
        assert!(found.line <= line_of(at) + 1 && found.file == copy, "byte {at}: {found}");
        assert!(matches!(found.kind, Kind::Edited | Kind::Foreign | Kind::Torn), "byte {at}: {found}");
    }
}

#[test]
fn a_checkpoint_ends_the_log_and_every_cut_tail_shows() {
    let (dir, path) = place();
    let (audit, key) = signed(&path, 1_000);
    fill(&audit, 2);
    drop(audit);
    let last = records(&path).pop().unwrap();
    assert_eq!(
        (last["event_type"].as_str(), last["key_id"].as_str()),
        (Some("audit.checkpoint"), Some(key.id()))
    );
    assert_valid(&last);
    let report = check(&path, &key, None);
    assert_eq!((report.broken.clone(), report.checkpoints, report.after_checkpoint), (None, 1, Some(0)));
    let head: Anchor = report.head.unwrap().parse().unwrap();
    let good = fs::read(&path).unwrap();
    let copy = dir.path().join("copy.jsonl");
    // Behind every record, and at every byte of the last one.
    let ends = good.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let last = lines(&path).pop().unwrap().len() + 1;
    for cut in ends.filter(|end| *end < good.len()).chain(good.len() - last..good.len()) {
        fs::write(&copy, &good[..cut]).unwrap();
        let report = check(&copy, &key, None);
        assert!(report.broken.is_some() || report.after_checkpoint != Some(0), "cut at {cut}");
        // Whoever kept the checkpoint's own number and hash needs no requirement.
        assert!(check(&copy, &key, Some(head)).broken.is_some(), "cut at {cut}");
    }
}

#[test]
fn checkpoints_come_after_so_many_records_and_over_restarts() {
    let (_dir, path) = place();
    for _ in 0..2 {
        let (audit, _) = signed(&path, 4);
        fill(&audit, 4);
        drop(audit);
    }
    let (_, key) = signed(&path, 4);
    let report = check(&path, &key, None);
    assert_eq!(report.broken, None);
    assert!(report.checkpoints >= 4 && report.after_checkpoint == Some(0), "{report:?}");
    let other = tempfile::tempdir().unwrap();
    generate(&other.path().join("k")).unwrap();
    let stranger = PublicKey::load(&other.path().join("k.pub")).unwrap();
    // Signed, but by nobody who was named: nothing is covered.
    let report = check(&path, &stranger, None);
    assert_eq!((report.broken, report.checkpoints, report.after_checkpoint), (None, 0, None));
}

#[test]
fn a_key_that_a_run_could_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (workspace, keys) = (dir.path().join("ws"), dir.path().join("keys"));
    fs::create_dir(&workspace).unwrap();
    fs::create_dir(&keys).unwrap();
    let said = |key: &Path, read: &[&str], audit: &str| {
        let policy = dir.path().join("policy.toml");
        let text = format!(
            "version = 1\nallow = [\"ls\"]\n[workspace]\npath = {workspace:?}\n[sandbox]\nread = {read:?}\n\
             [audit]\nsinks = [{{ kind = \"stderr\" }}]\ncheckpoint_key = {key:?}\n{audit}\n"
        );
        fs::write(&policy, text).unwrap();
        let output = cofferdam(&["check", policy.to_str().unwrap()]);
        (output.status.code(), String::from_utf8([output.stderr, output.stdout].concat()).unwrap())
    };
    let key = keys.join("checkpoint.key");
    assert_eq!(said(&key, &["@libraries"], "").0, Some(0), "{}", said(&key, &["@libraries"], "").1);
    let refused = |answer: (Option<i32>, String), why: &str| {
        assert!(answer.0 != Some(0) && answer.1.contains(why), "{why}: {answer:?}");
    };
    refused(said(&workspace.join("k"), &["@libraries"], ""), "inside of the workspace");
    refused(said(&key, &["@libraries", keys.to_str().unwrap()], ""), "commands may read");
    refused(said(Path::new("k"), &["@libraries"], ""), "checkpoint_key");
    refused(said(&key, &["@libraries"], "redact = [\"(\"]"), "redact");
    refused(said(&key, &["@libraries"], "redact = [\"x*\"]"), "empty text");
}

fn cofferdam(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cofferdam")).args(args).output().unwrap()
}

fn audit(args: &[&str]) -> (Option<i32>, String) {
    let output = cofferdam(&[&["audit"], args].concat());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn the_command_line_tells_whole_broken_and_unanchored_apart() {
    let (dir, path) = place();
    let key = dir.path().join("checkpoint.key");
    let (key, public) = (key.to_str().unwrap(), format!("{}.pub", key.display()));
    let (code, said) = audit(&["keygen", key]);
    assert!(code == Some(0) && said.starts_with("ed25519:"), "{said}");
    assert_eq!(audit(&["keygen", key]).0, Some(125));
    let opened = open(&path).unwrap();
    fill(&opened, 3);
    let log = path.to_str().unwrap();
    let (code, head) = audit(&["head", log]);
    let head = head.trim();
    assert!(code == Some(0) && head.starts_with("7:"), "{head}");
    assert_eq!(audit(&["verify", log]).0, Some(0));
    assert_eq!(audit(&["verify", "--expect-head", head, log]).0, Some(0));
    assert_eq!(audit(&["verify", "--require-checkpoint", log]).0, Some(2));
    let (code, said) = audit(&["verify", "--json", "--require-checkpoint", "--key", &public, log]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (code, said["signatures_checked"].as_bool(), said["checkpoints"].as_u64()),
        (Some(2), Some(true), Some(0))
    );
    fill(&opened, 1);
    drop(opened);
    assert_eq!(audit(&["verify", "--expect-head", head, log]).0, Some(2));
    let (code, said) = audit(&["verify", "--from", head, log]);
    assert!(code == Some(0) && said.contains("whole: 3 records"), "{said}");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 300;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (code, said) = audit(&["verify", log]);
    assert!(code == Some(1) && said.contains("audit.jsonl:10: edited"), "{said}");
    assert_eq!(audit(&["verify", "--from", head, log]).0, Some(1));
    assert_eq!(audit(&["verify", "/nowhere/audit.jsonl"]).0, Some(125));
}

#[test]
fn files_in_any_order_are_one_chain() {
    let (dir, path) = place();
    let audit = open(&path).unwrap();
    fill(&audit, 6);
    drop(audit);
    let lines = lines(&path);
    let parts: Vec<PathBuf> = [&lines[..4], &lines[4..9], &lines[9..]]
        .iter()
        .enumerate()
        .map(|(number, part)| {
            let file = dir.path().join(format!("part-{number}"));
            fs::write(&file, part.join("\n") + "\n").unwrap();
            file
        })
        .collect();
    let order = |of: [usize; 3]| verify(&of.map(|number| parts[number].clone()), None).unwrap();
    for of in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let report = order(of);
        assert_eq!((report.broken, report.records), (None, 13));
    }
    let missing = verify(&[parts[2].clone(), parts[0].clone()], None).unwrap().broken.unwrap();
    assert_eq!((missing.kind, missing.file), (Kind::Missing, parts[2].clone()));
}

#[test]
fn a_hash_answers_whether_it_was_this_value() {
    let (_dir, path) = place();
    let opened = open(&path).unwrap();
    let secret = ["hunt", "er2pass"].concat();
    let words = argv(&["mysql", "-uroot", &format!("-p{secret}"), "app"]);
    wait(opened.run_denied(&context(), &denied(&words))).unwrap();
    drop(opened);
    let (log, key) = (path.to_str().unwrap(), path.with_file_name("audit.key"));
    let ask = |value: &str| {
        use std::io::Write as _;
        let mut child = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .args(["audit", "hash", "--key", key.to_str().unwrap(), "--find", log])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = ask(&format!("{secret}\n"));
    assert!(code == Some(0) && said.contains("record 1 run.denied"), "{said}");
    assert_eq!(ask("hunter3pass").0, Some(1));
    let password = format!("-p{secret}");
    let command =
        ["hash", "--key", key.to_str().unwrap(), "--find", log, "--", "mysql", "-uroot", &password, "app"];
    assert_eq!(audit(&command).0, Some(0));
    assert_eq!(whole(&path), 1);
}

#[test]
fn python_and_sql_recompute_the_same_hashes() {
    let (_dir, path) = place();
    let (audit, _) = signed(&path, 4);
    fill(&audit, 5);
    drop(audit);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("siem/recompute.py");
    let recompute = |path: &Path| Command::new("python3").arg(&script).arg(path).output().unwrap();
    let output = recompute(&path);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = lines(&path).len();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("python: {count} of {count}")), "{said}");
    assert!(said.contains(&format!("sql: {count} of {count}")), "{said}");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(recompute(&path).status.code(), Some(1));
}
