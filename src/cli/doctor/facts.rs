//! What `doctor` says of host and container beside its attempts: facts, requirements, the server's walls.
//!
//! Inputs: the survey of [`crate::sandbox::host`], the slow looks that no start can wait for, and the
//! outcome of attempts. Called by `doctor` only.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::report::{Line, paint};
use crate::appliance::host;
use crate::audit::Audit;
use crate::config::Config;
use crate::launch::Facts;
use crate::launch::attempts::server::{ServerGround, server};
use crate::launch::attempts::{Answered, Layer};
use crate::launch::requirements::{self, Unmet};
use crate::sandbox::host::{Finding, Known, Verdict, setuid};

/// Files that a walk names.
const NAMED: usize = 8;

/// Facts and requirements with their verdicts.
#[derive(Debug, Default)]
pub(super) struct Survey {
    facts: Vec<Finding>,
    requirements: Vec<(String, Result<(), Unmet>)>,
}

/// The attempts behind the server's own walls.
pub(super) fn walls(policy: &Config, outside: &Path, port: u16) -> Result<Vec<Line>, String> {
    let audit = Audit::directories(&policy.audit).map_err(|e| e.to_string())?;
    let tested = server(&ServerGround { audit: &audit, outside, port });
    let line = |one: crate::launch::attempts::server::Tested| Line {
        layer: Layer::Server,
        id: one.id,
        what: one.what,
        expected: one.expected,
        result: one.result,
        detail: one.detail,
    };
    Ok(tested.into_iter().map(line).collect())
}

impl Survey {
    /// Looks at this host for `policy`, as served by a launcher that found `facts`.
    pub(super) fn of(
        policy: &Config,
        facts: &Facts,
        namespaces: Known<bool>,
        lines: &[Line],
    ) -> Result<Self, String> {
        let host = host::look(policy, facts).map_err(|e| e.to_string())?;
        let mut found = host::judged(policy, facts, &host);
        found.push(user_namespace(namespaces, facts.mount_namespace));
        found.push(set_user_files());
        // What a command read of itself is better than what the launcher promises.
        for (id, attempt) in [("command.seccomp", "id.seccomp"), ("command.no_new_privs", "id.new_privs")] {
            let said = lines.iter().find(|line| line.id == attempt);
            if let (Some(said), Some(own)) = (said, found.iter_mut().find(|own| own.id == id)) {
                read_back(own, said);
            }
        }
        let required = policy.sandbox.require.iter();
        let requirements =
            required.map(|one| (one.to_string(), requirements::check(*one, facts, Some(&host)))).collect();
        Ok(Self { facts: found, requirements })
    }

    /// Nothing is bad and every requirement is met.
    pub(super) fn holds(&self) -> bool {
        self.facts.iter().all(|own| own.verdict != Verdict::Bad)
            && self.requirements.iter().all(|(_, met)| met.is_ok())
    }

    pub(super) fn facts_json(&self) -> Vec<Value> {
        let object = |own: &Finding| {
            json!({
                "id": own.id,
                "value": own.value,
                "verdict": own.verdict.as_str(),
                "remedy": own.remedy,
            })
        };
        self.facts.iter().map(object).collect()
    }

    pub(super) fn requirements_json(&self) -> Vec<Value> {
        let object = |(name, met): &(String, Result<(), Unmet>)| {
            let unmet = met.as_ref().err();
            json!({
                "name": name,
                "met": met.is_ok(),
                "found": unmet.map(|unmet| &unmet.found),
                "remedy": unmet.map(|unmet| &unmet.remedy),
            })
        };
        self.requirements.iter().map(object).collect()
    }

    /// For people.
    pub(super) fn text(&self, out: &mut String, colour: bool) {
        let width = self.facts.iter().map(|own| own.id.len()).max().unwrap_or(0);
        let line = |out: &mut String, verdict: Verdict, id: &str, value: &str, remedy: Option<&str>| {
            let (word, code) = match verdict {
                Verdict::Ok => ("ok", "32"),
                Verdict::Advice => ("advice", "36"),
                Verdict::Bad => ("BAD", "1;31"),
            };
            let word = paint(&format!("{word:<6}"), code, colour);
            let _ = writeln!(out, "  {word} {id:<width$}  {value}");
            if let Some(remedy) = remedy {
                let _ = writeln!(out, "         {:<width$}  → {remedy}", "");
            }
        };
        if !self.facts.is_empty() {
            let _ = writeln!(out, "\n{}", paint("host", "1", colour));
        }
        for own in &self.facts {
            line(out, own.verdict, &own.id, &own.value, own.remedy);
        }
        if !self.requirements.is_empty() {
            let _ = writeln!(out, "\n{}", paint("required", "1", colour));
        }
        for (name, met) in &self.requirements {
            match met {
                Ok(()) => line(out, Verdict::Ok, name, "holds", None),
                Err(unmet) => line(out, Verdict::Bad, name, &unmet.found, Some(&unmet.remedy)),
            }
        }
    }

