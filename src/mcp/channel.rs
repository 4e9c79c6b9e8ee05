//! The way of messages that nobody asked for one by one: to the client, in order, never awaited by a run.

use std::sync::Arc;

use rmcp::model::{
    CustomNotification, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProgressToken, ServerNotification,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::level::{Level, SessionLevel};

/// The client is gone, does not want more, or the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed;

/// What is admitted to a channel.
#[derive(Debug, Clone)]
pub(super) enum Admits {
    /// The session's own level, at the time of each message.
    Session(Arc<SessionLevel>),
    /// What one request opted into, while it lasts.
    Request(Option<LoggingLevel>),
}

/// A channel to one client.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) peer: Peer<RoleServer>,
    /// The tool that speaks.
    pub(super) logger: String,
    pub(super) admits: Admits,
    /// Nothing is sent once this fires.
    pub(super) closed: CancellationToken,
}

impl Channel {
    /// Whether it is there after the request that opened it.
    pub(super) fn lasts(&self) -> bool {
        matches!(self.admits, Admits::Session(_))
    }

    /// Whether a message of this level would be sent.
    pub(super) fn admits(&self, level: Level) -> bool {
        match &self.admits {
            Admits::Session(session) => session.admits(level),
            Admits::Request(least) => least.is_some_and(|least| level.reaches(least)),
        }
    }

    /// `notifications/message`, if its level is wanted.
    pub(super) async fn message(&self, level: Level, data: Value) -> Result<(), Closed> {
        if !self.admits(level) {
            return Ok(());
        }
        let params =
            LoggingMessageNotificationParam::new(level.of_protocol(), data).with_logger(self.logger.clone());
        self.sent(self.peer.notify_logging_message(params)).await
    }

    /// A notification of our own, under the rules of a message of this level.
    pub(super) async fn custom(&self, level: Level, method: &str, params: Value) -> Result<(), Closed> {
        if !self.admits(level) {
            return Ok(());
        }
        let notification = CustomNotification::new(method, Some(params));
        self.sent(self.peer.send_notification(ServerNotification::CustomNotification(notification))).await
    }

    /// `notifications/progress` of the request that gave the token.
    pub(super) async fn progress(
        &self,
        token: &ProgressToken,
        done: f64,
        message: String,
    ) -> Result<(), Closed> {
        let params = ProgressNotificationParam::new(token.clone(), done).with_message(message);
        self.sent(self.peer.notify_progress(params)).await
    }

    /// Waits until the transport has taken it: that alone keeps messages in order.
    async fn sent<E>(&self, send: impl Future<Output = Result<(), E>>) -> Result<(), Closed> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(Closed),
            sent = send => sent.map_err(|_| Closed),
        }
    }
}
