//! The page: one file that needs nothing else, in which nothing runs.
//!
//! Purpose: what a person takes to a meeting, prints, or keeps with an incident. No script; the content security
//! policy allows our one style sheet and nothing more, so that even markup that got in could load and run nothing.

use super::bars;
use super::counts::Counts;
use super::page::{Page, STYLE};
use super::{ChainState, Figures, Run, TOP};

/// Makes the page.
#[must_use]
pub fn page(figures: &Figures) -> String {
    let mut page = Page::default();
    head(&mut page, figures);
    chains(&mut page, figures);
    tiles(&mut page, figures);
    page.raw("<section class=\"time\"><h2>Over time</h2>");
    if figures.timeline.bins().is_empty() {
        page.raw("<p class=\"soft\">No run ended and nothing was refused.</p>");
    } else {
        bars::timeline(&mut page, &figures.timeline);
    }
    page.raw("</section>");
    page.raw("<div class=\"pair\">");
    counted(&mut page, "<h2>How runs ended</h2>", "outcome", "ok", &figures.outcomes, "No run ended.");
    counted(&mut page, "<h2>Refusals by rule</h2>", "rule", "denied", &figures.rules, "Nothing was refused.");
    counted(
        &mut page,
        "<h2>Refusals by reason</h2>",
        "reason",
        "denied",
        &figures.reasons,
        "Nothing was refused.",
    );
    counted(&mut page, "<h2>Commands that ran</h2>", "command", "ok", &figures.commands, "Nothing ran.");
    counted(
        &mut page,
        "<h2>Commands that were refused</h2>",
        "command",
        "denied",
        &figures.denied_commands,
        "Nothing was refused.",
    );
    counted(
        &mut page,
        "<h2>Denied system calls</h2>",
        "system call",
        "denied",
        &figures.denied_syscalls,
        "None was denied by name. What Landlock refuses is seen by the command alone, and is not counted.",
    );
    counted(
        &mut page,
        "<h2>Breaches of the sandbox</h2>",
        "what",
        "denied",
        &figures.violations,
        "None was seen.",
    );
    counted(&mut page, "<h2>State of the sandbox</h2>", "runs", "ok", &figures.sandbox, "Nothing ran.");
    page.raw("</div>");
    greatest(&mut page, "<h2>Slowest runs</h2>", &figures.slowest, millis);
    greatest(&mut page, "<h2>Runs with most output</h2>", &figures.loudest, bytes);
    greatest(&mut page, "<h2>Runs with most memory</h2>", &figures.largest, bytes);
    sessions(&mut page, figures);
    page.raw("<div class=\"pair\">");
    counted(
        &mut page,
        "<h2>Who was authenticated</h2>",
        "principal",
        "ok",
        &figures.principals,
        "Nobody was: the transport had no authentication, or the log has none.",
    );
    counted(
        &mut page,
        "<h2>Redactions by rule</h2>",
        "rule",
        "failed",
        &figures.redactions,
        "Nothing was redacted.",
    );
    counted(
        &mut page,
        "<h2>Policies put into force</h2>",
        "digest",
        "ok",
        &figures.policies,
        "None in this time.",
    );
    counted(&mut page, "<h2>Starts of servers</h2>", "version", "ok", &figures.servers, "None in this time.");
    page.raw("</div><footer><p>Made by cofferdam ").text(env!("CARGO_PKG_VERSION"));
    page.raw(" from the records alone. Times are UTC. Arguments are as they were recorded: redacted, best effort.</p></footer></main></body></html>\n");
    page.into_text()
}

fn head(page: &mut Page, figures: &Figures) {
    page.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src ");
    page.style_hash();
    page.raw("; base-uri 'none'; form-action 'none'\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.raw("<meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\"><title>cofferdam audit report</title><style>");
    page.raw(STYLE).raw("</style></head><body><main>");
    bars::patterns(page);
    page.raw("<h1>cofferdam audit report</h1><p class=\"soft\">");
    match (&figures.first, &figures.last) {
        (Some(first), Some(last)) => page.text(first).raw(" to ").text(last),
        _ => page.raw("no record"),
    };
    page.raw(" · ").count(figures.records).raw(" of ").count(figures.read).raw(" records · made ");
    page.text(&figures.made).raw("</p>");
}

fn chains(page: &mut Page, figures: &Figures) {
    page.raw("<h2>State of the chain</h2>");
    for chain in &figures.chains {
        state(page, chain);
    }
    if figures.chains.len() > 1 {
        page.raw("<p>There is more than one chain: the log was begun anew in between, or these are several logs.</p>");
    }
    if figures.bad_lines > 0 {
        page.raw("<div class=\"state broken\"><strong>✗ ").count(figures.bad_lines);
        page.raw(
            " bad lines</strong>: they are no whole records, and none of the figures counts them.</div>",
        );
    }
    if figures.gaps > 0 {
        page.raw("<div class=\"state broken\"><strong>✗ ")
            .count(figures.gaps)
            .raw(" gaps in time</strong>: no record could be written, and ");
        page.count(figures.gap_refused).raw(" requests were refused meanwhile.</div>");
    }
    if figures.lost_runs > 0 {
        page.raw("<div class=\"state broken\"><strong>✗ ").count(figures.lost_runs);
        page.raw(
            " runs lost</strong>: their server ended before they did; how they ended is not known.</div>",
        );
    }
    page.raw("<p class=\"soft\">A whole chain has no record edited, dropped or swapped. That its newest records were cut off shows only against a head that was kept elsewhere (<code>cofferdam audit verify --expect-head</code>).</p>");
}

