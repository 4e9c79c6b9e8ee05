//! Toolkits as JSON: the configuration file of the Raku pack (`--config mcp.json`) and its inline form
//! (`--tool Shell='{…}'`).
//!
//! Purpose: `{"name": …, "tools": {"Shell#git": {"allow": ["git"], "cwd": "/srv/app", "prefix": "git"}}}`
//! becomes toolkits of a policy. They only narrow: of a policy file, the names, limits and walls hold; with
//! none, those of the built-in policy, and names that it does not list get what an empty table gives.
//! Inputs: texts and what the command line says. Called by `cli/`.
//!
//! `strict.rs` reads JSON in which nothing stands twice, `entry.rs` checks one entry, `apply.rs` puts the
//! entries into a policy. A fault is named by its path in the document.

mod apply;
mod entry;
mod strict;

use std::path::{Path, PathBuf};

use serde_json::Value;

use self::entry::Entry;
use super::error::{ConfigError, Place, Problem, nearest};
use super::{ServerIdentity, load, read, toolkits};

/// The only pack that there is.
const PACK: &str = "Shell";
/// What errors call faults of `--tool`.
const COMMAND_LINE: &str = "command line";
/// Keys of the document.
const KEYS: [&str; 5] = ["description", "instructions", "name", "tools", "version"];
/// Keys that servers of that family know and this one does not, with what to do.
const FOREIGN: &[(&str, &str)] =
    &[("http", "is not served by this file: `serve` speaks MCP on standard input and output; leave it out")];

/// Toolkits from outside of a policy, checked for everything that needs no policy.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    /// What errors call it.
    label: String,
    /// The file, resolved.
    file: Option<PathBuf>,
    server: ServerIdentity,
    entries: Vec<Entry>,
}

/// Collects what is wrong with a document.
#[derive(Debug, Default)]
struct Faults(Vec<Problem>);

impl Faults {
    fn add(&mut self, key: &str, what: impl Into<String>) {
        self.listed(key, what, Vec::new(), None);
    }

    fn listed(&mut self, key: &str, what: impl Into<String>, valid: Vec<String>, nearest: Option<String>) {
        self.0.push(Problem { place: None, key: key.to_owned(), what: what.into(), valid, nearest });
    }
}

