//! A cgroup (v2) of its own for each run: memory and processes of the whole tree, and a kill that no
//! fork escapes.
//!
//! Used by the launcher only: [`find`] looks while it still sees the host's mounts, [`Found::enter`]
//! makes the groups while it still may, and [`Group::leaf`] makes one a supervisor afterwards. Only the
//! command enters the leaf: its supervisor must outlive an out-of-memory kill to report it.
//!
//! ```text
//! base                    the server's own group, or the one that the policy names: never changed but
//!  └ cofferdam-PID        for its subtree_control; this one belongs to the user of commands
//!     ├ processes         launcher and supervisors (and the server, when base is its own group)
//!     └ run-N             one command with all that it starts
//! ```

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{AccessFlags, Gid, Uid, UnlinkatFlags, access, fchownat, unlinkat};

use super::leaf::Group;
use super::step::{Unmet, step, unmet};
use super::wire::{Failure, Setup};
use crate::config::CgroupUse;
use crate::sys;

/// Controllers that a leaf wants.
pub(super) const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// One that is taken where it is there: with it the scheduler shares a processor between groups first, so
/// that a run of many processes does not starve its supervisor, the server and other runs.
const FAIRNESS: &str = "cpu";
/// Names of the groups of one server, its process id behind.
const PREFIX: &str = "cofferdam-";
/// The group of launcher and supervisors.
const PROCESSES: &str = "processes";
/// Marks by which systemd says that it leaves a group to its processes.
const DELEGATED: [&std::ffi::CStr; 2] = [c"trusted.delegate", c"user.delegate"];

/// A group in which others may be made.
#[derive(Debug)]
pub(super) struct Found {
    base: OwnedFd,
    path: PathBuf,
    /// It is the server's own: a group with processes cannot hand controllers on, so the server moves.
    own: bool,
}

/// Looks for a group, changes nothing. `Ok(Err)`: there is none, and the policy does without.
pub(super) fn find(wanted: &CgroupUse) -> Result<Result<Found, String>, Failure> {
    let found = match wanted {
        CgroupUse::Off => Ok(Err("switched off by limits.cgroup".to_owned())),
        CgroupUse::Auto => Ok(own_group()),
        CgroupUse::Require => own_group().map(Ok),
        CgroupUse::At(path) => open(path, false).map(Ok),
    };
    step!("cgroup", found.map_err(|text| refused(&text, wanted)))
}

/// Why what the policy asks for is not to be had.
fn refused(reason: &str, wanted: &CgroupUse) -> Unmet {
    unmet(0, format!("{reason} (limits.cgroup = \"{wanted}\")"))
}

fn open(path: &Path, own: bool) -> Result<Found, String> {
    let shown = path.display();
    let base = directory(None, path).map_err(|e| format!("opening {shown} failed: {e}"))?;
    // Only groups below the root have it.
    if !path.join("cgroup.type").exists() {
        return Err(format!("{shown} is no group of cgroup v2, or its root, which has no limits"));
    }
    Ok(Found { base, path: path.to_owned(), own })
}

/// The server's own group, where it is left to it.
fn own_group() -> Result<Found, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("reading {path} failed: {e}"));
    let (mounts, groups) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
    let name = own_name(&groups).ok_or("this process is in no cgroup v2 group")?;
    let path = place(&mounts, name).ok_or("no mount of cgroup v2 shows the server's own group")?;
    let found = open(&path, true)?;
    let shown = path.display();
    if !["", "cgroup.procs", "cgroup.subtree_control"].iter().all(|file| writable(&path.join(file))) {
        return Err(format!(
            "the server's own group {shown} is not writable: delegate it (Delegate=yes in a systemd unit)"
        ));
    }
    // Root may write everywhere; that does not make a group its own. That of a container is the root of
    // what its namespace shows.
    if Uid::effective().is_root() && name != Path::new("/") {
        let marked = DELEGATED.iter().any(|mark| sys::has_mark(&path, mark));
        if !marked {
            return Err(format!(
                "the server's own group {shown} is not delegated to it: Delegate=yes in a systemd unit, or \
                 name a group for it in limits.cgroup"
            ));
        }
    }
    Ok(found)
}

fn writable(path: &Path) -> bool {
    access(path, AccessFlags::W_OK).is_ok()
}

