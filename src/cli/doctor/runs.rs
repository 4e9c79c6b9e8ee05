//! The attempts that are runs of their own: what may be asked for, how long a run lives, what it
//! may print, and whether each left its records. All through the appliance, like any other command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::report::Line;
use crate::appliance::{Appliance, Call, Outcome, Report};
use crate::audit::{Context, verify};
use crate::config::Config;
use crate::launch::attempts::{Answer, Answered, Expected, Ground, Layer, NAME, TABLE, Task, is_gone};
use crate::policy::Request;
use crate::run::{Chunk, Stream};

/// Wall clock of the run that outlives its time.
const SHORT: Duration = Duration::from_millis(500);
/// Bytes printed beyond the limit.
const SURPLUS: u64 = 1 << 20;
/// Names that are always refused, one of which no policy lists.
const REFUSED: &[&str] = &["bash", "dash", "sh", "zsh", "python3", "env", "sudo"];

type Failed = String;

fn call(argv: Vec<Vec<u8>>) -> Call {
    Call {
        request: Request { argv, ..Request::default() },
        context: Context { tool: Some("doctor".to_owned()), ..Context::default() },
        ..Call::default()
    }
}

fn task(task: &Task) -> Result<Call, Failed> {
    let text = serde_json::to_vec(task).map_err(|e| format!("a path of this host is not text: {e}"))?;
    Ok(call(vec![NAME.into(), text]))
}

/// A run that must come about, or there is nothing to report.
fn ran(outcome: Outcome) -> Result<Box<Report>, Failed> {
    match outcome {
        Outcome::Ran(report) => Ok(report),
        Outcome::Denied(denial) => Err(format!("the policy refuses the attempts: {}", denial.message)),
        Outcome::Ask(_) => Err("the policy asks for consent to the attempts".to_owned()),
        Outcome::AuditUnavailable(e) | Outcome::Unrecorded(e) => Err(e.to_string()),
        Outcome::NotStarted(failed) => Err(format!(
            "the attempts could not be started ({}): {}; this program must be executable for the user of \
             commands: install it on a file system that is not noexec",
            failed.step, failed.message
        )),
    }
}

/// All attempts of the table, made from inside.
pub(super) async fn inside(appliance: &Appliance, ground: &Ground) -> Result<Vec<Line>, Failed> {
    let most = appliance.config().limits.stdin_bytes;
    let program = ground.unlisted.first().map(std::fs::read).and_then(Result::ok);
    let (live, mut chunks) = mpsc::channel::<Chunk>(64);
    let call = Call {
        stdin: program.filter(|bytes| bytes.len() <= most),
        live: Some(live),
        ..task(&Task::Attempts(Box::new(ground.clone())))?
    };
    // Beside the capture, which may be too small for all answers under this policy.
    let reader = tokio::spawn(async move {
        let mut out = Vec::new();
        while let Some(chunk) = chunks.recv().await {
            if chunk.stream == Stream::Stdout {
                out.extend(chunk.bytes);
            }
        }
        out
    });
    let report = ran(appliance.run(call, CancellationToken::new()).await)?;
    let out = reader.await.map_err(|e| e.to_string())?;
    let answers: Vec<Answer> =
        out.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    if answers.is_empty() {
        return Err(format!(
            "the attempts said nothing ({:?}): {}",
            report.exit,
            report.stderr.text.trim_end()
        ));
    }
    let nothing = || (Answered::Error, format!("no answer; the run ended with {:?}", report.exit));
    Ok(TABLE
        .iter()
        .map(|row| {
            let answer = answers.iter().find(|answer| answer.id == row.id);
            let (result, detail) = answer.map_or_else(nothing, |a| (a.result, a.detail.clone()));
            let expected = row.expect.on(ground);
            Line { layer: row.layer, id: row.id, what: row.what, expected, result, detail }
        })
        .collect())
}

/// Requests that the policy must refuse.
pub(super) async fn names(appliance: &Appliance) -> Result<Vec<Line>, Failed> {
    let config = appliance.config();
    let own = || call(vec![NAME.into()]);
    let unlisted = "cofferdam-no-such-program";
    let admitted = config.allow_any || config.allow_patterns.iter().any(|pattern| pattern.is_match(unlisted));
    let unlisted_expected =
        if admitted { Expected::Open("granted: allow_any or allow_patterns") } else { Expected::Blocked };
    let shell = REFUSED.iter().find(|name| !config.commands.contains_key(**name)).copied().unwrap_or("su");
    let everywhere = config.workspace.path == Path::new("/");
    let root_expected =
        if everywhere { Expected::Open("the workspace is all of the host") } else { Expected::Blocked };
    let mut preload = own();
    preload.request.env = vec![("LD_PRELOAD".to_owned(), "x.so".to_owned())];
    let mut outside = own();
    outside.request.cwd = Some(PathBuf::from("/"));
    let too_many = vec![NAME.into(); config.limits.arguments + 1];
    let asked: [(_, _, _, Call); 6] = [
        (
            "names.unlisted",
            "ask for a program that is not listed",
            unlisted_expected,
            call(vec![unlisted.into()]),
        ),
        ("names.shell", "ask for a shell or interpreter", Expected::Blocked, call(vec![shell.into()])),
        ("names.preload", "set LD_PRELOAD for a command", Expected::Blocked, preload),
        ("names.directory", "work in the root directory", root_expected, outside),
        (
            "names.nul",
            "pass an argument with a NUL byte",
            Expected::Blocked,
            call(vec![NAME.into(), b"a\0b".into()]),
        ),
        ("names.arguments", "pass more arguments than allowed", Expected::Blocked, call(too_many)),
    ];
    let mut lines = Vec::new();
    for (id, what, expected, call) in asked {
        let (result, detail) = match appliance.run(call, CancellationToken::new()).await {
            Outcome::Denied(denial) => (Answered::Blocked, format!("refused: {}", denial.rule)),
            Outcome::Ran(_) => (Answered::Open, "it ran".to_owned()),
            Outcome::NotStarted(failed) => (Answered::Open, format!("allowed ({})", failed.message)),
            Outcome::Ask(_) => (Answered::Open, "it would run with consent".to_owned()),
            Outcome::AuditUnavailable(e) | Outcome::Unrecorded(e) => return Err(e.to_string()),
        };
        lines.push(Line { layer: Layer::Names, id, what, expected, result, detail });
    }
    Ok(lines)
}

