//! Toolkits: prefixes of tools, each with fewer commands, a directory and tighter limits.
//!
//! Purpose: `[toolkit.PREFIX]` and `[server]` of a policy, and the one rule that holds for every limit
//! of a toolkit, wherever it is written. A toolkit only narrows what the policy allows. Called by
//! `load.rs` and `manifest.rs`; what it gives is read by `policy/`, `appliance.rs` and `mcp/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::commands::Names;
use super::error::nearest;
use super::keys;
use super::load::Loader;
use super::read::{Reader, Section, Word};
use super::workspace::{Cwd, CwdError, Workspace};
use super::{Config, Limits, sections, values};

/// Prefix of the tools of a policy without toolkits.
pub(super) const DEFAULT_PREFIX: &str = "sh";
/// Most characters of a name, a version, a description and the instructions.
const LONGEST: [(&str, usize); 4] =
    [("name", 64), ("version", 64), ("description", 300), ("instructions", 4000)];
/// What `server.tools` may name.
const OFFERS: [&str; 3] = ["command_run", "shell_execute", "toolkits"];
/// Section of the limits of a toolkit in the table of keys.
const LIMITS: &str = "toolkit.PREFIX.limits";

/// One tool prefix with the commands that its tools may run.
#[derive(Debug, Clone, Default)]
pub struct Toolkit {
    /// Prefix of its tools: `sh` gives `sh_run`.
    pub prefix: String,
    /// Names that its tools are narrowed to; `None` means all of the policy.
    pub commands: Option<Vec<String>>,
    /// Absolute path of the directory its commands start in, inside of the workspace; `None` is its root.
    pub directory: Option<PathBuf>,
    /// Ceilings of its runs, none above those of the policy; `None` are those of the policy.
    pub limits: Option<Limits>,
    /// `consent = "ask"`: a person is asked before each call of its tools.
    pub consent: bool,
    /// A sentence for clients.
    pub description: Option<String>,
}

impl Toolkit {
    /// A toolkit of these names, or of all, and nothing else of its own.
    #[must_use]
    pub fn plain(prefix: &str, commands: Option<Vec<String>>) -> Self {
        Self { prefix: prefix.to_owned(), commands, ..Self::default() }
    }
}

/// The one value of `server.compat_text` beside `off`.
const COMPAT: &str = "1.1.14";

/// What a server tells clients about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// In place of `cofferdam`.
    pub name: Option<String>,
    /// In place of cofferdam's version.
    pub version: Option<String>,
    /// One line for people.
    pub description: Option<String>,
    /// Before the instructions of cofferdam itself.
    pub instructions: Option<String>,
    /// Which tools are offered.
    pub tools: Offered,
    /// `;`, `&&` and `||` are operators of `shell_execute`.
    pub operators: bool,
    /// Texts of `command_run` hold no outputs.
    pub batch_summary: bool,
    /// Texts of `shell_execute` are those that release 1.1.14 of mcp-shell-server sends.
    pub compat_text: bool,
    /// A status other than 0 is no error of the tool `shell_execute`.
    pub nonzero_is_success: bool,
}

/// `server.tools`: which tools a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// Those of every toolkit.
    pub toolkits: bool,
    /// `command_run`.
    pub command_run: bool,
    /// `shell_execute`.
    pub shell_execute: bool,
}

impl Default for Offered {
    fn default() -> Self {
        Self { toolkits: true, command_run: false, shell_execute: false }
    }
}

impl Config {
    /// Ceilings of runs of a toolkit; without one, of the policy.
    #[must_use]
    pub fn limits_of(&self, toolkit: Option<&str>) -> &Limits {
        let own = toolkit.and_then(|prefix| self.toolkits.get(prefix)).and_then(|kit| kit.limits.as_ref());
        own.unwrap_or(&self.limits)
    }

    /// Where runs of a toolkit start that name no directory.
    #[must_use]
    pub fn directory_of(&self, toolkit: Option<&str>) -> &Path {
        let kit = toolkit.and_then(|prefix| self.toolkits.get(prefix));
        kit.and_then(|kit| kit.directory.as_deref()).unwrap_or(&self.workspace.path)
    }

    /// Opens the working directory that a caller of a toolkit asks for. A relative one is relative to
    /// the directory of the toolkit, and stays beneath the root of the workspace, as every one does.
    ///
    /// # Errors
    /// As [`Workspace::resolve`].
    pub fn working_directory(&self, toolkit: Option<&str>, asked: Option<&Path>) -> Result<Cwd, CwdError> {
        let home = self.directory_of(toolkit).strip_prefix(&self.workspace.path).ok();
        let home = home.filter(|home| !home.as_os_str().is_empty());
        match (home, asked) {
            (None, asked) => self.workspace.resolve(asked),
            (Some(home), None) => self.workspace.resolve(Some(home)),
            // An empty path is no directory, and would become one by being appended.
            (Some(_), Some(asked)) if asked.as_os_str().is_empty() => self.workspace.resolve(Some(asked)),
            (Some(home), Some(asked)) => self.workspace.resolve(Some(&home.join(asked))),
        }
    }
}

