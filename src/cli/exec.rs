//! `cofferdam exec`: one command, judged, confined, recorded; its bytes and its status are ours.

use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::policy::PolicyArgs;
use super::{FAILED, line, terminal};
use crate::appliance::{Appliance, Call, NotStarted, Outcome, Question, Report};
use crate::audit::Context;
use crate::config::LoadOptions;
use crate::policy::Request;
use crate::run::{Chunk, Exit, Stream};

/// An answer is asked for once.
const UNANSWERED: &str = "consent was asked for and not taken; nothing was run";
/// Refused by policy.
pub(super) const REFUSED: u8 = 126;
/// Program not found.
const NOT_FOUND: u8 = 127;
/// How long printing may take after a signal.
const GRACE: Duration = Duration::from_secs(1);
/// The deadline passed.
pub(super) const TIMED_OUT: u8 = 124;

/// Run one command: judged, confined, recorded
///
/// Nothing but the program's own bytes goes to standard output. Standard input is not handed on
/// unless --stdin says so. Output beyond the policy's limit is dropped, and said on standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam exec -- git log --oneline -3
  cofferdam exec --policy policy.toml -- rg -n 'fn main' src
  cofferdam exec --json -- du -sh .
  git diff | cofferdam exec --stdin -- wc -l
  cofferdam exec --line 'git log --oneline | head -n 3'

Exit status: the program's own; 128+N when signal N ended it; 124 it ran out of time; 125 cofferdam
itself failed; 126 refused by policy; 127 program not found.")]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Print one JSON object when the command has ended, with its captured output
    #[arg(long)]
    json: bool,
    /// Hand standard input on to the command; it is read to its end before the command starts
    #[arg(long)]
    stdin: bool,
    /// Wall-clock limit of this run, such as 10s; the policy's maximum holds
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// Directory beneath the workspace to work in [default: its root]
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// Where audit records go in place of the policy's sinks; `-` adds a copy on standard error
    #[arg(long, value_name = "FILE")]
    audit: Option<std::path::PathBuf>,
    /// Run a line of shell syntax in place of one command; no shell is started
    #[arg(long, value_name = "LINE", conflicts_with = "argv")]
    line: Option<String>,
    /// The program and its arguments, exactly as they are judged
    #[arg(last = true, required_unless_present = "line", value_name = "COMMAND")]
    argv: Vec<std::ffi::OsString>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    match execute(args) {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            say(&message);
            ExitCode::from(FAILED)
        }
    }
}

/// One line on standard error. Where nobody reads it, the exit status says it all.
pub(super) fn say(message: &str) {
    drop(writeln!(std::io::stderr(), "cofferdam: {message}"));
}

fn execute(args: Args) -> Result<u8, String> {
    let copy = args.audit.as_deref() == Some(std::path::Path::new("-"));
    let options = LoadOptions {
        audit_stderr: copy,
        audit_file: args.audit.filter(|_| !copy),
        ..LoadOptions::default()
    };
    let config = args.policy.load_with(options).map_err(|e| e.to_string())?;
    for warning in config.warnings() {
        say(&format!("warning: {warning}"));
    }
    let limit = config.limits.output_bytes;
    // Before the runtime: the launcher is started from a single thread.
    let appliance = Appliance::start(config).map_err(|e| e.to_string())?;
    for warning in appliance.warnings() {
        say(&format!("warning: {warning}"));
    }
    let stdin = if args.stdin { Some(read_stdin(appliance.config().limits.stdin_bytes)?) } else { None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("start of the async runtime failed: {e}"))?;
    let status = runtime.block_on(async {
        let stop = Stop::default();
        let signals = stop_on_signal(stop.clone())?;
        let (live, printer) = if args.json { (None, None) } else { print_live(limit, stop.clone()) };
        if let Some(text) = args.line {
            let asked = line::Asked { text, cwd: args.cwd, timeout: args.timeout, stdin, live };
            let outcome = appliance.run_line(asked.into(), stop.token.clone()).await;
            let cut = match printer {
                Some(printer) => printed(printer, &stop.token).await?,
                None => [0, 0],
            };
            signals.abort();
            return line::answer(outcome, args.json, cut, stop.signal.load(Ordering::SeqCst));
        }
        let call = Call {
            request: Request {
                argv: args.argv.into_iter().map(OsStringExt::into_vec).collect(),
                timeout: args.timeout,
                cwd: args.cwd,
                ..Request::default()
            },
            stdin,
            context: Context { tool: Some("exec".to_owned()), ..Context::default() },
            live,
            asker: terminal::asker(),
            ..Call::default()
        };
        let outcome = match appliance.run(call, stop.token.clone()).await {
            Outcome::Ask(question) => {
                let call = asked(*question, stop.token.clone()).await?;
                appliance.run(call, stop.token.clone()).await
            }
            outcome => outcome,
        };
        let cut = match printer {
            Some(printer) => printed(printer, &stop.token).await?,
            None => [0, 0],
        };
        signals.abort();
        answer(outcome, args.json, cut, stop.signal.load(Ordering::SeqCst))
    });
    // A printer that was given up may sit in a write for ever: it must not hold up the end.
    runtime.shutdown_background();
    status
}

