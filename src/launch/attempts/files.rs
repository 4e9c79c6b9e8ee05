//! Attempts on files: outside of what is granted, and the grants themselves.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use super::execution::Arg;
use super::read::{Stop, call, step};
use super::{Scene, Tried};
use crate::sys::attempt as raw;

fn file(scene: &Scene<'_>) -> PathBuf {
    scene.ground.outside.join("file")
}

fn fresh(dir: &Path) -> PathBuf {
    dir.join(format!(".cofferdam-doctor-{}", uuid::Uuid::new_v4().simple()))
}

fn read(path: &Path) -> Tried {
    let mut opened = step("openat", File::open(path))?;
    let read = step("read", opened.read(&mut [0u8; 64]))?;
    Ok(format!("read {read} bytes of {}", path.display()))
}

pub(super) fn read_outside(scene: &Scene<'_>, _: Arg) -> Tried {
    read(&file(scene))
}

/// Password hashes, which only root may read: closed for two reasons where commands are not root.
pub(super) fn read_shadow(_: &Scene<'_>, _: Arg) -> Tried {
    match read(Path::new("/etc/shadow")) {
        // A small image: whether a file exists is no secret to commands, so this is the kernel's true answer.
        Err(Stop::Failed(detail)) if detail.contains("No such file") => {
            Err(Stop::Refused(format!("{detail}: no password hashes here")))
        }
        other => other,
    }
}

pub(super) fn list_outside(scene: &Scene<'_>, _: Arg) -> Tried {
    step("opendir", std::fs::read_dir(&scene.ground.outside)).map(|_| "the directory was listed".to_owned())
}

/// The environment of the supervisor, and of the server.
pub(super) fn read_environment(scene: &Scene<'_>, _: Arg) -> Tried {
    for pid in [scene.parent, scene.ground.server] {
        match read(Path::new(&format!("/proc/{pid}/environ"))) {
            // Another process namespace, or hidden.
            Err(Stop::Failed(detail)) if detail.contains("No such file") => {}
            Err(Stop::Refused(_)) => {}
            other => return other,
        }
    }
    Err(Stop::Refused("openat: refused for supervisor and server".to_owned()))
}

/// A descriptor without rights, opened again through `/proc`.
pub(super) fn reopen(scene: &Scene<'_>, _: Arg) -> Tried {
    let path = step("open", open(&file(scene), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()))?;
    read(Path::new(&format!("/proc/self/fd/{}", path.as_raw_fd())))
}

/// Through a symbolic link that lies where the command may write.
pub(super) fn through_link(scene: &Scene<'_>, _: Arg) -> Tried {
    let link = fresh(scene.scratch()?);
    step("symlink", std::os::unix::fs::symlink(file(scene), &link))?;
    read(&link)
}

/// What may be written, tried on a directory: a new file, which is removed again.
fn create_in(dir: &Path) -> Tried {
    let path = fresh(dir);
    let mut file = step("openat", OpenOptions::new().write(true).create_new(true).open(&path))?;
    step("write", file.write_all(b"x"))?;
    step("unlink", std::fs::remove_file(&path))?;
    Ok(format!("a file was made in {}", dir.display()))
}

pub(super) fn create_outside(scene: &Scene<'_>, _: Arg) -> Tried {
    create_in(&scene.ground.outside.join("open"))
}

pub(super) fn create_in_workspace(scene: &Scene<'_>, _: Arg) -> Tried {
    create_in(&scene.ground.workspace)
}

pub(super) fn create_in_scratch(scene: &Scene<'_>, _: Arg) -> Tried {
    create_in(scene.scratch()?)
}

pub(super) fn list_workspace(scene: &Scene<'_>, _: Arg) -> Tried {
    step("opendir", std::fs::read_dir(&scene.ground.workspace))
        .map(|entries| format!("{} entries", entries.count()))
}

