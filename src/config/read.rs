//! A reader of spanned TOML that knows the table of keys.
//!
//! Purpose: report unknown keys and wrong types once, with their place, and hand out only values of
//! the right type. It goes on after a fault, so that an operator sees all of them together. Used by
//! `load.rs`, `sections.rs` and `commands.rs`.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Place, Problem, nearest};
use super::keys::{self, Kind};

/// Collects problems of one text.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    file: String,
    text: &'t str,
    problems: Vec<Problem>,
}

/// A value with its dotted key and its place.
#[derive(Debug, Clone)]
pub(super) struct Item<'t> {
    pub(super) key: String,
    pub(super) at: usize,
    value: &'t DeValue<'t>,
}

/// A string out of the text, with its dotted key and its place.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) key: String,
    pub(super) at: usize,
    pub(super) text: String,
}

/// An element of an array that holds strings and tables.
#[derive(Debug)]
pub(super) enum Row<'t> {
    Text(Word),
    Table(Section<'t>),
}

/// A table whose keys and types were checked: it holds only what passed.
#[derive(Debug, Default)]
pub(super) struct Section<'t> {
    /// Dotted key of the table, empty at the top level.
    pub(super) key: String,
    /// Place of its header.
    pub(super) at: usize,
    schema: &'static str,
    items: Vec<(&'static str, Item<'t>)>,
    /// Keys that are there with a value of the wrong type.
    faulty: Vec<&'static str>,
    /// The table itself has the wrong type.
    broken: bool,
}

impl<'t> Section<'t> {
    pub(super) fn get(&self, name: &str) -> Option<&Item<'t>> {
        self.items.iter().find(|(known, _)| *known == name).map(|(_, item)| item)
    }

    /// Whether the key was written at all, even wrongly: then "is required" would mislead.
    pub(super) fn is_written(&self, name: &str) -> bool {
        self.broken || self.faulty.contains(&name) || self.get(name).is_some()
    }

    /// Dotted key of a key in it, whether it is there or not.
    pub(super) fn key_of(&self, name: &str) -> String {
        dotted(&self.key, name)
    }
}

/// `command."/usr/bin/jq"`: what one would write in the file.
pub(super) fn dotted(prefix: &str, name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let name = if bare { name.to_owned() } else { format!("\"{}\"", name.escape_debug()) };
    if prefix.is_empty() { name } else { format!("{prefix}.{name}") }
}

impl<'t> Reader<'t> {
    pub(super) fn new(file: String, text: &'t str) -> Self {
        Self { file, text, problems: Vec::new() }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// How many problems there are so far.
    pub(super) fn faults(&self) -> usize {
        self.problems.len()
    }

    /// The error, problems in the order of the file; those of the file as a whole come first.
    pub(super) fn into_error(self) -> ConfigError {
        let mut problems = self.problems;
        problems.sort_by_key(|problem| problem.place);
        problems.dedup();
        ConfigError { file: self.file, problems }
    }

    pub(super) fn problem(&mut self, at: usize, key: &str, what: impl Into<String>) {
        self.listed(at, key, what, Vec::new(), None);
    }

    /// A problem of the file as a whole: something that is not there has no place.
    pub(super) fn absent(&mut self, key: &str, what: impl Into<String>) {
        let problem =
            Problem { place: None, key: key.to_owned(), what: what.into(), valid: Vec::new(), nearest: None };
        self.problems.push(problem);
    }

    /// A problem where the right words are known.
    pub(super) fn listed(
        &mut self,
        at: usize,
        key: &str,
        what: impl Into<String>,
        valid: Vec<String>,
        nearest: Option<String>,
    ) {
        let place = Some(Place::of(self.text, at));
        self.problems.push(Problem { place, key: key.to_owned(), what: what.into(), valid, nearest });
    }

    /// Checks the keys and types of a table of `schema`.
    pub(super) fn section(
        &mut self,
        schema: &'static str,
        key: &str,
        at: usize,
        table: &'t DeTable<'t>,
    ) -> Section<'t> {
        let mut section = Section { key: key.to_owned(), at, schema, ..Section::default() };
        for (name, value) in table {
            let full = dotted(key, name.get_ref());
            let Some(known) = keys::find(schema, name.get_ref()) else {
                self.unknown(schema, name, &full);
                continue;
            };
            let item = Item { key: full, at: value.span().start, value: value.get_ref() };
            if self.has_type(&item, known.kind) {
                section.items.push((known.name, item));
            } else {
                section.faulty.push(known.name);
            }
        }
        section
    }

    fn unknown(&mut self, schema: &str, name: &Spanned<std::borrow::Cow<'_, str>>, full: &str) {
        let valid: Vec<String> = keys::of_section(schema).map(|key| key.name.to_owned()).collect();
        let guess = nearest(name.get_ref(), valid.iter().map(String::as_str)).or_else(|| {
            let elsewhere = keys::KEYS.iter().find(|key| key.name == name.get_ref().as_ref());
            elsewhere.map(|key| dotted_schema(key.section, key.name))
        });
        self.listed(name.span().start, full, "unknown key", valid, guess);
    }

