//! What the launcher does to itself before it serves: its own mounts, identity, capabilities.
//!
//! Everything a command may never have is given up here once, so that no run can forget it. Each
//! step is read back. Runs only in the launcher process, which is single-threaded.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use caps::CapSet;
use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{Gid, Uid};

use super::aliases::{self, Alias};
use super::cgroup;
use super::leaf::{self, Group};
use super::wire::{Facts, Failure, Setup, failure, io, nx};
use crate::sandbox::host::{MountFlags, mounts};
use crate::sys;

/// `MOUNT_ATTR_*` of mount_setattr(2).
const RDONLY: u64 = 0x1;
const NOSUID: u64 = 0x2;
const NODEV: u64 = 0x4;
const NOEXEC: u64 = 0x8;

/// Where a private scratch file system can be mounted: directories that exist everywhere and that
/// no command needs.
const SCRATCH_MOUNTS: &[&str] = &["/dev/shm", "/mnt", "/srv"];
/// Where scratch directories may lie when no mount is possible: only on a noexec file system.
const SCRATCH_FALLBACKS: &[&str] = &["/scratch", "/dev/shm", "/run", "/tmp"];
/// Files and directories of one run's scratch file system.
const SCRATCH_INODES: u64 = 16_384;

/// Runs all steps and reports what is in force.
pub(super) fn confine(setup: &Setup) -> Result<(Facts, Option<Group>), Failure> {
    let abi = sys::landlock_abi().map_err(io("landlock"))?;
    let (uid, gid) = setup.user.unwrap_or((Uid::effective().as_raw(), Gid::effective().as_raw()));
    // Found before the mounts become read-only, entered while it is still allowed.
    let found = cgroup::find(&setup.cgroup)?;
    let scratch = if setup.isolate { isolate(setup, uid, gid)? } else { fallback_scratch() };
    let noexec = statvfs(&setup.workspace)
        .map_err(nx("statvfs of the workspace"))?
        .flags()
        .contains(FsFlags::ST_NOEXEC);
    let group = match found {
        Ok(found) => found.enter(setup)?,
        Err(reason) => Err(reason),
    };
    let mount = |path: &Path| MountFlags::at(path).map_err(io("mount flags"));
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
    nix::sys::prctl::set_no_new_privs().map_err(nx("no_new_privs"))?;
    let no_new_privs = nix::sys::prctl::get_no_new_privs().map_err(nx("no_new_privs"))?;
    if !no_new_privs {
        return Err(failure("no_new_privs", &"it did not take effect", 0));
    }
    let facts = Facts {
        landlock_abi: abi,
        mount_namespace: setup.isolate,
        workspace_noexec: noexec,
        scratch_slots,
        workspace_mount,
        scratch_mount,
        mounts,
        scratch,
        uid,
        gid,
        caps,
        no_new_privs,
        hard_limits: crate::sandbox::rlimits::hard().map_err(nx("getrlimit"))?,
        cgroup: leaf::facts(&group),
    };
    // The reason is in the facts.
    Ok((facts, group.into_iter().next()))
}

