//! HTTP/1.1 to one server, a connection a request.
//!
//! Purpose: tells a request that was never sent from one that may have been read: only the first kind is ever
//! sent again. Inputs: a Unix socket or an address. Called by `connect.rs` and `health.rs`.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;

/// Longest body that is read whole.
const LONGEST: usize = 16 << 20;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// On a Unix socket.
    Unix(PathBuf),
    /// On a TCP address.
    Tcp(SocketAddr),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "{}", path.display()),
            Self::Tcp(address) => write!(out, "{address}"),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// Nobody accepted the connection: nothing was sent.
    #[error("connecting to {endpoint} failed: {source}")]
    Unsent {
        /// Where to.
        endpoint: Endpoint,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It broke after that: the server may have read the request.
    #[error("the connection to {endpoint} broke: {what}")]
    Broken {
        /// Where to.
        endpoint: Endpoint,
        /// What happened.
        what: String,
    },
}

/// One server.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    endpoint: Endpoint,
}

impl Wire {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    fn broken(&self, what: impl fmt::Display) -> WireError {
        WireError::Broken { endpoint: self.endpoint.clone(), what: what.to_string() }
    }

    /// Sends one request; the answer's body is still to be read. Dropping that closes the connection, which
    /// tells the server that nobody waits any more.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, WireError> {
        let unsent = |source| WireError::Unsent { endpoint: self.endpoint.clone(), source };
        let host = match &self.endpoint {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp(address) => address.to_string(),
        };
        let mut request = Request::builder().method(method).uri(path).header(http::header::HOST, host);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.map_err(|e| unsent(io::Error::other(e)))?;
        match &self.endpoint {
            Endpoint::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await.map_err(unsent)?;
                self.exchange(TokioIo::new(stream), request).await
            }
            Endpoint::Tcp(address) => {
                let stream = tokio::net::TcpStream::connect(address).await.map_err(unsent)?;
                self.exchange(TokioIo::new(stream), request).await
            }
        }
    }

    async fn exchange<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, WireError>
    where
        S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(|e| self.broken(e))?;
        // Ends with the body of the answer, or when that is dropped. What breaks shows there, too.
        tokio::spawn(async move { drop(connection.await) });
        sender.send_request(request).await.map_err(|e| self.broken(e))
    }

    /// The whole body of an answer.
    pub(crate) async fn text(&self, response: Response<Incoming>) -> Result<String, WireError> {
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let bytes = body.map_err(|e| self.broken(e))?.to_bytes();
        String::from_utf8(bytes.into()).map_err(|e| self.broken(e))
    }
}