pub(super) fn overwrite(scene: &Scene<'_>, _: Arg) -> Tried {
    step("openat", OpenOptions::new().write(true).open(file(scene))).map(|_| "opened for writing".to_owned())
}

/// The audit log: what a run must never touch.
pub(super) fn audit_log(scene: &Scene<'_>, _: Arg) -> Tried {
    let Some(path) = &scene.ground.audit else {
        return Err(Stop::Refused("records go to standard error of the server".to_owned()));
    };
    match step("openat", OpenOptions::new().append(true).open(path)) {
        Ok(_) => Ok("opened for writing".to_owned()),
        Err(Stop::Refused(_)) => read(path),
        Err(other) => Err(other),
    }
}

pub(super) fn truncate(scene: &Scene<'_>, _: Arg) -> Tried {
    call("truncate", nix::unistd::truncate(&file(scene), 0))
}

pub(super) fn remove(scene: &Scene<'_>, _: Arg) -> Tried {
    call("unlink", std::fs::remove_file(scene.ground.outside.join("open/victim")))
}

pub(super) fn make_directory(scene: &Scene<'_>, _: Arg) -> Tried {
    call("mkdir", std::fs::create_dir(fresh(&scene.ground.outside.join("open"))))
}

pub(super) fn hard_link(scene: &Scene<'_>, _: Arg) -> Tried {
    call("link", std::fs::hard_link(file(scene), fresh(&scene.ground.outside.join("open"))))
}

/// A device file: the null device, which is harmless.
pub(super) fn device(scene: &Scene<'_>, _: Arg) -> Tried {
    call("mknod", mknod(&fresh(scene.scratch()?), SFlag::S_IFCHR, Mode::S_IRUSR, makedev(1, 3)))
}

fn c_file(scene: &Scene<'_>) -> Result<CString, Stop> {
    CString::new(file(scene).as_os_str().as_bytes()).map_err(|e| Stop::Failed(e.to_string()))
}

pub(super) fn mode(scene: &Scene<'_>, _: Arg) -> Tried {
    call("chmod", raw::change_mode(&c_file(scene)?, 0o666))
}

pub(super) fn times(scene: &Scene<'_>, _: Arg) -> Tried {
    call("utimensat", raw::change_times(&c_file(scene)?))
}

pub(super) fn attribute(scene: &Scene<'_>, _: Arg) -> Tried {
    call("lsetxattr", raw::set_attribute(&c_file(scene)?))
}

pub(super) fn name_handle(_: &Scene<'_>, _: Arg) -> Tried {
    call("name_to_handle_at", raw::name_handle())
}

pub(super) fn open_handle(_: &Scene<'_>, _: Arg) -> Tried {
    call("open_by_handle_at", raw::open_handle())
}

pub(super) fn look_at(scene: &Scene<'_>, _: Arg) -> Tried {
    let meta = step("stat", std::fs::metadata(file(scene)))?;
    Ok(format!("its size is {}", meta.len()))
}

pub(super) fn go_outside(scene: &Scene<'_>, _: Arg) -> Tried {
    step("chdir", std::env::set_current_dir(&scene.ground.outside))
        .map(|()| "the directory was entered".to_owned())
}

/// A file larger than the policy's limit, without any content.
pub(super) fn too_large(scene: &Scene<'_>, _: Arg) -> Tried {
    let limit = step("getrlimit", raw::limit(libc::RLIMIT_FSIZE))?.0;
    let Some(length) = limit.checked_add(1).filter(|_| limit < i64::MAX as u64) else {
        return Ok("there is no limit".to_owned());
    };
    let path = fresh(scene.scratch()?);
    let file = step("openat", OpenOptions::new().write(true).create_new(true).open(path))?;
    match file.set_len(length) {
        Err(e) if e.raw_os_error() == Some(libc::EFBIG) => Err(Stop::Refused(format!("ftruncate: {e}"))),
        other => call("ftruncate", other as io::Result<()>),
    }
}
