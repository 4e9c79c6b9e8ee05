//! Reading logs: order of files, bad lines, filters, following through rotations.

use std::fs;
use std::io::Write as _;

use super::*;
use crate::audit::chain::Head;

/// A chain of records with these bodies, a line each.
fn chain(head: &mut Head, bodies: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for body in bodies {
        head.seal(&format!(",\"timestamp\":\"2026-12-01T08:00:0{}.000000Z\"{body}", head.seq % 10), &mut out);
    }
    out
}

const START: &str = ",\"event_type\":\"run.start\",\"run_id\":\"r-1\",\"cmd\":\"/usr/bin/git\",\"argv\":[\"/usr/bin/git\",\"log\"],\"session_id\":\"abcd-1\",\"rule_id\":\"allow\",\"decision\":\"allow\"";
const DENIED: &str = ",\"event_type\":\"run.denied\",\"run_id\":\"r-2\",\"cmd\":\"git\",\"argv\":[\"git\",\"grep\",\"-O\"],\"rule_id\":\"git.grep.open\",\"decision\":\"deny\",\"outcome\":\"denied\",\"reason\":\"argument_denied\",\"principal\":\"ci\"";

fn seqs(logs: Vec<Log>) -> Vec<Result<u64, Bad>> {
    entries(logs).map(|entry| entry.unwrap().content.map(|record| record.seq())).collect()
}

#[test]
fn files_are_read_in_the_order_of_their_chain_and_each_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut head = Head::new();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("audit-000000000001.jsonl"), chain(&mut head, &[START, DENIED])).unwrap();
    fs::write(at("audit-000000000003.jsonl"), chain(&mut head, &[START])).unwrap();
    fs::write(at("audit.jsonl"), chain(&mut head, &[DENIED])).unwrap();
    fs::write(at("audit.key"), "no log").unwrap();
    let whole = [Ok(1), Ok(2), Ok(3), Ok(4)];
    assert_eq!(seqs(logs(&[dir.path().to_owned()]).unwrap()), whole);
    fs::hard_link(at("audit-000000000003.jsonl"), at("other.jsonl")).unwrap();
    let named = [
        at("audit.jsonl"),
        at("other.jsonl"),
        at("audit-000000000003.jsonl"),
        at("audit-000000000001.jsonl"),
    ];
    assert_eq!(seqs(logs(&named).unwrap()), whole);
    assert_eq!(with_rotated(&at("audit.jsonl")).unwrap().len(), 3);
    let found = chains(&logs(&named).unwrap());
    assert_eq!((found.len(), found[0].files.len()), (1, 3));
    let empty = tempfile::tempdir().unwrap();
    assert!(logs(&[empty.path().to_owned()]).unwrap_err().to_string().contains("no *.jsonl"));
    assert!(logs(&[at("none.jsonl")]).unwrap_err().to_string().contains("none.jsonl"));
    assert!(logs(&["-".into(), at("audit.jsonl")]).is_err());
}

