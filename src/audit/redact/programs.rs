//! Where certain programs take a secret: short options, operands, assignments.
//!
//! Purpose: `-p` is a port for one program and a password for another, and the third word of one subcommand is a
//! token; tables say which. Rows are from the programs' manuals. Pure. Called by `redact` and `lines.rs`.

use super::names::{Kind, harmless, kind};

#[path = "programs_table.rs"]
mod table;

use table::{CARRIERS, JOINED, NAMED, OPERANDS, ORACLE, SEPARATE};

/// Rule ids for what these tables find.
const SHORT: &str = "short-option";
const OPERAND: &str = "operand";

/// Which operands after the words of a row are secret.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    /// This one, from 1.
    Nth(usize),
    /// This one and all after it.
    From(usize),
    /// The last one.
    Last,
    /// The values of `NAME=VALUE`, whatever the name.
    Pairs,
    /// The values of `--from-literal=NAME=VALUE`.
    Literals,
}

/// A secret among arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Which argument.
    pub(super) index: usize,
    /// Byte that it begins at.
    pub(super) from: usize,
    /// The rule.
    pub(super) rule: &'static str,
}

/// Whether a text names any program of the tables, so that it is worth a look.
pub(super) fn mentions(text: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))).any(in_tables)
}

fn in_tables(program: &str) -> bool {
    // A set of all names: hundreds of words pass here for one record.
    static NAMES: std::sync::LazyLock<std::collections::HashSet<&'static str>> =
        std::sync::LazyLock::new(|| {
            let separate = SEPARATE.iter().flat_map(|(names, _, _)| names.split(' '));
            let joined = JOINED.iter().flat_map(|(names, _)| names.split(' '));
            let operands = OPERANDS.iter().flat_map(|(names, _, _, _)| names.split(' '));
            let named = NAMED.iter().flat_map(|(names, _)| names.split(' '));
            separate.chain(joined).chain(operands).chain(named).chain(ORACLE.iter().copied()).collect()
        });
    NAMES.contains(program)
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or("")
}

/// What stands between the commands of a line.
const OPERATORS: [&str; 5] = ["|", "|&", ";", "&&", "||"];

/// The secrets of a command, of the command that it carries (`sudo`, `env`, `docker exec` and their like), and of
/// those behind the operators of a line.
pub(super) fn scan<T: AsRef<str>>(arguments: &[T]) -> Vec<Spot> {
    let mut spots = Vec::new();
    let Some(first) = arguments.first().map(|word| base(word.as_ref())) else { return spots };
    program(arguments, 0, &mut spots);
    if CARRIERS.contains(&first) {
        for at in 1..arguments.len() {
            program(arguments, at, &mut spots);
        }
    }
    for (at, word) in arguments.iter().enumerate().skip(1) {
        if OPERATORS.contains(&word.as_ref()) {
            program(arguments, at + 1, &mut spots);
        }
    }
    spots.sort_by_key(|spot| (spot.index, spot.from));
    spots.dedup_by_key(|spot| spot.index);
    spots
}

