//! What clients are told about a policy: prefixes, names and limits, and nothing else of it.

use std::time::Duration;

use crate::config::{Config, Limits, ServerIdentity, Toolkit};
use crate::policy::knowledge::never_runs;

/// One tool prefix with the names its tools may run.
#[derive(Debug, Clone, Default)]
pub struct Kit {
    /// `sh` gives `sh_run` and `sh_allowed`.
    pub prefix: String,
    /// Exact names, sorted.
    pub names: Vec<String>,
    /// These names and no others, whatever else the policy admits.
    pub narrowed: bool,
    /// The operator's own words about it.
    pub description: Option<String>,
    /// Directory its commands start in; absent: the root of the workspace.
    pub directory: Option<String>,
    /// Ceilings of its own.
    pub ceilings: Option<Ceilings>,
    /// A person is asked before some of its commands, or all of them.
    pub asks: bool,
}

/// What clients are told of limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// Wall clock of a run that names no timeout.
    pub timeout: Duration,
    /// Largest timeout that is granted.
    pub max_timeout: Duration,
    /// Captured bytes per stream.
    pub output_bytes: usize,
    /// Captured lines per stream.
    pub output_lines: usize,
    /// Runs at the same time, background jobs included.
    pub jobs: usize,
    /// Background jobs at the same time.
    pub max_jobs: usize,
    /// Finished jobs that are kept.
    pub max_finished_jobs: usize,
    /// How long a finished job is kept.
    pub job_ttl: Duration,
}

impl From<&Limits> for Ceilings {
    fn from(limits: &Limits) -> Self {
        Self {
            timeout: limits.timeout,
            max_timeout: limits.max_timeout,
            output_bytes: limits.output_bytes,
            output_lines: limits.output_lines,
            jobs: limits.jobs,
            max_jobs: limits.max_jobs,
            max_finished_jobs: limits.max_finished_jobs,
            job_ttl: limits.job_ttl,
        }
    }
}

/// The part of a policy that clients see.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// What the server says about itself.
    pub server: ServerIdentity,
    /// Prefixes in order.
    pub kits: Vec<Kit>,
    /// What `command_run` may run, where it is offered.
    pub batch: Option<Kit>,
    /// What `shell_execute` may run, where it is offered.
    pub shell: Option<Kit>,
    /// Variables that a caller may set.
    pub variables: Vec<String>,
    /// Patterns that names may match beside the exact ones.
    pub patterns: Vec<String>,
    /// Any name may run.
    pub allow_any: bool,
    /// Path of the workspace, for people.
    pub workspace: String,
    /// Whether commands may write in it.
    pub write: bool,
    /// Wall clock of a run that names no timeout.
    pub timeout: Duration,
    /// Largest timeout that is granted.
    pub max_timeout: Duration,
    /// Captured bytes per stream.
    pub output_bytes: usize,
    /// Captured lines per stream.
    pub output_lines: usize,
    /// Most bytes of standard input.
    pub stdin_bytes: usize,
    /// Runs at the same time, background jobs included.
    pub jobs: usize,
    /// Background jobs at the same time.
    pub max_jobs: usize,
    /// Finished jobs that are kept.
    pub max_finished_jobs: usize,
    /// How long a finished job is kept.
    pub job_ttl: Duration,
}

impl Offer {
    /// Reads it off a loaded policy.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            server: config.server.clone(),
            kits: config.toolkits.values().map(|toolkit| kit(config, toolkit)).collect(),
            batch: config.server.tools.command_run.then(|| batch(config)),
            shell: config.server.tools.shell_execute.then(|| batch(config)),
            variables: config.environment.pass.clone(),
            patterns: config.allow_patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            allow_any: config.allow_any,
            workspace: config.workspace.path.display().to_string(),
            write: config.workspace.write,
            timeout: config.limits.timeout,
            max_timeout: config.limits.max_timeout,
            output_bytes: config.limits.output_bytes,
            output_lines: config.limits.output_lines,
            stdin_bytes: config.limits.stdin_bytes,
            jobs: config.limits.jobs,
            max_jobs: config.limits.max_jobs,
            max_finished_jobs: config.limits.max_finished_jobs,
            job_ttl: config.limits.job_ttl,
        }
    }

    /// The toolkit that `command_run` belongs to: the only one, or none and the policy as a whole.
    #[must_use]
    pub fn batch_toolkit(&self) -> Option<String> {
        match self.kits.as_slice() {
            [only] => Some(only.prefix.clone()),
            _ => None,
        }
    }

    /// Any name may run through this prefix.
    #[must_use]
    pub fn any(&self, kit: &Kit) -> bool {
        self.allow_any && !kit.narrowed
    }

    /// Patterns that names of this prefix may match beside the exact ones.
    #[must_use]
    pub fn patterns(&self, kit: &Kit) -> &[String] {
        if kit.narrowed { &[] } else { &self.patterns }
    }

    /// Limits of the runs of this prefix.
    #[must_use]
    pub fn ceilings(&self, kit: &Kit) -> Ceilings {
        kit.ceilings.unwrap_or_else(|| self.own())
    }

    /// Limits of the policy.
    #[must_use]
    pub fn own(&self) -> Ceilings {
        Ceilings {
            timeout: self.timeout,
            max_timeout: self.max_timeout,
            output_bytes: self.output_bytes,
            output_lines: self.output_lines,
            jobs: self.jobs,
            max_jobs: self.max_jobs,
            max_finished_jobs: self.max_finished_jobs,
            job_ttl: self.job_ttl,
        }
    }

    /// The answer of the `allowed` tool: one entry a line.
    #[must_use]
    pub fn allowed(&self, kit: &Kit) -> String {
        if self.any(kit) {
            return "Any command name may run: this policy has no allow-list.".to_owned();
        }
        let patterns = self.patterns(kit).iter().map(|pattern| format!("names that match {pattern}"));
        kit.names.iter().cloned().chain(patterns).collect::<Vec<_>>().join("\n")
    }
}

fn kit(config: &Config, toolkit: &Toolkit) -> Kit {
    let all = || config.commands.keys().cloned().collect();
    let mut names: Vec<String> = toolkit.commands.clone().unwrap_or_else(all);
    // A name that is always refused is not offered, on the list or not.
    names.retain(|name| config.commands.get(name).is_none_or(|one| matches!(never_runs(one), Ok(false))));
    names.sort();
    let mut commands = names.iter().filter_map(|name| config.commands.get(name));
    Kit {
        asks: config.consent || toolkit.consent || commands.any(|command| command.consent),
        prefix: toolkit.prefix.clone(),
        names,
        narrowed: toolkit.commands.is_some(),
        description: toolkit.description.clone(),
        directory: toolkit.directory.as_ref().map(|path| path.display().to_string()),
        ceilings: toolkit.limits.as_ref().map(Ceilings::from),
    }
}

/// What a batch may run: what the only toolkit may, or the policy. Where no tool lists the names, it has no
/// prefix.
fn batch(config: &Config) -> Kit {
    let only = (config.toolkits.len() == 1).then(|| config.toolkits.values().next()).flatten();
    let whole = Toolkit::default();
    let made = kit(config, only.unwrap_or(&whole));
    if config.server.tools.toolkits { made } else { Kit { prefix: String::new(), ..made } }
}
