//! `cofferdam audit verify`: is a log whole, and how far is it anchored?
//!
//! Purpose: prints what `audit::verify` found, for people or as one JSON object, and turns it into an exit
//! status. Called by `mod.rs`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::audit::signing::PublicKey;
use crate::audit::verify::{Anchor, Check, Progress, Report};

/// Check that a log is whole: no record edited, deleted, swapped or torn, no run without an end.
///
/// Cutting off the newest records does not show in any chain; name a head that was kept elsewhere, or ask that
/// the last record is a checkpoint, to find it. Exit status: 0 whole; 1 broken; 2 whole, but there are records
/// after the head that was named, or after the last checkpoint where one is required; 125 a file could not be
/// read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cofferdam audit verify audit.jsonl\n  \
    cofferdam audit verify --json audit-*.jsonl audit.jsonl\n  \
    cofferdam audit verify --expect-head 1042:9f86d0…0f00a08 audit.jsonl\n  \
    cofferdam audit verify --require-checkpoint --key checkpoint.key.pub audit.jsonl")]
pub(super) struct Args {
    /// Log files of one chain, in any order.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Record that must be there: its number and its hash, as an earlier run printed them.
    #[arg(long, value_name = "SEQ:HASH")]
    expect_head: Option<Anchor>,
    /// Go on from this record, which an earlier run found whole; what stands before it is not read again.
    #[arg(long, value_name = "SEQ:HASH")]
    from: Option<Anchor>,
    /// The last record must be a checkpoint; with --key one that this key signed.
    #[arg(long)]
    require_checkpoint: bool,
    /// Public key that signs checkpoints; may be given more than once. Each of their signatures is checked.
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> ExitCode {
    let report = match check(args) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("cofferdam: {error}");
            return ExitCode::from(125);
        }
    };
    if args.json {
        println!("{}", as_json(&report));
    } else {
        print!("{}", as_text(&report, args.require_checkpoint));
    }
    let uncovered = args.require_checkpoint && report.after_checkpoint != Some(0);
    match (&report.broken, report.after_anchor) {
        (Some(_), _) => ExitCode::from(1),
        (None, None | Some(0)) if !uncovered => ExitCode::SUCCESS,
        (None, _) => ExitCode::from(2),
    }
}

fn check(args: &Args) -> io::Result<Report> {
    if let (Some(expect), Some(from)) = (args.expect_head, args.from)
        && expect.is_before(&from)
    {
        return Err(io::Error::other(
            "--expect-head names a record before the one of --from: drop one of them",
        ));
    }
    let key = |path: &PathBuf| {
        PublicKey::load(path)
            .map_err(|error| io::Error::new(error.kind(), format!("read of {}: {error}", path.display())))
    };
    let keys = args.key.iter().map(key).collect::<io::Result<Vec<_>>>()?;
    let check = Check { files: args.files.clone(), expect: args.expect_head, from: args.from, keys };
    if !io::stderr().is_terminal() {
        return check.run(&mut |_| {});
    }
    let mut shown: Option<Instant> = None;
    let report = check.run(&mut |progress| {
        const EVERY: Duration = Duration::from_millis(200);
        if shown.is_none_or(|at| at.elapsed() >= EVERY) {
            shown = Some(Instant::now());
            show(progress);
        }
    });
    if shown.is_some() {
        eprint!("\r\x1b[K");
    }
    report
}

fn show(progress: Progress) {
    let percent = (progress.bytes * 100).checked_div(progress.of).unwrap_or(100);
    eprint!("\r{percent:3} % of {}, {} records", bytesize::ByteSize(progress.of), progress.records);
    // A terminal that is gone takes nothing away from the check.
    drop(io::stderr().flush());
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
        "checkpoints": report.checkpoints,
        "after_checkpoint": report.after_checkpoint,
        "signatures_checked": report.signed,
    })
}

fn as_text(report: &Report, required: bool) -> String {
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
    let checked = if report.signed { "signature checked" } else { "signatures not checked: no --key" };
    let _ = match report.after_checkpoint {
        Some(0) => writeln!(out, "{} checkpoints, the last record is one ({checked})", report.checkpoints),
        Some(after) => {
            writeln!(
                out,
                "{} checkpoints, {after} records after the last one ({checked})",
                report.checkpoints
            )
        }
        None if required => writeln!(out, "no checkpoint that counts"),
        None => Ok(()),
    };
    if report.after_anchor.is_none() && report.after_checkpoint == Some(0) && report.signed {
        return out;
    }
    let _ = match report.after_anchor {
        Some(0) => writeln!(out, "anchored up to the last record"),
        Some(after) => writeln!(out, "anchored, but for the last {after} records"),
        None => writeln!(
            out,
            "unanchored: that no newer records were cut off shows only with --expect-head or a signed checkpoint; keep the head elsewhere"
        ),
    };
    out
}
