//! Ten look-ups, one call each and as one batch: bytes of requests and replies over the built server.
//!
//! Purpose: one measurement for the bench that prints it and the test that holds it to its bar. No clock is
//! read. Inputs: the built program. Called by `benches/tokens.rs` and `tests/it/command_run/tokens.rs`.

#![allow(unreachable_pub, reason = "a module of a bench and of a test")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// What an agent looks up first in a checkout.
pub const LOOKUPS: [&[&str]; 10] = [
    &["ls", "src"],
    &["head", "-n", "3", "Cargo.toml"],
    &["wc", "-l", "src/lib.rs", "src/main.rs"],
    &["grep", "-rn", "NOTE", "src"],
    &["grep", "-c", "fn ", "src/lib.rs"],
    &["grep", "-n", "pub fn", "src/lib.rs"],
    &["find", ".", "-name", "*.toml"],
    &["tail", "-n", "2", "CHANGELOG.md"],
    &["cat", "rust-toolchain"],
    &["sort", "-u", "words"],
];

/// Bytes of one way to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes {
    pub requests: usize,
    pub replies: usize,
}

impl Bytes {
    pub fn all(self) -> usize {
        self.requests + self.replies
    }
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Figures {
    /// Ten calls of `sh_run`.
    pub single: Bytes,
    /// One of `command_run` by program and arguments.
    pub argv: Bytes,
    /// One of `command_run` by lines.
    pub lines: Bytes,
    /// The first with the type of each command written out.
    pub typed: Bytes,
    /// What the ten commands print.
    pub outputs: usize,
    /// `tools/list` with the tools of a toolkit, with the batch tool too, and with that alone.
    pub lists: [usize; 3],
}

impl Figures {
    /// Hundredths that a batch costs of the single calls.
    pub fn percent(&self, batch: Bytes) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a few thousand bytes")]
        let (batch, single) = (batch.all() as f64, self.single.all() as f64);
        100.0 * batch / single
    }
}

/// Starts the server and asks in each of the ways.
pub fn measure(program: &str) -> Figures {
    let home = tempfile::Builder::new().prefix("cofferdam-tokens").tempdir().expect("temporary directory");
    workspace(&home.path().join("work"));
    for path in [home.path(), &home.path().join("work"), &home.path().join("work/src")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    let mut figures = Figures::default();
    for (at, tools) in
        [r#"["toolkits"]"#, r#"["toolkits", "command_run"]"#, r#"["command_run"]"#].iter().enumerate()
    {
        let mut served = Served::start(program, home.path(), tools);
        let (_, bytes) = served.ask("tools/list", &json!({}));
        if let Some(list) = figures.lists.get_mut(at) {
            *list = bytes.replies;
        }
        if at != 1 {
            continue;
        }
        for lookup in LOOKUPS {
            let (name, args) = lookup.split_first().expect("a name");
            let (reply, bytes) = served.call("sh_run", &json!({"command": name, "args": args}));
            let result = &reply["result"]["structuredContent"];
            assert_eq!(result["exit"], 0, "{reply}");
            figures.outputs += result["stdout"].as_str().expect("its output").len();
            figures.single.requests += bytes.requests;
            figures.single.replies += bytes.replies;
        }
        let vector = |lookup: &&[&str]| json!({"program": lookup[0], "args": lookup[1..]});
        let typed =
            |lookup: &&[&str]| json!({"command_type": "argv", "program": lookup[0], "args": lookup[1..]});
        let line = |lookup: &&[&str]| {
            let quoted = |word: &&str| {
                if word.contains([' ', '*']) { format!("'{word}'") } else { (*word).to_owned() }
            };
            json!({"command_line": lookup.iter().map(quoted).collect::<Vec<_>>().join(" ")})
        };
        figures.argv = served.batch(LOOKUPS.iter().map(vector).collect(), figures.outputs);
        figures.typed = served.batch(LOOKUPS.iter().map(typed).collect(), figures.outputs);
        figures.lines = served.batch(LOOKUPS.iter().map(line).collect(), figures.outputs);
    }
    figures
}

fn workspace(at: &Path) {
    let write = |name: &str, text: &str| fs::write(at.join(name), text).expect("a file of the workspace");
    fs::create_dir_all(at.join("src")).expect("the workspace");
    write("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"0.4.2\"\nedition = \"2024\"\n");
    write(
        "CHANGELOG.md",
        "# Changes\n\n## 0.4.2\n- The reader takes empty files.\n- Errors name the line.\n",
    );
    write("rust-toolchain", "1.90.0\n");
    write("words", "beta\nalpha\nbeta\ngamma\n");
    write("src/main.rs", "fn main() {\n    // NOTE: arguments\n    sample::run();\n}\n");
    let lib =
        "pub fn run() {\n    read(\"a\");\n}\n\npub fn read(name: &str) -> usize {\n    name.len()\n}\n";
    write("src/lib.rs", lib);
}

struct Served {
    child: std::process::Child,
    from: BufReader<std::process::ChildStdout>,
    id: u64,
}

impl Served {
    fn start(program: &str, home: &Path, tools: &str) -> Self {
        let policy = home.join("policy.toml");
        let text = format!(
            "version = 1\nallow = [\"cat\", \"find\", \"grep\", \"head\", \"ls\", \"sort\", \"tail\", \"wc\"]\n\
             [workspace]\npath = {:?}\n[limits]\nprocesses = 20000\n[server]\ntools = {tools}\n\
             [audit]\nsinks = [{{ kind = \"file\", path = {:?} }}]\n",
            home.join("work"),
            home.join("audit/log.jsonl"),
        );
        fs::write(&policy, text).expect("the policy");
        let mut child = Command::new(program)
            .args(["serve", "--policy"])
            .arg(policy)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let from = BufReader::new(child.stdout.take().expect("its output"));
        let mut served = Self { child, from, id: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}});
        served.ask("initialize", &hello);
        served.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        served
    }

    fn write(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("its input"), "{line}").expect("a server that reads");
    }

    /// The answer, and the bytes of both lines.
    fn ask(&mut self, method: &str, params: &Value) -> (Value, Bytes) {
        self.id += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).to_string();
        self.write(&request);
        let mut reply = String::new();
        self.from.read_line(&mut reply).expect("an answer");
        let answer: Value = serde_json::from_str(&reply).expect("JSON");
        assert_eq!(answer["id"], self.id, "{answer}");
        (answer, Bytes { requests: request.len() + 1, replies: reply.len() })
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> (Value, Bytes) {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// One batch, which gives as many bytes of output as the single calls did.
    fn batch(&mut self, commands: Vec<Value>, outputs: usize) -> Bytes {
        let (reply, bytes) = self.call("command_run", &json!({ "commands": commands }));
        let results = reply["result"]["structuredContent"]["results"].as_array().expect("results");
        let printed = results.iter().map(|result| result["stdout"].as_str().expect("its output").len());
        assert_eq!(printed.sum::<usize>(), outputs, "{reply}");
        bytes
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
