//! Supervisors that wait for work, by the digest of the profile they are confined for.
//!
//! Bounded: a few a profile and a few in all, and for as long as many run at once, as many as run. Used by
//! `client` only, which makes and uses what is kept here.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Kept for one profile: one serves while the other is made.
const PER_PROFILE: usize = 2;
/// As many runs of a profile at once are a crowd.
const CROWD: usize = 4;
/// Kept in all.
pub(super) const WARM: usize = 8;
/// How long more than that are kept after a crowd of runs.
pub(super) const IDLE: Duration = Duration::from_secs(2);

/// What waits, of the type `T`.
#[derive(Debug)]
pub(super) struct Pool<T> {
    profiles: HashMap<String, Kept<T>>,
    /// Most that there may be, those at work included.
    most: usize,
    /// How often all were let go for good.
    generation: u64,
}

#[derive(Debug)]
struct Kept<T> {
    waiting: Vec<(T, Instant)>,
    /// Runs under way.
    running: usize,
    /// Most of them since the last [`Pool::trim`], or that then were at work or waited.
    peak: usize,
}

impl<T> Kept<T> {
    /// As many as were at work at once, and the one that [`Pool::lacks`] asks for beside them.
    fn wanted(&self) -> usize {
        if self.peak == 0 { 0 } else { self.peak + 1 }
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), running: 0, peak: 0 }
    }
}

impl<T> Pool<T> {
    /// For `jobs` runs at once.
    pub(super) fn new(jobs: usize) -> Self {
        Self { profiles: HashMap::new(), most: jobs.saturating_add(WARM), generation: 0 }
    }

    /// The one that was used last but one: its memory is warm, and it has got ready again.
    pub(super) fn take(&mut self, digest: &str) -> Option<T> {
        let waiting = &mut self.profiles.get_mut(digest)?.waiting;
        let at = waiting.len().saturating_sub(2);
        (at < waiting.len()).then(|| waiting.remove(at).0)
    }

    /// Lets one go, where one more would be too many.
    pub(super) fn make_way(&mut self) {
        let (running, waiting) = self.count();
        if running.saturating_add(waiting) >= self.most {
            self.let_go(|_, _| true);
        }
    }

    /// Runs and those that wait.
    pub(super) fn count(&self) -> (usize, usize) {
        let all = self.profiles.values();
        all.fold((0, 0), |(running, waiting), kept| (running + kept.running, waiting + kept.waiting.len()))
    }

    /// Lets the one go that has waited longest, of those whose digest and begin of waiting are `of`.
    fn let_go(&mut self, of: impl Fn(&str, Instant) -> bool) -> bool {
        let first = |kept: &Kept<T>| kept.waiting.first().map(|(_, since)| *since);
        let all = self.profiles.iter_mut();
        let all = all.filter(|(digest, kept)| first(kept).is_some_and(|since| of(digest, since)));
        match all.min_by_key(|(_, kept)| first(kept)) {
            Some((_, kept)) => drop(kept.waiting.remove(0)),
            None => return false,
        }
        true
    }

    /// A run has begun.
    pub(super) fn begun(&mut self, digest: &str) {
        let kept = self.profiles.entry(digest.to_owned()).or_default();
        kept.running += 1;
        kept.peak = kept.peak.max(kept.running);
    }

    /// A run has ended.
    pub(super) fn ended(&mut self, digest: &str) {
        if let Some(kept) = self.profiles.get_mut(digest) {
            kept.running = kept.running.saturating_sub(1);
            if kept.running == 0 && kept.waiting.is_empty() {
                self.profiles.remove(digest);
            }
        }
    }

    /// Whether one more is worth making ahead of time: those at work come back, in a crowd all the time.
    pub(super) fn lacks(&self, digest: &str) -> bool {
        let enough = |kept: &Kept<T>| {
            let waiting = kept.waiting.len();
            kept.running >= CROWD || (waiting > 0 && waiting + kept.running >= PER_PROFILE)
        };
        self.profiles.get(digest).is_none_or(|kept| !enough(kept))
    }

    /// Keeps `one`, or gives it back: there are enough. One of another profile may have to go for it: what is
    /// in use is worth more.
    /// One that was made, or began its run, in an earlier generation is not kept.
    pub(super) fn keep(&mut self, digest: &str, generation: u64, one: T) -> Option<T> {
        if generation != self.generation {
            return Some(one);
        }
        let (running, waiting) = self.count();
        let own = self.profiles.get(digest);
        if own.is_some_and(|kept| kept.waiting.len() >= kept.wanted().max(PER_PROFILE)) {
            return Some(one);
        }
        let wanted: usize = self.profiles.values().map(Kept::wanted).sum();
        let full = waiting >= wanted.max(WARM) || running.saturating_add(waiting) >= self.most;
        if full && !self.let_go(|other, _| other != digest) {
            return Some(one);
        }
        self.profiles.entry(digest.to_owned()).or_default().waiting.push((one, Instant::now()));
        None
    }

