//! The throw-away directory: what the policy allows there, and what the programs do there.
//!
//! The verdict comes from a policy file that allows the programs, over a writable workspace. The runs are
//! made by `drive.sh` in namespaces of its own; the directory of the same path in them is a fresh one for
//! every vector. Needs root, or user namespaces.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cofferdam::config::Config;
use cofferdam::policy::{Policy, Request, Target, Verdict};

use super::SUBJECTS;
use super::trace::{Exec, Trace};

const DRIVE: &str = include_str!("drive.sh");
/// Who runs the vectors when the tests run as root: nobody.
const USER: u32 = 65534;
/// What `drive.sh` starts before the program: env, setpriv, timeout.
const BEFORE: usize = 3;
/// Names that anyone may open for writing.
const STREAMS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/tmp/rec/out", "/tmp/rec/err"];

/// A vector, and the environment that the policy gives it.
type Allowed = (Vec<String>, Vec<String>);

/// A directory with a policy.
#[derive(Debug)]
pub(super) struct Lab {
    dir: tempfile::TempDir,
    policy: Policy,
}

/// What one vector did.
#[derive(Debug)]
pub(super) struct Outcome {
    execs: Vec<Exec>,
    /// Names that it changed outside of the directory.
    pub(super) outside: Vec<String>,
    /// What changed in it.
    pub(super) inside: Vec<String>,
    /// Exit status; 137 when it was stopped for taking too long.
    pub(super) status: u32,
    stderr: String,
    ws: PathBuf,
}

impl Lab {
    pub(super) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("cofferdam-differential-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        let mut commands = String::new();
        for subject in SUBJECTS {
            writeln!(commands, "[command.{}]", subject.name).unwrap();
            if subject.name == "sed" {
                writeln!(commands, "interpreters = \"confine\"").unwrap();
            }
            if subject.name == "git" {
                let builtin = Config::builtin(dir.path()).unwrap();
                writeln!(commands, "[command.git.environment]").unwrap();
                for (name, value) in &builtin.commands["git"].environment {
                    writeln!(commands, "{name} = {value:?}").unwrap();
                }
            }
        }
        let text = format!(
            "version = 1\n[workspace]\npath = {:?}\nwrite = true\n[audit]\nsinks = [{{ kind = \"stderr\" }}]\n{commands}",
            dir.path().join("ws"),
        );
        let file = dir.path().join("policy.toml");
        fs::write(&file, text).unwrap();
        let config = Config::load(&file).unwrap_or_else(|error| {
            let packages: BTreeSet<&str> = SUBJECTS.iter().map(|subject| subject.package).collect();
            let packages: Vec<&str> = packages.into_iter().collect();
            panic!("{error}\nwhat is missing: apt-get install strace util-linux {}", packages.join(" "))
        });
        let policy = Policy::new(Arc::new(config), &[]).unwrap();
        Self { dir, policy }
    }

