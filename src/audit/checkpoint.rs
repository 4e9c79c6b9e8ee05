//! Checkpoints: signed records that say how far the chain reached.
//!
//! Purpose: an unsigned chain can be computed anew by whoever owns the file; what a checkpoint covers cannot
//! without the key. One is due after so many records or so much time, before the file is rotated and when the
//! writer stops. Called by `writer.rs`, under the append lock, with the head as it stands in the medium.
//!
//! For rotation: seal the record that [`Checkpoints::last`] gives as the last one of the old file, then rotate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::body::{Body, Site};
use super::chain::Head;
use super::record;
use super::signing::Signer;

/// When checkpoints are due, and the key that signs them.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) signer: Signer,
    /// After this many records.
    pub(super) records: u64,
    /// After this time, where there is a record that none covers.
    pub(super) time: Duration,
}

/// How far checkpoints reach. Without a key none is ever due.
#[derive(Debug)]
pub(super) struct Checkpoints {
    settings: Option<Arc<Settings>>,
    /// Number of the last checkpoint, or of the record that this process found at the end.
    covered: Option<u64>,
    /// When the first record was written that none covers.
    since: Option<Instant>,
}

impl Checkpoints {
    pub(super) fn new(settings: Option<Arc<Settings>>) -> Self {
        Self { settings, covered: None, since: None }
    }

    /// Time until one is due; `None` where all is covered.
    pub(super) fn wait(&self) -> Option<Duration> {
        let settings = self.settings.as_ref()?;
        self.since.map(|since| settings.time.saturating_sub(since.elapsed()))
    }

    /// The checkpoint to write after `head`, the newest record of ours, if one is due.
    pub(super) fn after(&mut self, site: &Site, head: &Head) -> Option<Body> {
        let settings = self.settings.clone()?;
        let covered = *self.covered.get_or_insert(head.seq);
        if head.seq <= covered {
            return None;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if head.seq - covered < settings.records && since.elapsed() < settings.time {
            return None;
        }
        self.last(site, head)
    }

    /// The checkpoint to write after `head` however little there is to cover; none where all is.
    pub(super) fn last(&mut self, site: &Site, head: &Head) -> Option<Body> {
        let settings = self.settings.as_ref()?;
        if head.seq == 0 || self.covered.is_some_and(|covered| head.seq <= covered) {
            return None;
        }
        self.covered = Some(head.seq + 1);
        self.since = None;
        let sig = settings.signer.sign(head);
        Some(record::checkpoint(site, head, settings.signer.id(), &sig))
    }

    /// The write failed, and nobody knows whether the checkpoint stands: the next write makes another one.
    pub(super) fn failed(&mut self) {
        if self.covered.is_some() {
            self.covered = Some(0);
        }
    }
}
