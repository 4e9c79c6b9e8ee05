//! Bounds of a request that hold whatever its command is: sizes, bytes, the wall clock, the directory.
//!
//! Purpose: each check with the refusal that names its limit. Pure. Inputs: the limits in force and the request.
//! Called by `judge.rs`;
//! `appliance/line` refuses a directory in the same words.

use std::ffi::NulError;
use std::time::Duration;

use super::{Denial, Reason, Request, RuleKind};
use crate::config::Limits;
use crate::config::workspace::CwdError;

/// The size of an argument vector, and that no argument holds a NUL byte.
pub(super) fn check_size(limits: &Limits, argv: &[&[u8]]) -> Result<(), Denial> {
    if argv.len() > limits.arguments {
        return Err(too_large(
            "limits.arguments",
            format!("{} arguments exceed the limit of {}.", argv.len(), limits.arguments),
        ));
    }
    let mut bytes = 0usize;
    for (index, argument) in argv.iter().enumerate() {
        if argument.contains(&0) {
            let place = if index == 0 { "The command name".to_owned() } else { format!("Argument {index}") };
            let message = format!("{place} holds a NUL byte, which no argument can.");
            return Err(Denial::new("arguments.nul", RuleKind::BuiltinDeny, Reason::NulInArgument, message)
                .at(index)
                .instead("leave the NUL byte out"));
        }
        bytes = bytes.saturating_add(argument.len()).saturating_add(1);
    }
    if bytes > limits.argument_bytes {
        return Err(too_large(
            "limits.argument_bytes",
            format!("Arguments of {bytes} bytes exceed the limit of {}.", limits.argument_bytes),
        ));
    }
    Ok(())
}

/// The wall clock of a run, and whether more was asked for.
pub(super) fn within(limits: &Limits, request: &Request) -> Result<(Duration, bool), Denial> {
    let (usual, most) = if request.background {
        (limits.max_job_time, limits.max_job_time)
    } else {
        (limits.timeout, limits.max_timeout)
    };
    match request.timeout {
        None => Ok((usual.min(most), false)),
        Some(Duration::ZERO) => Err(Denial::new(
            "limits.timeout",
            RuleKind::Limit,
            Reason::LimitTooHigh,
            "timeout must be a positive number",
        )
        .instead("ask for a positive number, or for none")),
        Some(asked) => Ok((asked.min(most), asked > most)),
    }
}

pub(super) fn too_large(rule: &'static str, message: String) -> Denial {
    Denial::new(rule, RuleKind::Limit, Reason::ArgvTooLarge, message)
        .instead("send fewer or shorter arguments, in several commands if need be")
}

pub(super) fn nul(error: &NulError) -> Denial {
    let message = format!("NUL byte in an argument or environment value ({error}).");
    Denial::new("arguments.nul", RuleKind::BuiltinDeny, Reason::NulInArgument, message)
        .instead("leave the NUL byte out")
}

/// A working directory that cannot be had, in the words of every surface.
pub(crate) fn cwd_denial(error: &CwdError) -> Denial {
    let (rule, reason) = match error {
        CwdError::Outside { .. } => ("cwd.outside", Reason::CwdOutsideWorkspace),
        CwdError::Missing(_) => ("cwd.missing", Reason::CwdMissing),
        CwdError::Failed { .. } => ("cwd.failed", Reason::CwdMissing),
    };
    Denial::new(rule, RuleKind::Cwd, reason, error.to_string())
        .instead("name an existing directory of the workspace, or none for its root")
}
