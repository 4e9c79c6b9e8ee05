//! The figures of a log, and the page that shows them.
//!
//! Purpose: `audit report`. One pass over the records in bounded memory: whatever a requester can choose (names,
//! rules of names, sessions) is counted up to a bound, and what is beyond it is said. Reads only. Called by
//! `cli/audit/report.rs`.

mod bars;
mod counts;
mod html;
mod page;
mod timeline;

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::{Record, command_line, is_denied, safe, shortened};
use super::verify;
pub use counts::{Counted, Counts};
pub use html::page;
pub use timeline::{Bin, Timeline};

/// Runs in each list of the greatest.
const TOP: usize = 12;
/// Characters of a command line in a list.
const COMMAND: usize = 160;

/// Everything that the page says.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    /// When it was made.
    pub made: String,
    /// Timestamp of the first record taken.
    pub first: Option<String>,
    /// Of the last.
    pub last: Option<String>,
    /// Records taken, after the filter.
    pub records: u64,
    /// Records read.
    pub read: u64,
    /// Lines that are no whole records.
    pub bad_lines: u64,
    /// Chains, as the verifier found them.
    pub chains: Vec<ChainState>,
    /// Runs that were started.
    pub started: u64,
    /// Requests that were refused.
    pub denied: u64,
    /// Questions put to a person.
    pub asked: u64,
    /// Verdicts without a run.
    pub judged: u64,
    /// Runs that ended, by outcome.
    pub outcomes: Counts,
    /// Ended and refused over time.
    pub timeline: Timeline,
    /// Refusals by rule.
    pub rules: Counts,
    /// Refusals by reason.
    pub reasons: Counts,
    /// Runs by command.
    pub commands: Counts,
    /// Refusals by command.
    pub denied_commands: Counts,
    /// Runs that took longest.
    pub slowest: Vec<Run>,
    /// Runs that wrote most.
    pub loudest: Vec<Run>,
    /// Runs that took most memory.
    pub largest: Vec<Run>,
    /// System calls that the filter refused, with how often.
    pub denied_syscalls: Counts,
    /// Breaches of the sandbox.
    pub violations: Counts,
    /// Runs by state of their sandbox.
    pub sandbox: Counts,
    /// Requests by session, the newest of equal counts first.
    pub sessions: Vec<Session>,
    /// Sessions beyond those that are followed one by one.
    pub sessions_beyond: u64,
    /// Requests by who was authenticated.
    pub principals: Counts,
    /// Commands with something redacted, by redaction rule.
    pub redactions: Counts,
    /// Spans that were redacted.
    pub redacted_spans: u64,
    /// Commands with hidden characters.
    pub unicode_risks: u64,
    /// Starts of servers, by version.
    pub servers: Counts,
    /// Policies that were put into force, by digest.
    pub policies: Counts,
    /// Times in which no record could be written.
    pub gaps: u64,
    /// Requests refused meanwhile.
    pub gap_refused: u64,
    /// Runs whose end nobody knows.
    pub lost_runs: u64,
    #[serde(skip)]
    followed: BTreeMap<String, Session>,
}

/// A run in a list of the greatest.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// When it ended.
    pub timestamp: String,
    /// Its id.
    pub run_id: String,
    /// Its redacted command line, shortened, safe to show.
    pub command: String,
    /// How it ended.
    pub outcome: String,
    /// What the list is sorted by: milliseconds or bytes.
    pub value: u64,
}

/// What one session asked for.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Session {
    /// Its id.
    pub session_id: String,
    /// What the client calls itself.
    pub client: String,
    /// Who was authenticated.
    pub principal: Option<String>,
    /// Its first record.
    pub first: String,
    /// Its last record.
    pub last: String,
    /// Runs started.
    pub started: u64,
    /// Requests refused.
    pub denied: u64,
    /// Runs that ended otherwise than with success.
    pub failed: u64,
}

/// What the verifier says of a chain.
#[derive(Debug, Clone, Serialize)]
pub struct ChainState {
    /// Its id.
    pub chain_id: Option<String>,
    /// Its files.
    pub files: Vec<String>,
    /// No break was found.
    pub whole: bool,
    /// Records up to the first break.
    pub records: u64,
    /// `SEQ:HASH` of the last of them.
    pub head: Option<String>,
    /// The first break, in words.
    pub broken: Option<String>,
    /// Its code.
    pub kind: Option<&'static str>,
    /// Runs that are going on.
    pub open_runs: u64,
}

impl ChainState {
    /// From what the verifier found over `files`.
    #[must_use]
    pub fn new(files: Vec<String>, report: &verify::Report) -> Self {
        Self {
            chain_id: report.chain_id.clone(),
            files,
            whole: report.broken.is_none(),
            records: report.records,
            head: report.head.clone(),
            broken: report.broken.as_ref().map(|found| safe(&found.to_string()).into_owned()),
            kind: report.broken.as_ref().map(|found| found.kind.as_str()),
            open_runs: report.open_runs,
        }
    }
}

/// Sessions that are followed one by one.
const SESSIONS: usize = 2_048;

