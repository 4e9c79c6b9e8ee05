//! The principals of a server at work: who they are known by, and what each of them is served.
//!
//! Purpose: each has its own tools, jobs, tasks, questions and sessions, so that nothing of one is there for
//! another. Tokens can be read again while it serves: sessions and jobs stay with the name. Inputs: the policy's
//! `[principal.NAME]`, and token files. Called by `hub.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use http::{Request, Response};
use http_body_util::Full;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::rate::Rate;
use super::sessions::Guarded;
use super::tokens::{self, TokenError};
use crate::config::{Config, DIGEST, Principal};
use crate::mcp::Offer;
use crate::mcp::runner::Runner;
use crate::mcp::server::Server;
use crate::mcp::stdio::OVER;

/// Name of the principal of `--token-file`.
pub const OPERATOR: &str = "operator";

/// The principals of a policy, and the token file of the command line.
#[derive(Debug, Clone, Default)]
pub struct Principals(pub(super) BTreeMap<String, Principal>);

impl Principals {
    /// Those of a policy; `token_file` makes one more, who may use everything.
    ///
    /// # Errors
    /// The policy has one of that name, or commands see a file of tokens: whoever may run one would be anybody.
    pub fn of(config: &Config, token_file: Option<PathBuf>) -> Result<Self, String> {
        let mut all = config.principals.clone();
        if let Some(file) = token_file {
            let own = Principal { token_file: Some(file), ..Principal::default() };
            if all.insert(OPERATOR.to_owned(), own).is_some() {
                return Err(format!(
                    "--token-file makes a principal \"{OPERATOR}\", and the policy has one: leave one of them out"
                ));
            }
        }
        for file in all.values().filter_map(|principal| principal.token_file.as_ref()) {
            // One that is not there is refused when it is read.
            if let Ok(real) = file.canonicalize()
                && real.starts_with(&config.workspace.path)
            {
                return Err(format!(
                    "the token file {} lies in the workspace {}, where commands see it: move it out of there",
                    file.display(),
                    config.workspace.path.display()
                ));
            }
        }
        Ok(Self(all))
    }

    /// Whether somebody has to say who it is: always, once there is a principal.
    #[must_use]
    pub fn authenticate(&self) -> bool {
        !self.0.is_empty()
    }

    /// Digests of all tokens with their owners, the files read.
    ///
    /// # Errors
    /// A file that gives no tokens, or one token with two owners.
    pub(super) fn tokens(&self) -> Result<Vec<([u8; DIGEST], String)>, TokenError> {
        let mut all: Vec<([u8; DIGEST], String)> = Vec::new();
        for (name, principal) in &self.0 {
            let mut own = principal.tokens.clone();
            if let Some(file) = &principal.token_file {
                own.extend(tokens::read(file)?);
            }
            for digest in own {
                if let Some((_, other)) = all.iter().find(|(known, _)| *known == digest) {
                    let file = principal
                        .token_file
                        .as_ref()
                        .map_or("(policy)".into(), |path| path.display().to_string());
                    let what = format!("one token is that of {name} and of {other}: give each its own");
                    if other != name {
                        return Err(TokenError::Content { path: file, what });
                    }
                    continue;
                }
                all.push((digest, name.clone()));
            }
        }
        Ok(all)
    }
}

/// rmcp's service over some handler: a request of HTTP in, its response out.
pub(super) type Handle =
    Box<dyn Fn(Request<Full<Bytes>>) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> + Send + Sync>;
/// Makes one for a principal, with its sessions.
pub(super) type Make = Arc<dyn Fn(Arc<Guarded>, StreamableHttpServerConfig) -> Handle + Send + Sync>;

pub(super) fn handle<H: ServerHandler>(
    make: impl Fn() -> H + Send + Sync + 'static,
    sessions: Arc<Guarded>,
    config: StreamableHttpServerConfig,
) -> Handle {
    let service = Arc::new(StreamableHttpService::new(move || Ok(make()), sessions, config));
    Box::new(move |request| {
        let service = Arc::clone(&service);
        Box::pin(async move { service.handle(request).await.map(Body::new) })
    })
}

/// One principal at work.
pub(super) struct Served {
    pub(super) handle: Handle,
    pub(super) sessions: Arc<Guarded>,
    pub(super) rate: Rate,
    /// Requests that are answered at the same time.
    pub(super) requests: Arc<Semaphore>,
    /// Calls at the same time, jobs included.
    pub(super) places: Arc<Semaphore>,
    pub(super) most: usize,
}

