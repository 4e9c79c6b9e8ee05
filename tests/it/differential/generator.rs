//! Argument vectors of a program: from its grammar, from known lines, and bent.
//!
//! Deterministic: the same seed makes the same vectors, and a larger number only makes more of them.
//! Inputs: the compiled grammar of the program, lines that start from something the program does, and the
//! rows of the corpora about it.

use std::collections::BTreeSet;

use cofferdam::policy::grammar::{Grammar, OptionText, Takes};

/// SplitMix64.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: &str) -> Self {
        // FNV-1a.
        Self(seed.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most.max(1)).unwrap()).unwrap()
    }

    fn one_in(&mut self, most: usize) -> bool {
        self.below(most) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Values that some option or operand could make something of.
const VALUES: &[&str] = &[
    "data",
    "dir",
    "list",
    "out",
    "words",
    "./bait",
    "id",
    "|id",
    "!id",
    "exec=./bait",
    "./bait;id",
    "$(./bait)",
    "-",
    "",
    "1",
    "0",
    "2,1",
    "x.tar",
    "x.tgz",
    "--",
    "climb.tar",
    "../outside/x",
    "/tmp/outside/x",
    "@data",
    "%p",
    "*",
    "HEAD",
    "main",
    "topic",
    "ext::./bait",
    "file:///tmp/outside/x",
    "origin",
    "host:x",
    "always",
    "s/1/id/e",
    "w ../outside/x",
    "BEGIN{system(\"id\")}",
    "{print > \"/tmp/outside/x\"}",
    ";",
    "+",
    "{}",
    "never",
    "all",
    "auto",
    "program=./bait",
    "link/x",
    "dir/../../outside/x",
    "prog.awk",
    "script.sed",
    "gzip",
    "k=v",
    "color.ui=1",
];

/// What vectors of one program are made from.
#[derive(Debug)]
pub(super) struct Stock<'g> {
    name: &'static str,
    options: Vec<OptionText<'g>>,
    /// Lines that work, to begin with; the program's name left out.
    basics: Vec<Vec<String>>,
    /// Lines of other stages: what they name is not here.
    lines: Vec<Vec<String>>,
    /// Elements that are refused somewhere, names and values.
    dangers: Vec<String>,
}

impl<'g> Stock<'g> {
    /// `basics` are lines of the program that do something in the stage; `rows` those of the corpora.
    pub(super) fn new(
        name: &'static str,
        grammar: &'g Grammar,
        basics: &[&str],
        rows: &[Vec<String>],
    ) -> Self {
        let options = grammar.options();
        let words = |line: &str| super::words(line).into_iter().skip(1).collect::<Vec<_>>();
        let mut lines: Vec<Vec<String>> = Vec::new();
        lines.extend(grammar.examples().iter().map(|example| words(&example.line)));
        lines.extend(rows.iter().cloned());
        let mut dangers: BTreeSet<String> = BTreeSet::new();
        for option in options.iter().filter(|option| option.refused) {
            for name in option.names {
                dangers.insert(name.clone());
                for value in ["./bait", "id", "../outside/x", "exec=./bait"] {
                    dangers.insert(attached(name, value));
                }
            }
        }
        let denied = grammar.examples().iter().filter(|example| !example.allowed);
        dangers.extend(denied.flat_map(|example| words(&example.line)));
        dangers.extend(rows.iter().flatten().cloned());
        let basics = basics.iter().map(|line| words(line)).collect();
        Self { name, options, basics, lines, dangers: dangers.into_iter().collect() }
    }

    /// The next vector, with the program's name.
    pub(super) fn vector(&self, random: &mut Random) -> Vec<String> {
        let from = if random.one_in(3) { &self.lines } else { &self.basics };
        let mut line = random.pick(from).clone();
        // One change as a rule: a program stops at the first thing that it does not understand.
        let mut more = 2;
        while random.one_in(more) || more == 2 {
            if random.one_in(2) {
                self.add_option(&mut line, random);
            } else {
                self.bend(&mut line, random);
            }
            more += 1;
        }
        line.truncate(24);
        let mut vector = vec![self.name.to_owned()];
        vector.extend(line.into_iter().map(|item| item.replace('\0', "")));
        vector
    }

    /// An option that the line's subcommand, or the program, has; or any.
    fn add_option(&self, line: &mut Vec<String>, random: &mut Random) {
        let here: Vec<&OptionText<'_>> = self
            .options
            .iter()
            .filter(|option| {
                option.words.is_empty() || line.iter().any(|word| option.words.last() == Some(&word.as_str()))
            })
            .collect();
        let option = if here.is_empty() || random.one_in(12) {
            random.pick(&self.options)
        } else {
            *random.pick(&here)
        };
        let name = random.pick(option.names).clone();
        let value = self.value(random);
        // After the subcommand more often than before it.
        let first = option.words.last().and_then(|last| line.iter().position(|word| word == last));
        let from = first.map_or(0, |at| at + 1);
        // At the very begin, where every program looks for options, or anywhere behind.
        let at = match random.below(3) {
            0 => from,
            _ => from + random.below(line.len().saturating_sub(from) + 1),
        };
        match option.takes {
            Takes::Nothing => line.insert(at, name),
            Takes::Attached if random.one_in(3) => line.insert(at, name),
            Takes::Attached => line.insert(at, attached(&name, &value)),
            Takes::Value if random.one_in(2) => line.insert(at, attached(&name, &value)),
            Takes::Value => {
                line.insert(at, value);
                line.insert(at, name);
            }
        }
    }

