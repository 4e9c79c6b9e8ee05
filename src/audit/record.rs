//! Record bodies: everything of a line but the chain's frame.
//!
//! Purpose: the one function a record is built by. Every string passes redaction, a cap and the
//! escape here, before it is hashed; `message` is made of the cleaned fields only. A body plus its
//! frame never exceeds [`MAX_LINE`]. Pure, but for the clock. Called by `mod.rs` and `recover.rs`.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use super::Context;
use super::argv::{Argv, TOTAL};
use super::body::{Body, Level, Site};
use super::chain::{ENVELOPE, MAX_LINE};
use super::escape::{bound, cap};
use super::facts::{
    ConsentFacts, Ending, PolicyLoad, PolicyReject, RunAsked, RunDenied, RunEnd, RunJudged, RunStart,
    ServerStart, Stamps,
};
use super::redact::{self, Found, Secrets};

/// Kept free for what a `run.end` says beyond its `run.start`.
const RESERVE: usize = 1_300;

/// What a list takes beyond its items, with the count of those that are left out and what is said of it beside.
const LIST: usize = 160;

/// A run's fields that its end repeats, and how people call it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) run_id: String,
    /// Correlation, command and sandbox members.
    members: String,
    cmd: String,
    sandbox: &'static str,
    /// One command of a line, whose streams are those of the line.
    line: bool,
    /// Values that its end must not show either.
    secrets: Secrets,
}

