//! Hostile input: one plain line a record, of bounded size, without secrets.

use std::fs;
use std::path::{Path, PathBuf};

use cofferdam::audit::{Context, Ending, RunDenied, RunEnd, RunStart};
use proptest::prelude::*;
use serde_json::Value;

use super::{argv, assert_valid, context, denied, end, lines, open, place, records, start, wait, whole};

#[test]
fn a_hostile_argument_stays_one_plain_line() {
    let (_dir, path) = place();
    let audit = open(&path).unwrap();
    let forged = "x\n{\"schema_version\":1,\"event_type\":\"run.end\"}\r\u{1b}[2J\u{202e}\u{200b}\u{7f}\u{85}\u{e0041}";
    let mut argv = argv(&["echo", forged]);
    argv.push(b"\xff\xfe\0nul".to_vec());
    wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
    drop(audit);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(bytes[..bytes.len() - 1].iter().all(|byte| (0x20..0x7f).contains(byte)));
    let record = &records(&path)[0];
    assert_valid(record);
    assert_eq!(record["argv"][1], forged);
    assert_eq!(record["argv"][2], "%FF%FE\0nul");
    assert_eq!(record["argv_unicode_risk"], true);
}

#[test]
fn no_secret_reaches_any_field() {
    let (_dir, path) = place();
    let audit = open(&path).unwrap();
    let secret = ["hunt", "er2pass"].concat();
    let token = ["gh", "p_", &"a1B2c3D4e5F6".repeat(3)].concat();
    let argv = argv(&["curl", "--password", &secret, &format!("https://me:{secret}@example.org"), &token]);
    let mut context = context();
    context.client_name = Some(token.clone());
    context.tool = Some(format!("password={secret}"));
    let facts = RunStart { cwd: Path::new(&token), ..start(&argv, &[]) };
    wait(async {
        let run = audit.run_start(&context, &facts).await.unwrap();
        let facts = RunEnd { error_text: Some(format!("--token {secret}")), ..end(Ending::Exited(1)) };
        audit.run_end(run, &facts).await.unwrap();
    });
    drop(audit);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&secret) && !text.contains(&token), "{text}");
    let record = &records(&path)[0];
    assert_eq!(record["argv"][1], "--password");
    assert_eq!(record["argv"][2], "[REDACTED]");
    assert!(record["redaction_count"].as_u64().unwrap() >= 3);
    assert!(record["redactions"].as_array().unwrap().contains(&Value::from("github")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn any_argv_gives_one_valid_line_of_bounded_size(
        argv in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                any::<String>().prop_map(String::into_bytes),
                prop::collection::vec(prop_oneof![Just(b'"'), Just(27u8), Just(b'\n'), Just(b'a')], 0..3_000),
            ],
            0..40,
        ),
        text in any::<String>(),
        long in 1usize..100,
    ) {
        let (_dir, path) = place();
        let audit = open(&path).unwrap();
        let text = text.repeat(long);
        let context = Context {
            client_name: Some(text.clone()),
            client_version: Some(text.clone()),
            session_id: Some(text.clone()),
            request_id: Some(text.clone()),
            protocol_version: Some(text.clone()),
            tool: Some(text.clone()),
            ..context()
        };
        let env: Vec<String> = vec![text.clone(); 3];
        let cwd = PathBuf::from(&text);
        wait(async {
            audit.run_denied(&context, &RunDenied { cwd: &cwd, rule_id: &text, ..denied(&argv) }).await.unwrap();
            let facts = RunStart { cwd: &cwd, exe: Some(&cwd), rule_id: &text, ..start(&argv, &env) };
            let run = audit.run_start(&context, &facts).await.unwrap();
            let facts = RunEnd {
                error_code: Some(text.clone()), error_text: Some(text.clone()), errno: Some(2), signal: Some(9),
                violation: Some("seccomp_kill"), ..end(Ending::Killed)
            };
            audit.run_end(run, &facts).await.unwrap();
        });
        drop(audit);
        prop_assert_eq!(lines(&path).len(), 3);
        for line in lines(&path) {
            prop_assert!(line.len() < 8_000, "{} bytes", line.len());
            prop_assert!(!line.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
            assert_valid(&serde_json::from_str(&line).unwrap());
        }
        prop_assert_eq!(whole(&path), 3);
    }
}

#[test]
fn what_a_command_starts_and_is_refused_never_makes_its_record_too_long() {
    let long = "d/".repeat(2_000);
    let (cwd, text) = (PathBuf::from(&long), "n".repeat(500));
    for (count, length) in [(8, 500), (40, 230), (20, 1_000), (400, 10)] {
        let (_dir, path) = place();
        let audit = open(&path).unwrap();
        let argv: Vec<Vec<u8>> = vec![vec![b'a'; length]; count];
        let context = Context {
            client_name: Some(text.clone()),
            client_version: Some(text.clone()),
            session_id: Some(text.clone()),
            request_id: Some(text.clone()),
            ..context()
        };
        let env: Vec<String> = vec![text.clone(); 20];
        wait(async {
            let facts = RunStart { cwd: &cwd, exe: Some(&cwd), rule_id: &text, ..start(&argv, &env) };
            let run = audit.run_start(&context, &facts).await.unwrap();
            let facts = RunEnd {
                denied_syscalls: (0..60).map(|number| format!("a_call_of_some_name_{number}=1")).collect(),
                executions: vec![vec!["/usr/bin/ls".to_owned(), "Z".repeat(1_600)]; 30],
                executed: 30,
                argv_fidelity: Some("confirmed"),
                error_code: Some(text.clone()),
                error_text: Some(text.clone()),
                errno: Some(2),
                ..end(Ending::SandboxError)
            };
            audit.run_end(run, &facts).await.unwrap();
        });
        drop(audit);
        for line in lines(&path) {
            assert!(line.len() < 8_000, "{} bytes", line.len());
            assert_valid(&serde_json::from_str(&line).unwrap());
        }
        let end = &records(&path)[1];
        assert_eq!(end["exec_count"], 30);
        assert!(end["exec"].as_array().unwrap().last().unwrap().as_str().unwrap().starts_with("…[+"));
        assert!(!end["denied_syscalls"].as_array().unwrap().is_empty());
        assert_eq!(whole(&path), 2);
    }
}
