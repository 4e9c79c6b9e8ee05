//! Refusals as values: a stable rule id, a machine code for SIEMs, one sentence for the agent.

use std::borrow::Cow;

/// Why a request was refused before anything was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Stable id of the rule, such as `names.shell` or `limits.arguments`.
    pub rule: Cow<'static, str>,
    /// Which kind of rule it is.
    pub kind: RuleKind,
    /// Machine code; dashboards and detections hang on it.
    pub reason: Reason,
    /// One sentence for the caller: what was refused and, mostly, what to do instead.
    pub message: String,
    /// Element of the argument vector that triggered it; 0 is the name.
    pub at: Option<usize>,
    /// What to do instead, as a clause.
    pub instead: Option<Cow<'static, str>>,
}

impl Denial {
    /// A refusal of the request as a whole.
    #[must_use]
    pub fn new(
        rule: impl Into<Cow<'static, str>>,
        kind: RuleKind,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self { rule: rule.into(), kind, reason, message: message.into(), at: None, instead: None }
    }

    /// The same, triggered by one element of the argument vector.
    #[must_use]
    pub fn at(self, element: usize) -> Self {
        Self { at: Some(element), ..self }
    }

    /// The same, with what to do instead, as a clause.
    #[must_use]
    pub fn instead(self, clause: impl Into<Cow<'static, str>>) -> Self {
        Self { instead: Some(clause.into()), ..self }
    }

    /// The same about a command that stands in another one's arguments, from `element` on.
    #[must_use]
    pub fn nested_at(self, element: usize) -> Self {
        Self { at: self.at.map(|at| at.saturating_add(element)), ..self }
    }

    /// The layer of the policy that refused.
    #[must_use]
    pub fn layer(&self) -> &'static str {
        match self.kind {
            RuleKind::Cwd => "cwd",
            RuleKind::Env => "environment",
            RuleKind::Limit => "limit",
            RuleKind::Consent => "consent",
            RuleKind::Allow | RuleKind::AllowPattern => "name",
            RuleKind::ArgDeny if self.rule == super::paths::RULE => "path",
            RuleKind::ArgDeny => "argument",
            RuleKind::BuiltinDeny if self.rule.starts_with("names.") => "name",
            RuleKind::BuiltinDeny => "argument",
        }
    }

    /// What to do instead, where the message does not say it already.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        let said = self.message.to_lowercase();
        self.instead.as_deref().filter(|clause| !said.contains(&clause.to_lowercase()))
    }
}

/// Kind of a rule, as the audit field `rule_kind` spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// The allow-list.
    Allow,
    /// `allow_patterns`.
    AllowPattern,
    /// A rule that holds whatever the allow-list says.
    BuiltinDeny,
    /// A rule about arguments.
    ArgDeny,
    /// The working directory.
    Cwd,
    /// Environment names.
    Env,
    /// A size or count.
    Limit,
    /// The consent of a person.
    Consent,
}

/// Machine code of a refusal, as the audit field `reason` spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The name is not on the allow-list.
    CommandNotAllowed,
    /// The name is always denied (shells, interpreters, wrappers).
    CommandAlwaysDenied,
    /// An argument is refused.
    ArgumentDenied,
    /// The working directory is outside of the workspace.
    CwdOutsideWorkspace,
    /// The working directory is not a directory.
    CwdMissing,
    /// An environment name may not be set.
    EnvNotAllowed,
    /// Too many arguments, or too many bytes of them.
    ArgvTooLarge,
    /// A NUL byte in the name, an argument or an environment value.
    NulInArgument,
    /// No command was given.
    EmptyCommand,
    /// A limit asked for cannot be granted.
    LimitTooHigh,
    /// As many commands run already as the policy allows.
    RateLimited,
    /// Nobody can be asked for consent.
    ConsentUnavailable,
    /// The person who was asked said no.
    ConsentDeclined,
    /// The question was closed without an answer.
    ConsentCancelled,
    /// The answer came too late.
    ConsentExpired,
    /// The answer had been used before.
    ConsentReplayed,
    /// The answer is about another command, or was given to another caller.
    ConsentMismatch,
    /// The answer belongs to no question of this server.
    ConsentForged,
}

impl RuleKind {
    /// The spelling in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowPattern => "allow_pattern",
            Self::BuiltinDeny => "builtin_deny",
            Self::ArgDeny => "arg_deny",
            Self::Cwd => "cwd",
            Self::Env => "env",
            Self::Limit => "limit",
            Self::Consent => "consent",
        }
    }
}

impl Reason {
    /// The spelling in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommandNotAllowed => "command_not_allowed",
            Self::CommandAlwaysDenied => "command_always_denied",
            Self::ArgumentDenied => "argument_denied",
            Self::CwdOutsideWorkspace => "cwd_outside_workspace",
            Self::CwdMissing => "cwd_missing",
            Self::EnvNotAllowed => "env_not_allowed",
            Self::ArgvTooLarge => "argv_too_large",
            Self::NulInArgument => "nul_in_argument",
            Self::EmptyCommand => "empty_command",
            Self::LimitTooHigh => "limit_too_high",
            Self::RateLimited => "rate_limited",
            Self::ConsentUnavailable => "consent_unavailable",
            Self::ConsentDeclined => "consent_declined",
            Self::ConsentCancelled => "consent_cancelled",
            Self::ConsentExpired => "consent_expired",
            Self::ConsentReplayed => "consent_replayed",
            Self::ConsentMismatch => "consent_mismatch",
            Self::ConsentForged => "consent_forged",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_follow_kind_and_rule() {
        let layer = |rule: &'static str, kind| Denial::new(rule, kind, Reason::ArgumentDenied, "x").layer();
        assert_eq!(layer("allow", RuleKind::Allow), "name");
        assert_eq!(layer("names.shell", RuleKind::BuiltinDeny), "name");
        assert_eq!(layer("arguments.nul", RuleKind::BuiltinDeny), "argument");
        assert_eq!(layer("sort.output", RuleKind::ArgDeny), "argument");
        assert_eq!(layer("path.outside", RuleKind::ArgDeny), "path");
        assert_eq!(layer("limits.arguments", RuleKind::Limit), "limit");
        assert_eq!(layer("cwd.outside", RuleKind::Cwd), "cwd");
        assert_eq!(layer("environment.hook", RuleKind::Env), "environment");
    }

    #[test]
    fn what_the_message_says_is_not_said_twice() {
        let denial = Denial::new("a.b", RuleKind::ArgDeny, Reason::ArgumentDenied, "No. Allowed: x");
        assert_eq!(denial.clone().instead("allowed: x").advice(), None);
        assert_eq!(denial.clone().instead("leave it out").advice(), Some("leave it out"));
        assert_eq!(denial.advice(), None);
    }

    #[test]
    fn a_nested_command_counts_from_the_outer_one() {
        let denial = Denial::new("a.b", RuleKind::ArgDeny, Reason::ArgumentDenied, "x");
        assert_eq!(denial.clone().at(1).nested_at(3).at, Some(4));
        assert_eq!(denial.nested_at(3).at, None);
    }
}
