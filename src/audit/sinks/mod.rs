//! The sinks beside the required one: opened once, fed by the writer, never waited for.
//!
//! Purpose: one file a sink, one thread a sink (`worker.rs`). A name is resolved once, when the log is opened;
//! connections are made and made again behind the server's own walls, by the rights that [`ports`] names. Called by `audit/mod.rs` and `audit/writer.rs`.

mod form;
mod journald;
mod socket;
mod stdio;
mod syslog;
mod unix;
mod worker;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::AuditError;
use crate::config::{AuditConfig, Forward, Rendering, Sink, Target, Transport};
use socket::Address;
use syslog::{Link, Syslog};
use worker::Worker;

pub(super) use stdio::StdioMedium;
pub(super) use worker::Drops;

/// How long the end of the process waits for what still queues.
const LINGER: Duration = Duration::from_millis(500);

/// The best-effort sinks of a log.
#[derive(Debug, Default)]
pub(super) struct Copies(Vec<Worker>);

/// The TCP ports that sinks connect to: the right to them is all that the server keeps of the network.
pub(super) fn ports(config: &AuditConfig) -> Result<Vec<u16>, AuditError> {
    let mut found = Vec::new();
    for sink in &config.sinks {
        if let Sink::Forward(Forward { to: Target::Syslog { transport: Transport::Tcp(to), .. }, .. }) = sink
        {
            found.extend(resolved(to)?.iter().map(SocketAddr::port));
        }
    }
    Ok(found)
}

fn resolved(address: &str) -> Result<Vec<SocketAddr>, AuditError> {
    let fail = |source| AuditError { operation: "look-up", sink: format!("syslog:{address}"), source };
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(fail)?.collect();
    if found.is_empty() {
        return Err(fail(io::Error::other("the name has no address; write a numeric one")));
    }
    Ok(found)
}

/// A standard stream, as a descriptor of our own.
pub(super) fn standard(sink: &Sink) -> io::Result<OwnedFd> {
    match sink {
        Sink::Stdout(_) => io::stdout().as_fd().try_clone_to_owned(),
        _ => io::stderr().as_fd().try_clone_to_owned(),
    }
}

impl Copies {
    /// Starts a thread for each sink of `config` but the `required` one. `nudge` asks the writer to look at
    /// the counters.
    pub(super) fn start(
        config: &AuditConfig,
        required: &Sink,
        nudge: &Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self, AuditError> {
        let mut all = Vec::new();
        for sink in config.sinks.iter().filter(|sink| *sink != required) {
            let nudge = Arc::clone(nudge);
            let (name, worker) = match sink {
                Sink::File(_) => continue,
                Sink::Stderr(form) | Sink::Stdout(form) => {
                    let (name, kind) = if matches!(sink, Sink::Stdout(_)) {
                        ("stdout", "stdout")
                    } else {
                        ("stderr", "stderr")
                    };
                    let worker = standard(sink).and_then(|fd| {
                        let outlet = stdio::StdioLines::new(fd);
                        Worker::start((name.to_owned(), kind), 8 << 20, *form, outlet, nudge)
                    });
                    (name.to_owned(), worker)
                }
                Sink::Forward(forward) => (forward.to.to_string(), Self::forward(forward, nudge)?),
            };
            all.push(worker.map_err(|source| AuditError { operation: "thread", sink: name, source })?);
        }
        Ok(Self(all))
    }

    fn forward(
        forward: &Forward,
        nudge: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<io::Result<Worker>, AuditError> {
        let name = forward.to.to_string();
        let (limit, form): (usize, Rendering) = (forward.queue_bytes, forward.rendering);
        Ok(match &forward.to {
            Target::Unix(path) => {
                Worker::start((name, "unix"), limit, form, unix::UnixLines::new(path.clone()), nudge)
            }
            Target::Journald(path) => {
                Worker::start((name, "journald"), limit, form, journald::Journald::new(path.clone()), nudge)
            }
            Target::Syslog { transport, facility } => {
                let link = match transport {
                    Transport::Datagram(path) => Link::Datagram(path.clone(), None),
                    Transport::Stream(path) => Link::Stream(Address::Unix(path.clone()), None),
                    Transport::Tcp(address) => Link::Stream(Address::Tcp(resolved(address)?), None),
                };
                Worker::start((name, "syslog"), limit, form, Syslog::new(*facility, link), nudge)
            }
        })
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Hands over the whole lines among the first `count` bytes that the required sink took. Never waits.
    pub(super) fn send(&self, bytes: &[u8], count: usize) {
        if self.is_empty() {
            return;
        }
        let taken = bytes.get(..count).unwrap_or(bytes);
        for line in taken.split_inclusive(|byte| *byte == b'\n') {
            // Blank: the newline that closes a torn line. Without one: torn.
            if line.len() > 1 && line.ends_with(b"\n") {
                let line: Arc<[u8]> = Arc::from(line);
                for worker in &self.0 {
                    worker.offer(&line);
                }
            }
        }
    }

    /// What is to be reported as dropped.
    pub(super) fn drops(&self, all: bool) -> Vec<Drops> {
        self.0.iter().filter_map(|worker| worker.drops(all)).collect()
    }

    /// `kind:state` of each, and whether it is down.
    pub(super) fn states(&self) -> Vec<(String, bool)> {
        self.0.iter().map(Worker::state).collect()
    }

    /// The end: waits a moment for what still queues.
    pub(super) fn close(&self) {
        let deadline = Instant::now() + LINGER;
        for worker in &self.0 {
            worker.close(deadline);
        }
    }
}

/// The value of a member of a native line, as it stands there: a string without its quotes, or a number.
/// Quotes inside of values are escaped, so the text of a member cannot occur in one.
fn member<'a>(native: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(native).ok()?;
    let (_, rest) = text.split_once(&format!(",\"{name}\":"))?;
    match rest.strip_prefix('"') {
        Some(rest) => rest.split_once('"').map(|(value, _)| value).filter(|value| !value.ends_with('\\')),
        None => rest.split_once([',', '}']).map(|(value, _)| value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_their_own_place() {
        let line = br#"{"schema_version":1,"seq":7,"cmd":"a\",\"level\":\"x","level":"info"}"#;
        assert_eq!((member(line, "seq"), member(line, "level")), (Some("7"), Some("info")));
        assert_eq!(member(line, "cmd"), None, "a value with a quote in it is not cut");
        assert_eq!(member(line, "outcome"), None);
    }
}
