//! Bearer tokens: read from files, kept as digests, compared in constant time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::config::DIGEST;

/// A token with less could be guessed.
const SHORTEST: usize = 16;
/// A longer one is none: it would not fit into a header.
const LONGEST: usize = 4096;
/// Largest file of tokens.
const LARGEST: u64 = 64 * 1024;

/// Why a file gives no tokens, or no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error(
        "reading the token file {path} failed: {source}; it must be a file that the server's user can read"
    )]
    Io {
        /// The file.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Its text is no list of tokens.
    #[error("token file {path}: {what}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A file of `[server.tls]`.
    #[error(transparent)]
    Tls(#[from] super::tls::TlsError),
}

/// The digest under which a token is kept.
#[must_use]
pub(super) fn digest(token: &[u8]) -> [u8; DIGEST] {
    Sha256::digest(token).into()
}

/// Digests of the tokens in a file, one a line; empty lines are left out.
pub(super) fn read(path: &Path) -> Result<Vec<[u8; DIGEST]>, TokenError> {
    let name = || path.display().to_string();
    let failed = |source| TokenError::Io { path: name(), source };
    let wrong = |what: String| TokenError::Content { path: name(), what };
    // Asked before opening: the open of a FIFO would wait for a writer.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(wrong("is not a regular file".to_owned()));
    }
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(wrong(format!("is larger than {LARGEST} bytes")));
    }
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let token = line.trim();
        if token.is_empty() {
            continue;
        }
        // Never the token itself: this goes to the log.
        let at = number + 1;
        if token.len() < SHORTEST || token.len() > LONGEST {
            return Err(wrong(format!(
                "line {at} has {} bytes; a token has {SHORTEST} to {LONGEST} (openssl rand -hex 32)",
                token.len()
            )));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong(format!("line {at} holds a blank or what is not ASCII: a token has neither")));
        }
        found.push(digest(token.as_bytes()));
    }
    if found.is_empty() {
        return Err(wrong("holds no token: write one a line (openssl rand -hex 32)".to_owned()));
    }
    Ok(found)
}

/// The owner of a token. Every entry is compared to its end, so that the time says nothing.
pub(super) fn owner<'t, T>(known: &'t [([u8; DIGEST], T)], token: &[u8]) -> Option<&'t T> {
    let sent = digest(token);
    let mut found = None;
    for (one, owner) in known {
        if bool::from(one.as_slice().ct_eq(sent.as_slice())) {
            found = Some(owner);
        }
    }
    found
}

/// The token of an `Authorization` header.
pub(super) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    let token = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_the_digests_of_its_lines_and_a_poor_one_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("tokens");
        let told = |text: &str| {
            std::fs::write(&at, text).unwrap();
            read(&at)
        };
        let good = told("0123456789abcdef\r\n\n  fedcba9876543210  \n").unwrap();
        assert_eq!(good, [digest(b"0123456789abcdef"), digest(b"fedcba9876543210")]);
        for (bad, says) in [
            ("", "no token"),
            ("\n\n", "no token"),
            ("short", "line 1 has 5 bytes"),
            ("0123456789abcdef\n0123456789 abcdef\n", "line 2 holds a blank"),
        ] {
            let error = told(bad).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("0123456789"), "{error}");
        }
        assert!(read(&dir.path().join("none")).is_err() && read(dir.path()).is_err());
    }

    #[test]
    fn a_token_has_one_owner_and_a_header_one_token() {
        let known = [(digest(b"first"), 1), (digest(b"second"), 2)];
        assert_eq!(owner(&known, b"second"), Some(&2));
        assert_eq!(owner(&known, b"secon"), None);
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER  abc "), Some(&b"abc"[..]));
        for bad in [&b""[..], b"Bearer", b"Bearer ", b"Basic abc", b"Bearerabc"] {
            assert_eq!(bearer(bad), None);
        }
    }
}
