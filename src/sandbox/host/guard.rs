//! Who could change a file, going by the file system alone: the question behind `policy-protected`.
//!
//! Inputs: the modes of the file and of all directories above it, and whether their mounts are read-only. What
//! Landlock or mounts of the launcher's own would refuse does not count. Used by `host/` only.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Known;
use super::mounts::MountFlags;

/// What is known about one file that must not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// The file.
    pub path: PathBuf,
    /// Its owner and group.
    pub owner: (u32, u32),
    /// Permission bits.
    pub mode: u32,
    /// Its mount is read-only.
    pub read_only: bool,
    /// Why the user of commands could change it; absent: it could not.
    pub weak: Option<String>,
}

/// Looks at `path` for commands of the user `uid`.
pub(super) fn look(path: &Path, uid: u32) -> Known<Guarded> {
    let failed = |e: std::io::Error| format!("examining {} failed: {e}", path.display());
    let path = path.canonicalize().map_err(failed)?;
    let meta = path.metadata().map_err(failed)?;
    let read_only = on_read_only_mount(&path)?;
    let mut weak = if read_only { None } else { changed_by(&path, &meta, uid, false) };
    // A directory above that can be renamed takes even a read-only mount with it.
    for directory in path.ancestors().skip(1) {
        if weak.is_none() && !on_read_only_mount(directory)? {
            let meta =
                directory.metadata().map_err(|e| format!("examining {} failed: {e}", directory.display()))?;
            weak = changed_by(directory, &meta, uid, true);
        }
    }
    Ok(Guarded { owner: (meta.uid(), meta.gid()), mode: meta.mode() & 0o7777, read_only, weak, path })
}

fn on_read_only_mount(path: &Path) -> Known<bool> {
    let flags = MountFlags::at(path)
        .map_err(|e| format!("asking for the mount of {} failed: {e}", path.display()))?;
    Ok(flags.is_some_and(|flags| flags.read_only))
}

/// Group bits count whoever is in the group: with an access control list they are its mask.
fn changed_by(path: &Path, meta: &Metadata, uid: u32, directory: bool) -> Option<String> {
    let shown = path.display();
    if meta.uid() == uid {
        return Some(format!("{shown} belongs to the user of commands (uid {uid})"));
    }
    // In a sticky directory only the owner of a file replaces it.
    if directory && meta.mode() & 0o1000 != 0 {
        return None;
    }
    if meta.mode() & 0o002 != 0 {
        return Some(format!("everybody can write {shown}"));
    }
    (meta.mode() & 0o020 != 0).then(|| format!("a group can write {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn owner_group_everybody_and_directories_above_count() {
        let dir = tempfile::tempdir().unwrap();
        let (inner, stranger) = (dir.path().join("etc"), 4_000_000);
        std::fs::create_dir(&inner).unwrap();
        let file = inner.join("policy.toml");
        std::fs::write(&file, "x").unwrap();
        set(&inner, 0o755);
        let weak = |uid| look(&file, uid).unwrap().weak;
        set(&file, 0o644);
        assert_eq!(weak(stranger), None);
        let owner = file.metadata().unwrap().uid();
        assert!(weak(owner).unwrap().contains("belongs to the user of commands"));
        set(&file, 0o664);
        assert!(weak(stranger).unwrap().contains("a group can write"));
        set(&file, 0o646);
        assert!(weak(stranger).unwrap().contains("everybody can write"));
        set(&file, 0o600);
        set(&inner, 0o777);
        assert!(weak(stranger).unwrap().ends_with("/etc"));
        set(&inner, 0o1777);
        assert_eq!(weak(stranger), None);
        assert!(look(&inner.join("none"), stranger).is_err());
    }
}
