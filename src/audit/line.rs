//! `line.end`: what a line came to as a whole.
//!
//! Purpose: its commands have records of their own, but its status, its time and its two streams are nobody's
//! alone. Inputs: who asks, and counts. Called by `appliance/line`.

use std::time::Duration;

use super::body::{Body, Level, Site};
use super::facts::Ending;
use super::record::correlation;
use super::{Audit, AuditError, Context};

/// What a line came to.
#[derive(Debug, Clone, Default)]
pub struct LineEnd {
    /// As a whole; the status is that of a shell.
    pub ending: Ending,
    /// Commands of it, those that were never reached included.
    pub commands: u64,
    /// From the first start to the last end.
    pub duration: Duration,
    /// Bytes that its commands wrote to standard output of the line.
    pub stdout_bytes: u64,
    /// The same for standard error.
    pub stderr_bytes: u64,
    /// The client did not get all of it.
    pub output_truncated: bool,
}

impl Audit {
    /// Records the end of a line. Durable before it resolves.
    ///
    /// # Errors
    /// When the record could not be made durable: what the line printed is not told then.
    pub async fn line_end(&self, context: &Context, facts: &LineEnd) -> Result<(), AuditError> {
        self.durable(ended(&self.1, context, facts)).await
    }
}

fn ended(site: &Site, context: &Context, facts: &LineEnd) -> Body {
    let level = if facts.ending == Ending::Exited(0) { Level::Info } else { Level::Warning };
    let mut found = site.found();
    let mut body = Body::new(site, level, "line.end");
    correlation(&mut body, site, context, &mut found);
    body.text("tool", context.tool.as_deref().unwrap_or("exec"), 128, &mut found);
    body.text_if("toolkit", context.toolkit.as_deref(), 64, &mut found);
    body.digest("policy_digest", Some(&site.origin.policy_digest));
    body.integer("line_commands", facts.commands);
    body.plain("outcome", facts.ending.as_str());
    if let Ending::Exited(code) = facts.ending {
        body.integer("exit_code", u64::try_from(code.clamp(0, 255)).unwrap_or(255));
    }
    if let Some(reason) = facts.ending.natural_stop() {
        body.plain("stop_reason", reason.as_str());
    }
    body.millis("duration_ms", facts.duration);
    body.integer("stdout_bytes", facts.stdout_bytes);
    body.integer("stderr_bytes", facts.stderr_bytes);
    body.flag("output_truncated", facts.output_truncated);
    body.message(&format!("line of {} commands ended: {}", facts.commands, facts.ending.as_str()));
    body
}
