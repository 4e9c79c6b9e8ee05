//! The values of a policy file: numbers with units, names, patterns, paths, ports, requirements.
//!
//! Pure: text in, value or one sentence of what is wrong out. Used by the readers of the config room.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use regex::{Regex, RegexBuilder};

use super::RunUser;
use super::keys::Kind;

/// A requirement of `[sandbox] require`: it holds on this host, or nothing is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    /// Landlock of at least this ABI version.
    Landlock(u32),
    /// A seccomp filter on every command.
    Seccomp,
    /// All five capability sets of a command are empty.
    CapsEmpty,
    /// `no_new_privs` is set on every command.
    NoNewPrivs,
    /// Commands have a mount namespace of their own, made by the launcher.
    MountNamespace,
    /// No file of the workspace can be executed or mapped executable, by its mount as commands see it.
    WorkspaceNoexec,
    /// Commands run neither as user 0 nor as group 0.
    UnprivilegedUser,
    /// `/proc` hides processes of other users (`hidepid` 2 or 4).
    Hidepid,
    /// The server's control group, or one above it, has a `pids.max`.
    PidsLimit,
    /// The server's control group, or one above it, has a `memory.max`.
    MemoryLimit,
    /// No interface but the loopback one is up, and no route leads elsewhere.
    NoNetworkRoutes,
    /// `/` is mounted read-only for the server itself.
    ReadOnlyRoot,
    /// By modes and mounts of the host alone, the user of commands cannot change the policy file, the
    /// grammars it names, or a directory above them.
    PolicyProtected,
    /// The server's control group, or one above it, has a `pids.max` of at most this many.
    PidsAtMost(u32),
    /// The hard `RLIMIT_NPROC` of the server is at most this many processes and threads of its user.
    ProcessesAtMost(u32),
    /// Effective and bounding set of the server were empty when it started.
    ServerCapsEmpty,
    /// `no_new_privs` was set on the server when it started.
    ServerNoNewPrivs,
    /// A seccomp filter was in force on the server when it started.
    ServerSeccomp,
    /// The workspace is mounted noexec, nosuid and nodev, as the server sees it.
    WorkspaceMount,
    /// The workspace is mounted read-only, as the server sees it.
    WorkspaceReadOnly,
    /// The directories of audit records are mounted noexec, nosuid and nodev.
    AuditMount,
    /// The server's user can write workspace, audit, scratch and socket, and no other directory.
    WritableKnown,
    /// Nothing that the server's user can write can be executed, by the mounts of the host.
    WritableNoexec,
    /// No program has the set-user-ID or set-group-ID bit on a mount that honours it.
    NoSetuid,
}

/// The requirements without a number, as they are written.
const NAMED: &[(&str, Requirement)] = &[
    ("seccomp", Requirement::Seccomp),
    ("caps-empty", Requirement::CapsEmpty),
    ("no-new-privs", Requirement::NoNewPrivs),
    ("mount-namespace", Requirement::MountNamespace),
    ("workspace-noexec", Requirement::WorkspaceNoexec),
    ("unprivileged-user", Requirement::UnprivilegedUser),
    ("hidepid", Requirement::Hidepid),
    ("pids-limit", Requirement::PidsLimit),
    ("memory-limit", Requirement::MemoryLimit),
    ("no-network-routes", Requirement::NoNetworkRoutes),
    ("read-only-root", Requirement::ReadOnlyRoot),
    ("policy-protected", Requirement::PolicyProtected),
    ("server-caps-empty", Requirement::ServerCapsEmpty),
    ("server-no-new-privs", Requirement::ServerNoNewPrivs),
    ("server-seccomp", Requirement::ServerSeccomp),
    ("workspace-mount", Requirement::WorkspaceMount),
    ("workspace-read-only", Requirement::WorkspaceReadOnly),
    ("audit-mount", Requirement::AuditMount),
    ("writable-known", Requirement::WritableKnown),
    ("writable-noexec", Requirement::WritableNoexec),
    ("no-setuid", Requirement::NoSetuid),
];

/// Those with a number: how they begin, what the number is of, and what they make of it.
type Numbered = (&'static str, &'static str, fn(u32) -> Requirement);
const NUMBERED: &[Numbered] = &[
    ("landlock>=", "version of Landlock's ABI", Requirement::Landlock),
    ("pids-limit<=", "number of processes", Requirement::PidsAtMost),
    ("process-limit<=", "number of processes", Requirement::ProcessesAtMost),
];

/// How the requirements are written.
pub(super) fn requirements() -> impl Iterator<Item = &'static str> + Clone {
    ["landlock>=N", "pids-limit<=N", "process-limit<=N"]
        .into_iter()
        .chain(NAMED.iter().map(|(name, _)| *name))
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock(number) => return write!(out, "landlock>={number}"),
            Self::PidsAtMost(number) => return write!(out, "pids-limit<={number}"),
            Self::ProcessesAtMost(number) => return write!(out, "process-limit<={number}"),
            _ => {}
        }
        let name = NAMED.iter().find_map(|(name, own)| (own == self).then_some(*name));
        out.write_str(name.ok_or(fmt::Error)?)
    }
}