/// The call again, with what the person at the terminal says.
async fn asked(question: Question, cancel: CancellationToken) -> Result<Call, String> {
    let put = tokio::task::spawn_blocking(move || {
        terminal::put(&question, &cancel).map(|decision| question.answered(decision))
    });
    put.await.map_err(|e| format!("asking for consent failed: {e}"))?
}

/// Reads all of standard input; more than the policy allows is an error before anything runs.
fn read_stdin(most: usize) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    std::io::stdin()
        .lock()
        .take(bound)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("reading standard input: {e}"))?;
    Ok(bytes)
}

/// How a run is ended from our side, and by which signal, for the exit status.
#[derive(Debug, Clone, Default)]
struct Stop {
    token: CancellationToken,
    /// 0 while nobody asked.
    signal: Arc<AtomicI32>,
}

impl Stop {
    fn with(&self, signal: i32) {
        self.signal.store(signal, Ordering::SeqCst);
        self.token.cancel();
    }
}

/// SIGINT, SIGTERM and SIGHUP kill the run's whole tree; its end is recorded as always.
fn stop_on_signal(stop: Stop) -> Result<tokio::task::JoinHandle<()>, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|e| format!("signal handler: {e}"));
    let mut int = listen(SignalKind::interrupt())?;
    let mut term = listen(SignalKind::terminate())?;
    let mut hup = listen(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        stop.with(tokio::select! {
            _ = int.recv() => libc::SIGINT,
            _ = term.recv() => libc::SIGTERM,
            _ = hup.recv() => libc::SIGHUP,
        });
    }))
}

type Printer = tokio::task::JoinHandle<Result<[u64; 2], String>>;

/// Prints both streams as they come, at most `limit` bytes of each; gives back what was dropped.
fn print_live(limit: usize, stop: Stop) -> (Option<mpsc::Sender<Chunk>>, Option<Printer>) {
    let (sender, mut chunks) = mpsc::channel::<Chunk>(16);
    let printer = tokio::task::spawn_blocking(move || {
        let mut left = [limit, limit];
        let mut cut = [0u64; 2];
        while let Some(chunk) = chunks.blocking_recv() {
            let (out, index): (&mut dyn Write, usize) = match chunk.stream {
                Stream::Stdout => (&mut std::io::stdout(), 0),
                Stream::Stderr => (&mut std::io::stderr(), 1),
            };
            let (Some(left), Some(cut)) = (left.get_mut(index), cut.get_mut(index)) else { continue };
            let (shown, dropped) = chunk.bytes.split_at(chunk.bytes.len().min(*left));
            *left -= shown.len();
            *cut += dropped.len() as u64;
            match out.write_all(shown).and_then(|()| out.flush()) {
                Ok(()) => {}
                // The reader left (`| head`): nobody wants the rest, so the run ends.
                Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {
                    stop.with(libc::SIGPIPE);
                    break;
                }
                Err(e) => return Err(format!("writing output: {e}")),
            }
        }
        Ok(cut)
    });
    (Some(sender), Some(printer))
}

/// Waits until all is printed, however slow the reader is; a signal ends that as well.
async fn printed(printer: Printer, cancel: &CancellationToken) -> Result<[u64; 2], String> {
    let given_up = async {
        cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        cut = printer => cut.map_err(|e| format!("printing failed: {e}"))?,
        () = given_up => Ok([0, 0]),
    }
}

