//! What the launcher does to itself before it serves: its own mounts, identity, capabilities.
//!
//! Everything a command may never have is given up here once, so that no run can forget it. Each
//! step is read back. Runs only in the launcher process, which is single-threaded.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use caps::CapSet;
use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{Gid, Uid};

use super::aliases::{self, Alias};
use super::cgroup;
use super::leaf::{self, Group};
use super::step::{step, that, unmet};
use super::wire::{Facts, Failure, Setup};
use crate::sandbox::host::{MountFlags, mounts};
use crate::sandbox::needs;
use crate::sandbox::profile::QUEUES;
use crate::sys;

/// `MOUNT_ATTR_*` of mount_setattr(2).
const RDONLY: u64 = 0x1;
const NOSUID: u64 = 0x2;
const NODEV: u64 = 0x4;
const NOEXEC: u64 = 0x8;

/// Where a private scratch file system can be mounted: directories that exist everywhere and that
/// no command needs.
pub(super) const SCRATCH_MOUNTS: &[&str] = &["/dev/shm", "/mnt", "/srv"];
/// Where scratch directories may lie when no mount is possible: only on a noexec file system.
const SCRATCH_FALLBACKS: &[&str] = &["/scratch", "/dev/shm", "/run", "/tmp"];
/// Files and directories of one run's scratch file system.
const SCRATCH_INODES: u64 = 16_384;

/// Root of a container that dropped all capabilities can do less than any other user of it.
const NO_CHANGE_OF_USER: &str = "commands cannot be switched to an unprivileged user by a root without \
                                 CAP_SETUID and CAP_SETGID: start cofferdam as that user (user: \"10001:10001\" \
                                 in compose, --user, User=)";

/// Runs all steps and reports what is in force.
pub(super) fn confine(setup: &Setup, landlock_abi: u32) -> Result<(Facts, Option<Group>), Failure> {
    let (uid, gid) = setup.user.unwrap_or((Uid::effective().as_raw(), Gid::effective().as_raw()));
    // Found before the mounts become read-only, entered while it is still allowed.
    let found = cgroup::find(&setup.cgroup)?;
    let scratch = if setup.isolate { isolate(setup, uid, gid)? } else { fallback_scratch() };
    let mounted = step!("statvfs of the workspace", statvfs(&setup.workspace))?;
    let group = match found {
        Ok(found) => found.enter(setup)?,
        Err(reason) => Err(reason),
    };
    let mount = |path: &Path| step!("mount flags", MountFlags::at(path));
    let workspace_mount = mount(&setup.workspace)?;
    let scratch_slots = if setup.isolate && scratch.is_some() { setup.scratch_slots } else { 0 };
    let scratch_mount = match &scratch {
        Some(place) if scratch_slots > 0 => mount(&slot(place, 0))?,
        Some(place) => mount(place)?,
        None => None,
    };
    // For the reader only: one that cannot be asked for is left out.
    let shown = |path: &&str| MountFlags::at(Path::new(path)).unwrap_or(None);
    let mounts = mounts::SHOWN.iter().filter_map(shown).collect();
    become_user(setup.user)?;
    let caps = drop_capabilities()?;
    step!("no_new_privs", nix::sys::prctl::set_no_new_privs())?;
    let no_new_privs = step!("no_new_privs", nix::sys::prctl::get_no_new_privs())?;
    step!("no_new_privs", that(no_new_privs, 0, "it did not take effect"))?;
    let facts = Facts {
        landlock_abi,
        mount_namespace: setup.isolate,
        no_mount_namespace: None,
        workspace_noexec: mounted.flags().contains(FsFlags::ST_NOEXEC),
        scratch_slots,
        workspace_mount,
        scratch_mount,
        mounts,
        scratch,
        uid,
        gid,
        caps,
        no_new_privs,
        hard_limits: step!("getrlimit", crate::sandbox::rlimits::hard())?,
        cgroup: leaf::facts(&group),
    };
    // The reason is in the facts.
    Ok((facts, group.into_iter().next()))
}

