//! `audit verify`: walks a chain over one or more files and names the first break.
//!
//! Purpose: show edits, deletions, swaps, tears and runs without an end. Not shown, as in every
//! chain: that the newest records were cut off, unless a head that was kept elsewhere is named, or
//! the last record has to be a checkpoint. Streams: memory does not grow with the log, but with the
//! runs that are open at one moment. Reads only. Called by `cli/audit/verify.rs`.

mod files;
mod seen;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::chain::{self, Fault, Head, Link, ascii};
use super::lines::{Line, Lines};
use super::locks;
use super::recover::{Part, RunEvent, run_event};
use super::signing::PublicKey;
use seen::Seen;

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
    /// A checkpoint whose signature is not one of the key that it names, or over another record.
    BadSignature,
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
            Self::BadSignature => "bad_signature",
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

impl Anchor {
    /// Whether it stands before `other`.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        self.seq < other.seq
    }
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
    /// Checkpoints that count: signed by a key that was named, or all where none was.
    pub checkpoints: u64,
    /// Records after the last of them; absent where there is none.
    pub after_checkpoint: Option<u64>,
    /// Signatures were checked against a key.
    pub signed: bool,
}

/// What is to be checked.
#[derive(Debug, Clone, Default)]
pub struct Check {
    /// The files of one chain, in any order.
    pub files: Vec<PathBuf>,
    /// A record that must be there.
    pub expect: Option<Anchor>,
    /// A record up to which an earlier walk found all whole: this one begins after it.
    pub from: Option<Anchor>,
    /// Keys of checkpoints; without any, signatures are not checked.
    pub keys: Vec<PublicKey>,
}

/// How far a walk is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of all files.
    pub of: u64,
    /// Records walked.
    pub records: u64,
}

impl fmt::Display for Break {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.kind.as_str();
        write!(out, "{}:{}: {code}: {}", self.file.display(), self.line, self.detail)
    }
}

/// Walks `files` with no more than a head to compare with.
///
/// # Errors
/// When a file cannot be read.
pub fn verify(files: &[PathBuf], anchor: Option<Anchor>) -> io::Result<Report> {
    let check = Check { files: files.to_vec(), expect: anchor, ..Check::default() };
    check.run(&mut |_| {})
}

impl Check {
    /// Walks the files, oldest first, and tells `progress` every few thousand records.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn run(&self, progress: &mut dyn FnMut(Progress)) -> io::Result<Report> {
        let mut walk = Walk { anchor: self.expect, from: self.from, keys: &self.keys, ..Walk::default() };
        walk.skipping = self.from.is_some();
        walk.report.signed = !self.keys.is_empty();
        let opened = files::open(&self.files)?;
        let mut so_far = Progress { bytes: 0, of: opened.iter().map(|one| one.size).sum(), records: 0 };
        for one in &opened {
            let part = Part { file: &one.file, from: 0, to: one.size };
            walk.file(&one.path, part, &mut so_far, progress).map_err(|error| one.named(&error))?;
        }
        walk.end(&opened)
    }
}

/// An unfinished line that waits for its `audit.recover`.
#[derive(Debug)]
struct Torn {
    found: Break,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Walk<'a> {
    report: Report,
    head: Option<Head>,
    anchor: Option<Anchor>,
    torn: Option<Torn>,
    open: BTreeMap<String, (String, Break)>,
    /// After a jump: the number that should have come. If it comes later, nothing is missing.
    sought: Option<u64>,
    /// Where this walk goes on from.
    from: Option<Anchor>,
    /// That record has not come yet.
    skipping: bool,
    keys: &'a [PublicKey],
}

