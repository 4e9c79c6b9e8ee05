//! What may run: `allow`, `allow_patterns`, `allow_any` and `[command.NAME]`.
//!
//! Resolves every name to its program while the policy loads. Called by `load.rs` only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::error::nearest;
use super::load::Loader;
use super::program::{Absent, Program, Programs};
use super::read::{Reader, Section, Word};
use super::workspace::Workspace;
use super::{Command, Switch, argument_rules, builtin, examples, sections, values};

/// Everything that decides on names.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) commands: BTreeMap<String, Arc<Command>>,
    pub(super) patterns: Vec<regex::Regex>,
    pub(super) any: bool,
    /// Some list has an entry, be it at fault.
    listed: bool,
}

impl Names {
    /// Whether some list of the policy admits this name.
    pub(super) fn admit(&self, name: &str) -> bool {
        self.any
            || self.commands.contains_key(name)
            || self.patterns.iter().any(|pattern| pattern.is_match(name))
    }
}

pub(super) fn names<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    programs: Option<&Programs>,
    workspace: Option<&Workspace>,
) -> Names {
    let mut names = Names { any: Reader::flag(root, "allow_any"), ..Names::default() };
    for word in loader.reader.list(root, "allow_patterns").unwrap_or_default() {
        names.listed = true;
        match values::pattern(&word.text) {
            Ok(pattern) => names.patterns.push(pattern),
            Err(what) => loader.reader.problem(word.at, &word.key, what),
        }
    }
    let tables = loader.reader.named(root, "command");
    for (word, section) in &tables {
        let command = command(loader, word, Some(section), programs, workspace);
        names.commands.insert(word.text.clone(), Arc::new(command));
    }
    for word in loader.reader.list(root, "allow").unwrap_or_default() {
        if names.commands.contains_key(&word.text) {
            let what = format!("\"{}\" also has a [command] table: keep one", word.text.escape_debug());
            loader.reader.problem(word.at, &word.key, what);
            continue;
        }
        let command = command(loader, &word, None, programs, workspace);
        names.commands.insert(word.text, Arc::new(command));
    }
    names.listed |= !names.commands.is_empty();
    exclusive(loader, root, &names);
    names
}

fn exclusive<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>, names: &Names) {
    let written = |name: &str| root.get(name).is_some();
    let lists = ["allow", "allow_patterns", "command"].into_iter().filter(|name| written(name));
    let lists: Vec<&str> = lists.collect();
    match root.get("allow_any") {
        Some(item) if names.any && !lists.is_empty() => {
            let what = format!("allow_any and {} are mutually exclusive: keep one", lists.join(", "));
            loader.reader.problem(item.at, "allow_any", what);
        }
        _ => {}
    }
    // Entries at fault were reported; a second complaint about them would mislead.
    let tried = ["allow", "allow_patterns", "command", "allow_any"]
        .into_iter()
        .any(|name| root.is_written(name) && root.get(name).is_none());
    if !names.any && !names.listed && !tried {
        let what = "the policy requires a non-empty allow-list: allow, allow_patterns or [command.NAME] \
                    (or allow_any = true when consent is enforced elsewhere, such as by the MCP client)";
        loader.reader.absent("allow", what);
    }
}

fn command<'t>(
    loader: &mut Loader<'t, '_>,
    word: &Word,
    section: Option<&Section<'t>>,
    programs: Option<&Programs>,
    workspace: Option<&Workspace>,
) -> Command {
    let program = match (values::command_name(&word.text), programs) {
        (Err(what), _) => {
            loader.reader.problem(word.at, &word.key, what);
            None
        }
        (Ok(()), Some(programs)) => program(loader, word, programs),
        // The search path is at fault, which was reported.
        (Ok(()), None) => None,
    };
    let mut command = Command::plain(&word.text, program);
    if let Some(section) = section {
        grants(loader, &mut command, section, workspace);
        rules(loader, &mut command, section);
    }
    command
}

fn program(loader: &mut Loader<'_, '_>, word: &Word, programs: &Programs) -> Option<Arc<Program>> {
    let absent = match programs.lookup(&word.text) {
        Ok(program) => return Some(program),
        Err(absent) => absent,
    };
    match &absent {
        Absent::NotFound(name) if loader.is_builtin() => {
            let remedy = builtin::remedy(name).unwrap_or_else(|| "install it".into());
            loader.missing.push(format!("{name}: not installed; {remedy}"));
        }
        _ => loader.reader.problem(word.at, &word.key, absence(&absent)),
    }
    None
}

