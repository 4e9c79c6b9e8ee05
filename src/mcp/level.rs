//! Log levels: what a request of the modern era opts into, and what a session of the older one has set.

use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::{ErrorData, LoggingLevel, SetLevelRequestParams};
use rmcp::service::{RequestContext, RoleServer};

/// Parameters of `logging/setLevel`.
pub(super) type SetLevel = SetLevelRequestParams;

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What this server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Output of jobs.
    Debug,
    /// Output of runs, starts and ends of jobs.
    Info,
}

impl Level {
    pub(super) fn of_protocol(self) -> LoggingLevel {
        match self {
            Self::Debug => LoggingLevel::Debug,
            Self::Info => LoggingLevel::Info,
        }
    }

    /// Whether it is wanted by whoever asked for `least` and above.
    pub(super) fn reaches(self, least: LoggingLevel) -> bool {
        severity(self.of_protocol()) >= severity(least)
    }
}

/// The level of a session; everything is told until the client asks for less.
#[derive(Debug, Default)]
pub(super) struct SessionLevel(AtomicU8);

impl SessionLevel {
    pub(super) fn set(&self, asked: &SetLevel) {
        self.0.store(severity(asked.level), Ordering::Relaxed);
    }

    /// Nothing is told until a level is set.
    pub(super) fn silence(&self) {
        self.0.store(u8::MAX, Ordering::Relaxed);
    }

    pub(super) fn admits(&self, level: Level) -> bool {
        severity(level.of_protocol()) >= self.0.load(Ordering::Relaxed)
    }
}

/// Whether a request belongs to the era without a handshake.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// The level that a request of the modern era opts into, if it does.
pub(super) fn asked(context: &RequestContext<RoleServer>) -> Result<Option<LoggingLevel>, ErrorData> {
    if !is_modern(context) || context.meta.get(LOG_LEVEL).is_none() {
        return Ok(None);
    }
    let refused = || {
        let levels = "debug, info, notice, warning, error, critical, alert or emergency";
        ErrorData::invalid_params(format!("{LOG_LEVEL} in _meta is no log level: use {levels}"), None)
    };
    context.meta.log_level().map(Some).ok_or_else(refused)
}

fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
