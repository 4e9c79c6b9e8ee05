//! What a crash left behind: the last whole record, torn bytes, runs without an end.
//!
//! Purpose: the chain goes on after any crash, and each `run.start` gets its terminal record. Never
//! truncates (the file may be `chattr +a`). Reads only. Called by `store.rs` and `writer.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use serde_json::{Map, Value};

use super::body::{Body, Level, Site};
use super::chain::{self, Head, ascii};
use super::lines::Lines;

/// How far back from the end a whole record is looked for.
const SEARCH: u64 = 1 << 20;

/// The end of a log.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The last whole record, if there is any.
    pub(super) head: Option<Head>,
    /// Bytes behind it that are no record.
    pub(super) junk: u64,
    /// The last line has no newline.
    pub(super) open: bool,
}

/// A part of a file as a reader, without moving the file's own position.
pub(super) struct Part<'a> {
    pub(super) file: &'a File,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.to.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read_at(buffer.get_mut(..most).unwrap_or(&mut []), self.from)?;
        self.from += read as u64;
        Ok(read)
    }
}

/// Finds the last whole record of a log of `size` bytes.
pub(super) fn end_of(file: &File, size: u64) -> io::Result<End> {
    if size == 0 {
        return Ok(End::default());
    }
    let mut window = 16 << 10;
    loop {
        let from = size.saturating_sub(window);
        let end = end_within(file, from, size)?;
        if end.head.is_some() {
            return Ok(end);
        }
        if from == 0 {
            return begun(file, size);
        }
        if window >= SEARCH {
            return Err(foreign());
        }
        window *= 8;
    }
}

fn foreign() -> io::Error {
    io::Error::other("no record of cofferdam at its end: not an audit log, or a damaged one; move it away")
}

fn end_within(file: &File, from: u64, to: u64) -> io::Result<End> {
    let mut end = End::default();
    let mut first = from > 0;
    for line in Lines::new(Part { file, from, to }) {
        let line = line?;
        // The window may begin in the middle of a line.
        if std::mem::take(&mut first) {
            continue;
        }
        end.open = !line.ended;
        match chain::read(&line.bytes) {
            Ok(link) if line.ended => {
                end.head = Some(link.head);
                end.junk = 0;
            }
            _ => end.junk += line.length,
        }
    }
    Ok(end)
}

/// A file without any whole record is ours only if it holds the beginning of a first one.
fn begun(file: &File, size: u64) -> io::Result<End> {
    const FIRST: &[u8] = b"{\"schema_version\":1,\"chain_id\":\"";
    let mut bytes = Vec::new();
    Part { file, from: 0, to: size.min(FIRST.len() as u64) }.read_to_end(&mut bytes)?;
    if size < chain::MAX_LINE as u64 && FIRST.starts_with(&bytes) {
        return Ok(End { head: None, junk: size, open: true });
    }
    Err(foreign())
}

/// `run.start` records in parts of the log, in the order of the chain, that have no end there and whose
/// instance is gone.
pub(super) fn unpaired<'a>(
    parts: impl IntoIterator<Item = Part<'a>>,
    alive: impl Fn(&str) -> io::Result<bool>,
) -> io::Result<Vec<Map<String, Value>>> {
    let mut open: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for line in parts.into_iter().flat_map(Lines::new) {
        let line = line?;
        let Some(kind) = run_event(&line.bytes) else { continue };
        if chain::read(&line.bytes).is_err() {
            continue;
        }
        let Ok(record) = serde_json::from_slice::<Map<String, Value>>(&line.bytes) else { continue };
        let Some(run_id) = record.get("run_id").and_then(Value::as_str).map(str::to_owned) else { continue };
        match kind {
            RunEvent::Start => open.insert(run_id, record),
            RunEvent::End => open.remove(&run_id),
        };
    }
    let mut lost = Vec::new();
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    for record in open.into_values() {
        let instance = record.get("instance_id").and_then(Value::as_str).unwrap_or("").to_owned();
        let lives = match known.get(&instance) {
            Some(lives) => *lives,
            None => alive(&instance)?,
        };
        known.insert(instance, lives);
        if !lives {
            lost.push(record);
        }
    }
    Ok(lost)
}

