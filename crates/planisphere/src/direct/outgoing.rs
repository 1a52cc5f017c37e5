//! Answers on their way to the client. They leave whole, in the order in which they were ready, and
//! small ones together.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use api_nosql::FrameAnswer;
use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use crate::connections::Activity;

/// Answers that are not sent.
pub(super) struct Outgoing {
    activity: Arc<Activity>,
    /// Complete pieces, of which the first may be sent in part.
    pieces: VecDeque<Bytes>,
    /// Small answers, which become a piece when nothing is before them.
    small: Vec<u8>,
    bytes: usize,
    /// Whether the stream has bytes that it has not passed on.
    is_unflushed: bool,
}

impl Outgoing {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        let (pieces, small) = (VecDeque::new(), Vec::new());
        Self { activity, pieces, small, bytes: 0, is_unflushed: false }
    }

    /// Bytes that are not sent.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0 && !self.is_unflushed
    }

    /// Adds an answer.
    pub(super) fn push(&mut self, answer: FrameAnswer) {
        let FrameAnswer { head, payload, outcome: _ } = answer;
        self.bytes += head.len() + payload.len();
        self.activity.count_small(head.len() as u64);
        match self.small.is_empty() {
            true => self.small = head,
            false => self.small.extend_from_slice(&head),
        }
        if !payload.is_empty() {
            self.end_piece();
            self.pieces.push_back(self.activity.keep(payload));
        }
    }

    /// Adds bytes that are no answer to a request.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.small.extend_from_slice(bytes);
    }

    fn end_piece(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.small).into());
        }
    }

    /// Sends as much as the client takes. Returns the number of bytes, and once all is sent Ready.
    pub(super) fn poll_send<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> (usize, Poll<io::Result<()>>) {
        let mut sent = 0;
        loop {
            if self.pieces.is_empty() {
                self.end_piece();
            }
            let Some(piece) = self.pieces.front_mut() else { break };
            match Pin::new(&mut *stream).poll_write(cx, piece) {
                Poll::Ready(Ok(0)) => {
                    return (sent, Poll::Ready(Err(io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(written)) => {
                    sent += written;
                    self.bytes -= written;
                    self.is_unflushed = true;
                    self.activity.sent(written);
                    piece.advance(written);
                    if piece.is_empty() {
                        self.pieces.pop_front();
                    }
                }
                Poll::Ready(Err(error)) => return (sent, Poll::Ready(Err(error))),
                Poll::Pending => return (sent, Poll::Pending),
            }
        }
        if !self.is_unflushed {
            return (sent, Poll::Ready(Ok(())));
        }
        let flushed = Pin::new(stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            self.is_unflushed = false;
            self.activity.all_sent();
        }
        (sent, flushed)
    }
}
