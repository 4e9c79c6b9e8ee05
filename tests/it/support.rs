//! What the tests of the whole road share: a laboratory on disk, the built binary in it, and a raw
//! client of `serve`.
//!
//! Every laboratory is a directory of its own, open to the unprivileged user that commands run as
//! when the tests run as root. The test program `probe.c` is compiled once, kept in the build
//! directory by its content, and copied into each laboratory: a process is known by that path.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cofferdam::config::LoadOptions;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::scan::root;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_cofferdam");
/// The dynamic loader, which every profile must be able to execute.
pub(crate) const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// How long a condition may take to come true. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The compiled test program.
fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| {
        let source = root().join("tests/it/probe.c");
        let digest = Sha256::digest(fs::read(&source).unwrap());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let dir = root().join("target/it-helpers");
        let done = dir.join(format!("probe-{name}"));
        if !done.exists() {
            fs::create_dir_all(&dir).unwrap();
            let fresh = dir.join(format!("probe-{name}.{}", std::process::id()));
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&fresh).arg(&source);
            let built = gcc.output().expect("gcc compiles the test program");
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            fs::rename(&fresh, &done).unwrap();
        }
        done
    })
}

/// Waits until `holds`.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Copies with a program of its own: a file that this process wrote could be held open by a fork of
/// another test when it is executed (ETXTBSY).
pub(crate) fn copy(from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
    let status = Command::new("cp").args([from.as_ref(), to.as_ref()]).status().unwrap();
    assert!(status.success());
}

/// The parts of a policy that tests vary, as TOML without the section headers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rules {
    pub(crate) top: &'static str,
    pub(crate) write: bool,
    pub(crate) environment: &'static str,
    pub(crate) limits: &'static str,
    pub(crate) sandbox: &'static str,
    pub(crate) commands: String,
}

/// A workspace, a place outside of it, a log and a policy.
#[derive(Debug)]
pub(crate) struct Lab {
    dir: tempfile::TempDir,
}

/// What came of one `exec`.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// The one JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Standard output of a run that must have ended well.
    pub(crate) fn lines(&self) -> Vec<&str> {
        assert_eq!(self.status, 0, "{self:?}");
        self.stdout.lines().collect()
    }
}

impl Lab {
    pub(crate) fn new(rules: &Rules) -> Self {
        let dir = tempfile::Builder::new().prefix("cofferdam-it-").tempdir().unwrap();
        let lab = Self { dir };
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(lab.dir.path());
        for name in ["ws", "outside", "audit", "bin"] {
            fs::create_dir(lab.at(name)).unwrap();
            open(&lab.at(name));
        }
        if rules.write && nix::unistd::Uid::effective().is_root() {
            std::os::unix::fs::chown(lab.ws(), Some(65534), Some(65534)).unwrap();
        }
        copy(probe(), lab.probe());
        fs::write(lab.at("outside/secret"), "the secret\n").unwrap();
        fs::write(lab.at("ws/plain"), "plain\n").unwrap();
        lab.write_policy(rules);
        lab
    }

    pub(crate) fn plain() -> Self {
        Self::new(&Rules::default())
    }

    pub(crate) fn write_policy(&self, rules: &Rules) {
        let Rules { top, write, environment, limits, sandbox, commands } = rules;
        // The user of commands may be shared with other tests that run now.
        let processes = if limits.contains("processes") { "" } else { "processes = 20000" };
        let own = if top.contains("allow_any") {
            String::new()
        } else {
            format!("[command.{:?}]\npaths = \"any\"\n{commands}", self.probe())
        };
        let text = format!(
            "version = 1\n{top}\n[workspace]\npath = {:?}\nwrite = {write}\n[environment]\n{environment}\n\
             [limits]\n{processes}\n{limits}\n[sandbox]\n{sandbox}\n\
             [audit]\nsinks = [{{ kind = \"file\", path = {:?} }}]\n{own}",
            self.ws(),
            self.log(),
        );
        fs::write(self.policy(), text).unwrap();
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// A path of the laboratory as text.
    pub(crate) fn text(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.at("ws")
    }

    pub(crate) fn probe(&self) -> PathBuf {
        self.at("bin/probe")
    }

    pub(crate) fn policy(&self) -> PathBuf {
        self.at("policy.toml")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.at("audit/log.jsonl")
    }

    /// The binary with the policy of the laboratory; more flags and `-- PROGRAM` follow.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(BINARY);
        command.arg(subcommand).arg("--policy").arg(self.policy()).current_dir(self.dir.path());
        command.stdin(Stdio::null());
        command
    }

    /// `exec` of any program.
    pub(crate) fn exec<S: AsRef<OsStr>>(&self, argv: &[S]) -> Ran {
        self.exec_with(&[], argv)
    }

    pub(crate) fn exec_with<S: AsRef<OsStr>>(&self, flags: &[&str], argv: &[S]) -> Ran {
        Ran::of(&self.command("exec").args(flags).arg("--").args(argv).output().unwrap())
    }

    /// `exec` of the test program.
    pub(crate) fn probed(&self, words: &[&str]) -> Ran {
        self.probed_with(&[], words)
    }

    pub(crate) fn probed_with(&self, flags: &[&str], words: &[&str]) -> Ran {
        let mut argv = vec![self.probe().into_os_string()];
        argv.extend(words.iter().map(Into::into));
        self.exec_with(flags, &argv)
    }

    /// Attempts of the test program, each with two operands: its lines.
    pub(crate) fn tried(&self, attempts: &[(&str, &str, &str)]) -> Vec<String> {
        let mut words = vec!["try"];
        words.extend(attempts.iter().flat_map(|(what, a, b)| [*what, *a, *b]));
        let ran = self.probed(&words);
        ran.lines().into_iter().map(str::to_owned).collect()
    }

