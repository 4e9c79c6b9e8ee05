//! `cofferdam check`: validates a policy, runs its examples, and says what it leaves open.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;

use crate::config::{Config, ConfigError, LoadOptions, Source, examples, keys};
use crate::policy::{Policy, PolicyError, Reason};

/// A policy that does not load, or whose examples fail.
const BAD: u8 = 1;

/// Validate a policy file, run its examples and print what it leaves open.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam check                            the built-in policy, for the current directory
  cofferdam check policy.toml                a file; every fault with its line and column
  cofferdam check policy.toml --workspace .  with another workspace than the file names
  cofferdam check --json policy.toml         the same as one JSON object
  cofferdam check --help-keys                every key, its type, default and meaning

Exit status: 0 the policy is good, 1 it is not, 125 the command line is wrong.")]
pub struct Args {
    /// Policy file; without one, the built-in policy
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Directory to take in place of the policy's workspace
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print every key of a policy file and end
    #[arg(long, conflicts_with_all = ["file", "workspace", "json"])]
    help_keys: bool,
}

/// What `check` found in a policy that loads.
#[derive(Debug)]
struct Findings {
    failures: Vec<examples::Failure>,
    warnings: Vec<String>,
    notes: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    if args.help_keys {
        return print(&keys::help(), 0);
    }
    let options = LoadOptions { workspace: args.workspace, ..LoadOptions::default() };
    let loaded = match &args.file {
        Some(file) => Config::load_with(file, &options),
        None => Config::builtin_with(&options),
    };
    match loaded {
        Err(error) if args.json => print(&format!("{}\n", refusal(&error)), BAD),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(BAD)
        }
        Ok(config) => {
            let config = Arc::new(config);
            let findings = match examine(Arc::clone(&config)) {
                Ok(findings) => findings,
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::from(BAD);
                }
            };
            let status = if findings.failures.is_empty() { 0 } else { BAD };
            let text = if args.json {
                format!("{}\n", object(&config, &findings))
            } else {
                summary(&config, &findings)
            };
            print(&text, status)
        }
    }
}

fn examine(config: Arc<Config>) -> Result<Findings, PolicyError> {
    let policy = Policy::new(Arc::clone(&config), &crate::config::server_environment())?;
    let failures = examples::run(&config, |argv| {
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        policy.judge_argv(&argv, None).map(drop).map_err(|denial| denial.message)
    });
    let mut warnings = config.warnings();
    for name in config.commands.keys() {
        if let Err(denial) = policy.judge_argv(&[name.as_bytes()], None)
            && denial.reason == Reason::CommandAlwaysDenied
        {
            warnings.push(format!("{name} is listed, but never runs: {}", denial.message));
        }
    }
    let mut notes = policy.notes();
    notes.extend(config.notes());
    Ok(Findings { failures, warnings, notes })
}

fn print(text: &str, status: u8) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::from(status),
        Err(error) => {
            eprintln!("cofferdam check: cannot write to standard output: {error}");
            ExitCode::from(BAD)
        }
    }
}

fn source(config: &Config) -> String {
    match &config.source {
        Source::Builtin => "built-in policy".into(),
        Source::File(path) => path.display().to_string(),
    }
}

fn summary(config: &Config, findings: &Findings) -> String {
    let mut out = String::new();
    let verdict = if findings.failures.is_empty() { "good" } else { "its examples fail" };
    let _ = writeln!(out, "{}: {verdict}", source(config));
    let _ = writeln!(out, "  digest     {}", config.digest);
    let access = if config.workspace.write { "writable" } else { "read-only" };
    let _ = writeln!(out, "  workspace  {} ({access})", config.workspace.path.display());
    let names = match (config.allow_any, config.allow_patterns.len()) {
        (true, _) => "any".to_owned(),
        (false, 0) => config.commands.len().to_string(),
        (false, patterns) => format!("{} and {patterns} patterns", config.commands.len()),
    };
    let _ = writeln!(out, "  commands   {names}");
    let _ = writeln!(out, "  examples   {}", examples::count(config));
    for failure in &findings.failures {
        let _ = writeln!(out, "error: {failure}");
    }
    for warning in &findings.warnings {
        let _ = writeln!(out, "WARNING: {warning}");
    }
    for missing in &config.missing {
        let _ = writeln!(out, "missing: {missing}");
    }
    for note in &findings.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn object(config: &Config, findings: &Findings) -> serde_json::Value {
    let failure = |failure: &examples::Failure| json!({"key": failure.key, "line": failure.line, "message": failure.what});
    json!({
        "ok": findings.failures.is_empty(),
        "policy": source(config),
        "digest": config.digest,
        "workspace": {"path": config.workspace.path.display().to_string(), "write": config.workspace.write},
        "commands": config.commands.keys().collect::<Vec<_>>(),
        "allow_patterns": config.allow_patterns.iter().map(|pattern| pattern.as_str()).collect::<Vec<_>>(),
        "allow_any": config.allow_any,
        "examples": examples::count(config),
        "errors": findings.failures.iter().map(failure).collect::<Vec<_>>(),
        "warnings": findings.warnings,
        "missing": config.missing,
        "notes": findings.notes,
    })
}

fn refusal(error: &ConfigError) -> serde_json::Value {
    let problem = |problem: &crate::config::Problem| {
        json!({
            "line": problem.place.map(|place| place.line),
            "column": problem.place.map(|place| place.column),
            "key": problem.key,
            "message": problem.what,
            "valid": problem.valid,
            "did_you_mean": problem.nearest,
        })
    };
    json!({
        "ok": false,
        "policy": error.file,
        "errors": error.problems.iter().map(problem).collect::<Vec<_>>(),
    })
}
