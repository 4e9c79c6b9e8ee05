//! The judge: one road from a request to a verdict.
//!
//! Purpose: the order of the rules. Each rule lives in its own file; this one only asks them, first
//! to last, and makes the [`Authorized`] value. Pure: the working directory comes already opened, and
//! names without an entry are resolved by the configuration's own resolver, which remembers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, NulError};
use std::path::Path;
use std::sync::Arc;

use super::allow::AllowList;
use super::environment::Base;
use super::grammar::Library;
use super::grammars::{self, Grammars};
use super::names::{self, DeniedNames};
use super::paths::{self, View};
use super::toolkit::Narrowed;
use super::words::quoted;
use super::{Asking, Authorized, Denial, PolicyError, Reason, Request, RuleKind, Target, Verdict, bounds};
use crate::config::program::Program;
use crate::config::workspace::{Cwd, CwdError};
use crate::config::{Command, Config};

/// Commands that may stand in the arguments of one another (`nice timeout 5 sort`).
const NESTED: usize = 8;

/// A compiled policy: judges any number of requests, from any thread.
#[derive(Debug)]
pub struct Policy {
    config: Arc<Config>,
    denied: &'static DeniedNames,
    pub(super) library: Library,
    own: AllowList,
    /// Toolkits that are narrowed to some names.
    toolkits: BTreeMap<String, Narrowed>,
    environment: Base,
    /// Commands by the file behind them: their argument rules hold under any other name, too.
    by_file: HashMap<(u64, u64), Vec<Named>>,
}

/// Where an argument vector stands.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    list: &'a AllowList,
    /// Names that the list is narrowed to, at any depth.
    kit: Option<&'a Narrowed>,
    /// Directories between the root of the workspace and the working directory.
    level: usize,
    /// How many commands it is deep in another one's arguments.
    depth: usize,
}

/// A command with the grammars of its own names.
type Named = (Arc<Command>, Grammars);

/// The rule that allowed an argument vector, with the grants that come with it.
#[derive(Debug, Clone)]
pub struct Rule<'a> {
    /// `allow`, `allow_patterns` or `allow_any`.
    pub id: &'static str,
    /// Kind of it.
    pub kind: RuleKind,
    /// A person has to agree, each time (`consent = "ask"`).
    pub asks: bool,
    grant: Grant<'a>,
}

/// Where the grants of an allowed name come from.
#[derive(Debug, Clone)]
enum Grant<'a> {
    /// Its own entry.
    Listed(&'a Arc<Command>),
    /// None but the program itself, if there is one.
    Plain(Option<Arc<Program>>, Grammars),
}

impl Rule<'_> {
    /// The allow-list entry, or a plain one made for `name`. A plain one is named after the file (with a
    /// blank, as no entry can be): `/bin/./ls` and `/bin//ls` are one profile, not one more each time.
    #[must_use]
    pub fn command(&self, name: &str) -> Arc<Command> {
        match &self.grant {
            Grant::Listed(command) => Arc::clone(command),
            Grant::Plain(program, grammars) => {
                let file = program.as_ref().map(|program| format!("any {}", program.real.display()));
                let command = Command::plain(file.as_deref().unwrap_or(name), program.clone());
                grammars.with_presets(Arc::new(command))
            }
        }
    }
}

impl Policy {
    /// Compiles a configuration. `server_env` is the server's own environment, taken once, of which
    /// only the names that the policy passes are kept.
    ///
    /// # Errors
    /// When a pattern does not compile for whole names, a toolkit names a command that the policy
    /// does not have, or a fixed environment value holds a NUL byte.
    pub fn new(config: Arc<Config>, server_env: &[(String, String)]) -> Result<Self, PolicyError> {
        let denied = DeniedNames::shipped()?;
        let library = Library::new(&config.grammars)?;
        let own = AllowList::new(
            config.commands.values().cloned(),
            &config.allow_patterns,
            config.allow_any,
            denied,
            &library,
        )?;
        let mut toolkits = BTreeMap::new();
        for (prefix, toolkit) in &config.toolkits {
            if let Some(narrowed) = Narrowed::new(toolkit, &own)? {
                toolkits.insert(prefix.clone(), narrowed);
            }
        }
        let mut by_file: HashMap<_, Vec<_>> = HashMap::new();
        check_values(&config.environment.set)?;
        for command in config.commands.values() {
            check_values(&command.environment)?;
            if let Some(program) = &command.program {
                let grammars = Grammars::of(&library, command.name.as_bytes(), Some(program))
                    .map_err(PolicyError::Grammar)?;
                by_file.entry((program.dev, program.ino)).or_default().push((Arc::clone(command), grammars));
            }
        }
        let environment = Base::new(&config.environment, server_env);
        Ok(Self { denied, library, own, toolkits, environment, by_file, config })
    }

