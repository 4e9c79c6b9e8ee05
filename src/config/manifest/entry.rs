//! One entry of a manifest: the settings of one toolkit, each checked by itself.
//!
//! Purpose: the keys and words of the Raku pack `Shell`. What it has and a hardened server has not is
//! refused with what to do instead, never ignored. Pure but for one look at each directory. Called by
//! `manifest.rs`.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{Faults, json_kind as kind};
use crate::config::error::nearest;
use crate::config::read::dotted;
use crate::config::toolkits::DEFAULT_PREFIX;
use crate::config::values;

/// Settings of the pack, as its errors list them; `prefix` stands beside them.
const KEYS: [&str; 11] = [
    "allow",
    "allow-any",
    "consent",
    "cwd",
    "isolate-terminal",
    "job-ttl",
    "max-finished-jobs",
    "max-jobs",
    "max-output-bytes",
    "max-output-lines",
    "timeout",
];
/// What other packs and other servers have under these names, with what to do instead.
const FOREIGN: &[(&str, &str)] = &[
    ("env", ENVIRONMENT),
    ("environment", ENVIRONMENT),
    ("launcher", "cannot come from a file: the walls of the kernel are always there; leave it out"),
    ("sandbox", WALLS),
    ("network", WALLS),
    ("read", WALLS),
    ("execute", WALLS),
    ("write", WALLS),
    ("max-output", "is max-output-bytes or max-output-lines here: write the one that is meant"),
    ("memory", LIMITS),
    ("processes", LIMITS),
    ("deny", RULES),
    ("subcommands", RULES),
    ("allow-patterns", RULES),
];
const ENVIRONMENT: &str = "is not set here: commands get a scrubbed environment; write [environment] pass and set \
                           in a policy file, and name it with --policy";
const WALLS: &str = "is not set here: write [workspace], [sandbox] or [command.NAME] in a policy file, and name it with --policy";
const LIMITS: &str = "is not set here: write [limits] in a policy file, and name it with --policy";
const RULES: &str = "is not set here: write a [command.NAME] table or allow_patterns in a policy file, and name \
                     it with --policy";
/// Longest time that is taken, a month in milliseconds.
const LONGEST: f64 = 30.0 * 24.0 * 3600.0 * 1000.0;

/// A limit of an entry: its key there, the key of `[limits]` that it is one of, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ceiling {
    pub(super) key: &'static str,
    pub(super) limit: &'static str,
    pub(super) value: u64,
}

/// One toolkit as it was asked for.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Path in the document.
    pub(super) key: String,
    pub(super) prefix: String,
    /// Names in the order they are written; `None` is `allow-any`.
    pub(super) allow: Option<Vec<String>>,
    /// Canonical path of the directory.
    pub(super) cwd: Option<PathBuf>,
    pub(super) ceilings: Vec<Ceiling>,
    /// A person is asked before each call.
    pub(super) consent: bool,
}

impl Entry {
    pub(super) fn read(key: String, settings: &Map<String, Value>, faults: &mut Faults) -> Self {
        let prefix = DEFAULT_PREFIX.into();
        let mut entry = Self { key, prefix, allow: None, cwd: None, ceilings: Vec::new(), consent: false };
        unknown(&entry.key, settings, faults);
        for (name, value) in settings {
            if let Err(what) = entry.setting(name, value) {
                faults.add(&dotted(&entry.key, name), what);
            }
        }
        entry.names(settings, faults);
        entry
    }

