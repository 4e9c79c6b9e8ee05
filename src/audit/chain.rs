//! The hash chain: each line names the hash of the line before and carries its own.
//!
//! Purpose: make edits, deletions and swaps of records visible. `record_hash` is the SHA-256 of the
//! exact bytes of the line without its last member; there is no canonical form, since the bytes are
//! kept. Pure. Called by `writer.rs` (seal) and by `store.rs` and `verify.rs` (read).

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Most bytes of a line, newline included: rsyslog's default message limit is 8 KiB.
pub(super) const MAX_LINE: usize = 8_000;

/// Most bytes that [`Head::seal`] adds around a body.
pub(super) const ENVELOPE: usize = 280;

const HASH_MEMBER: &str = ",\"record_hash\":\"";
/// `,"record_hash":"` + 64 digits + `"}`.
const SUFFIX: usize = HASH_MEMBER.len() + 64 + 2;

/// The end of a chain: what the next record has to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Id of the chain, a UUID in text form.
    pub(super) chain: [u8; 36],
    /// Sequence number of the last record; 0 before the first.
    pub(super) seq: u64,
    /// Its hash as 64 hex digits.
    pub(super) hash: [u8; 64],
}

/// What the frame of one line says, once its own hash was found right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// The chain up to and with this record.
    pub(super) head: Head,
    /// Hash of the record before.
    pub(super) prev: [u8; 64],
}

/// Why a line is not a whole record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not have the frame of a record.
    Foreign,
    /// It has the frame, but its bytes do not give the hash that it names.
    Edited,
}

impl Head {
    /// The state before the first record of a new chain.
    pub(super) fn new() -> Self {
        let mut chain = [0; 36];
        uuid::Uuid::now_v7().hyphenated().encode_lower(&mut chain);
        Self { chain, seq: 0, hash: [b'0'; 64] }
    }

    /// Makes one line out of `body` (members, each with a comma before it), appends it to `out` and
    /// moves the head on.
    pub(super) fn seal(&mut self, body: &str, out: &mut Vec<u8>) {
        let from = out.len();
        let mut frame = String::with_capacity(ENVELOPE);
        let _ = write!(
            frame,
            "{{\"schema_version\":1,\"chain_id\":\"{}\",\"seq\":{},\"prev_hash\":\"{}\"",
            ascii(&self.chain),
            self.seq + 1,
            ascii(&self.hash)
        );
        out.extend_from_slice(frame.as_bytes());
        out.extend_from_slice(body.as_bytes());
        let mut hasher = Sha256::new();
        hasher.update(out.get(from..).unwrap_or(&[]));
        hasher.update(b"}");
        self.hash = hex(hasher);
        self.seq += 1;
        out.extend_from_slice(HASH_MEMBER.as_bytes());
        out.extend_from_slice(&self.hash);
        out.extend_from_slice(b"\"}\n");
    }
}

/// Reads the frame of one line (without its newline) and checks its hash. The members of the frame
/// are taken from their fixed places, so that a second member of the same name changes nothing.
pub(super) fn read(line: &[u8]) -> Result<Link, Fault> {
    let (content, suffix) =
        line.len().checked_sub(SUFFIX).and_then(|at| line.split_at_checked(at)).ok_or(Fault::Foreign)?;
    let named = suffix
        .strip_prefix(HASH_MEMBER.as_bytes())
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .and_then(hash_of)
        .ok_or(Fault::Foreign)?;
    let (chain, seq, prev) = frame(content)?;
    let mut hasher = Sha256::new();
    hasher.update(content);
    hasher.update(b"}");
    if hex(hasher) != named {
        return Err(Fault::Edited);
    }
    Ok(Link { head: Head { chain, seq, hash: named }, prev })
}

/// Chain and number of a line, unchecked.
pub(super) fn place(line: &[u8]) -> Option<([u8; 36], u64)> {
    match frame(line) {
        Ok((chain, seq, _)) => Some((chain, seq)),
        Err(_) => None,
    }
}

/// Chain, number and hash of the record before.
fn frame(content: &[u8]) -> Result<([u8; 36], u64, [u8; 64]), Fault> {
    let rest = after(content, b"{\"schema_version\":1,\"chain_id\":\"")?;
    let (chain, rest) = rest.split_first_chunk::<36>().ok_or(Fault::Foreign)?;
    let rest = after(rest, b"\",\"seq\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (seq, rest) = rest.split_at_checked(digits).ok_or(Fault::Foreign)?;
    let seq = ascii(seq).parse().map_err(|_| Fault::Foreign)?;
    let rest = after(rest, b",\"prev_hash\":\"")?;
    let (prev, rest) = rest.split_at_checked(64).ok_or(Fault::Foreign)?;
    after(rest, b"\"")?;
    if chain.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-') {
        Ok((*chain, seq, hash_of(prev).ok_or(Fault::Foreign)?))
    } else {
        Err(Fault::Foreign)
    }
}

fn after<'a>(rest: &'a [u8], text: &[u8]) -> Result<&'a [u8], Fault> {
    rest.strip_prefix(text).ok_or(Fault::Foreign)
}

/// 64 lower-case hex digits, or nothing.
pub(super) fn hash_of(digits: &[u8]) -> Option<[u8; 64]> {
    let (hash, []) = digits.split_first_chunk::<64>()? else { return None };
    hash.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(*hash)
}

fn hex(hasher: Sha256) -> [u8; 64] {
    let mut out = [b'0'; 64];
    for (pair, byte) in out.chunks_exact_mut(2).zip(hasher.finalize()) {
        for (digit, value) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
            *digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
        }
    }
    out
}

/// Bytes of ours as text; what is no text becomes one that fits nowhere.
pub(super) fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(head: &mut Head, body: &str) -> Vec<u8> {
        let mut out = Vec::new();
        head.seal(body, &mut out);
        assert_eq!(out.pop(), Some(b'\n'));
        out
    }

    #[test]
    fn lines_link_and_read_back() {
        let mut head = Head::new();
        let first = read(&line(&mut head, ",\"message\":\"a\"")).unwrap();
        assert_eq!((first.head.seq, first.prev), (1, [b'0'; 64]));
        let second = read(&line(&mut head, ",\"message\":\"b\"")).unwrap();
        assert_eq!((second.head.seq, second.prev), (2, first.head.hash));
        assert_eq!(second.head, head);
    }

    #[test]
    fn every_single_byte_flip_is_seen() {
        let mut head = Head::new();
        let good = line(&mut head, ",\"message\":\"ls\"");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(read(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_hash_is_the_one_that_sed_and_sha256sum_give() {
        let mut head = Head { chain: *b"0192f0c1-7e00-7a11-8c00-000000000001", seq: 0, hash: [b'0'; 64] };
        let made = line(&mut head, ",\"message\":\"a\"");
        let text = String::from_utf8(made).unwrap();
        let (content, hash) = text.split_once(",\"record_hash\":\"").unwrap();
        let mut hasher = Sha256::new();
        hasher.update(format!("{content}}}"));
        assert_eq!(ascii(&hex(hasher)), hash.strip_suffix("\"}").unwrap());
    }
}
