//! Serving over a listener, from the first connection to a clean end.
//!
//! Purpose: SIGTERM and SIGINT drain (nothing new is begun, what runs may end until the deadline, then it is
//! killed and recorded); SIGHUP reads the files of tokens and of TLS again. Called by `cli/serve`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rmcp::ServerHandler;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::accept::{Connections, Door};
use super::bind::Listener;
use super::hub::Hub;
use super::principals::{Principals, handle};
use super::routes;
use super::tokens::TokenError;
use crate::config::HttpConfig;
use crate::mcp::runner::Runner;
use crate::mcp::stdio::{Ended, GRACE, ServeError};

/// How often it is looked whether the last answers have been written.
const LOOK: Duration = Duration::from_millis(10);
/// How long the last answers may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// A server that is about to serve: its token files have been read.
pub struct Http<R> {
    hub: Arc<Hub<R>>,
    listener: Listener,
}

impl<R: Runner> Http<R> {
    /// Makes it ready. Call it before the server is announced.
    ///
    /// # Errors
    /// A token file that gives no tokens.
    pub fn new(
        runner: Arc<R>,
        listener: Listener,
        http: HttpConfig,
        principals: Principals,
    ) -> Result<Self, TokenError> {
        let hub = Arc::new(Hub::new(runner, &listener, http, principals)?);
        Ok(Self { hub, listener })
    }

    /// Answers by handlers of the host's own in place of our tools, one for each connection of the newer era and
    /// each session of the older: behind the same listener, layers and sessions. Call it once, before
    /// [`Http::serve`].
    #[must_use]
    pub fn answering<H: ServerHandler>(self, make: impl Fn() -> H + Send + Sync + 'static) -> Self {
        let make = Arc::new(make);
        self.hub.other.get_or_init(|| {
            Arc::new(move |sessions, config| {
                let make = Arc::clone(&make);
                handle(move || make(), sessions, config)
            })
        });
        self
    }

    /// What the requests share: for those who show how it is getting on.
    #[must_use]
    pub fn hub(&self) -> Arc<Hub<R>> {
        Arc::clone(&self.hub)
    }

    /// Serves until a signal comes. When this returns, every run has ended or a grace period has passed.
    /// `open` are routes that nobody has to say who he is for, by any name of the host; `leaving` is called once
    /// nothing new is begun any more. At SIGHUP the token files are read again.
    ///
    /// # Errors
    /// Signals cannot be caught, or the listener cannot be used.
    pub async fn serve(self, open: Router, leaving: impl FnOnce() + Send) -> Result<Ended, ServeError> {
        let Self { hub, listener } = self;
        let mut terminate = caught(SignalKind::terminate(), "SIGTERM")?;
        let mut interrupt = caught(SignalKind::interrupt(), "SIGINT")?;
        let mut hangup = caught(SignalKind::hangup(), "SIGHUP")?;
        let door = Door::open(listener.0).map_err(|error| ServeError::Task(error.to_string()))?;
        let (router, connections) = (routes::router(&hub).merge(open), Arc::new(Connections::default()));
        let accepting = tokio::spawn(door.serve(Arc::clone(&hub), router, Arc::clone(&connections)));
        let name = loop {
            tokio::select! {
                _ = terminate.recv() => break "SIGTERM",
                _ = interrupt.recv() => break "SIGINT",
                _ = hangup.recv() => {
                    match hub.rotate() {
                        Ok(count) => tracing::info!("SIGHUP: token files and those of TLS read again, {count} tokens are valid"),
                        Err(error) => tracing::error!("SIGHUP: the tokens stay as they were, and so does TLS: {error}"),
                    }
                }
            }
        };
        tracing::info!("{name}: nothing new is begun");
        hub.draining.cancel();
        leaving();
        if let Err(error) = accepting.await {
            tracing::error!(%error, "the task that accepts connections failed");
        }
        if !hub.quiet(hub.http.drain).await {
            tracing::warn!("runs are killed that went on {} s after {name}", hub.http.drain.as_secs_f64());
        }
        hub.stop.cancel();
        if !hub.quiet(GRACE).await {
            tracing::error!(
                "runs were still not collected {} s after they were told to end",
                GRACE.as_secs()
            );
        }
        // The last answers are on their way.
        let written = async {
            while connections.count() > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(FAREWELL, written).await.is_err() {
            tracing::debug!("connections were cut off that did not end by themselves");
        }
        Ok(Ended::Signal(name))
    }
}

fn caught(kind: SignalKind, name: &'static str) -> Result<Signal, ServeError> {
    signal(kind).map_err(|source| ServeError::Signals { name, source })
}

impl<R> std::fmt::Debug for Http<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").field("listener", &self.listener).finish_non_exhaustive()
    }
}
