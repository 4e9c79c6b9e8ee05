//! Request ids that wait for an answer, shared by the wire and the server.
//!
//! One id twice at the same time would let one caller take the other's answer, so the wire refuses
//! the second. An id leaves with its answer. A cancelled `tools/call` gets no answer: its id leaves
//! when the command has really ended, so that a late outcome finds nobody to mistake it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;

/// Ids in flight; `true` for a `tools/call`.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<RequestId, bool>>>);

impl InFlight {
    /// Takes an id in; `false` when it is in flight already.
    pub(super) fn begin(&self, id: &RequestId, is_call: bool) -> bool {
        let mut ids = self.ids();
        if ids.contains_key(id) {
            return false;
        }
        ids.insert(id.clone(), is_call);
        true
    }

    /// The answer goes out, or a cancelled call has ended.
    pub(super) fn end(&self, id: &RequestId) {
        self.ids().remove(id);
    }

    /// The client cancelled it: only a call still has something to end.
    pub(super) fn cancelled(&self, id: &RequestId) {
        let mut ids = self.ids();
        if ids.get(id) == Some(&false) {
            ids.remove(id);
        }
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<RequestId, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
