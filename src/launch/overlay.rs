//! A workspace that is thrown away: an overlay in memory over the real one, for the runs of `learn`.
//!
//! Inputs: the workspace of a [`Setup`], read-only by now. Called by `confine`, in the launcher's own mount
//! namespace; what is written into the overlay is gone with it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags};

use super::confine::SCRATCH_MOUNTS;
use super::step::{step, unmet};
use super::wire::{Failure, Setup};

/// Bytes that commands may write.
const BYTES: u64 = 256 << 20;

/// Covers the workspace. Mounts of the host below it are not shown.
pub(super) fn mount(setup: &Setup, uid: u32, gid: u32) -> Result<(), Failure> {
    let none: Option<&str> = None;
    let ws = &setup.workspace;
    let meta = step!("overlay", ws.metadata())?;
    let free = |dir: &&&str| Path::new(dir).is_dir() && !ws.starts_with(dir);
    let place = SCRATCH_MOUNTS.iter().find(free).ok_or_else(|| unmet(0, "no place for it"));
    let place = Path::new(step!("overlay", place)?);
    let flags = MsFlags::MS_NOEXEC | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let options = format!("size={BYTES},mode=0700");
    let tmpfs = || nix::mount::mount(Some("overlay"), place, Some("tmpfs"), flags, Some(&*options));
    step!("overlay", tmpfs())?;
    let upper = place.join("upper");
    for dir in [&upper, &place.join("work")] {
        step!("overlay", std::fs::create_dir(dir))?;
    }
    // The root of the overlay has the attributes of the upper directory.
    step!("overlay", std::fs::set_permissions(&upper, meta.permissions()))?;
    let owned = std::os::unix::fs::chown(&upper, Some(meta.uid()), Some(meta.gid()))
        .or_else(|_| std::os::unix::fs::chown(&upper, Some(uid), Some(gid)));
    step!("overlay", owned)?;
    // A relative name: the path of a workspace may hold what the options would need escaped.
    step!("overlay", nix::unistd::chdir(ws))?;
    let cover = |more: &str| {
        let options = format!("lowerdir=.,upperdir={0}/upper,workdir={0}/work{more}", place.display());
        nix::mount::mount(Some("overlay"), ws, Some("overlay"), flags, Some(&*options))
    };
    // In a user namespace the attributes of an overlay need the other prefix.
    step!("overlay", cover("").or_else(|_| cover(",userxattr")))?;
    step!("overlay", nix::unistd::chdir("/"))?;
    // The overlay holds on to it; nobody else can reach it any more.
    step!("overlay", nix::mount::umount2(place, MntFlags::MNT_DETACH))?;
    step!("overlay", nix::mount::mount(none, ws, none, MsFlags::MS_PRIVATE, none))
}