/// Why there is no program, and what to do.
pub(super) fn absence(absent: &Absent) -> String {
    match absent {
        Absent::NotFound(name) if name.starts_with('/') => format!("program \"{name}\" does not exist"),
        Absent::NotFound(name) => {
            let remedy = builtin::remedy(name).map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            format!("program \"{name}\" is in no directory of environment.path{remedy}")
        }
        Absent::InWorkspace(path) => format!(
            "program {} lies in the workspace, where nothing can be executed: install it elsewhere",
            path.display()
        ),
        Absent::NotExecutable(_) | Absent::Relative(_) => absent.to_string(),
    }
}

/// What the kernel grants the command, and its presets.
fn grants<'t>(
    loader: &mut Loader<'t, '_>,
    command: &mut Command,
    section: &Section<'t>,
    workspace: Option<&Workspace>,
) {
    for word in loader.reader.list(section, "execute").unwrap_or_default() {
        let Some(path) = sections::existing(loader, &word) else { continue };
        if overlaps_writable(workspace, &path) {
            let what =
                format!("{} and the writable workspace overlap: never write and execute", path.display());
            loader.reader.problem(word.at, &word.key, what);
        }
        command.execute.push(path);
    }
    for word in loader.reader.list(section, "read").unwrap_or_default() {
        command.read.extend(sections::existing(loader, &word));
    }
    for word in loader.reader.list(section, "kernel").unwrap_or_default() {
        match word.text.parse() {
            Ok(switch) => command.kernel.push(switch),
            Err(what) => {
                let valid = Switch::ALL.map(Switch::as_str);
                let guess = nearest(&word.text, valid);
                loader.reader.listed(word.at, &word.key, what, valid.map(str::to_owned).to_vec(), guess);
            }
        }
    }
    command.kernel.sort_unstable();
    if section.get("network").is_some() {
        command.network = Some(sections::network(loader, section));
    }
    for (word, value) in Reader::map(section, "environment") {
        if sections::env_name(loader, &word, true) && sections::env_value(loader, &word, &value) {
            command.environment.insert(word.text, value);
        }
    }
    command.interpreter = Reader::text(section, "interpreters").is_some();
}

fn overlaps_writable(workspace: Option<&Workspace>, path: &Path) -> bool {
    let around = |workspace: &Workspace| {
        workspace.write && path.canonicalize().is_ok_and(|real| workspace.path.starts_with(real))
    };
    sections::lies_in_writable(workspace, path) || workspace.is_some_and(around)
}

/// What is looked at in its arguments.
fn rules<'t>(loader: &mut Loader<'t, '_>, command: &mut Command, section: &Section<'t>) {
    if let Some(words) = loader.reader.list(section, "subcommands") {
        if words.is_empty() {
            let at = section.get("subcommands").map_or(section.at, |item| item.at);
            let what = "is empty, which admits nothing: leave the key out to admit all";
            loader.reader.problem(at, &section.key_of("subcommands"), what);
        }
        for word in &words {
            if word.text.is_empty() || word.text.starts_with('-') || word.text.contains(char::is_whitespace) {
                let what =
                    format!("\"{}\" is not a subcommand: one word, no option", word.text.escape_debug());
                loader.reader.problem(word.at, &word.key, what);
            }
        }
        command.subcommands = Some(words.into_iter().map(|word| word.text).collect());
    }
    for word in loader.reader.list(section, "deny_options").unwrap_or_default() {
        argument_rules::option_name(loader, &word);
        command.deny_options.push(word.text);
    }
    command.argument_rules = argument_rules::read(loader, section, &command.deny_options);
    command.known_only = Reader::text(section, "arguments").is_some_and(|word| word.text == "known");
    command.any_path = Reader::text(section, "paths").is_some();
    command.consent = sections::consent(section);
    let lines = loader.reader.subsection(section, "examples");
    command.examples_allow = example_lines(loader, &lines, "allow", &command.name);
    command.examples_deny = example_lines(loader, &lines, "deny", &command.name);
}

fn example_lines<'t>(
    loader: &mut Loader<'t, '_>,
    lines: &Section<'t>,
    name: &str,
    command: &str,
) -> Vec<String> {
    let words = loader.reader.list(lines, name).unwrap_or_default();
    for word in &words {
        let what = match examples::split(&word.text) {
            Ok(argv) if argv.first().is_some_and(|first| first == command.as_bytes()) => continue,
            Ok(_) => format!("an example of \"{command}\" starts with that name"),
            Err(what) => what,
        };
        loader.reader.problem(word.at, &word.key, what);
    }
    words.into_iter().map(|word| word.text).collect()
}
