//! How the outcome of an attempt is read, and what was expected of it. Pure.
//!
//! The rule: only an answer that means refusal counts as blocked. A call that fails for any other
//! reason got past the check, and an attempt that could not be made proves nothing.

use std::io;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::Ground;

/// One attempt and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Which attempt.
    pub id: String,
    /// How it ended.
    pub result: Answered,
    /// The kernel's answer, or what was achieved.
    pub detail: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answered {
    /// Refused.
    Blocked,
    /// It worked.
    Open,
    /// It could not be made: nothing is known.
    Error,
}

impl Answered {
    /// Its word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Open => "open",
            Self::Error => "error",
        }
    }
}

/// What must come of an attempt, depending on the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Refused, whatever the policy says.
    Blocked,
    /// It works, for this reason.
    Open(&'static str),
    /// It works where the workspace is writable.
    IfWritable,
    /// It works where TCP ports are allowed.
    IfTcp,
    /// It works where runs have a scratch directory.
    IfScratch,
    /// It works where commands stay root.
    IfRoot,
    /// It works where the policy grants reading there.
    IfReadable,
}

/// The same, decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Refused.
    Blocked,
    /// It works, for this reason.
    Open(&'static str),
}

impl Expect {
    /// Decides it for one policy on one host.
    #[must_use]
    pub fn on(self, ground: &Ground) -> Expected {
        let (open, reason) = match self {
            Self::Blocked => (false, ""),
            Self::Open(reason) => (true, reason),
            Self::IfWritable => (ground.write, "granted: workspace.write"),
            Self::IfTcp => (ground.tcp, "granted: sandbox.network"),
            Self::IfScratch => (ground.scratch, "each run has a scratch directory of its own"),
            Self::IfRoot => (ground.root, "commands stay root, without capabilities (sandbox.user)"),
            Self::IfReadable => (ground.outside_readable, "granted: sandbox.read"),
        };
        if open { Expected::Open(reason) } else { Expected::Blocked }
    }
}

/// How an answer compares with what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Refused, as it must be.
    Holds,
    /// It works, as it should; the reason is in [`Expected::Open`].
    ExpectedOpen,
    /// It works and must not.
    Open,
    /// It is refused and should work.
    Shut,
    /// It could not be made.
    Unknown,
}

impl Mark {
    /// Whether the expectation holds.
    #[must_use]
    pub fn as_expected(self) -> bool {
        matches!(self, Self::Holds | Self::ExpectedOpen)
    }
}

/// Compares.
#[must_use]
pub fn mark(expected: Expected, result: Answered) -> Mark {
    match (expected, result) {
        (Expected::Blocked, Answered::Blocked) => Mark::Holds,
        (Expected::Open(_), Answered::Open) => Mark::ExpectedOpen,
        (Expected::Blocked, Answered::Open) => Mark::Open,
        (Expected::Open(_), Answered::Blocked) => Mark::Shut,
        (_, Answered::Error) => Mark::Unknown,
    }
}

/// Why an attempt came to nothing.
#[derive(Debug)]
pub(super) enum Stop {
    /// It was refused.
    Refused(String),
    /// It could not be made.
    Failed(String),
}

/// Answers of the kernel that mean "you may not" or "there is no such call".
const REFUSALS: &[Errno] = &[Errno::EPERM, Errno::EACCES, Errno::ENOSYS, Errno::EROFS];

