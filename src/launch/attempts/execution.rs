//! Attempts to run or map code that the policy does not list.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statvfs::{FsFlags, statvfs};

use super::read::{Stop, call, step};
use super::{SECONDS, Scene, Tried};
use crate::sys::attempt as raw;

/// The smallest program for x86-64 that there is: it exits with a status of its own. One header, one
/// segment that maps the file, three instructions.
pub const PROGRAM: &[u8] = &[
    0x7f,
    b'E',
    b'L',
    b'F',
    2,
    1,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0, // 64 bit, little endian
    2,
    0,
    0x3e,
    0,
    1,
    0,
    0,
    0,
    0x78,
    0,
    0x40,
    0,
    0,
    0,
    0,
    0, // executable, x86-64, entry 0x400078
    0x40,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0, // program headers at 64, no sections
    0,
    0,
    0,
    0,
    0x40,
    0,
    0x38,
    0,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0, // one of 56 bytes
    1,
    0,
    0,
    0,
    5,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0, // PT_LOAD, readable and executable, offset 0
    0,
    0,
    0x40,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0x40,
    0,
    0,
    0,
    0,
    0, // at 0x400000
    0x84,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0x84,
    0,
    0,
    0,
    0,
    0,
    0,
    0, // 132 bytes
    0,
    0x10,
    0,
    0,
    0,
    0,
    0,
    0, // aligned to a page
    0xbf,
    STATUS as u8,
    0,
    0,
    0,
    0xb8,
    0x3c,
    0,
    0,
    0,
    0x0f,
    0x05, // mov edi, STATUS; mov eax, 60; syscall
];
/// Status that [`PROGRAM`] exits with.
const STATUS: i32 = 42;
/// Statuses of a loader that refuses.
const LOADER_REFUSES: [i32; 2] = [126, 127];

fn c_path(path: &Path) -> Result<CString, Stop> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| Stop::Failed(format!("{}: {e}", path.display())))
}

/// Executes a program in a child whose output goes nowhere; `Ok` with its status when it started.
fn run(path: &Path, argument: Option<&Path>) -> Result<i32, Stop> {
    let program = c_path(path)?;
    let argv = std::iter::once(path).chain(argument).map(c_path).collect::<Result<Vec<_>, _>>()?;
    started("execve", || match nix::unistd::execve(&program, &argv, &[] as &[CString]) {
        Ok(never) => match never {},
        Err(errno) => errno,
    })
}

/// Calls `execute` in a child; it comes back only when it failed, with the reason.
fn started(name: &str, execute: impl FnOnce() -> Errno) -> Result<i32, Stop> {
    let end = raw::in_child(SECONDS, || {
        if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
            // What the program prints must not mix with the answers; nothing else depends on it.
            let _: [nix::Result<()>; 2] = [nix::unistd::dup2_stdout(&null), nix::unistd::dup2_stderr(&null)];
        }
        (execute() as i32).to_le_bytes().to_vec()
    });
    let end = step("fork", end)?;
    match (end.answer.first_chunk::<4>(), end.code, end.signal) {
        (Some(errno), ..) => step(name, Err(Errno::from_raw(i32::from_le_bytes(*errno)))),
        (None, Some(code), _) => Ok(code),
        (None, None, signal) => Err(Stop::Failed(format!("the program was ended by signal {signal:?}"))),
    }
}

fn ran(path: &Path) -> Tried {
    run(path, None).map(|status| format!("{} ran (status {status})", path.display()))
}

/// Executes each of the host's unlisted programs; one that runs is enough.
pub(super) fn unlisted(scene: &Scene<'_>, _: Arg) -> Tried {
    let mut refused = Err(Stop::Failed("no program to try".to_owned()));
    for program in scene.ground.unlisted.iter().chain([&scene.ground.outside.join("program")]) {
        match ran(program) {
            Err(Stop::Refused(detail)) => refused = Err(Stop::Refused(detail)),
            other => return other,
        }
    }
    refused
}

/// Asks the loader, which every dynamic program needs, to run a program that is not listed.
pub(super) fn loader_unlisted(scene: &Scene<'_>, _: Arg) -> Tried {
    match scene.ground.unlisted.first() {
        Some(program) => loaded(scene, program),
        None => Err(Stop::Refused("this host has no other program".to_owned())),
    }
}

/// The same with a copy of a program in the scratch directory.
pub(super) fn loader_scratch(scene: &Scene<'_>, _: Arg) -> Tried {
    if scene.program.is_empty() {
        return Err(Stop::Refused("this host has no other program".to_owned()));
    }
    loaded(scene, &place(scene.scratch()?, scene.program)?)
}