/// One clear line on standard error for everything that is not the program's own doing.
fn answer(outcome: Outcome, json: bool, cut: [u64; 2], stopped: i32) -> Result<u8, String> {
    let status = match &outcome {
        Outcome::Denied(denial) => {
            if !json {
                let advice = denial.advice().map_or(String::new(), |clause| format!(" Instead: {clause}."));
                say(&format!("refused ({}): {}{advice}", denial.rule, denial.message));
            }
            REFUSED
        }
        Outcome::NotStarted(failed) => {
            let missing = failed.step == "resolve";
            if missing && !json {
                say(&format!("{} is allowed, but not installed", failed.name));
            } else if !json {
                say(&format!("{} did not start: {} ({})", failed.name, failed.message, failed.step));
            }
            if missing { NOT_FOUND } else { FAILED }
        }
        Outcome::Ask(_) => return Err(UNANSWERED.to_owned()),
        Outcome::AuditUnavailable(error) => return Err(error.to_string()),
        Outcome::Unrecorded(error) => {
            return Err(format!("the command ran, but its end could not be recorded: {error}"));
        }
        Outcome::Ran(report) => {
            for (name, bytes) in [("stdout", cut[0]), ("stderr", cut[1])].into_iter().filter(|(_, n)| *n > 0)
            {
                say(&format!("{name}: {bytes} bytes dropped beyond the limit (limits.output_bytes)"));
            }
            if let Some(fault) = &report.fault {
                say(&format!("{fault}; what was left of it is killed"));
            } else if report.timed_out && !json {
                let limit = humantime::format_duration(report.timeout);
                say(&format!("timed out after {limit}; {} descendants killed", report.killed));
            }
            if let (Some(limit), false) = (report.limit, json) {
                say(&format!("limit met: {limit}"));
            }
            if let Some(hint) = report.hints.first().filter(|_| !json) {
                let more = report.hints.len().saturating_sub(1);
                let more = if more == 0 { String::new() } else { format!(" (and {more} more, see --json)") };
                let (path, right, remedy) = (&hint.path, hint.right, &hint.remedy);
                say(&format!("hint: the sandbox may have refused to {right} {path}: {remedy}{more}"));
            }
            if report.left > 0 {
                return Err(format!("{} descendants could not be killed", report.left));
            }
            if report.timeout_clamped && !json {
                let limit = humantime::format_duration(report.timeout);
                say(&format!("the time limit was lowered to {limit} (limits.max_timeout)"));
            }
            // As a shell says it of a program that the signal ended.
            if report.cancelled && stopped != 0 { ended_by(stopped) } else { status_of(report) }
        }
    };
    if json {
        let mut out = std::io::stdout();
        writeln!(out, "{}", object(&outcome, status)).map_err(|e| format!("writing the answer: {e}"))?;
    }
    Ok(status)
}

pub(super) fn byte(status: i32) -> u8 {
    u8::try_from(status & 0xFF).unwrap_or(FAILED)
}

pub(super) fn ended_by(signal: i32) -> u8 {
    byte(128 + signal)
}

fn status_of(report: &Report) -> u8 {
    match report.exit {
        Exit::Unknown => FAILED,
        _ if report.timed_out => TIMED_OUT,
        Exit::Code(code) => byte(code),
        Exit::Signal(signal) => ended_by(signal),
    }
}

fn object(outcome: &Outcome, status: u8) -> serde_json::Value {
    match outcome {
        Outcome::Denied(denial) => json!({
            "outcome": "denied", "status": status, "rule": denial.rule, "reason": denial.reason.as_str(),
            "message": denial.message, "layer": denial.layer(), "instead": denial.instead,
        }),
        Outcome::NotStarted(NotStarted { run_id, step, message, .. }) => json!({
            "outcome": "not_started", "status": status, "run_id": run_id, "step": step, "message": message,
        }),
        Outcome::Ask(_) => json!({"outcome": "unanswered", "status": status, "message": UNANSWERED}),
        Outcome::AuditUnavailable(error) | Outcome::Unrecorded(error) => json!({
            "outcome": "audit_unavailable", "status": status, "message": error.to_string(),
        }),
        Outcome::Ran(report) => {
            let mut truncated = serde_json::Map::new();
            for (name, captured) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
                if let Some(dropped) = captured.dropped {
                    truncated
                        .insert(name.to_owned(), json!({"bytes": dropped.bytes, "lines": dropped.lines}));
                }
            }
            let mut object = json!({
                "outcome": "ran",
                "status": status,
                "run_id": report.run_id,
                "exit": match report.exit { Exit::Code(c) => json!(c), Exit::Signal(s) => json!(128 + s), Exit::Unknown => json!(null) },
                "timed_out": report.timed_out,
                "cancelled": report.cancelled,
                "duration_ms": u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
                "killed": report.killed,
                "fault": report.fault,
                "sandbox": report.sandbox(),
                "stdout": report.stdout.text,
                "stderr": report.stderr.text,
                "truncated": truncated,
            });
            if let (Some(limit), Some(object)) = (report.limit, object.as_object_mut()) {
                object.insert("limit".to_owned(), json!(limit));
            }
            object
        }
    }
}
