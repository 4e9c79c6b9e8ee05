//! The list of instances beside the audit file: where to look for lost runs.
//!
//! Purpose: a start must not read a gigabyte. Each instance has one fixed-size line with the number
//! of the oldest record that it may still need, its oldest open start; a line whose instance is not alive
//! (see `locks.rs`) says from where to read, in whichever file that is by now. The list is a hint only: when it is absent, unreadable or from before the last boot, the
//! last [`FALLBACK`] bytes of the log are read instead. Guarded by the append lock. Called by
//! `store.rs`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// What is read of a log without a usable list: some 10,000 records.
pub(super) const FALLBACK: u64 = 16 << 20;
/// Instance id, blank, number, newline.
const SLOT: usize = 36 + 1 + 20 + 1;
const SLOT_BYTES: u64 = SLOT as u64;
/// Most of a list that is read: more instances than that never ran at once.
const MOST: u64 = SLOT_BYTES * 4_096;
/// The number is written anew only when it has moved on so far.
const STRIDE: u64 = 1_000;

/// An open list, and our line in it.
#[derive(Debug)]
pub(super) struct Instances {
    file: File,
    instance: String,
    ours: Option<u64>,
    written: u64,
}

/// From where open runs of instances that are gone may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// The record of this number.
    Seq(u64),
    /// There is no list: the last [`FALLBACK`] bytes.
    Tail,
}

/// What the list says of others.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Absent when none is gone.
    pub(super) from: Option<From>,
    dead: Vec<u64>,
    free: Option<u64>,
    fresh: bool,
}

impl Instances {
    pub(super) fn open(path: &Path, instance: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o640)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)?;
        Ok(Self { file, instance: instance.to_owned(), ours: None, written: 0 })
    }

    /// The list itself, for the lock of our instance: unlike the log, it is never rotated.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Reads the list.
    pub(super) fn others(&self, alive: impl Fn(&str) -> io::Result<bool>) -> io::Result<Others> {
        let unknown = Others { from: Some(From::Tail), fresh: true, ..Others::default() };
        let size = self.file.metadata()?.len();
        if !(SLOT_BYTES..=MOST).contains(&size) {
            return Ok(unknown);
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, 0)?;
        let mut slots = bytes.chunks_exact(SLOT);
        if slots.next() != Some(header()?.as_slice()) {
            return Ok(unknown);
        }
        let mut others = Others::default();
        for (position, slot) in slots.enumerate() {
            let at = SLOT_BYTES * (position as u64 + 1);
            match parse(slot) {
                None => others.free = others.free.or(Some(at)),
                Some((instance, from)) if instance != self.instance && !alive(instance)? => {
                    let first = match others.from {
                        Some(From::Seq(first)) => first.min(from),
                        Some(From::Tail) | None => from,
                    };
                    others.from = Some(From::Seq(first));
                    others.dead.push(at);
                }
                Some(_) => {}
            }
        }
        Ok(others)
    }

    /// Strikes out the instances that are gone and writes our line: their runs have been recorded.
    pub(super) fn settle(&mut self, others: &Others, from: u64) -> io::Result<()> {
        if others.fresh {
            self.file.set_len(0)?;
            self.file.write_all_at(&header()?, 0)?;
        }
        for at in &others.dead {
            self.file.write_all_at(&blank(), *at)?;
        }
        let kept = self.ours.filter(|_| !others.fresh);
        let at = match kept.or(others.free).or(others.dead.first().copied()) {
            Some(at) => at,
            None => self.file.metadata()?.len().next_multiple_of(SLOT_BYTES),
        };
        self.ours = Some(at);
        self.write(from)
    }

    /// Says that no open run of ours stands before `from`.
    pub(super) fn keep_from(&mut self, from: u64) -> io::Result<()> {
        if from < self.written || from >= self.written + STRIDE { self.write(from) } else { Ok(()) }
    }

    /// Strikes our own line out: we end with no open run.
    pub(super) fn leave(&mut self) -> io::Result<()> {
        match self.ours.take() {
            Some(at) => self.file.write_all_at(&blank(), at),
            None => Ok(()),
        }
    }

    fn write(&mut self, from: u64) -> io::Result<()> {
        let Some(at) = self.ours else { return Ok(()) };
        self.written = from;
        self.file.write_all_at(format!("{} {from:020}\n", self.instance).as_bytes(), at)
    }
}

/// First line: the boot that the rest belongs to. After a power loss the list may be older than the
/// log, which was synced.
fn header() -> io::Result<Vec<u8>> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(format!("{:36} {:>20}\n", boot.trim(), "boot, by number").into_bytes())
}

fn blank() -> Vec<u8> {
    format!("{:57}\n", "").into_bytes()
}

fn parse(slot: &[u8]) -> Option<(&str, u64)> {
    let (instance, from) = super::chain::ascii(slot).trim_end().split_once(' ')?;
    // A line that cannot be read is a place to use; its runs are found by the next reader of the end.
    if let Ok(from) = from.parse() { Some((instance, from)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_named_once_and_places_are_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let open = |id: &str| Instances::open(&path, id).unwrap();
        let ids: Vec<String> = (0..3).map(|_| uuid::Uuid::now_v7().to_string()).collect();
        let mut first = open(&ids[0]);
        let found = first.others(|_| Ok(true)).unwrap();
        assert_eq!(found.from, Some(From::Tail), "no list: the end of the log is read");
        first.settle(&found, 100).unwrap();
        let mut second = open(&ids[1]);
        let found = second.others(|_| Ok(false)).unwrap();
        assert_eq!(found.from, Some(From::Seq(100)));
        second.settle(&found, 200).unwrap();
        let third = open(&ids[2]);
        assert_eq!(third.others(|_| Ok(true)).unwrap().from, None, "alive");
        assert_eq!(third.others(|_| Ok(false)).unwrap().from, Some(From::Seq(200)));
        second.leave().unwrap();
        assert_eq!(third.others(|_| Ok(false)).unwrap().from, None);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), SLOT_BYTES * 2);
    }
}