impl Figures {
    /// Takes one record.
    pub fn take(&mut self, record: &Record) {
        let at = record.timestamp();
        self.records += 1;
        if self.first.as_deref().is_none_or(|first| at < first) {
            self.first = Some(at.to_owned());
        }
        if self.last.as_deref().is_none_or(|last| at > last) {
            self.last = Some(at.to_owned());
        }
        match record.event() {
            "run.start" => self.start(record),
            "run.end" => self.end(record),
            "run.denied" => self.refusal(record),
            "run.asked" => self.asked += 1,
            "run.judged" => self.judged += 1,
            "server.start" => self.servers.add(record.text("server_version").unwrap_or("?"), 1),
            "policy.load" => self.policies.add(record.text("policy_digest").unwrap_or("?"), 1),
            "audit.gap" => {
                self.gaps += 1;
                self.gap_refused = self.gap_refused.saturating_add(record.number("refused").unwrap_or(0));
            }
            "audit.recover" => {
                self.lost_runs = self.lost_runs.saturating_add(record.number("lost_runs").unwrap_or(0));
            }
            _ => {}
        }
        self.session(record);
    }

    fn asked_for(&mut self, record: &Record) {
        let spans = record.number("redaction_count").unwrap_or(0);
        self.redacted_spans = self.redacted_spans.saturating_add(spans);
        for rule in record.words("redactions") {
            self.redactions.add(rule, 1);
        }
        self.unicode_risks += u64::from(record.flag("argv_unicode_risk"));
        if let Some(principal) = record.text("principal") {
            self.principals.add(principal, 1);
        }
    }

    fn start(&mut self, record: &Record) {
        self.started += 1;
        self.commands.add(record.text("cmd").unwrap_or(""), 1);
        self.sandbox.add(record.text("sandbox").unwrap_or("?"), 1);
        self.asked_for(record);
    }

    fn refusal(&mut self, record: &Record) {
        self.denied += 1;
        self.rules.add(record.text("rule_id").unwrap_or("?"), 1);
        self.reasons.add(record.text("reason").unwrap_or("?"), 1);
        self.denied_commands.add(record.text("cmd").unwrap_or(""), 1);
        self.timeline.add(record.timestamp(), timeline::Kind::Denied);
        self.asked_for(record);
    }

    fn end(&mut self, record: &Record) {
        let outcome = record.text("outcome").unwrap_or("?");
        self.outcomes.add(outcome, 1);
        self.timeline.add(record.timestamp(), timeline::Kind::of(outcome));
        for call in record.words("denied_syscalls") {
            let (name, count) = call.rsplit_once('=').unwrap_or((call, "1"));
            self.denied_syscalls.add(name, count.parse().unwrap_or(1));
        }
        if let Some(violation) = record.text("violation") {
            self.violations.add(violation, 1);
        }
        let number = |name| record.number(name).unwrap_or(0);
        let bytes = number("stdout_bytes").saturating_add(number("stderr_bytes"));
        let memory = record.number("memory_peak_bytes").or(record.number("max_rss_bytes")).unwrap_or(0);
        keep(&mut self.slowest, record, number("duration_ms"));
        keep(&mut self.loudest, record, bytes);
        keep(&mut self.largest, record, memory);
    }

    fn session(&mut self, record: &Record) {
        let Some(id) = record.text("session_id") else { return };
        if !self.followed.contains_key(id) {
            if self.followed.len() >= SESSIONS {
                self.sessions_beyond += u64::from(record.event() == "run.start" || is_denied(record));
                return;
            }
            let client = [record.text("client_name"), record.text("client_version")];
            let session = Session {
                session_id: id.to_owned(),
                client: client.into_iter().flatten().collect::<Vec<_>>().join(" "),
                principal: record.text("principal").map(str::to_owned),
                first: record.timestamp().to_owned(),
                ..Session::default()
            };
            self.followed.insert(id.to_owned(), session);
        }
        let Some(session) = self.followed.get_mut(id) else { return };
        record.timestamp().clone_into(&mut session.last);
        match record.event() {
            "run.start" => session.started += 1,
            "run.denied" => session.denied += 1,
            "run.end" if record.text("outcome") != Some("success") => session.failed += 1,
            _ => {}
        }
    }

    /// Sorts what was counted; call it once, after the last record.
    pub fn finish(&mut self) {
        self.sessions = std::mem::take(&mut self.followed).into_values().collect();
        let weight = |session: &Session| session.started + session.denied;
        self.sessions.sort_by(|a, b| (weight(b), &b.last).cmp(&(weight(a), &a.last)));
        self.sessions_beyond += self.sessions.iter().skip(TOP * 2).map(weight).sum::<u64>();
        self.sessions.truncate(TOP * 2);
    }
}

/// Keeps `record` if it is one of the greatest of `list`.
fn keep(list: &mut Vec<Run>, record: &Record, value: u64) {
    if value == 0 || (list.len() >= TOP && list.last().is_some_and(|last| last.value >= value)) {
        return;
    }
    let run = Run {
        timestamp: record.timestamp().to_owned(),
        run_id: record.text("run_id").unwrap_or("").to_owned(),
        command: shortened(&command_line(record), COMMAND),
        outcome: record.text("outcome").unwrap_or("").to_owned(),
        value,
    };
    let at = list.partition_point(|other| other.value >= value);
    list.insert(at, run);
    list.truncate(TOP);
}

#[cfg(test)]
mod tests;
