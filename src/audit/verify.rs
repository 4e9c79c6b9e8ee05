//! `audit verify`: walks a chain over one or more files and names the first break.
//!
//! Purpose: show edits, deletions, swaps, tears and runs without an end. Not shown, as in every
//! chain: that the newest records were cut off, unless a head that was kept elsewhere is named.
//! Reads only. Called by `cli/audit.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::chain::{self, Fault, Head, Link, ascii};
use super::lines::{Line, Lines};
use super::locks;
use super::recover::{Part, RunEvent, run_event};

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its bytes do not give its hash, or it does not link to the record before.
    Edited,
    /// Records before it are not there.
    Missing,
    /// It stands in another place than it was written.
    Reordered,
    /// An unfinished record that no `audit.recover` accounts for.
    Torn,
    /// Not a record.
    Foreign,
    /// A record of another chain.
    ChainChange,
    /// It links to the record before, but does not count on from it.
    SeqGap,
    /// A run that was started, has no end, and whose server is gone.
    StartWithoutEnd,
    /// A run that has an end, but no start or more than one end.
    EndWithoutStart,
}

impl Kind {
    /// Stable code for scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Missing => "missing",
            Self::Reordered => "reordered",
            Self::Torn => "torn",
            Self::Foreign => "foreign_line",
            Self::ChainChange => "chain_change",
            Self::SeqGap => "seq_gap",
            Self::StartWithoutEnd => "start_without_end",
            Self::EndWithoutStart => "end_without_start",
        }
    }
}

/// The first break of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// File that it is in.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u64,
    /// What is wrong.
    pub kind: Kind,
    /// One sentence for people.
    pub detail: String,
}

/// A head that was kept elsewhere: `SEQ:HASH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    seq: u64,
    hash: [u8; 64],
}

impl std::str::FromStr for Anchor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not SEQ:HASH with a hash of 64 lower-case hex digits");
        let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
        let seq = seq.parse().map_err(|_| wrong())?;
        Ok(Self { seq, hash: chain::hash_of(hash.as_bytes()).ok_or_else(wrong)? })
    }
}

/// What a walk found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Records that were walked, up to the first break.
    pub records: u64,
    /// Id of the chain.
    pub chain_id: Option<String>,
    /// `SEQ:HASH` of the last record before the first break.
    pub head: Option<String>,
    /// The first break.
    pub broken: Option<Break>,
    /// Runs that are going on in a server that is alive.
    pub open_runs: u64,
    /// Unfinished lines that an `audit.recover` accounts for.
    pub recovered: u64,
    /// Records after the anchor; absent without one.
    pub after_anchor: Option<u64>,
}

impl fmt::Display for Break {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.kind.as_str();
        write!(out, "{}:{}: {code}: {}", self.file.display(), self.line, self.detail)
    }
}

/// Walks `files`, oldest first.
///
/// # Errors
/// When a file cannot be read.
pub fn verify(files: &[PathBuf], anchor: Option<Anchor>) -> io::Result<Report> {
    let mut walk = Walk { anchor, ..Walk::default() };
    let mut opened = Vec::with_capacity(files.len());
    for path in files {
        let name = |error: io::Error| {
            io::Error::new(error.kind(), format!("read of {} failed: {error}", path.display()))
        };
        let file = File::open(path).map_err(name)?;
        let size = locks::settled_size(&file).map_err(name)?;
        walk.file(path, Part { file: &file, from: 0, to: size }).map_err(name)?;
        opened.push(file);
    }
    walk.end(files, &opened)
}

