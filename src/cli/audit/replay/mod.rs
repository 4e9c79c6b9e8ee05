//! `cofferdam audit replay`: the recorded requests, judged by another policy.
//!
//! Purpose: what would a new policy have done to the work of last week. Nothing is run and nothing is recorded; the
//! verdict is that of `explain`, over what the records say.

mod found;
mod unknown;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::logs::{BadLines, Logs, Select};
use crate::audit::reading::{self, Record};
use crate::config::workspace::{Cwd, CwdError};
use crate::policy::{Denial, Policy};
use found::{Case, Found};
use unknown::{Arguments, Outcome};

use crate::cli::policy::PolicyArgs;

/// Judge the recorded requests by another policy, without running anything.
///
/// Taken are runs that were started, refusals, and verdicts without a run. What a record does not say is not made
/// up: where the verdict depends on an argument that was redacted or cut it is undecidable. Exit status: 0 every
/// verdict is the same, 1 some are not, 2 none is another, but some are undecidable or some lines are no records,
/// 125 the policy or a file could not be read.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cofferdam audit replay --policy new.toml --since 7d /var/log/cofferdam\n  \
    cofferdam audit replay --policy new.toml --json audit.jsonl | jq .different"
)]
pub(super) struct Args {
    /// The policy to judge by
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// Directory that commands work in, in place of the policy's
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    logs: Logs,
    #[command(flatten)]
    select: Select,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a policy does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Allow,
    Ask,
    Deny,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    match replay(args) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("cofferdam: {problem}");
            ExitCode::from(super::FAILED)
        }
    }
}

fn replay(args: &Args) -> Result<ExitCode, String> {
    let named = PolicyArgs { policy: Some(args.policy.clone()), workspace: args.workspace.clone() };
    let config = named.load().map_err(|error| error.to_string())?;
    let environment = crate::config::server_environment();
    let policy = Policy::new(Arc::new(config), &environment).map_err(|error| error.to_string())?;
    let failed = |error: io::Error| error.to_string();
    let filter = args.select.filter();
    let mut found = Found::default();
    let mut bad = BadLines::default();
    for entry in reading::entries(args.logs.open().map_err(failed)?) {
        let entry = entry.map_err(failed)?;
        match &entry.content {
            Ok(record) if filter.admits(record) => found.take(&entry.place, record, judged(&policy, record)),
            Ok(_) => {}
            Err(kind) => bad.note(&entry.place, *kind),
        }
    }
    bad.sum_up();
    let mut out = io::stdout().lock();
    let text = if args.json {
        format!("{}\n", found.as_json(&args.policy, policy.config()))
    } else {
        found.as_text(&args.policy)
    };
    out.write_all(text.as_bytes()).map_err(failed)?;
    Ok(match (found.differ(), found.undecidable() + bad.count) {
        (true, _) => ExitCode::from(1),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(2),
    })
}

/// What a record was, and what it would be.
fn judged(policy: &Policy, record: &Record) -> Case {
    let was = match record.event() {
        "run.start" if record.text("consent").is_some() => Verdict::Ask,
        "run.start" => Verdict::Allow,
        "run.denied" if record.text("rule_kind") == Some("consent") => Verdict::Ask,
        "run.denied" => Verdict::Deny,
        "run.judged" if record.text("decision") == Some("deny") => Verdict::Deny,
        "run.judged" => Verdict::Allow,
        "line.redirected" => return Case::Skipped("redirections of a line"),
        _ => return Case::Other,
    };
    if record.text("line_id").is_some() && record.number("line_stage").is_none() {
        return Case::Skipped("lines that were refused as a whole");
    }
    if matches!(record.text("rule_kind"), Some("rate" | "audit"))
        || record.text("reason") == Some("rate_limited")
    {
        return Case::Skipped("refusals for what else went on at that moment");
    }
    let arguments = Arguments::of(record);
    if arguments.is_empty() {
        return Case::Skipped("requests without arguments in the record");
    }
    if record.text("rule_kind") == Some("limit") && record.text("reason") != Some("argv_too_large") {
        return Case::Skipped("refusals for a limit that was asked for, which records do not say");
    }
    let toolkit = record.text("toolkit");
    let cwd = working_directory(policy, toolkit, record.text("cwd"));
    // Of a run the record has the environment that it got; of others the names that were asked for.
    let env: Vec<(String, String)> = match record.event() {
        "run.start" => Vec::new(),
        _ => record.words("env_names").map(|name| (name.to_owned(), String::new())).collect(),
    };
    let judge = |argv: &[&[u8]]| -> (Verdict, Option<Denial>) {
        match policy.judge_toolkit(argv, toolkit, &cwd, &env) {
            Ok(rule) => (if rule.asks { Verdict::Ask } else { Verdict::Allow }, None),
            Err(denial) => (Verdict::Deny, Some(denial)),
        }
    };
    match arguments.judge(policy, judge) {
        Outcome::Undecidable => Case::Undecidable(was),
        Outcome::Decided((now, denial)) => Case::Judged { was, now, denial },
    }
}

/// The directory of the record, or the toolkit's where it is no longer there.
fn working_directory(
    policy: &Policy,
    toolkit: Option<&str>,
    recorded: Option<&str>,
) -> Result<Cwd, CwdError> {
    let config = policy.config();
    let asked = recorded.map(Path::new);
    match config.working_directory(toolkit, asked) {
        Err(CwdError::Missing(_)) => config.working_directory(toolkit, None),
        other => other,
    }
}
