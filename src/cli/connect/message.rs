//! One line of the client: what kind of message it is, and the headers that it travels with.
//!
//! Pure. Inputs: a line. Called by `connect.rs` and `exchange.rs`. Source: MCP 2025-11-25 and 2026-07-28,
//! "Streamable HTTP".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

/// Where a message of the modern era says its version.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// What somebody sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It wants an answer.
    Request,
    /// It wants none.
    Notification,
    /// It is the answer to a request of the server.
    Answer,
}

/// A message of the client, with the very bytes that it sent.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// Reads a line.
    ///
    /// # Errors
    /// The answer that it gets where it is no message.
    pub(super) fn read(line: &[u8]) -> Result<Self, Value> {
        let bad = |code: i32, text: &str| failure(&Value::Null, code, text);
        let value: Value =
            serde_json::from_slice(line).map_err(|e| bad(-32700, &format!("not JSON: {e}")))?;
        let Value::Object(mut object) = value else {
            return Err(bad(
                -32600,
                "a message is one JSON object a line; batches are of no protocol version here",
            ));
        };
        let id = object.remove("id");
        let (kind, method) = match (object.remove("method"), &id) {
            (Some(Value::String(method)), Some(Value::String(_) | Value::Number(_))) => {
                (Kind::Request, method)
            }
            (Some(Value::String(method)), None) => (Kind::Notification, method),
            (None, Some(_)) if object.contains_key("result") || object.contains_key("error") => {
                (Kind::Answer, String::new())
            }
            _ => return Err(bad(-32600, "neither a request nor a notification nor an answer")),
        };
        let params = object.remove("params").unwrap_or(Value::Null);
        Ok(Self { kind, id: id.unwrap_or(Value::Null), method, params, bytes: line.to_vec() })
    }

    /// The protocol version that it names itself: one of the modern era.
    pub(super) fn version(&self) -> Option<&str> {
        self.params.get("_meta")?.get(VERSION)?.as_str()
    }

    /// The headers that a message of the modern era repeats parts of itself in.
    pub(super) fn mirrored(&self) -> Vec<(HeaderName, HeaderValue)> {
        let Some(version) = self.version() else { return Vec::new() };
        let name = match self.method.as_str() {
            "tools/call" | "prompts/get" => self.params.get("name"),
            "resources/read" => self.params.get("uri"),
            method if method.starts_with("tasks/") => self.params.get("taskId"),
            _ => None,
        };
        let mut headers = vec![
            (HeaderName::from_static("mcp-protocol-version"), header(version)),
            (HeaderName::from_static("mcp-method"), header(&self.method)),
        ];
        let name = name.and_then(Value::as_str);
        headers.extend(name.map(|name| (HeaderName::from_static("mcp-name"), header(name))));
        headers
    }
}

/// A value as a header: as it is where that is unambiguous, else in the base64 form of the protocol.
pub(super) fn header(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let encoded = || format!("=?base64?{}?=", STANDARD.encode(text));
    let value = if plain { text.to_owned() } else { encoded() };
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}

/// An answer of the bridge's own.
pub(super) fn failure(id: &Value, code: i32, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(line: &str) -> Vec<(String, String)> {
        let message = Message::read(line.as_bytes()).unwrap();
        let text =
            |(name, value): (HeaderName, HeaderValue)| (name.to_string(), value.to_str().unwrap().to_owned());
        message.mirrored().into_iter().map(text).collect()
    }

    #[test]
    fn kinds_are_told_apart_and_what_is_no_message_is_answered() {
        for (line, kind) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, Kind::Request),
            (r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, Kind::Request),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Kind::Notification),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Kind::Answer),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#, Kind::Answer),
        ] {
            assert_eq!(Message::read(line.as_bytes()).unwrap().kind, kind, "{line}");
        }
        for (line, code) in [
            ("{", -32700),
            ("[]", -32600),
            ("{}", -32600),
            (r#"{"id":null,"method":"x"}"#, -32600),
            (r#"{"id":[],"method":"x"}"#, -32600),
            (r#"{"id":1}"#, -32600),
        ] {
            assert_eq!(Message::read(line.as_bytes()).unwrap_err()["error"]["code"], code, "{line}");
        }
    }

    #[test]
    fn the_modern_era_repeats_method_and_name_in_headers() {
        let call = |name: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","_meta":{{"{VERSION}":"2026-07-28"}}}}}}"#
            )
        };
        let expected =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "sh_run")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(headers(&call("sh_run")), expected);
        assert_eq!(headers(&call("ü"))[2].1, "=?base64?w7w=?=");
        assert_eq!(headers(&call("=?base64?w7w=?="))[2].1, "=?base64?PT9iYXNlNjQ/dzd3PT89?=");
        assert_eq!(headers(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), []);
    }
}
