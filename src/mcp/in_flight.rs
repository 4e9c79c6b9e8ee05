//! Request ids: those of the client outside, numbers of our own inside.
//!
//! rmcp keeps one table by id. An id used twice at the same time would let one caller take the
//! other's answer, and so would an id used again while a cancelled call of that id is still being
//! killed. Inside, every request therefore has a number that never comes again, an answer finds its
//! way back through this table, and a late answer to a cancelled request finds nobody.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::OwnedSemaphorePermit;

/// Most requests that wait for an answer. A client that asks and does not read gets no further.
const MOST: usize = 256;
/// Longest id in bytes: it is kept until the answer, and comes back with it.
pub(super) const MOST_ID: usize = 1024;

/// The id that the client gave a request: an extension of the request, for the records.
#[derive(Debug, Clone)]
pub(super) struct Asked(pub(super) RequestId, Place);

/// Whether an id is one that is echoed.
pub(super) fn is_short(id: &RequestId) -> bool {
    !matches!(id, RequestId::String(text) if text.len() > MOST_ID)
}

/// The place among the running commands that a request holds until its answer has been written, so
/// that answers which nobody reads do not pile up.
#[derive(Debug, Clone)]
pub(super) struct Place(Arc<Held>);

#[derive(Debug)]
struct Held {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// One more owner of the table's token: what is held is counted, however it ends.
    _counted: Arc<()>,
}

impl Asked {
    /// An id that some other table keeps: what is held is let go with the request.
    pub(super) fn elsewhere(asked: RequestId) -> Self {
        Self(asked, Place(Arc::new(Held { permit: Mutex::default(), _counted: Arc::default() })))
    }

    /// Holds `permit` until the answer has been written, or nobody wants it any more.
    pub(super) fn hold(&self, permit: OwnedSemaphorePermit) {
        *self.1.0.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }
}

/// Requests that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    last: i64,
    /// Owned once by this table and once by each request whose answer has not been written.
    token: Arc<()>,
    inside: HashMap<RequestId, RequestId>,
    outside: HashMap<RequestId, Asked>,
    /// Requests of our own to the client, for consent: no more than calls wait for one.
    own: HashSet<RequestId>,
}

impl InFlight {
    /// The number of a new request and what goes along with it.
    ///
    /// # Errors
    /// Why it is not taken, in words for the client.
    pub(super) fn begin(&mut self, asked: &RequestId) -> Result<(RequestId, Asked), &'static str> {
        if !is_short(asked) {
            return Err("this request id is longer than 1024 bytes");
        }
        if self.inside.contains_key(asked) {
            return Err("this request id is in flight already: use each id once");
        }
        if Arc::strong_count(&self.token) > MOST {
            return Err("busy: 256 requests wait for their answers already; read answers first");
        }
        self.last = self.last.wrapping_add(1);
        let number = RequestId::Number(self.last);
        let held = Held { permit: Mutex::default(), _counted: Arc::clone(&self.token) };
        let entry = Asked(asked.clone(), Place(Arc::new(held)));
        self.inside.insert(asked.clone(), number.clone());
        self.outside.insert(number.clone(), entry.clone());
        Ok((number, entry))
    }

    /// The client's id for an answer; none when the client has cancelled the request.
    pub(super) fn answered(&mut self, number: &RequestId) -> Option<Asked> {
        let asked = self.outside.remove(number)?;
        self.inside.remove(&asked.0);
        Some(asked)
    }

    /// A request of our own goes to the client.
    pub(super) fn asked(&mut self, own: &RequestId) {
        self.own.insert(own.clone());
    }

    /// Whether an answer of the client is the first to a request of our own; taken back, it waits for none.
    pub(super) fn settled(&mut self, answer: Option<&RequestId>) -> bool {
        answer.is_some_and(|id| self.own.remove(id))
    }

    /// The client takes a request back: its number, if it was in flight.
    pub(super) fn cancelled(&mut self, asked: &RequestId) -> Option<RequestId> {
        let number = self.inside.remove(asked)?;
        self.outside.remove(&number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_used_again_after_its_answer_or_its_cancellation_but_not_before() {
        let mut table = InFlight::default();
        let id = RequestId::String("x".into());
        let (first, _) = table.begin(&id).unwrap();
        assert!(table.begin(&id).is_err());
        assert_eq!(table.cancelled(&id), Some(first.clone()));
        let (second, _) = table.begin(&id).unwrap();
        assert_ne!(first, second);
        assert!(table.answered(&first).is_none(), "a late answer finds nobody");
        assert_eq!(table.answered(&second).map(|asked| asked.0), Some(id.clone()));
        assert_eq!(table.cancelled(&id), None);
        assert!(table.inside.is_empty() && table.outside.is_empty());
    }

    #[test]
    fn requests_without_number_and_ids_without_end_are_refused() {
        let mut table = InFlight::default();
        assert!(table.begin(&RequestId::String("x".repeat(MOST_ID + 1).into())).is_err());
        let mut taken: Vec<_> =
            (0..1000).filter_map(|number| table.begin(&RequestId::Number(number)).ok()).collect();
        assert_eq!(taken.len(), MOST);
        let (number, entry) = taken.pop().unwrap();
        drop(entry);
        let answered = table.answered(&number);
        let next = RequestId::Number(5000);
        assert!(table.begin(&next).is_err(), "its answer has not been written yet");
        drop(answered);
        assert!(table.begin(&next).is_ok());
    }
}
