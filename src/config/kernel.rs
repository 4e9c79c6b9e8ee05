//! `command.NAME.kernel`: what the kernel profile of one command opens beyond the closed default.
//!
//! Purpose: one table of the switches, with what each opens and what it costs, for the reader of a policy,
//! for `check` and for the audit record. Pure. Read by the config room, `sandbox/` and `cli/`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One switch of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// System V and POSIX queues, semaphores and shared memory, in an IPC namespace of the launcher.
    Ipc,
    /// Memory that was written may be executed: just-in-time compilers.
    Jit,
    /// Sealed, anonymous files in memory (`MFD_NOEXEC_SEAL` only).
    Memfd,
    /// Pseudo-terminals, on an instance of `devpts` of the launcher.
    Pty,
    /// inotify.
    Watch,
}

impl Switch {
    /// All of them, by name.
    pub const ALL: [Self; 5] = [Self::Ipc, Self::Jit, Self::Memfd, Self::Pty, Self::Watch];

    /// Its word in the policy file and in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ipc => "ipc",
            Self::Jit => "jit",
            Self::Memfd => "memfd",
            Self::Pty => "pty",
            Self::Watch => "watch",
        }
    }

    /// What it opens, to whom it matters.
    #[must_use]
    pub const fn opens(self) -> &'static str {
        match self {
            Self::Ipc => {
                "System V and POSIX IPC, shared with other runs that have it; what a run leaves there stays \
                 until the server ends"
            }
            Self::Jit => "memory that was written may be executed, so a program can run code from memory",
            Self::Memfd => {
                "anonymous files in memory, which the loader maps: a program that is not listed can run from one"
            }
            Self::Pty => "terminals of its own; runs that have it as well can open the same ones",
            Self::Watch => {
                "inotify, which no file rule restricts: names in any directory that its user may read"
            }
        }
    }

    /// Whether it takes away something that is promised for every other command.
    #[must_use]
    pub const fn weakens(self) -> bool {
        match self {
            Self::Jit | Self::Memfd | Self::Watch => true,
            Self::Ipc | Self::Pty => false,
        }
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|switch| switch.as_str() == text)
            .ok_or_else(|| format!("\"{}\" is no kernel switch", text.escape_debug()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for switch in Switch::ALL {
            assert_eq!(switch.as_str().parse(), Ok(switch));
            assert_eq!(serde_json::to_value(switch).unwrap(), switch.as_str());
        }
        assert!("network".parse::<Switch>().is_err());
    }
}