impl std::str::FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, requirement)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*requirement);
        }
        let shown = text.escape_debug();
        for (begins, what, make) in NUMBERED {
            match text.strip_prefix(begins).map(str::parse::<u32>) {
                Some(Ok(number)) if number > 0 => return Ok(make(number)),
                Some(_) => return Err(format!("\"{shown}\" names no {what}")),
                None => {}
            }
        }
        Err(format!("\"{shown}\" is not a requirement"))
    }
}

/// A count, a size in bytes or a duration in milliseconds, within the bounds of `kind`.
pub(super) fn number(kind: Kind, text: &str) -> Result<u64, String> {
    let shown = text.escape_debug();
    let wrong = || format!("\"{shown}\" is not {}", kind.describe());
    let (value, least, most) = match kind {
        Kind::Count(least, most) => (text.parse().map_err(|_| wrong())?, least, most),
        Kind::Size(least, most) => {
            let size: bytesize::ByteSize = text.parse().map_err(|_| wrong())?;
            (size.as_u64(), least, most)
        }
        Kind::Duration(least, most) => {
            let time = humantime::parse_duration(text).map_err(|_| wrong())?;
            (u64::try_from(time.as_millis()).map_err(|_| wrong())?, least, most)
        }
        _ => return Err("is not a number".into()),
    };
    if value < least {
        return Err(format!("\"{shown}\" is too small: takes {}", kind.describe()));
    }
    if value > most {
        return Err(format!("\"{shown}\" is too large: takes {}", kind.describe()));
    }
    Ok(value)
}

/// What no name and no pattern may hold: it would only ever come from a shell line sent by mistake.
fn unsafe_char(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, ';' | '&' | '|' | '<' | '>' | '`')
}

/// A name that a caller may send.
pub(super) fn command_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a command name must not be empty".into());
    }
    if name.contains(unsafe_char) {
        let shown = name.escape_debug();
        return Err(format!("unsafe command name: \"{shown}\" (no blanks, and none of ; & | < > `)"));
    }
    if name.contains('/') && !name.starts_with('/') {
        return Err(format!(
            "\"{name}\" is a relative path, which is never resolved: write a bare name or an absolute path"
        ));
    }
    Ok(())
}

/// A pattern for names, anchored at both ends.
pub(super) fn pattern(text: &str) -> Result<Regex, String> {
    if text.is_empty() || text.contains(unsafe_char) {
        let shown = text.escape_debug();
        return Err(format!(
            "unsafe allowed command pattern: \"{shown}\" (not empty, no blanks, none of ; & | < > `)"
        ));
    }
    let compile = |text: &str| RegexBuilder::new(text).size_limit(1 << 20).build();
    // Alone first: `a)(b` would otherwise become well-formed, and unanchored, inside the anchors.
    compile(text).and_then(|_| compile(&format!(r"\A(?:{text})\z"))).map_err(|error| {
        format!("bad pattern \"{}\": {}", text.escape_debug(), last_line(&error.to_string()))
    })
}

/// The regex crate draws a picture over several lines; its last one says what is wrong.
fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ").to_owned()
}

/// An absolute path without `..`.
pub(super) fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    let shown = text.escape_debug();
    if !path.is_absolute() {
        return Err(format!("\"{shown}\" is not an absolute path"));
    }
    if text.contains('\0') {
        return Err(format!("\"{shown}\" holds a NUL"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(format!("\"{shown}\" holds \"..\": write the path it leads to"));
    }
    Ok(path.to_path_buf())
}

/// The directories of a search path: all absolute.
pub(super) fn search_path(text: &str) -> Result<Vec<PathBuf>, String> {
    let directory = |element: &str| {
        if element.is_empty() {
            return Err("an empty element of a search path means the current directory: remove it".into());
        }
        absolute(element)
    };
    text.split(':').map(directory).collect()
}

/// `"tcp:443"`.
pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.strip_prefix("tcp:").map(str::parse::<u16>) {
        Some(Ok(port)) if port > 0 => Ok(port),
        _ => Err(format!(
            "\"{}\" is not a network grant: takes \"none\", or ports such as [\"tcp:443\"]",
            text.escape_debug()
        )),
    }
}

/// `auto`, `keep` or `UID:GID`.
pub(super) fn run_user(text: &str) -> Result<RunUser, String> {
    match text {
        "auto" => return Ok(RunUser::Auto),
        "keep" => return Ok(RunUser::Keep),
        _ => {}
    }
    let id = |text: &str| text.parse::<u32>().map_err(|_| ());
    let ids = text.split_once(':').map(|(uid, gid)| (id(uid), id(gid)));
    match ids {
        Some((Ok(0), _) | (_, Ok(0))) => {
            Err("would run commands as root; write \"keep\" if that is what you mean".into())
        }
        // The kernel takes -1 for "leave this id as it is".
        Some((Ok(uid), Ok(gid))) if uid != u32::MAX && gid != u32::MAX => Ok(RunUser::Ids { uid, gid }),
        _ => {
            Err(format!("\"{}\" is not a user: takes \"auto\", \"keep\" or \"UID:GID\"", text.escape_debug()))
        }
    }
}

