//! What one connection is told of the policy in force, and that it has changed.
//!
//! Purpose: definitions of tools are built once a policy, not once a request. Inputs: a runner, which says when
//! its offer is another one. Called by `server.rs`; the notifications go out from here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{Implementation, JsonObject, ServerCapabilities, ServerConfig};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::listen::JOBS;
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

/// Who sees the changes of a view.
pub(super) struct Watch {
    changes: watch::Receiver<u64>,
    last: Arc<View>,
}

impl View {
    fn of(offer: Offer, changes: bool) -> Self {
        #[allow(deprecated, reason = "the protocol keeps logging until 2027-07-28 at the least")]
        let capabilities = ServerCapabilities::builder().enable_logging().enable_tools().enable_tasks();
        let mut capabilities = capabilities.build();
        capabilities.extensions.get_or_insert_default().insert(JOBS.to_owned(), JsonObject::new());
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

    /// Sees the changes from now on; none: there are none.
    pub(super) fn watch(&self) -> Option<Watch> {
        self.changes.clone().map(|changes| Watch { changes, last: self.now() })
    }

    /// Waits until the tools are others than when `watch` saw them last. Returns never where nothing changes any
    /// more.
    pub(super) async fn changed(&self, watch: &mut Watch) {
        loop {
            if watch.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let now = self.now();
            if !now.same_tools(&watch.last) {
                watch.last = now;
                return;
            }
        }
    }

    /// Tells a client of the older era whenever the tools are others, until `stop`.
    pub(super) fn tell(self: &Arc<Self>, peer: Peer<RoleServer>, stop: CancellationToken) {
        let Some(mut watch) = self.watch() else { return };
        let views = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = views.changed(&mut watch) => {}
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
