//! What the writer asks of the required sink, whatever it is.
//!
//! Purpose: the writer knows of no file and no stream; the defaults are those of a stream, which cannot be
//! rotated and has no room to look after. Implemented by `store.rs` and `sinks/stdio.rs`, called by `writer.rs`.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

use super::AuditError;
use super::chain::Head;

/// State of a medium at the moment we may write.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Head of the chain there; absent when nothing is there.
    pub(super) head: Option<Head>,
    /// Bytes at the end that are no record.
    pub(super) junk: u64,
    /// The last line has no newline yet.
    pub(super) open: bool,
    /// What happened to the file since we wrote last.
    pub(super) gap: Option<&'static str>,
    /// The name that the file before got, by somebody who then asked to reopen.
    pub(super) moved: Option<String>,
    /// Starts whose server is gone.
    pub(super) lost: Vec<Map<String, Value>>,
}

/// What a rotation put aside.
#[derive(Debug)]
pub(super) struct Aside {
    /// Name of the file, without its directory.
    pub(super) file: String,
    /// Records in it.
    pub(super) records: u64,
}

/// Makes the first record of a new file, after the last of the one before.
pub(super) type FirstRecord<'a> = &'a mut dyn FnMut(Head, &Aside) -> (Vec<u8>, Head);

/// Where records go.
pub(super) trait Medium: Send {
    /// Gets ready to append; `memory` is the head after our own last record. Always followed by
    /// [`finish`](Self::finish) when it succeeds.
    fn begin(&mut self, memory: Option<Head>) -> Result<Tail, AuditError>;
    /// Exactly one write; says how many bytes were taken.
    fn append(&mut self, bytes: &[u8]) -> Result<usize, AuditError>;
    /// Lets others append; `whole` says that everything was written, up to the record before `next`.
    fn finish(&mut self, whole: bool, next: u64);
    /// Makes what was written durable. After a failure nothing is known of what was written since the last
    /// success, and the medium is [due](Self::due) for a new file.
    fn sync(&mut self) -> Result<(), AuditError>;
    /// Starts anew after a failure.
    fn reopen(&mut self) -> Result<(), AuditError>;
    /// The runs of ours that are open have their starts at the records `open`; `next` is the number of the next.
    fn keep(&mut self, open: &BTreeSet<u64>, next: u64);
    /// The end: `clean` says that no run is open.
    fn close(&mut self, clean: bool);
    /// Its name for people.
    fn name(&self) -> String;
    /// Whether it is time for a new file.
    fn due(&mut self) -> bool {
        false
    }
    /// Goes on in a new file; gives its first record back, and the head behind it. None: not now.
    fn rotate(
        &mut self,
        _memory: Option<Head>,
        _first: FirstRecord<'_>,
    ) -> Result<Option<(Vec<u8>, Head)>, AuditError> {
        Ok(None)
    }
    /// Whether there is room: an error refuses runs, false is said.
    fn room(&mut self) -> Result<bool, AuditError> {
        Ok(true)
    }
    /// Gives room to the ends of runs that go on. False when there is none to give.
    fn free_reserve(&mut self) -> bool {
        false
    }
    /// Takes that room back, before anything else is written.
    fn restore(&mut self) -> Result<(), AuditError> {
        Ok(())
    }
    /// Somebody moved the file on purpose: what is at its place now is taken without a gap.
    fn expect_moved(&mut self) {}
}