impl Walk<'_> {
    fn file(
        &mut self,
        path: &Path,
        part: Part<'_>,
        so_far: &mut Progress,
        progress: &mut dyn FnMut(Progress),
    ) -> io::Result<()> {
        const EVERY: u64 = 4_096;
        for (position, line) in Lines::new(part).enumerate() {
            let at = |kind, detail| Break { file: path.to_owned(), line: position as u64 + 1, kind, detail };
            let line = line?;
            so_far.bytes += line.length + u64::from(line.ended);
            if (position as u64 + 1).is_multiple_of(EVERY) {
                so_far.records = self.report.records;
                progress(*so_far);
            }
            if self.skipping && self.skipped(&line, &at) {
                continue;
            }
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

    /// Whether a line stands before the place where this walk begins.
    fn skipped(&mut self, line: &Line, at: &impl Fn(Kind, String) -> Break) -> bool {
        let (Some(from), Some((chain, seq))) = (self.from, chain::place(&line.bytes)) else { return true };
        if seq < from.seq {
            return true;
        }
        self.skipping = false;
        if seq > from.seq {
            // The file begins after it: the first record must link to it.
            self.head = Some(Head { chain, seq: from.seq, hash: from.hash });
            return false;
        }
        match chain::read(&line.bytes) {
            Ok(link) if link.head.hash == from.hash => self.head = Some(link.head),
            _ => self.fail(at(Kind::Edited, "it is not the record that --from names".to_owned())),
        }
        true
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
        let Some(record) = Seen::read(bytes) else {
            return self.fail(at(Kind::Foreign, "its hash is right, but it is no record".to_owned()));
        };
        if let Some(torn) = self.torn.take() {
            if record.event_type == "audit.recover" && record.torn_bytes == Some(torn.bytes) {
                self.report.recovered += 1;
            } else {
                return self.fail(torn.found);
            }
        }
        if let Some((kind, detail)) = self.pair(bytes, &record, &at) {
            return self.fail(at(kind, detail));
        }
        if let Some(detail) = self.checkpoint(&record, link) {
            return self.fail(at(Kind::BadSignature, detail));
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

    /// Counts a checkpoint, or says what is wrong with it.
    fn checkpoint(&mut self, record: &Seen<'_>, link: Link) -> Option<String> {
        if let Some(after) = &mut self.report.after_checkpoint {
            *after += 1;
        }
        if record.event_type != "audit.checkpoint" {
            return None;
        }
        let covers = Head { chain: link.head.chain, seq: link.head.seq.saturating_sub(1), hash: link.prev };
        if record.head_seq != Some(covers.seq) || record.head_hash.as_bytes() != covers.hash {
            return Some("the checkpoint is not about the record before it".to_owned());
        }
        if !self.keys.is_empty() {
            // One of a key that nobody named proves nothing, but may be of an older key.
            let key = self.keys.iter().find(|key| key.id() == record.key_id)?;
            if !key.signed(&covers, &record.sig) {
                return Some(format!("the signature is not one of {}", key.id()));
            }
        }
        self.report.checkpoints += 1;
        self.report.after_checkpoint = Some(0);
        None
    }

    fn pair(
        &mut self,
        bytes: &[u8],
        record: &Seen<'_>,
        at: &impl Fn(Kind, String) -> Break,
    ) -> Option<(Kind, String)> {
        let event = run_event(bytes)?;
        let (run, instance) = (record.run_id.to_string(), record.instance_id.to_string());
        match event {
            RunEvent::Start => {
                let found = at(Kind::StartWithoutEnd, format!("run {run} has no end and its server is gone"));
                self.open.insert(run, (instance, found));
                None
            }
            // Its start may stand before the place where this walk began.
            RunEvent::End if self.open.remove(&run).is_some() || self.from.is_some() => None,
            RunEvent::End => {
                Some((Kind::EndWithoutStart, format!("run {run} has no start that is still open")))
            }
        }
    }

    fn end(mut self, opened: &[files::Opened]) -> io::Result<Report> {
        if let Some(torn) = self.torn.take() {
            self.report.broken.get_or_insert(torn.found);
        }
        if self.report.broken.is_none() {
            self.close(opened)?;
        }
        self.report.chain_id = self.head.map(|head| ascii(&head.chain).to_owned());
        self.report.head = self.head.map(|head| format!("{}:{}", head.seq, ascii(&head.hash)));
        Ok(self.report)
    }

    /// What can be said only at the end of the last file.
    fn close(&mut self, opened: &[files::Opened]) -> io::Result<()> {
        let mut dead: Vec<Break> = Vec::new();
        for (instance, found) in std::mem::take(&mut self.open).into_values() {
            let mut alive = false;
            for one in opened {
                alive |= locks::is_alive(&one.file, &instance)?;
            }
            if alive {
                self.report.open_runs += 1;
            } else {
                dead.push(found);
            }
        }
        let place = |found: &Break| (opened.iter().position(|one| one.path == found.file), found.line);
        self.report.broken = dead.into_iter().min_by_key(place);
        let missing = |seq: u64, option: &str| Break {
            file: opened.last().map(|one| one.path.clone()).unwrap_or_default(),
            line: 0,
            kind: Kind::Missing,
            detail: format!("record {seq} of {option} is not there: newer records were cut off"),
        };
        if self.report.broken.is_none() {
            self.report.broken = match (self.anchor, self.from) {
                (_, Some(from)) if self.skipping => Some(missing(from.seq, "--from")),
                // The record that the walk went on from is not walked again.
                (Some(anchor), Some(from)) if anchor == from => {
                    self.report.after_anchor = Some(self.report.records);
                    None
                }
                (Some(anchor), _) if self.report.after_anchor.is_none() => {
                    Some(missing(anchor.seq, "--expect-head"))
                }
                _ => None,
            };
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
