//! The entries of a manifest put into a policy.
//!
//! Purpose: what an entry may not ask for is found here, where the policy is known: a name that it does
//! not have, a directory outside of the workspace, a limit above its own. Called by `cli/` through
//! [`Config::with_manifest`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Entry, Faults, Manifest};
use crate::config::error::{ConfigError, nearest};
use crate::config::load::LoadOptions;
use crate::config::read::dotted;
use crate::config::toolkits::{DEFAULT_PREFIX, Toolkit, tighten};
use crate::config::{Command, Config, Source, commands, digest};

impl Config {
    /// The policy of a file, or the built-in one, with the toolkits of a manifest and no others.
    ///
    /// With the built-in policy, the workspace is the directory that the entries name, read-only; its
    /// allow-list is what they name, and entries of the built-in policy keep their rules.
    ///
    /// # Errors
    /// Every fault of the policy, or every one of the manifest against it.
    pub fn with_manifest(
        policy: Option<&Path>,
        manifest: &Manifest,
        options: &LoadOptions,
    ) -> Result<Self, ConfigError> {
        let mut faults = Faults::default();
        let mut config = match policy {
            Some(file) => Self::load_with(file, options)?,
            None => {
                let workspace = options.workspace.clone().or_else(|| manifest.workspace(&mut faults));
                manifest.finish(std::mem::take(&mut faults))?;
                Self::builtin_with(&LoadOptions { workspace, ..options.clone() })?
            }
        };
        manifest.put(&mut config, &mut faults);
        manifest.finish(faults)?;
        config.digest = digest::of(&config);
        Ok(config)
    }
}

impl Manifest {
    /// The directory that holds all those that the entries name.
    fn workspace(&self, faults: &mut Faults) -> Option<PathBuf> {
        let named: BTreeSet<&PathBuf> = self.entries.iter().filter_map(|entry| entry.cwd.as_ref()).collect();
        // Sorted: only the first can hold all others.
        let first = *named.first()?;
        if !named.iter().all(|path| path.starts_with(first)) {
            let shown: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
            let what = format!(
                "its toolkits work in directories of which none holds the others ({}): name one that does with \
                 --workspace; commands can read all that is below it",
                shown.join(", ")
            );
            faults.add("tools", what);
        }
        Some(first.clone())
    }

    fn put(&self, config: &mut Config, faults: &mut Faults) {
        let builtin = !matches!(config.source, Source::File(_));
        if let Some(file) = self
            .file
            .as_ref()
            .filter(|file| config.workspace.write && file.starts_with(&config.workspace.path))
        {
            let what = format!(
                "lies in the writable workspace, where commands could rewrite it: move {}",
                file.display()
            );
            faults.add("", what);
        }
        if !is_default(&config.toolkits) {
            let what = "the policy has [toolkit] tables of its own: add these there, or leave the JSON out";
            faults.add("tools", what);
        }
        let mut names = BTreeMap::new();
        let mut toolkits = BTreeMap::new();
        for entry in &self.entries {
            match &entry.allow {
                Some(allow) => {
                    let list = dotted(&entry.key, "allow");
                    for (index, name) in allow.iter().enumerate() {
                        let key = format!("{list}[{index}]");
                        match if builtin { listed(config, name) } else { allowed(config, name, &key, faults) } {
                            Ok(command) => names.extend(command.map(|command| (name.clone(), command))),
                            Err(what) => faults.add(&key, what),
                        }
                    }
                }
                None if builtin || config.allow_any => {}
                None => faults.add(
                    &dotted(&entry.key, "allow-any"),
                    "the policy has an allow-list: set allow_any = true there, or name what may run in \"allow\"",
                ),
            }
            toolkits.insert(entry.prefix.clone(), entry.toolkit(config, faults));
        }
        if builtin {
            config.commands = names;
            config.allow_any = self.entries.iter().any(|entry| entry.allow.is_none());
            // What the built-in policy lacks on this host matters for what is named only, and is an error there.
            config.missing.retain(|line| !line.contains(": not installed; "));
            if let Some(file) = &self.file {
                config.source = Source::File(file.clone());
            }
        }
        config.toolkits = toolkits;
        let (own, told) = (&self.server, &mut config.server);
        for (own, told) in [
            (&own.name, &mut told.name),
            (&own.version, &mut told.version),
            (&own.description, &mut told.description),
            (&own.instructions, &mut told.instructions),
        ] {
            if own.is_some() {
                told.clone_from(own);
            }
        }
    }
}

impl Entry {
    fn toolkit(&self, config: &Config, faults: &mut Faults) -> Toolkit {
        let mut limits = config.limits.clone();
        for ceiling in &self.ceilings {
            if let Err(what) = tighten(&mut limits, &config.limits, ceiling.limit, ceiling.value) {
                faults.add(&dotted(&self.key, ceiling.key), what);
            }
        }
        if self.consent && !config.argument_rules {
            let what = "the policy has argument_rules = \"off\", and a command in the arguments of another would not \
                        be asked about: keep one";
            faults.add(&dotted(&self.key, "consent"), what);
        }
        let directory = self.cwd.as_ref().and_then(|path| match config.workspace.resolve(Some(path)) {
            Ok(cwd) => Some(cwd.path().to_path_buf()),
            Err(error) => {
                let what =
                    format!("{error}; name a directory below it, or a --workspace that holds this one");
                faults.add(&dotted(&self.key, "cwd"), what);
                None
            }
        });
        Toolkit {
            prefix: self.prefix.clone(),
            commands: self.allow.clone(),
            directory: directory.filter(|path| *path != config.workspace.path),
            limits: (!self.ceilings.is_empty()).then_some(limits),
            consent: self.consent,
            description: None,
        }
    }
}

/// A name beside the built-in policy: its own entry, or an empty table.
fn listed(config: &Config, name: &str) -> Result<Option<Arc<Command>>, String> {
    let known = config.commands.get(name);
    if let Some(command) = known.filter(|command| command.program.is_some()) {
        return Ok(Some(Arc::clone(command)));
    }
    let program = config.programs.lookup(name).map_err(|absent| commands::absence(&absent))?;
    Ok(Some(Arc::new(Command::plain(name, Some(program)))))
}

/// A name of a policy file: it has to be there already.
fn allowed(
    config: &Config,
    name: &str,
    key: &str,
    faults: &mut Faults,
) -> Result<Option<Arc<Command>>, String> {
    let admitted = config.allow_any
        || config.commands.contains_key(name)
        || config.allow_patterns.iter().any(|pattern| pattern.is_match(name));
    if !admitted {
        let what = format!("\"{}\" is not allowed by the policy", name.escape_debug());
        let valid: Vec<String> = config.commands.keys().cloned().collect();
        let guess = nearest(name, valid.iter().map(String::as_str));
        faults.listed(key, what, valid, guess);
    }
    Ok(None)
}

/// Whether a policy has written no toolkit that says anything.
fn is_default(toolkits: &BTreeMap<String, Toolkit>) -> bool {
    let mut all = toolkits.iter();
    let first = all.next().is_some_and(|(prefix, kit)| {
        prefix == DEFAULT_PREFIX
            && kit.commands.is_none()
            && kit.directory.is_none()
            && kit.limits.is_none()
            && !kit.consent
            && kit.description.is_none()
    });
    first && all.next().is_none()
}