/// The v2 line of /proc/PID/cgroup.
fn own_name(groups: &str) -> Option<&Path> {
    groups.lines().find_map(|line| line.strip_prefix("0::")).map(Path::new)
}

/// Where a mount shows the group `name` (proc(5), mountinfo: root and mount point are fields 4 and 5).
fn place(mounts: &str, name: &Path) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let Ok(below) = name.strip_prefix(root) else { return None };
        (kind.split(' ').next() == Some("cgroup2")).then(|| match below.as_os_str().is_empty() {
            true => PathBuf::from(point),
            false => Path::new(point).join(below),
        })
    })
}

pub(super) fn directory(at: Option<&OwnedFd>, path: &Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    match at {
        Some(at) => openat(at, path, flags, Mode::empty()),
        None => nix::fcntl::open(path, flags, Mode::empty()),
    }
}

pub(super) fn file(at: &OwnedFd, path: &str, flags: OFlag) -> nix::Result<OwnedFd> {
    openat(at, path, flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW, Mode::empty())
}

/// Opened and written at once: the kernel looks at who opened it.
pub(super) fn write(at: &OwnedFd, path: &str, text: &str) -> nix::Result<()> {
    nix::unistd::write(file(at, path, OFlag::O_WRONLY)?, text.as_bytes()).map(drop)
}

pub(super) fn read(from: &OwnedFd) -> std::io::Result<String> {
    let mut text = String::new();
    File::from(from.try_clone()?).read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn remove(at: &OwnedFd, name: &str) -> nix::Result<()> {
    unlinkat(at, name, UnlinkatFlags::RemoveDir)
}

impl Found {
    /// Makes the groups of this server and enters them. Without one the reason comes back where the
    /// policy does without.
    pub(super) fn enter(self, setup: &Setup) -> Result<Result<Group, String>, Failure> {
        let lax = setup.cgroup == CgroupUse::Auto;
        let made = match self.make(setup) {
            Err(reason) if !lax => Err(refused(&reason, &setup.cgroup)),
            other => Ok(other),
        };
        step!("cgroup", made)
    }

    fn make(self, setup: &Setup) -> Result<Group, String> {
        let shown = self.path.display().to_string();
        let step = |what: &str| {
            let what = format!("{what} in {shown}");
            move |e: Errno| format!("{what} failed: {}", e.desc())
        };
        self.sweep();
        let server = nix::unistd::getppid().to_string();
        let name = format!("{PREFIX}{server}");
        mkdirat(&self.base, name.as_str(), Mode::from_bits_truncate(0o755))
            .map_err(step("making a group"))?;
        let made = directory(Some(&self.base), Path::new(&name)).map_err(step("opening a group"));
        let result = made.and_then(|dir| {
            mkdirat(&dir, PROCESSES, Mode::from_bits_truncate(0o755)).map_err(step("making a group"))?;
            let result = self.fill(&dir, &server, setup);
            if result.is_err() {
                self.give_back(&dir, &server);
            }
            result.map(|controllers| (dir, controllers))
        });
        let (dir, controllers) = match result {
            Ok(made) => made,
            Err(reason) => {
                // What cannot be removed is swept by the next start.
                let _: nix::Result<()> = remove(&self.base, &name);
                return Err(reason);
            }
        };
        Ok(Group {
            dir,
            path: self.path.join(name),
            controllers,
            memory: setup.memory,
            processes: setup.processes,
            made: 0,
            dead: Vec::new(),
        })
    }

    /// Hands controllers down to the runs' groups, and moves in.
    fn fill(&self, dir: &OwnedFd, server: &str, setup: &Setup) -> Result<Vec<String>, String> {
        let shown = self.path.display();
        let moving = |e: Errno| format!("moving into a group of {shown} failed: {}", e.desc());
        let procs = format!("{PROCESSES}/cgroup.procs");
        if self.own {
            write(dir, &procs, server).map_err(moving)?;
        }
        write(dir, &procs, "0").map_err(moving)?;
        let controllers = file(&self.base, "cgroup.controllers", OFlag::O_RDONLY)
            .map_err(std::io::Error::from)
            .and_then(|fd| read(&fd))
            .map_err(|e| format!("reading the controllers of {shown} failed: {e}"))?;
        let (there, missing): (Vec<&str>, Vec<&str>) =
            CONTROLLERS.iter().partition(|name| controllers.split_whitespace().any(|one| one == **name));
        if !missing.is_empty() && !matches!(setup.cgroup, CgroupUse::At(_)) {
            return Err(format!("{shown} has no controller {}", missing.join(" and ")));
        }
        for (at, name) in [&self.base, dir].into_iter().flat_map(|at| there.iter().map(move |n| (at, n))) {
            write(at, "cgroup.subtree_control", &format!("+{name}")).map_err(|e| match e {
                Errno::EBUSY => {
                    format!("{shown} has processes of others: its controllers cannot be handed on")
                }
                e => format!("handing on the controller {name} of {shown} failed: {}", e.desc()),
            })?;
        }
        let fair = controllers.split_whitespace().any(|one| one == FAIRNESS)
            // Refused where the group has real-time processes: it promises nothing, so it is let go.
            && [&self.base, dir].iter().all(|at| write(at, "cgroup.subtree_control", "+cpu").is_ok());
        if let Some((uid, gid)) = setup.user {
            for path in ["", "cgroup.procs"] {
                let flags = AtFlags::AT_EMPTY_PATH | AtFlags::AT_SYMLINK_NOFOLLOW;
                fchownat(dir, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), flags)
                    .map_err(|e| format!("giving a group of {shown} to uid {uid} failed: {}", e.desc()))?;
            }
        }
        Ok(there.into_iter().chain(fair.then_some(FAIRNESS)).map(str::to_owned).collect())
    }

    /// Leaves the groups again. What fails here is no worse than before.
    fn give_back(&self, dir: &OwnedFd, server: &str) {
        if self.own {
            for who in [server, "0"] {
                let _: nix::Result<()> = write(&self.base, "cgroup.procs", who);
            }
        }
        let _: nix::Result<()> = remove(dir, PROCESSES);
    }

    /// Removes the empty groups of servers that are gone; one in use answers EBUSY.
    fn sweep(&self) {
        for name in groups_in(&self.path).into_iter().filter(|name| name.starts_with(PREFIX)) {
            let Ok(dir) = directory(Some(&self.base), Path::new(&name)) else { continue };
            for child in groups_in(&self.path.join(&name)) {
                let _: nix::Result<()> = remove(&dir, &child);
            }
            let _: nix::Result<()> = remove(&self.base, &name);
        }
    }
}

