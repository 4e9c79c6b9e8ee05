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
}

#[derive(Debug)]
struct Kept<T> {
    waiting: Vec<(T, Instant)>,
    /// Runs under way.
    running: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), running: 0 }
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { profiles: HashMap::new() }
    }
}

impl<T> Pool<T> {
    /// The one that was used last: its memory is warm, too.
    pub(super) fn take(&mut self, digest: &str) -> Option<T> {
        self.profiles.get_mut(digest)?.waiting.pop().map(|(one, _)| one)
    }

    /// A run has begun.
    pub(super) fn begun(&mut self, digest: &str) {
        self.profiles.entry(digest.to_owned()).or_default().running += 1;
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

    /// Whether one more is worth making ahead of time: not in a crowd, whose own come back all the time.
    pub(super) fn lacks(&self, digest: &str) -> bool {
        let enough = |kept: &Kept<T>| kept.waiting.len() >= PER_PROFILE || kept.running >= CROWD;
        self.profiles.get(digest).is_none_or(|kept| !enough(kept))
    }

    /// Keeps `one`, or gives it back: there are enough. One of another profile may have to go for it: what is
    /// in use is worth more.
    pub(super) fn keep(&mut self, digest: &str, one: T) -> Option<T> {
        let running: usize = self.profiles.values().map(|kept| kept.running).sum();
        let waiting: usize = self.profiles.values().map(|kept| kept.waiting.len()).sum();
        let own = self.profiles.get(digest);
        let most = own.map_or(0, |kept| kept.running).saturating_add(1).max(PER_PROFILE);
        if own.is_some_and(|kept| kept.waiting.len() >= most) {
            return Some(one);
        }
        if waiting >= running.saturating_add(1).max(WARM) {
            let other = self.profiles.iter_mut().find(|(name, kept)| **name != digest && !kept.waiting.is_empty());
            let Some((_, other)) = other else { return Some(one) };
            other.waiting.remove(0);
        }
        self.profiles.entry(digest.to_owned()).or_default().waiting.push((one, Instant::now()));
        None
    }

    /// Whether [`Self::trim`] would find something, now or later.
    pub(super) fn is_large(&self) -> bool {
        self.profiles.values().any(|kept| kept.waiting.len() > PER_PROFILE)
    }

    /// Lets go of those that have waited for [`IDLE`] and are more than a few.
    pub(super) fn trim(&mut self, now: Instant) {
        for kept in self.profiles.values_mut() {
            let old = kept.waiting.iter().take_while(|(_, since)| now.saturating_duration_since(*since) >= IDLE);
            let surplus = old.count().min(kept.waiting.len().saturating_sub(PER_PROFILE));
            kept.waiting.drain(..surplus);
        }
    }

    /// Lets go of what does not hold any more.
    pub(super) fn retain(&mut self, digest: &str, holds: impl Fn(&T) -> bool) {
        if let Some(kept) = self.profiles.get_mut(digest) {
            kept.waiting.retain(|(one, _)| holds(one));
        }
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
        let mut pool = Pool::default();
        assert!(pool.lacks("a"));
        assert_eq!((pool.keep("a", 1), pool.keep("a", 2), pool.keep("a", 3)), (None, None, Some(3)));
        assert!(!pool.lacks("a"));
        for profile in ["b", "c", "d"] {
            assert_eq!((pool.keep(profile, 1), pool.keep(profile, 2)), (None, None));
        }
        assert_eq!(pool.keep("e", 1), None, "for one of another");
        let left: usize = ["a", "b", "c", "d", "e"]
            .map(|profile| std::iter::from_fn(|| pool.take(profile)).count())
            .iter()
            .sum();
        assert_eq!(left, WARM);
    }

    #[test]
    fn as_many_are_kept_as_run_and_the_surplus_goes_later() {
        let mut pool = Pool::default();
        (0..20).for_each(|_| pool.begun("a"));
        assert!((0..10).all(|one| {
            pool.ended("a");
            pool.keep("a", one).is_none()
        }));
        (0..10).for_each(|_| pool.ended("a"));
        assert_eq!(pool.keep("a", 10), Some(10), "nobody runs any more");
        assert!(pool.is_large());
        pool.trim(Instant::now());
        assert!(pool.is_large(), "not yet");
        pool.trim(Instant::now() + IDLE);
        assert!(!pool.is_large());
        assert_eq!((pool.take("a"), pool.take("a"), pool.take("a")), (Some(9), Some(8), None));
    }

    #[test]
    fn one_of_no_use_is_not_given_out() {
        let mut pool = Pool::default();
        pool.keep("a", 1);
        pool.keep("a", 2);
        pool.retain("a", |one| *one != 2);
        assert_eq!((pool.take("a"), pool.take("a"), pool.take("b")), (Some(1), None, None));
    }
}
