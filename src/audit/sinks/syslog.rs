//! RFC 5424 syslog: a datagram a message, or octet-counted over a stream (RFC 6587, section 3.4.1).
//!
//! Purpose: header fields are taken from the native line; the message is the record in the form of the sink.
//! No byte order mark stands before it: rsyslog's mmjsonparse would not know the JSON behind one. Called by
//! `sinks/mod.rs`.

use std::io;
use std::path::PathBuf;

use super::member;
use super::socket::{Address, Datagrams, Stream};
use super::worker::{Failure, Outlet};

/// The outlet.
#[derive(Debug)]
pub(super) struct Syslog {
    facility: u8,
    link: Link,
}

/// How messages travel.
#[derive(Debug)]
pub(super) enum Link {
    /// To a Unix datagram socket.
    Datagram(PathBuf, Option<Datagrams>),
    /// Over a stream.
    Stream(Address, Option<Stream>),
}

impl Syslog {
    pub(super) fn new(facility: u8, link: Link) -> Self {
        Self { facility, link }
    }
}

impl Outlet for Syslog {
    fn connect(&mut self) -> io::Result<()> {
        match &mut self.link {
            Link::Datagram(path, socket) => {
                *socket = None;
                *socket = Some(Datagrams::connect(path)?);
            }
            Link::Stream(address, stream) => {
                *stream = None;
                *stream = Some(Stream::connect(address)?);
            }
        }
        Ok(())
    }

    fn send(&mut self, native: &[u8], shown: &[u8]) -> Result<(), Failure> {
        let message = message(self.facility, native, shown);
        match &self.link {
            Link::Datagram(_, Some(socket)) => match socket.send(&message) {
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    Err(Failure::Record("the record is larger than the socket takes".to_owned()))
                }
                other => other.map_err(Failure::Link),
            },
            Link::Stream(_, Some(stream)) => {
                let mut framed = format!("{} ", message.len()).into_bytes();
                framed.extend_from_slice(&message);
                stream.send(&framed).map_err(Failure::Link)
            }
            Link::Datagram(_, None) | Link::Stream(_, None) => {
                Err(Failure::Link(io::ErrorKind::NotConnected.into()))
            }
        }
    }
}

/// Severity of a level (RFC 5424, table 2).
pub(super) fn severity(native: &[u8]) -> u8 {
    match member(native, "level") {
        Some("error") => 3,
        Some("warning") => 4,
        _ => 6,
    }
}

/// One message, without a frame.
fn message(facility: u8, native: &[u8], shown: &[u8]) -> Vec<u8> {
    let plain = |name: &str, most: usize| {
        member(native, name)
            .filter(|text| !text.is_empty() && text.len() <= most)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'))
            .unwrap_or("-")
    };
    let priority = u16::from(facility) * 8 + u16::from(severity(native));
    let mut out = format!(
        "<{priority}>1 {} {} cofferdam {} {} - ",
        plain("timestamp", 32),
        plain("hostname", 255),
        std::process::id(),
        plain("event_type", 32),
    )
    .into_bytes();
    out.extend_from_slice(shown);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_that_of_the_record() {
        let line = br#"{"schema_version":1,"timestamp":"2026-11-30T09:00:00.421000Z","level":"warning","hostname":"cd-7f9c","event_type":"run.denied","cmd":"x\",\"level\":\"error"}"#;
        let text = String::from_utf8(message(10, line, b"{}")).unwrap();
        let pid = std::process::id();
        assert_eq!(
            text,
            format!("<84>1 2026-11-30T09:00:00.421000Z cd-7f9c cofferdam {pid} run.denied - {{}}")
        );
    }

    #[test]
    fn a_host_name_that_is_none_is_left_out() {
        let line = br#"{"schema_version":1,"timestamp":"t","hostname":"a\u0020b","event_type":"run.end"}"#;
        let text = String::from_utf8(message(16, line, b"x")).unwrap();
        assert!(text.starts_with("<134>1 t - cofferdam "), "{text}");
    }
}
