//! A named step between the request and the program: what it does, and the failure that names it.
//!
//! [`Failure`](super::wire::Failure) is made here and nowhere else, so that no step can fail without a name
//! and none can be left out of the tests that make each of them fail (`src/fault.rs`). Used by the whole room.

use std::fmt::Display;
use std::io;

use super::wire::Failure;

/// Runs the expression, a `Result`; its error becomes the failure of the step of that name.
macro_rules! step {
    ($name:expr, $work:expr) => {
        match crate::fault::struck(file!(), line!()) {
            None => $work.map_err(|error| $crate::launch::step::named($name, &error)),
            Some(error) => Err($crate::launch::step::named($name, &error)),
        }
    };
}
pub(super) use step;

/// An error of a step.
pub(super) trait Cause: Display {
    /// errno of it, 0 when there is none.
    fn errno(&self) -> i32 {
        0
    }
}

impl Cause for io::Error {
    fn errno(&self) -> i32 {
        self.raw_os_error().unwrap_or(0)
    }
}

impl Cause for nix::errno::Errno {
    fn errno(&self) -> i32 {
        *self as i32
    }
}

impl Cause for caps::errors::CapsError {
    fn errno(&self) -> i32 {
        libc::EPERM
    }
}

impl Cause for std::ffi::NulError {
    fn errno(&self) -> i32 {
        libc::EINVAL
    }
}

impl Cause for crate::sandbox::needs::Missing {
    fn errno(&self) -> i32 {
        self.errno
    }
}

impl Cause for crate::sandbox::filter::FilterError {}
impl Cause for crate::sandbox::landlock::RulesetError {}

/// What is not so, though it must be.
#[derive(Debug)]
pub(super) struct Unmet {
    text: String,
    errno: i32,
}

impl Display for Unmet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl Cause for Unmet {
    fn errno(&self) -> i32 {
        self.errno
    }
}

/// That `holds`, or why the step fails.
pub(super) fn that(holds: bool, errno: i32, text: impl Display) -> Result<(), Unmet> {
    if holds { Ok(()) } else { Err(unmet(errno, text)) }
}

/// The reason of a failure in words.
pub(super) fn unmet(errno: i32, text: impl Display) -> Unmet {
    Unmet { text: text.to_string(), errno }
}

/// The failure of the step `name`.
pub(super) fn named(name: &str, error: &dyn Cause) -> Failure {
    Failure { step: name.to_owned(), errno: error.errno(), message: format!("{name} failed: {error}") }
}
