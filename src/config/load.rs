//! The door of the config room: a policy file, the built-in policy or a text becomes a [`Config`].
//!
//! Inputs: the text, the file system, and what the command line overrides. All faults of a text are
//! collected and reported together. Called by `cli/`, `appliance.rs` and embedders.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;

use super::error::ConfigError;
use super::program::Programs;
use super::read::{Reader, Section};
use super::{
    Command, Config, Source, Toolkit, builtin, commands, digest, grammar_files, predecessor, principals,
    records, sections, toolkits,
};

/// A policy larger than this is a mistake.
const LARGEST: u64 = 1 << 20;

/// What the command line sets over the text of a policy.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// In place of `workspace.path`; may be relative to the current directory.
    pub workspace: Option<PathBuf>,
    /// In place of the sinks of the policy: one required file.
    pub audit_file: Option<PathBuf>,
    /// A copy of each record on standard error, beside the other sinks.
    pub audit_stderr: bool,
}

/// What the parts of a load share.
#[derive(Debug)]
pub(super) struct Loader<'t, 'o> {
    pub(super) reader: Reader<'t>,
    pub(super) source: &'o Source,
    pub(super) options: &'o LoadOptions,
    /// What the built-in policy names and this host lacks.
    pub(super) missing: Vec<String>,
}

impl Loader<'_, '_> {
    pub(super) fn is_builtin(&self) -> bool {
        !matches!(self.source, Source::File(_))
    }
}