fn state(page: &mut Page, chain: &ChainState) {
    if chain.whole {
        page.raw("<div class=\"state whole\"><strong>✓ whole</strong> · ")
            .count(chain.records)
            .raw(" records");
    } else {
        page.raw("<div class=\"state broken\"><strong>✗ broken</strong> after ").count(chain.records);
        page.raw(" whole records: ").text(chain.broken.as_deref().unwrap_or(""));
    }
    if chain.open_runs > 0 {
        page.raw(" · ").count(chain.open_runs).raw(" runs are going on");
    }
    page.raw("<br><span class=\"soft\">chain <code>").text(chain.chain_id.as_deref().unwrap_or("none"));
    page.raw("</code> · head <code>").text(chain.head.as_deref().unwrap_or("none"));
    page.raw("</code> · in <code>").text(&chain.files.join(", ")).raw("</code></span></div>");
}

fn tiles(page: &mut Page, figures: &Figures) {
    page.raw("<ul class=\"tiles\">");
    for (label, value) in [
        ("runs started", figures.started),
        ("ended with success", figures.outcomes.of("success")),
        ("refused", figures.denied),
        ("questions to a person", figures.asked),
        ("verdicts without a run", figures.judged),
        ("commands with hidden characters", figures.unicode_risks),
        ("spans redacted", figures.redacted_spans),
        ("breaches seen", figures.violations.total()),
    ] {
        page.raw("<li><b>").count(value).raw("</b>").text(label).raw("</li>");
    }
    page.raw("</ul>");
}

fn counted(
    page: &mut Page,
    title: &'static str,
    head: &'static str,
    class: &str,
    counts: &Counts,
    none: &'static str,
) {
    page.raw("<section>").raw(title);
    if counts.is_empty() {
        page.raw("<p class=\"soft\">").raw(none).raw("</p>");
    } else {
        bars::counted(page, head, class, counts.top(TOP));
    }
    page.raw("</section>");
}

fn greatest(page: &mut Page, title: &'static str, runs: &[Run], spelled: fn(u64) -> String) {
    page.raw(title);
    if runs.is_empty() {
        page.raw("<p class=\"soft\">No run.</p>");
        return;
    }
    page.raw("<table><tr><th scope=\"col\" class=\"n\">value</th><th scope=\"col\">command</th><th scope=\"col\">outcome</th><th scope=\"col\">ended</th><th scope=\"col\">run</th></tr>");
    for run in runs {
        page.raw("<tr><td class=\"n\">").text(&spelled(run.value)).raw("</td><td><code>").text(&run.command);
        page.raw("</code></td><td class=\"w\">").text(&run.outcome).raw("</td><td class=\"w\">");
        page.text(run.timestamp.get(..19).unwrap_or(&run.timestamp)).raw("</td><td><code>");
        page.text(&run.run_id).raw("</code></td></tr>");
    }
    page.raw("</table>");
}

fn sessions(page: &mut Page, figures: &Figures) {
    page.raw("<h2>Sessions</h2>");
    if figures.sessions.is_empty() {
        page.raw("<p class=\"soft\">No record names a session: the command line has none.</p>");
        return;
    }
    page.raw("<table><caption>Client names are what clients say of themselves</caption><tr><th scope=\"col\">session</th><th scope=\"col\">client</th><th scope=\"col\">principal</th><th scope=\"col\">from</th><th scope=\"col\">to</th><th scope=\"col\" class=\"n\">runs</th><th scope=\"col\" class=\"n\">not success</th><th scope=\"col\" class=\"n\">refused</th></tr>");
    for session in &figures.sessions {
        page.raw("<tr><td><code>").text(&session.session_id).raw("</code></td><td>").text(&session.client);
        page.raw("</td><td>").text(session.principal.as_deref().unwrap_or("—"));
        for time in [&session.first, &session.last] {
            page.raw("</td><td class=\"w\">").text(time.get(..19).unwrap_or(time));
        }
        for count in [session.started, session.failed, session.denied] {
            page.raw("</td><td class=\"n\">").count(count);
        }
        page.raw("</td></tr>");
    }
    page.raw("</table>");
    if figures.sessions_beyond > 0 {
        page.raw("<p class=\"soft\">")
            .count(figures.sessions_beyond)
            .raw(" requests of other sessions are not listed.</p>");
    }
}

fn millis(value: u64) -> String {
    match value {
        0..1_000 => format!("{value} ms"),
        1_000..120_000 => format!("{}.{} s", value / 1_000, value % 1_000 / 100),
        _ => format!("{} min", value / 60_000),
    }
}

fn bytes(value: u64) -> String {
    bytesize::ByteSize(value).to_string()
}
