//! What `doctor` prints: one line an attempt, grouped by layer, or one JSON object a line.

use std::fmt::Write as _;
use std::io::IsTerminal;

use serde_json::{Value, json};

use super::facts::Survey;
use crate::config::Config;
use crate::launch::Facts;
use crate::launch::attempts::{Answered, Expected, Layer, Mark, mark};

/// One attempt with its outcome.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) layer: Layer,
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) expected: Expected,
    pub(super) result: Answered,
    pub(super) detail: String,
}

impl Line {
    fn mark(&self) -> Mark {
        mark(self.expected, self.result)
    }

    fn object(&self) -> Value {
        let (expected, reason) = match self.expected {
            Expected::Blocked => ("blocked", None),
            Expected::Open(reason) => ("open", Some(reason)),
        };
        json!({
            "layer": self.layer.as_str(),
            "id": self.id,
            "attempt": self.what,
            "expected": expected,
            "reason": reason,
            "result": self.result.as_str(),
            "as_expected": self.mark().as_expected(),
            "detail": self.detail,
        })
    }
}

/// All lines, with what they were made on.
#[derive(Debug)]
pub(super) struct Table {
    lines: Vec<Line>,
    head: Vec<(&'static str, String)>,
    summary: Value,
    survey: Survey,
}

impl Table {
    pub(super) fn new(mut lines: Vec<Line>, policy: &Config, facts: &Facts, survey: Survey) -> Self {
        lines.sort_by_key(|line| line.layer);
        let source = super::source(policy);
        let access = if policy.workspace.write { "writable" } else { "read-only" };
        let scratch = facts.scratch.as_ref().map(|path| path.display().to_string());
        let mut head = vec![
            ("policy", format!("{source} ({})", policy.digest)),
            ("workspace", format!("{} ({access})", policy.workspace.path.display())),
            ("user", format!("uid {}, gid {}", facts.uid, facts.gid)),
            ("landlock", format!("ABI {}", facts.landlock_abi)),
            (
                "mounts",
                if facts.mount_namespace { "a namespace of their own" } else { "those of the host" }
                    .to_owned(),
            ),
            ("scratch", scratch.clone().unwrap_or_else(|| "none".to_owned())),
        ];
        head.push(("limits", limits(facts)));
        head.extend(policy.missing.iter().map(|missing| ("missing", missing.clone())));
        let total = lines.len();
        let good = lines.iter().filter(|line| line.mark().as_expected()).count();
        let summary = json!({
            "summary": {"attempts": total, "as_expected": good, "not_as_expected": total - good},
            "policy": source,
            "policy_digest": policy.digest,
            "workspace": policy.workspace.path.display().to_string(),
            "write": policy.workspace.write,
            "uid": facts.uid,
            "gid": facts.gid,
            "landlock_abi": facts.landlock_abi,
            "mount_namespace": facts.mount_namespace,
            "scratch": scratch,
            "limits_by": facts.cgroup.as_str(),
            "cgroup": facts.cgroup.path.as_ref().map(|path| path.display().to_string()),
            "cgroup_controllers": facts.cgroup.controllers,
            "cgroup_reason": facts.cgroup.reason,
            "missing": policy.missing,
            "facts": survey.facts_json(),
            "requirements": survey.requirements_json(),
        });
        Self { lines, head, summary, survey }
    }

    /// Whether every expectation holds.
    pub(super) fn all_as_expected(&self) -> bool {
        self.lines.iter().all(|line| line.mark().as_expected()) && self.survey.holds()
    }

    /// One object a line, the summary last.
    pub(super) fn json(&self) -> String {
        let objects = self.lines.iter().map(Line::object).chain([self.summary.clone()]);
        objects.fold(String::new(), |mut out, object| {
            let _ = writeln!(out, "{object}");
            out
        })
    }

    /// For people.
    pub(super) fn text(&self, colour: bool) -> String {
        let mut out = String::new();
        for (name, value) in &self.head {
            let _ = writeln!(out, "{name:<11}{value}");
        }
        self.survey.text(&mut out, colour);
        let width = |of: fn(&Line) -> usize| self.lines.iter().map(of).max().unwrap_or(0);
        let (ids, whats) = (width(|line| line.id.len()), width(|line| line.what.len()));
        let mut layer = None;
        for line in &self.lines {
            if layer != Some(line.layer) {
                layer = Some(line.layer);
                let _ = writeln!(out, "\n{}", paint(line.layer.as_str(), "1", colour));
            }
            let (word, code) = word(line.mark());
            let word = paint(&format!("{word:<5}"), code, colour);
            let reason = match line.expected {
                Expected::Open(reason) => format!(" [{reason}]"),
                Expected::Blocked => String::new(),
            };
            let _ =
                writeln!(out, "  {word}  {:<ids$}  {:<whats$}  {}{reason}", line.id, line.what, line.detail);
        }
        let _ = write!(out, "\n{}", self.survey.count());
        let (total, good) = (self.lines.len(), self.lines.iter().filter(|l| l.mark().as_expected()).count());
        let _ = writeln!(out, "{total} attempts: {good} as expected, {} not", total - good);
        out
    }
}

/// What holds the limits of a run as a whole, and what of it is missing.
fn limits(facts: &Facts) -> String {
    let group = &facts.cgroup;
    let reason = group.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    match &group.path {
        Some(path) => format!("cgroup {} [{}]{reason}", path.display(), group.controllers.join(", ")),
        None => format!("of each process only{reason}"),
    }
}

/// The word of a mark and its colour.
fn word(mark: Mark) -> (&'static str, &'static str) {
    match mark {
        Mark::Holds => ("ok", "32"),
        Mark::ExpectedOpen => ("open", "36"),
        Mark::Open => ("OPEN", "1;31"),
        Mark::Shut => ("SHUT", "1;33"),
        Mark::Unknown => ("ERROR", "1;33"),
    }
}

pub(super) fn paint(text: &str, code: &str, colour: bool) -> String {
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Colour only where a person reads, and not against their wish (no-color.org).
pub(super) fn wants_colour() -> bool {
    let unset = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    unset && !dumb && std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(results: &[(Expected, Answered)]) -> Table {
        let line = |(expected, result): &(Expected, Answered)| Line {
            layer: Layer::Files,
            id: "files.x",
            what: "try x",
            expected: *expected,
            result: *result,
            detail: "said".into(),
        };
        let policy = Config::builtin(std::path::Path::new("/tmp")).unwrap();
        Table::new(results.iter().map(line).collect(), &policy, &Facts::default(), Survey::default())
    }

    #[test]
    fn one_line_that_is_not_as_expected_spoils_it() {
        let good = [(Expected::Blocked, Answered::Blocked), (Expected::Open("known"), Answered::Open)];
        assert!(table(&good).all_as_expected());
        assert!(table(&good).text(false).ends_with("2 attempts: 2 as expected, 0 not\n"));
        for bad in [
            (Expected::Blocked, Answered::Open),
            (Expected::Open("known"), Answered::Blocked),
            (Expected::Blocked, Answered::Error),
        ] {
            let table = table(&[good[0], bad]);
            assert!(!table.all_as_expected(), "{bad:?}");
            assert!(table.text(false).ends_with("2 attempts: 1 as expected, 1 not\n"));
            assert_eq!(table.summary["summary"]["not_as_expected"], 1);
        }
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        let table = table(&[(Expected::Blocked, Answered::Open)]);
        assert!(!table.text(false).contains('\x1b'));
        assert!(table.text(false).contains("OPEN"));
        assert!(table.text(true).contains("\x1b[1;31mOPEN"));
    }
}