    fn ws(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    /// The environment of a vector that the policy allows.
    pub(super) fn allowed(&self, vector: &[String]) -> Option<Vec<String>> {
        let request = Request {
            argv: vector.iter().map(|item| item.clone().into_bytes()).collect(),
            ..Request::default()
        };
        let cwd = self.policy.config().workspace.resolve(None);
        let Verdict::Allow(authorized) = self.policy.judge(&request, cwd) else { return None };
        let Target::Found(_) = authorized.target() else { panic!("{vector:?}: no such program") };
        Some(authorized.env().iter().map(|entry| entry.to_str().unwrap().to_owned()).collect())
    }

    fn program(&self, name: &str) -> PathBuf {
        let command = &self.policy.config().commands[name];
        command.program.as_ref().unwrap().path.clone()
    }

    /// Runs vectors, one after the other.
    pub(super) fn run(&self, vectors: &[Allowed]) -> Vec<Outcome> {
        let mut script = DRIVE.to_owned();
        for (number, (vector, environment)) in vectors.iter().enumerate() {
            write!(script, "run {number}").unwrap();
            for entry in environment {
                write!(script, " {}", quoted(entry)).unwrap();
            }
            let program = self.program(&vector[0]);
            write!(script, " $drop -- timeout -s KILL 2 {}", quoted(program.to_str().unwrap())).unwrap();
            for item in &vector[1..] {
                write!(script, " {}", quoted(item)).unwrap();
            }
            script.push('\n');
        }
        let file = self.dir.path().join("drive.sh");
        fs::write(&file, script).unwrap();
        let root = nix::unistd::Uid::effective().is_root();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        if !root {
            command.arg("--map-root-user");
        }
        let user = if root { USER.to_string() } else { "0".to_owned() };
        command.arg("sh").arg(&file).arg(self.dir.path()).arg(user).arg(&vectors[0].0[0]);
        let output =
            command.stdin(Stdio::null()).output().expect("unshare starts: apt-get install util-linux");
        let told = String::from_utf8_lossy(&output.stdout);
        let outcomes: Vec<Outcome> = told.split("@@run ").skip(1).map(|text| self.outcome(text)).collect();
        assert_eq!(
            outcomes.len(),
            vectors.len(),
            "{}: strace, unshare and setpriv are needed: apt-get install strace util-linux\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        outcomes
    }

    fn outcome(&self, text: &str) -> Outcome {
        let (head, rest) = text.split_once('\n').unwrap();
        let (log, rest) = rest.rsplit_once("\n@@outside\n").unwrap();
        let (outside, rest) = rest.split_once("@@inside\n").unwrap();
        let (inside, stderr) = rest.split_once("@@stderr\n").unwrap();
        let trace = Trace::read(log, &self.ws());
        let mut outside: Vec<String> = outside.lines().map(str::to_owned).collect();
        for (call, path) in &trace.writes {
            if !self.may_write(path) {
                outside.push(format!("{call} {}", path.display()));
            }
        }
        let inside = inside.lines().map(|line| line.replace(&*self.ws().to_string_lossy(), "")).collect();
        let status = head.rsplit(' ').next().unwrap().parse().unwrap();
        Outcome { execs: trace.execs, outside, inside, status, stderr: stderr.to_owned(), ws: self.ws() }
    }

    fn may_write(&self, path: &Path) -> bool {
        path.starts_with(self.ws())
            || path.starts_with(self.dir.path().join("scratch"))
            || path.starts_with("/proc/self/fd")
            || path.starts_with("/dev/fd")
            || STREAMS.iter().any(|stream| path == Path::new(stream))
    }
}

impl Outcome {
    /// Whether the program itself was reached.
    pub(super) fn started(&self, name: &str) -> bool {
        let program = self.execs.iter().filter(|exec| exec.done).nth(BEFORE);
        let reached = program.is_some_and(|exec| exec.path.ends_with(name));
        if !reached {
            println!("{name} was not started: {:?} {}", self.execs, self.stderr);
        }
        reached
    }

    /// The first program that is neither the program itself nor one of its helpers.
    pub(super) fn foreign(&self, helpers: &[String], names: &BTreeSet<&str>) -> Option<&Exec> {
        let begins =
            self.execs.iter().enumerate().filter(|(_, exec)| exec.done).map(|(at, _)| at).nth(BEFORE)?;
        self.execs[begins..].iter().find(|exec| !self.is_own(exec, helpers, names))
    }

    fn is_own(&self, exec: &Exec, helpers: &[String], names: &BTreeSet<&str>) -> bool {
        let helps = |word: &str| names.contains(word) || helpers.iter().any(|helper| helper == word);
        if exec.path.starts_with(&self.ws) || exec.path.starts_with("/tmp") {
            return false;
        }
        let Some(base) = exec.path.file_name().and_then(|name| name.to_str()) else { return false };
        // tar starts its compressors by way of a shell.
        let by_shell = || match exec.argv.as_slice() {
            [_, dash, line] if dash == "-c" => {
                let plain = |letter: char| letter.is_ascii_alphanumeric() || " -".contains(letter);
                let line = line.strip_suffix(" 2>/dev/null").unwrap_or(line);
                line.chars().all(plain) && line.split(' ').next().is_some_and(helps)
            }
            _ => false,
        };
        let dashed = |name: &str| base.starts_with(&format!("{name}-"));
        // Parts of git live in its own directory; it looks for others in vain.
        let part = || {
            names.contains("git")
                && dashed("git")
                && (!exec.done || exec.path.to_string_lossy().contains("/git-core/"))
        };
        helps(base) || (base == "sh" && by_shell()) || part()
    }
}

/// A word of the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