/// Every `[toolkit.PREFIX]`; the built-in one where there is none.
pub(super) fn read<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    names: &Names,
    policy: &Limits,
    workspace: Option<&Workspace>,
) -> BTreeMap<String, Toolkit> {
    let mut toolkits = BTreeMap::new();
    for (word, section) in loader.reader.named(root, "toolkit") {
        if let Err(what) = values::tool_prefix(&word.text) {
            loader.reader.problem(word.at, &word.key, what);
        }
        let toolkit = Toolkit {
            commands: commands(loader, &section, names),
            directory: directory(loader, &section, workspace),
            limits: limits(loader, &section, policy),
            consent: sections::consent(&section),
            description: text(loader, &section, "description"),
            prefix: word.text.clone(),
        };
        toolkits.insert(word.text, toolkit);
    }
    if root.get("toolkit").is_none() {
        toolkits.insert(DEFAULT_PREFIX.into(), Toolkit::plain(DEFAULT_PREFIX, None));
    }
    toolkits
}

/// `[server]`.
pub(super) fn server<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>) -> ServerIdentity {
    let section = loader.reader.subsection(root, "server");
    ServerIdentity {
        name: text(loader, &section, "name"),
        version: text(loader, &section, "version"),
        description: text(loader, &section, "description"),
        instructions: text(loader, &section, "instructions"),
        tools: offered(loader, &section),
        operators: Reader::flag(&section, "operators"),
        batch_summary: Reader::text(&section, "batch_text").is_some_and(|word| word.text == "summary"),
        compat_text: Reader::text(&section, "compat_text").is_some_and(|word| word.text == COMPAT),
        nonzero_is_success: Reader::is_off(&section, "nonzero_is_error"),
    }
}

fn offered<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>) -> Offered {
    let Some(words) = loader.reader.list(section, "tools") else { return Offered::default() };
    if words.is_empty() {
        let what = "is empty, which offers nothing: name a tool, or leave the key out";
        loader.reader.problem(section.at, &section.key_of("tools"), what);
    }
    let mut offered = Offered { toolkits: false, command_run: false, shell_execute: false };
    for word in words {
        match word.text.as_str() {
            "toolkits" => offered.toolkits = true,
            "command_run" => offered.command_run = true,
            "shell_execute" => offered.shell_execute = true,
            other => {
                let what = format!("\"{}\" is no tool", other.escape_debug());
                let guess = nearest(other, OFFERS);
                let valid = OFFERS.map(str::to_owned).to_vec();
                loader.reader.listed(word.at, &word.key, what, valid, guess);
            }
        }
    }
    offered
}

fn commands<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>, names: &Names) -> Option<Vec<String>> {
    let words = loader.reader.list(section, "commands")?;
    if words.is_empty() {
        let what = "is empty, which admits nothing: leave the key out to admit all";
        loader.reader.problem(section.at, &section.key_of("commands"), what);
    }
    for word in words.iter().filter(|word| !names.admit(&word.text)) {
        let what = format!("\"{}\" is not allowed by this policy", word.text.escape_debug());
        let valid: Vec<String> = names.commands.keys().cloned().collect();
        let guess = nearest(&word.text, valid.iter().map(String::as_str));
        loader.reader.listed(word.at, &word.key, what, valid, guess);
    }
    Some(words.into_iter().map(|word| word.text).collect())
}

fn directory<'t>(
    loader: &mut Loader<'t, '_>,
    section: &Section<'t>,
    workspace: Option<&Workspace>,
) -> Option<PathBuf> {
    let Word { key, at, text } = Reader::text(section, "cwd")?;
    match workspace?.resolve(Some(Path::new(&text))) {
        Ok(cwd) => Some(cwd.path().to_path_buf()),
        Err(error) => {
            loader.reader.problem(at, &key, format!("{error}; name a directory of the workspace"));
            None
        }
    }
}

