//! What a replay found: equal cases together, and how it is said.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::Verdict;
use crate::audit::reading::{Place, Record, command_line, safe, shortened};
use crate::config::Config;
use crate::policy::Denial;

/// One record, judged.
#[derive(Debug)]
pub(super) enum Case {
    /// Not a request.
    Other,
    /// A request that cannot be judged again, and which kind it is of.
    Skipped(&'static str),
    /// It depends on what the record does not say.
    Undecidable(Verdict),
    /// It was this, and would be that.
    Judged { was: Verdict, now: Verdict, denial: Option<Denial> },
}

/// Equal requests.
#[derive(Debug)]
struct Group {
    place: Place,
    argv: Vec<String>,
    command: String,
    toolkit: Option<String>,
    was: Verdict,
    was_rule: Option<String>,
    now: Option<Verdict>,
    denial: Option<Denial>,
    count: u64,
}

/// The groups that are kept one by one: a log may hold any number of different requests.
const MOST: usize = 4_096;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    judged: u64,
    same: u64,
    other_rule: u64,
    different: u64,
    undecidable: u64,
    skipped: BTreeMap<&'static str, u64>,
    groups: BTreeMap<String, Group>,
    beyond: u64,
}

impl Found {
    pub(super) fn differ(&self) -> bool {
        self.different > 0
    }

    pub(super) fn undecidable(&self) -> u64 {
        self.undecidable
    }

    pub(super) fn take(&mut self, place: &Place, record: &Record, case: Case) {
        let (was, now, denial) = match case {
            Case::Other => return,
            Case::Skipped(kind) => {
                *self.skipped.entry(kind).or_default() += 1;
                return;
            }
            Case::Undecidable(was) => {
                self.undecidable += 1;
                (was, None, None)
            }
            Case::Judged { was, now, denial } => {
                self.judged += 1;
                if was == now {
                    self.same += 1;
                    let other = denial
                        .as_ref()
                        .is_some_and(|denial| Some(denial.rule.as_ref()) != record.text("rule_id"));
                    self.other_rule += u64::from(other && was == Verdict::Deny);
                    return;
                }
                self.different += 1;
                (was, Some(now), denial)
            }
        };
        let argv: Vec<String> = record.words("argv").map(str::to_owned).collect();
        let toolkit = record.text("toolkit").map(str::to_owned);
        let rule = denial.as_ref().map(|denial| denial.rule.clone());
        let key = format!("{now:?}\0{was:?}\0{rule:?}\0{toolkit:?}\0{argv:?}");
        if let Some(group) = self.groups.get_mut(&key) {
            group.count += 1;
        } else if self.groups.len() < MOST {
            let group = Group {
                place: place.clone(),
                command: shortened(&command_line(record), 200),
                argv,
                toolkit,
                was,
                was_rule: record.text("rule_id").map(str::to_owned),
                now,
                denial,
                count: 1,
            };
            self.groups.insert(key, group);
        } else {
            self.beyond += 1;
        }
    }

    /// Those that differ before those that nobody knows, the most frequent first.
    fn sorted(&self, decided: bool) -> Vec<&Group> {
        let mut groups: Vec<&Group> =
            self.groups.values().filter(|group| group.now.is_some() == decided).collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.command.cmp(&b.command)));
        groups
    }

    pub(super) fn as_text(&self, policy: &Path) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{} requests judged by {}: {} differ, {} are undecidable",
            self.judged + self.undecidable,
            safe(&policy.to_string_lossy()),
            self.different,
            self.undecidable
        );
        for group in self.sorted(true) {
            let now = group.now.map_or("", Verdict::as_str);
            let _ = writeln!(out, "{:<5} -> {now:<5} {}{}", group.was.as_str(), group.command, group.times());
            if let Some(denial) = &group.denial {
                let _ = writeln!(out, "               {}: {}", safe(&denial.rule), safe(&denial.message));
            } else if let Some(rule) = &group.was_rule {
                let _ = writeln!(out, "               it was {}", safe(rule));
            }
        }
        for group in self.sorted(false) {
            let _ = writeln!(out, "{:<5} -> ?     {}{}", group.was.as_str(), group.command, group.times());
            let _ = writeln!(out, "               depends on arguments that were redacted or cut");
        }
        if self.beyond > 0 {
            let _ = writeln!(
                out,
                "{} further requests of other forms are counted above and not listed",
                self.beyond
            );
        }
        if self.other_rule > 0 {
            let _ = writeln!(out, "{} are refused as before, by another rule", self.other_rule);
        }
        for (kind, count) in &self.skipped {
            let _ = writeln!(out, "not judged: {count} {kind}");
        }
        out
    }

    pub(super) fn as_json(&self, policy: &Path, config: &Config) -> Value {
        let list = |decided| -> Vec<Value> { self.sorted(decided).into_iter().map(Group::as_json).collect() };
        json!({
            "policy": policy.to_string_lossy(),
            "policy_digest": config.digest,
            "judged": self.judged,
            "same": self.same,
            "same_by_other_rule": self.other_rule,
            "differ": self.different,
            "undecidable_count": self.undecidable,
            "different": list(true),
            "undecidable": list(false),
            "not_listed": self.beyond,
            "not_judged": self.skipped,
        })
    }
}

impl Group {
    fn times(&self) -> String {
        let kit = self.toolkit.as_ref().map_or_else(String::new, |kit| format!(", toolkit {}", safe(kit)));
        match self.count {
            1 => format!("  ({}{kit})", self.place),
            count => format!("  ({count} times, first {}{kit})", self.place),
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "argv": self.argv,
            "toolkit": self.toolkit,
            "was": self.was.as_str(),
            "was_rule": self.was_rule,
            "now": self.now.map(Verdict::as_str),
            "now_rule": self.denial.as_ref().map(|denial| denial.rule.as_ref()),
            "message": self.denial.as_ref().map(|denial| denial.message.as_str()),
            "count": self.count,
            "first": { "file": self.place.file.to_string_lossy(), "line": self.place.line },
        })
    }
}
