//! The state that all requests share: principals, what is accepted, counters, and the end of it.
//!
//! Called by the layers; `serve.rs` makes it. Other rooms get it as [`Hub`] to show its counters.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use tokio_util::sync::CancellationToken;

use super::auth::Who;
use super::bind::Listener;
use super::counters::Counters;
use super::origin::Allowed;
use super::principals::{Common, Make, Principals, Served};
use super::tls::Tls;
use super::tokens::{self, TokenError};
use crate::audit::{Caller, Peer};
use crate::config::{DIGEST, HttpConfig, Principal};
use crate::mcp::MAX_LINE_BYTES;
use crate::mcp::runner::Runner;

/// Path of the endpoint.
pub(super) const ENDPOINT: &str = "/mcp";
/// Principals that nobody named: users at a Unix socket. More than this many are turned away.
const UNNAMED: usize = 64;

/// Everything that requests share.
pub struct Hub<R> {
    runner: Arc<R>,
    transport: &'static str,
    pub(super) allowed: Allowed,
    pub(super) http: HttpConfig,
    /// URL of the endpoint, for metadata.
    pub(super) resource: String,
    /// What the listener counts.
    pub counters: Counters,
    principals: Principals,
    tokens: RwLock<Vec<([u8; DIGEST], String)>>,
    /// On a TCP address whose policy has it.
    tls: Option<RwLock<Tls>>,
    served: RwLock<BTreeMap<String, Arc<Served>>>,
    service: StreamableHttpServerConfig,
    /// What answers in place of our tools, if something does.
    pub(super) other: OnceLock<Make>,
    /// Nothing new is begun.
    pub(super) draining: CancellationToken,
    /// Everything ends.
    pub(super) stop: CancellationToken,
}

impl<R: Runner> Hub<R> {
    pub(super) fn new(
        runner: Arc<R>,
        listener: &Listener,
        http: HttpConfig,
        principals: Principals,
    ) -> Result<Self, TokenError> {
        let allowed = Allowed::new(listener.address(), &http.hosts, &http.origins);
        let stop = CancellationToken::new();
        let service = StreamableHttpServerConfig::default()
            .with_allowed_hosts(allowed.names())
            .with_allowed_origins(allowed.origins())
            .enforce_origin_validation()
            .with_sse_retry(None)
            .with_max_request_body_bytes(MAX_LINE_BYTES)
            .with_cancellation_token(stop.child_token());
        let tls = http.tls.as_ref().filter(|_| listener.address().is_some()).map(Tls::load).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let own = || match listener.address() {
            Some(address) => format!("{scheme}://{address}{ENDPOINT}"),
            None => format!("http://localhost{ENDPOINT}"),
        };
        let resource = http.resource.clone().unwrap_or_else(own);
        let tokens = RwLock::new(principals.tokens()?);
        Ok(Self {
            runner,
            transport: listener.transport(),
            allowed,
            http,
            resource,
            counters: Counters::default(),
            principals,
            tokens,
            tls: tls.map(RwLock::new),
            served: RwLock::default(),
            service,
            other: OnceLock::new(),
            draining: CancellationToken::new(),
            stop,
        })
    }

    /// Reads the token files and those of TLS again. Sessions, jobs and calls under way go on; a connection whose
    /// handshake was under the old ones ends after the request that it is at.
    ///
    /// # Errors
    /// A file that gives no tokens or no TLS: all of the old ones stay in force.
    pub fn rotate(&self) -> Result<usize, TokenError> {
        let fresh = self.principals.tokens()?;
        let count = fresh.len();
        if let (Some(now), Some(config)) = (&self.tls, &self.http.tls) {
            let fresh = Tls::load(config)?;
            let old = std::mem::replace(&mut *now.write().unwrap_or_else(PoisonError::into_inner), fresh);
            old.replaced.cancel();
        }
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(count)
    }

    /// What a new connection has to shake hands with.
    pub(super) fn tls(&self) -> Option<Tls> {
        self.tls.as_ref().map(|tls| tls.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Whether nothing new is begun any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Sessions of the older era that are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.all().iter().map(|served| served.sessions.count()).sum()
    }

    /// Who sends this: the owner of `token`, of the certificate that the connection has shown, or the user at the
    /// other end of a socket. Where it says so twice it must be the same.
    pub(super) fn who(&self, token: Option<&[u8]>, certificate: Option<&[u8; DIGEST]>, peer: &Peer) -> Who {
        let holds = |(_, one): &(&String, &Principal)| {
            certificate.is_some_and(|shown| one.certificates.iter().any(|known| known == shown))
        };
        let certified = self.principals.0.iter().find(holds).map(|(name, _)| name);
        if let Some(token) = token {
            let known = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
            return match tokens::owner(&known, token) {
                Some(name) if certified.is_none_or(|other| other == name) => {
                    Who::Known(caller(name, "bearer"))
                }
                _ => Who::Nobody,
            };
        }
        if let Some(name) = certified {
            return Who::Known(caller(name, "mtls"));
        }
        if let Some(uid) = peer.uid {
            if let Some((name, _)) = self.principals.0.iter().find(|(_, one)| one.uids.contains(&uid)) {
                return Who::Known(caller(name, "peercred"));
            }
            if self.principals.0.is_empty() {
                return Who::Known(caller(&format!("uid:{uid}"), "peercred"));
            }
        }
        if self.principals.0.is_empty() && peer.address.is_some() { Who::Anybody } else { Who::Nobody }
    }

    /// What a caller is served; made at its first request.
    ///
    /// # Errors
    /// There are too many that nobody named.
    pub(super) fn served(&self, caller: Option<&Caller>) -> Result<Arc<Served>, String> {
        let name = caller.map_or("anybody", |caller| caller.principal.as_str());
        let found = self.served.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(served) = found {
            return Ok(served);
        }
        let mut all = self.served.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(served) = all.get(name) {
            return Ok(Arc::clone(served));
        }
        let named = self.principals.0.get(name);
        if named.is_none() && all.len() >= UNNAMED + self.principals.0.len() {
            return Err(format!("{UNNAMED} users are served already: name principals in the policy"));
        }
        let common = Common {
            runner: &self.runner,
            transport: self.transport,
            service: &self.service,
            stop: &self.stop,
            idle: self.http.session_idle,
            other: self.other.get(),
        };
        let served = Arc::new(Served::new(name, named.unwrap_or(&Principal::default()), &common));
        all.insert(name.to_owned(), Arc::clone(&served));
        Ok(served)
    }

    fn all(&self) -> Vec<Arc<Served>> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Waits until no call is under way any more, jobs included; whether it came to that in `time`.
    pub(super) async fn quiet(&self, time: Duration) -> bool {
        let all = self.all();
        let wait = async {
            for served in &all {
                let every = u32::try_from(served.most).unwrap_or(u32::MAX);
                // Closed never: an error would mean that nothing runs.
                drop(served.places.acquire_many(every).await);
            }
        };
        tokio::time::timeout(time, wait).await.is_ok()
    }
}

fn caller(name: &str, auth: &'static str) -> Caller {
    Caller { principal: name.to_owned(), auth }
}

impl<R> std::fmt::Debug for Hub<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("resource", &self.resource).finish_non_exhaustive()
    }
}