fn text(step: &str, errno: Errno) -> String {
    format!("{step}: {}", errno.desc())
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

/// A step that must work out for the attempt to mean anything: other errors than refusals fail it.
pub(super) fn step<T>(name: &str, result: Result<T, impl Into<io::Error>>) -> Result<T, Stop> {
    result.map_err(|e| {
        let error = e.into();
        let errno = errno_of(&error);
        if REFUSALS.contains(&errno) {
            Stop::Refused(text(name, errno))
        } else {
            Stop::Failed(format!("{name}: {error}"))
        }
    })
}

/// The one call in question: any answer but a refusal means that it got past the check.
pub(super) fn call<T>(name: &str, result: Result<T, impl Into<io::Error>>) -> Result<String, Stop> {
    call_or(name, result, &[])
}

/// The same, with further answers that mean refusal for this call.
pub(super) fn call_or<T>(
    name: &str,
    result: Result<T, impl Into<io::Error>>,
    more: &[Errno],
) -> Result<String, Stop> {
    match result {
        Ok(_) => Ok(format!("{name} worked")),
        Err(e) => {
            let errno = errno_of(&e.into());
            if REFUSALS.contains(&errno) || more.contains(&errno) {
                Err(Stop::Refused(text(name, errno)))
            } else {
                Ok(format!("{name} got past the check ({})", errno.desc()))
            }
        }
    }
}

/// What an attempt's end says.
pub(super) fn answer(tried: Result<String, Stop>) -> (Answered, String) {
    match tried {
        Ok(detail) => (Answered::Open, detail),
        Err(Stop::Refused(detail)) => (Answered::Blocked, detail),
        Err(Stop::Failed(detail)) => (Answered::Error, detail),
    }
}

/// What it means that the child of an attempt said nothing.
pub(super) fn without_answer(code: Option<i32>, signal: Option<i32>) -> (Answered, String) {
    match signal {
        Some(libc::SIGSYS) => (Answered::Blocked, "killed: SIGSYS".to_owned()),
        Some(libc::SIGXFSZ) => (Answered::Blocked, "killed: SIGXFSZ".to_owned()),
        Some(libc::SIGALRM) => (Answered::Error, "it hung".to_owned()),
        Some(signal) => (Answered::Error, format!("ended by signal {signal}")),
        None => (Answered::Error, format!("no answer (status {})", code.unwrap_or(-1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(tried: Result<String, Stop>) -> Answered {
        answer(tried).0
    }

    #[test]
    fn only_a_refusal_is_a_refusal() {
        let failed = |errno: Errno| call("x", Err::<(), _>(errno));
        for errno in [Errno::EPERM, Errno::EACCES, Errno::ENOSYS, Errno::EROFS] {
            assert_eq!(result(failed(errno)), Answered::Blocked, "{errno}");
        }
        for errno in [Errno::EFAULT, Errno::EINVAL, Errno::EBADF, Errno::ENOTTY, Errno::ENOENT] {
            assert_eq!(result(failed(errno)), Answered::Open, "{errno} comes after the check");
        }
        assert_eq!(result(call("x", Ok::<_, Errno>(()))), Answered::Open);
        assert_eq!(result(call_or("x", Err::<(), _>(Errno::ENOTTY), &[Errno::ENOTTY])), Answered::Blocked);
    }

    #[test]
    fn what_could_not_be_tried_proves_nothing() {
        assert_eq!(result(step("x", Err::<(), _>(Errno::ENOENT)).map(|()| String::new())), Answered::Error);
        assert_eq!(result(step("x", Err::<(), _>(Errno::EACCES)).map(|()| String::new())), Answered::Blocked);
        assert_eq!(without_answer(Some(0), None).0, Answered::Error);
        assert_eq!(without_answer(None, Some(libc::SIGALRM)).0, Answered::Error);
        assert_eq!(without_answer(None, Some(libc::SIGSEGV)).0, Answered::Error);
        assert_eq!(without_answer(None, Some(libc::SIGSYS)).0, Answered::Blocked);
    }

    #[test]
    fn an_expectation_that_is_not_met_is_not_as_expected() {
        use Answered::{Blocked, Error, Open};
        let open = Expected::Open("reason");
        let marks = [
            (Expected::Blocked, Blocked, Mark::Holds),
            (Expected::Blocked, Open, Mark::Open),
            (Expected::Blocked, Error, Mark::Unknown),
            (open, Open, Mark::ExpectedOpen),
            (open, Blocked, Mark::Shut),
            (open, Error, Mark::Unknown),
        ];
        for (expected, result, wanted) in marks {
            assert_eq!(mark(expected, result), wanted);
            let met = matches!((expected, result), (Expected::Blocked, Blocked) | (Expected::Open(_), Open));
            assert_eq!(wanted.as_expected(), met, "{expected:?} and {result:?}");
        }
    }

    #[test]
    fn the_policy_decides_what_may_be_open() {
        let closed = Ground::default();
        let open = Ground {
            write: true,
            tcp: true,
            scratch: true,
            root: true,
            outside_readable: true,
            ..Ground::default()
        };
        for expect in
            [Expect::IfWritable, Expect::IfTcp, Expect::IfScratch, Expect::IfRoot, Expect::IfReadable]
        {
            assert_eq!(expect.on(&closed), Expected::Blocked, "{expect:?}");
            assert!(matches!(expect.on(&open), Expected::Open(reason) if !reason.is_empty()), "{expect:?}");
        }
        assert_eq!(Expect::Blocked.on(&open), Expected::Blocked);
        assert_eq!(Expect::Open("r").on(&closed), Expected::Open("r"));
    }
}
