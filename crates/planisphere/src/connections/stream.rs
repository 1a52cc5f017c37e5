//! A stream that records in its connection's [`Activity`] when requests begin and replies are sent.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Activity, Phase};

/// Most bytes of one read while few connections are open.
pub(super) const READ_BYTES_MAX: usize = 128 << 10;
/// Most bytes of one read while many connections are open.
pub(super) const READ_BYTES_MIN: usize = 16 << 10;

thread_local! {
    /// The buffer for reads that may return less than the target has capacity for.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into());
}

/// A byte stream that records its activity.
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
        let bytes_max = self.activity.read_bytes_max();
        let (outcome, bytes) = read_some(Pin::new(&mut self.stream), cx, buffer, bytes_max);
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
            self.activity.flushed();
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

/// The bytes below TLS, of which those of a handshake are held until it is complete.
///
/// In a connection that gathers its writes, records leave together when they are flushed.
pub(crate) struct GreetedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    gathered: BytesMut,
}

/// Gathered bytes above which a write waits until they are sent.
const GATHERED_BYTES_MAX: usize = 64 << 10;

impl<S> GreetedStream<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, gathered: BytesMut::new() }
    }
}

impl<S: AsyncWrite + Unpin> GreetedStream<S> {
    /// Sends what was gathered.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.gathered))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.gathered.advance(written),
            }
        }
        // An idle connection has no buffer.
        self.gathered = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GreetedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.activity.phase() == Phase::Fresh {
            self.activity.received(buffer.filled().len() - before);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GreetedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
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
        if !self.activity.gathers_writes() {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        }
        if self.gathered.len() >= GATHERED_BYTES_MAX {
            ready!(self.poll_send(cx))?;
        }
        let before = self.gathered.len();
        parts.iter().for_each(|part| self.gathered.extend_from_slice(part));
        Poll::Ready(Ok(self.gathered.len() - before))
    }
}

/// Reads at most `bytes_max` into a buffer, and returns the number.
fn read_some<S: AsyncRead>(
    stream: Pin<&mut S>,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
    bytes_max: usize,
) -> (Poll<io::Result<()>>, usize) {
    if buffer.remaining() <= bytes_max {
        let before = buffer.filled().len();
        let outcome = stream.poll_read(cx, buffer);
        return (outcome, buffer.filled().len() - before);
    }
    // The target is not initialized, and copying the received bytes costs less than initializing
    // it.
    SCRATCH.with_borrow_mut(|scratch| {
        let size = bytes_max.min(scratch.len());
        let mut part = ReadBuf::new(&mut scratch[..size]);
        let outcome = stream.poll_read(cx, &mut part);
        buffer.put_slice(part.filled());
        (outcome, part.filled().len())
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::connections::activity::Common;

    #[tokio::test]
    async fn gathered_writes_leave_when_they_are_flushed() {
        let activity = Arc::new(Activity::new(Arc::new(Common::start())));
        let (server, mut client) = duplex(1 << 20);
        let mut server = GreetedStream::new(server, Arc::clone(&activity));
        let mut received = vec![0; 1 << 20];
        server.write_all(b"at once").await.unwrap();
        assert_eq!(client.read(&mut received).await.unwrap(), 7);

        activity.gather_writes();
        server.write_all(b"not").await.unwrap();
        server.write_all(b" yet").await.unwrap();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut buffer = ReadBuf::new(&mut received);
        assert!(Pin::new(&mut client).poll_read(&mut cx, &mut buffer).is_pending());
        server.flush().await.unwrap();
        assert_eq!(client.read(&mut received).await.unwrap(), 7);
        assert!(received.starts_with(b"not yet") && server.gathered.capacity() == 0);
        server.write_all(b"the end").await.unwrap();
        server.shutdown().await.unwrap();
        assert_eq!(client.read(&mut received).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_ends_the_gathering() {
        let activity = Arc::new(Activity::new(Arc::new(Common::start())));
        activity.gather_writes();
        let (server, client) = duplex(1);
        let mut server = GreetedStream::new(server, activity);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let part = vec![0; 16 << 10];
        let mut written = 0;
        while Pin::new(&mut server).poll_write(&mut cx, &part).is_ready() {
            written += part.len();
        }
        assert_eq!(written, GATHERED_BYTES_MAX);
        drop(client);
        assert!(server.flush().await.is_err());
    }
}
