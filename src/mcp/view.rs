//! What one connection is told of the policy in force, and that it has changed.
//!
//! Purpose: definitions of tools are built once a policy, not once a request. Inputs: a runner, which says when
//! its offer is another one. Called by `server.rs`; the notifications go out from here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::offer::Offer;
use super::runner::Runner;
use super::tools::{self, Entry};
use super::words;
use crate::config::ServerIdentity;

/// What one caller is offered of a policy.
type Narrow = dyn Fn(Offer) -> Offer + Send + Sync;

/// How often it is looked whether a client is still there that is told of changes.
const LOOK: Duration = Duration::from_secs(60);

/// One policy, as clients see it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) offer: Arc<Offer>,
    pub(super) tools: Vec<Entry>,
    pub(super) info: ServerConfig,
}

/// The view of the policy in force.
pub(super) struct Views<R> {
    runner: Arc<R>,
    /// What is left of an offer for this caller.
    narrow: Box<Narrow>,
    changes: Option<watch::Receiver<u64>>,
    held: Mutex<(u64, Arc<View>)>,
}

impl View {
    fn of(offer: Offer, changes: bool) -> Self {
        #[allow(deprecated, reason = "the protocol keeps logging until 2027-07-28 at the least")]
        let capabilities = ServerCapabilities::builder().enable_logging().enable_tools().enable_tasks();
        let mut capabilities = capabilities.build();
        if let Some(tools) = capabilities.tools.as_mut().filter(|_| changes) {
            tools.list_changed = Some(true);
        }
        let info = ServerConfig::new(capabilities)
            .with_server_info(implementation(&offer.server))
            .with_instructions(words::instructions(&offer));
        Self { tools: tools::all(&offer), offer: Arc::new(offer), info }
    }

    fn same_tools(&self, other: &Self) -> bool {
        self.tools.iter().map(|entry| &entry.tool).eq(other.tools.iter().map(|entry| &entry.tool))
    }
}

impl<R: Runner> Views<R> {
    pub(super) fn new(runner: Arc<R>, narrow: Box<Narrow>) -> Self {
        let changes = runner.changes();
        let view = View::of(narrow(runner.offer()), changes.is_some());
        let version = changes.as_ref().map_or(0, |changes| *changes.borrow());
        Self { runner, narrow, changes, held: Mutex::new((version, Arc::new(view))) }
    }

    /// The view of now.
    pub(super) fn now(&self) -> Arc<View> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Read before the offer: a change in between is seen the next time.
        let version = self.changes.as_ref().map_or(0, |changes| *changes.borrow());
        if held.0 != version {
            *held = (version, Arc::new(View::of((self.narrow)(self.runner.offer()), true)));
        }
        Arc::clone(&held.1)
    }

    /// Whether there can be another one.
    pub(super) fn may_change(&self) -> bool {
        self.changes.is_some()
    }

    /// Waits until the tools are others than those of `last`, and puts the new view there. Returns never where
    /// nothing changes any more.
    async fn changed(&self, changes: &mut watch::Receiver<u64>, last: &mut Arc<View>) {
        loop {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let now = self.now();
            if !now.same_tools(last) {
                *last = now;
                return;
            }
        }
    }

    /// Tells a client of the older era whenever the tools are others, until `stop`.
    pub(super) fn tell(self: &Arc<Self>, peer: Peer<RoleServer>, stop: CancellationToken) {
        let Some(mut changes) = self.changes.clone() else { return };
        let (views, mut last) = (Arc::clone(self), self.now());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = views.changed(&mut changes, &mut last) => {}
                    () = tokio::time::sleep(LOOK) => {
                        if peer.is_transport_closed() {
                            return;
                        }
                        continue;
                    }
                }
                if peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// The same on a subscription of the modern era.
    pub(super) async fn listen(&self, subscription: SubscriptionContext, stop: CancellationToken) {
        let (mut changes, mut last) = (self.changes.clone(), self.now());
        loop {
            let changed = async {
                match &mut changes {
                    Some(changes) => self.changed(changes, &mut last).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = subscription.cancelled() => return,
                () = stop.cancelled() => return,
                () = changed => {}
            }
            if subscription.sink().notify_tool_list_changed().await.is_err() {
                return;
            }
        }
    }
}

/// Name and version as clients are told them.
fn implementation(own: &ServerIdentity) -> Implementation {
    let name = own.name.as_deref().unwrap_or("cofferdam");
    let version = own.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
    let told = Implementation::new(name, version);
    match &own.description {
        Some(description) => told.with_description(description.clone()),
        None => told,
    }
}
