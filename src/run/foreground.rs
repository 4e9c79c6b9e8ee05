//! Feeding and draining one running command until its whole tree is gone.
//!
//! Standard input is written by a task of its own, so a command that never reads cannot stall the
//! reads. Each output stream is drained into the capped buffer of its tap, whatever the command writes. Called by
//! `appliance.rs`.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Budget, Captured, Chunk, Stream, Tap};
use crate::launch::{Ended, LaunchError, Running};

/// How long output is still read after the last process of the run is gone: what is in the pipe is
/// there already, so this only bounds the impossible.
const DRAIN: Duration = Duration::from_millis(250);
/// Bytes read at once.
const READ: usize = 64 * 1024;

/// Our ends of the pipes.
#[derive(Debug)]
pub struct Pipes {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Makes the pipes: ours, and those of the command in the order 0, 1, 2. A command that is not `fed`
/// gets /dev/null to read: some programs search what a pipe brings, though it be empty, in place of the
/// working directory (`rg pattern`).
///
/// # Errors
/// EMFILE and the like.
pub fn pipes(fed: bool) -> io::Result<(Pipes, [OwnedFd; 3])> {
    let pipe = || nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC);
    let (stdin_theirs, stdin) = if fed {
        let (theirs, ours) = pipe()?;
        (theirs, Some(ours))
    } else {
        (std::fs::File::open("/dev/null")?.into(), None)
    };
    let (stdout, stdout_theirs) = pipe()?;
    let (stderr, stderr_theirs) = pipe()?;
    for fd in stdin.iter().chain([&stdout, &stderr]) {
        // The flag belongs to our end alone: the two ends of a pipe are separate open files.
        nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    }
    Ok((Pipes { stdin, stdout, stderr }, [stdin_theirs, stdout_theirs, stderr_theirs]))
}

/// What came of a run.
#[derive(Debug)]
pub struct Finished {
    /// Process id of the command, if it was ever told.
    pub pid: Option<i32>,
    /// The end as the supervisor saw it.
    pub ended: Result<Ended, LaunchError>,
    /// Captured standard output.
    pub stdout: Captured,
    /// Captured standard error.
    pub stderr: Captured,
}

/// Where the output of a run goes.
#[derive(Debug)]
pub struct Outputs {
    /// What is kept of each stream.
    pub budget: Budget,
    /// Output as it comes.
    pub live: Option<mpsc::Sender<Chunk>>,
    /// Where it is kept.
    pub tap: Arc<Tap>,
}

/// Runs to the end. When `cancel` fires, the whole tree is killed and the rest is as usual.
///
/// # Errors
/// The pipes cannot be registered with the runtime; the command is killed then.
pub async fn foreground(
    mut running: Running,
    pipes: Pipes,
    stdin: Option<Vec<u8>>,
    outputs: Outputs,
    cancel: &CancellationToken,
) -> io::Result<Finished> {
    let Outputs { budget, live, tap } = outputs;
    tap.begin(budget)?;
    let stdout = pipe::Receiver::from_owned_fd(pipes.stdout)?;
    let stderr = pipe::Receiver::from_owned_fd(pipes.stderr)?;
    // Without bytes it is closed now, not when this returns: the command reads an end of file at once.
    let writer = match pipes.stdin.zip(stdin.filter(|bytes| !bytes.is_empty())) {
        None => None,
        Some((end, bytes)) => {
            let mut sender = pipe::Sender::from_owned_fd(end)?;
            // EPIPE only says that the command did not want the rest.
            Some(tokio::spawn(async move { drop(sender.write_all(&bytes).await) }))
        }
    };
    let over = CancellationToken::new();
    let out = tokio::spawn(drain(stdout, Stream::Stdout, Arc::clone(&tap), live.clone(), over.clone()));
    let err = tokio::spawn(drain(stderr, Stream::Stderr, Arc::clone(&tap), live, over.clone()));
    let ended = tokio::select! {
        biased;
        ended = running.ended() => ended,
        () = cancel.cancelled() => {
            // A supervisor that no longer listens has ended the run, and says so below; a dead one too.
            drop(running.kill());
            running.ended().await
        }
    };
    let pid = running.pid();
    // Should the supervisor have died, its socket is closed and the launcher kills the rest.
    drop(running);
    over.cancel();
    if let Some(writer) = writer {
        writer.abort();
    }
    out.await.map_err(io::Error::other)?;
    err.await.map_err(io::Error::other)?;
    Ok(Finished { pid, ended, stdout: tap.captured(Stream::Stdout), stderr: tap.captured(Stream::Stderr) })
}

/// Reads one stream to its end, or until `over` and nothing came for [`DRAIN`].
pub(crate) async fn drain(
    mut pipe: pipe::Receiver,
    stream: Stream,
    tap: Arc<Tap>,
    mut live: Option<mpsc::Sender<Chunk>>,
    over: CancellationToken,
) {
    let mut chunk = vec![0u8; READ];
    // At most what a pipe holds: it is filled only once nobody writes any more.
    let mut late = Vec::new();
    loop {
        let read = tokio::select! {
            biased;
            read = pipe.read(&mut chunk) => read,
            () = over.cancelled() => match tokio::time::timeout(DRAIN, pipe.read(&mut chunk)).await {
                Ok(read) => read,
                Err(_elapsed) => break,
            },
        };
        // An error of a pipe end that we own can only mean that there is no more.
        let Some(bytes) = read.ok().filter(|n| *n > 0).and_then(|n| chunk.get(..n)) else { break };
        tap.push(stream, bytes);
        if let Some(sender) = live.take() {
            live = deliver(sender, Chunk { stream, bytes: bytes.to_vec() }, &mut late, &over).await;
        }
    }
    if let (Some(sender), false) = (live, late.is_empty()) {
        tokio::spawn(async move {
            for chunk in late {
                if sender.send(chunk).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Hands `chunk` to a receiver that may be slow: the command waits for it, the end of the run does
/// not. Gives the sender back while somebody listens.
async fn deliver(
    sender: mpsc::Sender<Chunk>,
    chunk: Chunk,
    late: &mut Vec<Chunk>,
    over: &CancellationToken,
) -> Option<mpsc::Sender<Chunk>> {
    if !late.is_empty() {
        late.push(chunk);
        return Some(sender);
    }
    tokio::select! {
        biased;
        permit = sender.reserve() => match permit {
            Ok(permit) => permit.send(chunk),
            Err(_closed) => return None, // nobody listens any more; the capture goes on
        },
        () = over.cancelled() => late.push(chunk),
    }
    Some(sender)
}
