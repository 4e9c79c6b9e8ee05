//! Checkpoints: signed records that say how far the chain reached.
//!
//! Purpose: an unsigned chain can be computed anew by whoever owns the file; what a checkpoint covers cannot
//! without the key. One is due after so many records or so much time, before the file is rotated and when the
//! writer stops. Called by `writer.rs`, under the append lock, with the head as it stands in the medium.
//!
//! For rotation: seal the record that [`Checkpoints::last`] gives as the last one of the old file, then rotate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::body::{Body, Level, Site};
use super::chain::{Head, ascii};
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
        Some(body(site, head, &settings.signer))
    }

    /// The write failed, and nobody knows whether the checkpoint stands: the next write makes another one.
    pub(super) fn failed(&mut self) {
        if self.covered.is_some() {
            self.covered = Some(0);
        }
    }
}

/// `audit.checkpoint` over the record before it.
fn body(site: &Site, head: &Head, signer: &Signer) -> Body {
    let mut body = Body::new(site, Level::Info, "audit.checkpoint");
    body.integer("head_seq", head.seq);
    body.plain("head_hash", ascii(&head.hash));
    body.plain("key_id", signer.id());
    body.plain("sig", &signer.sign(head));
    body.message(&format!("checkpoint at record {}", head.seq));
    body
}
