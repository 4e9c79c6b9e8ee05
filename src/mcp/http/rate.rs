//! How often a principal may ask: a bucket that fills with time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests that may come now, and more of them as time goes by.
#[derive(Debug)]
pub(super) struct Rate {
    a_minute: f64,
    most: f64,
    state: Mutex<(f64, Instant)>,
}

impl Rate {
    /// A full bucket. A tenth of a minute's requests may come at once, one at the least.
    pub(super) fn new(a_minute: u32, now: Instant) -> Self {
        let a_minute = f64::from(a_minute);
        let most = (a_minute / 10.0).max(1.0);
        Self { a_minute, most, state: Mutex::new((most, now)) }
    }

    /// Takes one.
    ///
    /// # Errors
    /// How long until there is one.
    pub(super) fn take(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, at) = *state;
        let filled = now.saturating_duration_since(at).as_secs_f64() * self.a_minute / 60.0;
        let left = (left + filled).min(self.most);
        if left < 1.0 {
            *state = (left, now);
            return Err(Duration::from_secs_f64((1.0 - left) * 60.0 / self.a_minute));
        }
        *state = (left - 1.0, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let rate = Rate::new(60, start);
        assert!((0..6).all(|_| rate.take(start).is_ok()));
        let wait = rate.take(start).unwrap_err();
        assert!(wait > Duration::from_millis(900) && wait <= Duration::from_secs(1), "{wait:?}");
        let later = start + Duration::from_secs(2);
        assert!(rate.take(later).is_ok() && rate.take(later).is_ok() && rate.take(later).is_err());
        let much_later = later + Duration::from_secs(3600);
        assert!((0..6).all(|_| rate.take(much_later).is_ok()) && rate.take(much_later).is_err());
    }
}