/// Names of the groups in a group; of one that is gone meanwhile, none.
fn groups_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().to_str().map(str::to_owned))
        .collect()
}

/// Removes what a server left of its groups when its launcher has ended. The server's own membership
/// keeps them, where it has one.
pub(super) fn remove_groups(path: &Path) {
    for dir in [&path.join(PROCESSES), path] {
        if let Err(e) = std::fs::remove_dir(dir) {
            tracing::debug!("removing the group {} failed: {e}", dir.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 0:20 / / rw - ext4 /dev/vda rw\n\
        30 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        31 22 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_below_the_mount() {
        let name = own_name("9:name=systemd:/\n4:memory:/x\n0::/system.slice/cofferdam.service\n").unwrap();
        assert_eq!(place(MOUNTS, name), Some("/sys/fs/cgroup/system.slice/cofferdam.service".into()));
        assert_eq!(place(MOUNTS, Path::new("/")), Some("/sys/fs/cgroup".into()));
        assert_eq!(own_name("4:memory:/x\n"), None);
    }

    #[test]
    fn a_mount_of_a_part_shows_what_is_below_it_only() {
        let part = MOUNTS.replace("0:27 / ", "0:27 /docker/abc ");
        assert_eq!(place(&part, Path::new("/docker/abc")), Some("/sys/fs/cgroup".into()));
        assert_eq!(place(&part, Path::new("/docker/abc/x")), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(place(&part, Path::new("/elsewhere")), None);
        assert_eq!(place(&MOUNTS.replace("cgroup2", "cgroup"), Path::new("/")), None);
    }

    #[test]
    fn an_ordinary_directory_is_no_group() {
        let dir = tempfile::tempdir().unwrap();
        let refused = find(&CgroupUse::At(dir.path().to_owned())).unwrap_err();
        assert!(refused.message.contains("no group of cgroup v2"), "{}", refused.message);
        assert!(refused.message.contains("limits.cgroup"), "{}", refused.message);
        assert!(find(&CgroupUse::Off).unwrap().unwrap_err().contains("switched off"));
        assert!(find(&CgroupUse::Auto).is_ok());
    }
}
