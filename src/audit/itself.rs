//! Records of the log about itself: gaps, drops, rotations, recoveries.
//!
//! Purpose: what a reader of the log has to know to tell a hole from a quiet time. Inputs: counts, and names of
//! sinks and files. Pure, but for the clock. Called by `writer.rs`.

use std::time::Duration;

use super::body::{Body, Level, Site};
use super::escape::cap;
use super::medium::Aside;
use super::redact::Found;
use super::sinks::Drops;

/// `audit.gap`: so many requests were refused, or done without a record.
pub(super) fn gap(site: &Site, gap: Duration, (refused, unrecorded): (u64, u64), why: &str) -> Body {
    let mut body = Body::new(site, Level::Error, "audit.gap");
    body.millis("gap_ms", gap);
    body.integer("refused", refused);
    let more = if unrecorded > 0 {
        body.integer("unrecorded", unrecorded);
        format!(", {unrecorded} went on without a record")
    } else {
        String::new()
    };
    body.message(&format!("audit gap: {why}; {refused} requests refused{more}"));
    body
}

/// `audit.drop`: what a best-effort sink did not get.
pub(super) fn dropped(site: &Site, drops: &Drops) -> Body {
    let mut found = Found::default();
    let mut body = Body::new(site, Level::Warning, "audit.drop");
    body.text("sink", &drops.sink, 255, &mut found);
    body.integer("dropped", drops.records);
    body.integer("dropped_bytes", drops.bytes);
    body.millis("gap_ms", drops.age);
    body.text("error_text", &drops.why, 256, &mut found);
    body.message(&format!("{} records did not reach {}", drops.records, cap(&drops.sink, 128)));
    body
}

/// `audit.rotate`: the first record of a new file.
pub(super) fn rotate(site: &Site, aside: &Aside) -> Body {
    let mut body = Body::new(site, Level::Info, "audit.rotate");
    let name = cap(&aside.file, 255);
    body.plain("prev_file", &name);
    body.integer("prev_records", aside.records);
    body.message(&format!("audit log rotated: {name} is closed"));
    body
}

/// `audit.recover`.
pub(super) fn recover(site: &Site, torn: u64, lost: u64) -> Body {
    let mut body = Body::new(site, Level::Warning, "audit.recover");
    body.integer("torn_bytes", torn);
    body.integer("lost_runs", lost);
    body.message(&format!("audit log recovered: {torn} torn bytes, {lost} lost runs"));
    body
}
