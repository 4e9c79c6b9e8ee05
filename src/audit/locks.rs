//! Byte-range locks on the audit file: who appends, and who is alive.
//!
//! Purpose: several processes share one chain. Both locks are open-file-description locks
//! (fcntl(2), Linux 3.15) on bytes far behind any end of file: one byte means "I append", and each
//! instance holds one byte of its own for as long as it lives. The kernel drops them when the
//! process is gone, however it went; no pid can be reused and no pid namespace gets in the way, as
//! they would with a pid in a record. Called by `store.rs` and `verify.rs`.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

/// First byte that means "I append".
const APPEND: i64 = (1 << 61) - 1;
/// Instances' bytes start here.
const INSTANCES: i64 = 1 << 61;
/// A stopped process may hold the append lock: nobody waits for it longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

fn range(kind: i32, start: i64) -> libc::flock {
    libc::flock {
        // The constants are small; the field is narrower.
        l_type: i16::try_from(kind).unwrap_or(0),
        l_whence: 0,
        l_start: start,
        l_len: 1,
        l_pid: 0,
    }
}

/// Waits, for a bounded time, for the right to append.
pub(super) fn lock_append(file: &File) -> io::Result<()> {
    wait_for(file, libc::F_WRLCK)
}

fn wait_for(file: &File, kind: i32) -> io::Result<()> {
    let wanted = range(kind, APPEND);
    let started = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        match fcntl(file, FcntlArg::F_OFD_SETLK(&wanted)) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN | Errno::EACCES) if started.elapsed() < PATIENCE => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
            }
            Err(Errno::EAGAIN | Errno::EACCES) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another process holds the append lock; look for a stopped cofferdam",
                ));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Gives the right back.
pub(super) fn unlock_append(file: &File) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, APPEND)))?;
    Ok(())
}

/// Size of the file at a moment when nobody is in the middle of a write. Needs a file open for
/// reading only.
pub(super) fn settled_size(file: &File) -> io::Result<u64> {
    wait_for(file, libc::F_RDLCK)?;
    let size = file.metadata().map(|facts| facts.len());
    unlock_append(file)?;
    size
}

/// Marks `instance` as alive for as long as `file` is open.
pub(super) fn hold_instance(file: &File, instance: &str) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, byte_of(instance))))?;
    Ok(())
}

/// Whether another open file holds the byte of `instance`.
pub(super) fn is_alive(file: &File, instance: &str) -> io::Result<bool> {
    let mut answer = range(libc::F_WRLCK, byte_of(instance));
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut answer))?;
    Ok(i32::from(answer.l_type) != libc::F_UNLCK)
}

/// The byte of an instance: 60 of the random bits of its UUIDv7.
fn byte_of(instance: &str) -> i64 {
    let digits: String =
        instance.bytes().rev().filter(u8::is_ascii_hexdigit).take(15).map(char::from).collect();
    INSTANCES + i64::from_str_radix(&digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alive_while_held_and_not_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let open = || File::options().read(true).append(true).create(true).open(&path).unwrap();
        let (mine, other) = (open(), open());
        let id = uuid::Uuid::now_v7().to_string();
        assert!(!is_alive(&other, &id).unwrap());
        hold_instance(&mine, &id).unwrap();
        assert!(is_alive(&other, &id).unwrap());
        assert!(!is_alive(&other, &uuid::Uuid::now_v7().to_string()).unwrap());
        drop(mine);
        assert!(!is_alive(&other, &id).unwrap());
    }

    #[test]
    fn one_appends_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let open = || File::options().read(true).append(true).create(true).open(&path).unwrap();
        let (mine, other) = (open(), open());
        lock_append(&mine).unwrap();
        assert_eq!(lock_append(&other).unwrap_err().kind(), io::ErrorKind::TimedOut);
        unlock_append(&mine).unwrap();
        lock_append(&other).unwrap();
    }
}
