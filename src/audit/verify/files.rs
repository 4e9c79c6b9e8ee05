//! The files of one chain, opened and put in order.
//!
//! Purpose: `audit verify *.jsonl` gives rotated files in the order of their names; the order that counts is that
//! of the records. Called by `verify.rs` only.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::super::chain;
use super::super::lines::Lines;
use super::super::locks;
use super::super::recover::Part;

/// A file that is walked up to the size it had when it was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) size: u64,
}

impl Opened {
    /// An error of this file.
    pub(super) fn named(&self, error: &io::Error) -> io::Error {
        named(&self.path, error)
    }

    /// Number of the first record; none where the first lines hold no record.
    fn first(&self) -> io::Result<Option<u64>> {
        // Far more than anybody puts before the first record by accident.
        const LINES: usize = 64;
        for line in Lines::new(Part { file: &self.file, from: 0, to: self.size }).take(LINES) {
            if let Ok(link) = chain::read(&line?.bytes) {
                return Ok(Some(link.head.seq));
            }
        }
        Ok(None)
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("read of {} failed: {error}", path.display()))
}

/// Opens all and sorts them by their first record; one without any stays at the end, in the order given.
pub(super) fn open(paths: &[PathBuf]) -> io::Result<Vec<Opened>> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let file = File::open(path).map_err(|error| named(path, &error))?;
        let size = locks::settled_size(&file).map_err(|error| named(path, &error))?;
        let opened = Opened { path: path.clone(), file, size };
        let first = opened.first().map_err(|error| opened.named(&error))?;
        files.push((first.unwrap_or(u64::MAX), opened));
    }
    files.sort_by_key(|(first, _)| *first);
    Ok(files.into_iter().map(|(_, opened)| opened).collect())
}
