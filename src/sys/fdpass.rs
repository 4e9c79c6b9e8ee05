//! Messages with descriptors over a `SOCK_SEQPACKET` pair (unix(7), `SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::unix::AsyncFd;

use nix::sys::socket::{AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType};

/// Most descriptors in one message.
const MAX_FDS: usize = 4;

/// A connected pair that keeps message boundaries; both ends close-on-exec.
///
/// # Errors
/// EMFILE and the like.
pub(crate) fn socketpair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::sys::socket::socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Sends one message with descriptors; whole or not at all.
///
/// # Errors
/// EPIPE when the peer is gone, EMSGSIZE when it is too large for the socket.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[RawFd]) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(fds)];
    let control = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL;
    let sent =
        nix::sys::socket::sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EMSGSIZE)) }
}

/// Receives one message into `buffer`: its bytes and its descriptors. No bytes: the peer is gone.
///
/// # Errors
/// EMSGSIZE when the message or its descriptors did not fit; EAGAIN on a non-blocking socket.
pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; MAX_FDS]);
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message =
        nix::sys::socket::recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
    let mut fds = Vec::new();
    for item in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = item {
            // SAFETY: the kernel installed these descriptors for this message; we are their only owner.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    Ok((message.bytes, fds))
}

/// Registers a non-blocking descriptor with the runtime.
///
/// # Errors
/// No runtime, or the descriptor cannot be polled.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor stays open and the same as long as the registration lives, because the
    // `AsyncFd` owns it and callers only borrow it.
    unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)
}
