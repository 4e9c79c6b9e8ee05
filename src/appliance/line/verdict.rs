//! The verdict over a line, recorded as what it is: nothing is started.
//!
//! Purpose: `dry_run` of the tools that take lines. Inputs: a call. Called by `mcp/`.

use super::{Appliance, LineCall};
use crate::appliance::{Judged, records};
use crate::audit::{AuditError, Context, LinePart};
use crate::policy::Request;

impl Appliance {
    /// Judges a line as [`Appliance::run_line`] would, and records the verdicts as those of a dry run: one a
    /// command where the line would run, one of the refusal otherwise. Patterns are matched against the files
    /// of this moment.
    ///
    /// # Errors
    /// When a record could not be made durable: the verdict is not told then.
    pub async fn judge_line_only(&self, call: LineCall) -> Result<Judged, AuditError> {
        let line_id = uuid::Uuid::now_v7().to_string();
        let context = |stage: Option<usize>| Context {
            toolkit: call.toolkit.clone(),
            line: Some(LinePart { line_id: line_id.clone(), stage: stage.map(|at| at as u64 + 1) }),
            ..call.context.clone()
        };
        match self.judged(&call).await {
            Ok(judged) => {
                let mut rules: Vec<String> = Vec::new();
                for (at, (stage, plan)) in judged.expanded.stages.iter().zip(&judged.plans).enumerate() {
                    let verdict = (plan.rule(), records::allow_kind(plan.rule()), None);
                    let stamps = records::stamps_of(self.config(), plan);
                    self.record_verdict(&context(Some(at)), &stage.request, verdict, stamps).await?;
                    if !rules.iter().any(|known| known == plan.rule()) {
                        rules.push(plan.rule().to_owned());
                    }
                }
                Ok(Judged::Allowed(rules.join(", ")))
            }
            Err(refused) => {
                let (denial, of) = *refused;
                let stage = of.as_ref().map(|(number, _)| *number);
                let request = of.map(|(_, request)| request).unwrap_or_else(|| Request {
                    argv: call.shown.clone().unwrap_or_else(|| vec![call.list.to_string().into_bytes()]),
                    cwd: call.cwd.clone(),
                    env: call.env.clone(),
                    toolkit: call.toolkit.clone(),
                    ..Request::default()
                });
                let verdict = (denial.rule.as_ref(), denial.kind.as_str(), Some(denial.reason.as_str()));
                let stamps = records::stamps(self.config());
                self.record_verdict(&context(stage), &request, verdict, stamps).await?;
                Ok(Judged::Denied(denial))
            }
        }
    }
}
