//! Answers on their way to the client. They leave whole, in the order in which they were ready, each
//! in TLS records of its own.
//!
//! The client of Java loses an answer when the next one begins in the same record: its decoder moves
//! the rest of what it received to the front of its buffer, over the answer that it has just read
//! and not used, and the program waits for that answer until its request times out.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use api_nosql::FrameAnswer;
use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use crate::connections::Activity;

/// Answers for which an idle connection keeps room.
const ANSWERS_KEPT_MAX: usize = 32;

/// Answers that are not sent.
pub(super) struct Outgoing {
    activity: Arc<Activity>,
    /// The first may be sent in part.
    answers: VecDeque<Answer>,
    bytes: usize,
    /// Whether the stream has bytes that it has not passed on.
    is_unflushed: bool,
}

/// What is not sent of an answer.
struct Answer {
    head: Bytes,
    payload: Bytes,
}

impl Answer {
    fn advance(&mut self, bytes: usize) {
        let of_head = bytes.min(self.head.len());
        self.head.advance(of_head);
        self.payload.advance(bytes - of_head);
    }

    fn is_sent(&self) -> bool {
        self.head.is_empty() && self.payload.is_empty()
    }
}

impl Outgoing {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        Self { activity, answers: VecDeque::new(), bytes: 0, is_unflushed: false }
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
        self.activity.count_small(head.len() as u64);
        let payload = if payload.is_empty() { payload } else { self.activity.keep(payload) };
        self.add(head.into(), payload);
    }

    /// Adds an answer to what is no request.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.add(Bytes::copy_from_slice(bytes), Bytes::new());
    }

    fn add(&mut self, head: Bytes, payload: Bytes) {
        self.bytes += head.len() + payload.len();
        self.answers.push_back(Answer { head, payload });
    }

    /// Sends as much as the client takes. Returns the number of bytes, and once all is sent Ready.
    pub(super) fn poll_send<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> (usize, Poll<io::Result<()>>) {
        let mut sent = 0;
        while let Some(answer) = self.answers.front_mut() {
            let parts = [IoSlice::new(&answer.head), IoSlice::new(&answer.payload)];
            // TLS ends a record with each write.
            match Pin::new(&mut *stream).poll_write_vectored(cx, &parts) {
                Poll::Ready(Ok(0)) => {
                    return (sent, Poll::Ready(Err(io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(written)) => {
                    sent += written;
                    self.bytes -= written;
                    self.is_unflushed = true;
                    self.activity.sent(written);
                    answer.advance(written);
                    if answer.is_sent() {
                        self.answers.pop_front();
                    }
                }
                Poll::Ready(Err(error)) => return (sent, Poll::Ready(Err(error))),
                Poll::Pending => return (sent, Poll::Pending),
            }
        }
        if self.answers.capacity() > ANSWERS_KEPT_MAX {
            self.answers = VecDeque::new();
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
