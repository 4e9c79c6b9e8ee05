//! The keys of a policy file as data: name, type, default and one line of documentation each.
//!
//! One table serves validation (unknown keys, types, ranges, defaults) and `check --help-keys`, so
//! that the documentation cannot drift from what is accepted. Read by the config room and `cli/`.

use std::fmt::Write as _;

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer between the two.
    Count(u64, u64),
    /// Bytes: an integer or a string such as `"64MiB"`, between the two.
    Size(u64, u64),
    /// A string such as `"30s"`, between the two in milliseconds.
    Duration(u64, u64),
    /// `true` or `false`.
    Bool,
    /// A string.
    Text,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// An array of strings without duplicates.
    List,
    /// A string or an array of strings.
    TextOrList,
    /// A table of strings, the keys free.
    Map,
    /// A table with the keys of this section.
    Section(&'static str),
    /// A table of tables: free keys, each with the keys of this section.
    Named(&'static str),
    /// An array of tables with the keys of this section.
    Rows(&'static str),
    /// An array of strings, or tables with the keys of this section.
    TextsOrRows(&'static str),
    /// Which operand: a number from 1, `"N.."` or `"any"`.
    Position,
}

/// One key of the policy file.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Section it belongs to; empty for the top level.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Value in force when it is absent, as one would write it; or a word on what happens then.
    pub default: &'static str,
    /// One line for people.
    pub doc: &'static str,
}

const fn key(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key { section, name, kind, default, doc }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const TIB: u64 = 1024 * GIB;
const SECOND: u64 = 1000;
/// Far beyond any sensible run, and far below where adding to a clock could overflow.
const MONTH: u64 = 30 * 24 * 3600 * SECOND;

/// PATH of commands, and the only path programs are found through, unless the policy says otherwise.
pub const SAFE_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// What holds where a toolkit has no ceiling of its own.
const OF_LIMITS: &str = "that of [limits]";

/// Every key there is.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("", "version", Kind::Count(1, 1), "required", "format of this file; only 1 exists"),
    key("", "allow", Kind::List, "[]", "names that may run; short for empty [command.NAME] tables"),
    key("", "allow_patterns", Kind::List, "[]", "regular expressions for names, each matched against the whole name"),
    key("", "allow_any", Kind::Bool, "false", "any name may run (for hosts that ask a human); excludes every list; loud"),
    key("", "consent", Kind::Choice(&["ask"]), "absent", "ask: a person is asked before each run of any command; see command.NAME.consent"),
    key("", "argument_rules", Kind::Choice(&["on", "off"]), "on", "off: only names and the kernel decide; loud, stamped into each record"),
    key("", "programs", Kind::Text, "absent", "directory of option grammars of your own, NAME.toml each (absolute, or relative to this file); they come before the shipped ones"),
    key("", "workspace", Kind::Section("workspace"), "", "the one directory tree that commands work in"),
    key("", "environment", Kind::Section("environment"), "", "what a command finds in its environment; nothing else is inherited"),
    key("", "limits", Kind::Section("limits"), "", "ceilings of each run"),
    key("", "sandbox", Kind::Section("sandbox"), "", "what the kernel grants beside the program itself"),
    key("", "audit", Kind::Section("audit"), "", "where records go"),
    key("", "command", Kind::Named("command.NAME"), "", "one table an allowed command; the key is the exact string a caller sends"),
    key("", "toolkit", Kind::Named("toolkit.PREFIX"), "one toolkit sh with every command", "tool prefixes: [toolkit.sh] gives the tool sh_run; several stand side by side"),
    key("", "server", Kind::Section("server"), "", "what `serve` tells clients about itself"),
    key("", "principal", Kind::Named("principal.NAME"), "none: see docs/http.md", "who may call over HTTP or a Unix socket, and with what"),

    key("workspace", "path", Kind::Text, "required (built-in policy: the current directory)", "absolute path of an existing directory"),
    key("workspace", "write", Kind::Bool, "false", "whether commands may write below it"),
    key("workspace", "repository", Kind::Choice(&["read", "write"]), "read", "in a writable workspace: whether .git at its root may be written (hooks and configuration never)"),

    key("environment", "path", Kind::Text, SAFE_PATH, "PATH of commands, and the only path programs are found through; absolute directories"),
    key("environment", "pass", Kind::List, "[]", "names taken from the server's environment, and those a caller may set; exact, no loader or interpreter hooks"),
    key("environment", "set", Kind::Map, "{}", "fixed values"),

    key("limits", "timeout", Kind::Duration(1, MONTH), "30s", "wall clock of a run that names no timeout"),
    key("limits", "max_timeout", Kind::Duration(1, MONTH), "5m", "largest timeout a caller gets; a larger one is clamped and said so"),
    key("limits", "output_bytes", Kind::Size(KIB, GIB), "1MiB", "kept bytes a stream: first quarter, last three quarters"),
    key("limits", "output_lines", Kind::Count(10, 100_000_000), "20000", "kept lines a stream"),
    key("limits", "memory", Kind::Size(16 * MIB, 1024 * TIB), "1GiB", "address space of each process (RLIMIT_AS); with a cgroup also the memory of the whole run, scratch included (memory.max, no swap)"),
    key("limits", "processes", Kind::Count(1, 4_194_304), "128", "processes and threads of the user commands run as (RLIMIT_NPROC); with a cgroup those of each run (pids.max)"),
    key("limits", "cpu_time", Kind::Duration(SECOND, MONTH), "60s", "processor time of each process, whole seconds (RLIMIT_CPU)"),
    key("limits", "file_size", Kind::Size(0, 1024 * TIB), "64MiB", "largest file a command may write (RLIMIT_FSIZE)"),
    key("limits", "open_files", Kind::Count(16, 1_048_576), "256", "open descriptors of each process (RLIMIT_NOFILE)"),
    key("limits", "arguments", Kind::Count(1, 65_536), "1024", "arguments of one command, its name included"),
    key("limits", "argument_bytes", Kind::Size(KIB, 128 * KIB), "128KiB", "bytes of all arguments, a terminator each included"),
    key("limits", "stdin_bytes", Kind::Size(0, GIB), "512KiB", "bytes of standard input a caller may send"),
    key("limits", "cgroup", Kind::Text, "auto", r#"cgroup v2 group a run: "auto" (in the server's own group where it is delegated, else resource limits alone), "require" (or nothing is served), "off", or the absolute path of a group without processes"#),
    key("limits", "jobs", Kind::Count(1, 4096), "8", "runs at the same time, background jobs included"),
    key("limits", "max_jobs", Kind::Count(1, 4096), "4", "background jobs at the same time; not more than jobs"),
    key("limits", "max_finished_jobs", Kind::Count(1, 4096), "16", "finished jobs whose output is kept, the newest ones"),
    key("limits", "job_ttl", Kind::Duration(1, MONTH), "10m", "how long a finished job is kept"),
    key("limits", "consent_time", Kind::Duration(1, 24 * 3600 * SECOND), "5m", "how long a person has to answer when consent is asked for"),
    key("limits", "max_job_time", Kind::Duration(1, MONTH), "30d", "wall clock of a job that names no timeout, and the largest that one may name"),

    key("sandbox", "read", Kind::List, r#"["@libraries"]"#, "absolute paths every command may read; @libraries: the loader, its cache and the libraries each program links"),
    key("sandbox", "network", Kind::TextOrList, "none", r#""none", or TCP ports to connect to: ["tcp:443"]"#),
    key("sandbox", "require", Kind::List, r#"["landlock>=6", "seccomp", "caps-empty", "no-new-privs"]"#, "what must hold on this host, or nothing is served"),
    key("sandbox", "user", Kind::Text, "auto", r#"for a server run as root: "auto" (an unprivileged user that reaches the workspace), "keep", or "UID:GID""#),

    key("audit", "sinks", Kind::Rows("audit.sinks"), "a file: $XDG_STATE_HOME/cofferdam/audit.jsonl, else below $HOME/.local/state", "where records go, in order"),
    key("audit", "on_failure", Kind::Choice(&["refuse", "kill", "exit", "continue"]), "refuse", "when the required sink takes no record: refuse runs; the same and kill those that run; end the server (status 74); or run unrecorded, stamped into every record"),
    key("audit", "sync", Kind::Choice(&["strict", "relaxed"]), "strict", "strict: a start or refusal is on the disk before it is acted on; relaxed: within 50 ms"),
    key("audit", "min_free", Kind::Size(0, TIB), "8MiB", "free bytes of the file's file system below which runs are refused; below eight times as many it is said"),
    key("audit", "redact", Kind::List, "[]", "regular expressions; what one matches is replaced in every record, after what is redacted anyway"),
    key("audit", "checkpoint_key", Kind::Text, "absent", "absolute path of an Ed25519 private key (cofferdam audit keygen) that signs checkpoints; no command may see it"),
    key("audit", "checkpoint_records", Kind::Count(1, 1_000_000_000), "1000", "a checkpoint after this many records, with a key"),
    key("audit", "checkpoint_time", Kind::Duration(SECOND, MONTH), "60s", "and after this time, where anything is new"),
    key("audit.sinks", "kind", Kind::Choice(&["file", "stdout", "stderr", "unix", "syslog", "journald"]), "required", "what the sink is; unix, syslog and journald are best effort"),
    key("audit.sinks", "path", Kind::Text, "syslog: /dev/log; journald: /run/systemd/journal/socket; else required", "absolute path of the file, outside of what commands see and write, or of the socket"),
    key("audit.sinks", "format", Kind::Choice(&["native"]), "native", "form of the records; a file is always native"),
    key("audit.sinks", "max_size", Kind::Size(0, TIB), "64MiB", "size at which the file is rotated; 0: never"),
    key("audit.sinks", "max_age", Kind::Duration(0, 12 * MONTH), "1d", "age at which the file is rotated; 0s: never"),
    key("audit.sinks", "keep", Kind::Count(1, 1_000_000), "16", "rotated files that are kept"),
    key("audit.sinks", "transport", Kind::Choice(&["datagram", "stream", "tcp"]), "datagram", "syslog: a datagram a message, or octet-counted over a Unix stream or TCP"),
    key("audit.sinks", "address", Kind::Text, "required for transport = \"tcp\"", "HOST:PORT; the name is resolved once, at start"),
    key("audit.sinks", "facility", Kind::Choice(&["user", "daemon", "auth", "authpriv", "audit", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]), "authpriv", "syslog facility"),
    key("audit.sinks", "queue", Kind::Size(64 * KIB, GIB), "8MiB", "bytes that may wait for a best-effort sink; what comes on top is dropped, counted and recorded"),

    key("command.NAME", "subcommands", Kind::List, "any", "when set, the first argument must be one of these"),
    key("command.NAME", "deny_options", Kind::List, "[]", "options refused wherever they stand before --, however they are spelled"),
    key("command.NAME", "allow_options", Kind::List, "any", "when set, options other than these are refused, however they are spelled, and so are unknown and ambiguous ones"),
    key("command.NAME", "deny_arguments", Kind::TextsOrRows("command.NAME.PATTERN"), "[]", "regular expressions; an operand that one matches from end to end is refused"),
    key("command.NAME", "allow_arguments", Kind::TextsOrRows("command.NAME.PATTERN"), "any", "the same; an operand (or value) that some of them are about must match one of those"),
    key("command.NAME", "max_args", Kind::Count(0, 65_535), "65535", "arguments after the name"),
    key("command.NAME", "arguments", Kind::Choice(&["known"]), "absent", "known: options that the program's grammar does not know are refused; see policy/RULES.md"),
    key("command.NAME", "paths", Kind::Choice(&["any"]), "absent", "any: file names outside of the workspace are no longer refused before the start; the kernel profile alone decides"),
    key("command.NAME", "execute", Kind::List, "[]", "further files or directories that may be executed (helpers)"),
    key("command.NAME", "read", Kind::List, "[]", "further files or directories that may be read"),
    key("command.NAME", "kernel", Kind::List, "[]", "what its kernel profile opens: ipc, jit (node, java), memfd, pty, watch (inotify); see `check`"),
    key("command.NAME", "network", Kind::TextOrList, "sandbox.network", "the same for this command alone, in place of it"),
    key("command.NAME", "environment", Kind::Map, "{}", "values set for this command, such as GIT_PAGER = \"cat\""),
    key("command.NAME", "interpreters", Kind::Choice(&["confine"]), "absent", "confine: run an always-denied name (shell, interpreter) on purpose, under the kernel profile; loud"),
    key("command.NAME", "consent", Kind::Choice(&["ask"]), "absent", "ask: a person is asked before each run, by the client (MCP elicitation) or on the terminal (exec); where nobody can be, it is refused"),
    key("command.NAME", "examples", Kind::Section("command.NAME.examples"), "", "command lines that prove the rules, checked when the policy loads"),
    key("command.NAME.PATTERN", "pattern", Kind::Text, "required", "regular expression over bytes, matched against the whole argument; a plain string in the array is one of position \"any\""),
    key("command.NAME.PATTERN", "position", Kind::Position, "any", "operand it is about, counted from 1 after the name (and the subcommand), options and their values left out"),
    key("command.NAME.PATTERN", "option", Kind::Text, "absent", "in place of position: the option whose value it is about; an absent value counts as empty"),
    key("command.NAME.examples", "allow", Kind::List, "[]", "lines that must be allowed"),
    key("command.NAME.examples", "deny", Kind::List, "[]", "lines that must be refused"),

    key("toolkit.PREFIX", "commands", Kind::List, "every command", "names its tools may run"),
    key("toolkit.PREFIX", "cwd", Kind::Text, "workspace.path", "directory its commands start in, and that a relative cwd of a call is relative to; absolute, or relative to the workspace, and inside of it"),
    key("toolkit.PREFIX", "description", Kind::Text, "absent", "a sentence before the description of its tools"),
    key("toolkit.PREFIX", "consent", Kind::Choice(&["ask"]), "absent", "ask: as command.NAME.consent, for every call of its tools"),
    key("toolkit.PREFIX", "limits", Kind::Section("toolkit.PREFIX.limits"), "", "ceilings of its runs, none above those of [limits]"),
    key("toolkit.PREFIX.limits", "max_timeout", Kind::Duration(1, MONTH), OF_LIMITS, "largest timeout a caller of its tools gets"),
    key("toolkit.PREFIX.limits", "timeout", Kind::Duration(1, MONTH), OF_LIMITS, "wall clock of its runs that name no timeout, at most max_timeout"),
    key("toolkit.PREFIX.limits", "output_bytes", Kind::Size(KIB, GIB), OF_LIMITS, "kept bytes a stream of its runs"),
    key("toolkit.PREFIX.limits", "output_lines", Kind::Count(10, 100_000_000), OF_LIMITS, "kept lines a stream of its runs"),
    key("toolkit.PREFIX.limits", "memory", Kind::Size(16 * MIB, 1024 * TIB), OF_LIMITS, "address space of each of its processes"),
    key("toolkit.PREFIX.limits", "cpu_time", Kind::Duration(SECOND, MONTH), OF_LIMITS, "processor time of each of its processes, whole seconds"),
    key("toolkit.PREFIX.limits", "file_size", Kind::Size(0, 1024 * TIB), OF_LIMITS, "largest file one of its commands may write"),
    key("toolkit.PREFIX.limits", "open_files", Kind::Count(16, 1_048_576), OF_LIMITS, "open descriptors of each of its processes"),
    key("toolkit.PREFIX.limits", "stdin_bytes", Kind::Size(0, GIB), OF_LIMITS, "bytes of standard input a caller of its tools may send"),
    key("toolkit.PREFIX.limits", "jobs", Kind::Count(1, 4096), OF_LIMITS, "its runs at the same time, beside limits.jobs for all"),
    key("toolkit.PREFIX.limits", "max_jobs", Kind::Count(1, 4096), OF_LIMITS, "its background jobs at the same time, beside limits.max_jobs for all; not more than jobs"),
    key("toolkit.PREFIX.limits", "max_finished_jobs", Kind::Count(1, 4096), OF_LIMITS, "its finished jobs whose output is kept, the newest ones"),
    key("toolkit.PREFIX.limits", "job_ttl", Kind::Duration(1, MONTH), OF_LIMITS, "how long a finished job of it is kept"),
    key("toolkit.PREFIX.limits", "max_job_time", Kind::Duration(1, MONTH), OF_LIMITS, "wall clock of its jobs, as limits.max_job_time"),

    key("server", "name", Kind::Text, "cofferdam", "name that clients are told"),
    key("server", "version", Kind::Text, "version of cofferdam", "version that clients are told"),
    key("server", "description", Kind::Text, "absent", "one line about the server, for people"),
    key("server", "tools", Kind::List, r#"["toolkits"]"#, "tools that are offered: toolkits (those of every prefix), command_run (several commands in one call), shell_execute (one array with operators as elements)"),
    key("server", "operators", Kind::Bool, "false", "whether ;, && and || are operators of shell_execute; | and redirections always are"),
    key("server", "batch_text", Kind::Choice(&["outputs", "summary"]), "outputs", "what the text of command_run holds beside the structured result: outputs, 8 KiB of all together, or a summary without them"),
    key("server", "nonzero_is_error", Kind::Bool, "true", "whether a status other than 0 makes the reply of shell_execute an error (a grep without a match, too); false: the documented object, with its status"),
    key("server", "compat_text", Kind::Choice(&["off", "1.1.14"]), "off", "texts of shell_execute: off for the documented object, 1.1.14 for stdout and stderr as texts of their own, as that release of mcp-shell-server sends them"),
    key("server", "instructions", Kind::Text, "absent", "text for the agent, before the instructions of cofferdam"),
    key("server", "http", Kind::Section("server.http"), "", "the listener of serve --listen and --unix"),
    key("server", "tls", Kind::Section("server.tls"), "absent", "TLS on the address of serve --listen; without it a TCP address speaks plain text"),
    key("server.http", "hosts", Kind::List, "[]", "Host values that are accepted beside loopback names and the address itself: name, or name:port"),
    key("server.http", "origins", Kind::List, "[]", "Origin values that are accepted, exactly, beside the address itself: https://app.example:443"),
    key("server.http", "resource", Kind::Text, "that of the address", "URL that clients know the endpoint by (RFC 9728)"),
    key("server.http", "authorization_servers", Kind::List, "[]", "issuers of tokens, told to clients (RFC 9728); tokens are checked against principal.NAME alone"),
    key("server.http", "connections", Kind::Count(1, 65_536), "256", "connections at the same time; a new one takes the place of the one that is idle for longest"),
    key("server.http", "session_idle", Kind::Duration(SECOND, MONTH), "30m", "how long a session of the older protocol era is kept without a message; never shorter than limits.max_timeout"),
    key("server.http", "read_timeout", Kind::Duration(100, 3600 * SECOND), "10s", "how long the head of a request may take, and then its body"),
    key("server.http", "drain", Kind::Duration(0, 3600 * SECOND), "5s", "how long runs may go on after SIGTERM before they are killed"),

    key("server.tls", "certificate", Kind::Text, "required", "absolute path of the server's certificate in PEM, and those between it and its CA; read at start and again at SIGHUP"),
    key("server.tls", "key", Kind::Text, "required", "absolute path of its private key in PEM; no command may see it, nor other users"),
    key("server.tls", "client_ca", Kind::Text, "absent", "absolute path of the CA certificates in PEM that sign those of clients (principal.NAME.certificate_sha256)"),

    key("principal.NAME", "token_sha256", Kind::List, "[]", "SHA-256 of each of its bearer tokens, 64 hex digits (printf %s TOKEN | sha256sum)"),
    key("principal.NAME", "token_file", Kind::Text, "absent", "absolute path of a file with its tokens, one a line; read at start and again at SIGHUP"),
    key("principal.NAME", "certificate_sha256", Kind::List, "[]", "SHA-256 of each of its client certificates (openssl x509 -noout -fingerprint -sha256), signed by server.tls.client_ca"),
    key("principal.NAME", "uid", Kind::List, "[]", "users (\"1000\") whose processes it is on a Unix socket when they send no token"),
    key("principal.NAME", "toolkits", Kind::List, "every toolkit", "prefixes that it may use; command_run and shell_execute only where it is one"),
    key("principal.NAME", "jobs", Kind::Count(1, 4096), "limits.jobs", "its runs at the same time, background jobs included"),
    key("principal.NAME", "max_jobs", Kind::Count(1, 4096), "limits.max_jobs", "its background jobs at the same time"),
    key("principal.NAME", "sessions", Kind::Count(1, 65_536), "64", "its sessions of the older protocol era at the same time"),
    key("principal.NAME", "requests", Kind::Count(1, 65_536), "128", "its requests that are answered at the same time"),
    key("principal.NAME", "requests_per_minute", Kind::Count(1, 100_000_000), "6000", "its requests a minute; a tenth of it may come at once"),
];

/// The keys of one section, in the order of the table.
pub fn of_section(section: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.section == section)
}

/// One key.
#[must_use]
pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    of_section(section).find(|key| key.name == name)
}

impl Kind {
    /// What to write, for errors and documentation.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Count(1, 1) => "the integer 1".into(),
            Self::Count(least, most) => format!("an integer from {least} to {most}"),
            Self::Size(least, most) => {
                format!("a size from {} to {}, such as \"64MiB\" or bytes", bytes(least), bytes(most))
            }
            Self::Duration(least, most) => {
                format!("a duration from {} to {}, such as \"30s\"", time(least), time(most))
            }
            Self::Bool => "true or false".into(),
            Self::Text => "a string".into(),
            Self::Choice(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            Self::List => "an array of strings".into(),
            Self::TextOrList => "a string or an array of strings".into(),
            Self::Map => "a table of strings".into(),
            Self::Section(_) => "a table".into(),
            Self::Named(_) => "a table of tables".into(),
            Self::Rows(_) => "an array of tables".into(),
            Self::TextsOrRows(_) => "an array of strings or tables".into(),
            Self::Position => "a number from 1, \"N..\" or \"any\"".into(),
        }
    }
}

impl Kind {
    /// A number of this kind, as people write it.
    #[must_use]
    pub fn show(self, number: u64) -> String {
        match self {
            Self::Size(..) => bytes(number),
            Self::Duration(..) => time(number),
            _ => number.to_string(),
        }
    }
}

fn bytes(count: u64) -> String {
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| count >= *unit && count.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{count}B"), |(unit, name)| format!("{}{name}", count / unit))
}

fn time(millis: u64) -> String {
    humantime::format_duration(std::time::Duration::from_millis(millis)).to_string()
}

/// The table as text, for `cofferdam check --help-keys`.
#[must_use]
pub fn help() -> String {
    let mut out = String::from("Keys of a policy file (TOML). Unknown keys are errors.\n");
    let mut section = None;
    for key in KEYS {
        if section != Some(key.section) {
            section = Some(key.section);
            let title = if key.section.is_empty() { "top level" } else { key.section };
            let _ = write!(out, "\n[{title}]\n");
        }
        let _ = writeln!(out, "  {:<15} {}", key.name, key.doc);
        let _ = write!(out, "  {:<15} takes {}", "", key.kind.describe());
        let _ =
            if key.default.is_empty() { writeln!(out) } else { writeln!(out, "; default: {}", key.default) };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_that_is_named_has_keys_and_every_key_is_reachable() {
        for key in KEYS {
            assert!(!key.doc.is_empty(), "{}.{} is undocumented", key.section, key.name);
            if let Kind::Section(name) | Kind::Named(name) | Kind::Rows(name) | Kind::TextsOrRows(name) =
                key.kind
            {
                assert!(of_section(name).next().is_some(), "section {name} has no keys");
            }
            let reachable = key.section.is_empty()
                || KEYS.iter().any(|other| {
                    matches!(other.kind, Kind::Section(n) | Kind::Named(n) | Kind::Rows(n) | Kind::TextsOrRows(n) if n == key.section)
                });
            assert!(reachable, "nothing leads to section {}", key.section);
        }
    }

    #[test]
    fn no_key_stands_twice() {
        for key in KEYS {
            assert_eq!(of_section(key.section).filter(|other| other.name == key.name).count(), 1);
        }
    }

    #[test]
    fn the_help_names_every_key() {
        let help = help();
        for key in KEYS {
            assert!(help.contains(key.doc), "{}.{}", key.section, key.name);
        }
        assert!(help.contains("a size from 1KiB to 1GiB"));
    }
}
