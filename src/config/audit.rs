//! The `[audit]` section: where records go, in which form, and what happens when they cannot.
//!
//! Purpose: only a local sink (file, standard output or error) may be the required one; every other is
//! best effort by its kind, not by a switch. Reads no socket and resolves no name: that is done when the log
//! is opened. Called by `load.rs` only; the types are read by `audit/` and `cli/`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::load::Loader;
use super::read::{Reader, Section};
use super::records;
use super::sections::settled;
use super::values;
use super::workspace::Workspace;

/// Where audit records go and what happens when they cannot.
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// Sinks in the order of the file. The file is the required one; without a file, standard output or error.
    pub sinks: Vec<Sink>,
    /// What a failing required sink means for runs.
    pub on_failure: OnFailure,
    /// When a record is durable.
    pub sync: SyncPolicy,
    /// When the file is replaced by a new one.
    pub rotation: Rotation,
    /// Below so many free bytes of the file's file system runs are refused; below eight times as many it is said.
    pub min_free: u64,
    /// Whether standard output is free for records. Not a key: false over stdio, where it carries the protocol,
    /// and in `exec`, where it carries the program's bytes.
    pub stdout_free: bool,
    /// What is redacted beside what the server knows to be secret: the operator's own patterns.
    pub redact: Vec<regex::Regex>,
    /// Signed checkpoints; absent without a key.
    pub checkpoint: Option<CheckpointConfig>,
}

/// When the audit log is signed, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// File of the private key, which no command may read.
    pub key: PathBuf,
    /// After this many records.
    pub records: u64,
    /// After this time, where anything is new.
    pub time: Duration,
}

impl AuditConfig {
    /// These sinks, and the defaults of every other key.
    #[must_use]
    pub fn new(sinks: Vec<Sink>) -> Self {
        Self {
            sinks,
            on_failure: OnFailure::Refuse,
            sync: SyncPolicy::Strict,
            rotation: Rotation::default(),
            min_free: 8 << 20,
            stdout_free: false,
            redact: Vec::new(),
            checkpoint: None,
        }
    }

    /// The audit file, which is the required sink where there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.sinks.iter().find_map(|sink| match sink {
            Sink::File(path) => Some(path.as_path()),
            Sink::Stderr(_) | Sink::Stdout(_) | Sink::Forward(_) => None,
        })
    }
}

/// One destination of audit records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// Append to this file, in the native form: required and durable.
    File(PathBuf),
    /// Standard error: required where there is no file, else a copy.
    Stderr(Rendering),
    /// Standard output, the same.
    Stdout(Rendering),
    /// Sent on; never required.
    Forward(Forward),
}

/// The form of the records of one sink. Only the native one is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rendering {
    /// As in the file.
    #[default]
    Native,
    /// Elastic Common Schema.
    Ecs,
    /// Open Cybersecurity Schema Framework.
    Ocsf,
}

impl Rendering {
    /// The spelling in the policy.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Ecs => "ecs",
            Self::Ocsf => "ocsf",
        }
    }
}

/// A best-effort sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Where to.
    pub to: Target,
    /// The form of its records.
    pub rendering: Rendering,
    /// Bytes that may wait for it; what comes on top is dropped, counted and recorded.
    pub queue_bytes: usize,
}

/// What a best-effort sink speaks, and with whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// JSON lines to a Unix stream socket.
    Unix(PathBuf),
    /// RFC 5424.
    Syslog {
        /// How the messages travel.
        transport: Transport,
        /// Facility, 0 to 23 (RFC 5424, section 6.2.1).
        facility: u8,
    },
    /// The native protocol of systemd-journald, to its datagram socket.
    Journald(PathBuf),
}

/// How syslog messages travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// One message a datagram to a Unix socket, as `/dev/log`.
    Datagram(PathBuf),
    /// Octet-counted over a Unix stream socket (RFC 6587, section 3.4.1).
    Stream(PathBuf),
    /// Octet-counted over TCP to `HOST:PORT`.
    Tcp(String),
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Journald(path) => write!(out, "journald:{}", path.display()),
            Self::Syslog { transport: Transport::Datagram(path) | Transport::Stream(path), .. } => {
                write!(out, "syslog:{}", path.display())
            }
            Self::Syslog { transport: Transport::Tcp(address), .. } => write!(out, "syslog:{address}"),
        }
    }
}

