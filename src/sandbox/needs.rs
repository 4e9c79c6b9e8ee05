//! What the walls need of the kernel: asked once, before anything is set up, so that a kernel which lacks
//! it is refused at start, by the name of the feature and the version of Linux that has it.
//!
//! A filter around the server can hide a call as well as an old kernel can (containers do). Asked by the
//! launcher; each step that uses a feature fails by itself where it is missing all the same.

use std::fmt;
use std::io;

use crate::sys;

/// Landlock ABI that the profiles are written for: signal scope is what the complete kill rests on.
pub const LANDLOCK: u32 = 6;

/// A feature of the kernel.
struct Feature {
    /// Name, and what it is for.
    name: &'static str,
    /// Version of Linux that has it.
    since: &'static str,
    ask: fn() -> io::Result<()>,
    /// The errno that says that it is there; 0: only success does.
    there: i32,
}

/// Without these nothing is served.
const ALWAYS: &[Feature] = &[
    Feature {
        name: "seccomp(2), the system-call filter",
        since: "3.17",
        ask: sys::filters,
        there: libc::EFAULT,
    },
    Feature {
        name: "seccomp user notification (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), by which refused calls are told",
        since: "5.19",
        ask: sys::notifications,
        there: libc::EFAULT,
    },
    Feature {
        name: "PR_SET_MDWE, by which memory that was written is never executed",
        since: "6.3",
        ask: sys::memory_rules,
        there: 0,
    },
    Feature {
        name: "close_range(2) with CLOSE_RANGE_CLOEXEC, by which no descriptor is inherited",
        since: "5.11",
        ask: sys::close_range,
        there: 0,
    },
    Feature {
        name: "openat2(2), by which the working directory stays beneath the workspace",
        since: "5.6",
        ask: sys::openat2,
        there: libc::EINVAL,
    },
];

/// Without these there are no mounts of its own.
const MOUNTS: &[Feature] = &[
    Feature { name: "open_tree(2)", since: "5.2", ask: sys::open_tree, there: libc::EINVAL },
    Feature { name: "move_mount(2)", since: "5.2", ask: sys::move_mount, there: libc::EINVAL },
    Feature { name: "mount_setattr(2)", since: "5.12", ask: sys::mount_setattr, there: libc::EINVAL },
];

/// A feature that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    name: String,
    since: &'static str,
    /// The kernel's answer; 0 when it was no error.
    pub errno: i32,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, since, errno } = self;
        write!(out, "this kernel has no {name}: Linux {since} or newer has it")?;
        if *errno != 0 {
            let errno = nix::errno::Errno::from_raw(*errno);
            write!(out, " (the answer was {errno}; a filter around this process may hide it)")?;
        }
        Ok(())
    }
}

/// The version of Linux that has `abi` of Landlock (landlock(7)).
#[must_use]
pub fn linux_with(abi: u32) -> &'static str {
    match abi {
        0 | 1 => "5.13",
        2 => "5.19",
        3 => "6.2",
        4 => "6.7",
        5 => "6.10",
        6 => "6.12",
        7 => "6.15",
        _ => "after 6.15",
    }
}

fn first(features: &[Feature]) -> Result<(), Missing> {
    for Feature { name, since, ask, there } in features {
        let answer = ask().map_or_else(|e| e.raw_os_error().unwrap_or(-1), |()| 0);
        if answer != *there {
            return Err(Missing { name: (*name).to_owned(), since, errno: answer });
        }
    }
    Ok(())
}

/// That everything is there without which nothing may be served; gives back the ABI of Landlock.
///
/// # Errors
/// The first feature that is missing.
pub fn always() -> Result<u32, Missing> {
    let lacks = |what: String, errno| Missing { name: what, since: linux_with(LANDLOCK), errno };
    let abi = sys::landlock_abi().map_err(|e| {
        lacks("Landlock, or it is not enabled (lsm=)".to_owned(), e.raw_os_error().unwrap_or(-1))
    })?;
    if abi < LANDLOCK {
        return Err(lacks(format!("Landlock ABI {LANDLOCK}, only {abi}"), 0));
    }
    first(ALWAYS)?;
    Ok(abi)
}

/// That everything is there which mounts of its own take. Asked in the namespace that they are for.
///
/// # Errors
/// The first feature that is missing.
pub fn mounts() -> Result<(), Missing> {
    first(MOUNTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supported_kernel_has_all_of_it_and_asking_changes_nothing() {
        let before = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(always().unwrap() >= LANDLOCK);
        // Without the right to mount, the kernel may answer EPERM before it looks.
        let asked = mounts();
        assert!(asked.as_ref().is_ok() || asked.as_ref().is_err_and(|e| e.errno == libc::EPERM), "{asked:?}");
        let line = |text: &str| text.lines().filter(|l| l.starts_with("Seccomp")).collect::<String>();
        assert_eq!(line(&before), line(&std::fs::read_to_string("/proc/self/status").unwrap()));
    }

    #[test]
    fn any_other_answer_is_a_missing_feature_and_names_its_version() {
        let absent: fn() -> io::Result<()> = || Err(io::Error::from_raw_os_error(libc::ENOSYS));
        let feature = |ask, there| Feature { name: "thing(2)", since: "9.9", ask, there };
        let missing = first(&[feature(absent, libc::EFAULT)]).unwrap_err();
        assert!(missing.to_string().contains("no thing(2): Linux 9.9 or newer"), "{missing}");
        assert!(missing.to_string().contains("ENOSYS"), "{missing}");
        // Success where an error is expected is no sign of it either.
        assert!(first(&[feature(|| Ok(()), libc::EFAULT)]).is_err());
        assert!(first(&[feature(|| Ok(()), 0)]).is_ok());
    }
}
