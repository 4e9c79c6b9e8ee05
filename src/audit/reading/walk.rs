//! All lines of a log, in the order of its files.
//!
//! Purpose: one iterator over files of any size, in bounded memory. A line that is no whole record is handed
//! out as what it is; an unfinished one is set against the `audit.recover` after it. Reads only.

use std::fs::File;
use std::io::{self, Read, Take};
use std::path::PathBuf;
use std::sync::Arc;

use super::files::{Log, failed};
use super::{Bad, Entry, Place, Record};
use crate::audit::chain::MAX_LINE;
use crate::audit::lines::{Line, Lines};
use crate::audit::locks;

type Source = Take<Box<dyn Read>>;

/// The lines of several files.
pub struct Entries {
    rest: std::vec::IntoIter<Log>,
    open: Option<Reading>,
    /// An unfinished line waits for what follows it; behind it stands what followed.
    torn: Option<(Place, u64)>,
    ready: Option<Entry>,
}

struct Reading {
    path: Arc<PathBuf>,
    lines: Lines<Source>,
    line: u64,
}

/// Reads `logs`, each up to where it ended when it was opened, so that a log that is being written to comes to
/// an end. Does not wait for anything but a write that is going on.
#[must_use]
pub fn entries(logs: Vec<Log>) -> Entries {
    Entries { rest: logs.into_iter(), open: None, torn: None, ready: None }
}

impl Entries {
    fn open(&mut self, log: Log) -> io::Result<()> {
        let (source, size): (Box<dyn Read>, u64) = if log.path.as_os_str() == "-" {
            (Box::new(io::stdin()), u64::MAX)
        } else {
            let name = |error: io::Error| failed(&log.path, &error);
            let file = File::open(log.path.as_ref()).map_err(name)?;
            // A pipe has no size and no locks.
            let regular = file.metadata().map_err(name)?.is_file();
            let size = if regular { locks::settled_size(&file).map_err(name)? } else { u64::MAX };
            (Box::new(file), size)
        };
        self.open = Some(Reading { path: log.path, lines: Lines::new(source.take(size)), line: 0 });
        Ok(())
    }

    /// The next line, or what came of an unfinished one before it.
    fn line(&mut self, place: Place, line: Line) -> Option<Entry> {
        let content = read(line.bytes, line.length, line.ended);
        if content.as_ref().is_err_and(|bad| *bad == Bad::Torn) {
            let before = self.torn.replace((place, line.length));
            return before.map(|(place, _)| Entry { place, content: Err(Bad::Torn) });
        }
        let entry = Entry { place, content };
        let Some((place, bytes)) = self.torn.take() else { return Some(entry) };
        let accounted = entry.content.as_ref().is_ok_and(|record| {
            record.event() == "audit.recover" && record.number("torn_bytes") == Some(bytes)
        });
        self.ready = Some(entry);
        Some(Entry { place, content: Err(if accounted { Bad::Recovered } else { Bad::Torn }) })
    }
}

/// One line as a record, or why not.
pub(super) fn read(bytes: Vec<u8>, length: u64, ended: bool) -> Result<Record, Bad> {
    // The limit counts the newline.
    if length >= MAX_LINE as u64 {
        return Err(Bad::TooLong);
    }
    let record = Record::parse(bytes)?;
    // Whole, but for its newline: the writer was stopped in between, and will say so.
    if ended { Ok(record) } else { Err(Bad::Torn) }
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(entry) = self.ready.take() {
            return Some(Ok(entry));
        }
        loop {
            let Some(open) = &mut self.open else {
                let Some(log) = self.rest.next() else {
                    let (place, _) = self.torn.take()?;
                    return Some(Ok(Entry { place, content: Err(Bad::Torn) }));
                };
                if let Err(error) = self.open(log) {
                    return Some(Err(error));
                }
                continue;
            };
            match open.lines.next() {
                None => self.open = None,
                Some(Err(error)) => {
                    let error = failed(&open.path, &error);
                    self.open = None;
                    return Some(Err(error));
                }
                Some(Ok(line)) => {
                    open.line += 1;
                    let place = Place { file: Arc::clone(&open.path), line: open.line };
                    if let Some(entry) = self.line(place, line) {
                        return Some(Ok(entry));
                    }
                }
            }
        }
    }
}
