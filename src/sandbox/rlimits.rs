//! Resource limits of a command (setrlimit(2)): hard equals soft, so nothing can be raised.

use nix::sys::resource::{Resource, getrlimit};

use crate::config::Limits;

/// A resource and its value.
pub type Limit = (u32, u64);

const RESOURCES: &[Resource] = &[
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_AS,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_NICE,
];

/// Hard limits of the calling process for the resources that commands are limited in.
///
/// # Errors
/// As the kernel says.
pub fn hard() -> nix::Result<Vec<Limit>> {
    RESOURCES.iter().map(|r| getrlimit(*r).map(|(_, hard)| (*r as u32, hard))).collect()
}

/// Bytes of POSIX message queues of a command that may have some: the kernel's own default.
const QUEUES: u64 = 819_200;

/// Room for message queues, which no other command has.
pub fn allow_queues(limits: &mut [Limit], hard: &[Limit]) {
    let queues = Resource::RLIMIT_MSGQUEUE as u32;
    let most = hard.iter().find(|(number, _)| *number == queues).map_or(0, |(_, value)| *value);
    for (_, value) in limits.iter_mut().filter(|(number, _)| *number == queues) {
        *value = QUEUES.min(most);
    }
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
        // No core dumps, locked memory, message queues, real-time or raised priority.
        Resource::RLIMIT_CORE
        | Resource::RLIMIT_MEMLOCK
        | Resource::RLIMIT_MSGQUEUE
        | Resource::RLIMIT_RTPRIO
        | Resource::RLIMIT_NICE => 0,
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
        // Queued signals and POSIX timers.
        _ => 256,
    };
    let ceiling = |number| hard.iter().find(|(n, _)| *n == number).map_or(u64::MAX, |(_, value)| *value);
    RESOURCES.iter().map(|r| (*r as u32, wanted(*r).min(ceiling(*r as u32)))).collect()
}
