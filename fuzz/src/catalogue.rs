//! Every place in the grammars that is read by one dialect.
//!
//! Reads the program files as data, on its own: what is refused is taken from the file, not from the
//! code that is under test.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cofferdam::policy::grammar::Grammar;
use toml::{Table, Value};

/// How an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    Flag,
    Required,
    Optional,
}

/// An option of a site.
#[derive(Debug)]
pub struct Opt {
    /// Names without dashes; one letter is a short option.
    pub names: Vec<String>,
    pub arity: Arity,
    /// Its value is a number.
    pub number: bool,
    /// Another element, which is text, follows its value.
    pub pair: bool,
    /// Refused whatever its value is and whatever else stands there.
    pub denied: bool,
    /// Its value may be a file name: the file does not say that it is data or program text.
    pub file: bool,
}

/// A program, or one of its subcommands, and what it says of its options.
#[derive(Debug)]
pub struct Site {
    pub grammar: Arc<Grammar>,
    pub dialect: String,
    /// Elements that lead to the subcommand.
    pub lead: Vec<Vec<u8>>,
    pub options: Vec<Opt>,
    /// Elements that are refused as operands, wherever they stand.
    pub operands: Vec<Vec<u8>>,
    /// What inputs may name.
    pub words: Vec<Vec<u8>>,
}

impl Site {
    /// The long name of another option, exactly.
    pub fn is_long(&self, name: &str) -> bool {
        name.len() > 1 && self.options.iter().any(|option| option.names.iter().any(|own| own == name))
    }
}

/// All sites of a dialect; there is at least the one of `grammars/`.
///
/// # Panics
/// When the files cannot be read, or none uses the dialect.
#[must_use]
pub fn sites(dialect: &str) -> Vec<Site> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for dir in [fuzz.join("grammars"), fuzz.join("../policy/programs")] {
        let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        files.extend(entries.map(|entry| entry.expect("an entry of the directory").path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a program file is text");
        let grammar = Grammar::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let root: Table = toml::from_str(&text).expect("what loads is TOML");
        Collect { grammar: Arc::new(grammar), root: &root, dialect, found: &mut found }.node(&root, &[]);
    }
    assert!(found.iter().any(|site| site.options.iter().any(|o| o.denied) || !site.operands.is_empty()));
    found
}

struct Collect<'c> {
    grammar: Arc<Grammar>,
    root: &'c Table,
    dialect: &'c str,
    found: &'c mut Vec<Site>,
}

impl Collect<'_> {
    fn node(&mut self, node: &Table, lead: &[Vec<u8>]) {
        let mut dialects = strings(node, "dialects");
        if dialects.is_empty() {
            dialects.push("gnu".to_owned());
        }
        if dialects.iter().any(|own| own == self.dialect) {
            let site = self.site(node, lead);
            self.found.push(site);
        }
        for other in table(node, "also").values().filter_map(Value::as_table) {
            self.node(other, lead);
        }
        if dialects.iter().any(|own| own == "git") {
            for (name, child) in &table(node, "subcommand") {
                let name = if name == "*" { "any-other" } else { name };
                let lead: Vec<Vec<u8>> = lead.iter().cloned().chain([name.as_bytes().to_vec()]).collect();
                self.node(child.as_table().expect("a subcommand is a table"), &lead);
            }
        }
    }

    fn site(&self, node: &Table, lead: &[Vec<u8>]) -> Site {
        let sets = table(self.root, "set");
        let mut parts = vec![node];
        parts.extend(strings(node, "sets").iter().filter_map(|name| sets.get(name)?.as_table()));
        let mut options: Vec<Opt> = Vec::new();
        let mut taken = BTreeSet::new();
        for part in &parts {
            let own: Vec<Opt> =
                declared(part).into_iter().filter(|o| o.names.iter().all(|n| !taken.contains(n))).collect();
            taken.extend(own.iter().flat_map(|option| option.names.clone()));
            options.extend(own);
        }
        let mut operands = Vec::new();
        for deny in parts.iter().flat_map(|part| part.get("deny")?.as_array()).flatten() {
            let deny = deny.as_table().expect("a rule is a table");
            let value = deny.get("value").and_then(Value::as_str);
            let place = deny.get("operand").and_then(Value::as_str);
            let word = value.and_then(|value| value.strip_prefix('^')?.strip_suffix('$'));
            let word = word.filter(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            let anywhere = place == Some("element") || (place == Some("any") && self.dialect == "plain");
            if deny.contains_key("except") || deny.contains_key("unless") {
                continue;
            }
            operands.extend(word.filter(|_| anywhere).map(|word| word.as_bytes().to_vec()));
            for name in strings(deny, "options").into_iter().filter(|_| value.is_none()) {
                let name = bare(&name);
                if let Some(option) = options.iter_mut().find(|option| option.names.contains(&name)) {
                    option.denied = true;
                }
            }
        }
        for part in &parts {
            let texts = part.get("text").and_then(Value::as_array).into_iter().flatten();
            let data = part.get("data").into_iter().chain(texts).filter_map(Value::as_table);
            for name in data.flat_map(|data| strings(data, "options")) {
                let name = bare(&name);
                options.iter_mut().filter(|o| o.names.contains(&name)).for_each(|o| o.file = false);
            }
        }
        let words = words(&options, &operands);
        let (grammar, dialect) = (Arc::clone(&self.grammar), self.dialect.to_owned());
        Site { grammar, dialect, lead: lead.to_vec(), options, operands, words }
    }
}

/// The options that one table declares.
fn declared(part: &Table) -> Vec<Opt> {
    let mut options = Vec::new();
    for (key, arity) in [("flags", Arity::Flag), ("values", Arity::Required), ("optional", Arity::Optional)] {
        for letter in part.get(key).and_then(Value::as_str).unwrap_or_default().chars() {
            options.push(Opt {
                names: vec![letter.to_string()],
                arity,
                number: false,
                pair: false,
                denied: false,
                file: arity != Arity::Flag,
            });
        }
    }
    for spec in strings(part, "long") {
        let (names, rest) = spec.split_once('=').map_or((&*spec, None), |(names, rest)| (names, Some(rest)));
        let arity = match rest {
            None => Arity::Flag,
            Some(rest) if rest.contains('?') => Arity::Optional,
            Some(_) => Arity::Required,
        };
        let pair = rest == Some("2");
        let number = rest.is_some_and(|rest| rest.contains('#'));
        let names = names.split('|').map(str::to_owned).collect();
        options.push(Opt { names, arity, number, pair, denied: false, file: arity != Arity::Flag });
    }
    options
}

/// Names as they are written, and what ends, joins or doubts options.
fn words(options: &[Opt], operands: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = ["--", "-", "=", "--end-of-options", "--no-", "+", "(", ")", ";", "@", "1"]
        .map(|word| word.as_bytes().to_vec())
        .to_vec();
    words.extend_from_slice(operands);
    // Most of them: an index is one byte.
    for option in options.iter().filter(|option| option.denied).chain(options.iter().filter(|o| !o.denied)) {
        for name in &option.names {
            words.push(if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }.into_bytes());
        }
    }
    words.truncate(256);
    words
}

/// A name as it is declared: without dashes, and without what follows a `=`.
fn bare(name: &str) -> String {
    let name = name.trim_start_matches('-');
    name.split_once('=').map_or(name, |(name, _)| name).to_owned()
}

fn strings(table: &Table, key: &str) -> Vec<String> {
    let list = table.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn table(table: &Table, key: &str) -> Table {
    table.get(key).and_then(Value::as_table).cloned().unwrap_or_default()
}
