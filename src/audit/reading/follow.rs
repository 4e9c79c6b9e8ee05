//! Follows a log that is being written, through its rotations.
//!
//! Purpose: `audit show --follow`. The open file is read to its end; when its name stands for another file, or
//! it became shorter, what is left of the old one is read first, then every rotated file in between, then the
//! new one. Records that were not seen are said to be missing. Looks at the clock of nobody: the caller polls.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{failed, rotated};
use super::{Bad, Entry, Place, Record, walk};
use crate::audit::chain::MAX_LINE;

/// What following a log gives.
#[derive(Debug)]
pub enum Followed {
    /// A line.
    Entry(Entry),
    /// Records between two of the same chain that were not there to be read: from and to these numbers.
    Missing(u64, u64),
    /// The file became shorter: records in it were cut off.
    Shrunk(Arc<PathBuf>),
}

/// A log that is followed.
pub struct Follower {
    path: Arc<PathBuf>,
    open: Option<Tail>,
    last: Option<(String, u64)>,
}

struct Tail {
    path: Arc<PathBuf>,
    file: File,
    device: (u64, u64),
    at: u64,
    line: u64,
    /// The beginning of a line whose end is not written yet, and its whole length.
    begun: Vec<u8>,
    length: u64,
}

impl Follower {
    /// Follows `path`. Records before those of the first [`poll`](Self::poll) are in the file already.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn new(path: &Path) -> io::Result<Self> {
        let path = Arc::new(path.to_owned());
        let open = Some(Tail::open(&path)?);
        Ok(Self { path, open, last: None })
    }

    /// Hands what came since the last call to `to`. Answers whether there was anything.
    ///
    /// # Errors
    /// When a file cannot be read, or `to` fails.
    pub fn poll(&mut self, to: &mut impl FnMut(Followed) -> io::Result<()>) -> io::Result<bool> {
        let mut any = self.drain(to)?;
        let now = match std::fs::metadata(self.path.as_ref()) {
            Ok(facts) => (facts.dev(), facts.ino()),
            // Between the rename of a rotation and the new file there is none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(any),
            Err(error) => return Err(failed(&self.path, &error)),
        };
        if self.open.as_ref().is_some_and(|open| open.device == now) {
            return Ok(any);
        }
        // What was written between the last look and the rename.
        any |= self.drain(to)?;
        let left = self.open.take();
        if let Some(entry) = left.and_then(|open| open.torn()) {
            to(Followed::Entry(entry))?;
        }
        for path in self.between()? {
            self.open = Some(Tail::open(&Arc::new(path))?);
            any |= self.drain(to)?;
        }
        self.open = Some(Tail::open(&self.path)?);
        any |= self.drain(to)?;
        Ok(any)
    }

    /// Rotated files that only hold records after the last one seen.
    fn between(&self) -> io::Result<Vec<PathBuf>> {
        let Some((chain, seq)) = &self.last else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for path in rotated(&self.path).map_err(|error| failed(&self.path, &error))? {
            let log = super::logs(std::slice::from_ref(&path))?;
            if log.first().is_some_and(|log| log.chain.as_ref() == Some(chain) && log.first_seq() > *seq) {
                found.push(path);
            }
        }
        Ok(found)
    }

    fn drain(&mut self, to: &mut impl FnMut(Followed) -> io::Result<()>) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let name = |error: io::Error| failed(&self.path, &error);
        let size = open.file.metadata().map_err(name)?.len();
        if size < open.at {
            to(Followed::Shrunk(Arc::clone(&open.path)))?;
            open.at = open.file.seek(SeekFrom::Start(0)).map_err(name)?;
            (open.line, open.length) = (0, 0);
            open.begun.clear();
        }
        let mut any = false;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = open.file.read(&mut buffer).map_err(name)?;
            if count == 0 {
                return Ok(any);
            }
            open.at += count as u64;
            for part in buffer.get(..count).unwrap_or(&[]).split_inclusive(|byte| *byte == b'\n') {
                let Some(entry) = open.push(part) else { continue };
                any = true;
                if let Ok(record) = &entry.content {
                    if let Some((from, to_seq)) = gap(self.last.as_ref(), record) {
                        to(Followed::Missing(from, to_seq))?;
                    }
                    self.last = Some((record.text("chain_id").unwrap_or("").to_owned(), record.seq()));
                }
                to(Followed::Entry(entry))?;
            }
        }
    }
}

/// The numbers between the last record seen and this one.
fn gap(last: Option<&(String, u64)>, record: &Record) -> Option<(u64, u64)> {
    let (chain, seq) = last?;
    let same = record.text("chain_id") == Some(chain.as_str());
    (same && record.seq() > seq + 1).then(|| (seq + 1, record.seq() - 1))
}

impl Tail {
    fn open(path: &Arc<PathBuf>) -> io::Result<Self> {
        let name = |error: io::Error| failed(path, &error);
        let file = File::open(path.as_ref()).map_err(name)?;
        let facts = file.metadata().map_err(name)?;
        Ok(Self {
            path: Arc::clone(path),
            file,
            device: (facts.dev(), facts.ino()),
            at: 0,
            line: 0,
            begun: Vec::new(),
            length: 0,
        })
    }

    /// Takes the next bytes of a line; the entry, if they end it.
    fn push(&mut self, part: &[u8]) -> Option<Entry> {
        let text = part.strip_suffix(b"\n");
        let bytes = text.unwrap_or(part);
        let room = (MAX_LINE + 1).saturating_sub(self.begun.len());
        self.begun.extend(bytes.iter().take(room));
        self.length += bytes.len() as u64;
        text?;
        self.line += 1;
        let place = Place { file: Arc::clone(&self.path), line: self.line };
        let length = std::mem::take(&mut self.length);
        let content = walk::read(std::mem::take(&mut self.begun), length, true);
        Some(Entry { place, content })
    }

    /// The line that was begun and that nobody will end.
    fn torn(self) -> Option<Entry> {
        let place = Place { file: self.path, line: self.line + 1 };
        (self.length > 0).then_some(Entry { place, content: Err(Bad::Torn) })
    }
}