    /// Whether [`Self::trim`] would find something, now or later.
    pub(super) fn is_large(&self) -> bool {
        self.count().1 > WARM || self.profiles.values().any(|kept| kept.waiting.len() > PER_PROFILE)
    }

    /// Lets go of those that have waited for [`IDLE`] and are more than a few.
    pub(super) fn trim(&mut self, now: Instant) {
        for kept in self.profiles.values_mut() {
            let old =
                kept.waiting.iter().take_while(|(_, since)| now.saturating_duration_since(*since) >= IDLE);
            let surplus = old.count().min(kept.waiting.len().saturating_sub(PER_PROFILE));
            kept.waiting.drain(..surplus);
            // Those that stay may all be wanted again, and then come back one by one.
            kept.peak = kept.running + kept.waiting.len();
        }
        let surplus = self.count().1.saturating_sub(WARM);
        for _ in 0..surplus {
            self.let_go(|_, since| now.saturating_duration_since(since) >= IDLE);
        }
        self.profiles.retain(|_, kept| kept.running > 0 || !kept.waiting.is_empty());
    }

    /// Lets go of what does not hold any more.
    pub(super) fn retain(&mut self, digest: &str, holds: impl Fn(&T) -> bool) {
        if let Some(kept) = self.profiles.get_mut(digest) {
            kept.waiting.retain(|(one, _)| holds(one));
        }
    }

    /// How often all were let go for good.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Lets go of all that wait, and begins a new generation: those at work do not come back.
    pub(super) fn retire(&mut self) {
        self.generation += 1;
        for kept in self.profiles.values_mut() {
            kept.waiting.clear();
            kept.peak = kept.running;
        }
        self.profiles.retain(|_, kept| kept.running > 0);
    }

    /// Lets go of all.
    pub(super) fn clear(&mut self) {
        self.profiles.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_each_profile_are_kept_and_a_few_in_all() {
        let mut pool = Pool::new(64);
        assert!(pool.lacks("a"));
        assert_eq!((pool.keep("a", 0, 1), pool.keep("a", 0, 2), pool.keep("a", 0, 3)), (None, None, Some(3)));
        assert!(!pool.lacks("a"));
        pool.begun("a");
        assert_eq!((pool.take("a"), pool.lacks("a")), (Some(1), false), "it comes back");
        pool.ended("a");
        assert!(pool.lacks("a"), "it did not");
        pool.keep("a", 0, 1);
        for profile in ["b", "c", "d"] {
            assert_eq!((pool.keep(profile, 0, 1), pool.keep(profile, 0, 2)), (None, None));
        }
        assert_eq!(pool.keep("e", 0, 1), None, "for one of another");
        assert!(!pool.is_large());
        let left: usize = ["a", "b", "c", "d", "e"]
            .map(|profile| std::iter::from_fn(|| pool.take(profile)).count())
            .iter()
            .sum();
        assert_eq!(left, WARM);
    }

    #[test]
    fn as_many_are_kept_as_run_and_the_surplus_goes_later() {
        let mut pool = Pool::new(64);
        (0..20).for_each(|_| pool.begun("a"));
        assert!((0..20).all(|one| {
            pool.ended("a");
            pool.keep("a", 0, one).is_none()
        }));
        assert_eq!(
            (pool.keep("a", 0, 20), pool.keep("a", 0, 21)),
            (None, Some(21)),
            "so many have never run"
        );
        assert!(pool.is_large());
        pool.trim(Instant::now());
        assert!(pool.is_large(), "not yet");
        pool.trim(Instant::now() + IDLE);
        assert!(!pool.is_large());
        assert_eq!((pool.take("a"), pool.take("a"), pool.take("a")), (Some(19), Some(20), None));
    }

    #[test]
    fn there_are_never_more_than_may_be() {
        let mut pool = Pool::new(2);
        for profile in ["a", "b", "c", "d", "e"] {
            pool.keep(profile, 0, 1);
            pool.keep(profile, 0, 2);
        }
        assert_eq!(pool.count(), (0, WARM));
        pool.begun("z");
        pool.begun("z");
        pool.make_way();
        assert_eq!(pool.count(), (2, WARM - 1));
    }

    #[test]
    fn one_of_no_use_is_not_given_out() {
        let mut pool = Pool::new(64);
        pool.keep("a", 0, 1);
        pool.keep("a", 0, 2);
        pool.retain("a", |one| *one != 2);
        assert_eq!((pool.take("a"), pool.take("a"), pool.take("b")), (Some(1), None, None));
    }

    #[test]
    fn what_is_retired_does_not_come_back() {
        let mut pool = Pool::new(64);
        pool.keep("a", 0, 1);
        pool.begun("b");
        pool.retire();
        assert_eq!((pool.take("a"), pool.count()), (None, (1, 0)));
        pool.ended("b");
        assert_eq!(pool.keep("b", 0, 2), Some(2), "of a run that began before");
        assert_eq!((pool.keep("b", pool.generation(), 3), pool.take("b")), (None, Some(3)));
    }
}
