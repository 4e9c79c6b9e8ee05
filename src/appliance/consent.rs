//! Asking a person: a command that the policy lets run with consent becomes a question, an answer a decision.
//!
//! Purpose: one way for every surface. A call says who can be asked; [`Appliance::run`] hands back a question
//! ([`Outcome::Ask`]); the surface puts it, by the protocol or on a terminal, and calls again with the answer.
//! Inputs: what `policy/consent` judges. Called by `appliance.rs`; every step is recorded before it counts.

mod shown;

use std::time::Duration;

use super::{Appliance, Call, Outcome, records};
use crate::audit::ConsentFacts;
use crate::policy::consent::{About, Answer, Decision, Handed, Withheld};
use crate::policy::{Asking, Authorized, Denial, Request, Verdict};

/// What to do where nobody can be asked and the surface does not say it better.
const ELSEWHERE: &str =
    "call it through an MCP client that supports elicitation, or with `cofferdam exec` on a terminal";

/// The same for one of several commands.
const ALONE: &str = "call it by itself, not in a line or a batch, through an MCP client that supports \
                     elicitation, or with `cofferdam exec` on a terminal";

/// How a person can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Not at all; the clause says what to do instead.
    Nobody(&'static str),
    /// By the client, as MCP elicitation.
    Elicitation,
    /// On the terminal of the command line.
    Terminal,
}

impl Default for Means {
    fn default() -> Self {
        Self::Nobody(ELSEWHERE)
    }
}

impl Means {
    fn recorded(self) -> Option<&'static str> {
        match self {
            Self::Nobody(_) => None,
            Self::Elicitation => Some("elicitation"),
            Self::Terminal => Some("terminal"),
        }
    }
}

/// Who can be asked for consent to a call, and what was said. Filled by the surface, never from what the
/// arguments of the call say.
#[derive(Debug, Clone, Default)]
pub struct Asker {
    /// On whose behalf the call is made: an answer counts for the same one only.
    pub principal: String,
    /// How a person can be asked.
    pub means: Means,
    /// Who that would be, for the records.
    pub who: Option<String>,
    /// The answer to a question of an earlier call.
    pub answer: Option<Answer>,
}

/// A question to put to a person.
#[derive(Debug)]
pub struct Question {
    /// What to show, on a screen as it is: it holds no character that controls a terminal or reorders text.
    pub text: String,
    /// The sealed text that the answer has to bring back.
    pub state: String,
    /// How long an answer is good.
    pub time: Duration,
    call: Call,
}

impl Question {
    /// The call again, with what was said.
    #[must_use]
    pub fn answered(self, decision: Decision) -> Call {
        let Self { state, mut call, .. } = self;
        call.asker.answer = Some(Answer { state, decision });
        call
    }
}

/// What comes next for a command that asks.
pub(super) enum Step {
    /// The question.
    Ask(Box<Pending>),
    /// It was answered, or cannot be asked.
    Decided(Result<Box<Authorized>, Denial>, ConsentFacts),
}

/// A question that is not recorded yet.
pub(super) struct Pending {
    text: String,
    handed: Handed,
    asking: Asking,
}

impl Appliance {
    /// Judges where nobody can be asked: a command that asks is refused.
    pub(super) fn judge_alone(
        &self,
        request: &Request,
        stdin: Option<&Vec<u8>>,
    ) -> Result<Box<Authorized>, Denial> {
        match self.judge(request, stdin) {
            Verdict::Allow(plan) => Ok(plan),
            Verdict::Deny(denial) => Err(denial),
            Verdict::Ask(asking) => Err(Withheld::Unavailable(ALONE).denial(asking.name())),
        }
    }

    /// Takes an answer, or makes the question.
    pub(super) fn consent(&self, asking: Asking, call: &Call) -> Step {
        let Asker { principal, means, who, answer } = &call.asker;
        let facts = |what, id| ConsentFacts { what, id, by: means.recorded(), who: who.clone() };
        let name = asking.name().to_vec();
        let withheld = |why: Withheld| Step::Decided(Err(why.denial(&name)), facts(why.as_str(), None));
        if let Means::Nobody(instead) = means {
            return withheld(Withheld::Unavailable(instead));
        }
        let about = About { principal, stdin: call.stdin.as_deref() };
        let now = self.made.elapsed();
        if let Some(answer) = answer {
            let redeemed = self.consents.redeem(asking, about, answer, now);
            let what = redeemed.plan.as_ref().map_or_else(|why| why.as_str(), |_| "given");
            return Step::Decided(redeemed.plan.map_err(|why| why.denial(&name)), facts(what, redeemed.id));
        }
        let Some(text) = shown::question(&asking, &call.request, call.stdin.as_deref()) else {
            return withheld(Withheld::TooLong);
        };
        match self.consents.ask(&asking, about, now) {
            Ok(handed) => Step::Ask(Box::new(Pending { text, handed, asking })),
            Err(problem) => {
                tracing::error!(%problem, "a question could not be sealed");
                withheld(Withheld::Unavailable("tell the operator of this server"))
            }
        }
    }

    /// Records that the question is put, and hands it over.
    pub(super) async fn asked(&self, pending: Box<Pending>, call: Call) -> Outcome {
        let Pending { text, handed, asking } = *pending;
        let (means, who) = (call.asker.means, call.asker.who.clone());
        let consent = ConsentFacts { what: "asked", id: Some(handed.id), by: means.recorded(), who };
        let (config, env_names) = (self.config(), records::asked_names(&call.request));
        let facts =
            records::run_asked(config, &call.request, &env_names, call.stdin.as_ref(), &asking, &consent);
        if let Err(e) = self.audit.run_asked(&call.context, &facts).await {
            return Outcome::AuditUnavailable(e);
        }
        Outcome::Ask(Box::new(Question { text, state: handed.state, time: self.consents.time(), call }))
    }
}
