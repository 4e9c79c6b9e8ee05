//! The place outside of the workspace that attempts reach for: made for one run of `doctor`, open to
//! everybody by its mode, so that only the sandbox can be what refuses.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::launch::attempts::{NAME, PROGRAM};

/// Directories that it may lie in, the first that will do.
const PLACES: &[&str] = &["/tmp", "/var/tmp", "/run"];

/// The directory; removed when it goes out of scope.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) path: PathBuf,
}

impl Stage {
    /// Makes it outside of `workspace`. `user` is who commands run as, when that is somebody else.
    ///
    /// # Errors
    /// No place outside of the workspace can be written.
    pub(super) fn make(workspace: &Path, user: Option<(u32, u32)>) -> Result<Self, String> {
        let mut why = format!("everything writable lies in the workspace {}", workspace.display());
        let temp = std::env::temp_dir();
        for place in PLACES.iter().map(Path::new).chain([temp.as_path()]) {
            let Ok(place) = place.canonicalize() else { continue };
            if place.starts_with(workspace) {
                continue;
            }
            let stage =
                Self { path: place.join(format!("cofferdam-doctor-{}", uuid::Uuid::new_v4().simple())) };
            match stage.furnish(user) {
                Ok(()) => return Ok(stage),
                Err(e) => why = format!("making {} failed: {e}", stage.path.display()),
            }
        }
        Err(format!("no place for the attempts: {why}; make /tmp writable, or name a smaller workspace"))
    }

    fn furnish(&self, user: Option<(u32, u32)>) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(&self.path)?;
        let open = self.path.join("open");
        fs::create_dir(&open)?;
        for (path, bytes, mode) in [
            (self.path.join("file"), &b"outside\n"[..], 0o666),
            (open.join("victim"), b"outside\n", 0o666),
            (self.path.join("program"), PROGRAM, 0o755),
        ] {
            fs::write(&path, bytes)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            if let Some((uid, gid)) = user {
                chown(&path, Some(uid), Some(gid))?;
            }
        }
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777))?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o755))
    }

    /// This program, where commands can execute it: where it is, or a copy when that lies in the
    /// workspace (whose files cannot be executed) or is closed to the user of commands.
    ///
    /// # Errors
    /// It cannot be found or copied.
    pub(super) fn own_program(&self, workspace: &Path, user: Option<(u32, u32)>) -> Result<PathBuf, String> {
        let own = std::env::current_exe().map_err(|e| format!("finding this program failed: {e}"))?;
        if !own.starts_with(workspace) && (user.is_none() || open_to_all(&own)) {
            return Ok(own);
        }
        let copy = self.path.join(NAME);
        let failed = |e: io::Error| format!("copying this program to {} failed: {e}", copy.display());
        fs::copy("/proc/self/exe", &copy).map_err(failed)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        Ok(copy)
    }
}

/// Whether every user can execute the file: its mode and those of all directories above say so.
fn open_to_all(file: &Path) -> bool {
    let has =
        |path: &Path, bits: u32| path.metadata().is_ok_and(|meta| meta.permissions().mode() & bits == bits);
    has(file, 0o005) && file.ancestors().skip(1).all(|dir| has(dir, 0o001))
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.path)
            && e.kind() != io::ErrorKind::NotFound
        {
            eprintln!("cofferdam: removing {} failed: {e}", self.path.display());
        }
    }
}
