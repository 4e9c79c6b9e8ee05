//! systemd as the service manager: sockets that it opened, and what it is told (sd_listen_fds(3), sd_notify(3)).
//!
//! Purpose: both protocols are a few lines, so no library. Inputs: `LISTEN_FDS`, `LISTEN_PID`, `NOTIFY_SOCKET`.
//! Called by `cli/serve`. The variables are read and not passed on: commands get an environment of their own.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use crate::sys;

/// Most sockets that are taken over.
const MOST: i32 = 16;

/// The service manager, if one listens.
#[derive(Debug, Clone, Default)]
pub struct Manager(Option<Arc<UnixDatagram>>);

impl Manager {
    /// Connects to the manager that `NOTIFY_SOCKET` names. Before the server confines itself: an abstract
    /// socket cannot be reached afterwards.
    ///
    /// # Errors
    /// It is named and cannot be reached.
    pub fn of_environment() -> io::Result<Self> {
        std::env::var_os("NOTIFY_SOCKET").map_or(Ok(Self(None)), |name| Self::at(&name))
    }

    /// Connects to the one at `name`: a path, or an abstract name after `@`.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn at(name: &OsString) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name)?,
            path @ [b'/', ..] => {
                SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(path)))?
            }
            _ => {
                let text = "NOTIFY_SOCKET is neither an absolute path nor an abstract name";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        Ok(Self(Some(Arc::new(socket))))
    }

    /// The server serves.
    pub fn tell_ready(&self) {
        self.tell("READY=1");
    }

    /// It is about to load its policy again; [`Self::tell_ready`] follows.
    pub fn tell_reloading(&self) {
        match sys::monotonic_micros() {
            Ok(micros) => self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}")),
            Err(error) => tracing::error!("the clock cannot be read: {error}"),
        }
    }

    /// It takes nothing more on.
    pub fn tell_stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, text: &str) {
        if let Some(Err(error)) = self.0.as_ref().map(|socket| socket.send(text.as_bytes())) {
            tracing::error!("telling the service manager {text:?} failed: {error}");
        }
    }
}

/// Listening sockets that the service manager hands over, each closed on exec from here on; none where it
/// hands over none. Once a process: the descriptors are taken.
///
/// # Errors
/// The variables make no sense, or a descriptor is not open.
pub fn handed_over() -> io::Result<Vec<OwnedFd>> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let (Some(pid), Some(count)) = (number("LISTEN_PID"), number("LISTEN_FDS")) else {
        return Ok(Vec::new());
    };
    if u32::try_from(pid).is_ok_and(|pid| pid != std::process::id()) {
        return Ok(Vec::new());
    }
    if !(1..=MOST).contains(&count) {
        let text = format!("LISTEN_FDS is {count}; 1 to {MOST} sockets can be taken over");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    sys::take_descriptors(3, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told_in_its_own_words() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager_end = UnixDatagram::bind(&path).unwrap();
        let manager = Manager::at(&path.into_os_string()).unwrap();
        manager.tell_ready();
        manager.tell_reloading();
        manager.tell_stopping();
        let mut heard = Vec::new();
        let mut buffer = [0; 256];
        for _ in 0..3 {
            let length = manager_end.recv(&mut buffer).unwrap();
            heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        assert_eq!(heard[0], "READY=1");
        assert!(heard[1].starts_with("RELOADING=1\nMONOTONIC_USEC="), "{heard:?}");
        assert_eq!(heard[2], "STOPPING=1");
    }

    #[test]
    fn one_that_is_named_and_not_there_is_an_error() {
        assert!(Manager::at(&"/nonexistent/notify".into()).is_err());
        assert!(Manager::at(&"relative".into()).is_err());
        Manager::default().tell_ready();
    }
}
