//! A judged line, run: lists in their order, the members of a pipeline all at once.
//!
//! Purpose: descriptors, statuses, the one deadline and the one kill of a line. What belongs to one command
//! is in `stage.rs`. Called by tools through [`Appliance::run_line`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::descriptors::{self, Descriptors};
use super::hinted::Trace;
use super::judge::Judged;
use super::plan::{self, Entry, Member, Pipeline};
use super::stage::KILLED;
use super::{Appliance, LineCall, LineDenied, LineOutcome, LineReport, StageEnd, StageReport};
use crate::appliance::records;
use crate::audit::{AuditError, Context, Secrets};
use crate::launch::LaunchError;
use crate::policy::{Denial, Request};
use crate::run::foreground::drain;
use crate::run::{Budget, Chunk, Stream, Tap};
use crate::syntax::tree::Connector;

/// A line that runs.
pub(super) struct Line<'l> {
    pub(super) appliance: &'l Appliance,
    pub(super) judged: &'l Judged,
    /// Who asks, as the records of the line as a whole say it.
    pub(super) context: &'l Context,
    pub(super) line_id: &'l str,
    /// Bytes of standard input, for the record of the first command.
    pub(super) stdin_bytes: Option<u64>,
    pub(super) accepted: Instant,
    /// Between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Ends everything.
    pub(super) kill: CancellationToken,
    /// It was the deadline that did.
    pub(super) late: AtomicBool,
    /// It was the limit of a stream that did.
    pub(super) exceeded: Arc<OnceLock<Stream>>,
    pub(super) reports: Mutex<Vec<StageReport>>,
    /// What is left of commands that ended by themselves.
    pub(super) traces: Mutex<Vec<Trace>>,
    /// A record could not be written.
    pub(super) unrecorded: Mutex<Option<AuditError>>,
    /// A command was started.
    pub(super) started: AtomicBool,
    /// The status with `pipefail`.
    pipefail: Mutex<i32>,
}

type Status<'f> = Pin<Box<dyn Future<Output = i32> + Send + 'f>>;

impl Appliance {
    /// Judges a line as a whole, and runs it if nothing of it is refused. When `cancel` fires, everything is
    /// killed and the line is reported as cancelled.
    pub async fn run_line(&self, mut call: LineCall, cancel: CancellationToken) -> LineOutcome {
        let accepted = Instant::now();
        self.keep_secrets(&mut call);
        let line_id = uuid::Uuid::now_v7().to_string();
        let judged = match self.judged(&call).await {
            Ok(judged) => judged,
            Err(refused) => return self.line_denied(&call, &line_id, *refused).await,
        };
        let at_once = plan::at_once(&judged.expanded.list);
        // All of them or none: lines that hold some of their places each would wait for one another.
        let toolkit = call.toolkit.as_deref();
        let places = if call.queued {
            self.places.wait_many(toolkit, at_once, &cancel).await
        } else {
            self.places.take_many(toolkit, at_once)
        };
        let _places = match places {
            Ok(places) => places,
            Err(denial) => return self.line_denied(&call, &line_id, (denial, None)).await,
        };
        let limits = self.config().limits_of(call.toolkit.as_deref());
        let most = Budget { bytes: limits.output_bytes, lines: limits.output_lines };
        let asked = call.budget.unwrap_or(most);
        let budget = Budget { bytes: asked.bytes.min(most.bytes), lines: asked.lines.min(most.lines) };
        let first = judged.plans.first();
        let timeout = first.map_or(limits.timeout, |plan| plan.timeout());
        let timeout_clamped = first.is_some_and(|plan| plan.timeout_clamped());
        let context = call.context(&line_id, None);
        let reports = judged.expanded.stages.iter().map(|stage| StageReport::of(&stage.request)).collect();
        let line = Line {
            appliance: self,
            judged: &judged,
            context: &context,
            line_id: &line_id,
            stdin_bytes: call.stdin.as_ref().map(|bytes| bytes.len() as u64),
            accepted,
            grace: call.grace,
            kill: CancellationToken::new(),
            late: AtomicBool::new(false),
            exceeded: Arc::default(),
            reports: Mutex::new(reports),
            traces: Mutex::default(),
            unrecorded: Mutex::new(None),
            started: AtomicBool::new(false),
            pipefail: Mutex::new(0),
        };
        let tap = call.tap.clone().unwrap_or_default();
        let started = Instant::now();
        let live = if call.end_at_limit { Some(line.within(budget, call.live)) } else { call.live };
        let ended = line.run(call.stdin, (budget, &tap, live), timeout, &cancel).await;
        let (status, cancelled) = match ended {
            Ok(ended) => ended,
            // Descriptors ran out before anything was started.
            Err(error) => (line.broken(&error), false),
        };
        if let Some(error) = taken(&line.unrecorded) {
            let ran = line.started.load(Ordering::Relaxed);
            return if ran { LineOutcome::Unrecorded(error) } else { LineOutcome::AuditUnavailable(error) };
        }
        let timed_out = line.late.load(Ordering::Relaxed);
        let pipefail = taken_copy(&line.pipefail);
        let mut stages = std::mem::take(&mut *line.reports.lock().unwrap_or_else(PoisonError::into_inner));
        let stderr = tap.captured(Stream::Stderr);
        line.hint(&mut stages, &stderr.text);
        let report = LineReport {
            line_id: line_id.clone(),
            status,
            pipefail: if status == KILLED && (timed_out || cancelled) { KILLED } else { pipefail },
            stages,
            stdout: tap.captured(Stream::Stdout),
            stderr,
            timed_out,
            cancelled,
            exceeded: line.exceeded.get().copied(),
            duration: started.elapsed(),
            timeout,
            timeout_clamped,
        };
        match self.audit.line_end(&context, &records::line_end(&report)).await {
            Ok(()) => LineOutcome::Ran(Box::new(report)),
            Err(error) => LineOutcome::Unrecorded(error),
        }
    }

