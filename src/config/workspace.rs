//! The workspace: the one directory tree that commands work in, held open by descriptor.
//!
//! Purpose: decide whether a working directory lies inside. The kernel decides, with
//! `openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)` (openat2(2), Linux 5.6), never a comparison
//! of strings. Called while a policy loads and once a request, before the verdict.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::fstat;

/// How often a resolution is tried again that a concurrent rename disturbed (`EAGAIN`).
const TRIES: usize = 16;

/// The root of what commands may see, opened once.
#[derive(Debug)]
pub struct Workspace {
    /// Canonical path of the root.
    pub path: PathBuf,
    /// Whether commands may write below it.
    pub write: bool,
    /// Whether `.git` at the root may be written, in a writable workspace.
    pub repository_write: bool,
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
    #[error("working directory is outside of the workspace {}: {}", .root.display(), shown(.asked))]
    Outside {
        /// Workspace root.
        root: PathBuf,
        /// What was asked.
        asked: PathBuf,
    },
    /// It does not exist or is not a directory.
    #[error("working directory is not an existing directory: {}", shown(.0))]
    Missing(PathBuf),
    /// The kernel refused for another reason.
    #[error("open of working directory {} failed: {source}", shown(.asked))]
    Failed {
        /// What was asked.
        asked: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// What a caller asked for, harmless to a terminal and of bounded length.
fn shown(asked: &Path) -> String {
    const MOST: usize = 512;
    let text = asked.to_string_lossy();
    let mut out: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}

impl Workspace {
    /// Opens the root at `path`, every link followed once and for all.
    pub fn open(path: &Path, write: bool) -> Result<Self, std::io::Error> {
        let path = std::fs::canonicalize(path)?;
        let root =
            open_directory(AT_FDCWD, &path, ResolveFlag::RESOLVE_NO_SYMLINKS).map_err(|errno| match errno {
                // The launcher asks for the rest of what is needed; this call comes before it.
                Errno::ENOSYS => std::io::Error::other(
                    "this kernel has no openat2(2): Linux 5.6 or newer has it (the answer was ENOSYS; a filter \
                     around this process may hide it)",
                ),
                other => other.into(),
            })?;
        Ok(Self { path, write, repository_write: false, root: Arc::new(root) })
    }

    /// Opens the working directory that a caller asks for; absent means the root.
    pub fn resolve(&self, asked: Option<&Path>) -> Result<Cwd, CwdError> {
        let Some(asked) = asked else {
            return Ok(Cwd { fd: Arc::clone(&self.root), path: self.path.clone() });
        };
        let fd = if asked.is_absolute() { self.absolute(asked)? } else { self.beneath(asked, asked)? };
        let path =
            real_path(&fd).map_err(|source| CwdError::Failed { asked: asked.to_path_buf(), source })?;
        Ok(Cwd { fd: Arc::new(fd), path })
    }

    /// Opens `relative` beneath the root, whatever links and `..` it goes through.
    fn beneath(&self, relative: &Path, asked: &Path) -> Result<OwnedFd, CwdError> {
        let flags = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        open_directory(&*self.root, relative, flags).map_err(|errno| match errno {
            Errno::EXDEV | Errno::ELOOP => self.outside(asked),
            Errno::ENOENT | Errno::ENOTDIR => CwdError::Missing(asked.to_path_buf()),
            _ => CwdError::Failed { asked: asked.to_path_buf(), source: errno.into() },
        })
    }

    /// An absolute path counts when the directory it really names is found again, the same one,
    /// beneath the root.
    fn absolute(&self, asked: &Path) -> Result<OwnedFd, CwdError> {
        // Spelled below the root: the descriptor decides alone, and only here may the answer be
        // "missing". Anywhere else it would tell which directories exist outside.
        let plain = !asked.components().any(|part| part == Component::ParentDir);
        if plain && let Ok(relative) = asked.strip_prefix(&self.path) {
            match self.beneath(dot_if_empty(relative), asked) {
                // An absolute link that leads back inside ends here too: look where it goes.
                Err(CwdError::Outside { .. }) => {}
                answer => return answer,
            }
        }
        let outside = |_| self.outside(asked);
        let named = open_directory(AT_FDCWD, asked, ResolveFlag::RESOLVE_NO_MAGICLINKS).map_err(outside)?;
        let real = real_path(&named).map_err(|_| self.outside(asked))?;
        let relative = real.strip_prefix(&self.path).map_err(|_| self.outside(asked))?;
        let inside = self.beneath(dot_if_empty(relative), asked)?;
        match (fstat(&named), fstat(&inside)) {
            (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) => Ok(inside),
            _ => Err(self.outside(asked)),
        }
    }

    fn outside(&self, asked: &Path) -> CwdError {
        CwdError::Outside { root: self.path.clone(), asked: asked.to_path_buf() }
    }
}

fn dot_if_empty(relative: &Path) -> &Path {
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}

fn open_directory(at: impl std::os::fd::AsFd, path: &Path, resolve: ResolveFlag) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    opened(at, path, OpenHow::new().flags(flags).resolve(resolve))
}

/// `openat2`, tried again where a rename or a mount beside it made the kernel give up (EAGAIN).
pub(crate) fn opened(at: impl std::os::fd::AsFd, path: &Path, how: OpenHow) -> Result<OwnedFd, Errno> {
    let mut answer = Err(Errno::EAGAIN);
    for _ in 0..TRIES {
        answer = openat2(at.as_fd(), path, how);
        if !matches!(answer, Err(Errno::EAGAIN | Errno::EINTR)) {
            break;
        }
    }
    answer
}

/// Where an open directory is now, as the kernel says.
fn real_path(fd: &OwnedFd) -> Result<PathBuf, std::io::Error> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct House {
        _keep: tempfile::TempDir,
        base: PathBuf,
        workspace: Workspace,
    }

