//! Standard output and standard error as sinks: a copy that never delays a run, or the required sink of a
//! container.
//!
//! Purpose: a reader that stopped reading must not stop the appliance. A thread of its own does the
//! blocking writes; as the required sink it answers within [`PATIENCE`] or fails. Called by `sinks/mod.rs`
//! and `audit/mod.rs`.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use nix::errno::Errno;

use super::form;
use super::worker::{Failure, Outlet};
use crate::audit::AuditError;
use crate::audit::chain::Head;
use crate::audit::medium::{Medium, Tail};
use crate::config::Rendering;

/// How long the required sink may take.
const PATIENCE: Duration = Duration::from_millis(900);

type Done = SyncSender<io::Result<()>>;

/// The writing end of the thread.
#[derive(Debug)]
struct Pipe {
    to: SyncSender<(Vec<u8>, Option<Done>)>,
}

impl Pipe {
    fn start(fd: OwnedFd, backlog: usize) -> io::Result<Self> {
        let (to, from) = sync_channel(backlog);
        // Never joined: it may be stuck in a write for good, and ends with the process.
        std::thread::Builder::new().name("audit-stderr".to_owned()).spawn(move || pump(&fd, &from))?;
        Ok(Self { to })
    }
}

fn pump(fd: &OwnedFd, from: &Receiver<(Vec<u8>, Option<Done>)>) {
    while let Ok((bytes, done)) = from.recv() {
        let result = write_all(fd, &bytes);
        if let Some(done) = done {
            drop(done.try_send(result));
        }
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or(&[]),
            Err(Errno::EINTR) => {}
            // Somebody set the shared description non-blocking.
            Err(Errno::EAGAIN) => std::thread::sleep(Duration::from_millis(1)),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// A standard stream as a copy.
#[derive(Debug)]
pub(super) struct StdioLines(OwnedFd);

impl StdioLines {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Outlet for StdioLines {
    fn connect(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Waits as long as the reader does not read: it is the thread's own time, and a part of a line that is
    /// under way cannot be taken back.
    fn send(&mut self, _native: &[u8], shown: &[u8]) -> Result<(), Failure> {
        let mut line = Vec::with_capacity(shown.len() + 1);
        line.extend_from_slice(shown);
        line.push(b'\n');
        write_all(&self.0, &line).map_err(Failure::Link)
    }
}

/// A standard stream as the only, hence required, sink. Its chain starts anew with each process: there
/// is nothing to read back.
#[derive(Debug)]
pub(in crate::audit) struct StdioMedium {
    name: &'static str,
    rendering: Rendering,
    pipe: Pipe,
    late: Option<Receiver<io::Result<()>>>,
}

impl StdioMedium {
    pub(in crate::audit) fn new(name: &'static str, fd: OwnedFd, rendering: Rendering) -> io::Result<Self> {
        // No backlog: one batch at a time, or the order of what is refused would be unknown.
        Ok(Self { name, rendering, pipe: Pipe::start(fd, 1)?, late: None })
    }

    fn fail(&self, source: io::Error) -> AuditError {
        AuditError { operation: "write", sink: self.name.to_owned(), source }
    }

    /// The batch in the form of this sink.
    fn rendered(&self, native: &[u8]) -> Result<Vec<u8>, AuditError> {
        if self.rendering == Rendering::Native {
            return Ok(native.to_vec());
        }
        let mut out = Vec::with_capacity(native.len() * 2);
        for line in native.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let shown = form::render(self.rendering, line).map_err(|why| self.fail(io::Error::other(why)))?;
            out.extend_from_slice(&shown);
            out.push(b'\n');
        }
        Ok(out)
    }
}

impl Medium for StdioMedium {
    fn begin(&mut self, memory: Option<Head>) -> Result<Tail, AuditError> {
        if let Some(late) = self.late.take() {
            match late.try_recv() {
                Ok(_) | Err(std::sync::mpsc::TryRecvError::Disconnected) => {}
                Err(std::sync::mpsc::TryRecvError::Empty) => {
                    self.late = Some(late);
                    return Err(
                        self.fail(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read"))
                    );
                }
            }
        }
        Ok(Tail { head: memory, ..Tail::default() })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<usize, AuditError> {
        let (done, answer) = sync_channel(1);
        match self.pipe.to.try_send((self.rendered(bytes)?, Some(done))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(self.fail(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read")));
            }
            Err(TrySendError::Disconnected(_)) => return Err(self.fail(io::ErrorKind::BrokenPipe.into())),
        }
        match answer.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(bytes.len()),
            Ok(Err(error)) => Err(self.fail(error)),
            Err(RecvTimeoutError::Disconnected) => Err(self.fail(io::ErrorKind::BrokenPipe.into())),
            Err(RecvTimeoutError::Timeout) => {
                // The batch is under way and will stand there if the reader comes back.
                self.late = Some(answer);
                Ok(bytes.len())
            }
        }
    }

    fn finish(&mut self, _whole: bool, _next: u64) {}

    fn sync(&mut self) -> Result<(), AuditError> {
        match &self.late {
            None => Ok(()),
            Some(_) => Err(self.fail(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read"))),
        }
    }

    fn reopen(&mut self) -> Result<(), AuditError> {
        Ok(())
    }

    fn keep(&mut self, _open: &BTreeSet<u64>, _next: u64) {}

    fn close(&mut self, _clean: bool) {}

    fn name(&self) -> String {
        self.name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_required_sink_fails_when_its_reader_is_gone() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut medium = StdioMedium::new("standard error", writer, Rendering::Native).unwrap();
        assert_eq!(medium.append(b"one\n").unwrap(), 4);
        drop(reader);
        assert_eq!(medium.append(b"two\n").unwrap_err().source.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_required_sink_fails_when_its_reader_sleeps() {
        let (_reader, writer) = nix::unistd::pipe().unwrap();
        let mut medium = StdioMedium::new("standard error", writer, Rendering::Native).unwrap();
        medium.append(&vec![b'x'; 100_000]).unwrap();
        assert_eq!(medium.sync().unwrap_err().source.kind(), io::ErrorKind::TimedOut);
        assert!(medium.begin(None).is_err());
    }
}
