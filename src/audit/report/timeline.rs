//! Runs over time, in at most [`BINS`] steps, whatever time a log spans.
//!
//! Purpose: one pass without knowing the end: when the span outgrows the bins, the next step of a ladder is taken
//! and the bins are put together.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::audit::reading::Moment;

/// Most bins.
const BINS: u64 = 60;
/// Seconds of a bin: steps that people read easily, each a multiple of the one before, so that whole bins are put
/// together. The last goes on by doubling.
const LADDER: [u64; 14] = [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800];

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Success,
    Failed,
    Stopped,
    Denied,
}

impl Kind {
    /// Of a run that ended with `outcome`.
    pub(super) fn of(outcome: &str) -> Self {
        match outcome {
            "success" => Self::Success,
            "timeout" | "output_limit" | "resource_limit" | "cancelled" | "killed" => Self::Stopped,
            _ => Self::Failed,
        }
    }
}

/// One step of time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Runs that ended with success.
    pub success: u64,
    /// Runs that ended by themselves otherwise, or could not be started.
    pub failed: u64,
    /// Runs that were stopped.
    pub stopped: u64,
    /// Requests that were refused.
    pub denied: u64,
}

impl Bin {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.success, self.failed, self.stopped, self.denied].into_iter().fold(0, u64::saturating_add)
    }

    fn merge(&mut self, other: &Self) {
        self.success += other.success;
        self.failed += other.failed;
        self.stopped += other.stopped;
        self.denied += other.denied;
    }
}

/// Bins by their number since 1970.
#[derive(Debug, Clone)]
pub struct Timeline {
    step: u64,
    bins: BTreeMap<u64, Bin>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { step: 1, bins: BTreeMap::new() }
    }
}

impl Timeline {
    pub(super) fn add(&mut self, timestamp: &str, kind: Kind) {
        let Some(millis) = Moment::millis_of(timestamp) else { return };
        let bin = self.bins.entry(millis / 1_000 / self.step).or_default();
        let count = match kind {
            Kind::Success => &mut bin.success,
            Kind::Failed => &mut bin.failed,
            Kind::Stopped => &mut bin.stopped,
            Kind::Denied => &mut bin.denied,
        };
        *count += 1;
        while self.span() > BINS {
            self.widen();
        }
    }

    /// How many bins there are from the first to the last, the empty ones included.
    fn span(&self) -> u64 {
        match (self.bins.first_key_value(), self.bins.last_key_value()) {
            (Some((first, _)), Some((last, _))) => last - first + 1,
            _ => 0,
        }
    }

    fn widen(&mut self) {
        let wider = LADDER.iter().copied().find(|step| *step > self.step);
        let wider = wider.unwrap_or_else(|| self.step.saturating_mul(2));
        let mut bins: BTreeMap<u64, Bin> = BTreeMap::new();
        for (number, bin) in std::mem::take(&mut self.bins) {
            bins.entry(number.saturating_mul(self.step) / wider).or_default().merge(&bin);
        }
        (self.step, self.bins) = (wider, bins);
    }

    /// Seconds of a bin.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// All bins from the first to the last, each with the second that it begins at.
    #[must_use]
    pub fn bins(&self) -> Vec<(u64, Bin)> {
        let Some((first, _)) = self.bins.first_key_value() else { return Vec::new() };
        let numbers = *first..first + self.span();
        let bin = |number: u64| self.bins.get(&number).map_or_else(Bin::default, Clone::clone);
        numbers.map(|number| (number * self.step, bin(number))).collect()
    }
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row {
            from: String,
            #[serde(flatten)]
            bin: Bin,
        }
        let from = |second| Moment::of_seconds(second).map_or_else(String::new, |at| at.as_str().to_owned());
        let rows: Vec<Row> =
            self.bins().into_iter().map(|(second, bin)| Row { from: from(second), bin }).collect();
        let mut out = serializer.serialize_struct("Timeline", 2)?;
        out.serialize_field("step_seconds", &self.step)?;
        out.serialize_field("bins", &rows)?;
        out.end()
    }
}