    /// `app/` is the workspace, `app-evil/` its neighbour, `alias` a link to the workspace.
    fn house() -> House {
        let keep = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(keep.path()).unwrap();
        for dir in ["app/sub/deep", "app-evil/sub"] {
            fs::create_dir_all(base.join(dir)).unwrap();
        }
        fs::write(base.join("app/file"), "x").unwrap();
        symlink(base.join("app-evil"), base.join("app/out-absolute")).unwrap();
        symlink("../app-evil", base.join("app/out-relative")).unwrap();
        symlink("sub/deep", base.join("app/in-relative")).unwrap();
        symlink(base.join("app/sub"), base.join("app/in-absolute")).unwrap();
        symlink("/proc/self/cwd", base.join("app/magic")).unwrap();
        symlink(base.join("app"), base.join("alias")).unwrap();
        let workspace = Workspace::open(&base.join("alias"), false).unwrap();
        House { _keep: keep, base, workspace }
    }

    #[track_caller]
    fn inside(house: &House, asked: impl AsRef<Path>, expect: &str) {
        let cwd = house.workspace.resolve(Some(asked.as_ref())).unwrap();
        assert_eq!(cwd.path(), house.base.join(expect));
        let (is, should) = (fstat(cwd.fd()).unwrap(), nix::sys::stat::stat(cwd.path()).unwrap());
        assert_eq!((is.st_dev, is.st_ino), (should.st_dev, should.st_ino));
    }

    #[track_caller]
    fn outside(house: &House, asked: impl AsRef<Path>) {
        let answer = house.workspace.resolve(Some(asked.as_ref()));
        assert!(matches!(answer, Err(CwdError::Outside { .. })), "{:?}: {answer:?}", asked.as_ref());
    }

    #[test]
    fn the_root_is_canonical_and_the_default() {
        let house = house();
        assert_eq!(house.workspace.path, house.base.join("app"));
        assert_eq!(house.workspace.resolve(None).unwrap().path(), house.base.join("app"));
        inside(&house, ".", "app");
    }

    #[test]
    fn relative_directories_stay_beneath() {
        let house = house();
        inside(&house, "sub", "app/sub");
        inside(&house, "sub/../sub/./deep", "app/sub/deep");
        inside(&house, "in-relative", "app/sub/deep");
        inside(&house, "in-relative/..", "app/sub");
        for asked in ["..", "../app", "../app-evil", "sub/../../app", "out-relative", "out-absolute/sub"] {
            outside(&house, asked);
        }
    }

    #[test]
    fn absolute_directories_count_where_they_really_are() {
        let house = house();
        inside(&house, house.base.join("app"), "app");
        inside(&house, house.base.join("app/sub"), "app/sub");
        inside(&house, house.base.join("alias/sub"), "app/sub");
        inside(&house, house.base.join("app/in-absolute/deep"), "app/sub/deep");
        inside(&house, house.base.join("app-evil/../app/sub"), "app/sub");
        outside(&house, house.base.join("app-evil"));
        outside(&house, house.base.join("app-evil/sub"));
        outside(&house, house.base.join("app/../app-evil"));
        outside(&house, house.base.join("app/out-relative"));
        outside(&house, house.base.join("app/out-absolute/sub"));
        outside(&house, &house.base);
        outside(&house, "/");
    }

    #[test]
    fn magic_links_are_never_followed() {
        let house = house();
        outside(&house, "magic");
        outside(&house, house.base.join("app/magic"));
        let fd = house.workspace.root.as_raw_fd();
        outside(&house, format!("/proc/self/fd/{fd}"));
        outside(&house, format!("/proc/self/root{}", house.base.join("app").display()));
    }

    #[test]
    fn what_exists_outside_is_not_told() {
        let house = house();
        outside(&house, "/no/such/directory");
        outside(&house, house.base.join("app/../app-evil/none"));
        outside(&house, house.base.join("app/out-absolute/none"));
        outside(&house, house.base.join("app-evil/none"));
    }

    #[test]
    fn missing_directories_inside_are_missing() {
        let house = house();
        for asked in ["none", "file", "sub/none/deep", ""] {
            let answer = house.workspace.resolve(Some(Path::new(asked)));
            assert!(matches!(answer, Err(CwdError::Missing(_))), "{asked:?}: {answer:?}");
        }
        let answer = house.workspace.resolve(Some(&house.base.join("app/none")));
        assert!(matches!(answer, Err(CwdError::Missing(_))), "{answer:?}");
    }

    #[test]
    fn the_root_must_be_a_directory() {
        let house = house();
        assert!(Workspace::open(&house.base.join("app/file"), false).is_err());
        assert!(Workspace::open(&house.base.join("none"), false).is_err());
    }

    #[test]
    fn a_renamed_root_stays_the_same_tree() {
        let house = house();
        fs::rename(house.base.join("app"), house.base.join("moved")).unwrap();
        fs::create_dir_all(house.base.join("app/sub")).unwrap();
        let cwd = house.workspace.resolve(Some(Path::new("sub"))).unwrap();
        assert_eq!(cwd.path(), house.base.join("moved/sub"));
    }
}