/// Correlation members.
pub(super) fn correlation(body: &mut Body, site: &Site, context: &Context, found: &mut Found) {
    body.text_if("session_id", context.session_id.as_deref(), 128, found);
    body.text_if("client_name", context.client_name.as_deref(), 128, found);
    body.text_if("client_version", context.client_version.as_deref(), 64, found);
    body.text_if("protocol_version", context.protocol_version.as_deref(), 40, found);
    if let Some(transport) = context.transport {
        body.plain("transport", transport);
        let peer = &context.peer;
        body.text_if("peer_ip", peer.address.map(|at| at.ip().to_string()).as_deref(), 45, found);
        body.integer_if("peer_port", peer.address.map(|at| u64::from(at.port())));
        body.integer_if("peer_pid", peer.pid.or(site.origin.peer_pid).map(u64::from));
        body.integer_if("peer_uid", peer.uid.or(site.origin.peer_uid).map(u64::from));
        let caller = context.caller.as_ref();
        body.text_if("principal", caller.map(|caller| caller.principal.as_str()), 128, found);
        body.plain("auth", caller.map_or("none", |caller| caller.auth));
    }
    body.text_if("request_id", context.request_id.as_deref(), 128, found);
    if let Some(line) = &context.line {
        body.text("line_id", &line.line_id, 64, found);
        body.integer_if("line_stage", line.stage);
    }
    if let Some((trace, span)) = &context.trace
        && is_hex(trace, 32)
        && is_hex(span, 16)
    {
        body.plain("trace_id", trace);
        body.plain("span_id", span);
    }
    if let Some(batch) = &context.batch {
        body.text("batch_id", &batch.id, 64, found);
        body.integer("batch_index", batch.index as u64);
        body.integer("batch_size", batch.size as u64);
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What is asked for, whoever decides about it.
struct Command<'a> {
    argv: &'a [Vec<u8>],
    cwd: &'a Path,
    exe: Option<&'a Path>,
    env_names: &'a [String],
    stdin_bytes: Option<u64>,
    stamps: Stamps,
}

/// Correlation and command members, cut so that frame, these, `others` and the reserve make one line.
fn command(
    site: &Site,
    context: &Context,
    run_id: &str,
    asked: &Command<'_>,
    others: usize,
) -> (Body, String) {
    let mut found = site.found().knowing(&context.secrets);
    let argv = Argv::new(asked.argv, &site.key, &mut found);
    let cmd = cap(argv.clean.first().map_or("", String::as_str), 256).into_owned();
    let mut body = Body::default();
    correlation(&mut body, site, context, &mut found);
    body.plain("run_id", run_id);
    body.text("tool", context.tool.as_deref().unwrap_or("exec"), 128, &mut found);
    if let Some(toolkit) = &context.toolkit {
        body.text("toolkit", toolkit, 64, &mut found);
    }
    body.digest("policy_digest", Some(&site.origin.policy_digest));
    body.plain("cmd", &cmd);
    body.integer("argc", argv.count);
    body.integer("argv_bytes", argv.bytes);
    body.plain("argv_hmac", &argv.hmac);
    body.flag_if("argv_unicode_risk", argv.risk);
    body.path("cwd", asked.cwd, &mut found);
    if let Some(exe) = asked.exe {
        body.path("exe", exe, &mut found);
    }
    if !asked.env_names.is_empty() {
        let names: Vec<String> =
            asked.env_names.iter().map(|name| redact::text(&bound(name), &mut found)).collect();
        body.list_within("env_names", &names, 600, 128);
    }
    body.integer_if("stdin_bytes", asked.stdin_bytes);
    body.stamps(asked.stamps);
    if found.count > 0 {
        body.list("redactions", found.rules.iter().take(32));
        body.integer("redaction_count", found.count);
        body.list("redaction_hmacs", &found.hashes);
    }
    let used = ENVELOPE + body.len() + others + RESERVE;
    let (shown, cut) = argv.fit(TOTAL.min(MAX_LINE.saturating_sub(used)));
    body.list("argv", shown);
    body.flag_if("argv_truncated", cut);
    (body, cmd)
}

/// `run.start`, and what its end will repeat.
pub(super) fn run_start(site: &Site, context: &Context, facts: &RunStart<'_>) -> (Body, Shared) {
    let run_id = uuid::Uuid::now_v7().to_string();
    let mut rest = Body::default();
    let mut found = site.found();
    rest.plain("sandbox", facts.sandbox.state.as_str());
    rest.plain("decision", "allow");
    rest.text("rule_id", facts.rule_id, 128, &mut found);
    rest.plain("rule_kind", facts.rule_kind);
    if let Some(facts) = facts.consent {
        consent(&mut rest, facts, &mut found);
    }
    rest.limits(&facts.limits);
    let mut walls = Body::default();
    // Counted with the others are those of the request alone.
    walls.sandbox(&facts.sandbox, &mut site.found());
    let mut body = Body::new(site, Level::Info, "run.start");
    let asked = Command {
        argv: facts.argv,
        cwd: facts.cwd,
        exe: facts.exe,
        env_names: facts.env_names,
        stdin_bytes: facts.stdin_bytes,
        stamps: facts.stamps,
    };
    let others = body.len() + rest.len() + walls.len();
    let (mut members, cmd) = command(site, context, &run_id, &asked, others);
    members.raw(walls.as_str());
    body.raw(members.as_str());
    body.raw(rest.as_str());
    body.message(&format!("started {cmd}"));
    (
        body,
        Shared {
            run_id,
            members: members.into_text(),
            cmd,
            sandbox: facts.sandbox.state.as_str(),
            line: context.line.is_some(),
            secrets: context.secrets.clone(),
        },
    )
}

/// What a person was asked or said.
fn consent(body: &mut Body, facts: &ConsentFacts, found: &mut Found) {
    body.plain("consent", facts.what);
    body.text_if("consent_id", facts.id.as_deref(), 32, found);
    if let Some(by) = facts.by {
        body.plain("consent_by", by);
    }
    body.text_if("consent_who", facts.who.as_deref(), 256, found);
}

/// `run.asked`.
pub(super) fn run_asked(site: &Site, context: &Context, facts: &RunAsked<'_>) -> Body {
    let run_id = uuid::Uuid::now_v7().to_string();
    let mut rest = Body::default();
    let mut found = site.found();
    rest.plain("decision", "ask");
    rest.text("rule_id", facts.rule_id, 128, &mut found);
    rest.plain("rule_kind", facts.rule_kind);
    consent(&mut rest, facts.consent, &mut found);
    let mut body = Body::new(site, Level::Info, "run.asked");
    let asked = Command {
        argv: facts.argv,
        cwd: facts.cwd,
        exe: facts.exe,
        env_names: facts.env_names,
        stdin_bytes: facts.stdin_bytes,
        stamps: facts.stamps,
    };
    let (members, cmd) = command(site, context, &run_id, &asked, body.len() + rest.len());
    body.raw(members.as_str());
    body.raw(rest.as_str());
    body.message(&format!("asked a person whether to run {cmd}"));
    body
}

/// `run.denied`.
pub(super) fn run_denied(site: &Site, context: &Context, facts: &RunDenied<'_>) -> Body {
    let run_id = uuid::Uuid::now_v7().to_string();
    let mut rest = Body::default();
    let mut found = site.found();
    rest.plain("outcome", "denied");
    rest.plain("decision", "deny");
    rest.text("rule_id", facts.rule_id, 128, &mut found);
    rest.plain("rule_kind", facts.rule_kind);
    rest.plain("reason", facts.reason);
    if let Some(facts) = facts.consent {
        consent(&mut rest, facts, &mut found);
    }
    let mut body = Body::new(site, Level::Warning, "run.denied");
    let asked = Command {
        argv: facts.argv,
        cwd: facts.cwd,
        exe: None,
        env_names: facts.env_names,
        stdin_bytes: facts.stdin_bytes,
        stamps: facts.stamps,
    };
    let (members, cmd) = command(site, context, &run_id, &asked, body.len() + rest.len());
    body.raw(members.as_str());
    body.raw(rest.as_str());
    body.message(&format!("denied {cmd}: {}", facts.reason));
    body
}

/// `run.judged`: a verdict, and nothing was to be started. `line.redirected`: a file is about to be opened.
pub(super) fn run_judged(site: &Site, context: &Context, facts: &RunJudged<'_>) -> Body {
    let run_id = uuid::Uuid::now_v7().to_string();
    let mut rest = Body::default();
    let mut found = site.found();
    rest.plain("decision", if facts.reason.is_some() { "deny" } else { "allow" });
    rest.text("rule_id", facts.rule_id, 128, &mut found);
    rest.plain("rule_kind", facts.rule_kind);
    if let Some(reason) = facts.reason {
        rest.plain("reason", reason);
    }
    if !facts.redirection {
        rest.flag("dry_run", true);
    }
    let event = if facts.redirection { "line.redirected" } else { "run.judged" };
    let mut body = Body::new(site, Level::Info, event);
    let asked = Command {
        argv: facts.argv,
        cwd: facts.cwd,
        exe: None,
        env_names: facts.env_names,
        stdin_bytes: None,
        stamps: facts.stamps,
    };
    let (members, cmd) = command(site, context, &run_id, &asked, body.len() + rest.len());
    body.raw(members.as_str());
    body.raw(rest.as_str());
    body.message(&match facts.reason {
        Some(reason) => format!("would deny {cmd}: {reason}"),
        None if facts.redirection => format!("redirected {cmd}"),
        None => format!("would allow {cmd}"),
    });
    body
}

/// `run.end`.
pub(super) fn run_end(site: &Site, shared: &Shared, facts: &RunEnd) -> Body {
    let level = match facts.ending {
        Ending::Exited(_) | Ending::Cancelled if facts.violation.is_none() => Level::Info,
        Ending::SandboxError | Ending::Lost => Level::Error,
        _ => Level::Warning,
    };
    let mut found = site.found().knowing(&shared.secrets);
    let outcome = facts.ending.as_str();
    let mut body = Body::new(site, level, "run.end");
    body.raw(&shared.members);
    body.plain("sandbox", if facts.ending == Ending::SandboxError { "failed" } else { shared.sandbox });
    body.plain("outcome", outcome);
    let signal = match facts.ending {
        Ending::Exited(code) => {
            body.integer("exit_code", u64::try_from(code.clamp(0, 255)).unwrap_or(255));
            None
        }
        Ending::Signal(number) => Some(number),
        _ => facts.signal,
    };
    let signal = signal.map(signal_name);
    if let Some(name) = &signal {
        body.plain("signal", name);
    }
    if let Some(reason) = facts.stop_reason.or(facts.ending.natural_stop()) {
        body.plain("stop_reason", reason.as_str());
    }
    if let Some(violation) = facts.violation {
        body.plain("violation", violation);
    }
    body.integer_if("pid", facts.pid.map(u64::from));
    body.millis("duration_ms", facts.duration);
    body.millis("queue_ms", facts.queue);
    let captured = |bytes: Option<u64>| bytes.or((!shared.line).then_some(0));
    body.integer_if("stdout_bytes", captured(facts.stdout_bytes));
    body.integer_if("stderr_bytes", captured(facts.stderr_bytes));
    body.flag("output_truncated", facts.output_truncated);
    if let Some(cpu) = facts.cpu_user {
        body.millis("cpu_user_ms", cpu);
    }
    if let Some(cpu) = facts.cpu_sys {
        body.millis("cpu_sys_ms", cpu);
    }
    body.integer_if("max_rss_bytes", facts.max_rss_bytes);
    body.integer_if("memory_peak_bytes", facts.memory_peak_bytes);
    body.integer("procs_killed", facts.procs_killed);
    body.integer("procs_left", facts.procs_left);
    let mut last = Body::default();
    let code = facts.error_code.as_deref().or(match facts.ending {
        // The schema asks for a code with these; a caller that names none gets the outcome's name.
        Ending::SpawnError | Ending::SandboxError => Some(outcome),
        _ => None,
    });
    if let Some(code) = code {
        last.plain("error_code", &code_of(code));
    }
    last.text_if("error_text", facts.error_text.as_deref(), 256, &mut found);
    if let Some(symbol) =
        facts.errno.map(|number| format!("{:?}", Errno::from_raw(number))).filter(|s| s.starts_with('E'))
    {
        last.plain("errno", &symbol);
    }
    last.message(&match (facts.ending, signal) {
        (Ending::Exited(code), _) => format!("{} exited {code}", shared.cmd),
        (_, Some(name)) => format!("{} ended: {outcome}, {name}", shared.cmd),
        _ => format!("{} ended: {outcome}", shared.cmd),
    });
    // What the command has done comes last to its room: it chooses how much that is, and how long its arguments.
    let room = |body: &Body| MAX_LINE.saturating_sub(ENVELOPE + body.len() + last.len() + LIST);
    if !facts.denied_syscalls.is_empty() {
        body.list_within("denied_syscalls", &facts.denied_syscalls, room(&body).min(512), 64);
    }
    if facts.executed > 0 {
        let lines: Vec<String> =
            facts.executions.iter().map(|start| command_line(start, &mut found)).collect();
        body.list_within("exec", &lines, room(&body).min(2048), 256);
        body.integer("exec_count", facts.executed);
        if let Some(fidelity) = facts.argv_fidelity {
            body.plain("argv_fidelity", fidelity);
        }
    }
    body.raw(last.as_str());
    body
}

/// One start as a line: the path, then the redacted arguments after the name.
fn command_line(start: &[String], found: &mut Found) -> String {
    let bounded: Vec<Cow<'_, str>> = start.iter().map(|text| bound(text)).collect();
    redact::argv(&bounded, found).join(" ")
}

/// `SIGKILL`, `SIGRTMIN+3`, or `SIG99`.
fn signal_name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) if (34..=64).contains(&number) => format!("SIGRTMIN+{}", number - 34),
        Err(_) => format!("SIG{}", number.unsigned_abs()),
    }
}

