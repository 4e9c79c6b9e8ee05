//! A verdict without a run: judged as [`Appliance::run`] judges, recorded as what it is, nothing started.
//!
//! Purpose: `dry_run` of the tools. Inputs: a call, of which only the request and the context count. Called by
//! `mcp/`; the same for a line is `line/verdict.rs`.

use super::{Appliance, Call, records};
use crate::audit::{AuditError, Context, RunJudged, Stamps};
use crate::policy::{Denial, Request};

/// What the policy says of a command or a line.
#[derive(Debug)]
pub enum Judged {
    /// It would run, by this rule.
    Allowed(String),
    /// It would be refused.
    Denied(Denial),
}

/// Rule, its kind, and the machine code of a refusal.
pub(super) type Decided<'d> = (&'d str, &'d str, Option<&'d str>);

impl Appliance {
    /// Judges a call and records the verdict as one of a dry run. Whether there is a place to run, and
    /// whether the program can be started, shows only when it is.
    ///
    /// # Errors
    /// When the record could not be made durable: the verdict is not told then.
    pub async fn judge_only(&self, call: Call) -> Result<Judged, AuditError> {
        let Call { request, stdin, mut context, refused, .. } = call;
        context.toolkit.clone_from(&request.toolkit);
        match refused.map_or_else(|| self.judge_alone(&request, stdin.as_ref()), Err) {
            Ok(plan) => {
                let verdict = (plan.rule(), records::allow_kind(plan.rule()), None);
                let stamps = records::stamps_of(self.config(), &plan);
                self.record_verdict(&context, &request, verdict, stamps).await?;
                Ok(Judged::Allowed(plan.rule().to_owned()))
            }
            Err(denial) => {
                let verdict = (denial.rule.as_ref(), denial.kind.as_str(), Some(denial.reason.as_str()));
                self.record_verdict(&context, &request, verdict, records::stamps(self.config())).await?;
                Ok(Judged::Denied(denial))
            }
        }
    }

    /// Records a verdict that was asked for.
    pub(super) async fn record_verdict(
        &self,
        context: &Context,
        request: &Request,
        (rule_id, rule_kind, reason): Decided<'_>,
        stamps: Stamps,
    ) -> Result<(), AuditError> {
        let env_names = records::asked_names(request);
        let home = self.config().directory_of(request.toolkit.as_deref());
        let facts = RunJudged {
            redirection: false,
            argv: &request.argv,
            cwd: request.cwd.as_deref().unwrap_or(home),
            env_names: &env_names,
            rule_id,
            rule_kind,
            reason,
            stamps,
        };
        self.audit.run_judged(context, &facts).await
    }
}
