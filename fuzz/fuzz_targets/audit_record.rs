//! Records: whatever arguments, names, errors and directories hold, each gives exactly one line that is valid JSON,
//! of bounded size, without a control, bidirectional or invisible character, and the log they make is whole.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use cofferdam::audit::verify::verify;
use cofferdam::audit::{
    Audit, Context, Ending, LimitFacts, Origin, RunDenied, RunEnd, RunStart, SandboxFacts, Stamps,
};
use cofferdam::config::{AuditConfig, Sink, SyncPolicy};
use libfuzzer_sys::fuzz_target;

fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().build().expect("a runtime"))
}

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.jsonl");
    let config =
        AuditConfig { sync: SyncPolicy::Relaxed, ..AuditConfig::new(vec![Sink::File(path.clone())]) };
    let audit = Audit::open(&config, Origin::default()).expect("opened");
    let argv: Vec<Vec<u8>> = data.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let text = String::from_utf8_lossy(data).into_owned();
    let names = vec![text.clone(); 2];
    let cwd = PathBuf::from(&text);
    let context = Context {
        tool: Some(text.clone()),
        client_name: Some(text.clone()),
        session_id: Some(text.clone()),
        request_id: Some(text.clone()),
        trace: Some((text.clone(), text.clone())),
        ..Context::default()
    };
    runtime().block_on(async {
        let denied = RunDenied {
            argv: &argv,
            cwd: &cwd,
            env_names: &names,
            stdin_bytes: None,
            rule_id: &text,
            rule_kind: "allow",
            reason: "command_not_allowed",
            consent: None,
            stamps: Stamps::default(),
        };
        audit.run_denied(&context, &denied).await.expect("recorded");
        let start = RunStart {
            argv: &argv,
            exe: Some(&cwd),
            cwd: &cwd,
            env_names: &names,
            stdin_bytes: None,
            limits: LimitFacts::default(),
            sandbox: SandboxFacts::default(),
            rule_id: &text,
            rule_kind: "allow",
            consent: None,
            stamps: Stamps::default(),
        };
        let run = audit.run_start(&context, &start).await.expect("recorded");
        let end = RunEnd {
            ending: Ending::Killed,
            error_code: Some(text.clone()),
            error_text: Some(text.clone()),
            executions: vec![vec![text.clone(); 3]],
            executed: 1,
            ..RunEnd::default()
        };
        audit.run_end(run, &end).await.expect("recorded");
    });
    drop(audit);
    let bytes = std::fs::read(&path).expect("read");
    let log = std::str::from_utf8(&bytes).expect("UTF-8");
    assert_eq!(log.matches('\n').count(), 3);
    for line in log.lines() {
        assert!(line.len() < 8_000, "{} bytes", line.len());
        assert!(!line.chars().any(|c| c.is_control() || ('\u{200b}'..='\u{200f}').contains(&c)));
        assert!(
            !line
                .chars()
                .any(|c| ('\u{202a}'..='\u{202e}').contains(&c) || c >= '\u{e0000}' && c < '\u{e1000}')
        );
        assert!(matches!(serde_json::from_str(line), Ok(serde_json::Value::Object(_))));
    }
    assert_eq!(verify(&[path], None).expect("read").broken, None);
});