/// A mount namespace in which everything is read-only but a writable workspace and scratch, and those
/// are noexec. Closes the loader route (`ld.so FILE` maps any file it may read) and the changes of
/// mode, owner and times through a read-only descriptor, for which Landlock has no right.
fn isolate(setup: &Setup, uid: u32, gid: u32) -> Result<Option<PathBuf>, Failure> {
    if nix::sched::unshare(CloneFlags::CLONE_NEWNS).is_err() {
        let (outer_uid, outer_gid) = (Uid::effective(), Gid::effective());
        nix::sched::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(nx("unshare"))?;
        let write = |file: &str, text: String| std::fs::write(file, text).map_err(io("user namespace map"));
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("{outer_uid} {outer_uid} 1"))?;
        write("/proc/self/gid_map", format!("{outer_gid} {outer_gid} 1"))?;
    }
    let none: Option<&str> = None;
    nix::mount::mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)
        .map_err(nx("mount propagation"))?;
    let ws = &setup.workspace;
    let path = c_path(ws)?;
    let tree = sys::clone_tree(&path).map_err(io("workspace mount"))?;
    // Everything but the workspace and scratch is read-only, metadata included: a descriptor that was
    // opened for reading is enough for fchmod(2), and no Landlock right stands for it. Device files
    // take data all the same.
    match sys::mount_attrs(c"/", RDONLY | NOSUID) {
        // In a chroot the root is no mount; the ordinary permissions are left.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
        other => other.map_err(io("read-only mounts"))?,
    }
    sys::attach_tree(&tree, &path).map_err(io("workspace mount"))?;
    // What the host mounts into the workspace later would come without the attributes: it stays out.
    nix::mount::mount(none, ws, none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(nx("workspace mount"))?;
    let attrs = NOEXEC | NOSUID | NODEV | if setup.write { 0 } else { RDONLY };
    sys::mount_attrs(&path, attrs).map_err(io("workspace mount"))?;
    if setup.write {
        protect_repository(ws, setup.repository_write)?;
    }
    for alias in aliases::of(ws).map_err(io("mounts"))? {
        let step =
            |e: &dyn std::fmt::Display| failure("mounts", &format!("{}: {e}", aliases::shown(&alias)), 0);
        match &alias {
            Alias::Whole(place) => {
                nix::mount::mount(Some(ws), place, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
                    .map_err(|e| step(&e))?;
            }
            Alias::Part(place) => sys::mount_attrs(&c_path(place)?, attrs | RDONLY).map_err(|e| step(&e))?,
        }
    }
    let free = |dir: &&&str| Path::new(dir).is_dir() && !ws.starts_with(dir);
    let Some(place) = SCRATCH_MOUNTS.iter().find(free) else { return Ok(None) };
    let flags = MsFlags::MS_NOEXEC | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let tmpfs = |at: &Path, options: &str| {
        nix::mount::mount(Some("scratch"), at, Some("tmpfs"), flags, Some(options))
            .map_err(nx("scratch mount"))
    };
    let place = PathBuf::from(place);
    tmpfs(&place, "size=64k,mode=0711")?;
    // One each, so that no run can fill what another needs.
    let options =
        format!("size={},nr_inodes={SCRATCH_INODES},mode=0700,uid={uid},gid={gid}", setup.scratch_bytes);
    for slot in (0..setup.scratch_slots).map(|number| slot(&place, number)) {
        std::fs::create_dir(&slot).map_err(io("scratch mount"))?;
        tmpfs(&slot, &options)?;
    }
    Ok(Some(place))
}

/// Mount point of one run's scratch file system.
pub(super) fn slot(place: &Path, number: u32) -> PathBuf {
    place.join(number.to_string())
}

fn c_path(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| failure("mount", &e, libc::EINVAL))
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
        nix::mount::mount(Some(&path), &path, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
            .map_err(nx("repository mount"))?;
        sys::mount_attrs(&c_path(&path)?, attrs).map_err(io("repository mount"))?;
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
    nix::unistd::setgroups(&[]).map_err(nx("setgroups"))?;
    nix::unistd::setresgid(gid, gid, gid).map_err(nx("setresgid"))?;
    nix::unistd::setresuid(uid, uid, uid).map_err(nx("setresuid"))?;
    let now = nix::unistd::getresuid().map_err(nx("getresuid"))?;
    if [now.real, now.effective, now.saved] != [uid; 3] {
        return Err(failure("setresuid", &"the user id did not change", 0));
    }
    Ok(())
}

/// EPERM is fine only where nothing is left to drop (a container without CAP_SETPCAP).
fn clear_bounding() -> Result<(), Failure> {
    for cap in caps::runtime::thread_all_supported() {
        if let Err(e) = caps::drop(None, CapSet::Bounding, cap)
            && caps::has_cap(None, CapSet::Bounding, cap).unwrap_or(true)
        {
            return Err(failure("capability bounding set", &format!("{cap}: {e}"), libc::EPERM));
        }
    }
    Ok(())
}

/// Empties every capability set and reads them back; returns the effective set.
fn drop_capabilities() -> Result<u64, Failure> {
    clear_bounding()?;
    let fail = |e: caps::errors::CapsError| failure("capabilities", &e, libc::EPERM);
    caps::clear(None, CapSet::Ambient).map_err(fail)?;
    caps::clear(None, CapSet::Inheritable).map_err(fail)?;
    caps::clear(None, CapSet::Effective).map_err(fail)?;
    caps::clear(None, CapSet::Permitted).map_err(fail)?;
    let mut effective = 0u64;
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Permitted, CapSet::Effective, CapSet::Bounding]
    {
        let left = caps::read(None, set).map_err(fail)?;
        if !left.is_empty() {
            return Err(failure("capabilities", &format!("{set:?} set is not empty: {left:?}"), libc::EPERM));
        }
        effective |= left.iter().map(caps::Capability::bitmask).sum::<u64>();
    }
    Ok(effective)
}
