//! Whether this is a container, and whose.
//!
//! Inputs: the marks that container runtimes leave: two files, an environment variable, names of control
//! groups. None of them is proof against a lie; nothing is granted for one. Used by `host/` only.

use std::path::Path;

/// Parts of control group names, and the runtime that gives them.
const GROUPS: &[(&str, &str)] = &[
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("crio", "cri-o"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
    ("machine.slice", "systemd-nspawn"),
];

/// A container, by its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// `podman`, `docker`, `kubernetes` and so on.
    pub runtime: String,
    /// The mark.
    pub mark: String,
}

/// `None` when no mark is there. `root` is `/`, the others are what the process finds.
pub(super) fn find(root: &Path, variable: &str, groups: &str) -> Option<Container> {
    let container =
        |runtime: &str, mark: &str| Some(Container { runtime: runtime.to_owned(), mark: mark.to_owned() });
    if root.join("run/.containerenv").exists() {
        return container("podman", "/run/.containerenv");
    }
    let group = GROUPS.iter().find(|(part, _)| groups.contains(part));
    if let Some(("kubepods", runtime)) = group {
        return container(runtime, "/proc/self/cgroup");
    }
    if root.join("var/run/secrets/kubernetes.io").exists() {
        return container("kubernetes", "/var/run/secrets/kubernetes.io");
    }
    if root.join(".dockerenv").exists() {
        return container("docker", "/.dockerenv");
    }
    if !variable.is_empty() {
        let clean: String = variable.chars().filter(char::is_ascii_graphic).take(32).collect();
        return container(&clean, "the environment variable container");
    }
    if root.join("run/systemd/container").exists() {
        return container("unknown", "/run/systemd/container");
    }
    group.and_then(|(_, runtime)| container(runtime, "/proc/self/cgroup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_names_its_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = |variable, groups| find(dir.path(), variable, groups).map(|found| found.runtime);
        assert_eq!(runtime("", "0::/user.slice"), None);
        assert_eq!(runtime("", "0::/"), None);
        assert_eq!(runtime("lxc", "0::/").as_deref(), Some("lxc"));
        assert_eq!(runtime("", "0::/system.slice/docker-1.scope").as_deref(), Some("docker"));
        std::fs::write(dir.path().join(".dockerenv"), "").unwrap();
        assert_eq!(runtime("", "0::/").as_deref(), Some("docker"));
        assert_eq!(runtime("", "0::/kubepods/pod1").as_deref(), Some("kubernetes"));
        std::fs::create_dir(dir.path().join("run")).unwrap();
        std::fs::write(dir.path().join("run/.containerenv"), "").unwrap();
        assert_eq!(runtime("", "0::/").as_deref(), Some("podman"));
    }
}
