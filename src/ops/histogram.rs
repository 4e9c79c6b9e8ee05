//! A histogram of durations that many threads add to without a lock.
//!
//! Purpose: fixed bounds, so that series of several servers can be summed. Pure. Called by whoever measures;
//! read by `metrics.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in microseconds: from a write to the page cache up to the longest run.
pub const BOUNDS: [u64; 14] = [
    250,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    100_000,
    250_000,
    1_000_000,
    2_500_000,
    10_000_000,
    60_000_000,
    300_000_000,
    3_600_000_000,
];

/// Counts by upper bound, and the sum.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One each bound, and one for what is above all of them.
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// In microseconds; five hundred thousand years until it is full.
    sum: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS.len());
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(micros, Ordering::Relaxed);
    }

    /// Cumulative counts by bound (the last one is of all), and the sum in microseconds. What is added meanwhile
    /// may be in one and not yet in the other.
    #[must_use]
    pub fn read(&self) -> (Vec<u64>, u64) {
        let mut all = 0;
        let cumulative = self.counts.iter().map(|count| {
            all += count.load(Ordering::Relaxed);
            all
        });
        (cumulative.collect(), self.sum.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_cumulative_and_a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::default();
        for micros in [0, 250, 251, 10_000_000_000] {
            histogram.add(Duration::from_micros(micros));
        }
        let (counts, sum) = histogram.read();
        assert_eq!(counts[..3], [2, 3, 3]);
        assert_eq!(counts[BOUNDS.len() - 1..], [3, 4]);
        assert_eq!(sum, 10_000_000_501);
    }
}
