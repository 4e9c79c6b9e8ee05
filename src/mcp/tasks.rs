//! The tasks extension of the protocol (`io.modelcontextprotocol/tasks`): a job as a task.
//!
//! Purpose: a client that declares it needs neither `poll` nor `output`: `start` answers with a task, and
//! `tasks/get` with how it is getting on and, at its end, with all that `poll` and `output` would say. Both
//! look at the one registry of jobs, so a task can be followed by its handle as well. A task's id is the
//! handle with a seal, which nobody guesses. Called by `server.rs`; rmcp lets only clients in that declared
//! the extension.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use rmcp::model::{CallToolResult, CreateTaskResult, DetailedTask, ErrorData, JsonObject, Task, TaskPayload};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value};

use super::instalment::{Wanted, both};
use super::job_end::{self, End};
use super::level;
use super::render::Escapes;
use super::runner::Runner;
use super::server::Server;
use crate::run::jobs::Job;

/// What the seal of an id is for.
const USAGE: &str = "task";
/// Bytes of the seal in an id.
const SEAL: usize = 16;
/// How often a client is asked to look, at the most.
const POLL_MS: u64 = 1000;

/// Whether the client of a request takes tasks for answers.
pub(super) fn wanted(context: &RequestContext<RoleServer>) -> bool {
    level::is_modern(context)
        && context.client_capabilities().is_some_and(|declared| declared.supports_tasks())
}

impl<R: Runner> Server<R> {
    /// The answer of `start` to a client that takes tasks.
    pub(super) fn created(&self, job: &Job<End>) -> Result<CreateTaskResult, ErrorData> {
        let DetailedTask { task, .. } = self.detailed(job)?;
        Ok(CreateTaskResult::new(task))
    }

    /// How a job is getting on, as a task.
    pub(super) fn detailed(&self, job: &Job<End>) -> Result<DetailedTask, ErrorData> {
        // Before the runtime: it stands still from the end on.
        let payload = match job.ended() {
            None => TaskPayload::Working,
            Some(_) if job.kill_asked() && job_end::killed(job, job.ended()) => TaskPayload::Cancelled,
            Some(end) => TaskPayload::Completed { result: self.last(job, end)? },
        };
        let (started, ended) = (job.started_at, job.ended().is_some());
        let updated = if ended { started.checked_add(job.runtime()).unwrap_or(started) } else { started };
        let mut task = Task::new(self.task_id(&job.id)?, payload.status(), time(started), time(updated))
            .with_status_message(format!("job {}: {}", job.id, job.handle.name))
            .with_poll_interval_ms(POLL_MS);
        if ended {
            let kept = job.runtime().saturating_add(self.jobs.bounds(&job.handle.owner).ttl);
            task = task.with_ttl_ms(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX));
        }
        Ok(DetailedTask::new(task, payload))
    }

    /// The job of a task's id, whichever of the tools started it: the connection is one caller.
    pub(super) fn tasked(&self, id: &str) -> Result<Arc<Job<End>>, ErrorData> {
        let unknown = || {
            let text = "taskId is not that of a task here: it never was, or its time is over";
            ErrorData::invalid_params(text, None)
        };
        let (job, _) = id.rsplit_once('.').ok_or_else(unknown)?;
        if self.task_id(job)? != id {
            return Err(unknown());
        }
        let view = self.view();
        let mut kits = view.offer.kits.iter();
        kits.find_map(|kit| self.jobs.find(&kit.prefix, job).ok()).ok_or_else(unknown)
    }

    fn task_id(&self, job: &str) -> Result<String, ErrorData> {
        let seal = self.cursors.0.over::<SEAL>(USAGE, &[job.as_bytes()]);
        let seal = seal.map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(format!("{job}.{}", seal.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }

    /// The result of a task: what `poll` and `output` say of a job that has ended.
    fn last(&self, job: &Job<End>, end: &End) -> Result<JsonObject, ErrorData> {
        let internal = |error: String| ErrorData::internal_error(error, None);
        let result = match end {
            End::Withheld(why) => why.clone(),
            _ => {
                let wanted = Wanted {
                    from: None,
                    base64: false,
                    escapes: Escapes::Strip,
                    max_bytes: None,
                    last: true,
                };
                let shown = both(&job.handle.tap, wanted)
                    .ok_or_else(|| internal("output of the job could not be read".to_owned()))?;
                let [out, err] = &shown;
                let cursor = self.cursors.cursor(&job.id, [out.next, err.next]).map_err(internal)?;
                CallToolResult::structured(merged([
                    job_end::shown(job, Some(end), cursor, false, shown),
                    job_end::polled(job),
                ]))
            }
        };
        match serde_json::to_value(result) {
            Ok(Value::Object(result)) => Ok(result),
            Ok(_) => Err(internal("a result is no object".to_owned())),
            Err(error) => Err(internal(error.to_string())),
        }
    }
}

/// One object of all keys, in byte order.
fn merged(objects: [Value; 2]) -> Value {
    let entries = objects.into_iter().filter_map(|object| match object {
        Value::Object(object) => Some(object),
        _ => None,
    });
    let keys: BTreeMap<String, Value> = entries.flatten().collect();
    Value::Object(keys.into_iter().collect::<Map<_, _>>())
}

/// RFC 3339, UTC.
fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}