fn limits<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>, policy: &Limits) -> Option<Limits> {
    let section = loader.reader.subsection(section, "limits");
    let mut limits = policy.clone();
    let mut written = false;
    for key in keys::of_section(LIMITS) {
        let Some(item) = section.get(key.name) else { continue };
        let (at, full) = (item.at, item.key.clone());
        // A number at fault is reported there; what comes back in its place is not looked at.
        let before = loader.reader.faults();
        let number = loader.reader.number(&section, key.name);
        if loader.reader.faults() > before {
            continue;
        }
        written = true;
        if let Err(what) = tighten(&mut limits, policy, key.name, number) {
            loader.reader.problem(at, &full, what);
        }
    }
    limits.timeout = limits.timeout.min(limits.max_timeout);
    limits.max_jobs = limits.max_jobs.min(limits.jobs);
    written.then_some(limits)
}

/// Sets one limit of a toolkit, in the unit of the table of keys: none may be above that of the
/// policy, except that its `timeout` goes up to the largest one a caller could ask for anyway.
pub(super) fn tighten(limits: &mut Limits, policy: &Limits, name: &str, number: u64) -> Result<(), String> {
    let key = keys::find(LIMITS, name).ok_or_else(|| format!("{name} is no limit of a toolkit"))?;
    let show = |number| key.kind.show(number);
    let ceiling_name = if name == "timeout" { "max_timeout" } else { name };
    let held = if name == "timeout" { &mut *limits } else { &mut policy.clone() };
    let mut ceiling = limit(held, ceiling_name)?.get();
    if name == "max_jobs" {
        ceiling = ceiling.min(limit(limits, "jobs")?.get());
    }
    if number > ceiling {
        return Err(format!(
            "{} exceeds {ceiling_name} ({}): a toolkit may only be stricter than its policy; lower it, or raise \
             limits.{ceiling_name} of the policy",
            show(number),
            show(ceiling)
        ));
    }
    if name == "cpu_time" && !number.is_multiple_of(1000) {
        return Err("takes whole seconds, as RLIMIT_CPU does".into());
    }
    limit(limits, name)?.set(number);
    Ok(())
}

/// One limit, to be read and set as a number in the unit of the table.
enum Slot<'l> {
    Size(&'l mut usize),
    Number(&'l mut u64),
    Time(&'l mut Duration),
}

impl Slot<'_> {
    fn get(&self) -> u64 {
        match self {
            Self::Size(size) => u64::try_from(**size).unwrap_or(u64::MAX),
            Self::Number(number) => **number,
            Self::Time(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn set(self, number: u64) {
        match self {
            Self::Size(size) => *size = usize::try_from(number).unwrap_or(usize::MAX),
            Self::Number(own) => *own = number,
            Self::Time(time) => *time = Duration::from_millis(number),
        }
    }
}

fn limit<'l>(limits: &'l mut Limits, name: &str) -> Result<Slot<'l>, String> {
    Ok(match name {
        "max_timeout" => Slot::Time(&mut limits.max_timeout),
        "timeout" => Slot::Time(&mut limits.timeout),
        "output_bytes" => Slot::Size(&mut limits.output_bytes),
        "output_lines" => Slot::Size(&mut limits.output_lines),
        "memory" => Slot::Number(&mut limits.memory),
        "cpu_time" => Slot::Time(&mut limits.cpu_time),
        "file_size" => Slot::Number(&mut limits.file_size),
        "open_files" => Slot::Number(&mut limits.open_files),
        "stdin_bytes" => Slot::Size(&mut limits.stdin_bytes),
        "jobs" => Slot::Size(&mut limits.jobs),
        "max_jobs" => Slot::Size(&mut limits.max_jobs),
        "max_finished_jobs" => Slot::Size(&mut limits.max_finished_jobs),
        "job_ttl" => Slot::Time(&mut limits.job_ttl),
        "max_job_time" => Slot::Time(&mut limits.max_job_time),
        _ => return Err(format!("{name} is no limit of a toolkit")),
    })
}

fn text<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>, name: &str) -> Option<String> {
    let Word { key, at, text } = Reader::text(section, name)?;
    match told(name, &text) {
        Ok(()) => Some(text),
        Err(what) => {
            loader.reader.problem(at, &key, what);
            None
        }
    }
}

/// Whether clients may be told this text: not empty, not endless, nothing that a terminal would obey.
pub(super) fn told(name: &str, text: &str) -> Result<(), String> {
    let most = LONGEST.iter().find(|(known, _)| *known == name).map_or(0, |(_, most)| *most);
    let count = text.chars().count();
    let line = name != "instructions";
    if text.trim().is_empty() {
        return Err("is empty: leave it out".into());
    }
    if count > most {
        return Err(format!("has {count} characters; at most {most} are told to clients"));
    }
    let control = |c: char| c.is_control() && (line || !matches!(c, '\n' | '\t'));
    match text.chars().find(|c| control(*c)) {
        Some(c) => Err(format!("holds the control character {}: remove it", c.escape_unicode())),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "toolkits_tests.rs"]
mod tests;
