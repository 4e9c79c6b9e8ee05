//! The counters as text that Prometheus reads (exposition format 0.0.4).
//!
//! Purpose: nothing of a request stands in it: names of series are fixed, labels are words of ours and rule ids
//! of the policy. Inputs: the served appliance. Called by `health.rs` for each scrape.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::{BOUNDS, Histogram, Live};
use crate::mcp::http::Hub;

/// The value of the header `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text, by and by.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _: std::fmt::Result = writeln!(self.0, "{line}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.line(format_args!("{name} {value}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.one(name, "gauge", help, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.one(name, "counter", help, value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let (counts, sum) = histogram.read();
        let bounds = BOUNDS.iter().map(|micros| seconds(*micros)).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&counts) {
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"));
        }
        self.line(format_args!("{name}_sum {}", seconds(sum)));
        self.line(format_args!("{name}_count {}", counts.last().copied().unwrap_or(0)));
    }
}

/// Microseconds as seconds, exact.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A label's value as it stands between quotes.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The page of one scrape.
#[must_use]
pub fn page(live: &Live, hub: Option<&Hub<Live>>) -> String {
    let (meters, now) = (live.meters(), live.now());
    let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let mut page = Page::default();
    page.head("cofferdam_build_info", "gauge", "Version of the server; always 1.");
    page.line(format_args!("cofferdam_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
    page.head("cofferdam_policy_info", "gauge", "Digest of the policy in force; always 1.");
    page.line(format_args!("cofferdam_policy_info{{digest=\"{}\"}} 1", label(&now.config().digest)));
    page.head("cofferdam_policy_reloads_total", "counter", "Policies that were offered by a reload.");
    for (result, count) in [("taken", &meters.reloads), ("refused", &meters.reloads_refused)] {
        let count = load(count);
        page.line(format_args!("cofferdam_policy_reloads_total{{result=\"{result}\"}} {count}"));
    }

    page.head("cofferdam_runs_total", "counter", "Commands and lines that were admitted, by how they ended.");
    for (outcome, count) in meters.runs() {
        page.line(format_args!("cofferdam_runs_total{{outcome=\"{outcome}\"}} {count}"));
    }
    page.head(
        "cofferdam_refusals_total",
        "counter",
        "Calls that were refused, by rule; rules are of the policy.",
    );
    for (rule, count) in meters.refusals() {
        page.line(format_args!("cofferdam_refusals_total{{rule=\"{}\"}} {count}", label(&rule)));
    }
    page.counter("cofferdam_consent_questions_total", "Questions put to people.", load(&meters.questions));
    page.counter(
        "cofferdam_audit_unavailable_total",
        "Calls that were refused because no record of them could be made durable.",
        load(&meters.unavailable),
    );
    page.histogram(
        "cofferdam_run_duration_seconds",
        "From the start of a command to its end.",
        &meters.durations,
    );

    let (free, places) = now.free_places();
    page.gauge(
        "cofferdam_calls_in_flight",
        "Calls under way, those that wait included.",
        meters.in_flight.count(),
    );
    page.gauge("cofferdam_run_places", "Runs that the policy allows at the same time.", places);
    page.gauge("cofferdam_run_places_free", "Those of them that are free.", free);
    if let Ok((working, waiting)) = now.supervisors() {
        page.head("cofferdam_supervisors", "gauge", "Supervisors of runs, by what they do.");
        page.line(format_args!("cofferdam_supervisors{{state=\"working\"}} {working}"));
        page.line(format_args!("cofferdam_supervisors{{state=\"waiting\"}} {waiting}"));
    }
    let open = hub
        .map_or(meters.connections.count(), |hub| i64::try_from(hub.counters.open.get()).unwrap_or(i64::MAX));
    page.gauge("cofferdam_connections", "Connections that are open.", open);
    if let Some(hub) = hub {
        listener(&mut page, hub);
    }

    let audit = now.audit();
    let (records, bytes) = audit.waiting();
    page.gauge(
        "cofferdam_audit_up",
        "1 while the required sink takes records.",
        u8::from(!audit.is_refusing()),
    );
    page.gauge("cofferdam_audit_queue_records", "Records that wait for the writer.", records);
    page.gauge("cofferdam_audit_queue_bytes", "Bytes of them.", bytes);
    page.histogram(
        "cofferdam_audit_wait_seconds",
        "From the hand-over of a record until it was as durable as asked for.",
        audit.waited(),
    );
    page.0
}

fn listener(page: &mut Page, hub: &Hub<Live>) {
    let counters = &hub.counters;
    page.gauge("cofferdam_sessions", "Sessions of the older protocol era that are open.", hub.sessions());
    page.gauge("cofferdam_http_answering", "Requests that are being answered.", counters.answering.get());
    page.counter(
        "cofferdam_http_connections_total",
        "Connections that were accepted.",
        counters.connections.get(),
    );
    page.counter(
        "cofferdam_http_requests_total",
        "Requests of callers who are known.",
        counters.requests.get(),
    );
    page.counter("cofferdam_http_hung_up_total", "Calls whose client hung up.", counters.hung_up.get());
    page.counter("cofferdam_http_evicted_total", "Idle connections that made way.", counters.evicted.get());
    page.head(
        "cofferdam_http_refused_total",
        "counter",
        "Requests that were refused before they were calls.",
    );
    for (reason, count) in [
        ("unauthenticated", &counters.unauthenticated),
        ("foreign", &counters.foreign),
        ("limited", &counters.limited),
        ("malformed", &counters.malformed),
    ] {
        page.line(format_args!("cofferdam_http_refused_total{{reason=\"{reason}\"}} {}", count.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_labels_are_exact() {
        assert_eq!(["0", "0.00025", "1", "300"], [0, 250, 1_000_000, 300_000_000].map(seconds));
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
