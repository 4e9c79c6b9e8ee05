//! The site key: 32 random bytes beside the audit file, for `argv_hmac`.
//!
//! Purpose: equal commands stay comparable across records of one site, while nobody without the key
//! can test a guess. Made once (`O_EXCL`, 0600), read ever after. Called by `mod.rs` at open.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::AuditError;

/// Reads the key, or makes it where there is none.
pub(super) fn load(path: &Path) -> Result<[u8; 32], AuditError> {
    let fail = |operation, source| AuditError { operation, sink: path.display().to_string(), source };
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map_err(|error| fail("read of the site key", error)),
    }
    match create(path) {
        Ok(key) => Ok(key),
        // Another process made it first; its link appears only when the key is whole.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            read(path).map_err(|error| fail("read of the site key", error))
        }
        Err(error) => Err(fail("creation of the site key", error)),
    }
}

pub(super) fn read(path: &Path) -> io::Result<[u8; 32]> {
    let mut file =
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() || facts.len() != 32 {
        return Err(io::Error::other("not a file of 32 bytes; move it away, and a new one is made"));
    }
    if facts.mode() & 0o077 != 0 {
        return Err(io::Error::other("others may read it; run chmod 600 on it"));
    }
    let mut key = [0; 32];
    file.read_exact(&mut key)?;
    Ok(key)
}

/// A key from the kernel's generator.
pub(super) fn fresh() -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    OpenOptions::new().read(true).open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}

/// Writes the key under a name of its own and links it to its place, so that no reader ever sees a
/// part of it.
fn create(path: &Path) -> io::Result<[u8; 32]> {
    let key = fresh()?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", uuid::Uuid::new_v4()));
    let temporary = Path::new(&name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    let linked = file
        .write_all(&key)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::hard_link(temporary, path));
    let removed = std::fs::remove_file(temporary);
    linked.and(removed)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_private_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.key");
        let key = load(&path).unwrap();
        assert_ne!(key, [0; 32]);
        assert_eq!(load(&path).unwrap(), key);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_short_or_readable_key_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.key");
        std::fs::write(&path, b"short").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("32 bytes"));
        std::fs::write(&path, [1; 32]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("chmod 600"));
    }
}