    /// `allow` and `allow-any`: one of the two.
    fn names(&mut self, settings: &Map<String, Value>, faults: &mut Faults) {
        let any = settings.get("allow-any") == Some(&Value::Bool(true));
        let Some(allow) = settings.get("allow") else {
            if !any {
                faults.add(&self.key, NO_NAMES);
            }
            return;
        };
        if any {
            let what = "Shell toolkit allow and allow-any are mutually exclusive: keep the one that is meant";
            faults.add(&self.key, what);
        }
        let key = dotted(&self.key, "allow");
        let Value::Array(elements) = allow else {
            faults.add(&key, format!("takes an array of strings, not {}", kind(allow)));
            return;
        };
        if elements.is_empty() {
            faults.add(&key, NO_NAMES);
        }
        let mut names: Vec<String> = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let key = format!("{key}[{index}]");
            match element {
                Value::String(name) => match values::command_name(name) {
                    Ok(()) if names.contains(name) => faults.add(&key, format!("\"{name}\" is listed twice")),
                    Ok(()) => names.push(name.clone()),
                    Err(what) => faults.add(&key, what),
                },
                other => faults.add(&key, format!("takes a non-empty string, not {}", kind(other))),
            }
        }
        self.allow = Some(names);
    }

    fn setting(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "allow-any" if !value.is_boolean() => Err(format!("takes true or false, not {}", kind(value))),
            "consent" if value.as_str() == Some("ask") => {
                self.consent = true;
                Ok(())
            }
            "consent" => Err(format!("takes \"ask\" (or leave it out), not {value}")),
            "prefix" => {
                let prefix = value.as_str().ok_or_else(|| format!("takes a string, not {}", kind(value)))?;
                values::tool_prefix(prefix)?;
                self.prefix = prefix.to_owned();
                Ok(())
            }
            "cwd" => {
                let path = value.as_str().ok_or_else(|| format!("takes a string, not {}", kind(value)))?;
                let real = std::fs::canonicalize(path).ok().filter(|real| real.is_dir());
                self.cwd = Some(real.ok_or_else(|| {
                    format!("Shell toolkit cwd is not an existing directory: {}", path.escape_debug())
                })?);
                Ok(())
            }
            "isolate-terminal" => match value {
                Value::Bool(true) => Ok(()),
                Value::Bool(false) => {
                    Err("cannot be false: standard input is the client's, and no command may have it; leave it out"
                        .into())
                }
                other => Err(format!("takes true or false, not {}", kind(other))),
            },
            "timeout" => self.ceiling("timeout", "timeout", milliseconds(value)?),
            "max-output-bytes" => self.ceiling("max-output-bytes", "output_bytes", count(value, 1024)?),
            "max-output-lines" => self.ceiling("max-output-lines", "output_lines", count(value, 10)?),
            "max-jobs" => self.ceiling("max-jobs", "max_jobs", count(value, 1)?),
            "max-finished-jobs" => self.ceiling("max-finished-jobs", "max_finished_jobs", count(value, 1)?),
            "job-ttl" => self.ceiling("job-ttl", "job_ttl", milliseconds(value)?),
            _ => Ok(()),
        }
    }

    fn ceiling(&mut self, key: &'static str, limit: &'static str, value: u64) -> Result<(), String> {
        self.ceilings.push(Ceiling { key, limit, value });
        Ok(())
    }
}

const NO_NAMES: &str = "Shell toolkit requires a non-empty allow list (or allow-any: true when consent is enforced \
                        elsewhere, such as by the MCP client)";

/// Every unknown key of an entry in one fault, those that are known from elsewhere with their remedy.
fn unknown(key: &str, settings: &Map<String, Value>, faults: &mut Faults) {
    let mut strange = Vec::new();
    for name in settings.keys().filter(|name| !KEYS.contains(&name.as_str()) && *name != "prefix") {
        match FOREIGN.iter().find(|(known, _)| *known == name.replace('_', "-")) {
            Some((_, remedy)) => faults.add(&dotted(key, name), *remedy),
            None => strange.push(name.as_str()),
        }
    }
    if !strange.is_empty() {
        let names: Vec<String> = strange.iter().map(|name| name.escape_debug().to_string()).collect();
        let what = format!(
            "Unknown config key(s) for cofferdam's Shell toolkit: {}. Valid keys: {}, and prefix",
            names.join(", "),
            KEYS.join(", ")
        );
        let guess = strange.iter().find_map(|name| nearest(name, KEYS.into_iter().chain(["prefix"])));
        faults.listed(key, what, Vec::new(), guess);
    }
}

/// An integer of at least `least`.
fn count(value: &Value, least: u64) -> Result<u64, String> {
    let count = value.as_u64().filter(|count| *count >= least);
    count.ok_or_else(|| format!("takes an integer of at least {least}, not {value}"))
}

/// Seconds, fractions included, as milliseconds.
fn milliseconds(value: &Value) -> Result<u64, String> {
    let wrong = || format!("takes a number of seconds greater than 0, at least 0.001, not {value}");
    let milliseconds = value.as_f64().ok_or_else(wrong)? * 1000.0;
    if !(1.0..=LONGEST).contains(&milliseconds) {
        return Err(if milliseconds > LONGEST {
            format!("{value} seconds are more than a month")
        } else {
            wrong()
        });
    }
    let time = std::time::Duration::try_from_secs_f64(milliseconds / 1000.0).map_err(|_| wrong())?;
    u64::try_from(time.as_millis()).map_err(|_| wrong())
}
