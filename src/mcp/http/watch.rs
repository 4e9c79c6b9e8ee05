//! The body of a response, watched: when the client goes away before its end, the call is cancelled, and what
//! the request held is let go when the body is.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// Fires its token when it is dropped, unless it was disarmed.
pub(super) struct Alarm {
    token: CancellationToken,
    armed: bool,
    /// Called when it fires.
    rings: Box<dyn Fn() + Send + Sync>,
}

impl Alarm {
    pub(super) fn new(token: CancellationToken, rings: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { token, armed: true, rings }
    }

    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.armed {
            (self.rings)();
            self.token.cancel();
        }
    }
}

/// A body with what lives as long as it does.
pub(super) struct Watched<T> {
    pub(super) inner: Body,
    pub(super) alarm: Alarm,
    pub(super) _held: T,
}

impl<T: Unpin> http_body::Body for Watched<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.inner.is_end_stream() {
            self.alarm.disarm();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