    /// The configuration behind this policy.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Names that `command` finds set in its environment.
    #[must_use]
    pub fn environment_names<'a>(&'a self, command: &'a Command) -> Vec<&'a str> {
        self.environment.names(command).into_iter().collect()
    }

    /// Variables that every command finds set, with their values: the only ones that a line may name.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        self.environment.fixed()
    }

    /// What the argument rules leave to the kernel profile.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = grammars::notes(self.own.entries());
        let replaced: Vec<&str> = self.library.replaced().into_iter().collect();
        if !replaced.is_empty() {
            notes.push(format!(
                "shipped option grammars that files of `programs` replace: {}",
                replaced.join(", ")
            ));
        }
        notes
    }

    /// Another allow-list under the same policy, for `explain`: as in a policy file, a listed name
    /// stands for an empty `[command.NAME]` table. The programs need not be installed.
    ///
    /// # Errors
    /// When a pattern is not a regular expression.
    pub fn allow_list(&self, names: &[&str], patterns: &[&str]) -> Result<AllowList, PolicyError> {
        let commands =
            names.iter().map(|name| Arc::new(Command::plain(name, self.config.programs.find(name))));
        let mut compiled = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            compiled.push(regex::Regex::new(pattern).map_err(|error| PolicyError::Pattern {
                pattern: (*pattern).to_owned(),
                problem: error.to_string(),
            })?);
        }
        AllowList::new(commands, &compiled, false, self.denied, &self.library)
    }

    /// Judges a request. The name and its arguments come first; only then is the working directory,
    /// which the caller has resolved beneath the workspace, looked at.
    #[must_use]
    pub fn judge(&self, request: &Request, cwd: Result<Cwd, CwdError>) -> Verdict {
        match self.authorize(request, cwd) {
            Ok((authorized, false)) => Verdict::Allow(Box::new(authorized)),
            Ok((authorized, true)) => Verdict::Ask(Box::new(Asking::new(Box::new(authorized), request))),
            Err(denial) => Verdict::Deny(denial),
        }
    }

    /// The authorisation, and whether a person has to agree before anybody gets it.
    fn authorize(&self, request: &Request, cwd: Result<Cwd, CwdError>) -> Result<(Authorized, bool), Denial> {
        let argv: Vec<&[u8]> = request.argv.iter().map(Vec::as_slice).collect();
        let toolkit = request.toolkit.as_deref();
        let rule = self.judge_toolkit(&argv, toolkit, &cwd, &request.env)?;
        let cwd = cwd.map_err(|error| bounds::cwd_denial(&error))?;
        let limits = self.config.limits_of(toolkit);
        let (timeout, timeout_clamped) = bounds::within(limits, request)?;
        let name = argv.first().map_or(Cow::Borrowed(""), |name| String::from_utf8_lossy(name));
        let command = rule.command(&name);
        let effective = self.environment.effective(&command, &request.env);
        let mut env = Vec::with_capacity(effective.len());
        for (name, value) in effective {
            // With room for the terminator, so that each entry is allocated once.
            let mut entry = Vec::with_capacity(name.len().saturating_add(value.len()).saturating_add(2));
            entry.extend_from_slice(name.as_bytes());
            entry.push(b'=');
            entry.extend_from_slice(value.as_bytes());
            env.push(CString::new(entry).map_err(|error| bounds::nul(&error))?);
        }
        let argv: Result<Vec<CString>, NulError> =
            request.argv.iter().map(|arg| CString::new(arg.as_slice())).collect();
        let authorized = Authorized {
            argv: argv.map_err(|error| bounds::nul(&error))?,
            target: command.program.clone().map_or(Target::Missing, Target::Found),
            env,
            cwd,
            command,
            limits: limits.clone(),
            timeout,
            timeout_clamped,
            rule: rule.id.to_owned(),
        };
        Ok((authorized, rule.asks))
    }

    /// Judges a request of a toolkit as [`Policy::judge_call`] does: its names first, then everything
    /// that holds without one. So no toolkit can admit what the policy refuses.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge_toolkit<'a>(
        &'a self,
        argv: &[&[u8]],
        toolkit: Option<&str>,
        cwd: &Result<Cwd, CwdError>,
        env: &[(String, String)],
    ) -> Result<Rule<'a>, Denial> {
        let kit = self.narrowing(toolkit)?;
        let rule = self.judge_placed(argv, Place { list: &self.own, kit, level: 0, depth: 0 }, cwd, env)?;
        let kit = toolkit.and_then(|prefix| self.config.toolkits.get(prefix));
        Ok(Rule { asks: rule.asks || kit.is_some_and(|kit| kit.consent), ..rule })
    }

    /// What a toolkit is narrowed to. A prefix that the policy does not have is refused.
    fn narrowing(&self, toolkit: Option<&str>) -> Result<Option<&Narrowed>, Denial> {
        let Some(prefix) = toolkit else { return Ok(None) };
        if !self.config.toolkits.contains_key(prefix) {
            let message = format!("Toolkit {} is not part of the policy.", quoted(prefix.as_bytes()));
            return Err(Denial::new("toolkit", RuleKind::Allow, Reason::CommandNotAllowed, message)
                .instead("use a tool that the server lists"));
        }
        Ok(self.toolkits.get(prefix))
    }

    /// Judges the name and its arguments only. `allow` stands in for the policy's own allow-list.
    /// Does not allocate for an allowed name that is listed.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge_argv<'a>(
        &'a self,
        argv: &[&[u8]],
        allow: Option<&'a AllowList>,
    ) -> Result<Rule<'a>, Denial> {
        self.judge_nested(argv, Place { list: allow.unwrap_or(&self.own), kit: None, level: 0, depth: 0 })
    }

    /// Judges a request as [`Policy::judge`] does, short of making it ready to run: name and arguments,
    /// then the working directory, then the environment asked for. `allow` stands in for the policy's own
    /// allow-list.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge_call<'a>(
        &'a self,
        argv: &[&[u8]],
        allow: Option<&'a AllowList>,
        cwd: &Result<Cwd, CwdError>,
        env: &[(String, String)],
    ) -> Result<Rule<'a>, Denial> {
        let list = allow.unwrap_or(&self.own);
        self.judge_placed(argv, Place { list, kit: None, level: 0, depth: 0 }, cwd, env)
    }

    fn judge_placed<'a>(
        &'a self,
        argv: &[&[u8]],
        place: Place<'a>,
        cwd: &Result<Cwd, CwdError>,
        env: &[(String, String)],
    ) -> Result<Rule<'a>, Denial> {
        // A working directory that is refused further down climbs nowhere.
        let level = cwd.as_ref().map_or(0, |cwd| self.level(cwd.path()));
        let rule = self.judge_nested(argv, Place { level, ..place })?;
        cwd.as_ref().map_err(bounds::cwd_denial)?;
        self.environment.check(env, self.config.limits.argument_bytes)?;
        Ok(rule)
    }

    /// How many directories `cwd` lies beneath the root of the workspace.
    fn level(&self, cwd: &Path) -> usize {
        cwd.strip_prefix(&self.config.workspace.path).map_or(0, |below| below.components().count())
    }

    /// Judges `argv`, which may stand in another command's arguments.
    fn judge_nested<'a>(&'a self, argv: &[&[u8]], place: Place<'a>) -> Result<Rule<'a>, Denial> {
        let list = place.list;
        let Some((name, rest)) = argv.split_first().filter(|(name, _)| !name.is_empty()) else {
            let message = "No command was given.";
            return Err(Denial::new("names.empty", RuleKind::BuiltinDeny, Reason::EmptyCommand, message)
                .instead("give the name of a program as the first element"));
        };
        bounds::check_size(&self.config.limits, argv)?;
        let text = names::spelled(name)?;
        if let Some(kit) = place.kit
            && !kit.admits(name)
        {
            if list.entry(name).is_none() {
                self.denied.check_asked(name)?;
            }
            return Err(kit.refusal(name));
        }
        if let Some(entry) = list.entry(name) {
            if let Some(refused) = &entry.refused {
                return Err(refused.clone());
            }
            self.check_place(text)?;
            let nested = self.check_arguments(&entry.grammars, &entry.command, rest, place)?;
            let asks = self.config.consent || entry.command.consent || nested;
            return Ok(Rule {
                id: "allow",
                kind: RuleKind::Allow,
                asks,
                grant: Grant::Listed(&entry.command),
            });
        }
        self.denied.check_asked(name)?;
        let Some((id, kind)) = list.admits(text) else { return Err(list.not_listed(name)) };
        self.check_place(text)?;
        let program = self.config.programs.find(text);
        let grammars = Grammars::of(&self.library, name, program.as_deref())
            .map_err(|problem| grammars::broken(&problem))?;
        let (mut judged, mut presets, mut asks) = (false, &grammars, self.config.consent);
        if let Some(program) = &program {
            self.denied.check_resolved(name, program)?;
            let commands = self.by_file.get(&(program.dev, program.ino));
            for (command, own) in commands.into_iter().flatten() {
                // A hard link hides the name that the file has a grammar under.
                let grammars = if grammars.is_empty() { own } else { &grammars };
                presets = grammars;
                asks |= command.consent | self.check_arguments(grammars, command, rest, place)?;
                judged = true;
            }
        }
        if !judged {
            asks |= self.check_arguments(&grammars, &Command::plain(text, None), rest, place)?;
        }
        let grant = Grant::Plain(program, presets.clone());
        Ok(Rule { id, kind, asks, grant })
    }

    /// A program is never one of the workspace, which whoever writes there chooses.
    fn check_place(&self, name: &str) -> Result<(), Denial> {
        if !name.contains('/') {
            return Ok(());
        }
        let workspace = &self.config.workspace.path;
        let (rule, what, instead) = if !name.starts_with('/') {
            ("names.relative", "is a relative path", "use a bare name or an absolute path")
        } else if workspace != Path::new("/") && paths::resolved(Path::new(name)).starts_with(workspace) {
            ("names.workspace", "lies in the workspace", "use a program of the host")
        } else {
            return Ok(());
        };
        let message = format!("Command {} {what}; {instead}.", quoted(name.as_bytes()));
        let reason = Reason::CommandNotAllowed;
        Err(Denial::new(rule, RuleKind::BuiltinDeny, reason, message).at(0).instead(instead))
    }

    /// Whether a command in the arguments asks for consent.
    fn check_arguments(
        &self,
        grammars: &Grammars,
        command: &Command,
        rest: &[&[u8]],
        place: Place<'_>,
    ) -> Result<bool, Denial> {
        if !self.config.argument_rules {
            return Ok(false);
        }
        let view = View {
            workspace: &self.config.workspace.path,
            granted: [&self.config.sandbox.read, &command.read, &command.execute],
            depth: place.level,
        };
        let view = (!command.any_path).then_some(view);
        let Some((_, nested)) = grammars.check(command, rest, view)?.and_then(|at| rest.split_at_checked(at))
        else {
            return Ok(false);
        };
        if place.depth >= NESTED {
            return Err(bounds::too_large(
                "arguments.nested",
                format!("More than {NESTED} commands stand in each other's arguments."),
            ));
        }
        let place = Place { depth: place.depth.saturating_add(1), ..place };
        let start = rest.len().saturating_sub(nested.len()).saturating_add(1);
        match self.judge_nested(nested, place) {
            Ok(rule) => Ok(rule.asks),
            Err(denial) => Err(denial.nested_at(start)),
        }
    }
}

fn check_values(values: &BTreeMap<String, String>) -> Result<(), PolicyError> {
    let broken = values.iter().find(|(name, value)| name.contains('\0') || value.contains('\0'));
    broken.map_or(Ok(()), |(name, _)| Err(PolicyError::EnvironmentNul(name.clone())))
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