/// A mount namespace in which everything is read-only but a writable workspace and scratch, and those
/// are noexec. Closes the loader route (`ld.so FILE` maps any file it may read) and the changes of
/// mode, owner and times through a read-only descriptor, for which Landlock has no right.
fn isolate(setup: &Setup, uid: u32, gid: u32) -> Result<Option<PathBuf>, Failure> {
    let wanted =
        if setup.ipc { CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC } else { CloneFlags::CLONE_NEWNS };
    if step!("unshare", nix::sched::unshare(wanted)).is_err() {
        let (outer_uid, outer_gid) = (Uid::effective(), Gid::effective());
        let own = nix::sched::unshare(CloneFlags::CLONE_NEWUSER | wanted);
        let refused = |e: Errno| {
            unmet(e as i32, format!("{e}: no user namespace (Linux 3.8 or newer has it, where allowed)"))
        };
        step!("unshare", own.map_err(refused))?;
        let write = |file: &str, text: String| step!("user namespace map", std::fs::write(file, text));
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("{outer_uid} {outer_uid} 1"))?;
        write("/proc/self/gid_map", format!("{outer_gid} {outer_gid} 1"))?;
    }
    // Here, where they are allowed: elsewhere the kernel answers EPERM before it looks.
    step!("kernel", needs::mounts())?;
    let none: Option<&str> = None;
    let (slave, private) = (MsFlags::MS_REC | MsFlags::MS_SLAVE, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    step!("mount propagation", nix::mount::mount(none, "/", none, slave, none))?;
    let ws = &setup.workspace;
    let path = c_path(ws)?;
    let tree = step!("workspace mount", sys::clone_tree(&path))?;
    // Everything but the workspace and scratch is read-only, metadata included: a descriptor that was
    // opened for reading is enough for fchmod(2), and no Landlock right stands for it. Device files
    // take data all the same.
    match step!("read-only mounts", sys::mount_attrs(c"/", RDONLY | NOSUID)) {
        // In a chroot the root is no mount; the ordinary permissions are left.
        Err(failed) if failed.errno == libc::EINVAL => {}
        other => other?,
    }
    step!("workspace mount", sys::attach_tree(&tree, &path))?;
    // What the host mounts into the workspace later would come without the attributes: it stays out.
    step!("workspace mount", nix::mount::mount(none, ws, none, private, none))?;
    let write = setup.write && !setup.throw_away;
    let attrs = NOEXEC | NOSUID | NODEV | if write { 0 } else { RDONLY };
    step!("workspace mount", sys::mount_attrs(&path, attrs))?;
    if write {
        protect_repository(ws, setup.repository_write)?;
    }
    for alias in step!("mounts", aliases::of(ws))? {
        let done = match &alias {
            Alias::Whole(place) => {
                let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
                nix::mount::mount(Some(ws), place, none, bind, none).map_err(std::io::Error::from)
            }
            Alias::Part(place) => sys::mount_attrs(&c_path(place)?, attrs | RDONLY),
        };
        let shown = |e: std::io::Error| {
            unmet(e.raw_os_error().unwrap_or(0), format!("{}: {e}", aliases::shown(&alias)))
        };
        step!("mounts", done.map_err(shown))?;
    }
    if setup.throw_away {
        super::overlay::mount(setup, uid, gid)?;
        protect_repository(ws, setup.repository_write)?;
    }
    own_devices(setup)?;
    let free = |dir: &&&str| Path::new(dir).is_dir() && !ws.starts_with(dir);
    let Some(place) = SCRATCH_MOUNTS.iter().find(free) else { return Ok(None) };
    let flags = MsFlags::MS_NOEXEC | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let tmpfs = |at: &Path, options: &str| {
        step!("scratch mount", nix::mount::mount(Some("scratch"), at, Some("tmpfs"), flags, Some(options)))
    };
    let place = PathBuf::from(place);
    tmpfs(&place, "size=64k,mode=0711")?;
    // One each, so that no run can fill what another needs.
    let options =
        format!("size={},nr_inodes={SCRATCH_INODES},mode=0700,uid={uid},gid={gid}", setup.scratch_bytes);
    for slot in (0..setup.scratch_slots).map(|number| slot(&place, number)) {
        step!("scratch mount", std::fs::create_dir(&slot))?;
        tmpfs(&slot, &options)?;
    }
    Ok(Some(place))
}

