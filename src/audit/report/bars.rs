//! The charts, as SVG within the page.
//!
//! Purpose: each kind is told by a pattern and a label as well as by its colour, so that it is read in print and by
//! those who see colours otherwise; each figure of a chart stands in a table beside it.

use super::counts::Counted;
use super::page::Page;
use super::timeline::{Bin, Timeline};
use crate::audit::reading::Moment;

/// The kinds of a timeline from the bottom: class, pattern and label.
const KINDS: [(&str, &str, &str); 4] = [
    ("ok", "solid", "success"),
    ("failed", "stripes", "failed"),
    ("stopped", "dots", "stopped"),
    ("denied", "cross", "refused"),
];

const PATTERNS: &str = "\
<svg width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\"><defs>\
<pattern id=\"p-ok\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect class=\"ok\" width=\"8\" height=\"8\"/></pattern>\
<pattern id=\"p-failed\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect class=\"failed\" width=\"6\" height=\"6\"/><path class=\"mark\" d=\"M-1 7 7 -1M-1 1 1 -1M5 7 7 5\"/></pattern>\
<pattern id=\"p-stopped\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect class=\"stopped\" width=\"6\" height=\"6\"/><circle class=\"dot\" cx=\"3\" cy=\"3\" r=\"1.3\"/></pattern>\
<pattern id=\"p-denied\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\"><rect class=\"denied\" width=\"7\" height=\"7\"/><path class=\"mark\" d=\"M0 0 7 7M7 0 0 7\"/></pattern>\
</defs></svg>";

/// What the charts of the page refer to.
pub(super) fn patterns(page: &mut Page) {
    page.raw(PATTERNS);
}

fn fill(page: &mut Page, class: &str) {
    page.raw(match class {
        "ok" => "url(#p-ok)",
        "failed" => "url(#p-failed)",
        "stopped" => "url(#p-stopped)",
        _ => "url(#p-denied)",
    });
}

fn of(bin: &Bin) -> [u64; 4] {
    [bin.success, bin.failed, bin.stopped, bin.denied]
}

pub(super) fn legend(page: &mut Page, totals: [u64; 4]) {
    page.raw("<ul class=\"legend\">");
    for ((class, pattern, label), total) in KINDS.into_iter().zip(totals) {
        page.raw(
            "<li><svg viewBox=\"0 0 24 14\" aria-hidden=\"true\"><rect width=\"24\" height=\"14\" fill=\"",
        );
        fill(page, class);
        page.raw("\"/><rect class=\"edge\" width=\"24\" height=\"14\"/></svg>");
        page.text(label)
            .raw(" <span class=\"soft\">(")
            .text(pattern)
            .raw(")</span> ")
            .count(total)
            .raw("</li>");
    }
    page.raw("</ul>");
}

const WIDTH: u64 = 7_200;
const LEFT: u64 = 480;
const TOP: u64 = 120;
const HIGH: u64 = 1_800;
/// Width of a time below the bars.
const LABEL: u64 = 1_250;

/// Ended and refused over time: a stacked bar for each bin. Lengths are tenths of a unit.
pub(super) fn timeline(page: &mut Page, timeline: &Timeline) {
    let bins = timeline.bins();
    let totals = bins.iter().fold([0u64; 4], |sum, (_, bin)| {
        let mut sum = sum;
        sum.iter_mut().zip(of(bin)).for_each(|(sum, more)| *sum += more);
        sum
    });
    legend(page, totals);
    let greatest = bins.iter().map(|(_, bin)| bin.total()).max().unwrap_or(0).max(1);
    let (step, ceiling) = scale(greatest);
    page.raw("<svg class=\"chart\" viewBox=\"0 0 720 222\" role=\"img\" aria-label=\"Runs that ended and requests that were refused, over time; the table below has the figures\">");
    let y = |count: u64| TOP + HIGH - HIGH * count / ceiling;
    for line in 0..=ceiling / step {
        let at = y(line * step);
        page.raw("<line class=\"grid\" x1=\"48\" x2=\"720\" y1=\"").tenths(at).raw("\" y2=\"").tenths(at);
        page.raw("\"/><text text-anchor=\"end\" x=\"42\" y=\"").tenths(at + 40).raw("\">");
        page.count(line * step).raw("</text>");
    }
    let count = (bins.len() as u64).max(1);
    let width = (WIDTH - LEFT) / count;
    let (bar, gap) = ((width * 4 / 5).min(400), width / 10);
    for (position, (second, bin)) in bins.iter().enumerate() {
        let x = LEFT + (WIDTH - LEFT) * position as u64 / count + gap;
        let mut below = 0;
        page.raw("<g><title>").text(&label(*second));
        for ((_, _, label), count) in KINDS.into_iter().zip(of(bin)) {
            page.raw(", ").text(label).raw(" ").number(count);
        }
        page.raw("</title>");
        for ((class, _, _), count) in KINDS.into_iter().zip(of(bin)) {
            if count == 0 {
                continue;
            }
            let (top, bottom) = (y(below + count), y(below));
            for (edge, class) in [(false, class), (true, class)] {
                page.raw("<rect x=\"").tenths(x).raw("\" width=\"").tenths(bar).raw("\" y=\"").tenths(top);
                page.raw("\" height=\"").tenths(bottom - top).raw("\" ");
                if edge {
                    page.raw("class=\"edge\"/>");
                } else {
                    page.raw("fill=\"");
                    fill(page, class);
                    page.raw("\"/>");
                }
            }
            below += count;
        }
        page.raw("</g>");
    }
    axis(page, &bins);
    page.raw("</svg>");
    table(page, timeline, &bins);
}