fn survivors(report: &Report) -> (Answered, String) {
    let pid = report.stdout.text.trim().parse::<i32>();
    match pid {
        Ok(pid) if !is_gone(pid) => (Answered::Open, format!("process {pid} lives on")),
        _ if report.left > 0 => (Answered::Open, format!("{} processes are left", report.left)),
        _ => (Answered::Blocked, format!("killed {}, left 0", report.killed)),
    }
}

/// Runs that try to stay, and one that prints too much.
pub(super) async fn lifetime(appliance: &Appliance) -> Result<Vec<Line>, Failed> {
    let line = |layer, id, what, (result, detail)| Line {
        layer,
        id,
        what,
        expected: Expected::Blocked,
        result,
        detail,
    };
    let mut lines = Vec::new();

    let left = ran(appliance.run(task(&Task::Leave)?, CancellationToken::new()).await)?;
    let end = match left.stdout.text.trim().parse::<i32>() {
        Ok(_) => survivors(&left),
        Err(_) => (Answered::Error, format!("no daemon was made: {}", left.stderr.text.trim_end())),
    };
    lines.push(line(Layer::Lifetime, "life.daemon", "leave a daemon behind (two forks, own session)", end));

    let mut hang = task(&Task::Hang)?;
    hang.request.timeout = Some(SHORT);
    let hung = ran(appliance.run(hang, CancellationToken::new()).await)?;
    let end = if hung.timed_out {
        survivors(&hung)
    } else {
        (Answered::Open, format!("it ended by itself: {:?}", hung.exit))
    };
    lines.push(line(Layer::Lifetime, "life.timeout", "outlive the deadline, with a daemon", end));

    let cancel = CancellationToken::new();
    let (live, mut chunks) = mpsc::channel::<Chunk>(64);
    let started = cancel.clone();
    // Its first output says that the daemon is there.
    tokio::spawn(async move {
        let _: Option<Chunk> = chunks.recv().await;
        started.cancel();
        while chunks.recv().await.is_some() {}
    });
    let hang = Call { live: Some(live), ..task(&Task::Hang)? };
    let cancelled = ran(appliance.run(hang, cancel).await)?;
    let end = if cancelled.cancelled {
        survivors(&cancelled)
    } else {
        (Answered::Open, "it was not cancelled".to_owned())
    };
    lines.push(line(Layer::Lifetime, "life.cancel", "outlive a cancelled request, with a daemon", end));

    let most = appliance.config().limits.output_bytes;
    let flood = Task::Flood(u64::try_from(most).unwrap_or(u64::MAX).saturating_add(SURPLUS));
    let flooded = ran(appliance.run(task(&flood)?, CancellationToken::new()).await)?;
    let kept = flooded.stdout.text.len();
    let end = match &flooded.stdout.dropped {
        // A kibibyte for the line that says what was left out.
        Some(_) if kept <= most + 1024 => {
            (Answered::Blocked, format!("kept {kept} of {} bytes", flooded.stdout.total_bytes))
        }
        _ => (Answered::Open, format!("kept {kept} of {} bytes, {most} allowed", flooded.stdout.total_bytes)),
    };
    lines.push(line(Layer::Limits, "limits.output", "print more than is kept", end));
    Ok(lines)
}

/// Records in the log of this policy; `None` without a file.
pub(super) fn records(log: Option<&Path>) -> Result<Option<verify::Report>, std::io::Error> {
    match log {
        Some(path) if path.exists() => verify::verify(&[path.to_path_buf()], None).map(Some),
        Some(_) => Ok(Some(verify::Report::default())),
        None => Ok(None),
    }
}

/// Whether the log has grown by the records of all calls since `before`, and is whole.
pub(super) fn recorded(log: Option<&Path>, before: u64, config: &Config) -> Line {
    // Six refusals with one record each, five runs with two.
    let wanted = 6 + 2 * 5;
    let (result, detail) = match records(log) {
        Err(e) => (Answered::Error, e.to_string()),
        Ok(None) => (
            Answered::Blocked,
            format!("{} sinks, no file: each call waited for its record", config.audit.sinks.len()),
        ),
        Ok(Some(report)) => match (report.broken, report.records.saturating_sub(before)) {
            (Some(found), _) => (Answered::Open, found.to_string()),
            (None, new) if new < wanted => (Answered::Open, format!("{new} new records, {wanted} expected")),
            (None, new) => {
                let head = report.head.unwrap_or_else(|| "none".to_owned());
                let short = head.get(..head.len().min(24)).map_or_else(String::new, str::to_owned);
                (
                    Answered::Blocked,
                    format!("{new} new records, {} in a whole chain, head {short}…", report.records),
                )
            }
        },
    };
    let what = "run or be refused without a durable record";
    Line { layer: Layer::Audit, id: "audit.chain", what, expected: Expected::Blocked, result, detail }
}
