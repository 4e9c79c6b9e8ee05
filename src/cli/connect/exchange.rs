//! One message to the server and back: a POST, and whatever comes in answer to it.
//!
//! Purpose: each request of the client is answered exactly once, by the server or in its place, and is sent at
//! most once: again only where the server cannot have read it, or has said that it did nothing. Inputs: messages
//! of `message.rs`. Called by `connect.rs` and `session.rs`.

use std::time::{Duration, Instant};

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::Bridge;
use super::events::Events;
use super::message::{Kind, Message, failure};
use super::wire::WireError;

/// The one endpoint.
pub(super) const ENDPOINT: &str = "/mcp";
/// Both forms that an answer may have.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The session of the older era.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a server that does not listen is waited for: it may be about to start again.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// Why a message has no answer of the server.
#[derive(Debug)]
pub(super) enum Failed {
    /// It is not there, or the connection broke.
    Wire(WireError),
    /// It said no, with this status and text.
    Status(StatusCode, String),
    /// It answered with something else than was asked for.
    Odd(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wire(error @ WireError::Unsent { .. }) => {
                write!(out, "{error}; nothing was sent: is the server running?")
            }
            Self::Wire(error) => {
                write!(out, "{error}; it may have been carried out: look before it is repeated")
            }
            Self::Status(status, text) => write!(out, "the server answered {status}: {}", text.trim()),
            Self::Odd(what) => write!(out, "the server's answer is of no use: {what}"),
        }
    }
}

impl From<WireError> for Failed {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl Bridge {
    /// Hands one message on and what comes back to the client.
    pub(super) async fn hand_on(&self, message: &Message) {
        let mut outcome = self.exchange(message).await;
        if let Err(Failed::Status(StatusCode::NOT_FOUND, _)) = &outcome
            && message.version().is_none()
            && self.renew().await
        {
            // The session is gone, so it was not looked at.
            outcome = self.exchange(message).await;
        }
        let Err(failed) = outcome else { return };
        if message.kind == Kind::Request {
            self.say(&own_words(&message.id, &failed)).await;
        } else {
            eprintln!(
                "cofferdam: a {} was not taken: {failed}",
                if message.method.is_empty() { "answer" } else { &message.method }
            );
        }
    }

    async fn exchange(&self, message: &Message) -> Result<(), Failed> {
        let response = self.post(message).await?;
        if message.kind != Kind::Request {
            return Ok(());
        }
        let mut answered = false;
        self.read(response, |text| {
            answered = answered || answers(&text, &message.id);
            Some(text)
        })
        .await?;
        if answered { Ok(()) } else { Err(self.cut_off()) }
    }

    fn cut_off(&self) -> Failed {
        let what = "it was closed before the answer came".to_owned();
        Failed::Wire(WireError::Broken { endpoint: self.endpoint.clone(), what })
    }

    /// Sends a message; an answer that is no success is an error.
    pub(super) async fn post(&self, message: &Message) -> Result<Response<Incoming>, Failed> {
        let mut headers = vec![(ACCEPT, BOTH), (CONTENT_TYPE, JSON)];
        headers.extend(message.mirrored());
        if message.version().is_none() {
            headers.extend(self.session_headers());
        }
        let response = self.patiently(Method::POST, &headers, Some(&message.bytes)).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(Failed::Status(status, self.wire.text(response).await?))
    }

    /// Sends a request; as long as nobody accepts the connection, again.
    pub(super) async fn patiently(
        &self,
        method: Method,
        headers: &[(HeaderName, HeaderValue)],
        body: Option<&[u8]>,
    ) -> Result<Response<Incoming>, WireError> {
        let mut all = headers.to_vec();
        all.extend(self.token.clone().map(|token| (http::header::AUTHORIZATION, token)));
        let start = Instant::now();
        loop {
            match self.wire.send(method.clone(), ENDPOINT, &all, body.map(<[u8]>::to_vec)).await {
                Err(WireError::Unsent { .. }) if start.elapsed() < PATIENCE => {
                    tokio::time::sleep(PAUSE).await
                }
                other => return other,
            }
        }
    }

    /// Reads the messages of an answer, whichever form it has, and hands to the client what `pass` lets
    /// through.
    pub(super) async fn read(
        &self,
        response: Response<Incoming>,
        mut pass: impl FnMut(String) -> Option<String>,
    ) -> Result<(), Failed> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" => {
                let text = self.wire.text(response).await?;
                if let Some(text) = pass(text) {
                    self.say_text(text).await?;
                }
                Ok(())
            }
            "text/event-stream" => {
                let (mut events, mut body) = (Events::default(), response.into_body());
                let broken = |what: String| WireError::Broken { endpoint: self.endpoint.clone(), what };
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(|e| broken(e.to_string()))?;
                    let Ok(data) = frame.into_data() else { continue };
                    for event in events.take(&data).map_err(|e| broken(e.to_string()))? {
                        if let Some(id) = event.id {
                            self.heard(id);
                        }
                        // The first event of a stream may be empty: it only has an id.
                        if let Some(text) = pass(event.data) {
                            self.say_text(text).await?;
                        }
                    }
                }
                Ok(())
            }
            other => Err(Failed::Odd(format!("Content-Type {other:?}"))),
        }
    }

    /// One message of the server, on one line.
    async fn say_text(&self, text: String) -> Result<(), Failed> {
        if text.trim().is_empty() {
            return Ok(());
        }
        if !text.contains(['\n', '\r']) {
            self.say_line(text).await;
            return Ok(());
        }
        let value: Value = serde_json::from_str(&text).map_err(|e| Failed::Odd(format!("not JSON: {e}")))?;
        self.say(&value).await;
        Ok(())
    }
}

/// Whether `text` is the answer to the request `id`.
fn answers(text: &str, id: &Value) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    value.get("id") == Some(id) && (value.get("result").is_some() || value.get("error").is_some())
}

/// What the client is told where the server did not answer; its own words where it had some.
fn own_words(id: &Value, failed: &Failed) -> Value {
    if let Failed::Status(_, text) = failed
        && let Ok(Value::Object(mut said)) = serde_json::from_str::<Value>(text)
        && said.contains_key("jsonrpc")
        && said.contains_key("error")
    {
        said.insert("id".to_owned(), id.clone());
        return Value::Object(said);
    }
    failure(id, -32603, &failed.to_string())
}
