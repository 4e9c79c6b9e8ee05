//! The page: hostile text stays text, charts and figures agree, long logs stay bounded.

use proptest::prelude::*;

use super::*;
use crate::audit::chain::Head;
use crate::audit::is_risky;

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Figures of a session in which every text that somebody else can choose is `text`.
fn figures(text: &str) -> Figures {
    let (word, mut head) = (json(text), Head::new());
    let bodies = [
        format!(",\"event_type\":\"server.start\",\"server_version\":{word}"),
        format!(",\"event_type\":\"policy.load\",\"policy_digest\":{word}"),
        format!(
            ",\"event_type\":\"run.start\",\"cmd\":{word},\"argv\":[{word}],\"session_id\":{word},\"client_name\":{word},\"client_version\":{word},\"principal\":{word},\"sandbox\":{word},\"redactions\":[{word}],\"redaction_count\":1,\"argv_unicode_risk\":true"
        ),
        format!(
            ",\"event_type\":\"run.end\",\"cmd\":{word},\"argv\":[{word},{word}],\"run_id\":{word},\"outcome\":{word},\"duration_ms\":7,\"stdout_bytes\":9,\"max_rss_bytes\":4096,\"denied_syscalls\":[{word}],\"violation\":{word},\"session_id\":{word}"
        ),
        format!(
            ",\"event_type\":\"run.denied\",\"cmd\":{word},\"argv\":[{word}],\"rule_id\":{word},\"reason\":{word},\"decision\":\"deny\",\"session_id\":{word}"
        ),
        ",\"event_type\":\"audit.gap\",\"refused\":2".to_owned(),
    ];
    let mut figures = Figures { made: text.to_owned(), bad_lines: 1, ..Figures::default() };
    for body in bodies {
        let mut line = Vec::new();
        head.seal(&format!(",\"timestamp\":\"2026-12-01T08:00:00.000000Z\"{body}"), &mut line);
        line.pop();
        figures.take(&Record::parse(line).unwrap());
    }
    figures.chains.push(ChainState {
        chain_id: Some(text.to_owned()),
        files: vec![text.to_owned()],
        whole: false,
        records: 3,
        head: Some(text.to_owned()),
        broken: Some(text.to_owned()),
        kind: Some("edited"),
        open_runs: 1,
    });
    figures.finish();
    figures
}

/// The page without its text: every tag as it stands, in order.
fn tags(page: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once('<') {
        let (tag, behind) = behind.split_once('>').unwrap();
        // A style sheet is no markup.
        rest = if tag == "style" { behind.split_once("</style").unwrap().1 } else { behind };
        tags.push(tag);
    }
    tags
}

const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "</style><script>x</script>",
    "</code></td></table><iframe src='//evil'>",
    "'-alert(1)-'",
    "&lt;b&gt;&#60;script&#62;",
    "<!-- ",
    "]]><svg onload=x>",
    "\u{202e}\u{0}\n<b>",
    "javascript:alert(1)",
];

#[test]
fn text_of_a_record_never_becomes_markup() {
    let plain = page(&figures("plain"));
    for text in HOSTILE {
        let hostile = page(&figures(text));
        assert_eq!(tags(&hostile), tags(&plain), "{text}");
        assert!(!hostile.chars().any(|c| c != '\n' && is_risky(c)), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_at_all_becomes_markup(text in "\\PC{1,40}|[<>&\"'/a-z =!-]{1,40}") {
        let (hostile, plain) = (page(&figures(&text)), page(&figures("plain")));
        prop_assert_eq!(tags(&hostile), tags(&plain));
    }
}

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let page = super::page(&figures("plain"));
    let policy = "default-src 'none'; style-src 'sha256-";
    assert_eq!(page.matches(policy).count(), 1);
    for tag in tags(&page) {
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        assert!(
            !["script", "img", "iframe", "link", "object", "embed", "a", "form", "base"].contains(&name),
            "{tag}"
        );
        assert!(![" href", " src", " style=", " on", "xlink"].iter().any(|word| tag.contains(word)), "{tag}");
    }
    assert!(!super::page::STYLE.contains("url(") && !super::page::STYLE.contains("@import"));
    assert_eq!(page.matches("<style>").count(), 1);
    assert!(page.contains("2026-12-01 08:00:00"));
}

#[test]
fn figures_are_those_of_the_records() {
    let figures = figures("x");
    let counted =
        (figures.records, figures.started, figures.denied, figures.outcomes.of("x"), figures.gap_refused);
    assert_eq!(counted, (6, 1, 1, 1, 2));
    assert_eq!((figures.sessions.len(), figures.sessions[0].started, figures.sessions[0].denied), (1, 1, 1));
    assert_eq!((figures.slowest[0].value, figures.loudest[0].value, figures.largest[0].value), (7, 9, 4_096));
    assert_eq!(figures.denied_syscalls.of("x"), 1);
    let bins = figures.timeline.bins();
    assert_eq!((bins.len(), bins[0].1.total()), (1, 2));
    let json = serde_json::to_value(&figures).unwrap();
    assert_eq!(json["rules"]["top"][0]["name"], "x");
    assert!(json.get("followed").is_none());
}

#[test]
fn time_is_cut_into_few_bins_and_nothing_is_lost() {
    let mut line = Timeline::default();
    for (count, day) in (1..=9).enumerate() {
        line.add(&format!("2026-0{day}-01T00:00:00.000000Z"), timeline::Kind::Denied);
        let bins = line.bins();
        assert!(bins.len() <= 60, "{}", bins.len());
        assert_eq!(bins.iter().map(|(_, bin)| bin.denied).sum::<u64>(), count as u64 + 1);
    }
    line.add("9999-12-31T23:59:59.000000Z", timeline::Kind::Success);
    line.add("no time", timeline::Kind::Success);
    assert!(line.bins().len() <= 60);
    assert_eq!(line.bins().iter().map(|(_, bin)| bin.total()).sum::<u64>(), 10);
}

#[test]
fn names_that_somebody_else_chooses_are_counted_in_bounded_memory() {
    let mut counts = Counts::default();
    for number in 0..10_000 {
        counts.add(&number.to_string(), 1);
    }
    counts.add("0", 5);
    let (top, others) = counts.top(3);
    assert_eq!((top[0].name.as_str(), top[0].count, top.len()), ("0", 6, 3));
    assert_eq!((counts.names(), counts.total(), others), (4_096, 10_005, 10_005 - 8));
}
