//! The workspace: the one directory tree that commands work in, held open by descriptor.
//!
//! Purpose: decide whether a working directory lies inside. The kernel decides, with
//! `openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)` (openat2(2), Linux 5.6), never a comparison
//! of strings. Called while a policy loads and once a request, before the verdict.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The root of what commands may see, opened once.
#[derive(Debug)]
pub struct Workspace {
    /// Canonical path of the root.
    pub path: PathBuf,
    /// Whether commands may write below it.
    pub write: bool,
    /// `O_PATH` descriptor of the root.
    pub root: Arc<OwnedFd>,
}

/// A working directory that was opened beneath the workspace root. Only this module makes one.
#[derive(Debug, Clone)]
pub struct Cwd {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

impl Cwd {
    /// `O_PATH` descriptor of the directory.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Absolute path, for people and records.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Why a working directory was refused.
#[derive(Debug, thiserror::Error)]
pub enum CwdError {
    /// It resolves to a place outside of the workspace, or through a link that leaves it.
    #[error("working directory is outside of the workspace {}: {}", .root.display(), .asked.display())]
    Outside {
        /// Workspace root.
        root: PathBuf,
        /// What was asked.
        asked: PathBuf,
    },
    /// It does not exist or is not a directory.
    #[error("working directory is not an existing directory: {}", .0.display())]
    Missing(PathBuf),
    /// The kernel refused for another reason.
    #[error("open of working directory {} failed: {source}", .asked.display())]
    Failed {
        /// What was asked.
        asked: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
}
