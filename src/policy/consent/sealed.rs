//! The sealed question: what is handed out with it and has to come back with the answer.
//!
//! Purpose: `requestState` of the protocol, which whoever holds it may change, copy or make up. Hex digits of
//! one fixed length: a name used once, the time of expiry, digests of caller and command, and the seal over
//! them. Nothing of it is looked at before the seal holds. Pure. Called by `consent.rs`.

use crate::seal::{Seal, WHOLE};

/// What the seal is for.
const USAGE: &str = "consent";
/// Bytes before the seal: nonce, expiry, caller, command.
const BODY: usize = 16 + 8 + 32 + 32;

/// Name of a question: random, used once.
pub(super) type Nonce = [u8; 16];

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sealed {
    pub(super) nonce: Nonce,
    /// Milliseconds of the server's clock.
    pub(super) expires: u64,
    /// SHA-256 of who was asked for it.
    pub(super) principal: [u8; 32],
    /// SHA-256 of what was asked.
    pub(super) call: [u8; 32],
}

impl Sealed {
    /// Its name in records.
    pub(super) fn id(&self) -> String {
        hex(&self.nonce)
    }

    /// The text that is handed out.
    pub(super) fn write(&self, seal: &Seal) -> Result<String, String> {
        let body = [&self.nonce[..], &self.expires.to_le_bytes(), &self.principal, &self.call].concat();
        let tag: [u8; WHOLE] = seal.over(USAGE, &[&body])?;
        Ok(hex(&body) + &hex(&tag))
    }

    /// A text that came back, if it is one that was handed out.
    pub(super) fn read(text: &str, seal: &Seal) -> Option<Self> {
        let bytes = unhex::<{ BODY + WHOLE }>(text)?;
        let (body, tag) = bytes.split_first_chunk::<BODY>()?;
        // A key that cannot be used has sealed nothing.
        if !matches!(seal.holds(USAGE, &[body], tag.first_chunk::<WHOLE>()?), Ok(true)) {
            return None;
        }
        let (nonce, rest) = body.split_first_chunk::<16>()?;
        let (expires, rest) = rest.split_first_chunk::<8>()?;
        let (principal, rest) = rest.split_first_chunk::<32>()?;
        let call = rest.first_chunk::<32>()?;
        let expires = u64::from_le_bytes(*expires);
        Some(Self { nonce: *nonce, expires, principal: *principal, call: *call })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lower-case hex digits of exactly `N` bytes: one text a value.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed() -> Sealed {
        Sealed { nonce: [7; 16], expires: u64::MAX - 1, principal: [1; 32], call: [2; 32] }
    }

    #[test]
    fn what_was_sealed_comes_back_and_no_digit_of_it_can_be_changed() {
        let seal = Seal::new();
        let text = sealed().write(&seal).unwrap();
        assert_eq!(Sealed::read(&text, &seal), Some(sealed()));
        assert_eq!(Sealed::read(&text, &Seal::new()), None, "another server's");
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
            let changed = [&text[..at], other, &text[at + 1..]].concat();
            assert_eq!(Sealed::read(&changed, &seal), None, "digit {at}");
            assert_eq!(Sealed::read(&text[..at], &seal), None, "cut at {at}");
        }
        for other in [text.to_uppercase(), format!("{text}00"), format!(" {text}"), format!("{text}\n")] {
            assert_eq!(Sealed::read(&other, &seal), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_that_was_not_handed_out_is_read(text in any::<String>(), digits in "[0-9a-f]{240}") {
            let seal = Seal::new();
            prop_assert_eq!(Sealed::read(&text, &seal), None);
            prop_assert_eq!(Sealed::read(&digits, &seal), None);
        }

        #[test]
        fn every_question_is_read_as_it_was_written(
            nonce in any::<[u8; 16]>(), expires in any::<u64>(), principal in any::<[u8; 32]>(), call in any::<[u8; 32]>(),
        ) {
            let (seal, sealed) = (Seal::new(), Sealed { nonce, expires, principal, call });
            let text = sealed.write(&seal).unwrap();
            prop_assert_eq!(Sealed::read(&text, &seal), Some(sealed));
        }

        #[test]
        fn parts_of_two_questions_make_no_third(cut in 1usize..240, one in any::<[u8; 16]>(), two in any::<[u8; 16]>()) {
            prop_assume!(one != two);
            let seal = Seal::new();
            let text = |nonce| Sealed { nonce, ..sealed() }.write(&seal).unwrap();
            let (first, second) = (text(one), text(two));
            let mixed = [&first[..cut], &second[cut..]].concat();
            prop_assume!(mixed != first && mixed != second);
            prop_assert_eq!(Sealed::read(&mixed, &seal), None);
        }
    }
}
