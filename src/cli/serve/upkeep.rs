//! What `serve` keeps up beside its clients: reloads, the address of the counters, the service manager.
//!
//! Purpose: sockets are opened before the server confines itself, tasks are started in the runtime. Inputs: the
//! flags, the policy, the environment of systemd. Called by `serve.rs`.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cli::policy::{PolicyArgs, ToolkitArgs};
use crate::config::{Config, Source, reload as fixed};
use crate::mcp::http::Hub;
use crate::ops::health::{self, Readiness};
use crate::ops::live::Fault;
use crate::ops::notify::Manager;
use crate::ops::{Live, reload};

/// Flags of upkeep.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct UpkeepArgs {
    /// Load the policy again when its file changes, not only at SIGHUP
    #[arg(long)]
    watch: bool,
    /// Answer /metrics, /healthz and /readyz over HTTP on this loopback address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Allow --metrics on an address that other hosts reach: whoever does may read the counters
    #[arg(long, requires = "metrics")]
    metrics_anywhere: bool,
}

/// What was opened before the walls.
#[derive(Debug)]
pub(super) struct Upkeep {
    watched: Vec<PathBuf>,
    /// How they were when the policy was loaded.
    seen: Vec<reload::Stamp>,
    metrics: Option<TcpListener>,
    manager: Manager,
}

/// What runs beside the clients, until it is ended.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) readiness: Readiness,
    manager: Manager,
    stop: CancellationToken,
}

impl Upkeep {
    /// Opens what `args` ask for.
    ///
    /// # Errors
    /// What cannot be opened, and a file to watch that others can write.
    pub(super) fn open(
        args: &UpkeepArgs,
        policy: &PolicyArgs,
        toolkits: &ToolkitArgs,
        config: &Config,
    ) -> Result<Self, String> {
        let manager =
            Manager::of_environment().map_err(|e| format!("reaching the service manager failed: {e}"))?;
        let metrics = match args.metrics {
            Some(address) => {
                let opened = health::listen(address, args.metrics_anywhere);
                Some(opened.map_err(|e| format!("--metrics {address} failed: {e}"))?)
            }
            None => None,
        };
        let mut watched = Vec::new();
        if args.watch {
            let Source::File(real) = &config.source else {
                return Err("--watch needs a policy file: name one with --policy".to_owned());
            };
            trusted(config, policy, toolkits)?;
            // By the name that was given: a link that leads elsewhere from now on is a change.
            watched.push(policy.policy.as_ref().unwrap_or(real).clone());
            watched.extend(config.grammars.iter().map(|grammar| grammar.path.clone()));
            watched.extend(toolkits.config.clone());
        }
        let seen = reload::stamps(&watched);
        Ok(Self { watched, seen, metrics, manager })
    }

    /// Starts it. In the runtime, once the server is announced.
    ///
    /// # Errors
    /// A handler that cannot be installed.
    pub(super) fn start(self, live: &Arc<Live>, hub: Option<Arc<Hub<Live>>>) -> Result<Kept, String> {
        let Self { watched, seen, metrics, manager } = self;
        let (readiness, stop) = (Readiness::of(Arc::clone(live), hub), CancellationToken::new());
        reload::on_hangup(Arc::clone(live), manager.clone())
            .map_err(|e| format!("installing the handler of SIGHUP failed: {e}"))?;
        if !watched.is_empty() {
            reload::on_change(Arc::clone(live), watched, seen, manager.clone());
        }
        if let Some(listener) = metrics {
            match listener.local_addr() {
                Ok(address) => tracing::info!("counters at http://{address}/metrics"),
                Err(error) => return Err(format!("the address of the counters is unknown: {error}")),
            }
            let served = readiness.clone().serve(listener, stop.clone());
            tokio::spawn(async move {
                if let Err(error) = served.await {
                    tracing::error!("the address of the counters is not served any more: {error}");
                }
            });
        }
        Ok(Kept { readiness, manager, stop })
    }
}

impl Kept {
    /// The server serves.
    pub(super) fn ready(&self) {
        self.manager.tell_ready();
    }

    /// It takes nothing more on.
    pub(super) fn leave(&self) {
        if self.readiness.leave() {
            self.manager.tell_stopping();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.leave();
        self.stop.cancel();
    }
}

/// Loads the policy of a running server again: whoever could write its file would choose what runs.
pub(super) fn again(policy: &PolicyArgs, toolkits: &ToolkitArgs) -> Result<Config, Fault> {
    let config = policy.load_toolkits(toolkits).map_err(|error| Fault::Invalid(error.to_string()))?;
    trusted(&config, policy, toolkits).map_err(Fault::Untrusted)?;
    Ok(config)
}

/// Every file that is read again, by the name that it is read by.
fn trusted(config: &Config, policy: &PolicyArgs, toolkits: &ToolkitArgs) -> Result<(), String> {
    let grammars = config.grammars.iter().map(|grammar| &grammar.path);
    for path in policy.policy.iter().chain(&toolkits.config).chain(grammars) {
        fixed::trusted(path, &config.workspace)?;
    }
    Ok(())
}
