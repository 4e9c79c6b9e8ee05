//! Invariant 7, nothing is unlogged: the audit room through its public face.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use cofferdam::audit::verify::{Kind, verify};
use cofferdam::audit::{
    Audit, AuditError, Context, Ending, LimitFacts, Origin, PolicyLoad, RunDenied, RunEnd, RunStart,
    SandboxFacts, SandboxState, ServerStart, Stamps, StopReason,
};
use cofferdam::config::{AuditConfig, OnFailure, Sink};
use proptest::prelude::*;
use serde_json::Value;

fn digest() -> String {
    format!("sha256:{}", "ab".repeat(32))
}

fn open(path: &Path) -> Result<Audit, AuditError> {
    let config = AuditConfig { sinks: vec![Sink::File(path.to_owned())], on_failure: OnFailure::Refuse };
    let origin = Origin {
        policy_digest: digest(),
        policy_source: "/etc/cofferdam/policy.toml".to_owned(),
        policy_rules: 41,
        peer_pid: Some(4121),
        peer_uid: Some(1000),
    };
    Audit::open(&config, origin)
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn sandbox() -> SandboxFacts {
    SandboxFacts {
        state: SandboxState::Enforced,
        digest: Some(digest()),
        landlock_abi: Some(6),
        network_denied: true,
        seccomp: true,
        seccomp_digest: Some(digest()),
        no_new_privs: true,
        caps: 0,
        uid: 1000,
        gid: 1000,
    }
}

fn start<'a>(argv: &'a [Vec<u8>], env_names: &'a [String]) -> RunStart<'a> {
    RunStart {
        argv,
        exe: Some(Path::new("/usr/bin/ls")),
        cwd: Path::new("/work"),
        env_names,
        stdin_bytes: Some(12),
        limits: LimitFacts {
            timeout: Duration::from_secs(30),
            output_bytes: 65_536,
            memory_bytes: Some(1 << 30),
            cpu: Some(Duration::from_secs(10)),
            processes: Some(64),
        },
        sandbox: sandbox(),
        rule_id: "allow",
        rule_kind: "allow",
        stamps: Stamps {
            argument_rules_off: true,
            allow_any: true,
            interpreter: true,
            timeout_clamped: true,
        },
    }
}

fn denied<'a>(argv: &'a [Vec<u8>]) -> RunDenied<'a> {
    RunDenied {
        argv,
        cwd: Path::new("/work"),
        env_names: &[],
        stdin_bytes: None,
        rule_id: "default",
        rule_kind: "allow",
        reason: "command_not_allowed",
        stamps: Stamps::default(),
    }
}

fn end(ending: Ending) -> RunEnd {
    RunEnd {
        ending,
        pid: Some(4711),
        duration: Duration::from_millis(12),
        queue: Duration::from_millis(1),
        cpu_user: Some(Duration::from_millis(3)),
        cpu_sys: Some(Duration::from_millis(2)),
        max_rss_bytes: Some(1 << 20),
        ..RunEnd::default()
    }
}

