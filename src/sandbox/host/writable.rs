//! Where the server's user can write, and files that give whoever starts them another user.
//!
//! Inputs: the mount table and the file system. `places` looks at directories known by name and is fast;
//! `setuid` walks where programs lie, for `doctor`. Used by `host/` only.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use super::mounts::{Mount, MountFlags};

/// Directories to look at beside every mount point.
const USUAL: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev/shm",
    "/etc",
    "/home",
    "/lib",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/local/bin",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];
/// File systems that hold no files of anybody.
const PSEUDO: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tracefs",
];
/// Where programs lie.
const PROGRAMS: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec", "/lib", "/usr/local", "/opt", "/usr"];
/// Files and directories that a walk looks at, at most.
const MOST: usize = 50_000;

/// Directories that this process can write now, with what else their mount forbids, but for those at or
/// below `known`.
pub(super) fn places(mounts: &[Mount], known: &[PathBuf]) -> Vec<MountFlags> {
    let mut seen = BTreeSet::new();
    let real = mounts.iter().filter(|mount| !PSEUDO.contains(&mount.kind.as_str()));
    let all = real.map(|mount| mount.at.as_path()).chain(USUAL.iter().map(Path::new));
    let mut found: Vec<MountFlags> = all
        .flat_map(Path::canonicalize)
        .filter(|path| !known.iter().any(|own| path.starts_with(own)))
        .filter(|path| seen.insert(path.clone()))
        .filter(|path| path.is_dir() && eaccess(path, AccessFlags::W_OK).is_ok())
        .filter_map(|path| MountFlags::at(&path).unwrap_or(None))
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// Files with the set-user or set-group bit on mounts that honour it.
    pub setuid: Vec<PathBuf>,
    /// It was ended before it had seen all.
    pub cut: bool,
}

/// Walks where programs lie.
#[must_use]
pub fn setuid() -> Walk {
    walk(PROGRAMS.iter().map(PathBuf::from), MOST)
}

fn walk(from: impl Iterator<Item = PathBuf>, most: usize) -> Walk {
    let mut found = Walk::default();
    let mut seen = BTreeSet::new();
    let mut waiting: VecDeque<PathBuf> = from.flat_map(|path| path.canonicalize()).collect();
    let mut count = 0;
    while let Some(directory) = waiting.pop_front() {
        // A directory that this user may not read holds nothing that it could find either.
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let Ok(own) = directory.metadata() else { continue };
        if !seen.insert((own.dev(), own.ino())) {
            continue;
        }
        for entry in entries.flatten() {
            count += 1;
            if count > most {
                found.cut = true;
                return found;
            }
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                waiting.push_back(entry.path());
            } else if meta.is_file()
                && meta.mode() & 0o6000 != 0
                && meta.mode() & 0o111 != 0
                && !matches!(MountFlags::at(&entry.path()), Ok(Some(flags)) if flags.nosuid)
            {
                found.setuid.push(entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_walk_finds_the_bit_and_ends_in_time() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let file = dir.path().join("a/b/su");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/loop")).unwrap();
        let from = || std::iter::once(dir.path().to_owned());
        assert_eq!(walk(from(), 1000), Walk::default());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let nosuid = MountFlags::at(&file).unwrap().unwrap().nosuid;
        assert_eq!(walk(from(), 1000).setuid.len(), usize::from(!nosuid));
        assert!(walk(from(), 1).cut);
    }

    #[test]
    fn a_directory_of_this_process_is_writable_unless_it_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let mount =
            Mount { root: "/".into(), at: path.clone(), kind: "tmpfs".into(), super_options: "rw".into() };
        let there = |known: &[PathBuf]| {
            places(std::slice::from_ref(&mount), known).iter().any(|own| own.path == path)
        };
        assert!(there(&[]));
        assert!(!there(&[path.parent().unwrap().to_owned()]));
    }
}
