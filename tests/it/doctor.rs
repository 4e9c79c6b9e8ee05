//! `doctor` on this host: every expectation holds inside, and the same attempts are open outside.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cofferdam::launch::attempts::{Answer, Answered, Ground, NAME, PROGRAM, TABLE, Task};
use serde_json::Value;

/// A directory that the user of commands can reach, with a workspace and a place for records.
struct House {
    dir: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        for name in ["ws", "state"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn doctor(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .arg("doctor")
            .args(args)
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn policy(&self, text: &str) -> PathBuf {
        let file = self.path("policy.toml");
        let head = format!(
            "version = 1\nallow = [\"ls\"]\n[audit]\nsinks = [{{ kind = \"file\", path = {:?} }}]\n",
            self.path("state/audit.jsonl")
        );
        fs::write(&file, format!("{head}{text}")).unwrap();
        file
    }
}

#[track_caller]
fn objects(output: &Output) -> (Vec<Value>, Value) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let summary = lines.pop().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (lines, summary)
}

/// What is not as expected, for messages.
fn unexpected(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["as_expected"] != true).collect()
}

#[test]
fn doctor_finds_this_host_closed_under_the_built_in_policy() {
    let house = House::new();
    let ws = house.path("ws");
    let output = house.doctor(&["--json", "--workspace", ws.to_str().unwrap()]);
    let (lines, summary) = objects(&output);
    assert_eq!(unexpected(&lines), Vec::<&Value>::new());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for line in &lines {
        assert!(matches!(line["result"].as_str(), Some("blocked" | "open")), "{line}");
        assert!(!line["detail"].as_str().unwrap().is_empty(), "{line}");
        assert_eq!(line["expected"] == "open", line["reason"].is_string(), "an open line says why: {line}");
    }
    for row in TABLE {
        assert!(lines.iter().any(|line| line["id"] == row.id), "{} is missing", row.id);
    }
    for id in ["names.unlisted", "life.daemon", "life.timeout", "life.cancel", "limits.output", "audit.chain"]
    {
        assert!(lines.iter().any(|line| line["id"] == id), "{id} is missing");
    }
    assert_eq!(summary["summary"]["attempts"], lines.len());
    assert_eq!(summary["summary"]["not_as_expected"], 0);
    assert_eq!(summary["workspace"], ws.to_str().unwrap());
    let facts = summary["facts"].as_array().unwrap();
    for fact in facts {
        assert!(matches!(fact["verdict"].as_str(), Some("ok" | "advice")), "{fact}");
        assert_eq!(fact["verdict"] == "ok", fact["remedy"].is_null(), "what is not ok has a remedy: {fact}");
        assert!(!fact["value"].as_str().unwrap().is_empty(), "{fact}");
    }
    let value = |id: &str| {
        let fact = facts.iter().find(|fact| fact["id"] == id).unwrap_or_else(|| panic!("{id} is missing"));
        fact["value"].as_str().unwrap()
    };
    assert_eq!(value("command.seccomp"), "seccomp mode 2");
    assert_eq!(value("command.no_new_privs"), "no_new_privs is set");
    assert_eq!(value("file.policy"), "built in");
    let uid = nix::unistd::Uid::effective();
    assert!(value("server.user").starts_with(&format!("uid {uid}, ")));
    assert!(value("mount.workspace").starts_with("to commands ro,noexec,nosuid,nodev; to the server "));
    for id in [
        "container.runtime",
        "container.user_namespace",
        "container.new_user_namespace",
        "file.setuid",
        "file.writable",
        "kernel.yama",
        "limit.memory",
        "limit.pids",
        "limit.processes",
        "mount.audit",
        "mount.hidepid",
        "mount.scratch",
        "network.interfaces",
        "network.routes",
        "server.bounding",
        "server.effective",
        "server.no_new_privs",
        "server.seccomp",
    ] {
        value(id);
    }
    assert!(summary["requirements"].as_array().unwrap().iter().all(|one| one["met"] == true));
    assert_eq!(summary["requirements"].as_array().unwrap().len(), 4);
}

