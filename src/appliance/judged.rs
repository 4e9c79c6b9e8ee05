//! A verdict without a run: judged as [`Appliance::run`] judges, recorded as what it is, nothing started.
//!
//! Purpose: `dry_run` of the tools. Inputs: a call, of which only the request and the context count. Called by
//! `mcp/`.

use super::{Appliance, Call, records};
use crate::audit::{AuditError, RunJudged};
use crate::policy::Denial;

/// What the policy says of a command.
#[derive(Debug)]
pub enum Judged {
    /// It would run, by this rule.
    Allowed(String),
    /// It would be refused.
    Denied(Denial),
}

impl Appliance {
    /// Judges a call and records the verdict as one of a dry run. Whether there is a place to run, and
    /// whether the program can be started, shows only when it is.
    ///
    /// # Errors
    /// When the record could not be made durable: the verdict is not told then.
    pub async fn judge_only(&self, call: Call) -> Result<Judged, AuditError> {
        let Call { request, stdin, mut context, refused, .. } = call;
        context.toolkit.clone_from(&request.toolkit);
        let judged = refused.map_or_else(|| self.judge(&request, stdin.as_ref()), Err);
        let config = self.config();
        let env_names: Vec<String> = request.env.iter().map(|(name, _)| name.clone()).collect();
        let (rule_id, rule_kind, reason) = match &judged {
            Ok(plan) => (plan.rule().to_owned(), records::kind_of(plan), None),
            Err(denial) => {
                (denial.rule.clone().into_owned(), denial.kind.as_str(), Some(denial.reason.as_str()))
            }
        };
        let facts = RunJudged {
            argv: &request.argv,
            cwd: request.cwd.as_deref().unwrap_or_else(|| config.directory_of(request.toolkit.as_deref())),
            env_names: &env_names,
            rule_id: &rule_id,
            rule_kind,
            reason,
            stamps: match &judged {
                Ok(plan) => records::stamps_of(config, plan),
                Err(_) => records::stamps(config),
            },
        };
        self.audit.run_judged(&context, &facts).await?;
        Ok(match judged {
            Ok(_) => Judged::Allowed(rule_id),
            Err(denial) => Judged::Denied(denial),
        })
    }
}