#[test]
fn chains_stay_together_and_the_older_one_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut old = Head::new();
    fs::write(at("z.jsonl"), chain(&mut old, &[START])).unwrap();
    let mut new = Head::new();
    // Its first record is later.
    let first = chain(&mut new, &[START, START, DENIED]);
    fs::write(
        at("a.jsonl"),
        first.split_inclusive(|byte| *byte == b'\n').skip(1).flatten().copied().collect::<Vec<u8>>(),
    )
    .unwrap();
    assert_eq!(seqs(logs(&[dir.path().to_owned()]).unwrap()), [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(chains(&logs(&[dir.path().to_owned()]).unwrap()).len(), 2);
}

#[test]
fn bad_lines_are_values_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let mut head = Head::new();
    let mut text = chain(&mut head, &[START]);
    text.extend_from_slice(b"not a record \x1b[2J\n");
    let edited = String::from_utf8(chain(&mut head, &[DENIED])).unwrap().replace("grep", "log ");
    text.extend_from_slice(edited.as_bytes());
    text.extend(std::iter::repeat_n(b'x', 100_000));
    text.push(b'\n');
    text.extend_from_slice(b"{\"schema_version\":1,\"chain\n");
    let torn = "{\"schema_version\":1,\"chain_id\":\"012";
    text.extend_from_slice(format!("{torn}\n").as_bytes());
    let recover = format!(",\"event_type\":\"audit.recover\",\"torn_bytes\":{}", torn.len());
    text.extend(chain(&mut head, &[&recover]));
    text.extend_from_slice(torn.as_bytes());
    fs::write(&path, text).unwrap();
    let found: Vec<Entry> = entries(logs(&[path]).unwrap()).map(Result::unwrap).collect();
    let kinds: Vec<Option<Bad>> = found.iter().map(|entry| entry.content.as_ref().err().copied()).collect();
    let wanted = [
        None,
        Some(Bad::Foreign),
        Some(Bad::Edited),
        Some(Bad::TooLong),
        Some(Bad::Torn),
        Some(Bad::Recovered),
        None,
        Some(Bad::Torn),
    ];
    assert_eq!(kinds, wanted);
    let lines: Vec<u64> = found.iter().map(|entry| entry.place.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(!Bad::Recovered.counts() && Bad::Torn.counts());
}

fn record(body: &str) -> Record {
    let mut line = chain(&mut Head::new(), &[body]);
    line.pop();
    Record::parse(line).unwrap()
}

#[test]
fn filters_are_alternatives_within_and_conditions_between() {
    let (start, denied) = (record(START), record(DENIED));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let both = |filter: Filter| (filter.admits(&start), filter.admits(&denied));
    assert_eq!(both(Filter::default()), (true, true));
    assert_eq!(both(Filter { commands: words(&["git"]), ..Filter::default() }), (true, true));
    assert_eq!(both(Filter { rules: words(&["git"]), ..Filter::default() }), (false, true));
    assert_eq!(both(Filter { rules: words(&["gi", "allow"]), ..Filter::default() }), (true, false));
    assert_eq!(both(Filter { denied: true, ..Filter::default() }), (false, true));
    assert_eq!(both(Filter { events: words(&["run"]), ..Filter::default() }), (true, true));
    assert_eq!(both(Filter { outcomes: words(&["denied"]), ..Filter::default() }), (false, true));
    assert_eq!(both(Filter { sessions: words(&["abcd"]), ..Filter::default() }), (true, false));
    assert_eq!(both(Filter { principals: words(&["ci"]), ..Filter::default() }), (false, true));
    assert_eq!(both(Filter { runs: words(&["r-2"]), denied: true, ..Filter::default() }), (false, true));
    let moment = |text| Some(ago_or_moment(text).unwrap());
    assert_eq!(both(Filter { since: moment("2026-12-02"), ..Filter::default() }), (false, false));
    assert_eq!(both(Filter { until: moment("2026-12-01T08:00:00Z"), ..Filter::default() }), (false, false));
    assert_eq!(both(Filter { since: moment("2026-12-01T08:00:00Z"), ..Filter::default() }), (true, true));
    assert!(known_outcomes().iter().any(|outcome| outcome == "timeout"));
    assert!(known_events().iter().any(|event| event == "audit.gap"));
}

#[test]
fn a_line_shows_what_happened_and_nothing_of_it_steers() {
    let text = line(&record(DENIED), Colours::Off);
    assert!(text.contains("denied") && text.contains("git grep -O  rule=git.grep.open"), "{text}");
    let hostile = record(
        ",\"event_type\":\"run.denied\\u001b[2J\",\"cmd\":\"a\\u001b]0;x\\u0007\",\"argv\":[\"a\\u001b]0;x\\u0007\",\"\\u202e\\nb\"],\"message\":\"\\r\",\"principal\":\"\\u009b31m\",\"x\\u001b\":[\"\\u0000\"]",
    );
    for colours in [Colours::Off, Colours::On] {
        let shown = format!("{}\n{}", line(&hostile, colours), long(&hostile, colours));
        let ours = ["\x1b[0m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[35m", "\x1b[2m"];
        let rest = ours.iter().fold(shown, |text, code| text.replace(code, ""));
        assert!(!rest.chars().any(|c| c != '\n' && crate::audit::is_risky(c)), "{rest:?}");
    }
}

fn polled(follower: &mut Follower) -> Vec<String> {
    let mut out = Vec::new();
    let mut to = |found: Followed| {
        out.push(match found {
            Followed::Entry(entry) => match entry.content {
                Ok(record) => record.seq().to_string(),
                Err(bad) => bad.as_str().to_owned(),
            },
            Followed::Missing(from, to) => format!("missing {from} {to}"),
            Followed::Shrunk(_) => "shrunk".to_owned(),
        });
        Ok(())
    };
    follower.poll(&mut to).unwrap();
    out
}

#[test]
fn following_goes_through_rotations_and_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let live = at("audit.jsonl");
    let append = |bytes: &[u8]| {
        fs::File::options().append(true).create(true).open(&live).unwrap().write_all(bytes).unwrap();
    };
    let mut head = Head::new();
    append(&chain(&mut head, &[START]));
    let mut follower = Follower::new(&live).unwrap();
    assert_eq!(polled(&mut follower), ["1"]);
    assert!(polled(&mut follower).is_empty());
    let second = chain(&mut head, &[START]);
    append(&second[..40]);
    assert!(polled(&mut follower).is_empty(), "half a line is no line");
    append(&second[40..]);
    assert_eq!(polled(&mut follower), ["2"]);
    // Two rotations between two looks.
    append(&chain(&mut head, &[START]));
    fs::rename(&live, at("audit-000000000001.jsonl")).unwrap();
    assert_eq!(polled(&mut follower), ["3"], "there is no file of that name for a moment");
    append(&chain(&mut head, &[START, START]));
    fs::rename(&live, at("audit-000000000004.jsonl")).unwrap();
    append(&chain(&mut head, &[START]));
    assert_eq!(polled(&mut follower), ["4", "5", "6"]);
    // One record never arrives.
    chain(&mut head, &[START]);
    append(&chain(&mut head, &[START]));
    append(b"no record\n");
    assert_eq!(polled(&mut follower), ["missing 7 7", "8", "foreign_line"]);
    fs::File::options().write(true).open(&live).unwrap().set_len(0).unwrap();
    append(&chain(&mut head, &[START]));
    assert_eq!(polled(&mut follower), ["shrunk", "9"]);
    append(b"{\"schema_version\":1,\"chain");
    fs::remove_file(&live).unwrap();
    append(&chain(&mut head, &[START]));
    assert_eq!(polled(&mut follower), ["torn", "10"]);
}
