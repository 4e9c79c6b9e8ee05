//! What a recorded run may not read, and what no proposal may ever grant.
//!
//! Purpose: one list of the places that hold secrets (home directories, keys, logs, the processes of
//! others), for the profile of `learn`, its recorder and its proposal. Inputs: the account file and the
//! caller's own additions. Called by `sandbox/profile.rs`, `launch/observe.rs` and `cli/learn`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Places on every host.
const PLACES: &[&str] = &[
    "/root",
    "/home",
    "/boot",
    "/run",
    "/var/run",
    "/var/log",
    "/var/spool",
    "/var/mail",
    "/var/backups",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/private",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/NetworkManager",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    "/etc/openvpn",
    "/etc/docker",
];

/// Names of files and directories that hold secrets wherever they lie.
const NAMES: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".vault-token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Places and names that hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    places: BTreeSet<PathBuf>,
}

impl Secrets {
    /// Those of this host: the fixed list, every person's home directory, and `more`.
    #[must_use]
    pub fn of_host(more: impl IntoIterator<Item = PathBuf>) -> Self {
        // Without accounts the usual homes are left; the file is world-readable everywhere.
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_else(|_| String::new());
        Self::new(homes(&accounts).chain(more))
    }

    fn new(more: impl IntoIterator<Item = PathBuf>) -> Self {
        let own = PLACES.iter().map(PathBuf::from).chain(more);
        // The root of everything is nobody's home.
        let own = own.filter(|path| path.is_absolute() && path != Path::new("/"));
        // One that is not there may come to be.
        let real = own.flat_map(|path| path.canonicalize().into_iter().chain([path]));
        Self { places: real.filter(|path| path != Path::new("/")).collect() }
    }

    /// Whether the file at this path, its links followed, is a secret or lies among such.
    #[must_use]
    pub fn hold(&self, path: &Path) -> bool {
        let named = |part: &std::ffi::OsStr| NAMES.iter().any(|name| part == *name);
        path.ancestors().any(|above| self.places.contains(above)) || path.iter().any(named)
    }

    /// Whether there is a secret place at or below `dir`.
    #[must_use]
    pub fn below(&self, dir: &Path) -> bool {
        self.places.iter().any(|place| place.starts_with(dir))
    }

    /// The fewest directories and files that are everything but these places, the devices and the
    /// processes. Names cannot be left out so: whoever reads the paths refuses them.
    #[must_use]
    pub fn all_but(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![PathBuf::from("/")];
        while let Some(dir) = left.pop() {
            // What cannot be listed is not granted.
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                if self.places.contains(&path) || path == Path::new("/dev") || is_link(&path) {
                    continue;
                }
                if path == Path::new("/proc") || self.below(&path) {
                    left.push(path);
                } else if !(dir == Path::new("/proc") && is_process(&path)) {
                    found.push(path);
                }
            }
        }
        found
    }
}

/// A link has no rights of its own; what it leads to is found where it lies.
fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
}

fn is_process(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// Home directories of the people of an account file, and of root.
fn homes(accounts: &str) -> impl Iterator<Item = PathBuf> {
    accounts.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let uid = fields.next()?.parse::<u32>().into_iter().next()?;
        let home = fields.nth(2)?;
        (uid == 0 || (1000..65534).contains(&uid)).then(|| PathBuf::from(home))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_of_people_are_secret_and_those_of_services_are_not() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:33::/srv/www:/x\nu:x:1000:1000:,,:/people/u:/b\n\
                        nobody:x:65534:65534::/nonexistent:/x\nbroken\n";
        let found: Vec<PathBuf> = homes(accounts).collect();
        assert_eq!(found, [PathBuf::from("/root"), PathBuf::from("/people/u")]);
    }

    #[test]
    fn places_and_names_are_held() {
        let secrets = Secrets::new([PathBuf::from("/people/u"), PathBuf::from("/")]);
        for path in
            ["/root", "/root/x", "/people/u/.gitconfig", "/etc/shadow", "/srv/.ssh/known_hosts", "/x/id_rsa"]
        {
            assert!(secrets.hold(Path::new(path)), "{path}");
        }
        for path in ["/", "/people", "/etc", "/etc/passwd", "/usr/share/ssh", "/rootless"] {
            assert!(!secrets.hold(Path::new(path)), "{path}");
        }
        assert!(secrets.below(Path::new("/etc")) && secrets.below(Path::new("/people")));
        assert!(!secrets.below(Path::new("/usr")));
    }

    #[test]
    fn everything_else_is_granted_and_nothing_that_is_secret() {
        let keep = tempfile::tempdir().unwrap();
        let base = keep.path().canonicalize().unwrap();
        for name in ["open", "home"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        let secrets = Secrets::new([base.join("home")]);
        let all = secrets.all_but();
        let granted = |path: &Path| all.iter().any(|grant| path.starts_with(grant));
        assert!(granted(&base.join("open/x")) && granted(Path::new("/usr/share/x")));
        for path in ["/root/x", "/home/x", "/etc/shadow", "/dev/null", "/proc/1/environ", "/proc/self/mem"] {
            assert!(!granted(Path::new(path)), "{path}");
        }
        assert!(!granted(&base.join("home/x")) && !all.iter().any(|grant| secrets.below(grant)));
    }
}
