//! Which user commands run as when the server is root.
//!
//! Root without capabilities still owns the host's files and is exempt from RLIMIT_NPROC, so an
//! unprivileged user is better wherever the workspace can be reached by one.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Uid;

use crate::config::RunUser;

/// `nobody` and `nogroup` of Debian, and the usual ids of a container's unprivileged user.
const NOBODY: (u32, u32) = (65534, 65534);

/// The ids to become, or `None` to stay.
///
/// # Errors
/// The workspace or a directory above it cannot be examined.
pub fn choose(user: RunUser, workspace: &Path, write: bool) -> io::Result<Option<(u32, u32)>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    match user {
        RunUser::Keep => Ok(None),
        RunUser::Ids { uid, gid } => Ok(Some((uid, gid))),
        RunUser::Auto => {
            let chain = workspace.ancestors().map(Path::metadata).collect::<io::Result<Vec<_>>>()?;
            let owner = chain.first().map(|m| (m.uid(), m.gid())).filter(|(uid, _)| *uid != 0);
            Ok(owner.into_iter().chain([NOBODY]).find(|ids| reachable(&chain, *ids, write)))
        }
    }
}

/// Whether mode bits let `ids` use the workspace (first of `chain`) and pass the directories above.
fn reachable(chain: &[Metadata], ids: (u32, u32), write: bool) -> bool {
    let allowed = |meta: &Metadata, wanted: u32| {
        let shift = if meta.uid() == ids.0 {
            6
        } else if meta.gid() == ids.1 {
            3
        } else {
            0
        };
        (meta.mode() >> shift) & wanted == wanted
    };
    let own = if write { 0o7 } else { 0o5 };
    chain.iter().enumerate().all(|(depth, meta)| allowed(meta, if depth == 0 { own } else { 0o1 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_private_directory_is_not_reachable_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("ws");
        std::fs::create_dir(&inner).unwrap();
        let chain = |mode| {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            vec![inner.metadata().unwrap(), dir.path().metadata().unwrap()]
        };
        let stranger = (4_000_000, 4_000_000);
        assert!(!reachable(&chain(0o700), stranger, false));
        assert!(reachable(&chain(0o711), stranger, false));
        assert!(!reachable(&chain(0o711), stranger, true), "0755 is not writable for others");
    }
}
