//! `cofferdam doctor`: what this host enforces, each line the outcome of an attempt.
//!
//! Purpose: believe nothing that was not tried. A second policy is made of the given one, with this
//! very program as one more command; it is then run through [`Appliance::run`] like any other, and
//! makes the attempts of [`crate::launch::attempts`] from inside. Beside them stand the facts of host and
//! container, and whether each requirement of the policy is met. Called by the command line only.

mod facts;
mod report;
mod runs;
mod stage;

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::FAILED;
use super::policy::PolicyArgs;
use crate::appliance::Appliance;
use crate::config::program::Program;
use crate::config::{Command, Config, Source};
use crate::launch::attempts::{Ground, NAME, server};
use crate::sandbox::{elf, identity, rlimits};
use report::Table;
use stage::Stage;

/// An expectation does not hold.
const NOT_AS_EXPECTED: u8 = 1;
/// Programs that most hosts have and that the attempts' entry does not list.
const PROGRAMS: &[&str] = &["/usr/bin/true", "/bin/true", "/usr/bin/env", "/bin/busybox"];
/// Where the loader of dynamic programs lies when this program has none.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Say what this host enforces, by trying each escape
///
/// Every line is the outcome of a real attempt, made from inside a confined run: ok, it was refused;
/// open, it works and may (the reason stands in brackets); OPEN, it works and must not; SHUT, it is
/// refused and should work; ERROR, it could not be tried. The runs are recorded like any other.
///
/// Facts of host and container stand first, each with a verdict: ok; advice, one more wall that the host
/// could put up; BAD, something promised does not hold here. So does each name of sandbox.require: `serve`
/// refuses where one is BAD.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam doctor                              the built-in policy in the current directory
  cofferdam doctor --policy policy.toml         under the limits and grants of a policy
  cofferdam doctor --json | jq 'select(.as_expected == false)'
  cofferdam doctor --json | jq -r '.facts[]? | select(.verdict != \"ok\") | .id + \": \" + .remedy'

Exit status: 0 everything is as expected, 1 something is not (an attempt, a fact that is BAD, a requirement
that is not met), 125 the attempts could not be made.")]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Print one JSON object a line, the summary last
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    let table = match examine(&args.policy) {
        Ok(table) => table,
        Err(message) => {
            eprintln!("cofferdam: {message}");
            return ExitCode::from(FAILED);
        }
    };
    let text = if args.json { table.json() } else { table.text(report::wants_colour()) };
    if let Err(e) = std::io::stdout().lock().write_all(text.as_bytes()) {
        eprintln!("cofferdam: writing to standard output failed: {e}");
        return ExitCode::from(FAILED);
    }
    if table.all_as_expected() { ExitCode::SUCCESS } else { ExitCode::from(NOT_AS_EXPECTED) }
}

fn source(config: &Config) -> String {
    match &config.source {
        Source::Builtin => "built-in policy".into(),
        Source::Environment => "environment variables".into(),
        Source::File(path) => path.display().to_string(),
        Source::Program => "policy of the program".into(),
    }
}

fn examine(args: &PolicyArgs) -> Result<Table, String> {
    // Twice, because one becomes the policy of the attempts and the other is reported.
    let given = args.load().map_err(|e| e.to_string())?;
    let mut config = args.load().map_err(|e| e.to_string())?;
    // What is required is reported, not refused: a host is examined to learn what it lacks.
    config.sandbox.require.clear();
    let workspace = config.workspace.path.clone();
    let user = identity::choose(config.sandbox.user, &workspace, config.workspace.write)
        .map_err(|e| format!("examining the workspace {} failed: {e}", workspace.display()))?;
    let stage = Stage::make(&workspace, user)?;
    let own = stage.own_program(&workspace, user)?;
    let command = own_command(&own)?;
    let loader = elf::needs(&own).map_err(|e| e.to_string())?.loader;
    let log = config.audit.file().map(Path::to_owned);
    let before = runs::records(log.as_deref()).map_err(|e| e.to_string())?.map_or(0, |report| report.records);
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));

    // Before the runtime: both children and the launcher are started from a single thread.
    let port = listener.as_ref().ok().and_then(|l| l.local_addr().ok()).map_or(9, |address| address.port());
    let namespaces = server::user_namespace().map_err(|e| format!("trying a user namespace failed: {e}"));
    let walls = facts::walls(&given, &stage.path, port)?;
    // Of its own attempts nobody need be asked.
    let config = Config { consent: false, ..config };
    let appliance = Appliance::start(config.with_command(command)).map_err(|e| e.to_string())?;
    let facts = appliance.sandbox().clone();
    let counted = facts.cgroup.counts_processes();
    let mut limits = rlimits::of(&appliance.config().limits, &facts.hard_limits, counted);
    limits.extend(rlimits::common(false).map_err(|e| format!("reading the own limits failed: {e}"))?);
    let ground = Ground {
        outside_readable: appliance.config().sandbox.read.iter().any(|path| stage.path.starts_with(path)),
        outside: stage.path.clone(),
        unlisted: existing(PROGRAMS),
        loader: loader.or_else(|| existing(&[LOADER]).pop()),
        audit: log.clone(),
        // Without a loopback interface nobody listens; the attempt is refused before that matters.
        port,
        environment: environment(&appliance),
        limits,
        server: i32::try_from(std::process::id()).map_err(|e| e.to_string())?,
        write: appliance.config().workspace.write,
        tcp: !appliance.config().sandbox.network.is_empty(),
        scratch: facts.scratch.is_some(),
        root: facts.uid == 0,
        workspace,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("start of the async runtime failed: {e}"))?;
    let mut lines = runtime.block_on(async {
        let mut lines = runs::names(&appliance).await?;
        lines.extend(runs::inside(&appliance, &ground).await?);
        lines.extend(runs::lifetime(&appliance).await?);
        Ok::<_, String>(lines)
    })?;
    drop(runtime);
    drop(appliance);
    lines.push(runs::recorded(log.as_deref(), before, &given));
    lines.extend(walls);
    let survey = facts::Survey::of(&given, &facts, namespaces, &lines)?;
    Ok(Table::new(lines, &given, &facts, survey))
}

/// The allow-list entry of the attempts: this program, with no grant beside those of every command.
fn own_command(program: &Path) -> Result<Command, String> {
    let failed = |e| format!("examining {} failed: {e}", program.display());
    let real = program.canonicalize().map_err(failed)?;
    let meta = real.metadata().map_err(failed)?;
    let program =
        Program { asked: NAME.to_owned(), path: program.to_owned(), dev: meta.dev(), ino: meta.ino(), real };
    Ok(Command::plain(NAME, Some(Arc::new(program))))
}

/// Names that a command may find in its environment.
fn environment(appliance: &Appliance) -> Vec<String> {
    let scratch = ["HOME", "TMPDIR"].map(str::to_owned);
    let command = appliance.config().commands.get(NAME);
    let named = command.map(|command| appliance.policy().environment_names(command)).unwrap_or_default();
    named.into_iter().map(str::to_owned).chain(scratch).collect()
}

fn existing(paths: &[&str]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        paths.iter().filter_map(|path| Path::new(path).canonicalize().ok()).collect();
    found.dedup();
    found
}