/// What a failing required sink means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Refuse runs until the sink takes records again; those that run go on.
    Refuse,
    /// The same, and kill those that run.
    Kill,
    /// End the server, status 74.
    Exit,
    /// Run without a record: stamped into every record that is written, and said at each start.
    Continue,
}

impl OnFailure {
    /// The spelling in the policy.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Kill => "kill",
            Self::Exit => "exit",
            Self::Continue => "continue",
        }
    }
}

/// When a record counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// fdatasync(2) before anything is answered, ends of runs within 50 ms.
    Strict,
    /// Everything within 50 ms: a power loss may take so much, the end of the process nothing.
    Relaxed,
}

/// When the audit file is replaced by a new one, and how many old ones are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes; 0: never by size.
    pub max_size: u64,
    /// Age of its first record; zero: never by age.
    pub max_age: Duration,
    /// Rotated files that are kept; older ones are removed.
    pub keep: usize,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { max_size: 64 << 20, max_age: Duration::from_secs(24 * 3600), keep: 16 }
    }
}

/// Facilities by name (RFC 5424, table 1), as `syslog.conf` has them.
const FACILITIES: &[(&str, u8)] = &[
    ("user", 1),
    ("daemon", 3),
    ("auth", 4),
    ("authpriv", 10),
    ("audit", 13),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// The section.
pub(super) fn section<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    workspace: Option<&Workspace>,
) -> AuditConfig {
    let section = loader.reader.subsection(root, "audit");
    let mut found = AuditConfig::new(Vec::new());
    let rows = loader.reader.rows(&section, "sinks");
    let at = section.get("sinks").map_or(section.at, |item| item.at);
    if rows.as_ref().is_some_and(Vec::is_empty) {
        loader.reader.problem(at, &section.key_of("sinks"), "is empty: nothing may go unrecorded");
    }
    let replaced = loader.options.audit_file.is_some();
    for row in rows.iter().flatten() {
        // Faults of a sink that is replaced are still faults; where it lies no longer matters.
        add_row(loader, &mut found, row, workspace.filter(|_| !replaced));
    }
    if let Some(path) = &loader.options.audit_file {
        found.sinks.clear();
        match std::path::absolute(path) {
            Ok(path) => add_file(loader, &mut found.sinks, &path, at, "--audit", workspace),
            Err(error) => loader.reader.absent("--audit", format!("{}: {error}", path.display())),
        }
    } else if !section.is_written("sinks") {
        let key = section.key_of("sinks");
        match default_file(|name| std::env::var_os(name)) {
            Ok(path) => add_file(loader, &mut found.sinks, &path, at, &key, workspace),
            Err(what) => loader.reader.absent(&key, what),
        }
    } else if rows.as_ref().is_some_and(|rows| !rows.is_empty())
        && !found.sinks.is_empty()
        && found.sinks.iter().all(|sink| matches!(sink, Sink::Forward(_)))
    {
        let what = "names no sink that can be required: add kind = \"file\", \"stdout\" or \"stderr\"";
        loader.reader.problem(at, &section.key_of("sinks"), what);
    }
    let has_stderr = found.sinks.iter().any(|sink| matches!(sink, Sink::Stderr(_)));
    if loader.options.audit_stderr && !has_stderr {
        found.sinks.push(Sink::Stderr(Rendering::Native));
    }
    let word = |name| Reader::text(&section, name).map(|word| word.text);
    found.on_failure = match word("on_failure").as_deref() {
        Some("kill") => OnFailure::Kill,
        Some("exit") => OnFailure::Exit,
        Some("continue") => OnFailure::Continue,
        _ => OnFailure::Refuse,
    };
    found.sync = match word("sync").as_deref() {
        Some("relaxed") => SyncPolicy::Relaxed,
        _ => SyncPolicy::Strict,
    };
    found.min_free = loader.reader.number(&section, "min_free");
    found.redact = records::redact(loader, &section);
    found.checkpoint = records::checkpoint(loader, &section, workspace);
    found
}