    /// What `$NAME` puts into words must not stand in records where its name says that it is a secret.
    pub(super) fn keep_secrets(&self, call: &mut LineCall) {
        let variables = self.policy.variables();
        call.context.secrets =
            Secrets::of(variables.iter().chain(call.env.iter().map(|(name, value)| (name, value))));
    }

    /// Records the refusal of a line, once.
    async fn line_denied(
        &self,
        call: &LineCall,
        line_id: &str,
        (denial, of): (Denial, Option<(usize, Request)>),
    ) -> LineOutcome {
        let stage = of.as_ref().map(|(number, _)| *number);
        let request = of.map(|(_, request)| request).unwrap_or_else(|| call.whole());
        let context = call.context(line_id, stage);
        let env_names: Vec<String> = request.env.iter().map(|(name, _)| name.clone()).collect();
        let facts = records::run_denied(self.config(), &request, &env_names, call.stdin.as_ref(), &denial);
        let recorded = self.audit.run_denied(&context, &facts).await;
        let name = stage.and(request.argv.first()).map(|name| String::from_utf8_lossy(name).into_owned());
        match recorded {
            Ok(()) => {
                LineOutcome::Denied(Box::new(LineDenied { denial, stage, name: name.unwrap_or_default() }))
            }
            Err(error) => LineOutcome::AuditUnavailable(error),
        }
    }
}

type Kept<'t> = (Budget, &'t Arc<Tap>, Option<mpsc::Sender<Chunk>>);