/// A code in the alphabet of the schema: snake_case, at most 64 characters.
fn code_of(code: &str) -> String {
    let snake = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' }
    };
    let code: String = code.chars().map(snake).skip_while(|c| !c.is_ascii_lowercase()).take(64).collect();
    if code.is_empty() { "unknown".to_owned() } else { code }
}

/// `server.start`.
pub(super) fn server_start(site: &Site, facts: &ServerStart, sinks: &[String], new_chain: bool) -> Body {
    let mut body = Body::new(site, Level::Info, "server.start");
    if let Some(transport) = facts.transport {
        body.plain("transport", transport);
        body.integer_if("peer_pid", site.origin.peer_pid.map(u64::from));
        body.integer_if("peer_uid", site.origin.peer_uid.map(u64::from));
    }
    body.integer("pid", std::process::id().into());
    body.digest("policy_digest", Some(&site.origin.policy_digest));
    body.list("sinks", sinks);
    body.integer_if("landlock_abi", facts.landlock_abi.map(u64::from));
    body.plain("seccomp", if facts.seccomp { "filter" } else { "off" });
    if let Some(by) = facts.limits_by {
        body.plain("limits_by", by);
    }
    if let Some(host) = &facts.host {
        let mut found = site.found();
        body.text("kernel", &host.kernel, 128, &mut found);
        body.text("container", &host.container, 64, &mut found);
        body.flag("mount_namespace", host.mount_namespace);
        body.flag("server_confined", host.confined);
        body.list_within("required", &host.required, 600, 64);
        body.list_within("host_findings", &host.findings, 1_200, 64);
        let facts: Vec<String> =
            host.facts.iter().map(|fact| redact::text(&bound(fact), &mut found)).collect();
        body.list_within("host_facts", &facts, 4_000, 280);
    }
    if facts.host_mounts {
        body.plain("sandbox_mounts", "host");
    }
    body.stamps(facts.stamps);
    let chain = if new_chain { ", new chain" } else { "" };
    body.message(&format!("cofferdam {} started{chain}", env!("CARGO_PKG_VERSION")));
    body
}

