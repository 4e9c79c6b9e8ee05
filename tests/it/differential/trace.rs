//! What strace saw: programs that were started, and names that were written.
//!
//! Inputs: the log of `strace -f -y` of one run. Names are resolved by letters, with the working
//! directory that each process is followed to; a descriptor says by itself what it is open on.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// A program that was started, or tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exec {
    pub(super) path: PathBuf,
    /// Its arguments as strace prints them.
    pub(super) argv: Vec<String>,
    pub(super) done: bool,
}

/// What one run did.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) execs: Vec<Exec>,
    /// Call and name.
    pub(super) writes: Vec<(String, PathBuf)>,
}

/// A call with its arguments, joined when it was interrupted by others.
struct Call<'l> {
    pid: &'l str,
    name: String,
    arguments: Vec<String>,
    result: String,
}

impl Trace {
    /// Reads a log. `start` is the working directory of the first process.
    pub(super) fn read(log: &str, start: &Path) -> Self {
        let mut trace = Self::default();
        let mut cwd: HashMap<String, PathBuf> = HashMap::new();
        let mut begun: HashMap<&str, String> = HashMap::new();
        let mut last = start.to_path_buf();
        for line in log.lines() {
            let Some((pid, rest)) = line.split_once(' ') else { continue };
            let rest = rest.trim_start();
            let whole = if let Some(head) = rest.strip_suffix("<unfinished ...>") {
                begun.insert(pid, head.to_owned());
                continue;
            } else if rest.starts_with("<... ") {
                let Some((_, tail)) = rest.split_once(" resumed>") else { continue };
                begun.remove(pid).unwrap_or_default() + tail
            } else {
                rest.to_owned()
            };
            let Some(call) = Call::parse(pid, &whole) else { continue };
            let here = cwd.get(pid).unwrap_or(&last).clone();
            match call.name.as_str() {
                "chdir" | "fchdir" if call.done() => {
                    let to = call.name_at(0, &here).or_else(|| descriptor(call.argument(0)));
                    if let Some(to) = to {
                        last.clone_from(&to);
                        cwd.insert(pid.to_owned(), to);
                    }
                }
                "fork" | "vfork" | "clone" | "clone3" => {
                    cwd.entry(call.result.clone()).or_insert(here);
                }
                _ => trace.take(&call, &here),
            }
        }
        trace
    }

    fn take(&mut self, call: &Call<'_>, here: &Path) {
        let name = call.name.as_str();
        // Where the name stands, and the directory before it.
        let places: &[usize] = match name {
            "execve" | "open" | "creat" | "unlink" | "rmdir" | "mkdir" | "mknod" | "truncate" | "chmod"
            | "chown" | "lchown" => &[0],
            "rename" => &[0, 1],
            "link" | "symlink" | "execveat" | "openat" | "openat2" | "unlinkat" | "mkdirat" | "mknodat"
            | "fchmodat" | "fchownat" | "utimensat" => &[1],
            "renameat" | "renameat2" => &[1, 3],
            "linkat" => &[3],
            "symlinkat" => &[2],
            _ => return,
        };
        for place in places {
            let before = place.checked_sub(1).filter(|_| name.contains("at")).map(|at| call.argument(at));
            let base = before.and_then(descriptor).unwrap_or_else(|| here.to_path_buf());
            let Some(path) = call.name_at(*place, &base) else { continue };
            if name.starts_with("execve") {
                let argv = strings(call.argument(place + 1));
                self.execs.push(Exec { path, argv, done: call.done() });
            } else if call.writes() {
                let path = descriptor(&call.result).unwrap_or(path);
                self.writes.push((name.to_owned(), path));
            }
        }
    }
}

impl<'l> Call<'l> {
    fn parse(pid: &'l str, text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let at = rest.rfind(") = ").or_else(|| rest.rfind(')').filter(|_| rest.contains(" = ")))?;
        let (inner, result) = rest.split_at(at);
        let result = result.trim_start_matches(')').trim_start().trim_start_matches("= ");
        Some(Self { pid, name: name.to_owned(), arguments: split(inner), result: result.to_owned() })
            .filter(|call| !call.pid.is_empty())
    }

    fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }

    fn done(&self) -> bool {
        !self.result.starts_with('-') && !self.result.starts_with('?')
    }

    /// Whether it makes or changes a file, or was kept from it by rights alone.
    fn writes(&self) -> bool {
        if self.result.contains("EEXIST") {
            return false;
        }
        match self.name.as_str() {
            "open" | "openat" | "openat2" => {
                let place = if self.name == "open" { 1 } else { 2 };
                let flags = self.argument(place);
                ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| flags.contains(flag))
            }
            // Taking away or changing what is not there.
            "unlink" | "unlinkat" | "rmdir" | "chmod" | "fchmodat" | "chown" | "lchown" | "fchownat"
            | "utimensat" | "truncate" => !self.result.contains("ENOENT"),
            _ => true,
        }
    }

    /// The name in an argument, resolved.
    fn name_at(&self, at: usize, base: &Path) -> Option<PathBuf> {
        let text = self.argument(at);
        text.starts_with('"')
            .then(|| strings(text).into_iter().next())
            .flatten()
            .map(|name| plain(&base.join(name)))
    }
}

