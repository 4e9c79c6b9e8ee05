//! Counts by name, of names that somebody else may have chosen.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Names that are counted one by one; more are counted together.
const MOST: usize = 4_096;

/// How often each name came.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    by_name: BTreeMap<String, u64>,
    beyond: u64,
}

/// A name and its count.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Counted {
    /// The name, as it stands in the record.
    pub name: String,
    /// How often.
    pub count: u64,
}

impl Counts {
    pub(super) fn add(&mut self, name: &str, count: u64) {
        if let Some(known) = self.by_name.get_mut(name) {
            *known = known.saturating_add(count);
        } else if self.by_name.len() < MOST {
            self.by_name.insert(name.to_owned(), count);
        } else {
            self.beyond = self.beyond.saturating_add(count);
        }
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many different names there are, up to the bound.
    #[must_use]
    pub fn names(&self) -> usize {
        self.by_name.len()
    }

    /// Count of one name.
    #[must_use]
    pub fn of(&self, name: &str) -> u64 {
        self.by_name.get(name).copied().unwrap_or(0)
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_name.values().fold(self.beyond, |sum, count| sum.saturating_add(*count))
    }

    /// The `most` greatest, equal ones by name, and what all others have together.
    #[must_use]
    pub fn top(&self, most: usize) -> (Vec<Counted>, u64) {
        let mut all: Vec<Counted> =
            self.by_name.iter().map(|(name, count)| Counted { name: name.clone(), count: *count }).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        let rest = all.iter().skip(most).fold(self.beyond, |sum, other| sum.saturating_add(other.count));
        all.truncate(most);
        (all, rest)
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (top, others) = self.top(50);
        let mut out = serializer.serialize_struct("Counts", 3)?;
        out.serialize_field("total", &self.total())?;
        out.serialize_field("top", &top)?;
        out.serialize_field("others", &others)?;
        out.end()
    }
}