/// A prefix of tool names: `sh` gives `sh_run`.
pub(super) fn tool_prefix(text: &str) -> Result<(), String> {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let starts = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    if plain && starts && text.len() <= 40 {
        return Ok(());
    }
    Err(format!(
        "\"{}\" is not a tool prefix: a letter, then letters, digits, _ or -, at most 40",
        text.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;

    #[test]
    fn every_default_of_the_table_is_a_value_of_its_key() {
        // Those of a toolkit have none: the limits of its policy hold.
        // Nor have those of a principal that are named after one.
        let own =
            |key: &&keys::Key| key.section != "toolkit.PREFIX.limits" && !key.default.starts_with("limits.");
        for key in keys::KEYS.iter().filter(own) {
            if matches!(key.kind, Kind::Size(..) | Kind::Duration(..))
                || (matches!(key.kind, Kind::Count(..)) && key.name != "version")
            {
                number(key.kind, key.default).unwrap_or_else(|what| panic!("{}: {what}", key.name));
            }
        }
    }

    #[test]
    fn numbers_have_units_and_bounds() {
        let size = Kind::Size(1024, 1 << 30);
        assert_eq!(number(size, "1MiB"), Ok(1 << 20));
        assert_eq!(number(size, "2048"), Ok(2048));
        assert!(number(size, "1023").unwrap_err().contains("too small"));
        assert!(number(size, "2GiB").unwrap_err().contains("too large"));
        assert!(number(size, "999999999999EiB").unwrap_err().contains("too large"));
        assert!(number(size, "lots").unwrap_err().contains("such as \"64MiB\""));
        let time = Kind::Duration(1, 60_000);
        assert_eq!(number(time, "1s 500ms"), Ok(1500));
        assert!(number(time, "0s").unwrap_err().contains("too small"));
        assert!(number(time, "10ns").unwrap_err().contains("too small"));
        assert!(number(time, "soon").is_err());
        assert!(number(Kind::Count(1, 9), "-3").is_err());
    }

    #[test]
    fn patterns_match_whole_names_only() {
        let ls = pattern("ls").unwrap();
        assert!(ls.is_match("ls"));
        for other in ["lsof", "ls -la", "als", "ls\n", ""] {
            assert!(!ls.is_match(other), "{other:?}");
        }
        assert!(pattern("python3[.][0-9]+").unwrap().is_match("python3.11"));
    }

    #[test]
    fn a_pattern_cannot_break_out_of_its_anchors() {
        for bad in ["a)(b", "ls|rm", "a b", "a;b", "", "(", "(?x)a#", "a`", r"\p{Nope}", "(a{1000}){1000}"] {
            assert!(pattern(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_are_bare_or_absolute() {
        for good in ["ls", "/usr/bin/jq", "g++", "[", "python3.11"] {
            command_name(good).unwrap();
        }
        for bad in
            ["", "ls -l", "a;b", "a|b", "a&b", "a<b", "a>b", "a`b", "./x", "bin/x", "a\u{0}b", "a\u{a0}b"]
        {
            assert!(command_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn users_ports_and_requirements() {
        assert_eq!(run_user("1000:100"), Ok(RunUser::Ids { uid: 1000, gid: 100 }));
        for bad in ["0:0", "0:5", "5:0", "root", "1000", "4294967295:1", "1:2:3", ""] {
            assert!(run_user(bad).is_err(), "{bad}");
        }
        assert_eq!(port("tcp:443"), Ok(443));
        for bad in ["tcp:0", "udp:53", "443", "tcp:65536", "tcp:"] {
            assert!(port(bad).is_err(), "{bad}");
        }
        for good in requirements().map(|name| name.replace('N', "7")) {
            assert_eq!(good.parse::<Requirement>().unwrap().to_string(), good);
        }
        assert_eq!(requirements().count(), NAMED.len() + NUMBERED.len());
        let bad =
            ["landlock>=0", "landlock>=x", "landlock", "apparmor", "pids-limit<=0", "process-limit<=-1"];
        for bad in bad.into_iter().chain(["process-limit", "pids-limit>=5"]) {
            assert!(bad.parse::<Requirement>().is_err(), "{bad}");
        }
    }

    #[test]
    fn search_paths_hold_absolute_directories_only() {
        assert_eq!(search_path(keys::SAFE_PATH).unwrap().len(), 5);
        for bad in ["", "/bin:", ":/bin", "/bin::/usr/bin", ".", "bin", "/bin:.", "/bin/../tmp"] {
            assert!(search_path(bad).is_err(), "{bad:?}");
        }
    }
}