fn add_row<'t>(
    loader: &mut Loader<'t, '_>,
    found: &mut AuditConfig,
    row: &Section<'t>,
    workspace: Option<&Workspace>,
) {
    let kind = Reader::text(row, "kind").map(|word| word.text);
    let Some(kind) = kind.as_deref() else {
        if !row.is_written("kind") {
            let kinds = "is required: \"file\", \"stdout\", \"stderr\", \"unix\", \"syslog\" or \"journald\"";
            loader.reader.problem(row.at, &row.key_of("kind"), kinds);
        }
        return;
    };
    let transport = Reader::text(row, "transport").map(|word| word.text);
    let useful: &[&str] = match (kind, transport.as_deref()) {
        ("file", _) => &["path", "max_size", "max_age", "keep"],
        ("stdout" | "stderr", _) => &["format"],
        ("unix" | "journald", _) => &["path", "format", "queue"],
        ("syslog", Some("tcp")) => &["transport", "address", "facility", "format", "queue"],
        ("syslog", _) => &["transport", "path", "facility", "format", "queue"],
        _ => return,
    };
    for name in ["path", "address", "transport", "facility", "format", "queue", "max_size", "max_age", "keep"]
    {
        if let Some(item) = row.get(name).filter(|_| !useful.contains(&name)) {
            loader.reader.problem(item.at, &item.key, format!("is of no use with kind = \"{kind}\""));
        }
    }
    let rendering = match Reader::text(row, "format").map(|word| word.text).as_deref() {
        Some("ecs") => Rendering::Ecs,
        Some("ocsf") => Rendering::Ocsf,
        _ => Rendering::Native,
    };
    let same = |one: &Sink| match one {
        Sink::Stderr(_) => kind == "stderr",
        Sink::Stdout(_) => kind == "stdout",
        Sink::File(_) | Sink::Forward(_) => false,
    };
    match kind {
        "file" => {
            found.rotation = Rotation {
                max_size: loader.reader.number(row, "max_size"),
                max_age: Duration::from_millis(loader.reader.number(row, "max_age")),
                keep: usize::try_from(loader.reader.number(row, "keep")).unwrap_or(usize::MAX),
            };
            if let Some(path) = path_of(loader, row, None) {
                let (at, key) = row.get("path").map_or((row.at, row.key.clone()), |i| (i.at, i.key.clone()));
                add_file(loader, &mut found.sinks, &path, at, &key, workspace);
            }
        }
        "stderr" if found.sinks.iter().any(same) => {
            loader.reader.problem(row.at, &row.key, "standard error is listed twice");
        }
        "stdout" if found.sinks.iter().any(same) => {
            loader.reader.problem(row.at, &row.key, "standard output is listed twice");
        }
        "stderr" => found.sinks.push(Sink::Stderr(rendering)),
        "stdout" => found.sinks.push(Sink::Stdout(rendering)),
        _ => {
            let Some(to) = target(loader, row, kind, transport.as_deref()) else { return };
            let queue_bytes = usize::try_from(loader.reader.number(row, "queue")).unwrap_or(usize::MAX);
            let sink = Sink::Forward(Forward { to, rendering, queue_bytes });
            if found.sinks.contains(&sink) {
                loader.reader.problem(row.at, &row.key, "is listed twice");
            }
            found.sinks.push(sink);
        }
    }
}

/// The path of a row, or the default of its kind.
fn path_of<'t>(loader: &mut Loader<'t, '_>, row: &Section<'t>, default: Option<&str>) -> Option<PathBuf> {
    match (Reader::text(row, "path"), default) {
        (Some(word), _) => match values::absolute(&word.text) {
            Ok(path) => Some(path),
            Err(what) => {
                loader.reader.problem(word.at, &word.key, what);
                None
            }
        },
        (None, Some(path)) => Some(PathBuf::from(path)),
        (None, None) => {
            let kind = Reader::text(row, "kind").map_or_else(String::new, |word| word.text);
            loader.reader.problem(row.at, &row.key_of("path"), format!("is required for kind = \"{kind}\""));
            None
        }
    }
}

