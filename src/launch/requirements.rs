//! `[sandbox] require`: each is met as read back, or nothing is served.
//!
//! Purpose: the exact meaning of every name, in one place. Inputs: what the launcher read back and what the
//! survey of the host says; what is not known is not met. Pure. Called by `appliance.rs` and `doctor`.

mod around;

use std::fmt::Display;

use super::{Facts, LaunchError};
use crate::config::Requirement;
use crate::sandbox::host::{Host, Known, hides_processes};

/// Why a requirement is not met, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// The requirement as it is written.
    pub name: String,
    /// What was found.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

impl From<Unmet> for LaunchError {
    fn from(unmet: Unmet) -> Self {
        let Unmet { name, found, remedy } = unmet;
        Self::new("require", 0, &format!("sandbox.require: {name} does not hold here: {found}; {remedy}"))
    }
}

/// Whether the survey of the host is needed to decide.
#[must_use]
pub fn needs_host(requirement: Requirement) -> bool {
    use Requirement as R;
    match requirement {
        R::Landlock(_) | R::Seccomp | R::CapsEmpty | R::NoNewPrivs => false,
        R::MountNamespace | R::WorkspaceNoexec | R::UnprivilegedUser => false,
        R::Hidepid | R::PidsLimit | R::MemoryLimit | R::NoNetworkRoutes => true,
        R::ReadOnlyRoot | R::PolicyProtected => true,
        R::PidsAtMost(_) | R::ProcessesAtMost(_) => true,
        R::ServerCapsEmpty | R::ServerNoNewPrivs | R::ServerSeccomp => true,
        R::WorkspaceMount | R::WorkspaceReadOnly | R::AuditMount => true,
        R::WritableKnown | R::WritableNoexec | R::NoSetuid => true,
    }
}

/// Decides one requirement. `host` may be absent only where [`needs_host`] says so.
///
/// # Errors
/// It is not met.
pub fn check(requirement: Requirement, facts: &Facts, host: Option<&Host>) -> Result<(), Unmet> {
    let unmet = |found: String, remedy: &str| {
        Err(Unmet { name: requirement.to_string(), found, remedy: remedy.to_owned() })
    };
    let looked = || {
        let found = "the host was not looked at".to_owned();
        host.ok_or_else(|| Unmet {
            name: requirement.to_string(),
            found,
            remedy: "this is a fault of cofferdam: report it".to_owned(),
        })
    };
    match requirement {
        Requirement::Landlock(abi) if facts.landlock_abi < abi => unmet(
            format!("Landlock ABI {}", facts.landlock_abi),
            "run a newer kernel with Landlock enabled (lsm=landlock)",
        ),
        // A filter is a step of every stub: without it none is ever ready.
        Requirement::Landlock(_) | Requirement::Seccomp => Ok(()),
        Requirement::CapsEmpty if facts.caps != 0 => {
            unmet(format!("commands keep capabilities {:#x}", facts.caps), "start cofferdam without them")
        }
        Requirement::CapsEmpty => Ok(()),
        Requirement::NoNewPrivs if !facts.no_new_privs => {
            unmet("no_new_privs is not set".to_owned(), "run a kernel that has it")
        }
        Requirement::NoNewPrivs => Ok(()),
        Requirement::MountNamespace if !facts.mount_namespace => unmet(
            "commands see the mounts of the host".to_owned(),
            "allow this process unprivileged user namespaces (user.max_user_namespaces, \
             kernel.unprivileged_userns_clone, the container's seccomp profile), or start it as root",
        ),
        Requirement::MountNamespace => Ok(()),
        Requirement::WorkspaceNoexec if !facts.workspace_noexec => unmet(
            "files of the workspace can be executed".to_owned(),
            "mount the workspace noexec, or allow user namespaces",
        ),
        Requirement::WorkspaceNoexec => Ok(()),
        Requirement::UnprivilegedUser if facts.uid == 0 || facts.gid == 0 => unmet(
            format!("commands run as uid {}, gid {}", facts.uid, facts.gid),
            "start cofferdam as an unprivileged user, set sandbox.user = \"UID:GID\", or let the workspace \
             belong to one",
        ),
        Requirement::UnprivilegedUser => Ok(()),
        Requirement::Hidepid => match &looked()?.hidepid {
            Ok(Some(word)) if hides_processes(word) => Ok(()),
            found => unmet(
                known(found, |word| match word {
                    Some(word) => format!("/proc is mounted hidepid={word}"),
                    None => "/proc is mounted without hidepid".to_owned(),
                }),
                "mount -o remount,hidepid=2 /proc, or run cofferdam in a container of its own with it",
            ),
        },
        Requirement::PidsLimit => match &looked()?.pids {
            Ok(Some(_)) => Ok(()),
            found => unmet(
                known(found, |_| "the control group has no pids.max".to_owned()),
                "give the container --pids-limit, or the service TasksMax=",
            ),
        },
        Requirement::MemoryLimit => match &looked()?.memory {
            Ok(Some(_)) => Ok(()),
            found => unmet(
                known(found, |_| "the control group has no memory.max".to_owned()),
                "give the container --memory, or the service MemoryMax=",
            ),
        },
        Requirement::NoNetworkRoutes => {
            let host = looked()?;
            match (&host.interfaces, &host.routes) {
                (Ok(interfaces), Ok(routes)) if interfaces.is_empty() && routes.is_empty() => Ok(()),
                (Err(why), _) | (_, Err(why)) => unmet(why.clone(), NO_NETWORK),
                (Ok(interfaces), Ok(routes)) => unmet(
                    format!("interfaces up: {}; routes through: {}", list(interfaces), list(routes)),
                    NO_NETWORK,
                ),
            }
        }
        Requirement::ReadOnlyRoot => {
            match looked()?.mounts.iter().find(|mount| mount.path.parent().is_none()) {
                Some(root) if root.read_only => Ok(()),
                Some(root) => unmet(format!("/ is mounted {}", root.words()), READ_ONLY),
                None => unmet("the flags of / cannot be read".to_owned(), READ_ONLY),
            }
        }
        Requirement::PidsAtMost(_)
        | Requirement::ProcessesAtMost(_)
        | Requirement::ServerCapsEmpty
        | Requirement::ServerNoNewPrivs
        | Requirement::ServerSeccomp
        | Requirement::WorkspaceMount
        | Requirement::WorkspaceReadOnly
        | Requirement::AuditMount
        | Requirement::WritableKnown
        | Requirement::WritableNoexec
        | Requirement::NoSetuid => around::check(requirement, looked()?).map_err(|(found, remedy)| Unmet {
            name: requirement.to_string(),
            found,
            remedy: remedy.to_owned(),
        }),
        Requirement::PolicyProtected => {
            let weak = looked()?.policy.iter().find_map(|file| match file {
                Ok(file) => file.weak.clone(),
                Err(why) => Some(why.clone()),
            });
            match weak {
                None => Ok(()),
                Some(why) => unmet(
                    why,
                    "let the policy file and every directory above it belong to a user that commands do not \
                     run as, writable for that user only (chown root, chmod go-w), or mount it read-only",
                ),
            }
        }
    }
}

const NO_NETWORK: &str =
    "run cofferdam in a network namespace with nothing but lo (network_mode: none, PrivateNetwork=yes)";
const READ_ONLY: &str = "mount the root read-only (read_only: true, --read-only, ReadOnlyPaths=/)";

fn known<T>(fact: &Known<T>, say: impl FnOnce(&T) -> String) -> String {
    match fact {
        Ok(value) => say(value),
        Err(why) => why.clone(),
    }
}

fn list(words: &[impl Display]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
