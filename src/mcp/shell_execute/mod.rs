//! `shell_execute`: one argument vector with operators as elements, for clients of the servers that have it.
//!
//! Purpose: requests and replies as those clients know them, over the same judge, executor and records as
//! every other tool. An element that is exactly an operator is one; in a longer element the same characters
//! are data, and no shell sees either. A request is read in `arguments.rs`, told in `reply.rs`; `tool.rs` is
//! what clients see of it. Inputs: a call of the tool. Called by `server.rs`.

mod arguments;
mod reply;
mod tool;

pub(super) use tool::definition;

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult, ErrorData};
use rmcp::service::{RequestContext, RoleServer};

use self::arguments::Asked as Request;
use super::in_flight::Asked;
use super::runner::Runner;
use super::server::Server;
use super::tools::Entry;
use crate::appliance::LineCall;
use crate::policy::{Denial, Reason, RuleKind};
use crate::syntax::{List, operators};

impl<R: Runner> Server<R> {
    /// Runs one request in a task of its own: a panic in there is an answer, not a silence.
    pub(super) async fn shell_execute(
        &self,
        entry: &Entry,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let offer = &self.view().offer;
        let asked = match arguments::read(params.arguments, offer.stdin_bytes) {
            Ok(asked) => asked,
            Err(message) => return Ok(reply::error(&message)),
        };
        let permit = match self.place() {
            Ok(permit) => permit,
            Err(message) => return Ok(reply::error(&message)),
        };
        let sequencing = if offer.server.operators {
            operators::Sequencing::Accepted
        } else {
            operators::Sequencing::Refused
        };
        let call = LineCall { context: self.context(&entry.tool.name, context), ..line(asked, sequencing) };
        let call = LineCall { toolkit: offer.batch_toolkit(), ..call };
        let told = reply::Told::of(offer, &call);
        let runner = Arc::clone(&self.runner);
        let cancel = self.stop.child_token();
        let caller = context.ct.clone();
        let task = tokio::spawn(async move {
            let mut run = std::pin::pin!(runner.run_line(call, cancel.clone()));
            let outcome = tokio::select! {
                outcome = &mut run => outcome,
                () = caller.cancelled() => {
                    cancel.cancel();
                    run.await
                }
            };
            (outcome, permit)
        });
        match task.await {
            Ok((outcome, permit)) => {
                if let Some(asked) = context.extensions.get::<Asked>() {
                    asked.hold(permit);
                }
                Ok(told.answer(outcome))
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

/// The line that a request asks for. One that is none is refused, and recorded as every refusal is.
fn line(asked: Request, sequencing: operators::Sequencing) -> LineCall {
    let Request { command, directory, envs, stdin, timeout } = asked;
    let shown = command.iter().map(|element| element.clone().into_bytes()).collect();
    let (list, refused) = match operators::parse(&command, sequencing) {
        Ok(list) => (list, None),
        Err(problem) => {
            let reason = match problem {
                operators::Problem::Nothing => Reason::EmptyCommand,
                _ => Reason::ArgumentDenied,
            };
            let denial =
                Denial::new("shell_execute.operators", RuleKind::BuiltinDeny, reason, problem.to_string());
            (List::default(), Some(denial))
        }
    };
    LineCall {
        list,
        cwd: directory,
        env: envs,
        timeout,
        stdin,
        end_at_limit: true,
        shown: Some(shown),
        refused,
        ..LineCall::default()
    }
}