/// What a descriptor is open on: `3</etc/passwd>`.
fn descriptor(text: &str) -> Option<PathBuf> {
    let (number, path) = text.split_once('<')?;
    let known = number == "AT_FDCWD" || number.bytes().all(|byte| byte.is_ascii_digit());
    let path = path.strip_suffix('>').or_else(|| path.split_once('>').map(|(path, _)| path))?;
    (known && path.starts_with('/')).then(|| PathBuf::from(path))
}

/// Arguments at the commas that stand outside of quotes and brackets.
fn split(inner: &str) -> Vec<String> {
    let (mut found, mut current, mut depth, mut quoted, mut escaped) =
        (Vec::new(), String::new(), 0, false, false);
    for letter in inner.chars() {
        if quoted {
            quoted = escaped || letter != '"';
            escaped = letter == '\\' && !escaped;
        } else {
            match letter {
                '"' => quoted = true,
                '[' | '{' | '<' | '(' => depth += 1,
                ']' | '}' | '>' | ')' => depth -= 1,
                ',' if depth == 0 => {
                    found.push(std::mem::take(&mut current).trim().to_owned());
                    continue;
                }
                _ => {}
            }
        }
        current.push(letter);
    }
    found.push(current.trim().to_owned());
    found
}

/// The quoted strings of an argument, with the escapes that keep two names apart undone.
fn strings(text: &str) -> Vec<String> {
    let (mut found, mut current) = (Vec::new(), None::<String>);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (&mut current, letter) {
            (None, '"') => current = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => found.extend(current.take()),
            (Some(string), '\\') => match letters.next() {
                Some(next @ ('"' | '\\')) => string.push(next),
                Some(next) => string.extend(['\\', next]),
                None => {}
            },
            (Some(string), letter) => string.push(letter),
        }
    }
    found
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => drop(out.pop()),
            _ => {}
        }
    }
    out
}

#[test]
fn a_log_is_read_as_it_was_meant() {
    let log = r#"7  execve("/usr/bin/tar", ["tar", "-c", "a\"b, c"], 0x7ffe /* 3 vars */) = 0
7  openat(AT_FDCWD</ws>, "data", O_RDONLY|O_CLOEXEC) = 3</ws/data>
7  chdir("dir") = 0
7  vfork( <unfinished ...>
8  unlink("../../gone") = 0
8  execve("/bin/sh", ["sh", "-c", "gzip"], 0x55 /* 3 vars */ <unfinished ...>
7  <... vfork resumed>) = 8
8  <... execve resumed>) = -1 ENOENT (No such file or directory)
7  openat(5</ws/sub>, "../x", O_WRONLY|O_CREAT, 0666) = 4</ws/x>
7  mkdir("/out", 0777) = -1 EROFS (Read-only file system)
7  rmdir("/never") = -1 ENOENT (No such file or directory)
7  openat(AT_FDCWD</ws>, "/ws/link", O_RDWR) = 4</elsewhere/x>
7  +++ exited with 0 +++
"#;
    let trace = Trace::read(log, Path::new("/ws"));
    let execs: Vec<_> = trace
        .execs
        .iter()
        .map(|exec| (exec.path.to_str().unwrap(), exec.argv.join(" "), exec.done))
        .collect();
    assert_eq!(
        execs,
        [("/usr/bin/tar", "tar -c a\"b, c".to_owned(), true), ("/bin/sh", "sh -c gzip".to_owned(), false)]
    );
    let writes: Vec<_> =
        trace.writes.iter().map(|(call, path)| format!("{call} {}", path.display())).collect();
    assert_eq!(writes, ["unlink /gone", "openat /ws/x", "mkdir /out", "openat /elsewhere/x"]);
}