impl Line<'_> {
    /// Counts what is written, and ends the line beyond the limit.
    fn within(&self, budget: Budget, live: Option<mpsc::Sender<Chunk>>) -> mpsc::Sender<Chunk> {
        let (sender, mut chunks) = mpsc::channel::<Chunk>(16);
        let (exceeded, kill) = (Arc::clone(&self.exceeded), self.kill.clone());
        tokio::spawn(async move {
            let (mut stdout, mut stderr) = (0_usize, 0_usize);
            while let Some(chunk) = chunks.recv().await {
                let count = if chunk.stream == Stream::Stdout { &mut stdout } else { &mut stderr };
                *count = count.saturating_add(chunk.bytes.len());
                if *count > budget.bytes {
                    // The first one counts.
                    exceeded.get_or_init(|| chunk.stream);
                    kill.cancel();
                }
                if let Some(live) = &live {
                    drop(live.send(chunk).await); // nobody listens any more; the count goes on
                }
            }
        });
        sender
    }

    /// The status, and whether the caller ended it.
    async fn run(
        &self,
        stdin: Option<Vec<u8>>,
        (budget, tap, live): Kept<'_>,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> std::io::Result<(i32, bool)> {
        tap.begin(budget)?;
        let (stdin, writer) = match stdin {
            None => (descriptors::null()?, None),
            Some(bytes) => descriptors::fed(bytes).map(|(fd, writer)| (fd, Some(writer)))?,
        };
        let (stdout, out) = descriptors::captured()?;
        let (stderr, err) = descriptors::captured()?;
        let over = CancellationToken::new();
        let read = |pipe: pipe::Receiver, stream, live| {
            tokio::spawn(drain(pipe, stream, Arc::clone(tap), live, over.clone()))
        };
        let (stdout, stderr) =
            (read(stdout, Stream::Stdout, live.clone()), read(stderr, Stream::Stderr, live));
        let mut work = self.list(&self.judged.expanded.list, Descriptors([stdin, out, err]));
        let mut cancelled = false;
        let status = tokio::select! {
            biased;
            status = &mut work => status,
            () = cancel.cancelled() => {
                cancelled = true;
                self.kill.cancel();
                work.await;
                KILLED
            }
            () = tokio::time::sleep(timeout) => {
                self.late.store(true, Ordering::Relaxed);
                self.kill.cancel();
                work.await;
                KILLED
            }
        };
        drop(writer);
        over.cancel();
        stdout.await.map_err(std::io::Error::other)?;
        stderr.await.map_err(std::io::Error::other)?;
        let late = self.late.load(Ordering::Relaxed) && !cancelled;
        Ok((if late { KILLED } else { status }, cancelled))
    }

    fn list<'f>(&'f self, list: &'f [Entry], io: Descriptors) -> Status<'f> {
        Box::pin(async move {
            let mut status = 0;
            for entry in list {
                let pipelines = std::iter::once((None, &entry.first))
                    .chain(entry.rest.iter().map(|(connector, pipeline)| (Some(*connector), pipeline)));
                for (connector, pipeline) in pipelines {
                    let runs = match connector {
                        None => true,
                        Some(Connector::And) => status == 0,
                        Some(Connector::Or) => status != 0,
                    };
                    if self.kill.is_cancelled() {
                        return KILLED;
                    }
                    if runs {
                        status = self.pipeline(pipeline, io.clone()).await;
                    }
                }
            }
            status
        })
    }

    async fn pipeline(&self, pipeline: &Pipeline, io: Descriptors) -> i32 {
        let members = match self.members(&pipeline.members, io) {
            Ok(members) => members,
            Err(error) => return self.broken(&error),
        };
        let statuses = together(members).await;
        let last = statuses.last().copied().unwrap_or(0);
        let failed = statuses.iter().rev().find(|status| **status != 0).copied().unwrap_or(0);
        let turned = |status: i32| if pipeline.negated { i32::from(status == 0) } else { status };
        *self.pipefail.lock().unwrap_or_else(PoisonError::into_inner) = turned(failed);
        turned(last)
    }

    /// Each member with its ends of the pipes, and nobody else with them.
    fn members<'f>(&'f self, members: &'f [Member], io: Descriptors) -> std::io::Result<Vec<Status<'f>>> {
        let mut made = Vec::with_capacity(members.len());
        let Descriptors([mut stdin, stdout, stderr]) = io;
        for (at, member) in members.iter().enumerate() {
            let (next, out) = if at.saturating_add(1) == members.len() {
                (descriptors::null()?, Arc::clone(&stdout))
            } else {
                descriptors::pipe()?
            };
            let own = Descriptors([std::mem::replace(&mut stdin, next), out, Arc::clone(&stderr)]);
            made.push(self.member(member, own));
        }
        Ok(made)
    }

    fn member<'f>(&'f self, member: &'f Member, io: Descriptors) -> Status<'f> {
        match member {
            Member::Stage(number) => Box::pin(self.stage(*number, io)),
            Member::Directory => Box::pin(async { 0 }),
            Member::Group { list, redirections } => Box::pin(async move {
                match self.redirected(io, redirections).await {
                    Ok((io, _writers)) => self.list(list, io).await,
                    Err(_) => 2,
                }
            }),
        }
    }

    /// There are no descriptors left: everything ends, and each command that was not reached says why.
    fn broken(&self, error: &std::io::Error) -> i32 {
        self.kill.cancel();
        let failed =
            LaunchError::new("pipes", error.raw_os_error().unwrap_or(0), &format!("pipes failed: {error}"));
        for report in self.reports.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if report.end == StageEnd::NotReached {
                report.end = StageEnd::not_started(&failed);
            }
        }
        126
    }
}

fn taken<T>(of: &Mutex<Option<T>>) -> Option<T> {
    of.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn taken_copy<T: Copy>(of: &Mutex<T>) -> T {
    *of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs all of them at the same time, to the end of the last one.
async fn together(mut all: Vec<Status<'_>>) -> Vec<i32> {
    let mut ended: Vec<Option<i32>> = vec![None; all.len()];
    std::future::poll_fn(move |context| {
        for (future, end) in all.iter_mut().zip(&mut ended) {
            if end.is_none()
                && let Poll::Ready(status) = future.as_mut().poll(context)
            {
                *end = Some(status);
            }
        }
        let statuses: Option<Vec<i32>> = ended.iter().copied().collect();
        statuses.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
