//! Each kind of break is found and named.

use super::*;
use proptest::prelude::*;
use std::io::Write as _;

fn log(count: usize) -> Vec<Vec<u8>> {
    let mut head = Head::new();
    (0..count)
        .map(|number| {
            let mut line = Vec::new();
            head.seal(&format!(",\"event_type\":\"server.start\",\"message\":\"{number}\""), &mut line);
            line
        })
        .collect()
}

fn check(bytes: &[u8], anchor: Option<Anchor>) -> Report {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    verify(&[file.path().to_owned()], anchor).unwrap()
}

fn broken(bytes: &[u8]) -> (u64, Kind) {
    let found = check(bytes, None).broken.expect("a break");
    (found.line, found.kind)
}

#[test]
fn a_whole_log_is_whole_and_names_its_head() {
    let report = check(&log(20).concat(), None);
    assert_eq!((report.records, report.broken.clone()), (20, None));
    assert!(report.head.unwrap().starts_with("20:"));
}

#[test]
fn each_kind_of_break_is_named() {
    let lines = log(10);
    let without = |skip: usize| -> Vec<u8> {
        lines.iter().enumerate().filter(|(at, _)| *at != skip).flat_map(|(_, line)| line.clone()).collect()
    };
    assert_eq!(broken(&without(0)), (1, Kind::Missing));
    assert_eq!(broken(&without(5)), (6, Kind::Missing));
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    assert_eq!(broken(&swapped.concat()), (4, Kind::Reordered));
    let mut doubled = lines.clone();
    doubled.insert(4, lines[3].clone());
    assert_eq!(broken(&doubled.concat()), (5, Kind::Reordered));
    let mut foreign = lines.clone();
    foreign.insert(2, b"hello\n".to_vec());
    assert_eq!(broken(&foreign.concat()), (3, Kind::Foreign));
    let mut torn = lines.concat();
    torn.truncate(torn.len() - 10);
    assert_eq!(broken(&torn), (10, Kind::Torn));
    let mut other = lines.clone();
    other.extend(log(2));
    assert_eq!(broken(&other.concat()), (11, Kind::ChainChange));
}

#[test]
fn a_recomputed_record_does_not_link() {
    let mut head = Head::new();
    let mut bytes = Vec::new();
    head.seal(",\"message\":\"a\"", &mut bytes);
    let first = head;
    head.seal(",\"message\":\"b\"", &mut bytes);
    let mut forged = Vec::new();
    let mut other = Head { hash: [b'1'; 64], ..first };
    other.seal(",\"message\":\"c\"", &mut forged);
    let cut = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes.truncate(cut);
    bytes.extend(forged);
    assert_eq!(broken(&bytes), (2, Kind::Edited));
}

#[test]
fn cutting_the_newest_shows_against_a_kept_head_only() {
    let lines = log(10);
    let head: Anchor = check(&lines.concat(), None).head.unwrap().parse().unwrap();
    let cut = lines[..8].concat();
    assert_eq!(check(&cut, None).broken, None);
    assert_eq!(check(&cut, Some(head)).broken.unwrap().kind, Kind::Missing);
    assert_eq!(check(&lines.concat(), Some(head)).after_anchor, Some(0));
    let early: Anchor = check(&cut, None).head.unwrap().parse().unwrap();
    assert_eq!(check(&lines.concat(), Some(early)).after_anchor, Some(2));
    let wrong = Anchor { hash: [b'a'; 64], ..early };
    assert_eq!(check(&lines.concat(), Some(wrong)).broken.unwrap().kind, Kind::Edited);
}

#[test]
fn a_chain_that_is_computed_anew_has_no_signature_that_fits() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("k");
    super::super::signing::generate(&key).unwrap();
    let signer = super::super::signing::Signer::load(&key).unwrap();
    let public = PublicKey::load(&dir.path().join("k.pub")).unwrap();
    let made = |message: &str, covers: u64, old: Option<&str>| {
        let mut head = Head { chain: *b"0192f0c1-7e00-7a11-8c00-000000000001", ..Head::new() };
        let mut bytes = Vec::new();
        head.seal(&format!(",\"event_type\":\"server.start\",\"message\":\"{message}\""), &mut bytes);
        let sig = old.map_or_else(|| signer.sign(&head), str::to_owned);
        let hash = ascii(&head.hash).to_owned();
        let body = format!(
            ",\"event_type\":\"audit.checkpoint\",\"head_seq\":{covers},\"head_hash\":\"{hash}\",\
             \"key_id\":\"{}\",\"sig\":\"{sig}\"",
            signer.id()
        );
        head.seal(&body, &mut bytes);
        (bytes, sig)
    };
    let walk = |bytes: &[u8]| {
        let file = dir.path().join("log");
        std::fs::write(&file, bytes).unwrap();
        let check = Check { files: vec![file], keys: vec![public.clone()], ..Check::default() };
        check.run(&mut |_| {}).unwrap()
    };
    let (good, sig) = made("as it was", 1, None);
    assert_eq!((walk(&good).broken, walk(&good).after_checkpoint), (None, Some(0)));
    let (forged, _) = made("as it suits", 1, Some(&sig));
    let found = walk(&forged).broken.unwrap();
    assert_eq!((found.line, found.kind), (2, Kind::BadSignature));
    let (other, _) = made("as it was", 7, None);
    assert_eq!(walk(&other).broken.unwrap().kind, Kind::BadSignature);
    // Without the key the forged chain is whole: what an unsigned chain proves.
    assert_eq!(check(&forged, None).broken, None);
}

proptest! {
    #[test]
    fn any_flip_deletion_or_swap_is_found(seed in any::<u64>(), kind in 0usize..4) {
        let lines = log(8);
        let pick = |salt: u64, most: usize| usize::try_from(seed.rotate_left(salt as u32) % most as u64).unwrap();
        let mut bytes = lines.concat();
        match kind {
            0 => {
                let at = pick(0, bytes.len());
                bytes[at] ^= 1 << pick(9, 8);
            }
            // Not the last: that is what anchors are for.
            1 => bytes = { let mut l = lines.clone(); l.remove(pick(0, 7)); l.concat() },
            2 => bytes = { let mut l = lines.clone(); let at = pick(0, 7); l.swap(at, at + 1); l.concat() },
            _ => bytes.insert(pick(0, lines.concat().len()), b'x'),
        }
        prop_assert!(check(&bytes, None).broken.is_some());
    }
}
