//! Request ids: those of the client outside, numbers of our own inside.
//!
//! rmcp keeps one table by id. An id used twice at the same time would let one caller take the
//! other's answer, and so would an id used again while a cancelled call of that id is still being
//! killed. Inside, every request therefore has a number that never comes again, an answer finds its
//! way back through this table, and a late answer to a cancelled request finds nobody.

use std::collections::HashMap;

use rmcp::model::RequestId;

/// The id that the client gave a request: an extension of the request, for the records.
#[derive(Debug, Clone)]
pub(super) struct Asked(pub(super) RequestId);

/// Requests that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    last: i64,
    inside: HashMap<RequestId, RequestId>,
    outside: HashMap<RequestId, RequestId>,
}

impl InFlight {
    /// The number of a new request; none when the client's id is in flight already.
    pub(super) fn begin(&mut self, asked: &RequestId) -> Option<RequestId> {
        if self.inside.contains_key(asked) {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let number = RequestId::Number(self.last);
        self.inside.insert(asked.clone(), number.clone());
        self.outside.insert(number.clone(), asked.clone());
        Some(number)
    }

    /// The client's id for an answer; none when the client has cancelled the request.
    pub(super) fn answered(&mut self, number: &RequestId) -> Option<RequestId> {
        let asked = self.outside.remove(number)?;
        self.inside.remove(&asked);
        Some(asked)
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
        let first = table.begin(&id).unwrap();
        assert_eq!(table.begin(&id), None);
        assert_eq!(table.cancelled(&id), Some(first.clone()));
        let second = table.begin(&id).unwrap();
        assert_ne!(first, second);
        assert_eq!(table.answered(&first), None, "a late answer finds nobody");
        assert_eq!(table.answered(&second), Some(id.clone()));
        assert_eq!(table.cancelled(&id), None);
        assert!(table.inside.is_empty() && table.outside.is_empty());
    }
}
