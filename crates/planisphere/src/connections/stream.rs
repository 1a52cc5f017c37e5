//! A stream that notes in its connection's [`Activity`] when requests begin and replies are out.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Activity, Phase};

/// Most bytes of one read. The buffers of hyper grow to twice the size of what reads bring, and a
/// client that stalls keeps its buffer.
const READ_BYTES_MAX: usize = 16 << 10;

/// A byte stream, watched.
pub(crate) struct WatchedStream<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }

    fn note_sent(&self, outcome: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.activity.sent(*bytes);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (outcome, bytes) = read_some(Pin::new(&mut self.stream), cx, buffer);
        if outcome.is_ready() {
            if self.activity.phase().is_between_requests() {
                self.activity.hold(0);
                self.activity.enter(Phase::Head);
            }
            self.activity.received(bytes);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_sent(&outcome);
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        if outcome.is_ready() {
            self.activity.advance(Phase::Replying, Phase::Idle);
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note_sent(&outcome);
        outcome
    }
}

/// Reads into a buffer, and says how much.
fn read_some<S: AsyncRead>(
    stream: Pin<&mut S>,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> (Poll<io::Result<()>>, usize) {
    if buffer.remaining() <= READ_BYTES_MAX {
        let before = buffer.filled().len();
        let outcome = stream.poll_read(cx, buffer);
        return (outcome, buffer.filled().len() - before);
    }
    let mut part = ReadBuf::new(buffer.initialize_unfilled_to(READ_BYTES_MAX));
    let outcome = stream.poll_read(cx, &mut part);
    let bytes = part.filled().len();
    buffer.advance(bytes);
    (outcome, bytes)
}
