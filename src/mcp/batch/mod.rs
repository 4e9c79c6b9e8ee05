//! `command_run`: several commands in one call.
//!
//! Purpose: fewer calls and fewer bytes for the same work. A batch is read strictly (`arguments.rs`), checked
//! as a whole (`plan.rs`), recorded (`recorded.rs`), run step by step (`run.rs`, `outcome.rs`) and told once
//! (`result.rs`); `tool.rs` is what clients see of it. Inputs: a call of the tool. Called by `server.rs`; every command goes through the
//! same runner as that of any other tool.

mod arguments;
mod outcome;
mod plan;
mod recorded;
mod result;
mod run;
mod tool;

pub(super) use tool::definition;

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult, ErrorData};
use rmcp::service::{RequestContext, RoleServer};

use self::plan::Plan;
use self::result::Told;
use self::run::Shared;
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
        let permit = match self.place_of_batch() {
            Ok(permit) => permit,
            Err(message) => return Ok(payload::error(message)),
        };
        let shared = Shared {
            id: uuid::Uuid::now_v7().to_string(),
            context: self.context(&entry.tool.name, context),
            toolkit: offer.batch_toolkit(),
            variables: offer.variables.as_slice().into(),
            // The other half is left to calls beside it.
            lanes: ceilings.jobs / 2,
            told: if offer.server.batch_summary { Told::Summary } else { Told::Outputs },
        };
        let runner = Arc::clone(&self.runner);
        self.guarded(&entry.tool.name, context, permit, |cancel| async move {
            recorded::run(&runner, plan, &shared, &cancel).await
        })
        .await
    }
}
