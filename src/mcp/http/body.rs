//! Bodies of requests: read within a size and a time, and looked over before anything is built from them.
//!
//! Purpose: a text that is no JSON, a batch, and a text that would take a hundred times its size to parse are
//! told apart in one pass without memory of their own. Called by `endpoint.rs`.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::refusal::{INVALID_REQUEST, PARSE_ERROR, Refused, last, refusal};
use crate::mcp::MAX_LINE_BYTES;
use crate::mcp::in_flight::MOST_ID;

/// Values in one body. Parsing takes some two hundred bytes for each.
const VALUES: usize = 32 * 1024;

/// What the layers need to know of a message.
#[derive(Debug, Deserialize)]
pub(super) struct Peek<'b> {
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    id: Option<Id<'b>>,
}

/// An id, as far as its length goes: what else it may be is the protocol's to say.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Id<'b> {
    #[serde(borrow)]
    Text(Cow<'b, str>),
    Other(IgnoredAny),
}

/// The whole body.
///
/// # Errors
/// What is answered in its place.
pub(super) async fn read(headers: &HeaderMap, body: Body, time: Duration) -> Result<Bytes, Refused> {
    let json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|text| {
        let essence = text.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case("application/json")
    });
    if !json {
        let message = "Content-Type must be application/json";
        return Err(Box::new(last(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, message))));
    }
    let too_large = || {
        let message = format!("the body is larger than {MAX_LINE_BYTES} bytes");
        Box::new(last(refusal(StatusCode::PAYLOAD_TOO_LARGE, None, &message)))
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced.and_then(|text| text.parse::<u64>().ok()).is_some_and(|n| n > MAX_LINE_BYTES as u64) {
        return Err(too_large());
    }
    let whole = Limited::new(body, MAX_LINE_BYTES).collect();
    match tokio::time::timeout(time, whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Ok(Err(_)) => {
            let message = "the body could not be read";
            Err(Box::new(last(refusal(StatusCode::BAD_REQUEST, Some(PARSE_ERROR), message))))
        }
        Err(_) => {
            let message = format!("the body took longer than {} s", time.as_secs_f64());
            Err(Box::new(last(refusal(StatusCode::REQUEST_TIMEOUT, None, &message))))
        }
    }
}

/// Looks a body over.
///
/// # Errors
/// What is answered to one that is no single message.
pub(super) fn peek(body: &[u8]) -> Result<Peek<'_>, Refused> {
    let bad = |code, message: &str| Box::new(refusal(StatusCode::BAD_REQUEST, Some(code), message));
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(bad(
            INVALID_REQUEST,
            "batches are not part of this protocol: send one message a request",
        ));
    }
    if values(body) > VALUES {
        let message = format!("the body holds more than {VALUES} values");
        return Err(bad(INVALID_REQUEST, &message));
    }
    let peek: Peek<'_> = serde_json::from_slice(body).map_err(|error| {
        if error.is_data() {
            bad(INVALID_REQUEST, "the body is no JSON-RPC message")
        } else {
            bad(PARSE_ERROR, &format!("the body is no JSON: {error}"))
        }
    })?;
    if matches!(&peek.id, Some(Id::Text(text)) if text.len() > MOST_ID) {
        return Err(bad(INVALID_REQUEST, &format!("this request id is longer than {MOST_ID} bytes")));
    }
    Ok(peek)
}

/// Separators outside of strings, which is how many values there are, or a few more.
fn values(body: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b':' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const MESSAGE: &[u8] =
        br#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/list","params":{"a":[1,"[,"]}}"#;

    #[test]
    fn what_is_no_single_message_is_told_apart() {
        let status = |body: &[u8]| peek(body).map(|peek| peek.method.unwrap_or_default().into_owned());
        assert_eq!(status(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).unwrap(), "tools/list");
        assert_eq!(status(br#"{"method":"to\u006fls"}"#).unwrap(), "tools");
        for id in ["1", "null", "{}", "\"a\\u0062\"", &format!("\"{}\"", "x".repeat(MOST_ID))] {
            assert!(peek(format!("{{\"id\":{id}}}").as_bytes()).is_ok(), "{id}");
        }
        let long = format!("{{\"id\":\"{}\"}}", "x".repeat(MOST_ID + 1));
        let many = format!("{{\"params\":[{}0]}}", "0,".repeat(VALUES));
        for bad in [&b""[..], b"[]", b" [1]", b"{", b"\"x\"", b"\xff", many.as_bytes(), long.as_bytes()] {
            assert_eq!(status(bad).unwrap_err().status(), StatusCode::BAD_REQUEST);
        }
    }

    fn trees() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::from)];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    fn nodes(value: &Value) -> usize {
        1 + match value {
            Value::Array(all) => all.iter().map(nodes).sum(),
            Value::Object(all) => all.values().map(nodes).sum(),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn no_value_of_a_body_goes_uncounted(tree in trees()) {
            prop_assert!(values(tree.to_string().as_bytes()) + 1 >= nodes(&tree));
        }

        #[test]
        fn any_bytes_are_a_message_or_400(
            noise in prop::collection::vec(any::<u8>(), 0..64),
            at in 0..MESSAGE.len(),
            cut in 0..8_usize,
        ) {
            let mut broken = MESSAGE.to_vec();
            broken.splice(at..(at + cut).min(MESSAGE.len()), noise.iter().copied());
            for body in [&noise, &broken] {
                match peek(body) {
                    // One object; what is wrong deeper in it is for the protocol's own parser.
                    Ok(_) => prop_assert_eq!(body.trim_ascii_start().first(), Some(&b'{')),
                    Err(refused) => prop_assert_eq!(refused.status(), StatusCode::BAD_REQUEST),
                }
            }
        }
    }

    #[test]
    fn separators_in_strings_are_not_counted() {
        assert_eq!(values(br#"{"a":"[,:{\",","b":[1,2]}"#), 6);
    }
}
