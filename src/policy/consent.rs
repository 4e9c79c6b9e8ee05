//! Consent: a command that a person has to agree to, each time, before it is authorised.
//!
//! Purpose: the only way from a command that asks ([`Asking`]) to an [`Authorized`] one leads through
//! [`Consents::redeem`], with an answer to a question of these [`Consents`] that is about exactly this command,
//! for this caller, in time, and used for the first time. So no surface can forget to ask. Pure but for the
//! memory of what was used; the clock is the caller's. Made by `judge`, asked and redeemed by `appliance.rs`.

mod sealed;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};

use self::sealed::{Nonce, Sealed};
use super::words::quoted;
use super::{Authorized, Denial, Reason, Request, RuleKind, Target};
use crate::seal::Seal;

/// Most answers that are remembered as used. Each is forgotten when its question has expired.
const REMEMBERED: usize = 65_536;

/// A command that the policy allows once a person has agreed to it. Nothing can be started from it.
#[derive(Debug)]
pub struct Asking {
    plan: Box<Authorized>,
    /// SHA-256 over everything that was judged.
    digest: [u8; 32],
}

/// What a question is about beside the command.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// On whose behalf it is asked: only the same one can bring the answer.
    pub principal: &'a str,
    /// Standard input of the command.
    pub stdin: Option<&'a [u8]>,
}

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Run it.
    Accept,
    /// Do not.
    Decline,
    /// Neither: the question was closed.
    Cancel,
}

/// What a person said, and to which question.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The sealed question, as it was handed out. It may come from anybody.
    pub state: String,
    /// What was said.
    pub decision: Decision,
}

/// A question that was handed out.
#[derive(Debug, Clone)]
pub struct Handed {
    /// Its name in records.
    pub id: String,
    /// The sealed text that the answer has to bring back.
    pub state: String,
}

/// Why there is no consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// Nobody can be asked; the clause says what to do.
    Unavailable(&'static str),
    /// The person said no.
    Declined,
    /// The person, or the client, closed the question.
    Cancelled,
    /// The answer came too late.
    Expired,
    /// The answer had been used before.
    Replayed,
    /// It is the answer to a question about another command.
    OtherCommand,
    /// It is the answer to a question that somebody else was asked.
    OtherCaller,
    /// It answers no question of this server.
    Forged,
    /// The command line is too long to be shown whole.
    TooLong,
    /// More answers were used lately than are remembered.
    Busy,
}

/// What became of an answer.
#[derive(Debug)]
pub struct Redeemed {
    /// The question's name in records, where the answer is one to a question of ours.
    pub id: Option<String>,
    /// The command, authorised; or why not.
    pub plan: Result<Box<Authorized>, Withheld>,
}

impl Asking {
    pub(super) fn new(plan: Box<Authorized>, request: &Request) -> Self {
        let mut hash = Counted::default();
        hash.add(plan.argv.len().to_le_bytes());
        plan.argv.iter().for_each(|argument| hash.add(argument.as_bytes()));
        hash.add(plan.env.len().to_le_bytes());
        plan.env.iter().for_each(|entry| hash.add(entry.as_bytes()));
        hash.add(plan.cwd.path().as_os_str().as_encoded_bytes());
        match &plan.target {
            Target::Found(program) => {
                hash.add(program.real.as_os_str().as_encoded_bytes());
                hash.add(program.dev.to_le_bytes());
                hash.add(program.ino.to_le_bytes());
            }
            Target::Missing => hash.add([]),
        }
        hash.add(plan.command.name.as_bytes());
        hash.add(plan.timeout.as_nanos().to_le_bytes());
        hash.add([u8::from(request.background), u8::from(request.toolkit.is_some())]);
        hash.add(request.toolkit.as_deref().unwrap_or("").as_bytes());
        Self { digest: hash.0.finalize().into(), plan }
    }

    /// The argument vector that waits for consent.
    pub fn argv(&self) -> impl Iterator<Item = &[u8]> {
        self.plan.argv.iter().map(|argument| argument.as_bytes())
    }

    /// The program behind its name.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.plan.target
    }

    /// The directory that it would work in.
    #[must_use]
    pub fn directory(&self) -> &std::path::Path {
        self.plan.cwd.path()
    }

    /// Id of the rule that allows it.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.plan.rule
    }

    /// The name that was asked for.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.plan.argv.first().map_or(b"", |name| name.as_bytes())
    }

    /// SHA-256 over the command and its standard input.
    fn call(&self, stdin: Option<&[u8]>) -> [u8; 32] {
        let mut hash = Counted::default();
        hash.add(self.digest);
        hash.add([u8::from(stdin.is_some())]);
        hash.add(stdin.unwrap_or(&[]));
        hash.0.finalize().into()
    }
}

/// A hash over parts of which each is counted.
#[derive(Default)]
struct Counted(Sha256);

impl Counted {
    fn add(&mut self, part: impl AsRef<[u8]>) {
        let part = part.as_ref();
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }
}

/// The questions of one server.
#[derive(Debug)]
pub struct Consents {
    seal: Seal,
    time: Duration,
    /// What was used and has not expired: when it does, and which question.
    used: Mutex<BTreeSet<(u64, Nonce)>>,
}