/// `server.stop`.
pub(super) fn server_stop(site: &Site, uptime: Duration, runs: u64, failed: u64) -> Body {
    let mut body = Body::new(site, Level::Info, "server.stop");
    body.millis("uptime_ms", uptime);
    body.integer("runs", runs);
    body.integer("runs_failed", failed);
    body.message(&format!("cofferdam stopped after {runs} runs"));
    body
}

/// `policy.load`.
pub(super) fn policy_load(site: &Site, facts: &PolicyLoad) -> Body {
    let mut found = site.found();
    let mut body = Body::new(site, Level::Info, "policy.load");
    body.plain("outcome", "success");
    body.digest("policy_digest", Some(&site.origin.policy_digest));
    body.digest("policy_prev_digest", facts.previous.as_deref());
    body.text("policy_source", &site.origin.policy_source, 700, &mut found);
    body.integer("policy_rules", site.origin.policy_rules);
    body.digest("sandbox_digest", facts.sandbox_digest.as_deref());
    if !facts.landlock_fs.is_empty() {
        body.list_within("landlock_fs", &facts.landlock_fs, 3_500, 280);
    }
    body.digest("seccomp_digest", facts.seccomp_digest.as_deref());
    body.stamps(facts.stamps);
    body.message(&format!("policy loaded, {} rules", site.origin.policy_rules));
    body
}

/// `policy.reject`: of the policy that stays in force.
pub(super) fn policy_reject(site: &Site, facts: &PolicyReject<'_>) -> Body {
    let mut found = site.found();
    let mut body = Body::new(site, Level::Error, "policy.reject");
    body.plain("outcome", "rejected");
    body.digest("policy_digest", Some(&site.origin.policy_digest));
    body.text("policy_source", &site.origin.policy_source, 700, &mut found);
    body.plain("error_code", facts.code);
    body.text("error_text", facts.text, 256, &mut found);
    body.message("policy rejected, the one in force stays");
    body
}
