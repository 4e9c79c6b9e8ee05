//! What is told of a background job without being asked: lines for a log window, its output, and one event
//! each for its start and its end.
//!
//! One task follows one job from its start to its end, so that each event goes out once. A channel that is
//! slow or closed holds up this task alone. No event holds a byte that the job wrote, nor its arguments.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::channel::{Channel, Closed};
use super::job_end::{self, End};
use super::level::Level;
use super::render::Escapes;
use super::stream::{FLUSH, Reader};
use crate::run::jobs::Job;

/// Batches of each stream in one flush: a job that floods does not crowd out answers.
const BATCHES: usize = 1;
/// The start or the end of a job.
pub(super) const EVENT: &str = "notifications/job";

/// Follows a job to its end.
pub(super) async fn follow(job: Arc<Job<End>>, channel: Channel, escapes: Escapes) {
    tokio::select! {
        biased;
        () = job.handle.tap.begun() => {}
        () = job.over() => {}
        () = channel.closed.cancelled() => return,
    }
    if told(&job, &channel, escapes).await.is_err() {
        tracing::debug!(job = %job.id, "the channel closed before the end of the job");
    }
}

async fn told(job: &Job<End>, channel: &Channel, escapes: Escapes) -> Result<(), Closed> {
    if let Some(End::Refused(_)) = job.ended() {
        return Ok(());
    }
    if job.handle.tap.has_begun() {
        started(job, channel).await?;
    }
    let mut reader = Reader::new(Arc::clone(&job.handle.tap), escapes);
    loop {
        let over = tokio::select! {
            biased;
            () = job.over() => true,
            () = channel.closed.cancelled() => return Err(Closed),
            () = tokio::time::sleep(FLUSH) => false,
        };
        if over && matches!(job.ended(), Some(End::Withheld(_))) {
            break;
        }
        if channel.admits(Level::Debug) {
            let batches = if over { usize::MAX } else { BATCHES };
            reader.flush(channel, Level::Debug, Some(&job.id), (batches, over)).await?;
        } else {
            reader.skip();
        }
        if over {
            break;
        }
    }
    ended(job, channel).await
}

/// Tells what is known of a job while the request that started it is still there.
pub(super) async fn announce(job: &Job<End>, channel: &Channel) {
    let told = async {
        if job.handle.tap.has_begun() {
            started(job, channel).await?;
        }
        if job.ended().is_some() { ended(job, channel).await } else { Ok(()) }
    };
    if told.await.is_err() {
        tracing::debug!(job = %job.id, "the channel closed before the job was announced");
    }
}

async fn started(job: &Job<End>, channel: &Channel) -> Result<(), Closed> {
    let line = format!("job {} started: {}", job.id, job.handle.name);
    channel.message(Level::Info, line.into()).await?;
    tell(job, channel, "started", Value::Null, Value::from(0)).await
}

async fn ended(job: &Job<End>, channel: &Channel) -> Result<(), Closed> {
    let end = job.ended();
    let (state, exit, runtime) = (job_end::state(end), job_end::exit(end), job_end::runtime(job));
    let status =
        if exit.is_null() { "with unknown status".to_owned() } else { format!("with status {exit}") };
    let line = format!("job {} {state} {status} after {runtime} s: {}", job.id, job.handle.name);
    channel.message(Level::Info, line.into()).await?;
    tell(job, channel, state, exit, runtime).await
}

async fn tell(
    job: &Job<End>,
    channel: &Channel,
    state: &str,
    exit: Value,
    runtime: Value,
) -> Result<(), Closed> {
    channel.custom(Level::Info, EVENT, event(job, &channel.logger, state, exit, runtime)).await
}

/// Parameters of an [`EVENT`]. `exit` is absent, not null, where it is not known.
pub(super) fn event(job: &Job<End>, logger: &str, state: &str, exit: Value, runtime: Value) -> Value {
    let mut params = Map::new();
    params.insert("job".to_owned(), job.id.clone().into());
    params.insert("state".to_owned(), state.into());
    if !exit.is_null() {
        params.insert("exit".to_owned(), exit);
    }
    params.insert("runtime".to_owned(), runtime);
    params.insert("logger".to_owned(), logger.into());
    params.insert("command".to_owned(), job.handle.name.clone().into());
    Value::Object(params)
}
