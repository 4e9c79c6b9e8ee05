//! `cofferdam learn`: runs a program under a recorder and proposes the smallest section that lets it work.
//!
//! Purpose: a first draft of `[command.NAME]` for a person to review; nothing is put into force. Inputs: a
//! policy, a program with its arguments. Called by the command line only. Every run goes the one road of
//! `appliance.rs`: judged, recorded in the audit log, confined. The recorded one may read everything but
//! secrets and start what lies in the system's directories of programs; what any of them writes into the
//! workspace goes to an overlay that ends with it.

mod end;
mod folding;
mod print;
mod proposal;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use self::end::Ending;
use self::proposal::Proposal;
use super::FAILED;
use super::policy::PolicyArgs;
use crate::appliance::{Appliance, Call, Outcome, Recording, StartError};
use crate::audit::Context;
use crate::config::workspace::Workspace;
use crate::config::{Command, Config, LoadOptions, server_environment};
use crate::launch::Touch;
use crate::policy::{Denial, Policy, Request};
use crate::sandbox::profile::{Profile, ProfileError};
use crate::sandbox::script::ScriptError;
use crate::sandbox::secrets::Secrets;

/// The proposal does not let the program end as it was recorded.
const UNLIKE: u8 = 1;
/// Refused by policy.
const REFUSED: u8 = 126;
/// Program not found.
const NOT_FOUND: u8 = 127;

/// Propose the smallest [command.NAME] section that lets a program work, for a person to review
///
/// Runs the program under a recorder: it may read everything but secrets (home directories, keys, logs),
/// start what lies in the system's directories of programs, and write into an overlay of the workspace that
/// is thrown away. It reaches no network unless --network says so, and reads an immediate end of file. Then
/// it runs under the proposal, again with writes thrown away, to see whether it ends alike; what it can do
/// without is left out. All of these runs are in the audit log. Nothing is put into force.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam learn -- file README.md
  cofferdam learn --policy policy.toml -- git log --oneline -3
  cofferdam learn --json --timeout 30s -- rg -n 'fn main' src
  cofferdam learn --confine-interpreter -- python3 -c 'import json'

Standard output: the section as TOML, or one JSON object. Exit status: 0 the program ended alike under
the proposal; 1 it did not; 125 cofferdam itself failed; 126 refused by policy; 127 program not found.")]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Print one JSON object in place of TOML
    #[arg(long)]
    json: bool,
    /// Wall-clock limit of each run, such as 10s; the policy's maximum holds
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// Let the recorded run connect to any TCP port, to learn which
    #[arg(long)]
    network: bool,
    /// Propose a section for an always-denied program (a shell, an interpreter) or with such helpers: the
    /// kernel profile is then the only wall
    #[arg(long)]
    confine_interpreter: bool,
    /// Directory beneath the workspace to work in [default: its root]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Where audit records go in place of the policy's sinks
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

/// What a run may do beyond its section.
#[derive(Debug, Default, Clone)]
struct Walls {
    write: bool,
    repository_write: bool,
    ports: BTreeSet<u16>,
}

/// Why there is no proposal, with the exit status.
struct Failure(u8, String);

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self(FAILED, message)
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    match learn(&args) {
        Ok(status) => ExitCode::from(status),
        Err(Failure(status, message)) => {
            say(&message);
            ExitCode::from(status)
        }
    }
}

/// One line on standard error. Where nobody reads it, the exit status says it all.
fn say(message: &str) {
    drop(writeln!(std::io::stderr(), "cofferdam: {message}"));
}

fn learn(args: &Args) -> Result<u8, Failure> {
    let learner = Learner::new(args)?;
    say("recording the run; what it writes is thrown away");
    let (recorded, touched, writable) = learner.record()?;
    if recorded.ran().is_none() {
        return Err(format!("the recorded run: {}", recorded.shown()).into());
    }
    let base = learner.profile(&learner.recorded())?;
    let mut proposal = Proposal::of(&base, &learner.secrets, &touched, &recorded, args.confine_interpreter)?;
    proposal.start_with(&learner.shells);
    let helpers = Command { execute: proposal.execute.clone(), ..learner.command() };
    proposal.without(&learner.profile(&helpers)?);
    proposal.only_reading = !writable;
    for path in proposal.loud() {
        say(&format!("WARNING: it starts {}, which is always denied as a name", path.display()));
    }
    let verified = verify::smallest(&learner, &mut proposal, &recorded)?;
    let text = print::toml(&learner, &proposal, &recorded, &verified);
    let mut out = std::io::stdout();
    let printed = if args.json {
        writeln!(out, "{}", print::json(&learner, &proposal, &recorded, &verified, &text))
    } else {
        out.write_all(text.as_bytes())
    };
    printed.map_err(|e| format!("writing the proposal: {e}"))?;
    Ok(if verified.alike { 0 } else { UNLIKE })
}

