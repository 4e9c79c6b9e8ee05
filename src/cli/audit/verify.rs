//! `cofferdam audit verify`: is a log whole, and how far is it anchored?
//!
//! Purpose: prints what `audit::verify` found, for people or as one JSON object, and turns it into an exit
//! status. Called by `mod.rs`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use crate::audit::verify::{Anchor, Report, verify};

/// Check that a log is whole: no record edited, deleted, swapped or torn, no run without an end.
///
/// Cutting off the newest records does not show in any chain; name a head that was kept elsewhere
/// to find it. Exit status: 0 whole, 1 broken, 2 whole, but there are records after the head that
/// was named, 125 a file could not be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cofferdam audit verify audit.jsonl\n  \
    cofferdam audit verify --json audit-0000000001.jsonl audit.jsonl\n  \
    cofferdam audit verify --expect-head 1042:9f86d0…0f00a08 audit.jsonl")]
pub(super) struct Args {
    /// Log files of one chain, oldest first.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Record that must be there: its number and its hash, as an earlier run printed them.
    #[arg(long, value_name = "SEQ:HASH")]
    expect_head: Option<Anchor>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> ExitCode {
    let report = match verify(&args.files, args.expect_head) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("cofferdam: {error}");
            return ExitCode::from(125);
        }
    };
    if args.json {
        println!("{}", as_json(&report));
    } else {
        print!("{}", as_text(&report));
    }
    match (&report.broken, report.after_anchor) {
        (Some(_), _) => ExitCode::from(1),
        (None, None | Some(0)) => ExitCode::SUCCESS,
        (None, Some(_)) => ExitCode::from(2),
    }
}

fn as_json(report: &Report) -> serde_json::Value {
    let broken = report.broken.as_ref().map(|found| {
        json!({
            "file": found.file.to_string_lossy(),
            "line": found.line,
            "kind": found.kind.as_str(),
            "detail": found.detail,
        })
    });
    json!({
        "whole": broken.is_none(),
        "records": report.records,
        "chain_id": report.chain_id,
        "head": report.head,
        "break": broken,
        "open_runs": report.open_runs,
        "recovered": report.recovered,
        "anchored": report.after_anchor.is_some() && broken.is_none(),
        "after_anchor": report.after_anchor,
    })
}

fn as_text(report: &Report) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    if let Some(found) = &report.broken {
        let _ = writeln!(out, "BROKEN after {} whole records\n{found}", report.records);
        return out;
    }
    let head = report.head.as_deref().unwrap_or("none");
    let _ = writeln!(out, "whole: {} records, head {head}", report.records);
    if report.recovered > 0 {
        let _ =
            writeln!(out, "{} unfinished lines are accounted for by audit.recover records", report.recovered);
    }
    if report.open_runs > 0 {
        let _ = writeln!(out, "{} runs are going on", report.open_runs);
    }
    let _ = match report.after_anchor {
        Some(0) => writeln!(out, "anchored up to the last record"),
        Some(after) => writeln!(out, "anchored, but for the last {after} records"),
        None => writeln!(
            out,
            "unanchored: that no newer records were cut off shows only with --expect-head; keep the head elsewhere"
        ),
    };
    out
}
