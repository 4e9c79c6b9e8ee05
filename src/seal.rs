//! Seals: text that is handed out and comes back is told from text that was made up or changed.
//!
//! Purpose: HMAC-SHA-256 under a key that lives as long as the value, with a label for each use so that no
//! text of one use is one of another. Pure but for the key. Used by `policy/consent/` and `mcp/cursor.rs`.

use std::fmt;

use hmac::digest::CtOutput;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of a whole seal.
pub(crate) const WHOLE: usize = 32;

/// A key, made at random and shown to nobody.
pub(crate) struct Seal([u8; 32]);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Default for Seal {
    fn default() -> Self {
        Self::new()
    }
}

impl Seal {
    /// A new key.
    #[must_use]
    pub(crate) fn new() -> Self {
        // Two random UUIDs hold 244 random bits; the ten fixed ones weaken nothing that a seal is for.
        let halves = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
        let mut key = [0; 32];
        for (byte, random) in key.iter_mut().zip(halves.iter().flat_map(|half| half.as_bytes())) {
            *byte = *random;
        }
        Self(key)
    }

    /// The first `N` bytes of the seal over `parts`, each counted, for one use.
    ///
    /// # Errors
    /// The key cannot be used, in words; nothing is sealed then.
    pub(crate) fn over<const N: usize>(&self, usage: &str, parts: &[&[u8]]) -> Result<[u8; N], String> {
        let whole = self.mac(usage, parts)?.finalize().into_bytes();
        whole.get(..N).and_then(|first| first.try_into().ok()).ok_or_else(|| format!("no seal has {N} bytes"))
    }

    /// Whether `seal` is the whole seal over `parts`; the time it takes says nothing about where it differs.
    ///
    /// # Errors
    /// As [`Seal::over`].
    pub(crate) fn holds(&self, usage: &str, parts: &[&[u8]], seal: &[u8; WHOLE]) -> Result<bool, String> {
        let given = CtOutput::<Hmac<Sha256>>::new((*seal).into());
        Ok(self.mac(usage, parts)?.finalize() == given)
    }

    fn mac(&self, usage: &str, parts: &[&[u8]]) -> Result<Hmac<Sha256>, String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|error| error.to_string())?;
        for part in std::iter::once(usage.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        Ok(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_key_one_use_and_these_parts_in_this_division() {
        let key = Seal::new();
        let seal: [u8; WHOLE] = key.over("a", &[b"xy", b"z"]).unwrap();
        assert!(key.holds("a", &[b"xy", b"z"], &seal).unwrap());
        for (usage, parts) in
            [("b", [&b"xy"[..], b"z"]), ("a", [b"x", b"yz"]), ("a", [b"xyz", b""]), ("a", [b"z", b"xy"])]
        {
            assert!(!key.holds(usage, &parts, &seal).unwrap());
        }
        assert!(!Seal::new().holds("a", &[b"xy", b"z"], &seal).unwrap(), "another key");
        let short: [u8; 5] = key.over("a", &[b"xy", b"z"]).unwrap();
        assert_eq!(short, seal[..5]);
        assert!(key.over::<33>("a", &[]).is_err());
    }
}
