//! Invariant 7, nothing is unlogged: the audit room through its public face.

mod crash;
mod failure;
mod hostile;
#[cfg(feature = "fault-injection")]
mod kills;
mod proof;
mod rotation;
mod secrets;
mod served;
mod sinks;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use cofferdam::audit::verify::verify;
use cofferdam::audit::{
    Audit, AuditError, Context, Ending, HostFacts, LimitFacts, Origin, PolicyLoad, RunDenied, RunEnd,
    RunStart, SandboxFacts, SandboxState, ServerStart, Stamps, StopReason, WrapperFacts,
};
use cofferdam::config::{AuditConfig, Sink};
use serde_json::Value;

fn digest() -> String {
    format!("sha256:{}", "ab".repeat(32))
}

fn open(path: &Path) -> Result<Audit, AuditError> {
    let config = AuditConfig::new(vec![Sink::File(path.to_owned())]);
    Audit::open(&config, origin())
}

fn origin() -> Origin {
    Origin {
        policy_digest: digest(),
        policy_source: "/etc/cofferdam/policy.toml".to_owned(),
        policy_rules: 41,
        peer_pid: Some(4121),
        peer_uid: Some(1000),
        audit_continue: false,
        ..Origin::default()
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn sandbox() -> SandboxFacts {
    SandboxFacts {
        host_mounts: false,
        state: SandboxState::Enforced,
        digest: Some(digest()),
        landlock_abi: Some(6),
        network_denied: true,
        switches: vec!["jit"],
        seccomp: true,
        seccomp_digest: Some(digest()),
        no_new_privs: true,
        caps: 0,
        uid: 1000,
        gid: 1000,
        limits_by: Some("rlimits"),
        wrapper: Some(WrapperFacts {
            program: Some("/usr/bin/prlimit".into()),
            args: vec!["--nofile=64".into(), "password=hunter2secret".into()],
            sandboxed: true,
        }),
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
        consent: None,
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
        consent: None,
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
        toolkit: Some("sh".to_owned()),
        session_id: Some("5f1c1c1e-93d2-4d0c-9a55-1f7c2b1d0001".to_owned()),
        request_id: Some("\"a-1\"".to_owned()),
        client_name: Some("a client\u{202e}".to_owned()),
        client_version: Some("1.0".to_owned()),
        protocol_version: Some("2025-11-25".to_owned()),
        trace: Some(("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned())),
        ..Context::default()
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

/// Event and outcome.
fn event(record: &Value) -> String {
    let outcome = record["outcome"].as_str().unwrap_or("");
    format!("{} {outcome}", record["event_type"].as_str().unwrap()).trim().to_owned()
}

fn events(path: &Path) -> Vec<String> {
    records(path).iter().map(event).collect()
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

pub(crate) fn assert_valid(record: &Value) {
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
    // More than fits, with characters that escapes make long.
    let long = vec!["mount.workspace: \u{1}\"\\ é ".repeat(40); 80];
    let host = HostFacts {
        kernel: "6.12".repeat(100),
        container: "podman".to_owned(),
        required: long.clone(),
        findings: long.clone(),
        facts: long,
        ..HostFacts::default()
    };
    wait(async {
        audit
            .server_start(&ServerStart {
                host_mounts: false,
                limits_by: Some("rlimits"),
                transport: Some("stdio"),
                landlock_abi: Some(6),
                seccomp: true,
                stamps: Stamps::default(),
                host: Some(host.clone()),
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
    assert_eq!(names, ["audit.jsonl", "audit.jsonl.instances", "audit.jsonl.reserve", "audit.key"]);
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
    let config = AuditConfig::new(Vec::new());
    assert!(Audit::open(&config, Origin::default()).unwrap_err().to_string().contains("no sink"));
    drop(open(&path).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(refused(&path).contains("o-w"));
}
