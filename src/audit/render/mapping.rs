//! A mapping as data, and what applies it.
//!
//! Purpose: one engine for all schemas, so that a mapping is a table that an analyst can read and check. A path is
//! names with dots between them. Pure. Called by `mod.rs`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::audit::reading::{Moment, quoted};

/// One file of `siem/mapping/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mapping {
    /// Name and version of the target; only for whoever reads the file.
    #[serde(rename = "schema")]
    _schema: String,
    #[serde(rename = "version")]
    _version: String,
    /// Where native members without a row of their own go.
    rest: String,
    /// Members that do not go there.
    except: Vec<String>,
    constants: BTreeMap<String, Value>,
    events: BTreeMap<String, BTreeMap<String, Value>>,
    tables: BTreeMap<String, BTreeMap<String, Value>>,
    fields: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    from: String,
    to: String,
    #[serde(default, rename = "as")]
    how: How,
    class: Option<u64>,
}

/// What becomes of a value on its way.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
enum How {
    #[default]
    Copy,
    Text,
    Nanoseconds,
    EpochMillis,
    BaseName,
    CommandLine,
    ChainAndSeq,
    OcsfFile,
    Table(String),
}

impl TryFrom<String> for How {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(match text.as_str() {
            "text" => Self::Text,
            "nanoseconds" => Self::Nanoseconds,
            "epoch_millis" => Self::EpochMillis,
            "base_name" => Self::BaseName,
            "command_line" => Self::CommandLine,
            "chain_and_seq" => Self::ChainAndSeq,
            "ocsf_file" => Self::OcsfFile,
            other => match other.strip_prefix("table:") {
                Some(table) => Self::Table(table.to_owned()),
                None => return Err(format!("`{other}` is no way to map a value")),
            },
        })
    }
}

impl Mapping {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mapping: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for row in &mapping.fields {
            if let How::Table(table) = &row.how
                && !mapping.tables.contains_key(table)
            {
                return Err(format!("{}: there is no table `{table}`", row.from));
            }
        }
        if !mapping.events.contains_key("default") {
            return Err("there is no event `default`".to_owned());
        }
        Ok(mapping)
    }

    pub(super) fn apply(&self, record: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (path, value) in &self.constants {
            put(&mut out, path, value.clone());
        }
        let event = record.get("event_type").and_then(Value::as_str).unwrap_or("");
        let own = self.events.get(event).or_else(|| self.events.get("default"));
        for (path, value) in own.into_iter().flatten() {
            put(&mut out, path, value.clone());
        }
        let class = own.and_then(|own| own.get("class_uid")).and_then(Value::as_u64);
        let mut mapped: Vec<&str> = Vec::new();
        for row in &self.fields {
            if row.class.is_some() && row.class != class {
                continue;
            }
            if let Some(value) = record.get(&row.from)
                && let Some(value) = self.convert(&row.how, value, record)
            {
                put(&mut out, &row.to, value);
                mapped.push(&row.from);
            }
        }
        // ECS repeats what it maps under the native name, but for the large members; OCSF has it once.
        let repeats = class.is_none();
        for (name, value) in record {
            let left_out = self.except.iter().any(|except| except == name);
            if !left_out && (repeats || !mapped.contains(&name.as_str())) {
                put(&mut out, &format!("{}.{name}", self.rest), value.clone());
            }
        }
        out
    }

    fn convert(&self, how: &How, value: &Value, record: &Map<String, Value>) -> Option<Value> {
        Some(match how {
            How::Copy => value.clone(),
            How::Text => Value::from(value.to_string()),
            How::Nanoseconds => Value::from(value.as_u64()?.saturating_mul(1_000_000)),
            How::EpochMillis => Value::from(Moment::millis_of(value.as_str()?)?),
            How::BaseName => Value::from(base_name(value.as_str()?)),
            How::CommandLine => {
                let words = value.as_array()?.iter().filter_map(Value::as_str).map(quoted);
                Value::from(words.collect::<Vec<_>>().join(" "))
            }
            How::ChainAndSeq => Value::from(format!("{}:{}", value.as_str()?, record.get("seq")?)),
            How::OcsfFile => {
                let path = value.as_str()?;
                serde_json::json!({ "name": base_name(path), "path": path, "type_id": 1 })
            }
            How::Table(table) => self.tables.get(table)?.get(value.as_str()?)?.clone(),
        })
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Puts `value` at a path of names with dots between them.
fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((name, rest)) => {
            let entry = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = entry {
                put(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
impl Mapping {
    /// Whether a row takes `name` in this class, or it is left out on purpose.
    pub(super) fn takes(&self, name: &str, class: u64) -> bool {
        let applies = |row: &&Row| row.from == name && row.class.is_none_or(|own| own == class);
        self.except.iter().any(|except| except == name) || self.fields.iter().any(|row| applies(&row))
    }

    /// What rows read.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|row| row.from.as_str()).chain(self.except.iter().map(String::as_str))
    }
}
