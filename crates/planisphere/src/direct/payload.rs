//! The payload of a request that begins before all of its payload has arrived.
//!
//! The connection hands over what it receives, piece by piece, and reads no more until the request
//! has taken it. So a large payload waits for its memory before it is read, as a body of HTTP does.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A payload of which pieces arrive: the end of the request.
pub(super) struct IncomingPayload {
    shared: Arc<Mutex<Shared>>,
    /// Bytes that the request has not received.
    rest: usize,
}

/// The end of the connection.
pub(super) struct PayloadSender {
    shared: Arc<Mutex<Shared>>,
    /// Bytes that have not arrived.
    rest: usize,
    /// Bytes that arrived and were not wanted.
    dropped: u64,
}

#[derive(Default)]
struct Shared {
    /// What arrived and was not taken.
    piece: Option<Bytes>,
    /// The request, while it waits for a piece.
    receiver: Option<Waker>,
    /// The connection, while it waits until a piece is taken.
    sender: Option<Waker>,
    is_unwanted: bool,
}

/// Both ends of a payload of so many bytes.
pub(super) fn channel(bytes: usize) -> (PayloadSender, IncomingPayload) {
    let shared = Arc::<Mutex<Shared>>::default();
    let sender = PayloadSender { shared: Arc::clone(&shared), rest: bytes, dropped: 0 };
    (sender, IncomingPayload { shared, rest: bytes })
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing that holds the lock can panic.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PayloadSender {
    /// Bytes that have not arrived.
    pub(super) fn rest(&self) -> usize {
        self.rest
    }

    /// Bytes that arrived and were not wanted.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether the request has taken all that arrived; otherwise `cx` is woken when it has.
    pub(super) fn is_ready(&self, cx: &Context<'_>) -> bool {
        let mut shared = lock(&self.shared);
        if shared.piece.is_some() && !shared.is_unwanted {
            shared.sender = Some(cx.waker().clone());
            return false;
        }
        true
    }

    /// Hands over bytes of the payload, at most the rest of it.
    pub(super) fn send(&mut self, piece: Bytes) {
        self.rest -= piece.len();
        let mut shared = lock(&self.shared);
        if shared.is_unwanted {
            self.dropped += piece.len() as u64;
            return;
        }
        shared.piece = Some(piece);
        let receiver = shared.receiver.take();
        drop(shared);
        receiver.into_iter().for_each(Waker::wake);
    }
}

impl Body for IncomingPayload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest == 0 {
            return Poll::Ready(None);
        }
        let mut shared = lock(&self.shared);
        let Some(piece) = shared.piece.take() else {
            shared.receiver = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let sender = shared.sender.take();
        drop(shared);
        sender.into_iter().for_each(Waker::wake);
        self.rest -= piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest as u64)
    }
}

impl Drop for IncomingPayload {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.is_unwanted = true;
        shared.piece = None;
        let sender = shared.sender.take();
        drop(shared);
        sender.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn pieces_are_taken_one_by_one() {
        let (mut sender, payload) = channel(5);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sender.is_ready(&cx));
        sender.send(Bytes::from_static(b"ab"));
        assert!(!sender.is_ready(&cx));
        let mut payload = Box::pin(payload);
        assert!(payload.as_mut().poll_frame(&mut cx).is_ready());
        assert!(sender.is_ready(&cx) && payload.as_mut().poll_frame(&mut cx).is_pending());
        sender.send(Bytes::from_static(b"cde"));
        assert_eq!((sender.rest(), payload.size_hint().exact()), (0, Some(3)));
        assert_eq!(payload.collect().await.unwrap().to_bytes(), "cde");
    }

    #[test]
    fn what_is_not_wanted_is_counted() {
        let (mut sender, payload) = channel(5);
        sender.send(Bytes::from_static(b"ab"));
        drop(payload);
        assert!(sender.is_ready(&Context::from_waker(Waker::noop())));
        sender.send(Bytes::from_static(b"cde"));
        assert_eq!((sender.rest(), sender.dropped()), (0, 3));
    }
}
