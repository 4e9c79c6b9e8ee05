//! The native protocol of systemd-journald: one datagram of fields a record.
//!
//! Purpose: the record is the message, in the length-prefixed form, so that no byte of it can end a field;
//! what people filter by stands in fields of its own. Called by `sinks/mod.rs`.

use std::io;
use std::path::PathBuf;

use super::member;
use super::socket::Datagrams;
use super::syslog::severity;
use super::worker::{Failure, Outlet};

/// Members that become fields of their own.
const FIELDS: &[(&str, &str)] = &[
    ("event_type", "COFFERDAM_EVENT_TYPE"),
    ("outcome", "COFFERDAM_OUTCOME"),
    ("run_id", "COFFERDAM_RUN_ID"),
    ("session_id", "COFFERDAM_SESSION_ID"),
    ("rule_id", "COFFERDAM_RULE_ID"),
    ("seq", "COFFERDAM_SEQ"),
];

/// The outlet.
#[derive(Debug)]
pub(super) struct Journald {
    path: PathBuf,
    socket: Option<Datagrams>,
}

impl Journald {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, socket: None }
    }
}

impl Outlet for Journald {
    fn connect(&mut self) -> io::Result<()> {
        self.socket = None;
        self.socket = Some(Datagrams::connect(&self.path)?);
        Ok(())
    }

    fn send(&mut self, native: &[u8], shown: &[u8]) -> Result<(), Failure> {
        let Some(socket) = &self.socket else {
            return Err(Failure::Link(io::ErrorKind::NotConnected.into()));
        };
        match socket.send(&datagram(native, shown)) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                Err(Failure::Record("the record is larger than the journal takes".to_owned()))
            }
            other => other.map_err(Failure::Link),
        }
    }
}

fn datagram(native: &[u8], shown: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(shown.len() + 256);
    field(&mut out, "MESSAGE", shown);
    field(&mut out, "PRIORITY", severity(native).to_string().as_bytes());
    field(&mut out, "SYSLOG_IDENTIFIER", b"cofferdam");
    field(&mut out, "SYSLOG_FACILITY", b"10");
    for (name, key) in FIELDS {
        if let Some(value) = member(native, name) {
            field(&mut out, key, value.as_bytes());
        }
    }
    out
}

/// A name, a newline, the length as 64 bits little endian, the value, a newline.
fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_length() {
        let line = br#"{"schema_version":1,"seq":12,"level":"error","event_type":"run.end"}"#;
        let made = datagram(line, b"a\nb");
        assert!(made.starts_with(b"MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\nPRIORITY\n\x01\0\0\0\0\0\0\x003\n"));
        let tail = b"COFFERDAM_SEQ\n\x02\0\0\0\0\0\0\x0012\n";
        assert!(made.ends_with(tail));
    }
}
