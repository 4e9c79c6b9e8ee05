//! Limits of the control group: the least of what is set on it and on those above that can be seen.
//!
//! Inputs: the text of `/proc/self/cgroup`, the mount table, files of the cgroup file systems; both
//! versions. Used by `host/` only.

use std::path::{Path, PathBuf};

use super::Known;
use super::mounts::{Mount, has};

/// A limit that both versions have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Controller of version 1.
    pub(super) controller: &'static str,
    /// Its file.
    pub(super) old: &'static str,
    /// File of version 2.
    pub(super) new: &'static str,
}

/// Processes and threads.
pub(super) const PIDS: Limit = Limit { controller: "pids", old: "pids.max", new: "pids.max" };
/// Bytes of memory.
pub(super) const MEMORY: Limit =
    Limit { controller: "memory", old: "memory.limit_in_bytes", new: "memory.max" };
/// From here on version 1 means "none" (it rounds the largest number down to pages).
const NONE: u64 = 1 << 62;

/// The limit in force; `Ok(None)` when there is none.
pub(super) fn limit(groups: &str, mounts: &[Mount], limit: Limit) -> Known<Option<u64>> {
    let mut seen = 0;
    let mut least = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("a line of /proc/self/cgroup is not as documented: {line:?}"));
        };
        let (file, mount) = if number == "0" && controllers.is_empty() {
            (limit.new, mounts.iter().rev().find(|mount| mount.kind == "cgroup2"))
        } else if has(controllers, limit.controller) {
            let own = |mount: &&Mount| mount.kind == "cgroup" && has(&mount.super_options, limit.controller);
            (limit.old, mounts.iter().rev().find(own))
        } else {
            continue;
        };
        let Some(mount) = mount else { continue };
        for directory in chain(mount, group) {
            match std::fs::read_to_string(directory.join(file)) {
                Ok(text) => {
                    seen += 1;
                    least = least.into_iter().chain(number_of(&text)?).min();
                }
                // The root of a hierarchy has no such file, nor has one without the controller.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    return Err(format!("reading {} failed: {e}", directory.join(file).display()));
                }
            }
        }
    }
    // A version 2 hierarchy without the file is proof only where it can be seen at all.
    if seen == 0 && !mounts.iter().any(|mount| mount.kind.starts_with("cgroup")) {
        return Err("no cgroup file system is mounted where this process could look".to_owned());
    }
    Ok(least)
}

/// The directory of `group` and those above, up to the mount.
fn chain(mount: &Mount, group: &str) -> Vec<PathBuf> {
    // In a cgroup namespace the mount's root may lie above or beside what the process sees.
    let below = Path::new(group)
        .strip_prefix(&mount.root)
        .or_else(|_| Path::new(group).strip_prefix("/"))
        .unwrap_or_else(|_| Path::new(""));
    let start = mount.at.join(below);
    let start = if start.is_dir() && !group.contains("..") { start } else { mount.at.clone() };
    start.ancestors().take_while(|own| own.starts_with(&mount.at)).map(Path::to_owned).collect()
}

fn number_of(text: &str) -> Known<Option<u64>> {
    match text.trim() {
        "max" => Ok(None),
        number => match number.parse::<u64>() {
            Ok(number) => Ok(Some(number).filter(|number| *number < NONE)),
            Err(e) => Err(format!("a cgroup limit is no number: {number:?}: {e}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(at: &Path, kind: &str, super_options: &str) -> Mount {
        Mount { root: "/".into(), at: at.into(), kind: kind.into(), super_options: super_options.into() }
    }

    #[test]
    fn the_least_limit_on_the_way_up_holds() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let table = [mount(dir.path(), "cgroup2", "rw")];
        assert_eq!(limit("0::/a/b\n", &table, PIDS), Ok(None));
        std::fs::write(dir.path().join("a/b/pids.max"), "max\n").unwrap();
        assert_eq!(limit("0::/a/b\n", &table, PIDS), Ok(None));
        std::fs::write(dir.path().join("a/pids.max"), "100\n").unwrap();
        assert_eq!(limit("0::/a/b\n", &table, PIDS), Ok(Some(100)));
        std::fs::write(dir.path().join("a/b/pids.max"), "200\n").unwrap();
        assert_eq!(limit("0::/a/b\n", &table, PIDS), Ok(Some(100)));
        std::fs::write(dir.path().join("a/b/pids.max"), "lots\n").unwrap();
        assert!(limit("0::/a/b\n", &table, PIDS).is_err());
    }

    #[test]
    fn version_1_is_read_as_well() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("x")).unwrap();
        let table = [mount(dir.path(), "cgroup", "rw,memory")];
        let file = dir.path().join("x/memory.limit_in_bytes");
        std::fs::write(&file, "9223372036854771712\n").unwrap();
        assert_eq!(limit("4:memory:/x\n0::/\n", &table, MEMORY), Ok(None));
        std::fs::write(&file, "1048576\n").unwrap();
        assert_eq!(limit("4:memory:/x\n0::/\n", &table, MEMORY), Ok(Some(1_048_576)));
        assert_eq!(limit("4:cpu:/x\n", &table, MEMORY), Ok(None));
    }

    #[test]
    fn what_cannot_be_seen_is_not_known() {
        assert!(limit("0::/\n", &[], PIDS).is_err());
        assert!(limit("nonsense\n", &[], PIDS).is_err());
    }
}