/// The two events that make a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunEvent {
    /// `run.start`.
    Start,
    /// `run.end`.
    End,
}

/// Which of the two a line is, without parsing it: quotes inside of values are escaped, so the text
/// of the member cannot occur in one.
pub(super) fn run_event(line: &[u8]) -> Option<RunEvent> {
    let (_, rest) = ascii(line).split_once(",\"event_type\":\"run.")?;
    if rest.starts_with("start\"") {
        Some(RunEvent::Start)
    } else if rest.starts_with("end\"") {
        Some(RunEvent::End)
    } else {
        None
    }
}

/// Members of a start that its end repeats.
const REPEATED: &[&str] = &[
    "session_id",
    "client_name",
    "client_version",
    "protocol_version",
    "transport",
    "peer_ip",
    "peer_port",
    "peer_pid",
    "peer_uid",
    "principal",
    "auth",
    "request_id",
    "trace_id",
    "span_id",
    "run_id",
    "tool",
    "toolkit",
    "policy_digest",
    "cmd",
    "argc",
    "argv_bytes",
    "argv_hmac",
    "argv_unicode_risk",
    "cwd",
    "exe",
    "redactions",
    "redaction_count",
    "argv",
    "argv_truncated",
    "argument_rules_off",
    "allow_any",
    "interpreter",
    "sandbox",
    "sandbox_digest",
    "landlock_abi",
    "sandbox_mounts",
    "landlock_net",
    "seccomp",
    "seccomp_digest",
    "no_new_privs",
    "caps",
    "uid",
    "gid",
    "wrapper",
    "wrapper_args",
    "wrapper_sandboxed",
];

/// The `run.end` of a run whose server is gone. What nobody measured is absent.
pub(super) fn lost_end(site: &Site, start: &Map<String, Value>) -> Body {
    let mut body = Body::new(site, Level::Error, "run.end");
    for name in REPEATED {
        if let Some(value) = start.get(*name) {
            body.copied(name, value);
        }
    }
    body.plain("outcome", "lost");
    body.plain("error_code", "server_gone");
    let cmd = start.get("cmd").and_then(Value::as_str).unwrap_or("");
    body.message(&format!("{cmd} was lost: its server ended without recording how it went"));
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(bytes: &[u8]) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        (file, bytes.len() as u64)
    }

    #[test]
    fn the_end_is_the_last_whole_record() {
        let mut head = Head::new();
        let mut log = Vec::new();
        for _ in 0..50 {
            head.seal(&format!(",\"message\":\"{}\"", "x".repeat(900)), &mut log);
        }
        let (whole, size) = file(&log);
        let end = end_of(&whole, size).unwrap();
        assert_eq!((end.head, end.junk, end.open), (Some(head), 0, false));
        log.extend_from_slice(b"{\"schema_ver");
        let (torn, size) = file(&log);
        let end = end_of(&torn, size).unwrap();
        assert_eq!((end.head, end.junk, end.open), (Some(head), 12, true));
    }

    #[test]
    fn a_foreign_file_is_refused_and_a_torn_first_record_is_not() {
        let (passwd, size) = file(b"root:x:0:0:root:/root:/bin/sh\n");
        assert!(end_of(&passwd, size).unwrap_err().to_string().contains("not an audit log"));
        let (torn, size) = file(b"{\"schema_version\":1,\"chain_id\":\"0192");
        let end = end_of(&torn, size).unwrap();
        assert_eq!((end.head, end.junk, end.open), (None, 36, true));
    }

    #[test]
    fn an_event_in_an_argument_is_not_taken_for_one() {
        let line = br#"{"argv":[",\"event_type\":\"run.end\""],"event_type":"run.start"}"#;
        assert_eq!(run_event(br#"{"a":1,"event_type":"run.end","b":2}"#), Some(RunEvent::End));
        assert_eq!(run_event(line), Some(RunEvent::Start));
    }
}
