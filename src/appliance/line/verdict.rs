//! The verdict over a line, recorded as what it is: nothing is started.
//!
//! Purpose: `dry_run` of the tools that take lines. Inputs: a call. Called by `mcp/`.

use super::{Appliance, LineCall};
use crate::appliance::{Judged, records};
use crate::audit::AuditError;

impl Appliance {
    /// Judges a line as [`Appliance::run_line`] would, and records the verdicts as those of a dry run: one a
    /// command where the line would run, one of the refusal otherwise. Patterns are matched against the files
    /// of this moment.
    ///
    /// # Errors
    /// When a record could not be made durable: the verdict is not told then.
    pub async fn judge_line_only(&self, mut call: LineCall) -> Result<Judged, AuditError> {
        self.keep_secrets(&mut call);
        let line_id = uuid::Uuid::now_v7().to_string();
        match self.judged(&call).await {
            Ok(judged) => {
                let mut rules: Vec<String> = Vec::new();
                for (at, (stage, plan)) in judged.expanded.stages.iter().zip(&judged.plans).enumerate() {
                    let verdict = (plan.rule(), records::allow_kind(plan.rule()), None);
                    let stamps = records::stamps_of(self.config(), plan);
                    self.record_verdict(&call.context(&line_id, Some(at)), &stage.request, verdict, stamps)
                        .await?;
                    if !rules.iter().any(|known| known == plan.rule()) {
                        rules.push(plan.rule().to_owned());
                    }
                }
                Ok(Judged::Allowed(rules.join(", ")))
            }
            Err(refused) => {
                let (denial, of) = *refused;
                let stage = of.as_ref().map(|(number, _)| *number);
                let request = of.map(|(_, request)| request).unwrap_or_else(|| call.whole());
                let verdict = (denial.rule.as_ref(), denial.kind.as_str(), Some(denial.reason.as_str()));
                let stamps = records::stamps(self.config());
                self.record_verdict(&call.context(&line_id, stage), &request, verdict, stamps).await?;
                Ok(Judged::Denied(denial))
            }
        }
    }
}
