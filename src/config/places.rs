//! Where the keys of a policy stand in its text.
//!
//! Purpose: what is said about a policy that loads names file and line, too. Inputs: the text, read
//! again; a file that has changed or gone since gives fewer places, never another verdict. Called by
//! `cli/check`.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::Place;
use super::read::dotted;
use super::{Source, builtin, load};

/// A key that is written in a policy.
#[derive(Debug, Clone)]
struct Written {
    place: Place,
    /// Its value, where that is a string.
    text: Option<String>,
}

/// Every key of a policy with its place.
#[derive(Debug, Default)]
pub struct Places {
    keys: BTreeMap<String, Written>,
}

impl Places {
    /// The places of the policy that `source` names.
    #[must_use]
    pub fn of(source: &Source) -> Self {
        match source {
            Source::Builtin => Self::parse(builtin::TEXT),
            Source::Environment => Self::default(),
            Source::File(path) => Self::read(path),
            Source::Program => Self::default(),
        }
    }

    fn read(path: &Path) -> Self {
        // Places are a comfort: what was found is said without them as well.
        load::read(path).map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let (table, _) = DeTable::parse_recoverable(text);
        let mut places = Self::default();
        places.table(text, "", table.get_ref());
        places
    }

    fn table(&mut self, text: &str, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            self.value(text, dotted(prefix, name.get_ref()), name.span().start, value.get_ref());
        }
    }

    fn value(&mut self, text: &str, key: String, at: usize, value: &DeValue<'_>) {
        match value {
            DeValue::Table(table) => self.table(text, &key, table),
            DeValue::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    let at = element.span().start;
                    self.value(text, format!("{key}[{index}]"), at, element.get_ref());
                }
            }
            _ => {}
        }
        let written = match value {
            DeValue::String(written) => Some(written.to_string()),
            _ => None,
        };
        self.keys.insert(key, Written { place: Place::of(text, at), text: written });
    }

    /// The place of a dotted key.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<Place> {
        self.keys.get(key).map(|written| written.place)
    }

    /// The key of the element `text` in the list `key`; the list itself when it is not written there.
    #[must_use]
    pub fn element(&self, key: &str, text: &str) -> String {
        let open = format!("{key}[");
        let mut elements = self.keys.range(open.clone()..).take_while(|(own, _)| own.starts_with(&open));
        let found = elements.find(|(_, written)| written.text.as_deref() == Some(text));
        found.map_or_else(|| key.to_owned(), |(own, _)| own.clone())
    }

    /// Dotted key of a command: of its table, or of its name in `allow`.
    #[must_use]
    pub fn command(&self, name: &str) -> String {
        let table = dotted("command", name);
        if self.keys.contains_key(&table) { table } else { self.element("allow", name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_elements_have_places() {
        let places = Places::parse(
            "version = 1\nallow = [\"ls\",\n  \"cat\"]\n[command.\"/usr/bin/jq\"]\ndeny_options = [\"-n\"]\nexamples.deny = [\"x\"]\n",
        );
        let line = |key: &str| places.find(key).unwrap().line;
        assert_eq!(places.element("allow", "cat"), "allow[1]");
        assert_eq!(line("allow[1]"), 3);
        assert_eq!(places.command("ls"), "allow[0]");
        assert_eq!(places.command("/usr/bin/jq"), "command.\"/usr/bin/jq\"");
        assert_eq!(line("command.\"/usr/bin/jq\""), 4);
        assert_eq!(line("command.\"/usr/bin/jq\".examples.deny[0]"), 6);
        assert_eq!(places.element("allow", "rm"), "allow", "what is not written falls back to the list");
        assert_eq!(places.find("limits.jobs"), None);
    }

    #[test]
    fn a_file_that_is_gone_has_no_places() {
        assert_eq!(Places::of(&Source::File("/nonexistent/policy.toml".into())).find("version"), None);
        assert!(Places::of(&Source::Builtin).find("command.git.deny_options[0]").is_some());
    }
}