/// An unfinished line that waits for its `audit.recover`.
#[derive(Debug)]
struct Torn {
    found: Break,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Walk {
    report: Report,
    head: Option<Head>,
    anchor: Option<Anchor>,
    torn: Option<Torn>,
    open: BTreeMap<String, (String, Break)>,
    /// After a jump: the number that should have come. If it comes later, nothing is missing.
    sought: Option<u64>,
}

impl Walk {
    fn file(&mut self, path: &Path, part: Part<'_>) -> io::Result<()> {
        for (position, line) in Lines::new(part).enumerate() {
            let at = |kind, detail| Break { file: path.to_owned(), line: position as u64 + 1, kind, detail };
            let line = line?;
            if self.report.broken.is_none() {
                self.line(&line, at);
            } else if let Some(sought) = self.sought {
                self.seek(&line, sought);
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    fn seek(&mut self, line: &Line, sought: u64) {
        if chain::read(&line.bytes).is_ok_and(|link| link.head.seq == sought)
            && let Some(found) = &mut self.report.broken
        {
            found.kind = Kind::Reordered;
            found.detail = format!("record {sought} should stand here and stands further down");
            self.sought = None;
        }
    }

    fn line(&mut self, line: &Line, at: impl Fn(Kind, String) -> Break) {
        match chain::read(&line.bytes) {
            Ok(_) if !line.ended => {
                self.tear(line.length, at(Kind::Torn, "the last record has no newline".to_owned()));
            }
            Ok(link) => self.record(&line.bytes, link, at),
            Err(Fault::Edited) => {
                self.fail(at(Kind::Edited, "its bytes do not give its record_hash".to_owned()));
            }
            Err(Fault::Foreign) if looks_torn(&line.bytes) => {
                self.tear(line.length, at(Kind::Torn, "an unfinished record".to_owned()));
            }
            Err(Fault::Foreign) => self.fail(at(Kind::Foreign, "not a record".to_owned())),
        }
    }

    fn tear(&mut self, bytes: u64, found: Break) {
        match self.torn.take() {
            // Two in a row: only one can be accounted for.
            Some(first) => self.fail(first.found),
            None => self.torn = Some(Torn { found, bytes }),
        }
    }

    fn fail(&mut self, found: Break) {
        let found = match self.torn.take() {
            Some(torn) => torn.found,
            None => found,
        };
        self.report.broken.get_or_insert(found);
    }

    fn record(&mut self, bytes: &[u8], link: Link, at: impl Fn(Kind, String) -> Break) {
        if let Some((kind, detail)) = self.misfit(link) {
            return self.fail(at(kind, detail));
        }
        let Ok(record) = serde_json::from_slice::<Map<String, Value>>(bytes) else {
            return self.fail(at(Kind::Foreign, "its hash is right, but it is not JSON".to_owned()));
        };
        let event = record.get("event_type").and_then(Value::as_str);
        if let Some(torn) = self.torn.take() {
            let accounted = record.get("torn_bytes").and_then(Value::as_u64);
            if event == Some("audit.recover") && accounted == Some(torn.bytes) {
                self.report.recovered += 1;
            } else {
                return self.fail(torn.found);
            }
        }
        if let Some((kind, detail)) = self.pair(bytes, &record, &at) {
            return self.fail(at(kind, detail));
        }
        if let Some(anchor) = self.anchor {
            if link.head.seq == anchor.seq {
                if link.head.hash != anchor.hash {
                    return self
                        .fail(at(Kind::Edited, "it is not the record that --expect-head names".to_owned()));
                }
                self.report.after_anchor = Some(0);
            } else if let Some(after) = &mut self.report.after_anchor {
                *after += 1;
            }
        }
        self.head = Some(link.head);
        self.report.records += 1;
    }

    /// How a record does not follow the one before.
    fn misfit(&mut self, link: Link) -> Option<(Kind, String)> {
        let seq = link.head.seq;
        let Some(head) = self.head else {
            if seq == 1 && link.prev == [b'0'; 64] {
                return None;
            }
            self.sought = Some(1);
            let kind = if seq == 1 { Kind::Edited } else { Kind::Missing };
            return Some((kind, format!("the chain begins with record {seq}; name the older files first")));
        };
        let next = head.seq + 1;
        if link.head.chain != head.chain {
            return Some((Kind::ChainChange, format!("chain {} begins here", ascii(&link.head.chain))));
        }
        match (link.prev == head.hash, seq) {
            (true, seq) if seq == next => None,
            (true, seq) => Some((Kind::SeqGap, format!("record {seq} follows record {}", head.seq))),
            (false, seq) if seq == next => {
                Some((Kind::Edited, "it does not link to the record before".to_owned()))
            }
            (false, seq) if seq > next => {
                self.sought = Some(next);
                Some((Kind::Missing, format!("records {next} to {} are not there", seq - 1)))
            }
            (false, seq) => Some((Kind::Reordered, format!("record {seq} stands after record {}", head.seq))),
        }
    }

    fn pair(
        &mut self,
        bytes: &[u8],
        record: &Map<String, Value>,
        at: &impl Fn(Kind, String) -> Break,
    ) -> Option<(Kind, String)> {
        let event = run_event(bytes)?;
        let member = |name| record.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let (run, instance) = (member("run_id"), member("instance_id"));
        match event {
            RunEvent::Start => {
                let found = at(Kind::StartWithoutEnd, format!("run {run} has no end and its server is gone"));
                self.open.insert(run, (instance, found));
                None
            }
            RunEvent::End if self.open.remove(&run).is_some() => None,
            RunEvent::End => {
                Some((Kind::EndWithoutStart, format!("run {run} has no start that is still open")))
            }
        }
    }

    fn end(mut self, files: &[PathBuf], opened: &[File]) -> io::Result<Report> {
        if let Some(torn) = self.torn.take() {
            self.report.broken.get_or_insert(torn.found);
        }
        if self.report.broken.is_none() {
            self.close(files, opened)?;
        }
        self.report.chain_id = self.head.map(|head| ascii(&head.chain).to_owned());
        self.report.head = self.head.map(|head| format!("{}:{}", head.seq, ascii(&head.hash)));
        Ok(self.report)
    }

    /// What can be said only at the end of the last file.
    fn close(&mut self, files: &[PathBuf], opened: &[File]) -> io::Result<()> {
        let mut dead: Vec<Break> = Vec::new();
        for (instance, found) in std::mem::take(&mut self.open).into_values() {
            let mut alive = false;
            for file in opened {
                alive |= locks::is_alive(file, &instance)?;
            }
            if alive {
                self.report.open_runs += 1;
            } else {
                dead.push(found);
            }
        }
        let place = |found: &Break| (files.iter().position(|file| *file == found.file), found.line);
        self.report.broken = dead.into_iter().min_by_key(place);
        if let Some(anchor) = self.anchor
            && self.report.after_anchor.is_none()
            && self.report.broken.is_none()
        {
            self.report.broken = Some(Break {
                file: files.last().cloned().unwrap_or_else(PathBuf::new),
                line: 0,
                kind: Kind::Missing,
                detail: format!(
                    "record {} of --expect-head is not there: newer records were cut off",
                    anchor.seq
                ),
            });
        }
        Ok(())
    }
}

/// The beginning of a record, without its end.
pub(super) fn looks_torn(line: &[u8]) -> bool {
    const FIRST: &[u8] = b"{\"schema_version\":1,\"chain_id\":\"";
    let most = line.len().min(FIRST.len());
    most > 0 && line.get(..most) == FIRST.get(..most)
}

#[cfg(test)]
mod tests;
