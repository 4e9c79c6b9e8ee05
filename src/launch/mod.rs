//! The launch room: launcher process, one stub a run, the code between clone and exec, tree kill.
//! Knows nothing of the policy's rules or of MCP; takes only [`crate::policy::Authorized`].
//!
//! ```text
//! server (tokio)          holds policy, audit and MCP
//!  └ launcher             this executable again: no environment, one thread, no capabilities
//!     └ stub, one a run   own Landlock signal domain, subreaper, deadline, kill
//!        └ command        nested domain (files, network), filter, rlimits → execve
//! ```
#![allow(clippy::disallowed_methods, reason = "the one door: processes are made here and nowhere else")]

mod aliases;
pub mod attempts;
mod cgroup;
mod client;
mod confine;
mod launcher;
mod leaf;
mod listen;
mod observe;
mod open;
mod overlay;
mod pool;
pub mod requirements;
mod scratch;
pub mod seam;
mod step;
mod stub;
mod terminal;
mod tree;
mod wire;

pub use client::{Launcher, Prepared, Running};
pub use open::{OpenFor, Opener};
pub use wire::{DeniedCall, Ended, EndedBy, Execution, Facts, Fidelity, GroupFacts, Met, Touch};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::{CgroupUse, Config, Switch};
use crate::sandbox::identity;

/// `argv[0]` by which this executable knows that it is the launcher.
const ARGV0: &str = "cofferdam-launcher";
/// Variables that name the scratch directory of a run, unless the policy sets them.
pub(crate) const SCRATCH_VARIABLES: [&str; 2] = ["HOME=", "TMPDIR="];
/// Size of one run's private scratch file system.
const SCRATCH_BYTES: u64 = 64 << 20;

/// Why a command could not be started, or its launcher not be set up.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LaunchError {
    /// Step that failed: `resolve`, `execve`, or one of the sandbox.
    pub step: String,
    /// errno of it, 0 when there is none.
    pub errno: i32,
    /// One sentence.
    pub message: String,
}

impl LaunchError {
    pub(crate) fn new(step: &str, errno: i32, message: &str) -> Self {
        Self { step: step.to_owned(), errno, message: message.to_owned() }
    }
}

/// This program can be its own launcher.
static ASKED: AtomicBool = AtomicBool::new(false);

/// **Must be the first call in `main`** of every program that starts commands, before any thread, runtime or
/// argument is looked at: when this process was started as the launcher, it serves until its socket closes and
/// exits; otherwise this returns at once.
///
/// The launcher is this very executable, started again with an empty environment. A `main` that does not call
/// this would go its usual way in that process, so [`start`] refuses in a process where it was not called. Under
/// `#[tokio::main]` the threads of the runtime exist before the body of `main`: the launcher refuses that, too;
/// build the runtime by hand.
pub fn become_launcher_if_asked() {
    ASKED.store(true, Ordering::Relaxed);
    if std::env::args_os().next().is_some_and(|name| name == ARGV0) {
        launcher::serve();
        std::process::exit(0);
    }
}

/// Starts the launcher of `config`. Call it before any thread exists.
///
/// From then on a file that reaches RLIMIT_FSIZE, such as the audit log, is an error to the caller
/// and not the end of the process.
///
/// Where the host allows it the launcher gets a mount namespace of its own; where it does not, what
/// that would have closed must be closed by the host (a noexec workspace), or this is an error.
///
/// Requirements of `[sandbox] require` that need a look at the host are the caller's to check.
///
/// # Errors
/// A step that failed, or a requirement that does not hold, with its remedy.
pub fn start(config: &Config) -> Result<Launcher, LaunchError> {
    launch(config, false)
}

/// The same, but nothing that a command writes into the workspace stays: it goes to an overlay that ends
/// with the launcher.
///
/// # Errors
/// As [`start`]; and where the host allows no mounts, unless the workspace is read-only.
pub fn start_throw_away(config: &Config) -> Result<Launcher, LaunchError> {
    launch(config, true)
}

fn launch(config: &Config, throw_away: bool) -> Result<Launcher, LaunchError> {
    if !ASKED.load(Ordering::Relaxed) {
        let text = "this program is to start itself again as its launcher, and would not know it: call \
                    cofferdam::become_launcher_if_asked() as the first thing in main";
        return Err(LaunchError::new("become_launcher_if_asked", 0, text));
    }
    crate::sys::survive_file_size_limit()
        .map_err(|e| LaunchError::new("signals", e.raw_os_error().unwrap_or(0), &e.to_string()))?;
    let workspace = &config.workspace;
    let user = identity::choose(config.sandbox.user, &workspace.path, workspace.write)
        .map_err(|e| LaunchError::new("identity", e.raw_os_error().unwrap_or(0), &e.to_string()))?;
    let setup = wire::Setup {
        workspace: workspace.path.clone(),
        write: workspace.write,
        repository_write: workspace.repository_write,
        user,
        throw_away: throw_away && workspace.write,
        jobs: config.limits.jobs,
        isolate: true,
        terminals: config.uses(Switch::Pty),
        ipc: config.uses(Switch::Ipc),
        scratch_slots: client::stubs(config.limits.jobs),
        scratch_bytes: SCRATCH_BYTES,
        cgroup: config.limits.cgroup.clone(),
        memory: config.limits.memory,
        processes: config.limits.processes,
    };
    let launcher = Launcher::start(&setup).or_else(|first| {
        if setup.throw_away {
            let text =
                format!("what a command writes could not be thrown away ({first}): allow user namespaces");
            return Err(LaunchError::new("overlay", first.errno, &text));
        }
        // Those of the host are other people's.
        if setup.terminals || setup.ipc {
            let text = format!(
                "kernel = [\"pty\"] and [\"ipc\"] need namespaces of their own, which this host refuses ({first}): \
                 allow unprivileged user namespaces for this process, or remove them from the policy"
            );
            return Err(LaunchError::new("kernel switches", first.errno, &text));
        }
        // Namespaces are refused in many containers; a second launcher does without.
        let again = Launcher::start(&wire::Setup { isolate: false, ..setup.clone() });
        // Why it was tried is as much of a reason as why it failed.
        let again = again.map_err(|second| match second.message == first.message {
            true => second,
            false => {
                let message = format!("{} (no mounts of its own: {first})", second.message);
                LaunchError { message, ..second }
            }
        })?;
        Ok::<_, LaunchError>(again.without_mounts(&first))
    })?;
    if !launcher.facts().workspace_noexec {
        let text = format!(
            "files of the workspace {} can be executed through the loader: mount it noexec, or allow \
             unprivileged user namespaces for this process (no mounts of its own: {})",
            workspace.path.display(),
            launcher.facts().no_mount_namespace.as_deref().unwrap_or("they did not take effect")
        );
        return Err(LaunchError::new("workspace_noexec", 0, &text));
    }
    let group = &launcher.facts().cgroup;
    if let (Some(reason), false) = (&group.reason, config.limits.cgroup == CgroupUse::Off) {
        tracing::info!("limits of a run as a whole ({}): {reason}", group.as_str());
    }
    for requirement in config.sandbox.require.iter().filter(|one| !requirements::needs_host(**one)) {
        requirements::check(*requirement, launcher.facts(), None)?;
    }
    Ok(launcher)
}
