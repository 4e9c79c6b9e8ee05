//! What this host and its container give and take: facts, read and not tried, in a few milliseconds.
//!
//! Purpose: the ground on which the walls stand, for `doctor`, for the record `server.start` and for the
//! requirements of `[sandbox] require`. Inputs: `/proc`, modes, mount flags; the paths in [`Places`]. What
//! cannot be read is said to be unknown, and a requirement on it does not hold. Called by `appliance.rs`,
//! `launch/` and `cli/doctor`.

mod cgroup;
mod container;
mod findings;
mod guard;
pub(crate) mod mounts;
mod network;
mod status;
mod writable;

pub use container::Container;
pub use findings::{Commands, Finding, Verdict, findings};
pub use guard::Guarded;
pub use mounts::MountFlags;
pub use status::Own;
pub use writable::{Walk, setuid};

use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{Gid, Uid};

use crate::sys;

/// A fact, or one sentence why it is not known.
pub type Known<T> = Result<T, String>;

/// Paths of a policy that the facts are about.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Workspace root.
    pub workspace: PathBuf,
    /// Directories of audit records.
    pub audit: Vec<PathBuf>,
    /// The policy file and those that it names; none for the built-in policy.
    pub policy: Vec<PathBuf>,
    /// Scratch of commands, where it is the host's.
    pub scratch: Option<PathBuf>,
    /// User of commands.
    pub uid: u32,
}

