//! `cofferdam check`: validates a policy, runs its examples, and says what it leaves open.
//!
//! Purpose: what is wrong with a policy, or weaker than its author thinks, comes out before it is used; and
//! what a change of it changes. Inputs: one policy, or two and a corpus. Called by the command line only;
//! starts nothing.

mod commands;
mod diff;
mod files;
mod lint;
mod patterns;
mod report;
mod samples;
mod settings;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use self::lint::Book;
use self::report::Findings;
use super::policy::ToolkitArgs;
use crate::config::{Config, ConfigError, LoadOptions, Manifest, examples, keys};
use crate::policy::{Policy, PolicyError};

/// A policy that does not load, whose examples fail, or that has warnings where none may be.
const BAD: u8 = 1;

/// Validate a policy file, run its examples and print what it leaves open.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam check                            the built-in policy, for the current directory
  cofferdam check policy.toml                a file; every fault with its line and column
  cofferdam check policy.toml --workspace .  with another workspace than the file names
  cofferdam check mcp.json                   toolkits as JSON, under the built-in policy
  cofferdam check policy.toml --config mcp.json
                                             the same under a policy of your own
  cofferdam check --json policy.toml         the same as one JSON object
  cofferdam check policy.toml --deny-warnings --accept network-open
                                             for a pipeline: fails on what weakens it, but for this
  cofferdam check new.toml --diff old.toml   which command lines it judges otherwise than old.toml
  cofferdam check --help-keys                every key, its type, default and meaning
  cofferdam check --help-lints               every lint, its severity and meaning

Exit status: 0 the policy is good, 1 it is not (with --deny-warnings: or has a warning, or, with
--diff, allows what the other refuses), 125 the command line is wrong or a corpus cannot be read.")]
pub struct Args {
    /// Policy file, or toolkits as a JSON file (NAME.json); without one, the built-in policy
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    toolkits: ToolkitArgs,
    /// Directory to take in place of the policy's workspace
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// End with status 1 when there is a warning
    #[arg(long, visible_alias = "strict")]
    deny_warnings: bool,
    /// Lints that are known and wanted so: they count as notes
    #[arg(long, value_name = "LINT,…", value_delimiter = ',')]
    accept: Vec<String>,
    /// Print only the command lines whose verdict or rule differs from that of another policy file
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,
    /// JSON lines to judge with --diff: {"argv":[…],"allow":[…]?}; without it, all known examples
    #[arg(long, value_name = "FILE", requires = "diff")]
    corpus: Option<PathBuf>,
    /// Print every key of a policy file and end
    #[arg(long, conflicts_with_all = ["file", "workspace", "json", "deny_warnings", "accept", "diff", "help_lints"])]
    help_keys: bool,
    /// Print every lint and end
    #[arg(long, conflicts_with_all = ["file", "workspace", "json", "deny_warnings", "accept", "diff"])]
    help_lints: bool,
}

/// Why there is no answer.
enum Failure {
    /// A policy does not load: status 1, and in JSON an object.
    Config(ConfigError),
    /// A policy cannot be compiled.
    Policy(PolicyError),
    /// Something else than a policy is at fault: status 125.
    Other(String),
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    if args.help_keys {
        return print(&keys::help(), 0);
    }
    if args.help_lints {
        return print(&lint::help(), 0);
    }
    let answered = match &args.diff {
        Some(other) => compared(&args, other),
        None => checked(&args),
    };
    match answered {
        Ok((text, status)) => print(&text, status),
        Err(Failure::Config(error)) if args.json => print(&format!("{}\n", report::refusal(&error)), BAD),
        Err(Failure::Config(error)) => complain(&error.to_string(), BAD),
        Err(Failure::Policy(error)) => complain(&error.to_string(), BAD),
        Err(Failure::Other(problem)) => complain(&format!("cofferdam check: {problem}"), super::FAILED),
    }
}

fn checked(args: &Args) -> Result<(String, u8), Failure> {
    let unknown = lint::unknown(&args.accept);
    if !unknown.is_empty() {
        let problem = format!("--accept of {} failed: no such lint; see --help-lints", unknown.join(", "));
        return Err(Failure::Other(problem));
    }
    let policy = load(args, args.file.as_deref())?;
    let findings = examine(&policy, &args.accept)?;
    let bad = !findings.failures.is_empty() || (args.deny_warnings && findings.warnings().next().is_some());
    let text = if args.json {
        format!("{}\n", report::object(policy.config(), &findings))
    } else {
        report::summary(policy.config(), &findings)
    };
    Ok((text, if bad { BAD } else { 0 }))
}

fn compared(args: &Args, other: &Path) -> Result<(String, u8), Failure> {
    let (before, after) = (load(args, Some(other))?, load(args, args.file.as_deref())?);
    let rows = match &args.corpus {
        Some(corpus) => diff::read(corpus),
        None => diff::known([&before, &after]),
    };
    let rows = rows.map_err(Failure::Other)?;
    let diff = diff::compare(&before, &after, &rows).map_err(Failure::Other)?;
    let bad = args.deny_warnings && diff.count(diff::Change::Allowed) > 0;
    let text = if args.json {
        format!("{}\n", diff::object(&before, &after, &diff))
    } else {
        diff::text(&before, &after, &diff)
    };
    Ok((text, if bad { BAD } else { 0 }))
}

fn load(args: &Args, file: Option<&Path>) -> Result<Policy, Failure> {
    let options = LoadOptions { workspace: args.workspace.clone(), ..LoadOptions::default() };
    let toolkits = &args.toolkits;
    let config = match file.filter(|file| Manifest::is_named(file)) {
        Some(json) if toolkits.config.is_none() => manifest(None, Some(json), args, &options),
        Some(_) => return Err(Failure::Other("check of two JSON files failed: name one of them".into())),
        None => manifest(file, toolkits.config.as_deref(), args, &options),
    };
    let config = Arc::new(config.map_err(Failure::Config)?);
    Ok(Policy::new(config, &crate::config::server_environment())?)
}

/// The policy of a file, or the built-in one, with the toolkits that stand beside it.
fn manifest(
    policy: Option<&Path>,
    json: Option<&Path>,
    args: &Args,
    options: &LoadOptions,
) -> Result<Config, ConfigError> {
    match (Manifest::of(json, &args.toolkits.tools)?, policy) {
        (Some(manifest), policy) => Config::with_manifest(policy, &manifest, options),
        (None, Some(file)) => Config::load_with(file, options),
        (None, None) => Config::builtin_with(options),
    }
}

fn examine(policy: &Policy, accepted: &[String]) -> Result<Findings, PolicyError> {
    let config = policy.config();
    let failures = examples::run(config, |argv| {
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        policy.judge_argv(&argv, None).map(drop).map_err(|denial| denial.message)
    });
    let mut book = Book::new(policy, accepted);
    settings::look(&mut book);
    commands::look(&mut book)?;
    patterns::look(&mut book)?;
    files::look(&mut book);
    let mut notes = policy.notes();
    notes.extend(config.notes());
    Ok(Findings { failures, lints: book.sorted(), notes })
}

fn complain(problem: &str, status: u8) -> ExitCode {
    eprintln!("{problem}");
    ExitCode::from(status)
}

fn print(text: &str, status: u8) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::from(status),
        Err(error) => complain(&format!("cofferdam check: cannot write to standard output: {error}"), BAD),
    }
}
