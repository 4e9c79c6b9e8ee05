//! Ed25519 keys of checkpoints: made, read and used; in the formats that openssl writes and reads.
//!
//! Purpose: whoever can rewrite the log but does not hold the key cannot make a checkpoint for what they wrote.
//! A private key is a PKCS #8 file (RFC 8410), a public one a SubjectPublicKeyInfo, both as PEM, so that
//! `openssl pkeyutl -verify` and other tools check a signature without us. Called by `mod.rs`, `checkpoint.rs`,
//! `verify.rs` and `cli/audit`.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use super::chain::{Head, ascii};
use super::{AuditError, key};

/// What stands before the 32 bytes of a private key: PrivateKeyInfo, version 0, id-Ed25519.
const PRIVATE: &[u8] =
    &[0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// What stands before the 32 bytes of a public key.
const PUBLIC: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// No key file is longer.
const LARGEST: u64 = 4 << 10;

/// A private key with its name.
pub(super) struct Signer {
    key: SigningKey,
    id: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Signer {
    fn new(key: SigningKey) -> Self {
        let id = key_id(&key.verifying_key());
        Self { key, id }
    }

    /// Reads a private key that nobody else may read.
    pub(super) fn load(path: &Path) -> Result<Self, AuditError> {
        let fail = |source| AuditError {
            operation: "read of the checkpoint key",
            sink: path.display().to_string(),
            source,
        };
        let text = read(path, true).map_err(fail)?;
        let seed = der(&text, "PRIVATE KEY", PRIVATE).ok_or_else(|| {
            fail(io::Error::other(
                "not an Ed25519 private key in PEM; make one with cofferdam audit keygen FILE",
            ))
        })?;
        Ok(Self::new(SigningKey::from_bytes(&seed)))
    }

    /// Name of the key in records.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Signs a head; base64.
    pub(super) fn sign(&self, head: &Head) -> String {
        STANDARD.encode(self.key.sign(statement(head).as_bytes()).to_bytes())
    }
}

/// A public key that checkpoints are checked with.
#[derive(Debug, Clone)]
pub struct PublicKey {
    key: VerifyingKey,
    id: String,
}

impl PublicKey {
    /// Reads a public key file.
    ///
    /// # Errors
    /// When it cannot be read, or holds no Ed25519 public key in PEM.
    pub fn load(path: &Path) -> io::Result<Self> {
        let wrong = || {
            io::Error::other(
                "not an Ed25519 public key in PEM; cofferdam audit keygen writes one as FILE.pub",
            )
        };
        let bytes = der(&read(path, false)?, "PUBLIC KEY", PUBLIC).ok_or_else(wrong)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| wrong())?;
        Ok(Self { id: key_id(&key), key })
    }

    /// Its name in records.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether `signature` (base64) is one of this key over `head`.
    pub(super) fn signed(&self, head: &Head, signature: &str) -> bool {
        let Ok(Ok(bytes)) = STANDARD.decode(signature).map(<[u8; 64]>::try_from) else { return false };
        self.key.verify_strict(statement(head).as_bytes(), &Signature::from_bytes(&bytes)).is_ok()
    }
}

/// What is signed: the purpose, so that no signature for another use fits; the chain, the number, the hash.
fn statement(head: &Head) -> String {
    format!("cofferdam-audit-checkpoint-v1|{}|{}|{}", ascii(&head.chain), head.seq, ascii(&head.hash))
}

fn key_id(key: &VerifyingKey) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("ed25519:{short}")
}

/// Makes a key pair: `path` (0600) and `path` with `.pub`. Nothing that exists is written over. Gives the name
/// of the key.
///
/// # Errors
/// When a file exists or cannot be written.
pub fn generate(path: &Path) -> io::Result<String> {
    let signer = Signer::new(SigningKey::from_bytes(&key::fresh()?));
    let mut public = path.as_os_str().to_owned();
    public.push(".pub");
    let public = Path::new(&public);
    if std::fs::symlink_metadata(public).is_ok() {
        let text = format!("{} exists; name another file", public.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    write(path, 0o600, "PRIVATE KEY", PRIVATE, signer.key.as_bytes())?;
    write(public, 0o644, "PUBLIC KEY", PUBLIC, signer.key.verifying_key().as_bytes())?;
    Ok(signer.id)
}

fn write(path: &Path, mode: u32, label: &str, prefix: &[u8], bytes: &[u8; 32]) -> io::Result<()> {
    let name =
        |error: io::Error| io::Error::new(error.kind(), format!("creation of {}: {error}", path.display()));
    let text = STANDARD.encode([prefix, bytes].concat());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(name)?;
    writeln!(file, "-----BEGIN {label}-----\n{text}\n-----END {label}-----")
        .and_then(|()| file.sync_all())
        .map_err(name)
}

fn read(path: &Path, private: bool) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() || facts.len() > LARGEST {
        return Err(io::Error::other("not a key file"));
    }
    if private && facts.mode() & 0o077 != 0 {
        return Err(io::Error::other("others may read it; run chmod 600 on it"));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// The 32 bytes behind `prefix` in the block `label` of a PEM text.
fn der(text: &str, label: &str, prefix: &[u8]) -> Option<[u8; 32]> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.chars().filter(|character| !character.is_ascii_whitespace()).collect();
    let Ok(bytes) = STANDARD.decode(body) else { return None };
    bytes.strip_prefix(prefix)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64) -> Head {
        Head { chain: *b"0192f0c1-7e00-7a11-8c00-000000000001", seq, hash: [b'a'; 64] }
    }

    #[test]
    fn a_pair_signs_and_checks_and_nothing_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit-signing.key");
        let id = generate(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(generate(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let signer = Signer::load(&path).unwrap();
        let public = PublicKey::load(&dir.path().join("audit-signing.key.pub")).unwrap();
        assert_eq!((signer.id(), public.id()), (id.as_str(), id.as_str()));
        let signature = signer.sign(&head(7));
        assert!(public.signed(&head(7), &signature));
        assert!(!public.signed(&head(8), &signature) && !public.signed(&head(7), "AAAA"));
        assert!(!public.signed(&Head { hash: [b'b'; 64], ..head(7) }, &signature));
    }

    #[test]
    fn what_is_no_private_key_of_its_owner_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        generate(&path).unwrap();
        let public = dir.path().join("k.pub");
        std::fs::set_permissions(&public, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Signer::load(&public).unwrap_err().to_string().contains("not an Ed25519 private key"));
        assert!(PublicKey::load(&path).unwrap_err().to_string().contains("not an Ed25519 public key"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Signer::load(&path).unwrap_err().to_string().contains("chmod 600"));
    }
}
