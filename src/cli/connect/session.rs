//! The session of the older era: opened by the client's `initialize`, opened again where the server forgot it.
//!
//! Purpose: a server that was started again must not end its clients, which cannot be told to begin anew. What
//! was under way is answered as failed; only what was refused for want of a session is sent again. Inputs: the
//! bridge. Called by `connect.rs` and `exchange.rs`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::Bridge;
use super::exchange::{Failed, SESSION};
use super::message::{Kind, Message, failure, header};

/// Between two attempts to listen.
const PAUSE: Duration = Duration::from_secs(1);
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// How the client opened it.
    opening: Option<Message>,
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// The last event of the stream that listens.
    last: Option<String>,
    /// Counts the sessions.
    number: u64,
}

impl Bridge {
    fn held(&self) -> std::sync::MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The headers of a message of the session.
    pub(super) fn session_headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let session = self.held();
        let id = session.id.clone().map(|id| (SESSION, id));
        let version = session.version.clone();
        let version = version.map(|version| (HeaderName::from_static("mcp-protocol-version"), version));
        id.into_iter().chain(version).collect()
    }

    /// An event was heard.
    pub(super) fn heard(&self, id: String) {
        self.held().last = Some(id);
    }

    /// Opens the session with the client's own message, and answers that.
    pub(super) async fn open(&self, message: &Message) {
        match self.opened(message).await {
            Ok(answer) => {
                self.held().opening = Some(message.clone());
                self.say(&answer).await;
            }
            Err(failed) => self.say(&failure(&message.id, -32603, &failed.to_string())).await,
        }
    }

    /// The answer to an opening message.
    async fn opened(&self, message: &Message) -> Result<Value, Failed> {
        {
            let mut session = self.held();
            (session.id, session.version, session.last) = (None, None, None);
        }
        let response = self.post(message).await?;
        let id = response.headers().get(SESSION).cloned();
        let mut answer = None;
        self.read(response, |text| {
            let value: Option<Value> = serde_json::from_str(&text).ok();
            let value = value.filter(|value| value.get("id") == Some(&message.id));
            if value.is_some() {
                answer = value;
                return None;
            }
            Some(text)
        })
        .await?;
        let answer = answer.ok_or_else(|| Failed::Odd("it holds no answer".to_owned()))?;
        let version = answer.get("result").and_then(|result| result.get("protocolVersion"));
        let version = version.and_then(Value::as_str).map(header);
        let mut session = self.held();
        session.number += 1;
        (session.id, session.version) = (id, version);
        Ok(answer)
    }

    /// Opens a session in place of one that the server does not know any more. Whether there is one now.
    pub(super) async fn renew(&self) -> bool {
        let number = self.held().number;
        let _turn = self.renewing.lock().await;
        if self.held().number != number {
            return true; // somebody else has
        }
        let Some(opening) = self.held().opening.clone() else { return false };
        match self.opened(&opening).await {
            Ok(answer) if answer.get("result").is_some() => {}
            Ok(answer) => {
                eprintln!("cofferdam: the server refuses a new session: {answer}");
                return false;
            }
            Err(failed) => {
                eprintln!("cofferdam: a new session was not to be had: {failed}");
                return false;
            }
        }
        let Ok(initialized) = Message::read(INITIALIZED) else { return false };
        if let Err(failed) = self.post(&initialized).await {
            eprintln!("cofferdam: a new session was not to be had: {failed}");
            return false;
        }
        eprintln!("cofferdam: the server was started again: a new session is open");
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
        true
    }

    /// Hands on what the server says outside of any answer, as long as the bridge lives.
    pub(super) async fn listen(self: Arc<Self>) {
        loop {
            let mut headers = vec![(ACCEPT, EVENTS)];
            headers.extend(self.session_headers());
            let (last, number) = {
                let session = self.held();
                (session.last.clone(), session.number)
            };
            headers.extend(last.map(|last| (HeaderName::from_static("last-event-id"), header(&last))));
            match self.patiently(Method::GET, &headers, None).await {
                Ok(response) if response.status().is_success() => {
                    // That it broke is no news: it is opened again.
                    drop(self.read(response, Some).await);
                }
                Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                    // Whether the session is gone the next request finds out, which may open another.
                    while self.held().number == number {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                // The server has nothing to say beside its answers.
                Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        let headers = self.session_headers();
        if headers.iter().any(|(name, _)| *name == SESSION)
            && let Err(error) = self.patiently(Method::DELETE, &headers, None).await
        {
            eprintln!("cofferdam: the session was not closed: {error}");
        }
    }

    /// Whether a message belongs to the opening, and must be through before the next one is read.
    pub(super) fn is_opening(message: &Message) -> bool {
        message.kind == Kind::Notification && message.method == "notifications/initialized"
    }
}
