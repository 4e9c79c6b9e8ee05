//! `cofferdam serve`: an MCP server on standard input and output.
//!
//! Standard output carries frames and nothing else; the log and the one start-up warning go to
//! standard error. Exit status 0 when the client left or a signal asked for the end, 125 when
//! cofferdam itself failed.

use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::log::Patient;
use super::policy::{PolicyArgs, ToolkitArgs};
use crate::appliance::Appliance;
use crate::mcp::{self, Ended, Offer, words};

/// What is logged. Fixed: below `warn` rmcp logs whole requests and results.
const LOG: &str = "warn,cofferdam=info,rmcp=warn";
/// Threads of the runtime: the commands are processes of their own.
const WORKERS: usize = 2;

/// Serve an agent over MCP: tools that run allowed commands, and one that lists them
///
/// Speaks MCP on standard input and output until the client closes its end or SIGTERM or SIGINT
/// comes; every command that still runs is then killed with all of its descendants. SIGHUP makes it go on
/// in the audit file that stands at its path now.
///
/// Without --policy, an environment with ALLOW_COMMANDS (as mcp-shell-server has it) is the policy: the
/// tool is shell_execute, and the workspace is writable.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam serve                              the built-in policy, read-only, in this directory
  cofferdam serve --policy policy.toml         a policy of your own
  cofferdam serve --workspace ~/project        the built-in policy in another directory
  cofferdam serve --config mcp.json            the toolkits of a JSON file, under the built-in policy
  cofferdam serve --tool Shell='{\"allow\":[\"git\",\"rg\"],\"timeout\":10}'
                                               one toolkit, without a file

In the configuration of an MCP client:
  {\"mcpServers\": {\"cofferdam\": {\"command\": \"cofferdam\", \"args\": [\"serve\", \"--policy\", \"policy.toml\"]}}}")]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    toolkits: ToolkitArgs,
    /// Speak MCP on standard input and output (the default)
    #[arg(long)]
    stdio: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    // The only transport there is; the flag says so for those who want to read it.
    let Args { policy, toolkits, stdio: _ } = args;
    log_to_stderr();
    let config = match policy.load_toolkits(&toolkits) {
        Ok(config) => config,
        Err(error) => return failed(&error.to_string()),
    };
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    // Before the runtime: the launcher is started from a single thread.
    let appliance = match Appliance::start_confined(config) {
        Ok(appliance) => Arc::new(appliance),
        Err(error) => return failed(&error.to_string()),
    };
    for warning in appliance.warnings() {
        tracing::warn!("{warning}");
    }
    tracing::warn!("{}", words::startup(&Offer::of(appliance.config())));

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("start of the async runtime failed: {error}")),
    };
    let status = runtime.block_on(async {
        if let Err(error) = reopen_on_hangup(&appliance) {
            return failed(&format!("installing the handler of SIGHUP failed: {error}"));
        }
        if let Err(error) = appliance.announce(Some("stdio")).await {
            return failed(&error.to_string());
        }
        let status = match mcp::serve_stdio(Arc::clone(&appliance)).await {
            Ok(Ended::Closed) => ExitCode::SUCCESS,
            Ok(Ended::Signal(name)) => {
                tracing::info!("{name}: stopped");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error.to_string()),
        };
        match appliance.stop().await {
            Ok(()) => status,
            Err(error) => failed(&error.to_string()),
        }
    });
    // A blocking read of standard input cannot be taken back: it must not hold up the end.
    runtime.shutdown_background();
    status
}

/// Whoever moves the audit file away sends SIGHUP.
fn reopen_on_hangup(appliance: &Arc<Appliance>) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let appliance = Arc::downgrade(appliance);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let Some(appliance) = appliance.upgrade() else { return };
            appliance.reopen_audit();
        }
    });
    Ok(())
}

/// Log lines on standard error, without colours: clients keep them as they are.
fn log_to_stderr() {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(LOG))
        .with_writer(|| Patient)
        // A log that cannot be written is no reason to panic in the thread that wanted to.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false);
    if let Err(error) = subscriber.try_init() {
        eprintln!("cofferdam: another log is installed already: {error}");
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("cofferdam: {error}");
    ExitCode::from(super::FAILED)
}
