//! Connections: accepted, bounded in number, in what they send and in how long they take for it.
//!
//! Purpose: when as many are open as may be, the one that is idle for longest makes room, so that nobody keeps
//! others out by connecting. Called by `serve.rs`.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::bind::Kind;
use super::hub::Hub;
use super::tls::Tls;
use crate::audit::Peer;
use crate::config::DIGEST;
use crate::mcp::runner::Runner;

/// Most headers of a request; more are answered 431.
const HEADERS: usize = 64;
/// Most bytes of the head of a request.
const HEAD_BYTES: usize = 32 * 1024;
/// How long to wait when the system has no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    /// SHA-256 of the certificate that the client has shown; set by the handshake, before any request.
    certificate: OnceLock<[u8; DIGEST]>,
    /// Requests that are being answered.
    at_work: AtomicUsize,
    /// When the last one ended.
    since: Mutex<Instant>,
    evicted: CancellationToken,
}

impl Connection {
    fn new(peer: Peer) -> Self {
        Self {
            peer,
            certificate: OnceLock::new(),
            at_work: AtomicUsize::new(0),
            since: Mutex::new(Instant::now()),
            evicted: CancellationToken::new(),
        }
    }

    pub(super) fn certificate(&self) -> Option<&[u8; DIGEST]> {
        self.certificate.get()
    }

    /// It is at work as long as the value lives.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.at_work.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    fn idle_since(&self) -> Option<Instant> {
        let idle = self.at_work.load(Ordering::SeqCst) == 0;
        idle.then(|| *self.since.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.at_work.fetch_sub(1, Ordering::SeqCst);
    }
}

/// All open connections.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<Arc<Connection>>>);

impl Connections {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    /// Takes one in, another one out if there are too many; `None`: all of them are at work.
    fn admit(&self, most: usize, peer: Peer) -> Option<(Arc<Connection>, bool)> {
        let mut all = self.all();
        let mut evicted = false;
        if all.len() >= most {
            let idle = all.iter().enumerate().filter_map(|(at, one)| Some((one.idle_since()?, at)));
            let (_, at) = idle.min()?;
            all.swap_remove(at).evicted.cancel();
            evicted = true;
        }
        let connection = Arc::new(Connection::new(peer));
        all.push(Arc::clone(&connection));
        Some((connection, evicted))
    }

    fn leave(&self, connection: &Arc<Connection>) {
        self.all().retain(|one| !Arc::ptr_eq(one, connection));
    }
}

/// A listener inside of the runtime.
pub(super) enum Door {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Door {
    pub(super) fn open(kind: Kind) -> io::Result<Self> {
        Ok(match kind {
            Kind::Tcp(listener, _) => Self::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Kind::Unix(listener, _) => Self::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }

    /// Accepts until the server drains.
    pub(super) async fn serve<R: Runner>(
        self,
        hub: Arc<Hub<R>>,
        router: Router,
        connections: Arc<Connections>,
    ) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = hub.draining.cancelled() => return,
                accepted = self.one(&hub, &router, &connections) => accepted,
            };
            if let Err(error) = accepted {
                // A client that is gone already is no reason; no descriptors left is one to wait.
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }

    async fn one<R: Runner>(
        &self,
        hub: &Arc<Hub<R>>,
        router: &Router,
        connections: &Arc<Connections>,
    ) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let peer = Peer { address: Some(address), ..Peer::default() };
                admit(stream, peer, hub, router, connections);
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let credentials = stream.peer_cred()?;
                let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
                let peer = Peer { pid, uid: Some(credentials.uid()), ..Peer::default() };
                admit(stream, peer, hub, router, connections);
            }
        }
        Ok(())
    }
}

fn admit<R: Runner, S>(
    stream: S,
    peer: Peer,
    hub: &Arc<Hub<R>>,
    router: &Router,
    connections: &Arc<Connections>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    hub.counters.connections.up();
    let Some((connection, evicted)) = connections.admit(hub.http.connections, peer) else {
        // Dropped without a word: there is nobody to spare for one.
        return;
    };
    if evicted {
        hub.counters.evicted.up();
    }
    hub.counters.open.up();
    let (hub, router, connections) = (Arc::clone(hub), router.clone(), Arc::clone(connections));
    let tls = hub.tls();
    tokio::spawn(async move {
        match tls {
            None => spoken(stream, &connection, &hub, router, &CancellationToken::new()).await,
            Some(tls) => {
                if let Some(stream) = shaken(stream, &connection, &hub, &tls).await {
                    spoken(stream, &connection, &hub, router, &tls.replaced).await;
                }
            }
        }
        connections.leave(&connection);
        hub.counters.open.down();
    });
}

/// Shakes hands within the time that a head may take.
async fn shaken<R: Runner, S>(
    stream: S,
    connection: &Connection,
    hub: &Hub<R>,
    tls: &Tls,
) -> Option<Box<TlsStream<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let shaking = tokio::time::timeout(hub.http.read_timeout, tls.accept(stream));
    let shaken = tokio::select! {
        biased;
        () = connection.evicted.cancelled() => return None,
        () = hub.draining.cancelled() => return None,
        () = tls.replaced.cancelled() => return None,
        shaken = shaking => shaken,
    };
    match shaken {
        Ok(Ok((stream, shown))) => {
            if let Some(shown) = shown {
                connection.certificate.get_or_init(|| shown);
            }
            Some(stream)
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "a handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a handshake took too long");
            None
        }
    }
}

/// Serves one connection to its end; once `over`, to the end of the request that it is at.
async fn spoken<R: Runner, S>(
    stream: S,
    connection: &Arc<Connection>,
    hub: &Hub<R>,
    router: Router,
    over: &CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router.layer(Extension(Arc::clone(connection))));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(hub.http.read_timeout)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        () = connection.evicted.cancelled() => return,
        () = hub.stop.cancelled() => None,
        () = hub.draining.cancelled() => None,
        () = over.cancelled() => None,
        ended = serving.as_mut() => Some(ended),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended in an error");
    }
}
