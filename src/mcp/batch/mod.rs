//! `command_run`: several commands in one call.
//!
//! Purpose: fewer calls and fewer bytes for the same work. A batch is read strictly (`arguments.rs`), checked
//! as a whole (`plan.rs`), run step by step (`run.rs`, `outcome.rs`) and told once (`result.rs`); `tool.rs` is
//! what clients see of it. Inputs: a call of the tool. Called by `server.rs`; every command goes through the
//! same runner as that of any other tool.

mod arguments;
mod outcome;
mod plan;
mod result;
mod run;
mod shown;
mod tool;

pub(super) use tool::definition;

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult, ErrorData};
use rmcp::service::{RequestContext, RoleServer};

use self::plan::Plan;
use self::run::Shared;
use super::in_flight::Asked;
use super::payload;
use super::runner::Runner;
use super::server::Server;
use super::tools::Entry;

impl<R: Runner> Server<R> {
    /// Runs a batch in a task of its own: a panic in there is an answer, not a silence.
    pub(super) async fn batch(
        &self,
        entry: &Entry,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let offer = &self.view().offer;
        let ceilings = offer.ceilings(&entry.kit);
        let read = arguments::read(params.arguments);
        let plan = match read.and_then(|asked| Plan::new(asked, ceilings.max_timeout)) {
            Ok(plan) => plan,
            Err(message) => return Ok(payload::error(format!("Nothing was run: {message}"))),
        };
        let permit = match self.place() {
            Ok(permit) => permit,
            Err(message) => return Ok(payload::error(message)),
        };
        let shared = Shared {
            context: self.context(&entry.tool.name, context),
            toolkit: offer.batch_toolkit(),
            variables: offer.variables.as_slice().into(),
            // The other half is left to calls beside it.
            lanes: ceilings.jobs / 2,
        };
        let runner = Arc::clone(&self.runner);
        let cancel = self.stop.child_token();
        let caller = context.ct.clone();
        let task = tokio::spawn(async move {
            let mut batch = std::pin::pin!(run::run(&runner, plan, &shared, &cancel));
            let ended = tokio::select! {
                ended = &mut batch => ended,
                () = caller.cancelled() => {
                    cancel.cancel();
                    batch.await
                }
            };
            (ended, permit)
        });
        match task.await {
            Ok((ended, permit)) => {
                if let Some(asked) = context.extensions.get::<Asked>() {
                    asked.hold(permit);
                }
                Ok(ended.answer())
            }
            Err(error) => {
                tracing::error!(%error, tool = %entry.tool.name, "a tool call ended in a panic");
                Err(ErrorData::internal_error(
                    "the call failed inside of the server; its log says more",
                    None,
                ))
            }
        }
    }
}