    fn has_type(&mut self, item: &Item<'t>, kind: Kind) -> bool {
        let right = match (kind, item.value) {
            (Kind::Count(..), DeValue::Integer(_))
            | (Kind::Position, DeValue::Integer(_) | DeValue::String(_))
            | (Kind::Size(..), DeValue::Integer(_) | DeValue::String(_))
            | (Kind::Duration(..) | Kind::Text | Kind::Choice(_) | Kind::TextOrList, DeValue::String(_))
            | (Kind::Bool, DeValue::Boolean(_))
            | (Kind::Section(_), DeValue::Table(_)) => true,
            (Kind::List | Kind::TextOrList, DeValue::Array(array)) => {
                self.elements(item, array, |value| value.is_str(), "a string")
            }
            (Kind::Rows(_), DeValue::Array(array)) => {
                self.elements(item, array, |value| value.is_table(), "a table")
            }
            (Kind::TextsOrRows(_), DeValue::Array(array)) => {
                self.elements(item, array, |value| value.is_str() || value.is_table(), "a string or a table")
            }
            (Kind::Map, DeValue::Table(table)) => self.entries(item, table, DeValue::is_str, "a string"),
            (Kind::Named(_), DeValue::Table(table)) => {
                self.entries(item, table, DeValue::is_table, "a table")
            }
            (kind, other) => {
                let what =
                    format!("wrong type: takes {}, not {}", kind.describe(), article(other.type_str()));
                self.problem(item.at, &item.key, what);
                return false;
            }
        };
        if let (Kind::Choice(words), DeValue::String(text)) = (kind, item.value)
            && !words.contains(&text.as_ref())
        {
            let valid = words.iter().map(|word| (*word).to_owned()).collect();
            let what = format!("\"{}\" is not a value of this key", text.escape_debug());
            self.listed(item.at, &item.key, what, valid, nearest(text, words.iter().copied()));
            return false;
        }
        right
    }

    fn elements(
        &mut self,
        item: &Item<'t>,
        array: &'t [Spanned<DeValue<'t>>],
        fits: impl Fn(&DeValue<'t>) -> bool,
        takes: &str,
    ) -> bool {
        let mut right = true;
        for (index, value) in array.iter().enumerate().filter(|(_, value)| !fits(value.get_ref())) {
            let what = format!("wrong type: takes {takes}, not {}", article(value.get_ref().type_str()));
            self.problem(value.span().start, &format!("{}[{index}]", item.key), what);
            right = false;
        }
        right
    }

