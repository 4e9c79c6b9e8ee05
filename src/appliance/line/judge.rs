//! The verdict over a line as a whole.
//!
//! Purpose: expands the line, then judges its commands first to last by the one judge that judges single
//! commands. Nothing is started, made or emptied. Called by `execute.rs`, and by callers that want verdicts
//! only.

use std::time::Instant;

use super::expansion::{self, Refused, Seen};
use super::plan::{Expanded, Stage};
use super::{Appliance, LineCall};
use crate::policy::{Authorized, Denial, Reason, Request, RuleKind};

/// Commands of a line, at most.
const COMMANDS: usize = 256;

/// A line that may run, exactly as judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) expanded: Expanded,
    /// One for each command.
    pub(super) plans: Vec<Authorized>,
}

impl Appliance {
    /// Expands and judges.
    pub(super) async fn judged(&self, call: &LineCall) -> Result<Judged, Refused> {
        if let Some(denial) = &call.refused {
            return Err(Box::new((denial.clone(), None)));
        }
        let commands = call.list.programs().len();
        if commands > COMMANDS {
            let message = format!("A line of {commands} commands exceeds the limit of {COMMANDS}.");
            let denial = Denial::new("line.commands", RuleKind::Limit, Reason::ArgvTooLarge, message);
            return Err(Box::new((denial.instead("send several lines"), None)));
        }
        let mut variables = self.policy.variables();
        variables.extend(call.env.iter().cloned());
        let request = Request {
            argv: Vec::new(),
            cwd: call.cwd.clone(),
            env: call.env.clone(),
            timeout: call.timeout,
            background: false,
            toolkit: call.toolkit.clone(),
        };
        let limits = self.config().limits_of(call.toolkit.as_deref());
        let bound = call.timeout.unwrap_or(limits.timeout).min(limits.max_timeout);
        let opener = Some(self.launcher.opener());
        let until = Some((Instant::now() + bound, bound));
        let seen = Seen { config: self.config().clone(), opener, until, variables, request };
        let list = call.list.clone();
        let work = tokio::task::spawn_blocking(move || expansion::expand(&list, &seen));
        // What is left of the work finds no more names from then on, and ends.
        let expanded = tokio::time::timeout(bound, work).await.map_err(|_elapsed| expansion::late(bound))?;
        let expanded = expanded.map_err(|error| {
            let message = format!("expansion of the line failed inside of the server: {error}");
            Box::new((
                Denial::new("line.failed", RuleKind::BuiltinDeny, Reason::ArgumentDenied, message),
                None,
            ))
        })??;
        let mut plans = Vec::with_capacity(expanded.stages.len());
        for (number, Stage { request, .. }) in expanded.stages.iter().enumerate() {
            let plan = self.judge_alone(request, call.stdin.as_ref());
            plans.push(*plan.map_err(|denial| Box::new((denial, Some((number, request.clone())))))?);
        }
        Ok(Judged { expanded, plans })
    }
}
