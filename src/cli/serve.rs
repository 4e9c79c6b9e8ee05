//! `cofferdam serve`: an MCP server on standard input and output, on a TCP address or on a Unix socket.
//!
//! On standard output there are frames and nothing else; the log and the one start-up warning go to
//! standard error. Exit status 0 when the client left or a signal asked for the end, 125 when
//! cofferdam itself failed.

mod upkeep;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use tracing_subscriber::EnvFilter;

use super::log::Patient;
use super::policy::{PolicyArgs, ToolkitArgs};
use crate::appliance::Appliance;
use crate::config::Config;
use crate::mcp::http::{Http, Listener, Principals};
use crate::mcp::{self, Ended, Offer, ServeError, words};
use crate::ops::{Live, notify};
use upkeep::{Upkeep, UpkeepArgs};

/// What is logged. Fixed: below `warn` rmcp logs whole requests and results.
const LOG: &str = "warn,cofferdam=info,rmcp=warn";
/// Threads of the runtime: the commands are processes of their own.
const WORKERS: usize = 2;

/// Serve an agent over MCP: tools that run allowed commands, and one that lists them
///
/// Speaks MCP on standard input and output until the client closes its end or SIGTERM or SIGINT comes;
/// every command that still runs is then killed with all of its descendants. SIGHUP loads the policy
/// again (one that is not valid leaves the policy in force, and says so) and goes on in the audit file that
/// stands at its path now.
///
/// With --listen or --unix it serves many clients over Streamable HTTP at /mcp: SIGTERM lets runs end for
/// server.http.drain, SIGHUP reads token files again. See docs/http.md.
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
  cofferdam serve --listen 127.0.0.1:8000 --token-file token
                                               over HTTP, for clients that send what is in the file
  cofferdam serve --unix /run/cofferdam/mcp.sock
                                               over a socket, for whoever may open it

In the configuration of an MCP client:
  {\"mcpServers\": {\"cofferdam\": {\"command\": \"cofferdam\", \"args\": [\"serve\", \"--policy\", \"policy.toml\"]}}}")]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    toolkits: ToolkitArgs,
    /// Speak MCP on standard input and output (the default)
    #[arg(long, conflicts_with_all = ["listen", "unix"])]
    stdio: bool,
    /// Serve Streamable HTTP on this address, such as 127.0.0.1:8000
    #[arg(long, value_name = "ADDR", conflicts_with = "unix")]
    listen: Option<SocketAddr>,
    /// Serve Streamable HTTP on this Unix socket (mode 0660)
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Serve Streamable HTTP on the socket that systemd opened (LISTEN_FDS)
    #[arg(long, conflicts_with_all = ["listen", "unix", "stdio"])]
    activated: bool,
    /// Bearer tokens, one a line: whoever sends one may use everything that the policy allows
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    upkeep: UpkeepArgs,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    // Without another one; the flag says so for those who want to read it.
    let Args { policy, toolkits, stdio: _, listen, unix, activated, token_file, upkeep } = args;
    log_to_stderr();
    let config = match policy.load_toolkits(&toolkits) {
        Ok(config) => config,
        Err(error) => return failed(&error.to_string()),
    };
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    if token_file.is_some() && listen.is_none() && unix.is_none() && !activated {
        return failed("--token-file is of use only with --listen, --unix or --activated");
    }
    // Before the walls: nothing can be bound behind them. The sockets of systemd first: they have numbers.
    let way = match way(&config, (listen, unix.as_deref(), activated), token_file) {
        Ok(way) => way,
        Err(error) => return failed(&error),
    };
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
        let status = match served(&live, way, upkeep).await {
            Ok(Ended::Closed) => ExitCode::SUCCESS,
            Ok(Ended::Signal(name)) => {
                tracing::info!("{name}: stopped");
                ExitCode::SUCCESS
            }
            Err(Failed::Start(error)) => return failed(&error),
            Err(Failed::Serve(error)) => failed(&error.to_string()),
        };
        match live.now().stop().await {
            Ok(()) => status,
            Err(error) => failed(&error.to_string()),
        }
    });
    // A blocking read of standard input cannot be taken back: it must not hold up the end.
    runtime.shutdown_background();
    live.now().end();
    status
}

/// How clients reach the server.
enum Way {
    Stdio,
    Http(Listener, Principals),
}

fn way(
    config: &Config,
    (listen, unix, activated): (Option<SocketAddr>, Option<&Path>, bool),
    token_file: Option<PathBuf>,
) -> Result<Way, String> {
    let principals = Principals::of(config, token_file)?;
    let authenticated = principals.authenticate();
    let listener = match (listen, unix) {
        (None, None) if activated => {
            let sockets = notify::handed_over().map_err(|e| format!("taking over sockets failed: {e}"))?;
            let [socket] = <[_; 1]>::try_from(sockets).map_err(|sockets| {
                let count = sockets.len();
                format!("systemd handed over {count} sockets; --activated needs one (LISTEN_FDS, LISTEN_PID)")
            })?;
            Listener::handed_over(socket, authenticated)
        }
        (None, None) => return Ok(Way::Stdio),
        (Some(address), _) => {
            if !authenticated {
                tracing::warn!("anybody who reaches {address} may call: there is no authentication");
            }
            Listener::tcp(address, authenticated)
        }
        (None, Some(path)) => Listener::unix(path),
    };
    Ok(Way::Http(listener.map_err(|error| error.to_string())?, principals))
}

enum Failed {
    /// Before anything was served.
    Start(String),
    Serve(ServeError),
}

async fn served(live: &Arc<Live>, way: Way, upkeep: Upkeep) -> Result<Ended, Failed> {
    let start = |error: &dyn std::fmt::Display| Failed::Start(error.to_string());
    match way {
        Way::Stdio => {
            live.now().announce(Some("stdio")).await.map_err(|error| start(&error))?;
            let kept = upkeep.start(live, None).map_err(|error| start(&error))?;
            let _one = live.meters().connections.one();
            kept.ready();
            mcp::serve_stdio(Arc::clone(live)).await.map_err(Failed::Serve)
        }
        Way::Http(listener, principals) => {
            let (at, transport) = (listener.to_string(), listener.transport());
            let http = live.now().config().http.clone();
            let server = Http::new(Arc::clone(live), listener, http, principals);
            let server = server.map_err(|error| start(&error))?;
            live.now().announce(Some(transport)).await.map_err(|error| start(&error))?;
            let kept = upkeep.start(live, Some(server.hub())).map_err(|error| start(&error))?;
            tracing::info!("serving MCP over HTTP at /mcp on {at}");
            kept.ready();
            server.serve(kept.readiness.routes(), || kept.leave()).await.map_err(Failed::Serve)
        }
    }
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