/// The same with a copy in the workspace; where that cannot be written there is none to run.
pub(super) fn loader_workspace(scene: &Scene<'_>, _: Arg) -> Tried {
    if scene.program.is_empty() {
        return Err(Stop::Refused("this host has no other program".to_owned()));
    }
    let copy = place(&scene.ground.workspace, scene.program)?;
    let tried = loaded(scene, &copy);
    step("unlink", std::fs::remove_file(copy))?;
    tried
}

fn loaded(scene: &Scene<'_>, program: &Path) -> Tried {
    let Some(loader) = &scene.ground.loader else {
        return Err(Stop::Refused("this host has no loader".to_owned()));
    };
    match run(loader, Some(program))? {
        code if LOADER_REFUSES.contains(&code) => Err(Stop::Refused(format!("the loader gives up ({code})"))),
        code => Ok(format!("the loader ran {} (status {code})", program.display())),
    }
}

/// Writes an executable into a directory.
fn place(dir: &Path, bytes: &[u8]) -> Result<PathBuf, Stop> {
    let path = dir.join(format!(".cofferdam-doctor-{}", uuid::Uuid::new_v4().simple()));
    let mut file = step("openat", File::options().write(true).create_new(true).mode(0o755).open(&path))?;
    step("write", file.write_all(bytes))?;
    Ok(path)
}

pub(super) fn scratch(scene: &Scene<'_>, _: Arg) -> Tried {
    ran(&place(scene.scratch()?, PROGRAM)?)
}

pub(super) fn workspace(scene: &Scene<'_>, _: Arg) -> Tried {
    let copy = place(&scene.ground.workspace, PROGRAM)?;
    let tried = ran(&copy);
    step("unlink", std::fs::remove_file(copy))?;
    tried
}

/// Maps a file of the scratch directory executable, as any program could.
pub(super) fn map_scratch(scene: &Scene<'_>, _: Arg) -> Tried {
    mapped(&place(scene.scratch()?, PROGRAM)?)
}

/// Maps a file of the workspace executable; where it has no file, its mount says what would happen.
pub(super) fn map_workspace(scene: &Scene<'_>, _: Arg) -> Tried {
    let root = &scene.ground.workspace;
    let entries = step("opendir", std::fs::read_dir(root))?;
    let file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    match entries.filter_map(Result::ok).map(|entry| entry.path()).find(file) {
        Some(path) => mapped(&path),
        None if step("statvfs", statvfs(root))?.flags().contains(FsFlags::ST_NOEXEC) => {
            Err(Stop::Refused("no file to map; mounted noexec".to_owned()))
        }
        None => Ok("no file to map; not mounted noexec".to_owned()),
    }
}

fn mapped(path: &Path) -> Tried {
    let file = step("openat", File::open(path))?;
    call("mmap", raw::map_executable(file.as_fd()))
}

pub(super) fn memfd(_: &Scene<'_>, _: Arg) -> Tried {
    call("memfd_create", memfd_create(c"attempt", MFdFlags::empty()))
}

/// Executes a descriptor of the one program that may run, by the empty path.
pub(super) fn empty_path(_: &Scene<'_>, _: Arg) -> Tried {
    let own = step("current_exe", own_program())?;
    let file = step("openat", File::open(own))?;
    let status = started("execveat", || {
        let error = raw::execute_descriptor(file.as_fd()).err().and_then(|e| e.raw_os_error());
        Errno::from_raw(error.unwrap_or(0))
    })?;
    Ok(format!("it ran (status {status})"))
}

/// Where this program lies: `/proc` is closed, so from the auxiliary vector.
fn own_program() -> io::Result<PathBuf> {
    raw::own_path().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// Memory that is writable and executable at once.
pub(super) fn writable_and_executable(_: &Scene<'_>, _: Arg) -> Tried {
    call("mmap", raw::map_memory(4096, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, None))
}

/// Memory that is written first and made executable afterwards.
pub(super) fn executable_afterwards(_: &Scene<'_>, _: Arg) -> Tried {
    let (write, run) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC);
    call("mprotect", raw::map_memory(4096, write, Some(run)))
}

/// Parameters of an attempt, out of its row.
pub(super) type Arg = [i32; 3];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_program_runs_where_nothing_stops_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = place(dir.path(), PROGRAM).unwrap();
        assert_eq!(PROGRAM.len(), 132);
        let status = std::process::Command::new(path).status().unwrap();
        assert_eq!(status.code(), Some(STATUS));
    }
}