fn program<T: AsRef<str>>(arguments: &[T], at: usize, spots: &mut Vec<Spot>) {
    let Some(name) = arguments.get(at).map(|word| base(word.as_ref())) else { return };
    if !in_tables(name) {
        return;
    }
    let is = |names: &str| names.split(' ').any(|one| one == name);
    let rest: Vec<(usize, &str)> =
        arguments.iter().enumerate().skip(at + 1).map(|(index, word)| (index, word.as_ref())).collect();
    let options = OptionRows {
        separate: SEPARATE.iter().filter(|(names, _, _)| is(names)).collect(),
        joined: JOINED
            .iter()
            .filter(|(names, _)| is(names))
            .flat_map(|(_, options)| options.split(' '))
            .collect(),
    };
    options.find(&rest, spots);
    let operands: Vec<(usize, &str)> = rest.iter().filter(|(_, word)| !is_option(word)).copied().collect();
    for (_, words, with, which) in OPERANDS.iter().filter(|(names, _, _, _)| is(names)) {
        let asked = with.is_empty() || rest.iter().any(|(_, word)| option_is(word, with));
        if let Some(after) = behind(&operands, words).filter(|_| asked) {
            match which {
                Which::Literals => literals(&rest, spots),
                which => take(after, *which, spots),
            }
        }
    }
    if ORACLE.contains(&name)
        && let Some((index, word)) = operands.first()
        && let Some(slash) = word.find('/').filter(|_| !word.starts_with(['@', '/']))
    {
        spots.push(Spot { index: *index, from: slash + 1, rule: OPERAND });
    }
    for (_, word) in NAMED.iter().filter(|(names, _)| is(names)) {
        let from = rest.iter().position(|(_, found)| found.eq_ignore_ascii_case(word));
        let Some(from) = from.or(word.is_empty().then_some(0)) else { continue };
        let index = rest.get(from).map_or(0, |(index, _)| *index);
        for pair in operands.windows(2) {
            if let [(first, name), (second, value)] = pair
                && *first >= index
                && (names_secret(name) || !harmless(kind(name), value))
            {
                spots.push(Spot { index: *second, from: 0, rule: OPERAND });
            }
        }
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// `--secret` is there as itself; `-b` as a letter of a cluster, too.
fn option_is(word: &str, option: &str) -> bool {
    match option.strip_prefix('-').filter(|letter| letter.len() == 1) {
        Some(letter) => is_option(word) && !word.starts_with("--") && word.contains(letter),
        None => word == option,
    }
}

/// `npmAuthToken`, `//registry/:_authToken`, `aws:secretKey`, `github.token`.
fn names_secret(name: &str) -> bool {
    !name.contains('=')
        && (kind(name) == Kind::Strong
            || name.rsplit(['/', ':', '.']).next().is_some_and(|last| kind(last) == Kind::Strong))
}

/// The operands behind the words of a row; a word that ends with `*` is a prefix.
fn behind<'a, 'b>(operands: &'a [(usize, &'b str)], words: &str) -> Option<&'a [(usize, &'b str)]> {
    let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    let fits = |found: &str, word: &str| match word.strip_suffix('*') {
        Some(prefix) => found.starts_with(prefix),
        None => found.eq_ignore_ascii_case(word),
    };
    (0..=operands.len().checked_sub(words.len())?).find_map(|start| {
        let (here, after) = operands.get(start..)?.split_at_checked(words.len())?;
        here.iter().zip(&words).all(|((_, found), word)| fits(found, word)).then_some(after)
    })
}

fn take(after: &[(usize, &str)], which: Which, spots: &mut Vec<Spot>) {
    let mut add = |index: usize, from: usize| spots.push(Spot { index, from, rule: OPERAND });
    match which {
        Which::Nth(nth) => {
            if let Some((index, _)) = nth.checked_sub(1).and_then(|nth| after.get(nth)) {
                add(*index, 0);
            }
        }
        Which::From(nth) => after.iter().skip(nth.saturating_sub(1)).for_each(|(index, _)| add(*index, 0)),
        Which::Last => {
            if let Some((index, _)) = after.last() {
                add(*index, 0);
            }
        }
        Which::Literals => {}
        Which::Pairs => {
            for (index, word) in after {
                if let Some(equals) = word.find('=') {
                    add(*index, equals + 1);
                }
            }
        }
    }
}

fn literals(rest: &[(usize, &str)], spots: &mut Vec<Spot>) {
    for (position, (index, word)) in rest.iter().enumerate() {
        const OPTION: &str = "--from-literal";
        let (index, word, skip) = match word.strip_prefix(OPTION) {
            Some("") => match rest.get(position + 1) {
                Some((next, pair)) => (*next, *pair, 0),
                None => continue,
            },
            Some(pair) if pair.starts_with('=') => (*index, pair.get(1..).unwrap_or(""), OPTION.len() + 1),
            _ => continue,
        };
        if let Some(equals) = word.find('=') {
            spots.push(Spot { index, from: skip + equals + 1, rule: OPERAND });
        }
    }
}

struct OptionRows {
    separate: Vec<&'static (&'static str, &'static str, &'static str)>,
    joined: Vec<&'static str>,
}

impl OptionRows {
    fn find(&self, rest: &[(usize, &str)], spots: &mut Vec<Spot>) {
        for (position, (index, word)) in rest.iter().enumerate() {
            let before = rest.get(..position).unwrap_or(&[]);
            let within = |sub: &str| sub.is_empty() || before.iter().any(|(_, word)| *word == sub);
            let separate = self
                .separate
                .iter()
                .any(|(_, sub, options)| options.split(' ').any(|o| o == *word) && within(sub));
            if separate && let Some((next, value)) = rest.get(position + 1) {
                // `curl -b FILE` reads cookies, `curl -b NAME=VALUE` sends one.
                if *word != "-b" || value.contains('=') || within("secret") {
                    spots.push(Spot { index: *next, from: 0, rule: SHORT });
                }
                continue;
            }
            let joined =
                self.joined.iter().find(|option| word.len() > option.len() && word.starts_with(**option));
            if let Some(option) = joined.filter(|option| option.len() > 2 || !word.starts_with("--")) {
                spots.push(Spot { index: *index, from: option.len(), rule: SHORT });
            }
        }
    }
}