impl Manifest {
    /// Whether a file of this name is one of these: policies are TOML.
    #[must_use]
    pub fn is_named(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "json")
    }

    /// Reads what `--config` and `--tool` name; `None` when neither was given.
    ///
    /// # Errors
    /// Every fault that needs no policy to be seen.
    pub fn of(config: Option<&Path>, tools: &[String]) -> Result<Option<Self>, ConfigError> {
        if config.is_none() && tools.is_empty() {
            return Ok(None);
        }
        let label = config.map_or_else(|| COMMAND_LINE.to_owned(), |path| path.display().to_string());
        let mut manifest = Self { label, ..Self::default() };
        let mut faults = Faults::default();
        if let Some(path) = config {
            let whole = |what| ConfigError::whole(path.display().to_string(), what);
            let text = load::read(path).map_err(whole)?;
            let real = path.canonicalize().map_err(|error| whole(format!("cannot be resolved: {error}")))?;
            manifest.file = Some(real);
            manifest.document(&text, &mut faults)?;
        }
        for tool in tools {
            manifest.inline(tool, &mut faults);
        }
        manifest.prefixes(&mut faults);
        manifest.finish(faults)?;
        Ok(Some(manifest))
    }

    /// Reads a document from its text.
    ///
    /// # Errors
    /// As [`Manifest::of`].
    pub fn from_str(text: &str, label: &str) -> Result<Self, ConfigError> {
        let mut manifest = Self { label: label.to_owned(), ..Self::default() };
        let mut faults = Faults::default();
        manifest.document(text, &mut faults)?;
        manifest.prefixes(&mut faults);
        manifest.finish(faults)?;
        Ok(manifest)
    }

    fn finish(&self, faults: Faults) -> Result<(), ConfigError> {
        let Faults(problems) = faults;
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { file: self.label.clone(), problems }) }
    }

    fn document(&mut self, text: &str, faults: &mut Faults) -> Result<(), ConfigError> {
        let value = strict::parse(text).map_err(|(place, what)| {
            let problem = Problem { place, key: String::new(), what, valid: Vec::new(), nearest: None };
            ConfigError { file: self.label.clone(), problems: vec![problem] }
        })?;
        let Value::Object(document) = value else {
            faults.add("", format!("takes an object with the key tools, not {}", json_kind(&value)));
            return Ok(());
        };
        for (name, value) in &document {
            match (name.as_str(), value) {
                ("tools", Value::Object(tools)) => {
                    if tools.is_empty() {
                        faults.add("tools", "is empty: there is nothing to serve");
                    }
                    for (name, entry) in tools {
                        self.entry(name, read::dotted("tools", name), entry, faults);
                    }
                }
                ("tools", other) => {
                    faults.add(
                        "tools",
                        format!("takes an object with an entry a toolkit, not {}", json_kind(other)),
                    );
                }
                ("name" | "version" | "description" | "instructions", Value::String(text)) => {
                    if let Err(what) = toolkits::told(name, text) {
                        faults.add(name, what);
                    }
                    self.tell(name, text);
                }
                ("name" | "version" | "description" | "instructions", other) => {
                    faults.add(name, format!("takes a string, not {}", json_kind(other)));
                }
                (other, _) => unknown(faults, other),
            }
        }
        if !document.contains_key("tools") {
            faults.add("tools", "is required: an object such as {\"Shell#git\": {\"allow\": [\"git\"]}}");
        }
        Ok(())
    }

    fn tell(&mut self, name: &str, text: &str) {
        let own = match name {
            "name" => &mut self.server.name,
            "version" => &mut self.server.version,
            "description" => &mut self.server.description,
            _ => &mut self.server.instructions,
        };
        *own = Some(text.to_owned());
    }

    /// `Shell={…}`, `Shell#git={…}`.
    fn inline(&mut self, tool: &str, faults: &mut Faults) {
        let (name, text) = tool.split_once('=').unwrap_or((tool, "{}"));
        let key = read::dotted("--tool", name);
        match strict::parse(text) {
            Ok(value) => self.entry(name, key, &value, faults),
            Err((place, what)) => {
                let at = place.map_or(String::new(), |Place { line, column }| format!("{line}:{column}: "));
                faults.add(&key, format!("{at}{what}; write --tool {PACK}='{{\"allow\":[\"git\"]}}'"));
            }
        }
    }

    fn entry(&mut self, name: &str, key: String, value: &Value, faults: &mut Faults) {
        let pack = name.split_once('#').map_or(name, |(pack, _)| pack);
        if pack != PACK {
            let what = format!("there is no toolkit pack \"{}\"", pack.escape_debug());
            faults.listed(&key, what, vec![PACK.into()], nearest(pack, [PACK]).or(Some(PACK.into())));
            return;
        }
        match value {
            Value::Object(entry) => self.entries.push(Entry::read(key, entry, faults)),
            other => faults.add(&key, format!("takes an object of settings, not {}", json_kind(other))),
        }
    }

    /// Two toolkits of one prefix would have tools of one name.
    fn prefixes(&self, faults: &mut Faults) {
        for (index, entry) in self.entries.iter().enumerate() {
            let mut earlier = self.entries.iter().take(index);
            if let Some(other) = earlier.find(|other| other.prefix == entry.prefix) {
                let what = format!(
                    "\"{}\" is the prefix of {}, too: give one of them another, such as \"prefix\": \"git\"",
                    entry.prefix, other.key
                );
                faults.add(&format!("{}.prefix", entry.key), what);
            }
        }
    }
}

fn unknown(faults: &mut Faults, name: &str) {
    if let Some((_, remedy)) = FOREIGN.iter().find(|(known, _)| *known == name) {
        faults.add(name, *remedy);
        return;
    }
    let valid = KEYS.map(str::to_owned).to_vec();
    faults.listed(&read::dotted("", name), "unknown key", valid, nearest(name, KEYS));
}

/// A JSON type with its article.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
#[path = "manifest/tests.rs"]
mod tests;
