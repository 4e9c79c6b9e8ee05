//! What the listener counts, for whoever shows it: plain numbers that only grow, and two that go up and down.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All numbers of a listener.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: Count,
    /// Connections that are open now.
    pub open: Count,
    /// Idle connections that were closed for new ones.
    pub evicted: Count,
    /// Requests of authenticated callers.
    pub requests: Count,
    /// Requests that are being answered now.
    pub answering: Count,
    /// Requests without a valid token (401).
    pub unauthenticated: Count,
    /// Requests with a foreign `Host` or `Origin` (403, 400).
    pub foreign: Count,
    /// Requests that came too often or too many at once (429).
    pub limited: Count,
    /// Requests that were malformed, too large or too slow (400, 408, 413, 415).
    pub malformed: Count,
    /// Calls that were cancelled because the client hung up.
    pub hung_up: Count,
}