    /// The records so far.
    pub(crate) fn records(&self) -> Vec<Value> {
        records(&self.log())
    }

    /// The one terminal record of the only run.
    pub(crate) fn end(&self) -> Value {
        let ends: Vec<Value> =
            self.records().into_iter().filter(|record| record["event_type"] == "run.end").collect();
        assert_eq!(ends.len(), 1, "{ends:?}");
        ends.into_iter().next().unwrap()
    }

    /// Processes that were started from the laboratory's test program and are alive.
    pub(crate) fn alive(&self) -> Vec<i32> {
        let name = self.probe();
        let name = name.as_os_str().as_encoded_bytes();
        processes()
            .into_iter()
            .filter(|pid| {
                // A process that is gone meanwhile, or a zombie, has none.
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.split(|byte| *byte == 0).next() == Some(name)
            })
            .collect()
    }
}

pub(crate) fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]); // what is being written is no record yet
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Process ids of this host.
pub(crate) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A field of `/proc/PID/status`; absent when the process is gone.
pub(crate) fn status_of(pid: i32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim().to_owned()))
}

pub(crate) fn parent(pid: i32) -> Option<i32> {
    status_of(pid, "PPid")?.parse().ok()
}

/// All processes below `ancestor`, at this moment.
pub(crate) fn descendants(ancestor: i32) -> Vec<i32> {
    let parents: Vec<(i32, Option<i32>)> = processes().into_iter().map(|pid| (pid, parent(pid))).collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(above) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, up)| *up == Some(above)).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Neither running nor a zombie of ours.
pub(crate) fn is_gone(pid: i32) -> bool {
    status_of(pid, "State").is_none_or(|state| state.starts_with('Z'))
}

pub(crate) fn kill(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

/// `exec` that goes on while the test looks.
#[derive(Debug)]
pub(crate) struct Going {
    pub(crate) child: Child,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Going {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    pub(crate) fn probe(lab: &Lab, flags: &[&str], words: &[&str]) -> Self {
        let mut command = lab.command("exec");
        command.args(flags).arg("--").arg(lab.probe()).args(words);
        Self::start(command)
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The next line of its standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        Ran { stdout: rest, ..Ran::of(&output) }
    }
}

/// A client of `serve` that writes and reads JSON lines.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    last: u64,
    /// Answers to calls that nobody has asked for yet.
    early: Vec<Value>,
    pub(crate) hello: Value, // the result of initialize
}

impl Served {
    pub(crate) fn start(lab: &Lab) -> Self {
        Self::by(lab.command("serve"))
    }

    /// The same, started by a command line of the test's own.
    pub(crate) fn by(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut served = Self { child, to, from, last: 0, early: Vec::new(), hello: Value::Null };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "it", "version": "1"}});
        let id = served.send("initialize", hello);
        served.hello = served.answer(id)["result"].take();
        assert!(served.hello["serverInfo"].is_object());
        served.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        served
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn write(&mut self, message: &Value) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{message}").unwrap();
        to.flush().unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message, whatever it is about.
    pub(crate) fn message(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the server is gone");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        if let Some(place) = self.early.iter().position(|message| message["id"] == id) {
            return self.early.remove(place);
        }
        loop {
            let message = self.message();
            if message["id"] == id {
                return message;
            }
            self.early.push(message);
        }
    }

    /// Sends a call of `sh_run` and does not wait.
    pub(crate) fn send_run(&mut self, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": "sh_run", "arguments": arguments}))
    }

    /// The result of a call: its text and whether it is marked as an error.
    pub(crate) fn result(&mut self, id: u64) -> (String, bool) {
        let message = self.answer(id);
        let result = &message["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"));
        (text.to_owned(), result["isError"] == true)
    }

    pub(crate) fn run(&mut self, arguments: Value) -> (String, bool) {
        let id = self.send_run(arguments);
        self.result(id)
    }

    /// Cancels a call: no answer follows.
    pub(crate) fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id, "reason": "test"});
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }

    /// Runs the test program and gives back the payload.
    pub(crate) fn probed(&mut self, lab: &Lab, words: &[&str]) -> Value {
        let (text, error) = self.run(json!({"command": lab.probe(), "args": words}));
        assert!(!error, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Hangs up and waits for the end.
    pub(crate) fn stop(mut self) -> Option<i32> {
        drop(self.to.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After a failed assertion nothing may be left; after `stop` both do nothing.
        drop(self.to.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a policy file needs around it: a workspace, a directory for records, and a place for the file.
pub(crate) struct House {
    _keep: tempfile::TempDir,
    pub(crate) base: PathBuf,
}

impl House {
    pub(crate) fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(keep.path()).unwrap();
        for dir in ["work", "state"] {
            fs::create_dir(base.join(dir)).unwrap();
        }
        Self { _keep: keep, base }
    }

    pub(crate) fn options(&self) -> LoadOptions {
        LoadOptions {
            workspace: Some(self.base.join("work")),
            audit_file: Some(self.base.join("state/audit.jsonl")),
            ..LoadOptions::default()
        }
    }
}

/// Gives `command` a mount namespace of its own before it starts, in which `then` may mount.
pub(crate) fn in_own_mounts(
    command: &mut Command,
    mut then: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
) {
    let (uid, gid) = (nix::unistd::Uid::effective(), nix::unistd::Gid::effective());
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ];
    let own = move || {
        let none: Option<&Path> = None;
        if uid.is_root() {
            unshare(CloneFlags::CLONE_NEWNS)?;
        } else {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
            for (file, text) in &maps {
                fs::write(file, text)?;
            }
        }
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        then()
    };
    // SAFETY: system calls and small allocations in the child, which the C library allows after fork.
    unsafe { command.pre_exec(own) };
}
