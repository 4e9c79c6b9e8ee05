//! The private directory of one run: made before it starts, gone after it ends.
//!
//! Its content is hostile: it may be deep, large, or full of links. Removal never follows a link
//! and never recurses: nested directories are moved up to the top one and removed there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, UtimensatFlags, fchmodat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, mkdir, unlinkat};

/// 1970: no file that a run makes or removes has it by itself.
const BEGINNING: TimeSpec = TimeSpec::new(0, 0);

/// One run's scratch directory.
#[derive(Debug, Clone)]
pub(super) struct Scratch {
    path: PathBuf,
    /// The file system around it, a tmpfs, is this run's alone.
    alone: bool,
    /// Its size when it was empty: on a tmpfs each entry adds to it.
    size: u64,
}

impl Scratch {
    /// Makes a directory with an unguessable name below `base`, mode 0700.
    pub(super) fn create(base: &Path) -> io::Result<Self> {
        let path = base.join(name());
        mkdir(&path, Mode::S_IRWXU)?;
        // What is made or removed in it sets another time (inode(7)).
        utimensat(AT_FDCWD, &path, &BEGINNING, &BEGINNING, UtimensatFlags::NoFollowSymlink)?;
        let size = path.symlink_metadata()?.size();
        Ok(Self { path, alone: false, size })
    }

    /// Whether another run finds nothing in it or of it: it is as it was made, and so is its file system.
    ///
    /// # Errors
    /// It is not there, or cannot be looked at.
    pub(super) fn is_untouched(&self) -> io::Result<bool> {
        Ok(self.is_as_made()? && holds(&self.path, 1)?)
    }

    /// Empty and with every attribute that a run could have chosen, the time of the last look included, which
    /// would be a word to the next run. The time of the last change is the kernel's, and the new name sets it.
    fn is_as_made(&self) -> io::Result<bool> {
        let meta = self.path.symlink_metadata()?;
        // Elsewhere the size does not say, and a new one is made.
        let empty = self.alone && meta.is_dir() && meta.nlink() == 2 && meta.size() == self.size;
        let changed = (meta.mtime(), meta.mtime_nsec()) != (0, 0);
        let looked = (meta.atime(), meta.atime_nsec()) != (0, 0);
        let same = meta.mode() & 0o7777 == 0o700 && !changed && !looked;
        Ok(empty && same && !crate::sys::has_own_attributes(&self.path)?)
    }

    /// The same directory, as another run is given it: by a name that the last one does not know.
    ///
    /// # Errors
    /// It cannot be moved.
    pub(super) fn renewed(&self) -> io::Result<Self> {
        let path = self.path.with_file_name(name());
        std::fs::rename(&self.path, &path)?;
        Ok(Self { path, ..self.clone() })
    }

    /// Whether anything is left of it, under whatever name. What cannot be looked at counts as left.
    pub(super) fn is_left(&self) -> bool {
        self.places().map_or(true, |places| !places.is_empty())
    }

    /// Where it is: a file system of its own holds it alone, and may have moved it.
    fn places(&self) -> io::Result<Vec<PathBuf>> {
        match self.base().filter(|_| self.alone) {
            None => Ok(if self.path.try_exists()? { vec![self.path.clone()] } else { Vec::new() }),
            Some(base) => {
                let base_fd = open_dir(AT_FDCWD, base)?;
                Ok(names(&base_fd)?.into_iter().map(|name| base.join(name)).collect())
            }
        }
    }

    /// Removes what [`Self::is_left`].
    pub(super) fn remove_left(&self) -> io::Result<()> {
        self.places()?.into_iter().try_for_each(|path| Self { path, ..self.clone() }.remove(None))
    }

    /// On a file system that no other run has.
    pub(super) fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// Whether the run has used up its file system, blocks or inodes. Unknown counts as no, and so does
    /// one that others fill as well.
    pub(super) fn is_full(&self) -> bool {
        self.alone
            && self.base().map(nix::sys::statvfs::statvfs).is_some_and(|answer| {
                answer.is_ok_and(|space| space.blocks_available() == 0 || space.files_free() == 0)
            })
    }

    /// The directory it was made in.
    pub(super) fn base(&self) -> Option<&Path> {
        self.path.parent()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory and all in it, or gives up at `until`.
    pub(super) fn remove(&self, until: Option<Instant>) -> io::Result<()> {
        // The common case, an empty directory, is one call.
        match unlinkat(AT_FDCWD, &self.path, UnlinkatFlags::RemoveDir) {
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => {}
            done => return Ok(done?),
        }
        give_back(AT_FDCWD, &self.path);
        let top = open_dir(AT_FDCWD, &self.path)?;
        // A prefix that the run cannot have guessed: nothing of its making stands in the way.
        let mut fresh = Fresh { prefix: uuid::Uuid::new_v4().simple().to_string(), count: 0, until };
        while empty_once(&top, &mut fresh)? {}
        Ok(unlinkat(AT_FDCWD, &self.path, UnlinkatFlags::RemoveDir)?)
    }
}

/// Whether the scratch file system around `path` holds so many directories, all empty, and nothing else: a file
/// without a name that was sent into a circle of sockets outlives its processes, until the kernel clears such
/// circles away.
pub(super) fn holds(path: &Path, directories: u64) -> io::Result<bool> {
    let space = nix::sys::statvfs::statvfs(path)?;
    let files = space.files().saturating_sub(space.files_free());
    // Beside its root.
    Ok(space.blocks_free() == space.blocks() && files.checked_sub(1) == Some(directories))
}

/// A name that nobody can guess.
fn name() -> String {
    format!("run-{}", uuid::Uuid::new_v4().simple())
}

/// Names for directories on their way up.
struct Fresh {
    prefix: String,
    count: u64,
    until: Option<Instant>,
}

impl Fresh {
    fn name(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.prefix, self.count)
    }

