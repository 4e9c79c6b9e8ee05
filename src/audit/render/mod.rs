//! Records in the schemas of others: ECS and OCSF.
//!
//! Purpose: what a SIEM ingests without a pipeline of its own. A rendering is made of the finished native record,
//! after redaction and hashing, and of nothing else; it carries the chain's `chain_id`, `seq` and `record_hash`, so
//! that the native line can be found, but it is not what the hash is over. The mappings are data
//! (`siem/mapping/*.toml`), compiled in. Pure. Called by sinks that have a `format`, and by `audit show --format`.

pub mod ecs;
mod mapping;
pub mod ocsf;

use std::str::FromStr;

use serde_json::{Map, Value};

use super::escape::push_json;
use mapping::Mapping;

/// How a sink writes records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// As they stand in the chain.
    #[default]
    Native,
    /// Elastic Common Schema.
    Ecs,
    /// Open Cybersecurity Schema Framework.
    Ocsf,
}

/// Why a record has no rendering.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The mapping that was compiled in is broken: a fault of this build.
    #[error("read of the built-in mapping {0} failed: {1}; report this build")]
    Mapping(&'static str, String),
    /// The line is not a record.
    #[error("rendering of a record failed: it is not a JSON object: {0}")]
    Record(#[from] serde_json::Error),
}

impl Format {
    /// The spelling of the policy key.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Ecs => "ecs",
            Self::Ocsf => "ocsf",
        }
    }

    /// One finished line of the chain, without its newline, in this format; again without one.
    ///
    /// # Errors
    /// When it is not a record.
    pub fn render_line(self, line: &[u8]) -> Result<Vec<u8>, RenderError> {
        if self == Self::Native {
            return Ok(line.to_vec());
        }
        self.render(&serde_json::from_slice(line)?)
    }

    /// A record, by its members, in this format: one line of JSON without its newline.
    ///
    /// # Errors
    /// When this build is broken.
    pub fn render(self, record: &Map<String, Value>) -> Result<Vec<u8>, RenderError> {
        let mut out = String::with_capacity(4_096);
        match self.mapping()? {
            None => push_object(&mut out, record),
            Some(mapping) => push_object(&mut out, &mapping.apply(record)),
        }
        Ok(out.into_bytes())
    }

    fn mapping(self) -> Result<Option<&'static Mapping>, RenderError> {
        match self {
            Self::Native => Ok(None),
            Self::Ecs => ecs::mapping().map(Some),
            Self::Ocsf => ocsf::mapping().map(Some),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Native, Self::Ecs, Self::Ocsf]
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| format!("`{text}` is none of native, ecs and ocsf"))
    }
}

/// JSON with the escapes of a native record: no control, invisible or reordering character stands in it raw.
fn push(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => push_json(out, text),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                push(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => push_object(out, members),
        plain => out.push_str(&plain.to_string()),
    }
}

fn push_object(out: &mut String, members: &Map<String, Value>) {
    out.push('{');
    for (position, (name, value)) in members.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        push_json(out, name);
        out.push(':');
        push(out, value);
    }
    out.push('}');
}

#[cfg(test)]
mod tests;
