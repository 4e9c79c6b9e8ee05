//! The tools about background jobs: `start`, `poll`, `output`, `kill`.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;

use super::instalment::{Wanted, both};
use super::job_end::{self, End};
use super::runner::Runner;
use super::server::{Begun, Server, settled};
use super::tools::Entry;
use super::{job_arguments, payload, push, tasks, words};
use crate::run::jobs::{Handle, Job};

impl<R: Runner> Server<R> {
    /// Starts a job and answers as soon as it runs, or it is clear that it does not. A request that is
    /// cancelled before takes its job with it: nobody knows its handle.
    pub(super) async fn start(
        &self,
        entry: &Entry,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let channel = self.channel(entry, context)?;
        let begun = match self.begin(entry, params, context) {
            Ok(begun) => begun,
            Err(early) => return *early,
        };
        let Begun { program, mut call, tap, permit, ask, escapes } = begun;
        call.request.background = true;
        let owner = entry.kit.prefix.clone();
        let handle = Handle { owner, name: words::program(&program), tap: Arc::clone(&tap) };
        let job = match self.jobs.admit(handle) {
            Ok(job) => job,
            Err(in_the_way) => {
                // Through the same door, so that it is recorded.
                call.refused = Some(words::jobs_in_the_way(&in_the_way));
                let outcome = self.runner.run(call, context.ct.clone()).await;
                return Ok(payload::result(&program, outcome).into());
            }
        };
        let runner = Arc::clone(&self.runner);
        let filled = Arc::clone(&tap);
        let run = |cancel| async move {
            let outcome = settled(runner.as_ref(), call, cancel, ask).await;
            let end = End::of(&program, outcome, &filled);
            drop(permit); // only now has everything about it been recorded
            end
        };
        self.jobs.start(&job, run, End::lost);
        if channel.lasts() {
            tokio::spawn(push::follow(Arc::clone(&job), channel.clone(), escapes));
        }
        tokio::select! {
            biased;
            () = tap.begun() => {}
            () = job.over() => {}
            () = context.ct.cancelled() => {
                job.kill();
                job.over().await;
            }
        }
        if let Some(End::Refused(refusal)) = job.ended() {
            return Ok(refusal.clone());
        }
        self.jobs.changed();
        if !channel.lasts() {
            push::announce(&job, &channel).await;
        }
        if tasks::wanted(context) {
            return Ok(self.created(&job)?.into());
        }
        let state = if tap.has_begun() { "running" } else { "exited" };
        Ok(CallToolResult::structured(json!({"job": job.id, "state": state})).into())
    }

    /// How a job is getting on.
    pub(super) fn poll(&self, entry: &Entry, params: CallToolRequestParams) -> CallToolResult {
        match job_arguments::job(params.arguments).and_then(|id| self.find(entry, &id)) {
            Ok(job) => CallToolResult::structured(job_end::polled(&job)),
            Err(message) => payload::error(message),
        }
    }

    /// What a job has written.
    pub(super) fn output(&self, entry: &Entry, params: CallToolRequestParams) -> CallToolResult {
        match self.read(entry, params) {
            Ok(result) => result,
            Err(message) => payload::error(message),
        }
    }

    fn read(&self, entry: &Entry, params: CallToolRequestParams) -> Result<CallToolResult, String> {
        let asked = job_arguments::output(params.arguments)?;
        let job = self.find(entry, &asked.job)?;
        let from = asked.cursor.map(|cursor| self.cursors.positions(&job.id, &cursor)).transpose()?;
        // Before the streams: all that a job writes is there when it has ended.
        let end = job.ended();
        if let Some(End::Withheld(why)) = end {
            return Ok(why.clone());
        }
        let (base64, escapes, max_bytes, last) =
            (asked.base64, asked.escapes, asked.max_bytes, end.is_some());
        let shown = both(&job.handle.tap, Wanted { from, base64, escapes, max_bytes, last })
            .ok_or("cursor lies beyond what the job has written")?;
        let [out, err] = &shown;
        let cursor = self.cursors.cursor(&job.id, [out.next, err.next])?;
        Ok(CallToolResult::structured(job_end::shown(&job, end, cursor, base64, shown)))
    }

    /// Kills a job; one that has ended stays as it is.
    pub(super) fn kill(&self, entry: &Entry, params: CallToolRequestParams) -> CallToolResult {
        match job_arguments::job(params.arguments).and_then(|id| self.find(entry, &id)) {
            Ok(job) => {
                job.kill();
                let end = job.ended();
                let (state, killed) = (job_end::state(end), job_end::killed(&job, end));
                CallToolResult::structured(json!({"job": job.id, "killed": killed, "state": state}))
            }
            Err(message) => payload::error(message),
        }
    }

    fn find(&self, entry: &Entry, id: &str) -> Result<Arc<Job<End>>, String> {
        let owner = &entry.kit.prefix;
        self.jobs.find(owner, id).map_err(|gone| words::no_job(id, gone, self.jobs.bounds(owner)))
    }
}
