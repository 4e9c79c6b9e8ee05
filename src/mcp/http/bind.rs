//! Where the server listens: bound before it confines itself, as nothing can be bound afterwards.
//!
//! Purpose: a TCP address, or a Unix socket of mode 0660 in place of a stale one. Inputs: the address or the
//! path. Called by `cli/serve`, while the process has one thread: the mode comes from the umask.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address or the path cannot be had.
    #[error("listening on {at} failed: {source}; {remedy}")]
    Io {
        /// What was to be listened on.
        at: String,
        /// The kernel's answer.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// Somebody listens already.
    #[error("listening on {0} failed: another server listens there; stop it, or name another path")]
    Taken(String),
    /// Something else stands in the way.
    #[error("listening on {0} failed: it is there and no socket; remove it, or name another path")]
    NoSocket(String),
    /// Everybody could call.
    #[error(
        "listening on {0} failed: without authentication only a loopback address may be served; add \
         --token-file FILE, or to the policy a [principal.NAME] with a token or certificate, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
}

/// A bound socket that nobody is accepted on yet.
#[derive(Debug)]
pub struct Listener(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on a TCP address. Without authentication it must be one of this host alone.
    ///
    /// # Errors
    /// An open address, or one that cannot be had.
    pub fn tcp(address: SocketAddr, authenticated: bool) -> Result<Self, BindError> {
        if !authenticated && !address.ip().is_loopback() {
            return Err(BindError::Open(address));
        }
        let failed = |source| BindError::Io {
            at: address.to_string(),
            source,
            remedy: "name an address of this host and a free port",
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok(Self(Kind::Tcp(listener, bound)))
    }

    /// Listens on a Unix socket of mode 0660. A socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// Somebody listens, something else is in the way, or the directory does not take it.
    pub fn unix(path: &Path) -> Result<Self, BindError> {
        let at = path.display().to_string();
        let failed = |source| BindError::Io {
            at: at.clone(),
            source,
            remedy: "its directory must exist and be writable by the server's user",
        };
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.file_type().is_socket() => return Err(BindError::NoSocket(at)),
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => return Err(BindError::Taken(at)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            },
        }
        // From the first moment on: a mode that is set afterwards comes too late for whoever is quick.
        let before = umask(Mode::from_bits_truncate(0o117));
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(Kind::Unix(listener, path.to_owned())))
    }

    /// Takes over a socket that somebody else listens on for us (sd_listen_fds(3)): a Unix one of whatever mode
    /// it has, or a TCP one, for which [`Listener::tcp`] holds as well.
    ///
    /// # Errors
    /// An open address without authentication, or a socket that nobody can be accepted on.
    pub fn handed_over(socket: OwnedFd, authenticated: bool) -> Result<Self, BindError> {
        let failed = |source: io::Error| BindError::Io {
            at: "the socket that was handed over".to_owned(),
            source,
            remedy: "hand over one listening stream socket (ListenStream=)",
        };
        let listens = nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::AcceptConn);
        if !listens.map_err(|e| failed(e.into()))? {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        let unix = UnixListener::from(socket);
        // The kernel says what it is: an address of another family is no address of this one.
        if let Ok(address) = unix.local_addr() {
            unix.set_nonblocking(true).map_err(failed)?;
            let path = address.as_pathname().unwrap_or(Path::new("(unnamed)"));
            return Ok(Self(Kind::Unix(unix, path.to_owned())));
        }
        let listener = TcpListener::from(OwnedFd::from(unix));
        let address = listener.local_addr().map_err(failed)?;
        if !authenticated && !address.ip().is_loopback() {
            return Err(BindError::Open(address));
        }
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(Kind::Tcp(listener, address)))
    }

    /// The field `transport` of the records.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self.0 {
            Kind::Tcp(..) => "http",
            Kind::Unix(..) => "unix",
        }
    }

    /// The TCP address, with the port that was given out for port 0.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.0 {
            Kind::Tcp(_, address) => Some(address),
            Kind::Unix(..) => None,
        }
    }
}

impl std::fmt::Display for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Tcp(_, address) => write!(f, "{address}"),
            Kind::Unix(_, path) => write!(f, "{}", path.display()),
        }
    }
}
