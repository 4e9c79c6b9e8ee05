//! Standard error as a sink: a copy that never delays a run, or the required sink of a container.
//!
//! Purpose: a reader that stopped reading must not stop the appliance. A thread of its own does the
//! blocking writes; as a copy it drops what does not fit its queue, as the required sink it answers
//! within [`PATIENCE`] or fails. Called by `mod.rs` and `writer.rs`.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use nix::errno::Errno;

use super::AuditError;
use super::chain::Head;
use super::store::{Medium, Tail};

/// How long the required sink may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Batches that may wait for a slow reader of copies.
const BACKLOG: usize = 256;

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

/// Copies of what the required sink took.
#[derive(Debug)]
pub(super) struct Copies {
    pipe: Pipe,
    dropped: u64,
}

impl Copies {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { pipe: Pipe::start(fd, BACKLOG)?, dropped: 0 })
    }

    /// Hands over the first `count` bytes of `bytes`, if there is room.
    pub(super) fn send(&mut self, mut bytes: Vec<u8>, count: usize) {
        bytes.truncate(count);
        if bytes.is_empty() {
            return;
        }
        if self.pipe.to.try_send((bytes, None)).is_err() {
            self.dropped += 1;
            if self.dropped.is_power_of_two() {
                tracing::warn!(
                    dropped = self.dropped,
                    "audit: standard error does not keep up; copies are dropped"
                );
            }
        }
    }
}

/// Standard error as the only, hence required, sink. Its chain starts anew with each process: there
/// is nothing to read back.
#[derive(Debug)]
pub(super) struct StderrMedium {
    pipe: Pipe,
    late: Option<Receiver<io::Result<()>>>,
}

impl StderrMedium {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        // No backlog: one batch at a time, or the order of what is refused would be unknown.
        Ok(Self { pipe: Pipe::start(fd, 1)?, late: None })
    }
}

fn fail(source: io::Error) -> AuditError {
    AuditError { operation: "write", sink: "standard error".to_owned(), source }
}

impl Medium for StderrMedium {
    fn begin(&mut self, memory: Option<Head>) -> Result<Tail, AuditError> {
        if let Some(late) = self.late.take() {
            match late.try_recv() {
                Ok(_) | Err(std::sync::mpsc::TryRecvError::Disconnected) => {}
                Err(std::sync::mpsc::TryRecvError::Empty) => {
                    self.late = Some(late);
                    return Err(fail(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read")));
                }
            }
        }
        Ok(Tail { head: memory, ..Tail::default() })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<usize, AuditError> {
        let (done, answer) = sync_channel(1);
        match self.pipe.to.try_send((bytes.to_vec(), Some(done))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(fail(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read")));
            }
            Err(TrySendError::Disconnected(_)) => return Err(fail(io::ErrorKind::BrokenPipe.into())),
        }
        match answer.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(bytes.len()),
            Ok(Err(error)) => Err(fail(error)),
            Err(RecvTimeoutError::Disconnected) => Err(fail(io::ErrorKind::BrokenPipe.into())),
            Err(RecvTimeoutError::Timeout) => {
                // The batch is under way and will stand there if the reader comes back.
                self.late = Some(answer);
                Ok(bytes.len())
            }
        }
    }

    fn finish(&mut self, _whole: bool) {}

    fn sync(&mut self) -> Result<(), AuditError> {
        match &self.late {
            None => Ok(()),
            Some(_) => Err(fail(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read"))),
        }
    }

    fn reopen(&mut self) -> Result<(), AuditError> {
        Ok(())
    }

    fn keep_from(&mut self, _offset: u64) {}

    fn close(&mut self, _clean: bool) {}

    fn name(&self) -> String {
        "standard error".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_stops_does_not_stop_the_writer() {
        let (_reader, writer) = nix::unistd::pipe().unwrap();
        let mut copies = Copies::new(writer).unwrap();
        for _ in 0..BACKLOG * 2 {
            copies.send(vec![b'x'; 60_000], 60_000);
        }
        assert!(copies.dropped > 0);
    }

    #[test]
    fn the_required_sink_fails_when_its_reader_is_gone() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut medium = StderrMedium::new(writer).unwrap();
        assert_eq!(medium.append(b"one\n").unwrap(), 4);
        drop(reader);
        assert_eq!(medium.append(b"two\n").unwrap_err().source.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_required_sink_fails_when_its_reader_sleeps() {
        let (_reader, writer) = nix::unistd::pipe().unwrap();
        let mut medium = StderrMedium::new(writer).unwrap();
        medium.append(&vec![b'x'; 100_000]).unwrap();
        assert_eq!(medium.sync().unwrap_err().source.kind(), io::ErrorKind::TimedOut);
        assert!(medium.begin(None).is_err());
    }
}
