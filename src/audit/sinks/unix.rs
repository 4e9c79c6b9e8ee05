//! JSON lines over a Unix stream socket: Vector, Fluent Bit and the like beside the server.
//!
//! Called by `sinks/mod.rs`.

use std::io;
use std::path::PathBuf;

use super::socket::{Address, Stream};
use super::worker::{Failure, Outlet};

/// The outlet.
#[derive(Debug)]
pub(super) struct UnixLines {
    address: Address,
    stream: Option<Stream>,
}

impl UnixLines {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { address: Address::Unix(path), stream: None }
    }
}

impl Outlet for UnixLines {
    fn connect(&mut self) -> io::Result<()> {
        self.stream = None;
        self.stream = Some(Stream::connect(&self.address)?);
        Ok(())
    }

    fn send(&mut self, _native: &[u8], shown: &[u8]) -> Result<(), Failure> {
        let Some(stream) = &self.stream else {
            return Err(Failure::Link(io::ErrorKind::NotConnected.into()));
        };
        let mut line = Vec::with_capacity(shown.len() + 1);
        line.extend_from_slice(shown);
        line.push(b'\n');
        stream.send(&line).map_err(Failure::Link)
    }
}
