//! An option as a dialect's own rules say it may be written.
//!
//! Only spellings whose meaning is beyond doubt: the program itself would take each of them for the
//! option, with this value, and read on behind it.

use crate::catalogue::{Arity, Opt, Site};
use crate::input::Choices;

/// How the names and values of a dialect are joined.
fn is_getopt(dialect: &str) -> bool {
    matches!(dialect, "gnu" | "posix" | "parse-options" | "parse-options-posix" | "tar" | "bsdtar")
}

/// Elements that are the option `option` of `site` and its value. `cut` allows abbreviations.
pub fn spelled(
    site: &Site,
    option: &Opt,
    choices: &mut Choices<'_>,
    value: &[u8],
    cut: bool,
) -> Vec<Vec<u8>> {
    let dialect = site.dialect.as_str();
    let name = choices.one(&option.names).cloned().unwrap_or_default();
    let form = choices.byte();
    let value = clean(dialect, option, value);
    let attach = form & 1 == 1;
    match (dialect, name.len()) {
        ("key-value", _) => key(option, &name, &value),
        (_, 1) => {
            let bundle =
                if form & 2 == 2 && is_getopt(dialect) { flags(site, choices) } else { String::new() };
            let short = format!("-{bundle}{name}");
            let attach = attach && !value.is_empty() && (is_getopt(dialect) || dialect == "git");
            // A letter of bsdtar takes a value or takes none.
            let attach = attach && !(dialect == "bsdtar" && option.arity == Arity::Optional);
            with(short.into_bytes(), option, &value, attach.then_some(&b""[..]))
        }
        _ => {
            let one_dash = match dialect {
                "find" | "long-only" | "perl" => form & 2 == 0,
                _ => false,
            };
            let abbreviates = cut && (is_getopt(dialect) || (dialect == "long-only" && !one_dash));
            let mut name = name;
            if abbreviates && form & 4 == 4 {
                name = shortened(site, &name, usize::from(choices.byte()));
            }
            if dialect == "perl" && form & 8 == 8 {
                name = name.to_ascii_uppercase();
            }
            let long = format!("{}{name}", if one_dash { "-" } else { "--" });
            with(
                long.into_bytes(),
                option,
                &value,
                (attach && !(one_dash && dialect == "perl")).then_some(&b"="[..]),
            )
        }
    }
}

/// Joins a name with its value, by `joint` or as the next element.
fn with(mut name: Vec<u8>, option: &Opt, value: &[u8], joint: Option<&[u8]>) -> Vec<Vec<u8>> {
    match (option.arity, joint) {
        (Arity::Flag, _) | (Arity::Optional, None) => vec![name],
        (Arity::Required, _) if option.pair => vec![name, value.to_vec(), value.to_vec()],
        (Arity::Required, None) => vec![name, value.to_vec()],
        (_, Some(joint)) => {
            name.extend_from_slice(joint);
            name.extend_from_slice(value);
            vec![name]
        }
    }
}

fn key(option: &Opt, name: &str, value: &[u8]) -> Vec<Vec<u8>> {
    match option.arity {
        Arity::Flag => vec![format!("--{name}").into_bytes()],
        _ => vec![[name.as_bytes(), b"=", value].concat()],
    }
}

/// A value that every pass of the program leaves to the option.
fn clean(dialect: &str, option: &Opt, value: &[u8]) -> Vec<u8> {
    let digits = || value.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    match dialect {
        "perl" if option.number => digits().to_string().into_bytes(),
        "perl" if value.is_empty() || matches!(value, [b'-' | b'+', ..]) => [b"v", value].concat(),
        _ => value.to_vec(),
    }
}

/// A few short options without a value, to stand before another one.
fn flags(site: &Site, choices: &mut Choices<'_>) -> String {
    let letters: Vec<&str> = site
        .options
        .iter()
        .filter(|option| option.arity == Arity::Flag)
        .flat_map(|option| option.names.iter().map(String::as_str).filter(|name| name.len() == 1))
        .collect();
    (0..choices.byte() % 4).filter_map(|_| choices.one(&letters).copied()).collect()
}

/// The first letters of `name`, unless they are another option's whole name.
fn shortened(site: &Site, name: &str, length: usize) -> String {
    let cut: String = name.chars().take(1 + length % name.chars().count().max(1)).collect();
    if site.is_long(&cut) { name.to_owned() } else { cut }
}