/// Terminals and message queues of nobody else: those of the host are not shown.
fn own_devices(setup: &Setup) -> Result<(), Failure> {
    let flags = MsFlags::MS_NOEXEC | MsFlags::MS_NOSUID;
    if setup.terminals {
        let (own, options) = (Some("devpts"), Some("ptmxmode=0666,mode=0600"));
        step!("devpts mount", nix::mount::mount(own, "/dev/pts", own, flags, options))?;
    }
    if setup.ipc && Path::new(QUEUES).is_dir() {
        let none: Option<&str> = None;
        let flags = flags | MsFlags::MS_NODEV;
        step!("mqueue mount", nix::mount::mount(Some("mqueue"), QUEUES, Some("mqueue"), flags, none))?;
    }
    Ok(())
}

/// Mount point of one run's scratch file system.
pub(super) fn slot(place: &Path, number: u32) -> PathBuf {
    place.join(number.to_string())
}

fn c_path(path: &Path) -> Result<CString, Failure> {
    step!("mount", CString::new(path.as_os_str().as_bytes()))
}

/// In a writable workspace the repository at its root stays read-only unless the policy says otherwise,
/// and then its hooks and configuration still do; `.git` cannot be renamed away. What a command plants
/// there (a hook, `core.fsmonitor`, `commondir`) would run later, outside, when somebody uses git.
fn protect_repository(workspace: &Path, write: bool) -> Result<(), Failure> {
    let none: Option<&str> = None;
    let git = if write { 0 } else { RDONLY };
    for (name, attrs) in [(".git", git), (".git/hooks", RDONLY), (".git/config", RDONLY)] {
        let path = workspace.join(name);
        // A link is left alone: mounting on what it points to would not protect the name.
        if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir() || meta.is_file()) {
            continue;
        }
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        step!("repository mount", nix::mount::mount(Some(&path), &path, none, bind, none))?;
        let c_path = c_path(&path)?;
        step!("repository mount", sys::mount_attrs(&c_path, attrs))?;
    }
    Ok(())
}

/// A writable directory on a noexec file system, where mounting is not possible.
fn fallback_scratch() -> Option<PathBuf> {
    let usable = |dir: &&Path| {
        let noexec = statvfs(*dir).is_ok_and(|s| s.flags().contains(FsFlags::ST_NOEXEC));
        noexec && nix::unistd::access(*dir, nix::unistd::AccessFlags::W_OK).is_ok()
    };
    SCRATCH_FALLBACKS.iter().map(Path::new).find(usable).map(Path::to_path_buf)
}

fn become_user(user: Option<(u32, u32)>) -> Result<(), Failure> {
    let Some((uid, gid)) = user else { return Ok(()) };
    // The bounding set needs CAP_SETPCAP, which the change of user takes away.
    clear_bounding()?;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let refused = |e: Errno| unmet(e as i32, format!("{e}: {NO_CHANGE_OF_USER}"));
    step!("setgroups", nix::unistd::setgroups(&[]).map_err(refused))?;
    step!("setresgid", nix::unistd::setresgid(gid, gid, gid))?;
    step!("setresuid", nix::unistd::setresuid(uid, uid, uid))?;
    let now = step!("getresuid", nix::unistd::getresuid())?;
    let changed = [now.real, now.effective, now.saved] == [uid; 3];
    step!("setresuid", that(changed, 0, "the user id did not change"))
}

/// EPERM is fine only where nothing is left to drop (a container without CAP_SETPCAP).
fn clear_bounding() -> Result<(), Failure> {
    for cap in caps::runtime::thread_all_supported() {
        let done = match caps::drop(None, CapSet::Bounding, cap) {
            Err(e) if caps::has_cap(None, CapSet::Bounding, cap).unwrap_or(true) => {
                Err(unmet(libc::EPERM, format!("{cap}: {e}")))
            }
            _ => Ok(()),
        };
        step!("capability bounding set", done)?;
    }
    Ok(())
}

/// Empties every capability set and reads them back; returns the effective set.
fn drop_capabilities() -> Result<u64, Failure> {
    clear_bounding()?;
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        step!("capabilities", caps::clear(None, set))?;
    }
    let mut effective = 0u64;
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Permitted, CapSet::Effective, CapSet::Bounding]
    {
        let left = step!("capabilities", caps::read(None, set))?;
        let text = format!("{set:?} set is not empty: {left:?}");
        step!("capabilities", that(left.is_empty(), libc::EPERM, text))?;
        effective |= left.iter().map(caps::Capability::bitmask).sum::<u64>();
    }
    Ok(effective)
}
