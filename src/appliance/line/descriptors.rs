//! The standard descriptors of the commands of a line.
//!
//! Purpose: which pipe or file is 0, 1 and 2 of a command, and that no end of a pipe is held for longer
//! than it is needed: as long as somebody holds the end that is written to, a reader waits, and as long as
//! somebody holds the one that is read, `yes` goes on. Called by `execute.rs`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

/// 0, 1 and 2.
#[derive(Debug, Clone)]
pub(super) struct Descriptors(pub(super) [Arc<OwnedFd>; 3]);

impl Descriptors {
    /// Where a descriptor leads.
    pub(super) fn get(&self, number: u8) -> Option<&Arc<OwnedFd>> {
        self.0.get(usize::from(number))
    }

    /// Lets a descriptor lead elsewhere.
    pub(super) fn set(&mut self, number: u8, to: Arc<OwnedFd>) {
        if let Some(own) = self.0.get_mut(usize::from(number)) {
            *own = to;
        }
    }

    /// Copies for a command.
    pub(super) fn copies(&self) -> io::Result<[OwnedFd; 3]> {
        let [stdin, stdout, stderr] = &self.0;
        Ok([stdin.try_clone()?, stdout.try_clone()?, stderr.try_clone()?])
    }

    /// Writes a sentence to 2, as a shell does about a command that it could not start. Whoever reads there
    /// may be slow: a thread waits for it, and ends with the readers at the latest.
    pub(super) async fn complain(&self, message: &str) {
        let Some(stderr) = self.get(2) else { return };
        let (stderr, text) = (Arc::clone(stderr), format!("{message}\n"));
        let told = tokio::task::spawn_blocking(move || {
            let file = stderr.try_clone().map(File::from);
            drop(stderr);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
        });
        // Nobody reads it there: it stands in the report and in the record as well.
        drop(told.await);
    }
}

/// Both ends of a new pipe: to be read, to be written.
pub(super) fn pipe() -> io::Result<(Arc<OwnedFd>, Arc<OwnedFd>)> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    Ok((Arc::new(read), Arc::new(write)))
}

/// `/dev/null`, open for both.
pub(super) fn null() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(File::options().read(true).write(true).open("/dev/null")?.into()))
}

/// A descriptor that `bytes` can be read from, and the task that writes them: who holds the end that is read
/// need not read it.
pub(super) fn fed(bytes: Vec<u8>) -> io::Result<(Arc<OwnedFd>, Writer)> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let mut sender = pipe::Sender::from_owned_fd(write)?;
    // EPIPE only says that nobody wanted the rest.
    let task = tokio::spawn(async move { drop(sender.write_all(&bytes).await) });
    Ok((Arc::new(read), Writer(task)))
}

/// Feeds a pipe until it is dropped.
#[derive(Debug)]
pub(super) struct Writer(JoinHandle<()>);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One end of a pipe for us to read, and the other for commands to write.
pub(super) fn captured() -> io::Result<(pipe::Receiver, Arc<OwnedFd>)> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((pipe::Receiver::from_owned_fd(read)?, Arc::new(write)))
}
