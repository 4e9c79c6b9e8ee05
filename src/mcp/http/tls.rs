//! TLS on a TCP address, and certificates of clients where the policy names who signs them.
//!
//! Purpose: the files of `[server.tls]` become what connections are accepted with. TLS 1.2 and 1.3, each
//! handshake whole: nothing is resumed, so that every connection shows its certificate anew. A certificate that
//! was checked against `client_ca` is known by its SHA-256. Called by `hub.rs` and `accept.rs`.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::config::{DIGEST, TlsConfig};

/// Largest file of certificates.
const LARGEST: u64 = 1024 * 1024;

/// Why there is no TLS: the key of the policy, its file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("server.tls.{key} {path}: {what}")]
pub struct TlsError {
    key: &'static str,
    path: String,
    what: String,
}

/// What accepts connections, and whether it still does.
#[derive(Clone)]
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    /// Its files were read again: connections that it accepted end after the request they are at.
    pub(super) replaced: CancellationToken,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read, is no PEM of what it should be, or a key that others may read.
    pub(super) fn load(config: &TlsConfig) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates("certificate", &config.certificate)?;
        let failed = |key, path: &Path, what: &dyn std::fmt::Display| TlsError {
            key,
            path: path.display().to_string(),
            what: what.to_string(),
        };
        let wrong_key = |what: &dyn std::fmt::Display| failed("key", &config.key, what);
        let pem = read("key", &config.key, true)?;
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|e| wrong_key(&format!("holds no private key in PEM: {e}")))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| failed("certificate", &config.certificate, &e))?;
        let builder = match &config.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let wrong = |what: &dyn std::fmt::Display| failed("client_ca", file, what);
                let mut roots = RootCertStore::empty();
                for one in certificates("client_ca", file)? {
                    roots.add(one).map_err(|e| wrong(&e))?;
                }
                // Who has none may still send a token.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|e| wrong(&e))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut server = builder
            .with_single_cert(chain, key)
            .map_err(|e| wrong_key(&format!("does not serve {}: {e}", config.certificate.display())))?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(server)), replaced: CancellationToken::new() })
    }

    /// Shakes hands, and gives the SHA-256 of the client's certificate, where one was shown and is good.
    ///
    /// # Errors
    /// What the client speaks is no TLS, or its certificate is not signed by whom it must be.
    pub(super) async fn accept<S>(
        &self,
        stream: S,
    ) -> std::io::Result<(Box<TlsStream<S>>, Option<[u8; DIGEST]>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.acceptor.accept(stream).await?;
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates().and_then(|chain| chain.first());
        let shown = shown.map(|one| Sha256::digest(one.as_ref()).into());
        Ok((Box::new(stream), shown))
    }
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |what: String| TlsError { key, path: path.display().to_string(), what };
    let pem = read(key, path, false)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(failed("holds no certificate in PEM".to_owned())),
        Ok(all) => Ok(all),
        Err(error) => Err(failed(format!("is no PEM: {error}"))),
    }
}

/// The bytes of a file; `secret`: one that other users may not read.
fn read(key: &'static str, path: &Path, secret: bool) -> Result<Vec<u8>, TlsError> {
    let failed = |what: String| TlsError { key, path: path.display().to_string(), what };
    let cannot = |error: std::io::Error| {
        failed(format!("cannot be read: {error}; it must be a file that the server's user can read"))
    };
    // The open of a FIFO would wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(cannot)?;
    let facts = file.metadata().map_err(cannot)?;
    if !facts.is_file() {
        return Err(failed("is not a regular file".to_owned()));
    }
    // A group may have it, as that of TLS servers does on many systems.
    if secret && facts.mode() & 0o007 != 0 {
        return Err(failed("every user may open it; run chmod o= on it".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > LARGEST {
        return Err(failed(format!("is larger than {LARGEST} bytes")));
    }
    Ok(bytes)
}
