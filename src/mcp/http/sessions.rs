//! Sessions of the older protocol era, bounded and with answers that never cross.
//!
//! Purpose: what rmcp's own session manager leaves to its users. Inside of a session every request has a number
//! of ours in place of the client's id, so that two requests of one id in flight each get their own answer; a
//! session that is closed stops its calls; a stream that nobody reads holds up nobody; there are at most so many
//! sessions, of which the one that is idle for longest makes room. There is one manager for each principal: what
//! is a session of one is none of another. Called by rmcp's service.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, GetExtensions, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::hangup::Closed;
use super::super::in_flight::{Asked, is_short};

/// Messages of a stream that wait for their client. One that reads less is cut off.
const WAITING: usize = 256;

/// Why a session does not do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("as many sessions as this principal may have are open, and all of them are at work")]
    Full,
    #[error("this request id is longer than 1024 bytes")]
    LongId,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// The sessions of one principal.
#[derive(Debug)]
pub(super) struct Guarded {
    inner: LocalSessionManager,
    most: usize,
    open: Mutex<HashMap<SessionId, Arc<Open>>>,
}

#[derive(Debug)]
struct Open {
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: i64,
    used: Instant,
    /// Requests in flight: our number and the client's id.
    calls: HashMap<RequestId, RequestId>,
}

impl Open {
    fn new() -> Self {
        let state = State { last: 0, used: Instant::now(), calls: HashMap::new() };
        Self { stop: CancellationToken::new(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, asked: &RequestId) -> RequestId {
        let mut state = self.state();
        state.last = state.last.wrapping_add(1);
        state.used = Instant::now();
        let number = RequestId::Number(state.last);
        state.calls.insert(number.clone(), asked.clone());
        number
    }

    fn end(&self, number: &RequestId) {
        let mut state = self.state();
        state.calls.remove(number);
        state.used = Instant::now();
    }

    /// Our numbers of a client's id: all of them, as it cannot say which one it means.
    fn numbers(&self, asked: &RequestId) -> Vec<RequestId> {
        let state = self.state();
        state.calls.iter().filter(|(_, id)| *id == asked).map(|(number, _)| number.clone()).collect()
    }

    /// Since when nothing has been going on; absent while something is.
    fn idle(&self) -> Option<Instant> {
        let state = self.state();
        state.calls.is_empty().then_some(state.used)
    }
}

impl Guarded {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(idle);
        // A stream cannot be resumed: a client that hangs up has cancelled its call.
        inner.session_config.sse_retry = None;
        Self { inner, most, open: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one(&self, id: &SessionId) -> Option<Arc<Open>> {
        self.all().get(id).cloned()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    /// Makes room for one more.
    ///
    /// # Errors
    /// All of them are at work.
    pub(super) async fn room(&self) -> Result<(), SessionError> {
        let idle = {
            let open = self.all();
            if open.len() < self.most {
                return Ok(());
            }
            let idle = open.iter().filter_map(|(id, one)| Some((one.idle()?, id.clone())));
            idle.min_by_key(|(since, _)| *since).map(|(_, id)| id)
        };
        let id = idle.ok_or(SessionError::Full)?;
        self.close_session(&id).await
    }
}

impl SessionManager for Guarded {
    type Error = SessionError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        self.room().await?;
        let (id, transport) = self.inner.create_session().await?;
        self.all().insert(id.clone(), Arc::new(Open::new()));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.one(id).is_some() && self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        let open = self.all().remove(id);
        if let Some(open) = open {
            open.stop.cancel();
        }
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let open = self.one(id).ok_or_else(|| LocalSessionManagerError::SessionNotFound(id.clone()))?;
        let mut call = None;
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            if !is_short(&request.id) {
                return Err(SessionError::LongId);
            }
            let number = open.begin(&request.id);
            let asked = std::mem::replace(&mut request.id, number.clone());
            let extensions = request.request.extensions_mut();
            extensions.insert(Asked::elsewhere(asked.clone()));
            extensions.insert(Closed(open.stop.clone()));
            call = Some((number, asked));
        }
        let inner = self.inner.create_stream(id, message).await;
        if let (Err(_), Some((number, _))) = (&inner, &call) {
            open.end(number);
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(pump(Box::pin(inner?), sender, call, open));
        Ok(Told(receiver))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let mut named = None;
        if let ClientJsonRpcMessage::Notification(notification) = &mut message
            && let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification
        {
            named = cancelled.params.request_id.take();
        }
        let (Some(asked), Some(open)) = (named, self.one(id)) else {
            return Ok(self.inner.accept_message(id, message).await?);
        };
        for number in open.numbers(&asked) {
            let mut one = message.clone();
            if let ClientJsonRpcMessage::Notification(notification) = &mut one
                && let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification
            {
                cancelled.params.request_id = Some(number);
            }
            self.inner.accept_message(id, one).await?;
        }
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let open = self.one(id).ok_or_else(|| LocalSessionManagerError::SessionNotFound(id.clone()))?;
        let inner = self.inner.create_standalone_stream(id).await?;
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(pump(Box::pin(inner), sender, None, open));
        Ok(Told(receiver))
    }

    /// Nothing is kept to be told again: the stream goes on from here.
    async fn resume(
        &self,
        id: &SessionId,
        _last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.create_standalone_stream(id).await
    }
}

/// Takes messages off a session as they come, so that it never waits for a client, and gives answers back the
/// id that was asked with. Ends when the client has gone or falls too far behind.
async fn pump<S: Stream<Item = ServerSseMessage>>(
    mut inner: Pin<Box<S>>,
    told: mpsc::Sender<ServerSseMessage>,
    call: Option<(RequestId, RequestId)>,
    open: Arc<Open>,
) {
    loop {
        let next = std::future::poll_fn(|context| inner.as_mut().poll_next(context));
        let event = tokio::select! {
            event = next => event,
            () = told.closed() => break,
        };
        let Some(mut event) = event else { break };
        // There is nothing to resume from.
        event.event_id = None;
        if let Some((number, asked)) = &call
            && let Some(message) = event.message.take()
        {
            event.message = Some(answered(message, number, asked));
        }
        if told.try_send(event).is_err() {
            tracing::debug!("a client does not read its stream: it is cut off");
            break;
        }
    }
    if let Some((number, _)) = &call {
        open.end(number);
    }
}

/// The message with the id of the client, where it is the answer.
fn answered(
    message: Arc<ServerJsonRpcMessage>,
    number: &RequestId,
    asked: &RequestId,
) -> Arc<ServerJsonRpcMessage> {
    match &*message {
        ServerJsonRpcMessage::Response(response) if response.id == *number => {
            let mut response = response.clone();
            response.id = asked.clone();
            Arc::new(ServerJsonRpcMessage::Response(response))
        }
        ServerJsonRpcMessage::Error(error) if error.id.as_ref() == Some(number) => {
            let mut error = error.clone();
            error.id = Some(asked.clone());
            Arc::new(ServerJsonRpcMessage::Error(error))
        }
        _ => message,
    }
}

/// The client's end of a stream.
struct Told(mpsc::Receiver<ServerSseMessage>);

impl Stream for Told {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        self.0.poll_recv(context)
    }
}