/// The facts.
#[derive(Debug, Clone)]
pub struct Host {
    /// Release of the kernel.
    pub kernel: Known<String>,
    /// Landlock ABI.
    pub landlock_abi: Known<u32>,
    /// `kernel.yama.ptrace_scope`; `None` without Yama.
    pub yama: Known<Option<u64>>,
    /// Settings that can forbid user namespaces, with their values where this kernel has them.
    pub user_namespaces: Vec<(&'static str, Known<Option<u64>>)>,
    /// The container around, if any.
    pub container: Option<Container>,
    /// This process lives in a user namespace other than the first.
    pub in_user_namespace: Known<bool>,
    /// User and group of the server.
    pub ids: (u32, u32),
    /// The server's own walls, before those that it builds itself.
    pub own: Known<Own>,
    /// Mount flags as the server sees them, of the usual directories.
    pub mounts: Vec<MountFlags>,
    /// Of the workspace.
    pub workspace: Known<Option<MountFlags>>,
    /// Of the directories of audit records.
    pub audit: Vec<Known<Option<MountFlags>>>,
    /// `hidepid` of `/proc`: the word, `None` when it is off.
    pub hidepid: Known<Option<String>>,
    /// Processes that the control group allows.
    pub pids: Known<Option<u64>>,
    /// Bytes of memory that it allows.
    pub memory: Known<Option<u64>>,
    /// Soft and hard `RLIMIT_NPROC`.
    pub processes: Known<(u64, u64)>,
    /// Interfaces that are up and not the loopback one.
    pub interfaces: Known<Vec<String>>,
    /// Interfaces that routes name.
    pub routes: Known<Vec<String>>,
    /// Directories outside of workspace, audit, scratch and [`PROVIDED`] that the server's user can write.
    pub writable: Known<Vec<MountFlags>>,
    /// Those of [`PROVIDED`] that are there.
    pub provided: Vec<MountFlags>,
    /// The server is the first process of its process namespace: it is to reap what others leave.
    pub first_process: bool,
    /// The policy file and those that it names.
    pub policy: Vec<Known<Guarded>>,
}

/// Directories that the image of the appliance has for scratch and for the socket, to be written.
pub const PROVIDED: &[&str] = &["/scratch", "/socket"];

/// Reads all facts. Never fails as a whole.
#[must_use]
pub fn survey(places: &Places) -> Host {
    let table = status::text("/proc/self/mountinfo").map(|text| mounts::table(&text));
    let groups = status::text("/proc/self/cgroup");
    let limit = |limit| match (&groups, &table) {
        (Ok(groups), Ok(table)) => cgroup::limit(groups, table, limit),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    };
    let variable = std::env::var("container");
    let flags = |path: &Path| {
        MountFlags::at(path).map_err(|e| format!("asking for the mount of {} failed: {e}", path.display()))
    };
    let known: Vec<PathBuf> = places
        .audit
        .iter()
        .chain([&places.workspace])
        .chain(&places.scratch)
        .cloned()
        .chain(PROVIDED.iter().map(PathBuf::from))
        .collect();
    Host {
        kernel: status::text("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
        landlock_abi: sys::landlock_abi().map_err(|e| format!("this kernel has no Landlock: {e}")),
        yama: status::setting("kernel/yama/ptrace_scope"),
        user_namespaces: [
            "user/max_user_namespaces",
            "kernel/unprivileged_userns_clone",
            "kernel/apparmor_restrict_unprivileged_userns",
        ]
        .map(|name| (name, status::setting(name)))
        .to_vec(),
        container: container::find(
            Path::new("/"),
            variable.as_ref().map_or("", String::as_str),
            groups.as_deref().unwrap_or(""),
        ),
        in_user_namespace: status::text("/proc/self/uid_map").map(|map| status::in_user_namespace(&map)),
        ids: (Uid::effective().as_raw(), Gid::effective().as_raw()),
        own: Own::read(),
        // What cannot be asked for is left out: these are for the reader, no requirement rests on them.
        mounts: mounts::SHOWN.iter().filter_map(|path| flags(Path::new(path)).unwrap_or(None)).collect(),
        workspace: flags(&places.workspace),
        audit: places.audit.iter().map(|path| flags(path)).collect(),
        hidepid: table.as_ref().map_err(Clone::clone).and_then(|table| hidepid(table)),
        pids: limit(cgroup::PIDS),
        memory: limit(cgroup::MEMORY),
        processes: getrlimit(Resource::RLIMIT_NPROC).map_err(|e| format!("getrlimit: {e}")),
        interfaces: network::interfaces(),
        routes: network::routes(),
        writable: table.as_ref().map_err(Clone::clone).map(|table| writable::places(table, &known)),
        // A directory that cannot be asked about stays among those that can be written, or cannot be.
        provided: PROVIDED.iter().filter_map(|path| flags(Path::new(path)).unwrap_or(None)).collect(),
        first_process: std::process::id() == 1,
        policy: places.policy.iter().map(|path| guard::look(path, places.uid)).collect(),
    }
}

/// The word of the topmost `/proc`. `hidepid=off` and `0` are none, and `noaccess` (1) hides contents only.
fn hidepid(table: &[mounts::Mount]) -> Known<Option<String>> {
    let proc = table.iter().rev().find(|mount| mount.at == Path::new("/proc"));
    let proc = proc.filter(|mount| mount.kind == "proc").ok_or("no proc file system is mounted at /proc")?;
    let word = proc.super_options.split(',').find_map(|option| option.strip_prefix("hidepid="));
    Ok(word.filter(|word| !matches!(*word, "off" | "0")).map(str::to_owned))
}

/// Whether processes of other users are hidden by this word: their very existence, not only what they say.
#[must_use]
pub fn hides_processes(word: &str) -> bool {
    matches!(word, "invisible" | "2" | "ptraceable" | "4")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidepid_of_the_topmost_proc_counts() {
        let table = |lines: &str| hidepid(&mounts::table(lines));
        let plain = "1 1 0:1 / /proc rw - proc proc rw\n";
        assert_eq!(table(plain), Ok(None));
        let hidden = format!("{plain}2 1 0:2 / /proc rw - proc proc rw,hidepid=invisible\n");
        assert_eq!(table(&hidden), Ok(Some("invisible".to_owned())));
        assert_eq!(table(&format!("{hidden}{plain}")), Ok(None));
        assert_eq!(table(&plain.replace("proc rw\n", "proc rw,hidepid=off\n")), Ok(None));
        assert!(table("").is_err());
        assert!(table(&format!("{hidden}3 1 0:3 / /proc rw - tmpfs tmpfs rw\n")).is_err());
        for (word, hides) in [("invisible", true), ("2", true), ("ptraceable", true), ("noaccess", false)] {
            assert_eq!(hides_processes(word), hides, "{word}");
        }
    }

    #[test]
    fn a_survey_of_this_host_knows_the_kernel_and_its_own_walls() {
        let host = survey(&Places { workspace: "/".into(), ..Places::default() });
        assert!(host.kernel.unwrap().contains('.'));
        assert!(host.own.is_ok());
        assert!(host.workspace.unwrap().is_some());
        assert!(host.policy.is_empty());
    }
}
