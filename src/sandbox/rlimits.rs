//! Resource limits of a command (setrlimit(2)): hard equals soft, so nothing can be raised.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Limits;

/// A resource and its value.
pub type Limit = (u32, u64);

/// Those that a policy sets; all others are the same for every run.
const RESOURCES: &[Resource] = &[
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_AS,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
];

/// Those.
const COMMON: &[Resource] = &[
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_NICE,
];

/// Bytes of POSIX message queues of a command that may have some: the kernel's own default.
const QUEUES: u64 = 819_200;
/// Queued signals and POSIX timers.
const SIGNALS: u64 = 256;

/// Hard limits of the calling process for the resources that a policy limits.
///
/// # Errors
/// As the kernel says.
pub fn hard() -> nix::Result<Vec<Limit>> {
    RESOURCES.iter().map(|r| getrlimit(*r).map(|(_, hard)| (*r as u32, hard))).collect()
}

/// What is the same for every command: no core dumps, locked memory, real-time or raised priority, and message
/// queues only for a command that may have some (`queues`). None above the caller's own hard limits.
///
/// # Errors
/// As the kernel says.
pub fn common(queues: bool) -> nix::Result<Vec<Limit>> {
    let value = |resource| match resource {
        Resource::RLIMIT_MSGQUEUE if queues => QUEUES,
        Resource::RLIMIT_SIGPENDING => SIGNALS,
        _ => 0,
    };
    COMMON.iter().map(|r| getrlimit(*r).map(|(_, hard)| (*r as u32, value(*r).min(hard)))).collect()
}

/// Sets [`common`], for the commands of this supervisor to inherit.
///
/// # Errors
/// As the kernel says.
pub fn set_common(queues: bool) -> nix::Result<()> {
    let values = common(queues)?;
    COMMON.iter().zip(values).try_for_each(|(resource, (_, value))| setrlimit(*resource, value, value))
}

/// The limits of one run, none above `hard`: without CAP_SYS_RESOURCE that would be an error.
///
/// RLIMIT_NPROC counts all processes of the user. Where the run's cgroup counts its own (`counted`), it is
/// only the ceiling of all runs together, or one run could take from another.
#[must_use]
pub fn of(limits: &Limits, hard: &[Limit], counted: bool) -> Vec<Limit> {
    // Supervisors count as well: two a run, and those that wait.
    let all = limits.processes.saturating_add(2).saturating_mul(limits.jobs as u64).saturating_add(64);
    let wanted = |resource| match resource {
        Resource::RLIMIT_CPU => limits.cpu_time.as_secs().max(1),
        Resource::RLIMIT_AS => limits.memory,
        Resource::RLIMIT_FSIZE => limits.file_size,
        Resource::RLIMIT_NOFILE => limits.open_files,
        Resource::RLIMIT_NPROC => {
            if counted {
                all
            } else {
                limits.processes
            }
        }
        _ => u64::MAX,
    };
    let ceiling = |number| hard.iter().find(|(n, _)| *n == number).map_or(u64::MAX, |(_, value)| *value);
    RESOURCES.iter().map(|r| (*r as u32, wanted(*r).min(ceiling(*r as u32)))).collect()
}
