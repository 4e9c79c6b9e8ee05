//! Files into directories, where that grants little more. Called by `learn` only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::sandbox::secrets::Secrets;

/// So many files of one directory become the directory.
const MANY: usize = 4;
/// Most entries that are looked at before a directory counts as too large to be granted unseen.
const ENTRIES: usize = 20_000;
/// Directories that hold everything: what lies in them has nothing in common.
const NEVER: &[&str] = &[
    "/",
    "/bin",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/tmp",
];

/// Why a directory is not granted as a whole; `None` when it may be.
pub(super) fn obstacle(dir: &Path, secrets: &Secrets, workspace: &Path) -> Option<&'static str> {
    if NEVER.iter().any(|never| dir == Path::new(never)) {
        Some("the directory holds everything of its kind")
    } else if dir.starts_with("/proc") || dir.starts_with("/sys") || dir.starts_with("/dev") {
        Some("nothing of the kernel's is granted by the directory")
    } else if secrets.hold(dir) || secrets.below(dir) {
        Some("there are secrets in the directory")
    } else if workspace.starts_with(dir) {
        Some("the workspace lies in the directory")
    } else if !harmless(dir) {
        Some("the directory holds programs, or cannot be looked through")
    } else {
        None
    }
}

/// Whether a file is one that the loader runs for whoever may read it. A script is none: it is of no use
/// without its interpreter, which nothing here grants.
fn is_program(path: &Path, meta: &Metadata) -> bool {
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
        return false;
    }
    let mut magic = [0u8; 4];
    match File::open(path).and_then(|mut file| file.read_exact(&mut magic)) {
        Ok(()) => magic == *b"\x7fELF",
        // Shorter than that it is none; what cannot be read may be one.
        Err(e) => e.kind() != ErrorKind::UnexpectedEof,
    }
}

/// Whether there is no program below `dir`.
fn harmless(dir: &Path) -> bool {
    let mut left = vec![dir.to_path_buf()];
    let mut seen = 0;
    while let Some(dir) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { return false };
        for entry in entries {
            seen += 1;
            let Ok(entry) = entry else { return false };
            let Ok(meta) = entry.metadata() else { return false };
            if seen > ENTRIES || is_program(&entry.path(), &meta) {
                return false;
            }
            if meta.is_dir() {
                left.push(entry.path());
            }
        }
    }
    true
}

/// Folds `paths`: many of one directory become it, again and again. `may` says of a directory whether it
/// may stand for what lies in it.
pub(super) fn fold(mut paths: BTreeSet<PathBuf>, may: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut refused = BTreeSet::new();
    loop {
        let mut by_parent: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for parent in paths.iter().filter_map(|path| path.parent()) {
            *by_parent.entry(parent.to_path_buf()).or_insert(0) += 1;
        }
        let many = by_parent.into_iter().filter(|(dir, count)| *count >= MANY && !refused.contains(dir));
        // The deepest first: what they become may be many of one directory in turn.
        let Some((dir, _)) = many.max_by_key(|(dir, _)| dir.iter().count()) else { break };
        if may(&dir) {
            paths.retain(|path| !path.starts_with(&dir));
            paths.insert(dir);
        } else {
            refused.insert(dir);
        }
    }
    let all = paths.clone();
    let covered = |path: &PathBuf| path.ancestors().skip(1).any(|above| all.contains(above));
    paths.into_iter().filter(|path| !covered(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> BTreeSet<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    fn folded(list: &[&str], may: impl Fn(&Path) -> bool) -> Vec<String> {
        fold(paths(list), may).into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn many_files_of_a_directory_become_it_and_few_do_not() {
        let few = ["/s/a/1", "/s/a/2", "/s/a/3"];
        assert_eq!(folded(&few, |_| true), few);
        assert_eq!(folded(&["/s/a/1", "/s/a/2", "/s/a/3", "/s/a/4", "/s/b/1"], |_| true), ["/s/a", "/s/b/1"]);
        assert_eq!(folded(&["/s/a", "/s/a/1", "/s/b"], |_| true), ["/s/a", "/s/b"], "covered");
    }

    #[test]
    fn folding_goes_up_as_long_as_it_may() {
        let list = ["/s/a/1/x", "/s/a/2/x", "/s/a/3/x", "/s/a/4/x"];
        assert_eq!(folded(&list, |_| true), list, "one file a directory");
        let deep: Vec<String> =
            (0..4).flat_map(|dir| (0..4).map(move |file| format!("/s/a/{dir}/{file}"))).collect();
        let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
        assert_eq!(folded(&deep, |_| true), ["/s/a"]);
        assert_eq!(folded(&deep, |dir| dir != Path::new("/s/a")).len(), 4);
        assert_eq!(folded(&deep, |_| false).len(), 16);
    }

    #[test]
    fn no_directory_stands_for_secrets_programs_or_everything() {
        let keep = tempfile::tempdir().unwrap();
        let base = keep.path().canonicalize().unwrap();
        for dir in ["data/sub", "tools/sub", "home", "above/ws"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        std::fs::write(base.join("data/sub/x"), "").unwrap();
        for (name, content) in [("data/sub/script", "#!/bin/x"), ("tools/sub/x", "\x7fELF")] {
            std::fs::write(base.join(name), content).unwrap();
            std::fs::set_permissions(base.join(name), PermissionsExt::from_mode(0o755)).unwrap();
        }
        let secrets = Secrets::of_host([base.join("home")]);
        let obstacle = |dir: &Path| obstacle(dir, &secrets, &base.join("above/ws"));
        assert_eq!(obstacle(&base.join("data")), None);
        for dir in ["tools", "home", "above"] {
            assert!(obstacle(&base.join(dir)).is_some(), "{dir}");
        }
        assert!(obstacle(&base).is_some(), "a secret lies below");
        for dir in ["/", "/etc", "/usr", "/usr/bin", "/proc/sys", "/root", "/usr/share", "/etc/ssh"] {
            assert!(obstacle(Path::new(dir)).is_some(), "{dir}");
        }
    }
}
