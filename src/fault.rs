//! Faults on order, for tests: each named step between a request and its program can be made to fail.
//!
//! With the feature `fault-injection` the file named by an environment variable lists the steps that fail
//! now, one a line; an absent file lifts all. Without it, which is how everything ships, each question below
//! is answered by a constant and nothing of this is left. Asked by `launch/`, `sys/` and `audit/`; tests set
//! the file. Needs the standard library only: a test compiles this file by itself.

#[cfg(all(feature = "fault-injection", not(debug_assertions)))]
compile_error!(
    "the feature fault-injection makes the walls fail on order: it is for tests, never for a release"
);

#[cfg(feature = "fault-injection")]
pub(crate) use armed::{named, point, struck, value, variable};
#[cfg(not(feature = "fault-injection"))]
pub(crate) use none::{named, point, struck, value, variable};

/// What ships: nothing ever fails on order.
#[cfg(not(feature = "fault-injection"))]
mod none {
    use std::ffi::OsString;
    use std::io;

    #[inline(always)]
    pub(crate) const fn struck(_file: &str, _line: u32) -> Option<io::Error> {
        None
    }

    #[inline(always)]
    pub(crate) const fn named(_name: &str) -> Option<io::Error> {
        None
    }

    #[inline(always)]
    pub(crate) const fn point(_name: &str) {}

    #[inline(always)]
    pub(crate) const fn value(_name: &str) -> Option<u32> {
        None
    }

    #[inline(always)]
    pub(crate) const fn variable() -> Option<(&'static str, OsString)> {
        None
    }
}

#[cfg(feature = "fault-injection")]
mod armed {
    use std::ffi::OsString;
    use std::io;

    /// Names the file.
    const VARIABLE: &str = "COFFERDAM_FAULT_FILE";
    /// EIO: what no step answers by itself.
    const ERRNO: i32 = 5;

    /// The lines of the file. What cannot be read is an error of every step, not the absence of faults.
    fn orders() -> io::Result<String> {
        let Some(path) = std::env::var_os(VARIABLE) else { return Ok(String::new()) };
        match std::fs::read_to_string(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            other => other,
        }
    }

    /// A place where the process can be made to stand still: where the line `stop NAME` is ordered, it reads
    /// the FIFO of that name beside the file, until somebody writes there, or kills it.
    pub(crate) fn point(name: &str) {
        let Ok(orders) = orders() else { return };
        let ordered = orders.lines().any(|line| line.strip_prefix("stop ") == Some(name));
        if let (true, Some(path)) = (ordered, std::env::var_os(VARIABLE)) {
            let mut fifo = path;
            fifo.push(".");
            fifo.push(name.replace(':', "."));
            if let Err(error) = std::fs::read(&fifo) {
                eprintln!("cofferdam: {}: {error}", std::path::Path::new(&fifo).display());
            }
        }
    }

    /// The failure of `name`, when it is ordered; it is a [`point`] as well.
    pub(crate) fn named(name: &str) -> Option<io::Error> {
        point(name);
        match orders() {
            Ok(orders) => {
                orders.lines().any(|line| line == name).then(|| io::Error::from_raw_os_error(ERRNO))
            }
            Err(e) => Some(e),
        }
    }

    /// The failure of the step that stands at this place of the source.
    pub(crate) fn struck(file: &str, line: u32) -> Option<io::Error> {
        named(&format!("{file}:{line}"))
    }

    /// The number that stands for `name` in place of the kernel's answer: a line `NAME=NUMBER`.
    pub(crate) fn value(name: &str) -> Option<u32> {
        let orders = orders().unwrap_or_default();
        orders.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }

    /// For the environment of the launcher, which is empty otherwise.
    pub(crate) fn variable() -> Option<(&'static str, OsString)> {
        std::env::var_os(VARIABLE).map(|path| (VARIABLE, path))
    }
}