/// What all principals have in common.
pub(super) struct Common<'c, R> {
    pub(super) runner: &'c Arc<R>,
    pub(super) transport: &'static str,
    pub(super) service: &'c StreamableHttpServerConfig,
    pub(super) stop: &'c CancellationToken,
    pub(super) idle: std::time::Duration,
    /// What answers in place of our tools.
    pub(super) other: Option<&'c Make>,
}

impl Served {
    pub(super) fn new<R: Runner>(name: &str, principal: &Principal, common: &Common<'_, R>) -> Self {
        let offer = narrowed(common.runner.offer(), principal);
        // Beyond what runs, a few more are handed on, to be refused and recorded; not with a limit of its own.
        let most = principal.jobs.map_or(offer.jobs.saturating_add(OVER), |jobs| jobs.min(offer.jobs));
        let idle = common.idle.max(offer.max_timeout.saturating_add(std::time::Duration::from_secs(60)));
        let places = Arc::new(Semaphore::new(most));
        let server = Server::offering(
            Arc::clone(common.runner),
            {
                let principal = principal.clone();
                move |offer| narrowed(offer, &principal)
            },
            common.transport,
            Arc::clone(&places),
            common.stop.clone(),
        );
        let server = server.of(&format!("principal {name}"));
        let sessions = Arc::new(Guarded::new(principal.sessions, idle));
        let (of, config) = (Arc::clone(&sessions), common.service.clone());
        let handle = match common.other {
            Some(make) => make(of, config),
            None => handle(move || server.another(), of, config),
        };
        Self {
            handle,
            sessions,
            rate: Rate::new(principal.requests_per_minute, Instant::now()),
            requests: Arc::new(Semaphore::new(principal.requests)),
            places,
            most,
        }
    }
}

/// The part of an offer that a principal gets. Tools that belong to no toolkit of their own are those of the
/// policy as a whole: they stay only where the one toolkit that is left can stand for them.
fn narrowed(mut offer: Offer, principal: &Principal) -> Offer {
    if let Some(toolkits) = &principal.toolkits {
        let all = offer.kits.len();
        offer.kits.retain(|kit| toolkits.contains(&kit.prefix));
        if offer.kits.len() < all {
            let only = match offer.kits.as_slice() {
                [only] => Some(only.clone()),
                _ => None,
            };
            offer.batch = offer.batch.and(only.clone());
            offer.shell = offer.shell.and(only);
        }
    }
    if let Some(jobs) = principal.max_jobs.into_iter().chain(principal.jobs).min() {
        offer.max_jobs = offer.max_jobs.min(jobs);
        for kit in &mut offer.kits {
            if let Some(own) = &mut kit.ceilings {
                own.max_jobs = own.max_jobs.min(jobs);
            }
        }
    }
    offer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Kit;

    fn offer(prefixes: &[&str]) -> Offer {
        let kit = |prefix: &&str| Kit { prefix: (*prefix).to_owned(), ..Kit::default() };
        let kits: Vec<Kit> = prefixes.iter().map(kit).collect();
        let whole = Some(Kit { names: vec!["everything".to_owned()], ..Kit::default() });
        Offer { kits, batch: whole.clone(), shell: whole, max_jobs: 4, jobs: 8, ..Offer::default() }
    }

    #[test]
    fn a_principal_is_offered_its_toolkits_and_no_way_around_them() {
        let of = |toolkits: &[&str]| {
            let toolkits = Some(toolkits.iter().map(|prefix| (*prefix).to_owned()).collect());
            narrowed(offer(&["a", "b", "c"]), &Principal { toolkits, ..Principal::default() })
        };
        let two = of(&["a", "b"]);
        assert_eq!(two.kits.len(), 2);
        assert!(two.batch.is_none() && two.shell.is_none());
        let one = of(&["b"]);
        assert_eq!(one.batch.as_ref().map(|kit| kit.prefix.as_str()), Some("b"));
        assert_eq!(one.batch_toolkit().as_deref(), Some("b"));
        let all = narrowed(offer(&["a", "b"]), &Principal::default());
        assert!(all.kits.len() == 2 && all.batch.is_some_and(|kit| kit.names == ["everything"]));
        let few = narrowed(offer(&["a"]), &Principal { jobs: Some(2), ..Principal::default() });
        assert_eq!(few.max_jobs, 2);
    }
}
