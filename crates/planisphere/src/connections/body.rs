//! A request body that records when it is complete, and whose unread rest can be discarded.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{Activity, Phase};

/// How much of an unread body is discarded before its connection is closed.
pub(crate) const UNWANTED_BYTES_MAX: u64 = 100 << 20;

/// The unread rest of the body of a connection's current request.
pub(crate) type UnreadBody = Arc<Mutex<Option<Incoming>>>;

/// A body that is passed to a handler.
pub(crate) struct WatchedBody {
    incoming: Option<Incoming>,
    activity: Arc<Activity>,
    unread_body: UnreadBody,
}

impl WatchedBody {
    /// Wraps the body of a new request. The part that the handler does not read ends up in
    /// `unread_body`.
    pub(crate) fn new(
        incoming: Incoming,
        activity: Arc<Activity>,
        unread_body: UnreadBody,
    ) -> Self {
        activity.enter(if incoming.is_end_stream() { Phase::Working } else { Phase::Body });
        Self { incoming: Some(incoming), activity, unread_body }
    }

    fn complete(&mut self) {
        self.incoming = None;
        self.activity.advance(Phase::Body, Phase::Working);
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming, activity, .. } = &mut *self;
        let Some(incoming) = incoming else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *incoming).poll_frame(cx);
        activity.await_body(polled.is_pending());
        let ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(_))) => incoming.is_end_stream(),
            Poll::Ready(Some(Err(_)) | None) => true,
        };
        if ended {
            self.complete();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        if !incoming.is_end_stream() {
            *self.unread_body.lock().unwrap_or_else(PoisonError::into_inner) = Some(incoming);
        }
    }
}

/// Reads the rest of a body that a handler has not read, for at most `timeout`. Closing after the
/// reply instead would reset the connection of a client that is still sending, so that it never
/// sees the reply. Returns whether the body reached its end.
pub(crate) async fn discard_unread(
    unread_body: &UnreadBody,
    activity: &Activity,
    timeout: Duration,
) -> bool {
    activity.enter(Phase::Discarding);
    let taken = unread_body.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(incoming) = taken else { return true };
    tokio::time::timeout(timeout, read_to_end(incoming)).await.unwrap_or(false)
}

async fn read_to_end(mut incoming: Incoming) -> bool {
    let mut swallowed = 0;
    while let Some(frame) = incoming.frame().await {
        let Ok(frame) = frame else { return false };
        swallowed += frame.data_ref().map_or(0, |data| data.len() as u64);
        if swallowed > UNWANTED_BYTES_MAX {
            return false;
        }
    }
    true
}
