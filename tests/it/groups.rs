//! Groups of cgroup v2, for tests that need one to make others in.

use std::fs;
use std::path::{Path, PathBuf};

/// A group of cgroup v2 that this test may make, removed with it.
pub(crate) struct Made(PathBuf);

impl Made {
    /// `None` where this process may make none.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        let path = Path::new(line.split(' ').nth(4)?);
        let path = path.join(format!("{name}-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&path).is_ok().then(|| Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether `limits` of memory and processes can be had in it.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn has_limits(&self) -> bool {
        let controllers = fs::read_to_string(self.0.join("cgroup.controllers")).unwrap();
        ["memory", "pids"].iter().all(|name| controllers.split_whitespace().any(|one| one == *name))
    }

    /// The groups in it.
    pub(crate) fn groups(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().map(Result::unwrap);
        entries.filter(|e| e.file_type().unwrap().is_dir()).map(|e| e.path().display().to_string()).collect()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let removed = fs::remove_dir(&self.0);
        assert!(std::thread::panicking() || removed.is_ok(), "{removed:?}");
    }
}
