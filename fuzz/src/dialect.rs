//! What holds under one dialect.
//!
//! Besides what `judged` asks of any arguments: an option that the program file refuses, or the operator,
//! stays refused in each place where the dialect says that options are read, whatever stands before and
//! behind it.

use cofferdam::policy::grammar::Operator;

use crate::catalogue::{Arity, Opt, Site};
use crate::input::Choices;
use crate::judged;
use crate::spelling::spelled;

/// File names that lie outside of any workspace.
const OUTSIDE: &[&str] =
    &["/etc/shadow", "../x", "a/../../x", "@/etc/shadow", "file:///etc/shadow", "/srv/ws/../x"];
/// Known options that may stand before the refused one.
const ITEMS: u8 = 8;

/// Runs one input.
///
/// # Panics
/// When something does not hold.
pub fn check(sites: &[Site], data: &[u8]) {
    let mut choices = Choices::new(data);
    let Some(site) = choices.one(sites) else { return };
    let target = choices.one(&site.options);
    let word = choices.one(&site.operands);
    let mut head = [0_u8; 8 * ITEMS as usize + 16];
    let count = usize::from(choices.byte() % (ITEMS + 1));
    for byte in head.iter_mut().take(8 * count + 16) {
        *byte = choices.byte();
    }
    let hostile = choices.elements(&site.words);
    let whole = joined(&[&site.lead, &hostile]);
    let allowed = judged::allowed(&site.grammar, &whole);
    if let Some(target) = target {
        let name = vec![target.names.first().cloned().unwrap_or_default()];
        judged::never_wider(&site.grammar, &whole, &name, allowed);
        stays_refused(site, target, &mut Choices::new(&head), count, &hostile);
    }
    if let Some(word) = word {
        let place = usize::from(head[0]) % (hostile.len() + 1);
        let (before, behind) = hostile.split_at(place);
        must_refuse(site, None, &joined(&[&site.lead, before, std::slice::from_ref(word), behind]));
    }
}

fn stays_refused(site: &Site, target: &Opt, choices: &mut Choices<'_>, count: usize, hostile: &[Vec<u8>]) {
    let value = |index: usize| hostile.get(index).map_or(&b"v"[..], Vec::as_slice);
    let refused = spelled(site, target, choices, value(0), true);
    if is_prefix_letter(site, target) {
        return;
    }
    // Behind options that the grammar knows, with their values, in any dialect.
    let mut items = Vec::new();
    for index in 0..count {
        match choices.one(&site.options) {
            Some(option) if !is_prefix_letter(site, option) => {
                items.extend(spelled(site, option, choices, value(index + 1), false));
            }
            _ => {}
        }
    }
    must_refuse(site, Some(target), &joined(&[&site.lead, &items, &refused, hostile]));
    let place = OUTSIDE[usize::from(choices.byte()) % OUTSIDE.len()].as_bytes();
    let named = spelled(site, target, choices, place, false);
    // Where an optional value is not attached there is none.
    if target.file && named.iter().any(|element| element.ends_with(place)) {
        must_refuse_path(site, &joined(&[&site.lead, &items, &named, hostile]));
    }
    // Behind anything that does not end the options, where they may stand among operands.
    if let Some(mut before) = open(site, hostile) {
        before.extend(std::iter::repeat_n(b"x".to_vec(), spare(site, &before)));
        must_refuse(site, Some(target), &joined(&[&site.lead, &before, &refused, hostile]));
    }
}

/// bsdtar's `-W`, the value of which is an option in its turn.
fn is_prefix_letter(site: &Site, option: &Opt) -> bool {
    site.dialect == "bsdtar" && option.names.iter().any(|name| name == "W")
}

/// `hostile` without what ends the options; absent where every operand does.
fn open(site: &Site, hostile: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let ends: &[&[u8]] = match site.dialect.as_str() {
        "find" | "key-value" => &[],
        "gnu" | "long-only" | "tar" => &[b"--"],
        "parse-options" => &[b"--", b"--end-of-options"],
        _ => return None,
    };
    Some(hostile.iter().filter(|element| !ends.contains(&element.as_slice())).cloned().collect())
}

/// How many elements options before may still take as their values.
fn spare(site: &Site, before: &[Vec<u8>]) -> usize {
    match before.first() {
        // Each letter of the first word may want one.
        Some(word) if site.dialect == "tar" => word.len() + 2,
        _ => 2,
    }
}

fn must_refuse_path(site: &Site, args: &[Vec<u8>]) {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let operator = Operator { view: Some(judged::view()), ..Operator::default() };
    let verdict = site.grammar.judge(&args, &operator);
    let shown: Vec<_> = args.iter().map(|element| String::from_utf8_lossy(element)).collect();
    assert!(verdict.is_err(), "{}: a file outside is allowed: {shown:?}", site.grammar.program());
}

fn must_refuse(site: &Site, target: Option<&Opt>, args: &[Vec<u8>]) {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    // What the file allows is refused by the operator.
    let own: Vec<String> = target.filter(|t| !t.denied).map(|t| written(site, t)).into_iter().collect();
    let operator = Operator { deny_options: &own, ..Operator::default() };
    let verdict = site.grammar.judge(&args, &operator);
    assert!(
        verdict.is_err(),
        "{} ({}): allowed, with {:?} refused by {}: {:?}",
        site.grammar.program(),
        site.dialect,
        target.map(|target| &target.names),
        if own.is_empty() { "the file" } else { "the operator" },
        args.iter().map(|element| String::from_utf8_lossy(element)).collect::<Vec<_>>(),
    );
}

/// An option as an operator would write it.
fn written(site: &Site, option: &Opt) -> String {
    let name = option.names.last().cloned().unwrap_or_default();
    match (site.dialect.as_str(), name.len(), option.arity) {
        ("key-value", _, Arity::Required | Arity::Optional) => format!("{name}="),
        ("find", ..) | (_, 1, _) => format!("-{name}"),
        _ => format!("--{name}"),
    }
}

fn joined(parts: &[&[Vec<u8>]]) -> Vec<Vec<u8>> {
    parts.concat()
}
