//! The reserve: bytes on the disk that are given back when it is full, for the ends of runs that go on.
//!
//! Purpose: a run that was allowed to start gets its end on record, though the file system filled up meanwhile.
//! Made at open, freed at ENOSPC, and made again before anything else is taken: that it can be is the proof
//! that there is room. Called by `store.rs`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

/// Some 170 ends.
pub(super) const RESERVE: u64 = 256 << 10;

/// The file beside the log.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    freed: bool,
}

impl Reserve {
    /// Beside `log`; nothing is made yet.
    pub(super) fn beside(log: &Path) -> Self {
        let mut name = log.as_os_str().to_owned();
        name.push(".reserve");
        Self { path: PathBuf::from(name), freed: false }
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(&self.path)
    }

    /// Makes it, where it is not there.
    pub(super) fn make(&mut self) -> io::Result<()> {
        let file = self.open()?;
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::other("not a regular file; remove it"));
        }
        // Blocks, not size: a hole holds nothing back.
        if facts.len() < RESERVE || facts.blocks() * 512 < RESERVE {
            let size = i64::try_from(RESERVE).unwrap_or(0);
            let made = match fallocate(&file, FallocateFlags::empty(), 0, size) {
                Err(Errno::EOPNOTSUPP) => {
                    file.set_len(0).and_then(|()| (&file).write_all(&[0; RESERVE as usize]))
                }
                other => other.map_err(io::Error::from),
            };
            if let Err(error) = made {
                // Half a reserve would take what the ends of runs need.
                file.set_len(0)?;
                return Err(error);
            }
        }
        self.freed = false;
        Ok(())
    }

    /// Frees it. False when that was done before.
    pub(super) fn free(&mut self) -> io::Result<bool> {
        if std::mem::replace(&mut self.freed, true) {
            return Ok(false);
        }
        self.open()?.set_len(0)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_blocks_and_gives_them_back_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut reserve = Reserve::beside(&log);
        reserve.make().unwrap();
        let held = || std::fs::metadata(dir.path().join("log.reserve")).unwrap().blocks() * 512;
        assert!(held() >= RESERVE);
        assert!(reserve.free().unwrap());
        assert!(held() < RESERVE);
        assert!(!reserve.free().unwrap());
        reserve.make().unwrap();
        assert!(held() >= RESERVE);
    }
}
