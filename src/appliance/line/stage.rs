//! One command of a line: its records, its redirections, its start and its end.
//!
//! Purpose: what [`Appliance::run`](super::Appliance::run) does for one command, with descriptors that lead
//! to other commands and to files. A file is opened only after the start of its command is recorded. Called
//! by `execute.rs`.

use std::path::Path;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::errno::Errno;

use super::descriptors::{self, Descriptors, Writer};
use super::execute::Line;
use super::hinted::Trace;
use super::plan::{Redirection, Stage, Target};
use super::{REDIRECTION, StageEnd, StageReport, part};
use crate::appliance::{outcome, records};
use crate::audit::{AuditError, Ending, RunJudged};
use crate::launch::seam::Ready;
use crate::launch::{Ended, EndedBy, LaunchError, OpenFor, Prepared};
use crate::policy::Request;

/// Status of what was killed from here.
pub(super) const KILLED: i32 = 128 + libc::SIGKILL;
/// Status of what could not be started for a reason that is not its own.
const NOT_STARTED: i32 = 126;

impl StageReport {
    /// Of a command that was not reached yet.
    pub(super) fn of(request: &Request) -> Self {
        let name = request.argv.first().map(|name| String::from_utf8_lossy(name).into_owned());
        Self {
            name: name.unwrap_or_default(),
            run_id: None,
            end: StageEnd::NotReached,
            duration: Duration::ZERO,
            killed: 0,
            left: 0,
            denied: Vec::new(),
            hints: Vec::new(),
            limit: None,
            fault: None,
        }
    }
}

impl StageEnd {
    pub(super) fn not_started(error: &LaunchError) -> Self {
        Self::NotStarted { step: error.step.clone(), errno: error.errno, message: error.message.clone() }
    }
}

