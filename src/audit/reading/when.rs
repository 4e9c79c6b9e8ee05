//! Moments: those that people name, and those that records carry.
//!
//! Purpose: `--since 2h`, `--since 2026-12-01`, `--since 2026-12-01T08:00:00Z` as one value that compares with
//! the timestamp of a record. UTC throughout, as records are. Called by `filter.rs` and the report.

use std::time::{Duration, SystemTime};

/// A moment in the spelling of a record: UTC, six digits of a second, `Z`. Sorts as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(String);

impl Moment {
    /// As it is spelled.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self::of(SystemTime::now())
    }

    fn of(time: SystemTime) -> Self {
        Self(humantime::format_rfc3339_micros(time).to_string())
    }

    /// Seconds since 1970 as a moment; absent beyond the year 9999.
    #[must_use]
    pub fn of_seconds(seconds: u64) -> Option<Self> {
        const LAST: u64 = 253_402_300_799;
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
        (seconds <= LAST).then(|| Self::of(time))
    }

    /// Milliseconds since 1970 of the timestamp of a record; absent where it is none.
    #[must_use]
    pub fn millis_of(timestamp: &str) -> Option<u64> {
        let Ok(time) = humantime::parse_rfc3339(timestamp) else { return None };
        let Ok(since) = time.duration_since(SystemTime::UNIX_EPOCH) else { return None };
        since.as_secs().checked_mul(1_000)?.checked_add(since.subsec_millis().into())
    }
}

/// Reads a moment as people write it: how long ago (`90s`, `2h`, `3d`), a day, a day and a time, or all of
/// RFC 3339 with `Z`. A day alone is its beginning.
///
/// # Errors
/// What forms there are.
pub fn ago_or_moment(text: &str) -> Result<Moment, String> {
    let text = text.trim();
    let wrong = || {
        format!(
            "`{text}` is no moment: write how long ago (90s, 2h, 3d), a day (2026-12-01) or a moment in UTC \
             (2026-12-01T08:00:00Z)"
        )
    };
    if let Ok(ago) = humantime::parse_duration(text) {
        return SystemTime::now()
            .checked_sub(ago)
            .filter(|time| *time >= SystemTime::UNIX_EPOCH)
            .map(Moment::of)
            .ok_or_else(wrong);
    }
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    humantime::parse_rfc3339_weak(&whole).map(Moment::of).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_every_form() {
        let spelled = |text: &str| ago_or_moment(text).map(|moment| moment.0);
        assert_eq!(spelled("2026-12-01").unwrap(), "2026-12-01T00:00:00.000000Z");
        assert_eq!(spelled("2026-12-01T08:00:01Z").unwrap(), "2026-12-01T08:00:01.000000Z");
        assert_eq!(spelled("2026-12-01 08:00:01").unwrap(), "2026-12-01T08:00:01.000000Z");
        assert_eq!(spelled("2026-12-01T08:00:01.5Z").unwrap(), "2026-12-01T08:00:01.500000Z");
        let hour = ago_or_moment("1h").unwrap();
        assert!(hour < Moment::now() && hour > ago_or_moment("2h").unwrap());
        for wrong in ["", "yesterday", "2026-13-01", "12", "99999999y", "2026-12-01T08:00:01+02:00"] {
            assert!(spelled(wrong).unwrap_err().contains("is no moment"), "{wrong}");
        }
        assert_eq!(Moment::millis_of("1970-01-01T00:00:01.250000Z"), Some(1_250));
        assert_eq!(Moment::millis_of("1969-01-01T00:00:01.250000Z"), None);
        assert_eq!(Moment::of_seconds(60).unwrap().as_str(), "1970-01-01T00:01:00.000000Z");
        assert_eq!(Moment::of_seconds(u64::MAX), None);
    }
}