    fn entries(
        &mut self,
        item: &Item<'t>,
        table: &'t DeTable<'t>,
        fits: impl Fn(&DeValue<'t>) -> bool,
        takes: &str,
    ) -> bool {
        let mut right = true;
        for (name, value) in table.iter().filter(|(_, value)| !fits(value.get_ref())) {
            let what = format!("wrong type: takes {takes}, not {}", article(value.get_ref().type_str()));
            self.problem(value.span().start, &dotted(&item.key, name.get_ref()), what);
            right = false;
        }
        right
    }

    /// The sub-table `name`, empty when absent.
    pub(super) fn subsection(&mut self, parent: &Section<'t>, name: &str) -> Section<'t> {
        let schema = keys::find(parent.schema, name).map(|key| key.kind);
        match (schema, parent.get(name)) {
            (Some(Kind::Section(schema)), Some(Item { key, at, value: DeValue::Table(table) })) => {
                self.section(schema, key, *at, table)
            }
            (Some(Kind::Section(schema)), _) => {
                let broken = parent.is_written(name);
                Section { key: parent.key_of(name), schema, broken, ..Section::default() }
            }
            _ => Section::default(),
        }
    }

    /// The tables below `name`, each with its own key.
    pub(super) fn named(&mut self, parent: &Section<'t>, name: &str) -> Vec<(Word, Section<'t>)> {
        let schema = keys::find(parent.schema, name).map(|key| key.kind);
        let (Some(Kind::Named(schema)), Some(item)) = (schema, parent.get(name)) else { return Vec::new() };
        let DeValue::Table(tables) = item.value else { return Vec::new() };
        let mut found = Vec::new();
        for (name, value) in tables {
            let DeValue::Table(table) = value.get_ref() else { continue };
            let word = Word {
                key: dotted(&item.key, name.get_ref()),
                at: name.span().start,
                text: name.get_ref().to_string(),
            };
            let section = self.section(schema, &word.key, word.at, table);
            found.push((word, section));
        }
        found
    }

    /// The rows of the array of tables `name`; `None` when absent.
    pub(super) fn rows(&mut self, parent: &Section<'t>, name: &str) -> Option<Vec<Section<'t>>> {
        let schema = keys::find(parent.schema, name).map(|key| key.kind);
        let (Some(Kind::Rows(schema)), Some(item)) = (schema, parent.get(name)) else { return None };
        let DeValue::Array(array) = item.value else { return None };
        let mut rows = Vec::new();
        for (index, value) in array.iter().enumerate() {
            if let DeValue::Table(table) = value.get_ref() {
                let key = format!("{}[{index}]", item.key);
                rows.push(self.section(schema, &key, value.span().start, table));
            }
        }
        Some(rows)
    }

    /// The strings and tables of an array; `None` when absent.
    pub(super) fn mixed(&mut self, parent: &Section<'t>, name: &str) -> Option<Vec<Row<'t>>> {
        let schema = keys::find(parent.schema, name).map(|key| key.kind);
        let (Some(Kind::TextsOrRows(schema)), Some(item)) = (schema, parent.get(name)) else { return None };
        let DeValue::Array(array) = item.value else { return None };
        let mut rows = Vec::new();
        for (index, value) in array.iter().enumerate() {
            let (key, at) = (format!("{}[{index}]", item.key), value.span().start);
            match value.get_ref() {
                DeValue::Table(table) => rows.push(Row::Table(self.section(schema, &key, at, table))),
                DeValue::String(text) => rows.push(Row::Text(Word { key, at, text: text.to_string() })),
                _ => {}
            }
        }
        Some(rows)
    }

    /// A string or an integer, as text.
    pub(super) fn written(section: &Section<'t>, name: &str) -> Option<Word> {
        let item = section.get(name)?;
        let text = match item.value {
            DeValue::Integer(integer) => integer.to_string(),
            other => other.as_str()?.to_owned(),
        };
        Some(Word { key: item.key.clone(), at: item.at, text })
    }

    /// The strings of a list, duplicates reported; `None` when absent.
    pub(super) fn list(&mut self, section: &Section<'t>, name: &str) -> Option<Vec<Word>> {
        let item = section.get(name)?;
        let DeValue::Array(array) = item.value else { return None };
        let mut words: Vec<Word> = Vec::new();
        for (index, value) in array.iter().enumerate() {
            let Some(text) = value.get_ref().as_str() else { continue };
            let word =
                Word { key: format!("{}[{index}]", item.key), at: value.span().start, text: text.to_owned() };
            if words.iter().any(|other| other.text == word.text) {
                self.problem(word.at, &word.key, format!("\"{}\" is listed twice", text.escape_debug()));
            } else {
                words.push(word);
            }
        }
        Some(words)
    }

    /// The names and values of a map.
    pub(super) fn map(section: &Section<'t>, name: &str) -> Vec<(Word, String)> {
        let Some(Item { key, value: DeValue::Table(table), .. }) = section.get(name) else {
            return Vec::new();
        };
        let entry = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            let text = name.get_ref().to_string();
            let word = Word { key: dotted(key, &text), at: name.span().start, text };
            value.get_ref().as_str().map(|value| (word, value.to_owned()))
        };
        table.iter().filter_map(entry).collect()
    }

    /// A string.
    pub(super) fn text(section: &Section<'t>, name: &str) -> Option<Word> {
        let item = section.get(name)?;
        let text = item.value.as_str()?.to_owned();
        Some(Word { key: item.key.clone(), at: item.at, text })
    }

    /// A truth value.
    pub(super) fn flag(section: &Section<'t>, name: &str) -> bool {
        section.get(name).and_then(|item| item.value.as_bool()) == Some(true)
    }

    /// Whether it is written as `false`.
    pub(super) fn is_off(section: &Section<'t>, name: &str) -> bool {
        section.get(name).and_then(|item| item.value.as_bool()) == Some(false)
    }

    /// A count, size or duration (in milliseconds) within the bounds of its key; the default of
    /// the table when absent or at fault.
    pub(super) fn number(&mut self, section: &Section<'t>, name: &str) -> u64 {
        let Some(key) = keys::find(section.schema, name) else {
            self.absent(name, "has no entry in the table of keys");
            return 0;
        };
        let Some(item) = section.get(name) else { return self.default(key) };
        let written = match item.value {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix())
                .map_or_else(|_| integer.to_string(), |number| number.to_string()),
            DeValue::String(text) => text.to_string(),
            _ => return self.default(key),
        };
        match super::values::number(key.kind, &written) {
            Ok(number) => number,
            Err(what) => {
                self.problem(item.at, &item.key, what);
                // The load fails anyway; this only keeps later checks from complaining as well.
                super::values::number(key.kind, key.default).unwrap_or(0)
            }
        }
    }

    fn default(&mut self, key: &keys::Key) -> u64 {
        super::values::number(key.kind, key.default).unwrap_or_else(|what| {
            self.absent(&dotted_schema(key.section, key.name), format!("bad default: {what}"));
            0
        })
    }
}

fn dotted_schema(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

fn article(kind: &str) -> String {
    let an = kind.starts_with(['a', 'i', 'o']);
    format!("{} {kind}", if an { "an" } else { "a" })
}