fn target<'t>(
    loader: &mut Loader<'t, '_>,
    row: &Section<'t>,
    kind: &str,
    transport: Option<&str>,
) -> Option<Target> {
    let facility = Reader::text(row, "facility").map_or_else(|| "authpriv".to_owned(), |word| word.text);
    let facility = FACILITIES.iter().find(|(name, _)| *name == facility).map_or(10, |(_, number)| *number);
    let syslog = |transport| Target::Syslog { transport, facility };
    match (kind, transport) {
        ("unix", _) => path_of(loader, row, None).map(Target::Unix),
        ("journald", _) => path_of(loader, row, Some("/run/systemd/journal/socket")).map(Target::Journald),
        (_, Some("tcp")) => {
            let Some(word) = Reader::text(row, "address") else {
                let what = "is required for transport = \"tcp\": \"HOST:PORT\"";
                loader.reader.problem(row.at, &row.key_of("address"), what);
                return None;
            };
            let port = word.text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if port.is_none_or(|(_, port)| port.parse::<u16>().unwrap_or(0) == 0) {
                loader.reader.problem(word.at, &word.key, "is not HOST:PORT, as \"127.0.0.1:601\"");
                return None;
            }
            Some(syslog(Transport::Tcp(word.text)))
        }
        (_, Some("stream")) => path_of(loader, row, None).map(|path| syslog(Transport::Stream(path))),
        _ => path_of(loader, row, Some("/dev/log")).map(|path| syslog(Transport::Datagram(path))),
    }
}

fn add_file(
    loader: &mut Loader<'_, '_>,
    sinks: &mut Vec<Sink>,
    path: &Path,
    at: usize,
    key: &str,
    workspace: Option<&Workspace>,
) {
    let sink = Sink::File(path.to_path_buf());
    if sinks.contains(&sink) {
        loader.reader.problem(at, key, format!("{} is listed twice", path.display()));
        return;
    }
    if let Some(workspace) = workspace
        && settled(path).starts_with(&workspace.path)
    {
        let what = format!(
            "the audit file {} lies inside of the workspace {}, where commands see it: name another \
             file, or set XDG_STATE_HOME",
            path.display(),
            workspace.path.display()
        );
        loader.reader.problem(at, key, what);
    }
    sinks.push(sink);
}

/// The default sink, from `XDG_STATE_HOME` or `HOME`.
pub(super) fn default_file(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    let directory = |name: &str| match variable(name).filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(path) if !path.is_absolute() => {
            Err(format!("{name} is not an absolute path: {}", path.display()))
        }
        other => Ok(other),
    };
    let state = match directory("XDG_STATE_HOME")? {
        Some(state) => Some(state),
        None => directory("HOME")?.map(|home| home.join(".local/state")),
    };
    let state = state.ok_or(
        "no place for audit records: set XDG_STATE_HOME or HOME, or write \
         [audit] sinks = [{ kind = \"file\", path = \"/var/log/cofferdam/audit.jsonl\" }]",
    )?;
    Ok(state.join("cofferdam/audit.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pairs: &[(&str, &str)]) -> Result<PathBuf, String> {
        default_file(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_default_audit_file_follows_the_state_directory() {
        let home = ("HOME", "/home/u");
        assert_eq!(file(&[home]), Ok("/home/u/.local/state/cofferdam/audit.jsonl".into()));
        assert_eq!(file(&[("XDG_STATE_HOME", "/s"), home]), Ok("/s/cofferdam/audit.jsonl".into()));
        assert_eq!(
            file(&[("XDG_STATE_HOME", ""), home]),
            Ok("/home/u/.local/state/cofferdam/audit.jsonl".into())
        );
        assert!(file(&[("XDG_STATE_HOME", "s"), home]).unwrap_err().contains("XDG_STATE_HOME"));
        let none = file(&[("HOME", "")]).unwrap_err();
        assert!(none.contains("set XDG_STATE_HOME or HOME") && none.contains("sinks"), "{none}");
    }
}
