//! `cofferdam serve`: an MCP server on standard input and output.
//!
//! Standard output carries frames and nothing else; the log and the one start-up warning go to
//! standard error. Exit status 0 when the client left or a signal asked for the end, 125 when
//! cofferdam itself failed.

mod upkeep;

use std::process::ExitCode;
use std::sync::Arc;

use tracing_subscriber::EnvFilter;

use super::policy::{PolicyArgs, ToolkitArgs};
use crate::appliance::Appliance;
use crate::mcp::{self, Ended, Offer, words};
use crate::ops::Live;
use upkeep::{Upkeep, UpkeepArgs};

/// What is logged. Fixed: below `warn` rmcp logs whole requests and results.
const LOG: &str = "warn,cofferdam=info,rmcp=warn";
/// Threads of the runtime: the commands are processes of their own.
const WORKERS: usize = 2;

/// Serve an agent over MCP: tools that run allowed commands, and one that lists them
///
/// Speaks MCP on standard input and output until the client closes its end or SIGTERM or SIGINT comes;
/// every command that still runs is then killed with all of its descendants. SIGHUP loads the policy
/// again: one that is not valid leaves the policy in force, and says so.
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
    #[command(flatten)]
    upkeep: UpkeepArgs,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    // The only transport there is; the flag says so for those who want to read it.
    let Args { policy, toolkits, stdio: _, upkeep } = args;
    log_to_stderr();
    let config = match policy.load_toolkits(&toolkits) {
        Ok(config) => config,
        Err(error) => return failed(&error.to_string()),
    };
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    // Before the walls: nothing can be bound behind them.
    let upkeep = match Upkeep::open(&upkeep, &toolkits, &config) {
        Ok(upkeep) => upkeep,
        Err(error) => return failed(&error),
    };
    // Before the runtime: the launcher is started from a single thread.
    let appliance = match Appliance::start_confined(config) {
        Ok(appliance) => appliance,
        Err(error) => return failed(&error.to_string()),
    };
    for warning in appliance.warnings() {
        tracing::warn!("{warning}");
    }
    tracing::warn!("{}", words::startup(&Offer::of(appliance.config())));
    let live = Arc::new(Live::new(appliance, move || upkeep::again(&policy, &toolkits)));

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("start of the async runtime failed: {error}")),
    };
    let status = runtime.block_on(async {
        if let Err(error) = live.now().announce(Some("stdio")).await {
            return failed(&error.to_string());
        }
        let kept = match upkeep.start(&live) {
            Ok(kept) => kept,
            Err(error) => return failed(&error),
        };
        kept.ready();
        let served = mcp::serve_stdio(Arc::clone(&live)).await;
        kept.leave();
        let status = match served {
            Ok(Ended::Closed) => ExitCode::SUCCESS,
            Ok(Ended::Signal(name)) => {
                tracing::info!("{name}: stopped");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error.to_string()),
        };
        match live.now().stop().await {
            Ok(()) => status,
            Err(error) => failed(&error.to_string()),
        }
    });
    // A blocking read of standard input cannot be taken back: it must not hold up the end.
    runtime.shutdown_background();
    status
}

/// Log lines on standard error, without colours: clients keep them as they are.
fn log_to_stderr() {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(LOG))
        .with_writer(std::io::stderr)
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
