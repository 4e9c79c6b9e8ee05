//! Whether the server lives and is ready, and the page of its counters: `/healthz`, `/readyz`, `/metrics`.
//!
//! Purpose: answers without authentication, so nothing of the policy or of a request stands in them. Inputs: the
//! served appliance. `routes` is merged into the main listener; `serve` answers on an address of its own,
//! which alone has `/metrics`. Called by `cli/serve` and the transports.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Live, metrics};
use crate::mcp::http::Hub;

/// Connections to the counters at the same time; more wait.
const CONNECTIONS: usize = 64;
/// How long one of them may take, from its first byte to its end.
const TIME: Duration = Duration::from_secs(5);
/// Most headers of a request, and bytes of its head.
const HEADERS: usize = 64;
const HEAD_BYTES: usize = 16 * 1024;
/// How long to wait when the system has no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// What makes a server ready.
#[derive(Debug, Clone)]
pub struct Readiness {
    live: Arc<Live>,
    hub: Option<Arc<Hub<Live>>>,
    leaving: Arc<AtomicBool>,
}

impl Readiness {
    /// That of a served appliance, and of its listener where it has one.
    #[must_use]
    pub fn of(live: Arc<Live>, hub: Option<Arc<Hub<Live>>>) -> Self {
        Self { live, hub, leaving: Arc::default() }
    }

    /// From here on it takes nothing more on; whether that is news.
    pub fn leave(&self) -> bool {
        !self.leaving.swap(true, Ordering::Relaxed)
    }

    /// Why it is not ready; nothing: it is.
    #[must_use]
    pub fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        let now = self.live.now();
        let mut lacks = Vec::new();
        if now.audit().is_refusing() {
            lacks.push(("audit", "the required sink takes no records: calls are refused until it does"));
        }
        if !now.launcher_lives() {
            lacks.push(("sandbox", "the launcher process is gone: restart the server"));
        }
        if self.leaving.load(Ordering::Relaxed) {
            lacks.push(("draining", "the server is about to end and takes no more calls"));
        }
        lacks
    }

    /// `/healthz` and `/readyz`.
    pub fn routes(&self) -> Router {
        let ready = self.clone();
        Router::new()
            .route("/healthz", get(|| async { answer(StatusCode::OK, &json!({"status": "alive"})) }))
            .route("/readyz", get(move || async move { ready.answer() }))
    }

    fn answer(&self) -> Response {
        let lacks = self.lacks();
        if lacks.is_empty() {
            return answer(StatusCode::OK, &json!({"status": "ready"}));
        }
        let reasons: Vec<_> = lacks.iter().map(|(part, why)| json!({"part": part, "reason": why})).collect();
        answer(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not ready", "reasons": reasons}))
    }

    /// Answers on `listener` until `stop`: one request a connection, so many of them, each within a time, because
    /// nobody is asked who he is.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (live, hub) = (Arc::clone(&self.live), self.hub.clone());
        let page = move || async move {
            let text = metrics::page(&live, hub.as_deref());
            ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text)
        };
        let routes = self.routes().route("/metrics", get(page));
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let next = async {
                // Closed never: an error would mean that nobody is answered.
                let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
                Ok::<_, io::Error>((listener.accept().await?.0, place))
            };
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                accepted = next => accepted,
            };
            match accepted {
                Ok((stream, place)) => {
                    let service = TowerToHyperService::new(routes.clone());
                    tokio::spawn(async move {
                        let mut http = http1::Builder::new();
                        http.keep_alive(false).max_headers(HEADERS).max_buf_size(HEAD_BYTES);
                        let whole = http.serve_connection(TokioIo::new(stream), service);
                        if let Err(error) = tokio::time::timeout(TIME, whole).await {
                            tracing::debug!(%error, "a connection to the counters was cut off");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    // A client that is gone already is no reason; no descriptors left is one to wait.
                    tracing::warn!(%error, "accepting a connection to the counters failed");
                    tokio::time::sleep(EXHAUSTED).await;
                }
            }
        }
    }
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, format!("{body}\n")).into_response()
}

/// Opens the address of the counters. Before the server confines itself: no port can be bound afterwards.
///
/// # Errors
/// It is not a loopback address and `anywhere` does not allow that, or it cannot be bound.
pub fn listen(address: SocketAddr, anywhere: bool) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() && !anywhere {
        let text = format!(
            "{address} can be reached from other hosts, and the page asks nobody who he is: use a loopback \
             address, or add --metrics-anywhere"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    TcpListener::bind(address)
}
