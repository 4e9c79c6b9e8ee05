//! The files that patterns see: those of the workspace, as a command would see them.
//!
//! Purpose: names in a directory, looked up by the launcher with the identity of commands, so that a
//! pattern tells nobody what a command could not list itself. No link is gone through. Called by
//! `expansion.rs`, off the runtime: it blocks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use nix::dir::{Dir, Type};
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use crate::launch::Opener;
use crate::syntax::expand::{Directory, Entry};

/// Names of one directory that are read; more is refused by the budget of the expansion.
const MOST: usize = 250_000;

/// The files below one working directory.
pub(super) struct Files<'f> {
    pub(super) opener: Option<&'f Opener>,
    /// From then on there is nothing to be found.
    pub(super) until: Option<Instant>,
    /// Root of the workspace.
    pub(super) root: &'f Path,
    /// Working directory.
    pub(super) cwd: &'f Path,
}

impl Directory for Files<'_> {
    fn entries(&self, path: &[u8]) -> Option<Vec<Entry>> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        // An absolute path takes the place of the directory.
        let path = self.cwd.join(OsStr::from_bytes(path));
        let path = path.strip_prefix(self.root).ok()?;
        let opened = self.opener?.directory(path.as_os_str().as_bytes()).ok()?;
        let mut directory = Dir::from_fd(opened).ok()?;
        let mut found = Vec::new();
        let mut odd = Vec::new();
        for entry in directory.iter().take(MOST) {
            let entry = entry.ok()?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entry.file_type().is_none() {
                odd.push((found.len(), name.to_owned()));
            }
            let is_directory = entry.file_type() == Some(Type::Directory);
            found.push(Entry { name: name.to_bytes().to_vec(), directory: is_directory });
        }
        // Some file systems do not say what an entry is.
        for (at, name) in odd {
            let stat = fstatat(&directory, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
            if let Some(entry) = found.get_mut(at) {
                entry.directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
            }
        }
        Some(found)
    }
}
