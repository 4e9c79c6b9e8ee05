//! How the audit log is, for readiness and for people.
//!
//! Pure. Made by `mod.rs`, read by whoever answers a health check.

use super::queue::Health;

/// Whether requests are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// All is well.
    Ok,
    /// Records are taken; something is wrong that a person should look at.
    Degraded,
    /// The required sink takes no records: runs are refused (or what `on_failure` says).
    Refusing,
}

impl Readiness {
    /// Stable word for answers and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Refusing => "refusing",
        }
    }
}

/// How the log is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditState {
    /// In one word.
    pub readiness: Readiness,
    /// What is wrong: the failure of the required sink first, then sinks that are down (`syslog:down`), `space:low`,
    /// a rotation that cannot be done.
    pub reasons: Vec<String>,
}

impl AuditState {
    pub(super) fn of(health: &Health) -> Self {
        let readiness = match (&health.refusing, health.complaints.is_empty()) {
            (Some(_), _) => Readiness::Refusing,
            (None, false) => Readiness::Degraded,
            (None, true) => Readiness::Ok,
        };
        Self { readiness, reasons: health.refusing.iter().chain(&health.complaints).cloned().collect() }
    }
}
