//! Serving one client over standard input and output, from the first byte to a clean end.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::runner::Runner;
use super::server::Server;
use super::unread;
use super::wire::Wire;

/// Calls beyond the policy's limit that are still handed on, to be refused and recorded by the policy;
/// more at the same time are turned away here.
pub(super) const OVER: usize = 64;
/// Longest wait for runs that were told to end. Their trees are killed at once; this bounds the
/// collection of statuses and the writing of records.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Why serving came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The client closed its end.
    Closed,
    /// A signal of this name asked for it.
    Signal(&'static str),
}

/// Serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A signal handler could not be installed.
    #[error("installing the handler of {name} failed: {source}")]
    Signals {
        /// Name of the signal.
        name: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The client opened the connection in a way that no protocol version knows.
    #[error("the client did not open the connection properly: {0}")]
    Opening(String),
    /// A task of the server itself failed.
    #[error("the server's own task failed: {0}")]
    Task(String),
}

/// Serves one client on standard input and output until it closes its end or a signal comes. When
/// this returns, every run of the connection has ended or a grace period has passed.
///
/// # Errors
///
/// [`ServeError`] when signals cannot be caught or the protocol never gets going.
pub async fn serve_stdio<R: Runner>(runner: Arc<R>) -> Result<Ended, ServeError> {
    let signals = signals(runner.changes().is_none())?;
    let (reader, writer) = stdio_pipes();
    serve(runner, reader, writer, signals).await
}

/// Serves one client on any pair of streams. `interrupt` ends it early, with the name of the cause.
///
/// # Errors
///
/// [`ServeError`] when the protocol never gets going.
pub async fn serve<R, I, O>(
    runner: Arc<R>,
    reader: I,
    writer: O,
    interrupt: impl Future<Output = &'static str>,
) -> Result<Ended, ServeError>
where
    R: Runner,
    I: AsyncRead + Send + Unpin + 'static,
    O: AsyncWrite + Send + Unpin + 'static,
{
    let places = runner.offer().jobs.saturating_add(OVER);
    let jobs = Arc::new(Semaphore::new(places));
    let stop = CancellationToken::new();
    let leave = CancellationToken::new();
    let (thrown_away, heard) = mpsc::channel(unread::WAITING);
    let wire = Wire::new(reader, writer, thrown_away, stop.clone());
    let server = Server::new(Arc::clone(&runner), "stdio", Arc::clone(&jobs), stop.clone());
    // Ends with the wire, which holds the other end.
    let recorder = tokio::spawn(unread::record(runner, server.context_of_unread(), heard));

    let mut service = std::pin::pin!(async {
        match serve_server_with_ct(server, wire, leave.clone()).await {
            Ok(running) => {
                running.waiting().await.map(|_| ()).map_err(|error| ServeError::Task(error.to_string()))
            }
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(error) => Err(ServeError::Opening(error.to_string())),
        }
    });
    let (ended, result) = tokio::select! {
        result = &mut service => (Ended::Closed, result),
        name = interrupt => {
            // Runs first: rmcp then has only answers of ended calls to wait for.
            stop.cancel();
            leave.cancel();
            (Ended::Signal(name), service.await)
        }
    };
    stop.cancel();
    let all = u32::try_from(places).unwrap_or(u32::MAX);
    if tokio::time::timeout(GRACE, jobs.acquire_many(all)).await.is_err() {
        tracing::error!("runs were still not collected {} s after they were told to end", GRACE.as_secs());
    }
    match tokio::time::timeout(GRACE, recorder).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "recording of messages that were thrown away failed"),
        Err(_) => {
            tracing::error!("messages that were thrown away were not recorded in {} s", GRACE.as_secs())
        }
    }
    result.map(|()| ended)
}

/// Completes at the first signal that asks the server to end. SIGHUP does where the policy cannot change:
/// elsewhere it asks for a reload.
fn signals(hangup: bool) -> Result<impl Future<Output = &'static str>, ServeError> {
    let catch = |kind, name| signal(kind).map_err(|source| ServeError::Signals { name, source });
    let mut terminate = catch(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = catch(SignalKind::interrupt(), "SIGINT")?;
    let mut hangup = if hangup { Some(catch(SignalKind::hangup(), "SIGHUP")?) } else { None };
    Ok(async move {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            _ = hung_up => "SIGHUP",
        }
    })
}
