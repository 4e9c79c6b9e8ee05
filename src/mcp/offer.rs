//! What clients are told about a policy: prefixes, names and limits, and nothing else of it.

use std::time::Duration;

use crate::config::Config;

/// One tool prefix with the names its tools may run.
#[derive(Debug, Clone)]
pub struct Kit {
    /// `sh` gives `sh_run` and `sh_allowed`.
    pub prefix: String,
    /// Exact names, sorted.
    pub names: Vec<String>,
}

/// The part of a policy that clients see.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Prefixes in order.
    pub kits: Vec<Kit>,
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
        let all = || config.commands.keys().cloned().collect();
        let kits = config.toolkits.values().map(|toolkit| {
            let mut names: Vec<String> = toolkit.commands.clone().unwrap_or_else(all);
            names.sort();
            Kit { prefix: toolkit.prefix.clone(), names }
        });
        Self {
            kits: kits.collect(),
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

    /// The answer of the `allowed` tool: one entry a line.
    #[must_use]
    pub fn allowed(&self, kit: &Kit) -> String {
        if self.allow_any {
            return "Any command name may run: this policy has no allow-list.".to_owned();
        }
        let patterns = self.patterns.iter().map(|pattern| format!("names that match {pattern}"));
        kit.names.iter().cloned().chain(patterns).collect::<Vec<_>>().join("\n")
    }
}
