//! Mounts: the flags that hold at a path, and the table of all of them.
//!
//! Inputs: statvfs(3) and the text of `/proc/self/mountinfo`. Used by `host/` for the server's view, and
//! by the launcher for the view of commands, which may differ: it has mounts of its own.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statvfs::{FsFlags, statvfs};
use serde::{Deserialize, Serialize};

/// Directories whose flags are reported wherever they exist.
pub(crate) const SHOWN: &[&str] = &["/", "/tmp", "/var/tmp", "/run", "/dev/shm"];

/// What the mount at a path forbids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "four flags of one mount, as the kernel has them")]
pub struct MountFlags {
    /// The path that was asked about.
    pub path: PathBuf,
    /// `ro`.
    pub read_only: bool,
    /// `noexec`.
    pub noexec: bool,
    /// `nosuid`.
    pub nosuid: bool,
    /// `nodev`.
    pub nodev: bool,
}

impl MountFlags {
    /// The flags at `path`; `None` when there is no such file.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        let flags = match statvfs(path) {
            Ok(found) => found.flags(),
            Err(Errno::ENOENT) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        Ok(Some(Self {
            path: path.to_owned(),
            read_only: flags.contains(FsFlags::ST_RDONLY),
            noexec: flags.contains(FsFlags::ST_NOEXEC),
            nosuid: flags.contains(FsFlags::ST_NOSUID),
            nodev: flags.contains(FsFlags::ST_NODEV),
        }))
    }

    /// `ro,noexec,nosuid,nodev`, as mount(8) writes them.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = vec![if self.read_only { "ro" } else { "rw" }];
        let flags = [(self.noexec, "noexec"), (self.nosuid, "nosuid"), (self.nodev, "nodev")];
        words.extend(flags.iter().filter_map(|(set, word)| set.then_some(*word)));
        words.join(",")
    }
}

/// One line of the table (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Directory of the file system that is mounted.
    pub(super) root: PathBuf,
    /// Where.
    pub(super) at: PathBuf,
    /// Type of the file system.
    pub(super) kind: String,
    /// Options of the file system, with commas.
    pub(super) super_options: String,
}

/// Whether a list with commas holds `word`.
pub(super) fn has(list: &str, word: &str) -> bool {
    list.split(',').any(|own| own == word)
}

/// The lines that are as documented, in their order: the last one for a place is on top.
pub(super) fn table(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    let (own, file_system) = line.split_once(" - ")?;
    let mut own = own.split(' ').skip(3);
    let (root, at) = (own.next()?, own.next()?);
    let mut rest = file_system.split(' ');
    let (kind, _source, super_options) = (rest.next()?, rest.next()?, rest.next()?);
    Some(Mount {
        root: plain(root).into(),
        at: plain(at).into(),
        kind: kind.to_owned(),
        super_options: super_options.to_owned(),
    })
}

/// Blanks, tabs, newlines and backslashes stand as octal numbers.
fn plain(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_and_without_optional_fields() {
        let found = table(
            "22 27 0:21 / /proc rw,nosuid shared:5 master:1 - proc proc rw,hidepid=invisible\n\
             30 1 8:1 /sub /a\\040b ro,relatime - ext4 /dev/sda1 rw\nnonsense\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].kind, "proc");
        assert!(has(&found[0].super_options, "hidepid=invisible"));
        assert_eq!((found[1].at.as_path(), found[1].root.as_path()), (Path::new("/a b"), Path::new("/sub")));
    }

    #[test]
    fn flags_of_a_path_that_is_not_there_are_none() {
        assert_eq!(MountFlags::at(Path::new("/nonexistent/x")).unwrap(), None);
        let proc = MountFlags::at(Path::new("/")).unwrap().unwrap();
        assert!(proc.words().starts_with('r'), "{proc:?}");
    }
}