    fn in_time(&self) -> io::Result<()> {
        match self.until {
            Some(until) if Instant::now() >= until => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

fn open_dir(at: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

/// The run may have taken the permissions of a directory away; its owner can give them back.
fn give_back(at: impl AsFd, path: &Path) {
    // Where it fails (a stub's filter may forbid it), the removal that follows fails and is reported.
    let _: nix::Result<()> = fchmodat(at, path, Mode::S_IRWXU, FchmodatFlags::FollowSymlink);
}

/// Removes what is no directory, and empty directories; true when that was all there was to do.
fn remove_simple(at: &OwnedFd, name: &Path) -> io::Result<bool> {
    if unlinkat(at, name, UnlinkatFlags::NoRemoveDir).is_ok() {
        return Ok(true);
    }
    match unlinkat(at, name, UnlinkatFlags::RemoveDir) {
        Ok(()) => Ok(true),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// One pass over the top directory; true when another is needed.
fn empty_once(top: &OwnedFd, fresh: &mut Fresh) -> io::Result<bool> {
    let mut again = false;
    for name in names(top)? {
        fresh.in_time()?;
        if remove_simple(top, &name)? {
            continue;
        }
        again = true;
        give_back(top, &name);
        let dir = open_dir(top, &name)?;
        for inner in names(&dir)? {
            fresh.in_time()?;
            if !remove_simple(&dir, &inner)? {
                // Moving a directory to another parent takes the right to write in it.
                give_back(&dir, &inner);
                renameat(&dir, &inner, top, fresh.name().as_str())?;
            }
        }
        unlinkat(top, &name, UnlinkatFlags::RemoveDir)?;
    }
    Ok(again)
}

fn names(dir: &OwnedFd) -> io::Result<Vec<PathBuf>> {
    use std::os::unix::ffi::OsStrExt;
    // A descriptor of its own, because reading moves its position.
    let fresh = open_dir(dir, Path::new("."))?;
    let mut out = Vec::new();
    for entry in Dir::from_fd(fresh)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            out.push(PathBuf::from(std::ffi::OsStr::from_bytes(name)));
        }
        let _: Option<Type> = entry.file_type();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_deep_trees_and_never_follows_links() {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let scratch = Scratch::create(base.path()).unwrap();
        let mut deep = scratch.path().to_path_buf();
        for _ in 0..200 {
            deep.push("d");
            std::fs::create_dir(&deep).unwrap();
            std::fs::write(deep.join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), scratch.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().parent().unwrap(), scratch.path().join("dirlink")).unwrap();
        scratch.remove(None).unwrap();
        assert!(!scratch.path().exists());
        assert!(outside.path().exists());
    }

    #[test]
    fn scratch_permissions_taken_away_do_not_keep_it() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(base.path()).unwrap();
        let inner = scratch.path().join("a/b/c");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("file"), "x").unwrap();
        let chain = [inner.as_path(), inner.parent().unwrap(), &scratch.path().join("a"), scratch.path()];
        for dir in chain {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o000)).unwrap();
        }
        scratch.remove(None).unwrap();
        assert!(!scratch.path().exists());
    }

    #[test]
    fn scratch_names_of_the_run_do_not_stand_in_the_way() {
        let base = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(base.path()).unwrap();
        std::fs::create_dir_all(scratch.path().join("a/b/c")).unwrap();
        std::fs::create_dir_all(scratch.path().join(".up-1/x/y")).unwrap();
        for number in 2..50 {
            std::fs::write(scratch.path().join(format!(".up-{number}")), "x").unwrap();
        }
        scratch.remove(None).unwrap();
        assert!(!scratch.path().exists());
    }

    #[test]
    fn removal_gives_up_in_time_and_goes_on_where_it_stopped() {
        let base = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(base.path()).unwrap();
        std::fs::create_dir_all(scratch.path().join("a/b/c")).unwrap();
        let error = scratch.remove(Some(Instant::now())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(scratch.path().exists());
        scratch.remove(None).unwrap();
        assert!(!scratch.path().exists());
    }

    #[test]
    fn no_time_that_a_run_has_chosen_is_left_for_the_next() {
        let base = tempfile::tempdir_in("/dev/shm").unwrap();
        let scratch = || Scratch::create(base.path()).unwrap().alone();
        assert!(scratch().is_as_made().unwrap());
        let word = TimeSpec::new(123_456_789_012, 987_654_321);
        for (looked, changed) in [(word, BEGINNING), (BEGINNING, word), (TimeSpec::new(0, 1), BEGINNING)] {
            let scratch = scratch();
            let flags = UtimensatFlags::NoFollowSymlink;
            utimensat(AT_FDCWD, scratch.path(), &looked, &changed, flags).unwrap();
            assert!(!scratch.is_as_made().unwrap(), "{looked} {changed}");
        }
    }

    #[test]
    fn names_are_private_and_differ() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let (a, b) = (Scratch::create(base.path()).unwrap(), Scratch::create(base.path()).unwrap());
        assert_ne!(a.path(), b.path());
        assert_eq!(std::fs::metadata(a.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
