//! Server-sent events, as far as MCP uses them: the data of each, and the id of the last one.
//!
//! Pure. Inputs: bytes as they come. Called by `connect/exchange.rs`. Source: the event stream format of the
//! HTML standard, section 9.2.

/// Longest event: the longest message, and the names of its lines.
const LONGEST: usize = 17 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Its id, if it has one.
    pub(super) id: Option<String>,
    /// Its data; lines joined by a line feed.
    pub(super) data: String,
}

/// An event that never ends.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent an event of more than {LONGEST} bytes")]
pub(super) struct TooLong;

/// Bytes in, events out.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Option<String>,
    id: Option<String>,
    /// The last byte was a carriage return.
    after_return: bool,
}

impl Events {
    /// Takes bytes in; returns the events that they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.line()),
                _ => self.line.push(*byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > LONGEST {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    fn line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let id = self.id.take();
            return self.data.take().map(|data| Event { id, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" => self.id = Some(value.to_owned()),
            // A comment that keeps the connection alive, a retry time, the name of the event.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, data: &str) -> Event {
        Event { id: id.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn events_come_out_whole_however_the_bytes_are_cut() {
        let text = ": alive\nid: 7\ndata: {\"a\":1}\n\nevent: message\r\ndata:one\r\ndata: two\r\n\r\nretry: 3\n\ndata\n\n";
        let expected = [event(Some("7"), "{\"a\":1}"), event(None, "one\ntwo"), event(None, "")];
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<Event> =
                text.as_bytes().chunks(size).flat_map(|piece| events.take(piece).unwrap()).collect();
            assert_eq!(found, expected, "cut at {size}");
        }
    }

    #[test]
    fn one_that_never_ends_is_an_error() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        assert!((0..18).any(|_| events.take(&piece) == Err(TooLong)));
    }
}
