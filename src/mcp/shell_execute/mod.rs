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
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ErrorData};
use rmcp::service::{RequestContext, RoleServer};

use self::arguments::Asked;
use super::runner::Runner;
use super::server::Server;
use super::tools::Entry;
use crate::appliance::LineCall;
use crate::policy::{Denial, Reason, RuleKind};
use crate::syntax::{List, operators};

/// Between SIGTERM and SIGKILL for a command that is ended, as the predecessor has it.
const GRACE: Duration = Duration::from_millis(500);

impl<R: Runner> Server<R> {
    /// Runs one request in a task of its own: a panic in there is an answer, not a silence.
    pub(super) async fn shell_execute(
        &self,
        entry: &Entry,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let view = self.view();
        let offer = &view.offer;
        let mut asked = match arguments::read(params.arguments, offer.stdin_bytes) {
            Ok(asked) => asked,
            Err(message) => return Ok(reply::error(&message, offer.server.compat_text)),
        };
        let permit = match self.place() {
            Ok(permit) => permit,
            Err(message) => return Ok(reply::error(&message, offer.server.compat_text)),
        };
        let passed = |(name, _): &(String, String)| offer.variables.contains(name);
        let (envs, ignored) = std::mem::take(&mut asked.envs).into_iter().partition(passed);
        asked.envs = envs;
        let sequencing = if offer.server.operators {
            operators::Sequencing::Accepted
        } else {
            operators::Sequencing::Refused
        };
        let call = LineCall { context: self.context(&entry.tool.name, context), ..line(asked, sequencing) };
        let call = LineCall { toolkit: offer.batch_toolkit(), ..call };
        let told = reply::Told::of(offer, &call, ignored);
        let runner = Arc::clone(&self.runner);
        let work = |cancel| async move { runner.run_line(call, cancel).await };
        let outcome = self.guarded(&entry.tool.name, context, permit, work).await?;
        Ok(told.answer(outcome))
    }
}

/// The line that a request asks for. One that is none is refused, and recorded as every refusal is.
fn line(asked: Asked, sequencing: operators::Sequencing) -> LineCall {
    let Asked { command, directory, envs, stdin, timeout } = asked;
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
            (List::default(), Some(denial.instead(problem.instead())))
        }
    };
    LineCall {
        list,
        cwd: directory,
        env: envs,
        timeout,
        stdin,
        end_at_limit: true,
        grace: GRACE,
        shown: Some(shown),
        refused,
        ..LineCall::default()
    }
}