/// The facts are of the process that asks: a poorer world shows in them.
#[test]
fn doctor_sees_privileges_and_namespaces_that_were_taken_away() {
    let house = House::new();
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--net",
            "setpriv",
            "--no-new-privs",
            "--bounding-set=-all,+sys_admin,+setpcap",
        ])
        .args(["--inh-caps=-all", env!("CARGO_BIN_EXE_cofferdam"), "doctor", "--json", "--policy"])
        .arg(house.policy(&format!(
            "[workspace]\npath = {:?}\n[limits]\nprocesses = 20000\n[sandbox]\nuser = \"keep\"\n",
            house.path("ws")
        )))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (lines, summary) = objects(&output);
    assert_eq!(unexpected(&lines), Vec::<&Value>::new());
    let value = |id: &str| {
        let fact = summary["facts"].as_array().unwrap().iter().find(|fact| fact["id"] == id);
        fact.unwrap_or_else(|| panic!("{id} is missing"))["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(value("container.user_namespace"), "yes");
    assert_eq!(value("server.no_new_privs"), "set");
    assert_eq!(value("server.bounding"), "0x0000000000200100");
    assert_eq!(value("network.interfaces"), "none but lo");
    assert_eq!(value("network.routes"), "none but lo");
    assert!(
        value("file.policy").contains("only the walls keep commands from it: "),
        "{}",
        value("file.policy")
    );
}

/// The walls of `serve` around itself are tried, and each attempt works without them.
#[test]
fn doctor_tries_what_a_taken_over_server_would() {
    let house = House::new();
    let ws = house.path("ws");
    let output = house.doctor(&["--json", "--workspace", ws.to_str().unwrap()]);
    let (lines, _) = objects(&output);
    let own: Vec<&Value> = lines.iter().filter(|line| line["layer"] == "server").collect();
    assert_eq!(own.len(), 14);
    for line in own {
        let expected = if line["id"] == "server.records" { "open" } else { "blocked" };
        assert_eq!(line["result"], expected, "{line}");
        let detail = line["detail"].as_str().unwrap();
        let refusal = ["denied", "permitted", "no_new_privs", "seccomp mode 2", "not dumpable", "created"];
        assert!(refusal.iter().any(|word| detail.contains(word)), "{line}");
    }
}

#[test]
fn doctor_knows_what_a_policy_grants() {
    let house = House::new();
    let ws = house.path("ws");
    fs::set_permissions(&ws, Permissions::from_mode(0o777)).unwrap();
    let policy = house.policy(&format!(
        "[workspace]\npath = {ws:?}\nwrite = true\n[sandbox]\nread = [\"@libraries\"]\nnetwork = [\"tcp:443\"]\n\
         [limits]\nmemory = \"256MiB\"\nprocesses = 20000\nopen_files = 40\nfile_size = \"1MiB\"\noutput_bytes = \"4KiB\"\n"
    ));
    let output = house.doctor(&["--json", "--policy", policy.to_str().unwrap()]);
    let (lines, _) = objects(&output);
    assert_eq!(unexpected(&lines), Vec::<&Value>::new());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let by_id: BTreeMap<&str, &Value> =
        lines.iter().map(|line| (line["id"].as_str().unwrap(), line)).collect();
    for id in ["files.workspace_write", "net.tcp4", "net.tcp6"] {
        assert_eq!(by_id[id]["result"], "open", "{}", by_id[id]);
    }
    for id in ["net.connect", "net.mptcp", "exec.workspace", "exec.loader_workspace", "exec.map_workspace"] {
        assert_eq!(by_id[id]["result"], "blocked", "{}", by_id[id]);
    }
    assert!(by_id["limits.memory"]["detail"].as_str().unwrap().starts_with("268435456,"));
    assert_eq!(fs::read_dir(&ws).unwrap().count(), 0, "nothing stays in the workspace");
}

#[test]
fn doctor_prints_a_table_without_colour_into_a_pipe() {
    let house = House::new();
    let ws = house.path("ws");
    let output = house.doctor(&["--workspace", ws.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\x1b'));
    for word in [
        "\nnames\n",
        "\nfiles\n",
        "\nlifetime\n",
        "\naudit\n",
        "  ok     ",
        "  open   files.stat",
        "\nhost\n",
        "\nrequired\n",
        " → ",
    ] {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
    let last = text.lines().last().unwrap();
    assert!(last.ends_with(" as expected, 0 not"), "{last}");
}

#[test]
fn doctor_that_cannot_run_says_so() {
    let house = House::new();
    let output = house.doctor(&["--workspace", house.path("none").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty() && !output.stderr.is_empty());
}

/// Refused outside as well, by a kernel without the feature or to a user without privileges.
const HOST_MAY_REFUSE: &[&str] = &[
    "files.shadow",
    "files.environ",
    "files.device",
    "files.xattr",
    "files.open_handle",
    "files.name_handle",
    "net.tcp6",
    "net.udp6",
    "net.mptcp",
    "net.ping",
    "net.netlink",
    "net.packet",
    "net.vsock",
    "net.alg",
    "exec.memfd",
];

/// The attempts prove something only if they succeed where nothing stands in the way.
#[test]
fn attempts_are_open_without_the_sandbox() {
    let house = House::new();
    for (dir, mode) in [("out", 0o755), ("out/open", 0o777), ("scratch", 0o700)] {
        fs::create_dir(house.path(dir)).unwrap();
        fs::set_permissions(house.path(dir), Permissions::from_mode(mode)).unwrap();
    }
    for (file, bytes) in
        [("out/file", &b"x"[..]), ("out/open/victim", b"x"), ("out/program", PROGRAM), ("ws/f", b"x")]
    {
        fs::write(house.path(file), bytes).unwrap();
        fs::set_permissions(house.path(file), Permissions::from_mode(0o777)).unwrap();
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let program = PathBuf::from("/usr/bin/true");
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2").to_path_buf();
    let ground = Ground {
        workspace: house.path("ws"),
        write: true,
        scratch: true,
        outside: house.path("out"),
        unlisted: vec![program.clone()],
        loader: Some(loader),
        audit: Some(house.path("out/file")),
        server: i32::try_from(std::process::id()).unwrap(),
        port: listener.local_addr().unwrap().port(),
        ..Ground::default()
    };
    let output = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
        .arg0(NAME)
        .arg(serde_json::to_string(&Task::Attempts(Box::new(ground))).unwrap())
        .env("TMPDIR", house.path("scratch"))
        .stdin(fs::File::open(program).unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Answer> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), TABLE.len());
    let mut open = 0;
    for Answer { id, result, detail } in answers {
        let layer = id.split('.').next().unwrap();
        let sure = matches!(layer, "files" | "exec" | "memory" | "net" | "audit")
            || ["kernel.ioctl", "kernel.ioctl_high", "proc.signal", "id.environment"].contains(&id.as_str());
        if sure && !HOST_MAY_REFUSE.contains(&id.as_str()) {
            assert_eq!(result, Answered::Open, "{id}: {detail}");
            open += 1;
        }
    }
    assert!(open >= 35, "only {open} attempts were checked");
}