    fn value(&self, random: &mut Random) -> String {
        match random.below(6) {
            0 | 1 => (*random.pick(&["1", "2", "10", "x", "data", "dir"])).to_owned(),
            2 => random.pick(&self.dangers).clone(),
            _ => (*random.pick(VALUES)).to_owned(),
        }
    }

    /// One change.
    fn bend(&self, line: &mut Vec<String>, random: &mut Random) {
        let at = random.below(line.len());
        let end = random.below(line.len() + 1);
        match random.below(16) {
            0 | 1 => self.add_option(line, random),
            2 | 3 => line.insert(end, random.pick(&self.dangers).clone()),
            4 => {
                let (name, value) = (random.pick(&self.dangers).clone(), self.value(random));
                line.insert(end, value);
                line.insert(end, name);
            }
            5 => {
                line.insert(end, (*random.pick(&["--", "-", "--end-of-options", "+", "-W", "!"])).to_owned())
            }
            6 => line.insert(end, self.value(random)),
            _ if line.is_empty() => {}
            7 => line[at] = abbreviated(&line[at], random),
            8 => bundle(line, at),
            9 => attach(line, at),
            10 => detach(line, at),
            11 => {
                let other = random.below(line.len());
                line.swap(at, other);
            }
            12 => line.insert(end, line[at].clone()),
            13 => line[at] = other_case(&line[at], random),
            14 => {
                // Another letter among those of a cluster.
                let letters: Vec<char> = self
                    .options
                    .iter()
                    .flat_map(|option| option.names)
                    .filter_map(|name| name.strip_prefix('-')?.chars().next().filter(|_| name.len() == 2))
                    .collect();
                if line[at].starts_with('-') && !line[at].starts_with("--") && !letters.is_empty() {
                    let places: Vec<usize> =
                        line[at].char_indices().map(|(place, _)| place).skip(1).collect();
                    let place = if places.is_empty() { line[at].len() } else { *random.pick(&places) };
                    let letter = *random.pick(&letters);
                    line[at].insert(place, letter);
                } else if random.one_in(3) {
                    line.remove(at);
                }
            }
            _ => line[at] = self.value(random),
        }
    }
}

/// `--name=value`, `-nvalue`, or `name=value`.
fn attached(name: &str, value: &str) -> String {
    match name {
        _ if name.ends_with('=') || (name.len() == 2 && name.starts_with('-')) => format!("{name}{value}"),
        _ => format!("{name}={value}"),
    }
}

fn abbreviated(item: &str, random: &mut Random) -> String {
    let Some(rest) = item.strip_prefix("--") else { return item.to_owned() };
    let (name, value) = rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
    let lengths: Vec<usize> = name.char_indices().map(|(at, _)| at).skip(1).collect();
    let Some(length) = (!lengths.is_empty()).then(|| *random.pick(&lengths)) else { return item.to_owned() };
    let name = &name[..length];
    value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
}

fn is_cluster(item: &str) -> bool {
    item.len() > 1 && item.starts_with('-') && !item.starts_with("--")
}

/// `-a -b` to `-ab`.
fn bundle(line: &mut Vec<String>, at: usize) {
    let clusters: Vec<usize> = (0..line.len()).filter(|&at| is_cluster(&line[at])).collect();
    if let [.., one, other] = clusters.as_slice()
        && at.is_multiple_of(2)
    {
        let tail = line.remove(*other);
        line[*one].push_str(&tail[1..]);
    } else if let [one, other, ..] = clusters.as_slice() {
        let tail = line.remove(*other);
        line[*one].push_str(&tail[1..]);
    }
}

/// An option and the element after it, in one.
fn attach(line: &mut Vec<String>, at: usize) {
    if at + 1 < line.len() && line[at].starts_with('-') {
        let value = line.remove(at + 1);
        line[at] = attached(&line[at], &value);
    }
}

/// `--name=value` or `-nvalue` in two elements.
fn detach(line: &mut Vec<String>, at: usize) {
    let item = line[at].clone();
    let split = match item.find('=') {
        Some(place) => Some((item[..place].to_owned(), item[place + 1..].to_owned())),
        None if is_cluster(&item) && item.is_char_boundary(2) && item.len() > 2 => {
            Some((item[..2].to_owned(), item[2..].to_owned()))
        }
        None => None,
    };
    if let Some((name, value)) = split {
        line[at] = name;
        line.insert(at + 1, value);
    }
}

fn other_case(item: &str, random: &mut Random) -> String {
    let all = random.one_in(2);
    let mut other = |letter: char| match letter {
        _ if !all && !random.one_in(3) => letter,
        _ if letter.is_ascii_lowercase() => letter.to_ascii_uppercase(),
        _ => letter.to_ascii_lowercase(),
    };
    item.chars().map(&mut other).collect()
}