/// Times below the bars: the first, some between, and none that would run into the next.
fn axis(page: &mut Page, bins: &[(u64, Bin)]) {
    let count = (bins.len() as u64).max(1);
    let every = count.div_ceil(5);
    for (position, (second, _)) in bins.iter().enumerate() {
        let position = position as u64;
        let x = LEFT + (WIDTH - LEFT) * position / count;
        if !position.is_multiple_of(every) || x + LABEL > WIDTH {
            continue;
        }
        page.raw("<line class=\"grid\" y1=\"192\" y2=\"197\" x1=\"").tenths(x).raw("\" x2=\"").tenths(x);
        page.raw("\"/><text y=\"210\" x=\"").tenths(x).raw("\">").text(&label(*second)).raw("</text>");
    }
}

fn table(page: &mut Page, timeline: &Timeline, bins: &[(u64, Bin)]) {
    page.raw("<details><summary>The figures of this chart</summary><table><caption>Steps of ");
    page.text(&humantime::format_duration(std::time::Duration::from_secs(timeline.step())).to_string());
    page.raw(", in UTC; steps without anything are left out</caption><tr><th scope=\"col\">from</th>");
    for (_, _, label) in KINDS {
        page.raw("<th scope=\"col\" class=\"n\">").text(label).raw("</th>");
    }
    page.raw("</tr>");
    for (second, bin) in bins.iter().filter(|(_, bin)| bin.total() > 0) {
        page.raw("<tr><td class=\"w\">").text(&label(*second)).raw("</td>");
        for count in of(bin) {
            page.raw("<td class=\"n\">").count(count).raw("</td>");
        }
        page.raw("</tr>");
    }
    page.raw("</table></details>");
}

/// `2026-12-01 08:00:00`.
fn label(second: u64) -> String {
    let moment = Moment::of_seconds(second);
    let text = moment.as_ref().map_or("", |moment| moment.as_str());
    text.get(..19).unwrap_or("").replace('T', " ")
}

/// Distance of the lines, and where the scale ends.
fn scale(greatest: u64) -> (u64, u64) {
    let mut power: u64 = 1;
    loop {
        for step in [1, 2, 5] {
            let step = power.saturating_mul(step);
            if step.saturating_mul(5) >= greatest {
                return (step, step.saturating_mul(greatest.div_ceil(step)));
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Counts by name with a bar each, as a table.
pub(super) fn counted(page: &mut Page, head: &'static str, class: &str, (top, others): (Vec<Counted>, u64)) {
    let greatest = top.first().map_or(1, |first| first.count).max(1);
    page.raw("<table><tr><th scope=\"col\">").raw(head);
    page.raw("</th><th scope=\"col\" class=\"n\">count</th><th class=\"barcell\"></th></tr>");
    for Counted { name, count } in &top {
        page.raw("<tr><td><code>").text(if name.is_empty() { "(empty)" } else { name });
        page.raw("</code></td><td class=\"n\">").count(*count).raw("</td><td class=\"barcell\">");
        // Wide enough to be seen.
        let width = (u128::from(*count) * 2_400 / u128::from(greatest)).clamp(20, 2_400);
        let width = u64::try_from(width).unwrap_or(2_400);
        page.raw("<svg class=\"bar\" viewBox=\"0 0 240 14\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect height=\"14\" width=\"");
        page.tenths(width).raw("\" fill=\"");
        fill(page, class);
        page.raw("\"/></svg></td></tr>");
    }
    if others > 0 {
        page.raw("<tr><td class=\"soft\">all others</td><td class=\"n\">").count(others);
        page.raw("</td><td class=\"barcell\"></td></tr>");
    }
    page.raw("</table>");
}