    /// One line of numbers; nothing when nothing was looked at.
    pub(super) fn count(&self) -> String {
        let count = |verdict| self.facts.iter().filter(|own| own.verdict == verdict).count();
        let (good, advice, bad) = (count(Verdict::Ok), count(Verdict::Advice), count(Verdict::Bad));
        if good + advice + bad == 0 {
            return String::new();
        }
        let met = self.requirements.iter().filter(|(_, met)| met.is_ok()).count();
        let required = self.requirements.len();
        let total = good + advice + bad;
        format!(
            "{total} facts: {good} ok, {advice} advice, {bad} bad; {met} of {required} requirements met\n"
        )
    }
}

/// The fact as a command found it: only a refused attempt is proof.
fn read_back(own: &mut Finding, said: &Line) {
    own.value.clone_from(&said.detail);
    (own.verdict, own.remedy) = match said.result {
        Answered::Blocked => (Verdict::Ok, None),
        Answered::Open => {
            (Verdict::Bad, Some("do not serve on this host, and report it: no command may run so"))
        }
        Answered::Error => (Verdict::Advice, Some("not known: the attempt could not be made, try again")),
    };
}

/// Whether the server's user could make one; `needed` is whether anything hangs on it.
fn user_namespace(made: Known<bool>, has_mounts: bool) -> Finding {
    let value = match &made {
        Ok(true) => "can be made by the server's user".to_owned(),
        Ok(false) => "cannot be made by the server's user".to_owned(),
        Err(why) => format!("not known: {why}"),
    };
    let good = made == Ok(true) || has_mounts;
    Finding {
        id: "container.new_user_namespace".to_owned(),
        value,
        verdict: if good { Verdict::Ok } else { Verdict::Advice },
        remedy: (!good).then_some(
            "allow it to cofferdam (container's seccomp profile, sysctls above), so that commands get mounts \
             of their own",
        ),
    }
}

fn set_user_files() -> Finding {
    let walk = setuid();
    let named: Vec<String> = walk.setuid.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let mut value = match walk.setuid.len() {
        0 => "none".to_owned(),
        count if count > NAMED => format!("{count}: {}, …", named.join(", ")),
        count => format!("{count}: {}", named.join(", ")),
    };
    if walk.cut {
        value.push_str(" (not all files were looked at)");
    }
    let good = walk.setuid.is_empty() && !walk.cut;
    Finding {
        id: "file.setuid".to_owned(),
        value,
        verdict: if good { Verdict::Ok } else { Verdict::Advice },
        remedy: (!good).then_some(
            "remove the bits or the files (an image needs none), or mount nosuid; to commands they are of no \
             use (no_new_privs)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::attempts::Expected;

    #[test]
    fn an_attempt_that_failed_proves_nothing() {
        for (result, verdict) in [
            (Answered::Blocked, Verdict::Ok),
            (Answered::Open, Verdict::Bad),
            (Answered::Error, Verdict::Advice),
        ] {
            let (value, remedy) = (String::new(), None);
            let mut own = Finding { id: "command.seccomp".into(), value, verdict: Verdict::Ok, remedy };
            let said = Line {
                layer: Layer::Identity,
                id: "id.seccomp",
                what: "run without a filter",
                expected: Expected::Blocked,
                result,
                detail: "said".into(),
            };
            read_back(&mut own, &said);
            assert_eq!((own.verdict, own.value.as_str()), (verdict, "said"));
            assert_eq!(own.remedy.is_none(), verdict == Verdict::Ok);
        }
    }

    #[test]
    fn a_bad_fact_and_an_unmet_requirement_spoil_it() {
        let mut survey = Survey::default();
        assert!(survey.holds());
        survey.facts.push(user_namespace(Ok(false), false));
        assert!(survey.holds(), "advice is no fault");
        let unmet = Unmet { name: "x".into(), found: "y".into(), remedy: "z".into() };
        survey.requirements.push(("x".into(), Err(unmet)));
        assert!(!survey.holds());
        let mut out = String::new();
        survey.text(&mut out, false);
        assert!(out.contains("  BAD    x") && out.contains("→ z"), "{out}");
        survey.requirements.clear();
        survey.facts.iter_mut().for_each(|own| own.verdict = Verdict::Bad);
        assert!(!survey.holds());
    }
}
