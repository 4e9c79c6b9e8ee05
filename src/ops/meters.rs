//! Counters of a served appliance: what ran, what was refused, how long it took.
//!
//! Purpose: a handful of atomics and one bounded table. Labels come from fixed words and from rule ids of the
//! policy, never from a caller. Written by `live.rs` and the transports, read by `metrics.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Histogram;
use crate::appliance::{LineOutcome, Outcome, Report};
use crate::policy::Denial;
use crate::run::Exit;

/// Outcomes of a run, in the order of `Ran`.
pub const OUTCOMES: [&str; 7] =
    ["success", "nonzero_exit", "timeout", "cancelled", "lost", "not_started", "unrecorded"];
/// Rules that have a series of their own; refusals by others share one.
pub const RULES: usize = 256;
/// The label of those.
pub const OTHER: &str = "other";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Success,
    Nonzero,
    Timeout,
    Cancelled,
    Lost,
    NotStarted,
    Unrecorded,
}

/// All counters of one server.
#[derive(Debug, Default)]
pub struct Meters {
    runs: [AtomicU64; OUTCOMES.len()],
    refusals: Mutex<BTreeMap<String, u64>>,
    /// Questions that were put to people.
    pub questions: AtomicU64,
    /// Requests that were refused because no record could be made durable.
    pub unavailable: AtomicU64,
    /// From the start of a command to its end.
    pub durations: Histogram,
    /// Calls under way, those that wait for a place included.
    pub in_flight: Gauge,
    /// Connections that are open, of a server without a listener.
    pub connections: Gauge,
    /// Reloads that were taken.
    pub reloads: AtomicU64,
    /// Reloads that were refused.
    pub reloads_refused: AtomicU64,
}

/// A number of things that there are.
#[derive(Debug, Default, Clone)]
pub struct Gauge(Arc<AtomicI64>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct One(Arc<AtomicI64>);

impl Gauge {
    /// One more, as long as the value lives.
    #[must_use]
    pub fn one(&self) -> One {
        self.0.fetch_add(1, Ordering::Relaxed);
        One(Arc::clone(&self.0))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Meters {
    /// Counts what became of one command.
    pub fn ran(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Denied(denial) => self.refused(denial),
            Outcome::Ask(_) => add(&self.questions),
            Outcome::Ran(report) => {
                self.durations.add(report.duration);
                self.count(ended(report));
            }
            Outcome::NotStarted(_) => self.count(Ran::NotStarted),
            Outcome::AuditUnavailable(_) => add(&self.unavailable),
            Outcome::Unrecorded(_) => self.count(Ran::Unrecorded),
        }
    }

    /// Counts what became of a line: as one run.
    pub fn ran_line(&self, outcome: &LineOutcome) {
        match outcome {
            LineOutcome::Denied(denied) => self.refused(&denied.denial),
            LineOutcome::Ran(report) => {
                self.durations.add(report.duration);
                self.count(match () {
                    () if report.cancelled => Ran::Cancelled,
                    () if report.timed_out => Ran::Timeout,
                    () if report.status == 0 => Ran::Success,
                    () => Ran::Nonzero,
                });
            }
            LineOutcome::AuditUnavailable(_) => add(&self.unavailable),
            LineOutcome::Unrecorded(_) => self.count(Ran::Unrecorded),
        }
    }

    /// Runs by outcome.
    pub fn runs(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OUTCOMES.into_iter().zip(self.runs.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Refusals by rule, at most [`RULES`] and [`OTHER`].
    #[must_use]
    pub fn refusals(&self) -> BTreeMap<String, u64> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refused(&self, denial: &Denial) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let known = refusals.len() < RULES || refusals.contains_key(denial.rule.as_ref());
        let rule = if known { denial.rule.as_ref() } else { OTHER };
        *refusals.entry(rule.to_owned()).or_default() += 1;
    }

    fn count(&self, ran: Ran) {
        if let Some(count) = self.runs.get(ran as usize) {
            add(count);
        }
    }
}

/// One more.
pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn ended(report: &Report) -> Ran {
    match () {
        // The supervisor died, and took the status with it.
        () if report.fault.is_some() => Ran::Lost,
        () if report.cancelled => Ran::Cancelled,
        () if report.timed_out => Ran::Timeout,
        () if report.exit == Exit::Code(0) => Ran::Success,
        () => Ran::Nonzero,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Reason, RuleKind};

    #[test]
    fn labels_are_bounded_whatever_is_refused() {
        let meters = Meters::default();
        for number in 0..1_000 {
            let rule = format!("rule.{number}");
            let denial = Denial::new(rule, RuleKind::Allow, Reason::CommandNotAllowed, "no");
            meters.ran(&Outcome::Denied(denial));
        }
        let refusals = meters.refusals();
        assert_eq!(refusals.len(), RULES + 1);
        assert_eq!(refusals.get(OTHER), Some(&(1_000 - RULES as u64)));
    }

    #[test]
    fn a_gauge_goes_down_again() {
        let gauge = Gauge::default();
        let (one, other) = (gauge.one(), gauge.one());
        assert_eq!(gauge.count(), 2);
        drop((one, other));
        assert_eq!(gauge.count(), 0);
    }
}