/// What all runs of one call share.
struct Learner<'a> {
    args: &'a Args,
    name: String,
    secrets: Secrets,
    /// The name is always denied, and asked for all the same.
    interpreter: bool,
    /// Shells that the program is a script of: without them it does not start.
    shells: Vec<PathBuf>,
    /// What the policy already sets for this command.
    preset: BTreeMap<String, String>,
    /// The policy already has a section for it.
    listed: bool,
    write: bool,
    repository_write: bool,
}

impl<'a> Learner<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let config = load(args)?;
        for warning in config.warnings() {
            say(&format!("warning: {warning}"));
        }
        let name = args
            .argv
            .first()
            .and_then(|name| name.to_str())
            .ok_or("the program's name is not UTF-8".to_owned())?;
        let own = config
            .audit
            .file()
            .into_iter()
            .flat_map(|path| path.parent().into_iter().chain([path]))
            .map(PathBuf::from);
        let home = std::env::var_os("HOME").map(PathBuf::from);
        // A home that holds the workspace's parents is a home all the same: the workspace has its own grant.
        let secrets = Secrets::of_host(own.chain(home));
        let existing = config.commands.get(name);
        let mut learner = Self {
            args,
            name: name.to_owned(),
            secrets,
            interpreter: false,
            shells: Vec::new(),
            preset: existing.map_or_else(BTreeMap::new, |command| command.environment.clone()),
            listed: existing.is_some(),
            write: config.workspace.write,
            repository_write: config.workspace.repository_write,
        };
        config.programs.lookup(name).map_err(|absent| Failure(NOT_FOUND, absent.to_string()))?;
        if let Err(denial) = learner.judged()? {
            if !denial.rule.starts_with("names.") {
                return Err(refused(&denial, ""));
            }
            if !args.confine_interpreter {
                let more = " --confine-interpreter proposes a section with interpreters = \"confine\".";
                return Err(refused(&denial, more));
            }
            learner.interpreter = true;
            say(&format!(
                "WARNING: {name} is always denied because it runs what it is handed. The proposal needs \
                 interpreters = \"confine\": argument rules mean nothing then, and the kernel profile alone is the wall"
            ));
            if let Err(denial) = learner.judged()? {
                return Err(refused(&denial, ""));
            }
        }
        learner.find_shells()?;
        Ok(learner)
    }

    /// A script of a shell starts only with the shell listed.
    fn find_shells(&mut self) -> Result<(), Failure> {
        loop {
            let shell = match self.compiled(&self.recorded())? {
                Err(ProfileError::Script(ScriptError::Shell { shell, .. })) => shell,
                Err(error) => return Err(error.to_string().into()),
                Ok(_) => return Ok(()),
            };
            let shown = shell.display();
            if !self.args.confine_interpreter {
                let text = format!(
                    "{} is a script of {shown}, which runs what it is handed: --confine-interpreter proposes it all the same",
                    self.name
                );
                return Err(Failure(REFUSED, text));
            }
            if self.shells.contains(&shell) {
                return Err(format!("{} is a script of {shown}, which cannot be listed", self.name).into());
            }
            self.shells.push(shell);
        }
    }

    /// The verdict on the vector, whatever files it names.
    fn judged(&self) -> Result<Result<(), Denial>, Failure> {
        let config = self.config(self.recorded(), Walls::default())?;
        let policy = Policy::new(Arc::new(config), &server_environment()).map_err(|e| e.to_string())?;
        let argv: Vec<&[u8]> = self.args.argv.iter().map(|argument| argument.as_bytes()).collect();
        Ok(policy.judge_argv(&argv, None).map(drop))
    }

    /// The entry without any grant.
    fn command(&self) -> Command {
        let environment = self.preset.clone();
        Command { environment, interpreter: self.interpreter, ..Command::plain(&self.name, None) }
    }

    /// The entry of the recorded run: file names among the arguments are what is to be learned.
    fn recorded(&self) -> Command {
        Command { any_path: true, execute: self.shells.clone(), ..self.command() }
    }

    /// The policy with this entry, and with these walls of the workspace and the network.
    fn config(&self, command: Command, walls: Walls) -> Result<Config, Failure> {
        let mut config = load(self.args)?;
        let Walls { write, repository_write, ports } = walls;
        config.sandbox.network.extend(ports);
        let (path, root) = (config.workspace.path.clone(), Arc::clone(&config.workspace.root));
        config.workspace = Arc::new(Workspace { path, write, repository_write, root });
        config.allow_any = false;
        let program =
            config.programs.lookup(&self.name).map_err(|absent| Failure(NOT_FOUND, absent.to_string()))?;
        // Whoever calls this is the person that would be asked.
        let config = Config { consent: false, ..config };
        Ok(config.with_command(Command { program: Some(program), ..command }))
    }

    /// What the kernel gets for `command`.
    fn profile(&self, command: &Command) -> Result<Profile, Failure> {
        Ok(self.compiled(command)?.map_err(|e| e.to_string())?)
    }

    fn compiled(&self, command: &Command) -> Result<Result<Profile, ProfileError>, Failure> {
        let config = self.config(command.clone(), Walls::default())?;
        let program =
            config.programs.lookup(&self.name).map_err(|absent| Failure(NOT_FOUND, absent.to_string()))?;
        Ok(Profile::compile(&config, command, &program))
    }

    /// The recorded run, and whether it could write. Where the host has no means to throw writes away, it
    /// cannot: the first refused write is recorded, and may end it.
    fn record(&self) -> Result<(Ending, Vec<Touch>, bool), Failure> {
        let recording = || Some(Recording { secrets: self.secrets.clone(), network: self.args.network });
        let all = Walls { write: true, repository_write: true, ..Walls::default() };
        let wide = self.config(self.recorded(), all)?;
        let (appliance, writable) = match Appliance::start_throw_away(wide, recording()) {
            Ok(appliance) => (appliance, true),
            Err(StartError::Launch(error)) if error.step == "overlay" => {
                say(&format!("{error}; the workspace is read-only for the recorded run"));
                let narrow = self.config(self.recorded(), Walls::default())?;
                let started = Appliance::start_throw_away(narrow, recording()).map_err(|e| e.to_string())?;
                (started, false)
            }
            Err(error) => return Err(error.to_string().into()),
        };
        let ending = self.run(&appliance)?;
        let touched = appliance.take_touched().map_err(|e| e.to_string())?;
        Ok((ending, touched, writable))
    }

    /// One run under a command of the policy.
    fn attempt(&self, command: Command, walls: Walls) -> Result<Ending, Failure> {
        let config = self.config(command, walls)?;
        let appliance = Appliance::start_throw_away(config, None).map_err(|e| e.to_string())?;
        self.run(&appliance)
    }

    fn run(&self, appliance: &Appliance) -> Result<Ending, Failure> {
        let call = Call {
            request: Request {
                argv: self.args.argv.iter().cloned().map(OsStringExt::into_vec).collect(),
                timeout: self.args.timeout,
                cwd: self.args.cwd.clone(),
                ..Request::default()
            },
            context: Context { tool: Some("learn".to_owned()), ..Context::default() },
            ..Call::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("start of the async runtime failed: {e}"))?;
        match runtime.block_on(appliance.run(call, tokio_util::sync::CancellationToken::new())) {
            Outcome::Ran(report) => Ok(Ending::of(*report)),
            Outcome::Denied(denial) => Ok(Ending::Refused(denial.message)),
            Outcome::Ask(_) => Ok(Ending::Refused("a person has to agree to it first".to_owned())),
            Outcome::NotStarted(failed) => Ok(Ending::NotStarted(failed.message)),
            Outcome::AuditUnavailable(error) | Outcome::Unrecorded(error) => Err(error.to_string().into()),
        }
    }
}

fn refused(denial: &Denial, more: &str) -> Failure {
    Failure(REFUSED, format!("refused ({}): {}{more}", denial.rule, denial.message))
}

fn load(args: &Args) -> Result<Config, String> {
    let options = LoadOptions { audit_file: args.audit.clone(), ..LoadOptions::default() };
    args.policy.load_with(options).map_err(|e| e.to_string())
}