impl Line<'_> {
    /// Runs the command of this number with these descriptors; its status.
    pub(super) async fn stage(&self, number: usize, io: Descriptors) -> i32 {
        let (judged, appliance) = (self.judged, self.appliance);
        let (Some(stage), Some(plan)) = (judged.expanded.stages.get(number), judged.plans.get(number)) else {
            return NOT_STARTED;
        };
        if self.kill.is_cancelled() {
            return KILLED;
        }
        let prepared = appliance.prepare(plan);
        let ready = appliance.ready(plan, &prepared).await;
        let context = part(self.context, self.line_id, Some(number));
        let env_names = records::env_names(plan);
        let mut facts = records::run_start(
            appliance.config(),
            appliance.sandbox(),
            &stage.request,
            plan,
            &env_names,
            None,
            prepared.as_ref().ok().zip(ready.as_ref().ok()),
        );
        facts.stdin_bytes = self.stdin_bytes.filter(|_| number == 0);
        let open = match appliance.audit.run_start(&context, &facts).await {
            Ok(open) => open,
            Err(error) => return self.unrecorded(error),
        };
        let queue = self.accepted.elapsed();
        self.report(number, |report| report.run_id = Some(open.run_id().to_owned()));
        let went = match (&prepared, &ready) {
            (Ok(prepared), Ok(ready)) => self.go(stage, ready, prepared, io).await,
            (Err(error), _) | (_, Err(error)) => {
                io.complain(&said(stage, error)).await;
                Err(error.clone())
            }
        };
        let (mut end, mut ended) = match went {
            Ok((pid, ended)) => (records::run_end(queue, pid, plan.limits(), &ended, None), ended),
            Err(error) => {
                self.report(number, |report| report.end = StageEnd::not_started(&error));
                let recorded = appliance.audit.run_end(open, &records::not_started(queue, &error)).await;
                return match recorded {
                    Ok(()) => self.status(number),
                    Err(error) => self.unrecorded(error),
                };
            }
        };
        if end.ending == Ending::Cancelled && self.exceeded.get().is_some() {
            end.ending = Ending::OutputLimit;
        }
        if let Err(error) = appliance.audit.run_end(open, &end).await {
            return self.unrecorded(error);
        }
        if let Ok(ended) = &mut ended {
            appliance.keep_touched(&mut ended.touched);
        }
        if let (Ok(prepared), Ok(ended)) = (&prepared, &mut ended)
            && ended.by == EndedBy::Itself
        {
            let trace = Trace {
                number,
                profile: Arc::clone(&prepared.profile),
                starts: std::mem::take(&mut ended.executions),
                success: ended.code == Some(0),
            };
            self.traces.lock().unwrap_or_else(PoisonError::into_inner).push(trace);
        }
        self.report(number, |report| {
            report.end = StageEnd::Ran(outcome::exit(ended.as_ref().ok()));
            report.duration = end.duration;
            match ended {
                Ok(ended) => {
                    report.limit = records::reached(&ended, plan.limits());
                    (report.killed, report.left) = (ended.killed, ended.left);
                    report.denied = ended.denied;
                }
                Err(error) => report.fault = Some(error.message),
            }
        });
        self.status(number)
    }

    /// Opens what the command reads and writes, starts it, and waits for its end.
    async fn go(
        &self,
        stage: &Stage,
        ready: &Ready<'_>,
        prepared: &Prepared,
        io: Descriptors,
    ) -> Result<(Option<i32>, Result<Ended, LaunchError>), LaunchError> {
        // Held until the command has ended.
        let (io, _writers) = self.redirected(io, &stage.redirections).await?;
        let complaint = io.clone();
        let failed = |error: std::io::Error| {
            LaunchError::new("pipes", error.raw_os_error().unwrap_or(0), &format!("pipes failed: {error}"))
        };
        let started = match io.copies().map_err(failed) {
            Ok(stdio) => self.appliance.spawn(ready, prepared, stdio, self.grace).await,
            Err(error) => Err(error),
        };
        let mut running = match started {
            Ok(running) => running,
            Err(error) => {
                complaint.complain(&said(stage, &error)).await;
                return Err(error);
            }
        };
        // From here on it alone holds its ends of the pipes.
        drop((io, complaint));
        self.started.store(true, Ordering::Relaxed);
        let audit = self.appliance.audit.kill();
        let ended = tokio::select! {
            biased;
            ended = running.ended() => ended,
            () = async {
                tokio::select! {
                    () = self.kill.cancelled() => {}
                    () = audit.cancelled() => {}
                }
            } => {
                // A supervisor that no longer listens has ended the run, and says so below; a dead one too.
                drop(running.kill());
                running.ended().await
            }
        };
        let late = self.late.load(Ordering::Relaxed);
        let ended = ended.map(|ended| match ended.by {
            EndedBy::Kill if late => Ended { by: EndedBy::Timeout, ..ended },
            // Its own supervisor was quicker than the deadline of the line, which is the same.
            EndedBy::Timeout => {
                self.late.store(true, Ordering::Relaxed);
                self.kill.cancel();
                ended
            }
            _ => ended,
        });
        Ok((running.pid(), ended))
    }

    /// Follows redirections in their order. What cannot be opened is said where standard error led before
    /// any of them.
    pub(super) async fn redirected(
        &self,
        before: Descriptors,
        redirections: &[Redirection],
    ) -> Result<(Descriptors, Vec<Writer>), LaunchError> {
        let (mut io, mut writers) = (before.clone(), Vec::new());
        for Redirection { descriptor, to } in redirections {
            let opened = match to {
                Target::Null => descriptors::null().map_err(|error| pipes("/dev/null", &error)),
                Target::Same(other) => {
                    let same = io.get(*other).cloned();
                    same.ok_or_else(|| {
                        LaunchError::new(REDIRECTION, libc::EBADF, "there is no such descriptor")
                    })
                }
                Target::Text(text) => descriptors::fed(text.clone())
                    .map(|(read, writer)| {
                        writers.push(writer);
                        read
                    })
                    .map_err(|error| pipes("a text", &error)),
                Target::File { cwd, path, purpose } => {
                    if let Err(error) = self.record_redirection(*descriptor, cwd.path(), path, *purpose).await
                    {
                        self.unrecorded(error);
                        return Err(LaunchError::new(REDIRECTION, 0, "it could not be recorded"));
                    }
                    let (opener, config) =
                        (self.appliance.launcher.opener(), self.appliance.config().clone());
                    let (cwd, path, purpose) = (cwd.clone(), path.clone(), *purpose);
                    let work = move || {
                        let opened = opener.file(&config.workspace.path, &cwd, &path, purpose);
                        opened.map(Arc::new).map_err(|error| cannot(&path, purpose, &error))
                    };
                    let joined = tokio::task::spawn_blocking(work).await;
                    joined.unwrap_or_else(|error| Err(LaunchError::new(REDIRECTION, 0, &error.to_string())))
                }
            };
            match opened {
                Ok(fd) => io.set(*descriptor, fd),
                Err(error) => {
                    before.complain(&error.message).await;
                    return Err(error);
                }
            }
        }
        Ok((io, writers))
    }

    /// Records what is about to be opened, or made, or emptied. Durable before it resolves.
    async fn record_redirection(
        &self,
        descriptor: u8,
        cwd: &Path,
        path: &str,
        purpose: OpenFor,
    ) -> Result<(), AuditError> {
        let operator = match purpose {
            OpenFor::Read | OpenFor::List => "<",
            OpenFor::Write => ">",
            OpenFor::Append => ">>",
        };
        let argv = [format!("{descriptor}{operator}").into_bytes(), path.as_bytes().to_vec()];
        let facts = RunJudged {
            redirection: true,
            argv: &argv,
            cwd,
            env_names: &[],
            rule_id: "workspace",
            rule_kind: "allow",
            reason: None,
            stamps: records::stamps(self.appliance.config()),
        };
        self.appliance.audit.run_judged(self.context, &facts).await
    }

    /// A record could not be written: nothing more is run.
    fn unrecorded(&self, error: AuditError) -> i32 {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.kill.cancel();
        NOT_STARTED
    }

    fn report(&self, number: usize, change: impl FnOnce(&mut StageReport)) {
        if let Some(report) = self.reports.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
            change(report);
        }
    }

    fn status(&self, number: usize) -> i32 {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.get(number).and_then(|report| report.end.status()).unwrap_or(NOT_STARTED)
    }
}

/// What a shell would say of a command that it cannot start.
fn said(stage: &Stage, error: &LaunchError) -> String {
    let name = stage.request.argv.first().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
    match error.errno {
        libc::ENOENT if matches!(error.step.as_str(), "resolve" | "execve") => format!("{name}: not found"),
        _ => format!("{name}: {}", error.message),
    }
}

fn pipes(what: &str, error: &std::io::Error) -> LaunchError {
    LaunchError::new(REDIRECTION, error.raw_os_error().unwrap_or(0), &format!("cannot open {what}: {error}"))
}

/// The words of a shell for a file that cannot be opened.
fn cannot(path: &str, purpose: OpenFor, error: &LaunchError) -> LaunchError {
    let why = match error.errno {
        libc::ENOENT if purpose == OpenFor::Read => "No such file",
        libc::ENOENT => "Directory nonexistent",
        libc::ELOOP | libc::EXDEV => "a link is on the way, which a redirection does not follow",
        libc::EINVAL | libc::ENXIO => "Not a regular file",
        0 => &error.message,
        errno => Errno::from_raw(errno).desc(),
    };
    let verb = if purpose == OpenFor::Read { "open" } else { "create" };
    LaunchError::new(REDIRECTION, error.errno, &format!("cannot {verb} {path}: {why}"))
}