impl Consents {
    /// Under a new key; an answer is good for `time`.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self { seal: Seal::new(), time, used: Mutex::default() }
    }

    /// How long an answer is good.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.time
    }

    /// A new question about a command. `now` is the time since these consents were made.
    ///
    /// # Errors
    /// The seal cannot be made, in words: then nothing may be asked.
    pub fn ask(&self, asking: &Asking, about: About<'_>, now: Duration) -> Result<Handed, String> {
        let sealed = Sealed {
            nonce: *uuid::Uuid::new_v4().as_bytes(),
            expires: milliseconds(now.saturating_add(self.time)),
            principal: principal(about.principal),
            call: asking.call(about.stdin),
        };
        Ok(Handed { id: sealed.id(), state: sealed.write(&self.seal)? })
    }

    /// What becomes of a command with this answer. An answer that is about this command, for this caller and
    /// in time is used up by it, whatever it says.
    #[must_use]
    pub fn redeem(&self, asking: Asking, about: About<'_>, answer: &Answer, now: Duration) -> Redeemed {
        let Some(sealed) = Sealed::read(&answer.state, &self.seal) else {
            return Redeemed { id: None, plan: Err(Withheld::Forged) };
        };
        let plan = self.agreed(&sealed, &asking, about, answer.decision, now);
        Redeemed { id: Some(sealed.id()), plan: plan.map(|()| asking.plan) }
    }

    fn agreed(
        &self,
        sealed: &Sealed,
        asking: &Asking,
        about: About<'_>,
        decision: Decision,
        now: Duration,
    ) -> Result<(), Withheld> {
        if sealed.principal != principal(about.principal) {
            return Err(Withheld::OtherCaller);
        }
        if sealed.call != asking.call(about.stdin) {
            return Err(Withheld::OtherCommand);
        }
        let now = milliseconds(now);
        if sealed.expires <= now {
            return Err(Withheld::Expired);
        }
        self.use_up(sealed, now)?;
        match decision {
            Decision::Accept => Ok(()),
            Decision::Decline => Err(Withheld::Declined),
            Decision::Cancel => Err(Withheld::Cancelled),
        }
    }

    /// Once: of two at the same time, one gets it.
    fn use_up(&self, sealed: &Sealed, now: u64) -> Result<(), Withheld> {
        // A panic in here leaves the set as it was or with one more: never with one less.
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while used.first().is_some_and(|(expires, _)| *expires <= now) {
            used.pop_first();
        }
        let entry = (sealed.expires, sealed.nonce);
        if used.contains(&entry) {
            return Err(Withheld::Replayed);
        }
        if used.len() >= REMEMBERED {
            return Err(Withheld::Busy);
        }
        used.insert(entry);
        Ok(())
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn principal(name: &str) -> [u8; 32] {
    Sha256::digest(name).into()
}

impl Withheld {
    /// The word in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Replayed => "replayed",
            Self::OtherCommand => "other_command",
            Self::OtherCaller => "other_caller",
            Self::Forged => "forged",
            Self::TooLong => "too_long",
            Self::Busy => "busy",
        }
    }

    /// The refusal of the command of this name.
    #[must_use]
    pub fn denial(self, name: &[u8]) -> Denial {
        let name = quoted(name);
        let again = "call again without it, so that the person is asked anew";
        let (reason, what, instead) = match self {
            Self::Unavailable(instead) => (
                Reason::ConsentUnavailable,
                format!("Command {name} needs the consent of a person, and nobody can be asked here."),
                instead,
            ),
            Self::Declined => (
                Reason::ConsentDeclined,
                format!("The person who was asked declined to run command {name}."),
                "do not ask for the same again; find out what the person wants",
            ),
            Self::Cancelled => (
                Reason::ConsentCancelled,
                format!("The question whether to run command {name} was closed without an answer."),
                "call again when the person is ready to answer",
            ),
            Self::Expired => (
                Reason::ConsentExpired,
                format!("The consent to command {name} came too late (limits.consent_time)."),
                again,
            ),
            Self::Replayed => (
                Reason::ConsentReplayed,
                format!("The answer about command {name} was used before; each counts once."),
                again,
            ),
            Self::OtherCommand => (
                Reason::ConsentMismatch,
                format!(
                    "The answer is not about this call of command {name}: arguments, directory, standard \
                     input, timeout and tool must be those that the person was shown."
                ),
                again,
            ),
            Self::OtherCaller => (
                Reason::ConsentMismatch,
                format!("The answer about command {name} was given to another caller."),
                again,
            ),
            Self::Forged => (
                Reason::ConsentForged,
                format!("The answer about command {name} belongs to no question of this server."),
                again,
            ),
            Self::TooLong => (
                Reason::ConsentUnavailable,
                format!("Command {name} needs the consent of a person, and is too long to be shown whole."),
                "send fewer or shorter arguments",
            ),
            Self::Busy => (
                Reason::RateLimited,
                format!("No consent to command {name} can be taken: too many answers were used lately."),
                "call again later",
            ),
        };
        Denial::new(format!("consent.{}", self.as_str()), RuleKind::Consent, reason, what).instead(instead)
    }
}