fn context() -> Context {
    Context {
        transport: Some("stdio"),
        tool: Some("sh_run".to_owned()),
        session_id: Some("5f1c1c1e-93d2-4d0c-9a55-1f7c2b1d0001".to_owned()),
        request_id: Some("\"a-1\"".to_owned()),
        client_name: Some("a client\u{202e}".to_owned()),
        client_version: Some("1.0".to_owned()),
        protocol_version: Some("2025-11-25".to_owned()),
        trace: Some(("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned())),
    }
}

fn argv(elements: &[&str]) -> Vec<Vec<u8>> {
    elements.iter().map(|element| element.as_bytes().to_vec()).collect()
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn records(path: &Path) -> Vec<Value> {
    lines(path).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events(path: &Path) -> Vec<String> {
    let name = |record: &Value| {
        let outcome = record["outcome"].as_str().unwrap_or("");
        format!("{} {outcome}", record["event_type"].as_str().unwrap()).trim().to_owned()
    };
    records(path).iter().map(name).collect()
}

fn whole(path: &Path) -> u64 {
    let report = verify(&[path.to_owned()], None).unwrap();
    assert_eq!(report.broken, None);
    report.records
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/audit.jsonl");
    (dir, path)
}

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(include_str!("../../siem/record.schema.json")).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
});

fn assert_valid(record: &Value) {
    let errors: Vec<String> =
        SCHEMA.iter_errors(record).map(|error| format!("{} at {}", error, error.instance_path)).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{record:#}");
}

#[test]
fn each_kind_of_record_is_valid_and_has_its_end() {
    let (_dir, path) = place();
    let audit = open(&path).unwrap();
    let argv = argv(&["ls", "-l"]);
    let env = vec!["PATH".to_owned(), "HOME".to_owned()];
    let killed = |ending| RunEnd { signal: Some(9), procs_killed: 2, ..end(ending) };
    let failed = |ending, code: &str| RunEnd {
        pid: None,
        error_code: Some(code.to_owned()),
        error_text: Some("execve failed\n".to_owned()),
        errno: Some(libc::ENOENT),
        ..end(ending)
    };
    let ends = [
        end(Ending::Exited(0)),
        end(Ending::Exited(3)),
        end(Ending::Signal(11)),
        RunEnd { violation: Some("seccomp_kill"), ..end(Ending::Signal(31)) },
        end(Ending::Signal(34)),
        killed(Ending::Timeout),
        killed(Ending::OutputLimit),
        killed(Ending::ResourceLimit),
        killed(Ending::Cancelled),
        RunEnd { stop_reason: Some(StopReason::JobKill), ..killed(Ending::Killed) },
        failed(Ending::SpawnError, "not_found"),
        failed(Ending::SandboxError, "landlock"),
        RunEnd { error_code: None, ..failed(Ending::SpawnError, "") },
    ];
    wait(async {
        audit
            .server_start(&ServerStart {
                transport: Some("stdio"),
                landlock_abi: Some(6),
                seccomp: true,
                stamps: Stamps::default(),
            })
            .await
            .unwrap();
        let fs = vec!["/work:rwx".to_owned(); 100];
        let load = PolicyLoad {
            previous: Some(digest()),
            sandbox_digest: Some(digest()),
            landlock_fs: fs,
            seccomp_digest: None,
            stamps: Stamps::default(),
        };
        audit.policy_load(&load).await.unwrap();
        for facts in &ends {
            for context in [context(), Context::default()] {
                let run = audit.run_start(&context, &start(&argv, &env)).await.unwrap();
                audit.run_end(run, facts).await.unwrap();
            }
        }
        audit.run_denied(&context(), &denied(&argv)).await.unwrap();
        drop(audit.run_start(&context(), &start(&argv, &env)).await.unwrap());
        audit.server_stop().await.unwrap();
    });
    drop(audit);
    let records = records(&path);
    records.iter().for_each(assert_valid);
    assert_eq!(whole(&path), records.len() as u64);
    let outcomes: Vec<&str> = records.iter().filter_map(|record| record["outcome"].as_str()).collect();
    for outcome in [
        "success",
        "nonzero_exit",
        "signal",
        "timeout",
        "output_limit",
        "resource_limit",
        "cancelled",
        "killed",
        "spawn_error",
        "sandbox_error",
        "denied",
        "lost",
    ] {
        assert!(outcomes.contains(&outcome), "{outcome}");
    }
    for record in &records {
        for (name, value) in record.as_object().unwrap() {
            let flat = match value {
                Value::Array(items) => items.iter().all(Value::is_string),
                Value::Number(number) => number.is_u64(),
                Value::Object(_) | Value::Null => false,
                Value::String(_) | Value::Bool(_) => true,
            };
            assert!(flat, "{name}: {value}");
        }
    }
    let stop = records.last().unwrap();
    assert_eq!((stop["runs"].as_u64(), stop["runs_failed"].as_u64()), (Some(26), Some(24)));
    assert_eq!(records[0]["message"], format!("cofferdam {} started, new chain", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_file_and_its_key_are_private_and_nothing_else_appears() {
    let (_dir, path) = place();
    drop(open(&path).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()) & 0o027, 0);
    assert_eq!(mode(&path) & 0o137, 0);
    assert_eq!(mode(&path.with_file_name("audit.key")), 0o600);
    let mut names: Vec<String> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["audit.jsonl", "audit.jsonl.instances", "audit.key"]);
}

#[test]
fn the_chain_goes_on_when_it_is_opened_again() {
    let (_dir, path) = place();
    let argv = argv(&["rm"]);
    for _ in 0..3 {
        let audit = open(&path).unwrap();
        wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
    }
    assert_eq!(whole(&path), 3);
    let records = records(&path);
    assert_eq!(records[2]["seq"], 3);
    assert_eq!(records[0]["argv_hmac"], records[2]["argv_hmac"]);
    assert_ne!(records[0]["instance_id"], records[2]["instance_id"]);
}

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
fn several_writers_share_one_chain() {
    let (_dir, path) = place();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let audit = open(&path).unwrap();
                let argv = argv(&["ls"]);
                for _ in 0..25 {
                    let run = wait(audit.run_start(&context(), &start(&argv, &[]))).unwrap();
                    wait(audit.run_end(run, &end(Ending::Exited(0)))).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(whole(&path), 200);
}

#[test]
fn sixteen_callers_are_all_answered() {
    let (_dir, path) = place();
    let audit = open(&path).unwrap();
    let callers: Vec<_> = (0..16)
        .map(|number| {
            let audit = audit.clone();
            std::thread::spawn(move || {
                let argv = argv(&["ls", &number.to_string()]);
                for _ in 0..20 {
                    let run = wait(audit.run_start(&context(), &start(&argv, &[]))).unwrap();
                    wait(audit.run_end(run, &end(Ending::Exited(0)))).unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    drop(audit);
    assert_eq!(whole(&path), 640);
}

#[test]
fn what_is_no_file_of_ours_is_refused() {
    let (dir, path) = place();
    let refused = |path: &Path| open(path).unwrap_err().to_string();
    assert!(refused(Path::new("/dev/full")).contains("not a regular file"));
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
    assert!(refused(&fifo).contains("not a regular file"));
    let foreign = dir.path().join("passwd");
    fs::write(&foreign, "root:x:0:0\n").unwrap();
    assert!(refused(&foreign).contains("not an audit log"));
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "root:x:0:0\n");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&foreign, &link).unwrap();
    assert!(refused(&link).starts_with("audit_unavailable: open of"));
    let config = AuditConfig { sinks: Vec::new(), on_failure: OnFailure::Refuse };
    assert!(Audit::open(&config, Origin::default()).unwrap_err().to_string().contains("no sink"));
    drop(open(&path).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(refused(&path).contains("o-w"));
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
