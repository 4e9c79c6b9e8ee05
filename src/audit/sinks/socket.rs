//! Sockets with deadlines: Unix streams and datagrams, and TCP.
//!
//! Purpose: no call here waits longer than [`PATIENCE`]. A stream that broke in the middle of a record is
//! closed, so that the reader sees a cut record, never a mixed one; the record is sent again whole. Called by
//! the outlets beside it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket};

/// Longest wait for one connection or one record.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Where a stream goes.
#[derive(Debug, Clone)]
pub(super) enum Address {
    /// A path.
    Unix(PathBuf),
    /// What a name was resolved to at start: the server reaches no resolver afterwards.
    Tcp(Vec<SocketAddr>),
}

/// A connected stream.
#[derive(Debug)]
pub(super) struct Stream(OwnedFd);

impl Stream {
    pub(super) fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => unix(path, SockType::Stream).map(Self),
            Address::Tcp(addresses) => {
                let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
                for address in addresses {
                    match TcpStream::connect_timeout(address, PATIENCE) {
                        Ok(stream) => {
                            stream.set_nonblocking(true)?;
                            stream.set_nodelay(true)?;
                            return Ok(Self(stream.into()));
                        }
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }

    /// Sends all of it, or fails within the deadline.
    pub(super) fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        if self.is_closed()? {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let deadline = Instant::now() + PATIENCE;
        while !bytes.is_empty() {
            match send(self.0.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or(&[]),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => wait(&self.0, deadline)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// The reader closed its end: what is sent now would be lost without an error.
    fn is_closed(&self) -> io::Result<bool> {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        match recv(self.0.as_raw_fd(), &mut [0], flags) {
            Ok(count) => Ok(count == 0),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// A connected datagram socket.
#[derive(Debug)]
pub(super) struct Datagrams(OwnedFd);

impl Datagrams {
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        unix(path, SockType::Datagram).map(Self)
    }

    /// Sends one message, or fails within the deadline.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match send(self.0.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => wait(&self.0, deadline)?,
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn unix(path: &Path, kind: SockType) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, kind, flags, None)?;
    // A full backlog is EAGAIN at once: no wait.
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(fd)
}

fn wait(fd: &OwnedFd, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "its reader does not read"));
    }
    let millis = u16::try_from(left.as_millis()).unwrap_or(u16::MAX).max(1);
    match poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(millis)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
