//! Requirements on what stands around the server: the container, its mounts, its limits, the walls it was
//! started in.
//!
//! Purpose: front ends of containers drop settings without a word, so each is read back here. Inputs: the
//! survey of the host; what is not known is not met. Pure, but for the walk behind `no-setuid`. Called by
//! `requirements.rs` only.

use std::path::Path;

use crate::config::Requirement;
use crate::sandbox::host::{Host, Known, MountFlags, Own, setuid};

/// What was found, and what to do.
type Unmet = (String, &'static str);

/// Decides one requirement of this file.
pub(super) fn check(requirement: Requirement, host: &Host) -> Result<(), Unmet> {
    use Requirement as R;
    match requirement {
        R::PidsAtMost(most) => pids(most, &host.pids),
        R::ProcessesAtMost(most) => processes(most, &host.processes),
        R::ServerCapsEmpty => own(
            host,
            |own| own.effective == 0 && own.bounding == 0,
            CAPS,
            |own| format!("the server has effective {:#x}, bounding {:#x}", own.effective, own.bounding),
        ),
        R::ServerNoNewPrivs => own(
            host,
            |own| own.no_new_privs,
            NO_NEW_PRIVS,
            |_| "no_new_privs was not set on the server".to_owned(),
        ),
        R::ServerSeccomp => own(
            host,
            |own| own.seccomp == 2,
            SECCOMP,
            |own| format!("the server was started in seccomp mode {}", own.seccomp),
        ),
        R::WorkspaceMount => closed("the workspace", &host.workspace, WORKSPACE),
        R::WorkspaceReadOnly => match &host.workspace {
            Ok(Some(flags)) if flags.read_only => Ok(()),
            found => Err((format!("the workspace: {}", words(found)), WORKSPACE_READ_ONLY)),
        },
        R::AuditMount => host.audit.iter().try_for_each(|found| closed("audit records", found, AUDIT)),
        R::WritableKnown => match &host.writable {
            Ok(places) if places.is_empty() => Ok(()),
            Ok(places) => Err((format!("the server can write {}", paths(places)), WRITABLE)),
            Err(why) => Err((why.clone(), WRITABLE)),
        },
        R::WritableNoexec => executable(host),
        R::NoSetuid => {
            let walk = setuid();
            match walk.setuid.first() {
                None if !walk.cut => Ok(()),
                None => Err(("there are too many programs to look at them all".to_owned(), SETUID)),
                Some(first) => Err((format!("{} has the bit", shown(first)), SETUID)),
            }
        }
        // Decided in `requirements.rs`; said here so that a new one is never met by accident.
        other => Err((format!("{other} is not about the host"), "this is a fault of cofferdam: report it")),
    }
}

const CAPS: &str = "drop all capabilities: cap_drop: [ALL], --cap-drop=all, CapabilityBoundingSet=";
const NO_NEW_PRIVS: &str =
    "security_opt: [no-new-privileges], allowPrivilegeEscalation: false, NoNewPrivileges=yes";
const SECCOMP: &str = "run the container under its engine's seccomp profile or that of deploy/seccomp";
const WORKSPACE: &str =
    "mount it noexec,nosuid,nodev; some front ends drop options of a volume: see docs/container.md";
const WORKSPACE_READ_ONLY: &str = "mount it read-only (:ro), or do not require it";
const AUDIT: &str = "keep the records on a volume of their own, mounted noexec,nosuid,nodev";
const WRITABLE: &str = "read-only root, and /tmp, /var/tmp, /run, /dev/shm closed too (--read-only-tmpfs=false, or tmpfs entries with ro)";
const EXECUTABLE: &str = "mount what can be written noexec";
const SETUID: &str = "remove the bit, or mount with nosuid";
const PIDS: &str =
    "give the container --pids-limit (some front ends drop pids_limit), or the service TasksMax=";
const PROCESSES: &str = "ulimits: nproc in compose, --ulimit nproc=, LimitNPROC=";

fn pids(most: u32, found: &Known<Option<u64>>) -> Result<(), Unmet> {
    match found {
        Ok(Some(limit)) if *limit <= u64::from(most) => Ok(()),
        Ok(Some(limit)) => Err((format!("pids.max is {limit}"), PIDS)),
        Ok(None) => Err(("the control group has no pids.max".to_owned(), PIDS)),
        Err(why) => Err((why.clone(), PIDS)),
    }
}

fn processes(most: u32, found: &Known<(u64, u64)>) -> Result<(), Unmet> {
    match found {
        Ok((_, hard)) if *hard <= u64::from(most) => Ok(()),
        Ok((_, u64::MAX)) => Err(("RLIMIT_NPROC is unlimited".to_owned(), PROCESSES)),
        Ok((_, hard)) => Err((format!("the hard RLIMIT_NPROC is {hard}"), PROCESSES)),
        Err(why) => Err((why.clone(), PROCESSES)),
    }
}

fn own(
    host: &Host,
    good: impl FnOnce(&Own) -> bool,
    remedy: &'static str,
    say: impl FnOnce(&Own) -> String,
) -> Result<(), Unmet> {
    match &host.own {
        Ok(own) if good(own) => Ok(()),
        Ok(own) => Err((say(own), remedy)),
        Err(why) => Err((why.clone(), remedy)),
    }
}

fn closed(what: &str, found: &Known<Option<MountFlags>>, remedy: &'static str) -> Result<(), Unmet> {
    match found {
        Ok(Some(flags)) if flags.noexec && flags.nosuid && flags.nodev => Ok(()),
        found => Err((format!("{what}: {}", words(found)), remedy)),
    }
}

/// Workspace and audit where they can be written, and everything else that can.
fn executable(host: &Host) -> Result<(), Unmet> {
    for (what, found) in
        host.audit.iter().map(|own| ("audit records", own)).chain([("the workspace", &host.workspace)])
    {
        match found {
            Ok(Some(flags)) if flags.read_only || flags.noexec => {}
            found => return Err((format!("{what}: {}", words(found)), EXECUTABLE)),
        }
    }
    let places = host.writable.as_ref().map_err(|why| (why.clone(), EXECUTABLE))?;
    let open: Vec<MountFlags> = places
        .iter()
        .chain(&host.provided)
        .filter(|flags| !flags.noexec && !flags.read_only)
        .cloned()
        .collect();
    if open.is_empty() {
        Ok(())
    } else {
        Err((format!("{} can be written and executed", paths(&open)), EXECUTABLE))
    }
}

fn words(found: &Known<Option<MountFlags>>) -> String {
    match found {
        Ok(Some(flags)) => format!("{} is mounted {}", shown(&flags.path), flags.words()),
        Ok(None) => "the directory is not there".to_owned(),
        Err(why) => why.clone(),
    }
}

fn paths(places: &[MountFlags]) -> String {
    places.iter().take(8).map(|flags| shown(&flags.path)).collect::<Vec<_>>().join(", ")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::host::{Places, survey};

    fn flags(path: &str, read_only: bool, noexec: bool) -> MountFlags {
        MountFlags { path: path.into(), read_only, noexec, nosuid: true, nodev: true }
    }

    /// As the container of compose.yaml is.
    fn good() -> Host {
        Host {
            pids: Ok(Some(512)),
            processes: Ok((512, 512)),
            own: Ok(Own { effective: 0, bounding: 0, no_new_privs: true, seccomp: 2 }),
            workspace: Ok(Some(flags("/workspace", true, true))),
            audit: vec![Ok(Some(flags("/var/lib/cofferdam", false, true)))],
            writable: Ok(Vec::new()),
            provided: vec![flags("/scratch", false, true)],
            ..survey(&Places { workspace: "/".into(), ..Places::default() })
        }
    }

    const ALL: [Requirement; 10] = [
        Requirement::PidsAtMost(512),
        Requirement::ProcessesAtMost(512),
        Requirement::ServerCapsEmpty,
        Requirement::ServerNoNewPrivs,
        Requirement::ServerSeccomp,
        Requirement::WorkspaceMount,
        Requirement::WorkspaceReadOnly,
        Requirement::AuditMount,
        Requirement::WritableKnown,
        Requirement::WritableNoexec,
    ];

    /// The requirements that do not hold after `change`.
    fn unmet(change: impl FnOnce(&mut Host)) -> Vec<String> {
        let mut host = good();
        change(&mut host);
        ALL.iter().filter(|one| check(**one, &host).is_err()).map(ToString::to_string).collect()
    }

    #[test]
    fn all_hold_in_the_container_as_it_is_shipped() {
        assert_eq!(unmet(|_| {}), [""; 0]);
    }

    #[test]
    fn each_setting_that_is_lost_is_named() {
        assert_eq!(unmet(|host| host.pids = Ok(None)), ["pids-limit<=512"]);
        assert_eq!(unmet(|host| host.pids = Ok(Some(2048))), ["pids-limit<=512"]);
        assert_eq!(unmet(|host| host.processes = Ok((512, u64::MAX))), ["process-limit<=512"]);
        let own = Own { effective: 0, bounding: 1 << 10, no_new_privs: false, seccomp: 0 };
        let all = ["server-caps-empty", "server-no-new-privs", "server-seccomp"];
        assert_eq!(unmet(|host| host.own = Ok(own)), all);
        let open = |host: &mut Host| host.workspace = Ok(Some(flags("/workspace", false, false)));
        assert_eq!(unmet(open), ["workspace-mount", "workspace-read-only", "writable-noexec"]);
        let open = |host: &mut Host| host.workspace = Ok(Some(flags("/workspace", true, false)));
        assert_eq!(unmet(open), ["workspace-mount"]);
        let open = |host: &mut Host| host.audit = vec![Ok(Some(flags("/var/lib/cofferdam", false, false)))];
        assert_eq!(unmet(open), ["audit-mount", "writable-noexec"]);
        assert_eq!(unmet(|host| host.writable = Ok(vec![flags("/run", false, true)])), ["writable-known"]);
        let both = ["writable-known", "writable-noexec"];
        assert_eq!(unmet(|host| host.writable = Ok(vec![flags("/var/tmp", false, false)])), both);
        assert_eq!(unmet(|host| host.provided = vec![flags("/scratch", false, false)]), ["writable-noexec"]);
    }

    #[test]
    fn what_is_not_known_is_not_met() {
        let why = || "not mounted".to_owned();
        assert_eq!(unmet(|host| host.pids = Err(why())), ["pids-limit<=512"]);
        assert_eq!(unmet(|host| host.processes = Err(why())), ["process-limit<=512"]);
        assert_eq!(unmet(|host| host.own = Err(why())).len(), 3);
        assert_eq!(unmet(|host| host.workspace = Err(why())).len(), 3);
        assert_eq!(unmet(|host| host.workspace = Ok(None)).len(), 3);
        assert_eq!(unmet(|host| host.audit = vec![Err(why())]).len(), 2);
        assert_eq!(unmet(|host| host.writable = Err(why())).len(), 2);
        assert!(check(Requirement::Hidepid, &good()).is_err());
    }
}