impl Config {
    /// Loads a policy file.
    ///
    /// # Errors
    /// Every fault that the file has.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::load_with(path, &LoadOptions::default())
    }

    /// Loads a policy file, with what the command line overrides.
    ///
    /// # Errors
    /// Every fault that the file has.
    pub fn load_with(path: &Path, options: &LoadOptions) -> Result<Self, ConfigError> {
        let whole = |what: String| ConfigError::whole(path.display().to_string(), what);
        let text = read(path).map_err(whole)?;
        let real = path.canonicalize().map_err(|error| whole(format!("cannot be resolved: {error}")))?;
        parse(&text, Source::File(real), path.display().to_string(), options)
    }

    /// The built-in policy for the tree below `workspace`, read-only.
    ///
    /// # Errors
    /// When `workspace` is not a directory, or no place for records is known.
    pub fn builtin(workspace: &Path) -> Result<Self, ConfigError> {
        let workspace = Some(workspace.to_path_buf());
        Self::builtin_with(&LoadOptions { workspace, ..LoadOptions::default() })
    }

    /// The built-in policy, with what the command line overrides; without a workspace among that,
    /// for the current directory.
    ///
    /// # Errors
    /// As [`Config::builtin`].
    pub fn builtin_with(options: &LoadOptions) -> Result<Self, ConfigError> {
        Self::from_str(builtin::TEXT, Source::Builtin, options)
    }

    /// The same policy with one more command. Its digest is another one.
    #[must_use]
    pub fn with_command(mut self, command: Command) -> Self {
        self.commands.insert(command.name.clone(), Arc::new(command));
        self.digest = digest::of(&self);
        self
    }

    /// Loads a policy from its text. With [`Source::Builtin`] the text is treated as the built-in
    /// policy is: what this host lacks is reported in `missing` and is no error.
    ///
    /// # Errors
    /// Every fault that the text has.
    pub fn from_str(text: &str, source: Source, options: &LoadOptions) -> Result<Self, ConfigError> {
        let label = match &source {
            Source::Builtin => builtin::LABEL.to_owned(),
            Source::Environment => predecessor::LABEL.to_owned(),
            Source::File(path) => path.display().to_string(),
            Source::Program => super::builder::LABEL.to_owned(),
        };
        parse(text, source, label, options)
    }
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    // Asked before opening: the open of a FIFO would wait for a writer.
    if !path.metadata().map_err(cannot)?.is_file() {
        return Err("is not a regular file".into());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(cannot)?.take(LARGEST + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("is larger than a policy can be ({LARGEST} bytes)"));
    }
    String::from_utf8(bytes)
        .map_err(|error| format!("is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}

fn parse(text: &str, source: Source, label: String, options: &LoadOptions) -> Result<Config, ConfigError> {
    let mut reader = Reader::new(label, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.problem(at, "", format!("not TOML: {}", error.message()));
    }
    if !errors.is_empty() {
        return Err(reader.into_error());
    }
    let root = reader.section("", "", 0, table.get_ref());
    let mut loader = Loader { reader, source: &source, options, missing: Vec::new() };
    let parts = assemble(&mut loader, &root);
    let Loader { reader, missing, .. } = loader;
    match parts {
        Some(mut config) if reader.is_clean() => {
            config.source = source;
            config.missing = missing;
            config.digest = digest::of(&config);
            Ok(config)
        }
        _ => Err(reader.into_error()),
    }
}

/// Consent needs the argument rules: they alone see a command in the arguments of another one.
fn unasked<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    names: &commands::Names,
    toolkits: &BTreeMap<String, Toolkit>,
) {
    let asks = sections::consent(root)
        || names.commands.values().any(|command| command.consent)
        || toolkits.values().any(|toolkit| toolkit.consent);
    if let Some(item) = root.get("argument_rules").filter(|_| asks && !sections::argument_rules(root)) {
        let what = "\"off\" and consent = \"ask\" exclude each other: a command in the arguments of another \
                    would not be asked about; keep one";
        loader.reader.problem(item.at, "argument_rules", what);
    }
}

/// Reads every part, whatever the others said, so that all faults come out together.
fn assemble<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>) -> Option<Config> {
    sections::version(loader, root);
    let workspace = sections::workspace(loader, root);
    let environment = sections::environment(loader, root, workspace.as_ref());
    let limits = sections::limits(loader, root);
    let sandbox = sections::sandbox(loader, root);
    let audit = super::audit::section(loader, root, workspace.as_ref());
    let path = environment.as_ref().map(|environment| environment.path.as_str());
    let mut programs = path.map(Programs::new);
    // A read-only one too: nothing can be executed there, and what a program there says it needs
    // would be read by the server and granted.
    if let Some(workspace) = workspace.as_ref() {
        programs = programs.map(|programs| programs.refusing_below(&workspace.path));
    }
    let names = commands::names(loader, root, programs.as_ref(), workspace.as_ref());
    let grammars = grammar_files::read(loader, root, workspace.as_ref());
    let toolkits = toolkits::read(loader, root, &names, &limits, workspace.as_ref());
    let server = toolkits::server(loader, root);
    let (http, principals) = (principals::http(loader, root), principals::read(loader, root, &toolkits));
    principals::certified(loader, root, &http, &principals);
    unasked(loader, root, &names, &toolkits);
    let of_commands = names.commands.values().flat_map(|command| command.read.iter().chain(&command.execute));
    let granted: Vec<_> = sandbox.read.iter().chain(of_commands).cloned().collect();
    let at = |name| root.get(name).map_or(0, |item| item.at);
    if let Some(asked) = &audit.checkpoint {
        records::hidden_key(loader, (at("audit"), "audit.checkpoint_key"), &asked.key, &granted);
    }
    if let Some(tls) = &http.tls {
        let below = workspace.iter().map(|workspace| workspace.path.clone());
        let granted: Vec<_> = granted.into_iter().chain(below).collect();
        records::hidden_key(loader, (at("server"), "server.tls.key"), &tls.key, &granted);
    }
    Some(Config {
        source: loader.source.clone(),
        digest: String::new(),
        workspace: Arc::new(workspace?),
        environment: environment?,
        limits,
        sandbox,
        audit,
        commands: names.commands,
        allow_patterns: names.patterns,
        allow_any: names.any,
        consent: sections::consent(root),
        argument_rules: sections::argument_rules(root),
        toolkits,
        server,
        http,
        principals,
        missing: Vec::new(),
        grammars,
        programs: programs?,
    })
}
