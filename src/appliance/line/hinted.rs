//! What the walls seem to have refused to the commands of a line.
//!
//! Purpose: the hints of single runs, for lines. Standard error of a line is that of all of its commands, so
//! each is held to what it said under its own name, as programs do; where one command ran alone, all of it is
//! its own. Inputs: what is left of each command, and standard error. Called by `execute.rs` at the end.

use std::sync::{Arc, PoisonError};

use super::StageReport;
use super::execute::Line;
use crate::appliance::hints;
use crate::launch::Execution;
use crate::sandbox::profile::Profile;

/// What is left of a command that ended by itself.
#[derive(Debug)]
pub(super) struct Trace {
    /// Its place among the commands.
    pub(super) number: usize,
    pub(super) profile: Arc<Profile>,
    /// What it started.
    pub(super) starts: Vec<Execution>,
    /// It ended with 0.
    pub(super) success: bool,
}

impl Line<'_> {
    /// Puts hints into the reports.
    pub(super) fn hint(&self, reports: &mut [StageReport], stderr: &str) {
        let traces = std::mem::take(&mut *self.traces.lock().unwrap_or_else(PoisonError::into_inner));
        let alone = reports.iter().filter(|report| report.run_id.is_some()).count() == 1;
        for Trace { number, profile, starts, success } in traces {
            let (Some(plan), Some(report)) = (self.judged.plans.get(number), reports.get_mut(number)) else {
                continue;
            };
            let own = if alone { stderr.to_owned() } else { said_by(&report.name, stderr) };
            let traces = hints::Traces {
                argv: plan.argv(),
                cwd: plan.cwd().path(),
                stderr: &own,
                scratch: self.appliance.sandbox().scratch.as_deref(),
                starts: &starts,
                success,
            };
            report.hints = hints::of(self.appliance.config(), &profile, traces);
        }
    }
}

/// The lines that begin with the name of a program and a colon.
fn said_by(name: &str, stderr: &str) -> String {
    let base = name.rsplit('/').next().unwrap_or(name);
    let own = |line: &&str| {
        [name, base].iter().any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    };
    stderr.lines().filter(own).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::said_by;

    #[test]
    fn a_program_is_held_to_its_own_words() {
        let stderr = "cat: /a: Permission denied\ncatalogue: /b\nwc: /c\n/bin/wc: /d\ncat /e\n";
        assert_eq!(said_by("cat", stderr), "cat: /a: Permission denied");
        assert_eq!(said_by("/bin/wc", stderr), "wc: /c\n/bin/wc: /d");
        assert_eq!(said_by("rg", stderr), "");
    }
}
