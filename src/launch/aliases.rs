//! Other ways to the workspace: the same directory below a second mount of its file system.
//!
//! noexec and read-only belong to a mount, Landlock rules to a directory wherever it is seen. So where
//! the host shows the workspace twice (`mount --bind`, `/` mounted at `/host`), the second way would be
//! without the attributes, and the loader would run what lies there. Each such place gets the confined
//! mount on top. Runs only in the launcher, in its own mount namespace.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: Vec<u8>,
    root: PathBuf,
    at: PathBuf,
}

/// What is to be done about one other mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Alias {
    /// The workspace is seen at this place.
    Whole(PathBuf),
    /// This mount shows a part of the workspace.
    Part(PathBuf),
}

/// Every other place where `workspace`, a mount point of its own, is seen.
pub(super) fn of(workspace: &Path) -> io::Result<Vec<Alias>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    let own = workspace.metadata()?;
    let mut found = aliases(&table, workspace).ok_or_else(|| {
        io::Error::other("the workspace is not in the mount table, or a line of it is not as documented")
    })?;
    found.retain(|alias| match alias {
        Alias::Part(_) => true,
        // Something else may be mounted over it; what cannot be looked at cannot be reached either.
        Alias::Whole(place) => {
            place.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (own.dev(), own.ino()))
        }
    });
    Ok(found)
}

fn aliases(table: &[u8], workspace: &Path) -> Option<Vec<Alias>> {
    let lines = table.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let mounts = lines.map(parse).collect::<Option<Vec<Mount>>>()?;
    // The last one is on top.
    let own = mounts.iter().rev().find(|mount| mount.at == workspace)?;
    let mut found = Vec::new();
    for mount in mounts.iter().filter(|mount| mount.device == own.device) {
        if let Ok(below) = own.root.strip_prefix(&mount.root) {
            // An empty rest would leave a slash behind.
            let place = if below.as_os_str().is_empty() { mount.at.clone() } else { mount.at.join(below) };
            if place != workspace && !found.contains(&Alias::Whole(place.clone())) {
                found.push(Alias::Whole(place));
            }
        } else if mount.root.starts_with(&own.root) && !mount.at.starts_with(workspace) {
            found.push(Alias::Part(mount.at.clone()));
        }
    }
    Some(found)
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|b| *b == b' ').skip(2);
    let device = fields.next()?.to_vec();
    Some(Mount { device, root: path(fields.next()?), at: path(fields.next()?) })
}

/// A path with blanks and backslashes as `\ooo`.
fn path(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digit = |byte: &u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit < 8);
        let octal = match after.split_first_chunk::<3>() {
            Some(([a, b, c], after)) if *first == b'\\' => {
                digit(a).zip(digit(b)).zip(digit(c)).map(|((a, b), c)| (a << 6 | b << 3 | c, after))
            }
            _ => None,
        };
        let (byte, after) = octal.unwrap_or((*first, after));
        out.push(byte);
        rest = after;
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

/// For messages.
pub(super) fn shown(alias: &Alias) -> String {
    let (Alias::Whole(path) | Alias::Part(path)) = alias;
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
30 21 8:1 / /host rw - ext4 /dev/sda1 rw
31 21 8:1 /home/u/my\\040work /mnt/alias rw - ext4 /dev/sda1 rw
32 21 8:1 /home/u/my\\040work/sub /mnt/part rw - ext4 /dev/sda1 rw
33 21 8:1 /var /mnt/other rw - ext4 /dev/sda1 rw
34 21 8:2 / /mnt/disk rw - ext4 /dev/sdb1 rw
40 21 8:1 /home/u/my\\040work /home/u/my\\040work rw - ext4 /dev/sda1 rw
41 40 8:1 /home/u/my\\040work/.git /home/u/my\\040work/.git ro - ext4 /dev/sda1 rw
";

    #[test]
    fn every_other_way_to_the_workspace_is_found() {
        let found = aliases(TABLE, Path::new("/home/u/my work")).unwrap();
        let whole = |path: &str| Alias::Whole(PathBuf::from(path));
        let expected =
            [whole("/host/home/u/my work"), whole("/mnt/alias"), Alias::Part(PathBuf::from("/mnt/part"))];
        assert_eq!(found, expected);
        assert_eq!(aliases(TABLE, Path::new("/nowhere")), None);
    }
}
