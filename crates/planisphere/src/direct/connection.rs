//! The loop of one connection.
//!
//! Everything happens in one task. A request is begun as soon as it is read; most reads are
//! answered at once, without a task of their own. Other requests go on in tasks on the same thread.
//! Answers leave in the order in which they are ready.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use account::RequestSource;
use api_nosql::{
    BadFrame, Demand, DirectClient, Frame, FrameAnswer, Greeting, RefusedFrame, head_length,
};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::Full;
use hyper::body::Body;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;
use tracing::debug;

use super::DirectLimits;
use super::outgoing::Outgoing;
use super::payload::{self, PayloadSender};
use crate::connections::{Activity, Phase};
use crate::gateway::Gateway;
use crate::metrics::DirectCounters;

/// Most bytes of one read.
const READ_BYTES_MAX: usize = 16 << 10;
/// Bytes of the length of a payload.
const LENGTH_BYTES: usize = 4;

thread_local! {
    /// The buffer for reads, so that idle connections have none.
    static SCRATCH: RefCell<Box<[u8; READ_BYTES_MAX]>> =
        RefCell::new(Box::new([0; READ_BYTES_MAX]));
}

/// Serves a connection until it ends.
pub(super) async fn serve<S>(
    stream: S,
    gateway: Arc<Gateway>,
    source: RequestSource,
    activity: Arc<Activity>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let counters = Arc::clone(&gateway.direct);
    counters.opened();
    // Each answer is a write, and many are ready at once.
    activity.gather_writes();
    let mut connection = Connection {
        stream,
        gateway,
        source,
        limits: DirectLimits::default(),
        incoming: BytesMut::new(),
        expected: Expected::Handshake,
        client: None,
        requests: JoinSet::new(),
        outgoing: Outgoing::new(Arc::clone(&activity)),
        reads: true,
        activity,
        counters,
    };
    poll_fn(|cx| connection.poll(cx)).await
}

struct Connection<S> {
    stream: S,
    gateway: Arc<Gateway>,
    source: RequestSource,
    limits: DirectLimits,
    /// Received bytes that are not part of a request yet.
    incoming: BytesMut,
    expected: Expected,
    /// Known after the handshake.
    client: Option<Arc<DirectClient>>,
    /// Requests that were not answered at once.
    requests: JoinSet<FrameAnswer>,
    outgoing: Outgoing,
    /// Whether more requests are read. If not, the connection ends when all are answered.
    reads: bool,
    activity: Arc<Activity>,
    counters: Arc<DirectCounters>,
}

/// What the next received bytes are.
enum Expected {
    Handshake,
    Head,
    /// The length of the payload of a request.
    Length(Box<Frame>),
    /// The payload of a request that has begun.
    Payload(PayloadSender),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let collected = self.collect(cx);
            let begun = self.take_frames(cx);
            let (sent, outcome) = self.outgoing.poll_send(&mut self.stream, cx);
            self.counters.sent(sent);
            if let Poll::Ready(Err(error)) = outcome {
                return Poll::Ready(Err(error));
            }
            let received = match self.poll_receive(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => false,
            };
            // What was sent may have made room for requests that have been received.
            let made_room = sent > 0 && !self.incoming.is_empty() && self.has_room();
            if !(collected || begun || received || made_room) {
                self.note_phase(sent > 0);
                if self.is_over(cx) {
                    return Pin::new(&mut self.stream).poll_shutdown(cx);
                }
                return Poll::Pending;
            }
        }
    }

    /// Takes the answers of requests that were not answered at once.
    fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while !self.requests.is_empty()
            && let Poll::Ready(Some(answer)) = self.requests.poll_join_next(cx)
        {
            any = true;
            match answer {
                Ok(answer) => self.send(answer),
                // Panics in handlers are answered; this is another, and leaves a client waiting.
                Err(error) => {
                    debug!(%error, "a request in Direct mode has no answer");
                    self.counters.abandoned(1);
                    self.reads = false;
                }
            }
        }
        any
    }

    fn send(&mut self, answer: FrameAnswer) {
        self.counters.answered(answer.outcome);
        self.outgoing.push(answer);
    }

    /// Begins the requests that have arrived.
    fn take_frames(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.reads && self.has_room() && self.take_frame(cx) {
            any = true;
        }
        if self.incoming.is_empty() && self.incoming.capacity() > 0 {
            self.incoming = BytesMut::new();
        }
        any
    }

    /// Whether another request can begin.
    fn has_room(&self) -> bool {
        self.requests.len() < self.limits.requests_max
            && self.outgoing.bytes() < self.limits.unsent_bytes_max
    }

    /// Handles the next part of what has arrived; false if more bytes are needed.
    fn take_frame(&mut self, cx: &mut Context<'_>) -> bool {
        match std::mem::replace(&mut self.expected, Expected::Head) {
            Expected::Handshake => {
                let head = self.take_head();
                if head.is_none() {
                    self.expected = Expected::Handshake;
                }
                head.map(|head| self.greet(&head)).is_some()
            }
            Expected::Head => self.take_head().map(|head| self.take_request(head, cx)).is_some(),
            Expected::Length(frame) => match self.incoming.first_chunk::<LENGTH_BYTES>() {
                None => {
                    self.expected = Expected::Length(frame);
                    false
                }
                Some(length) => {
                    let length = u32::from_le_bytes(*length);
                    self.incoming.advance(LENGTH_BYTES);
                    self.take_payload(frame, usize::try_from(length).unwrap_or(usize::MAX), cx);
                    true
                }
            },
            Expected::Payload(mut payload) => {
                let bytes = self.incoming.len().min(payload.rest());
                let is_due = payload.rest() == 0 || (bytes > 0 && payload.is_ready(cx));
                if is_due {
                    payload.send(self.incoming.split_to(bytes).freeze());
                }
                if payload.dropped() > self.limits.unwanted_bytes_max {
                    self.reads = false;
                } else if payload.rest() > 0 {
                    self.expected = Expected::Payload(payload);
                }
                is_due
            }
        }
    }

    /// The next head, if it is complete.
    fn take_head(&mut self) -> Option<Bytes> {
        match head_length(&self.incoming) {
            // Most heads arrive alone, and need no buffer that is shared with what follows.
            Ok(Some(length)) if self.incoming.len() == length => {
                Some(std::mem::take(&mut self.incoming).freeze())
            }
            Ok(Some(length)) if self.incoming.len() > length => {
                Some(self.incoming.split_to(length).freeze())
            }
            Ok(_) => None,
            Err(reason) => {
                self.end_for(reason);
                None
            }
        }
    }

    fn greet(&mut self, head: &[u8]) {
        match self.gateway.service.greet(head) {
            Greeting::Welcome(client, answer) => {
                debug!(
                    peer = self.source.peer.map(tracing::field::display),
                    user_agent = client.user_agent,
                    "a client in Direct mode connected"
                );
                self.counters.greeted();
                self.client = Some(Arc::from(client));
                self.outgoing.push_bytes(&answer);
            }
            Greeting::Refused(answer) => {
                self.counters.refused();
                self.outgoing.push_bytes(&answer);
                self.reads = false;
            }
            Greeting::Bad(reason) => self.end_for(reason),
        }
    }

    fn take_request(&mut self, head: Bytes, cx: &mut Context<'_>) {
        let Some(client) = &self.client else { return };
        match Frame::read(head, client) {
            Ok(frame) if frame.has_payload() => {
                self.expected = Expected::Length(Box::new(frame));
            }
            Ok(frame) => self.begin(frame, Full::new(Bytes::new()), cx),
            Err(RefusedFrame { reason, answer }) => {
                if let Some(answer) = answer {
                    self.outgoing.push_bytes(&answer);
                }
                self.end_for(reason);
            }
        }
    }

    /// Begins a request with a payload, which may not have arrived.
    fn take_payload(&mut self, frame: Box<Frame>, length: usize, cx: &mut Context<'_>) {
        if self.incoming.len() >= length {
            let payload = self.incoming.split_to(length).freeze();
            return self.begin(*frame, Full::new(payload), cx);
        }
        let (sender, payload) = payload::channel(length);
        self.expected = Expected::Payload(sender);
        self.begin(*frame, payload, cx);
    }

    /// Begins a request, and ends it if it can be answered at once.
    fn begin<B>(&mut self, frame: Frame, payload: B, cx: &mut Context<'_>)
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let Some(client) = self.client.clone() else { return };
        self.counters.begun();
        if self.gateway.connections.is_closing() {
            return self.send(frame.id().refuse_for_shutdown());
        }
        let gateway = Arc::clone(&self.gateway);
        let mut request = Box::pin(answer(gateway, frame, payload, client, self.source));
        match request.as_mut().poll(cx) {
            Poll::Ready(answer) => self.send(answer),
            Poll::Pending => {
                self.requests.spawn(request);
            }
        }
    }

    fn end_for(&mut self, reason: BadFrame) {
        debug!(reason = reason.name(), "a connection in Direct mode ends, its frame is bad");
        self.counters.bad(reason);
        self.reads = false;
    }

    /// Receives bytes if there is use for them.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let has_use = match &self.expected {
            Expected::Handshake | Expected::Head | Expected::Length(_) => self.has_room(),
            Expected::Payload(payload) => self.incoming.is_empty() && payload.is_ready(cx),
        };
        if !self.reads || !has_use {
            return Poll::Pending;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..]);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    let bytes = buffer.filled();
                    if bytes.is_empty() {
                        self.reads = false;
                    }
                    self.activity.received(bytes.len());
                    self.counters.received(bytes.len());
                    self.incoming.extend_from_slice(bytes);
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
    }

    /// Records what the connection does, for its time limits.
    fn note_phase(&self, has_sent: bool) {
        let (activity, current) = (&self.activity, self.activity.phase());
        activity.hold(self.incoming.len() as u64);
        let phase = if !self.requests.is_empty() {
            Phase::Working
        } else if !self.outgoing.is_empty() || matches!(self.expected, Expected::Payload(_)) {
            Phase::Replying
        } else if !self.incoming.is_empty() || matches!(self.expected, Expected::Length(_)) {
            Phase::Head
        } else if self.client.is_none() {
            Phase::Fresh
        } else {
            Phase::Idle
        };
        // A phase begins once; only its end and what was sent in it begin it again.
        if phase != current || has_sent {
            activity.enter(phase);
        }
    }

    /// Whether nothing is under way, and nothing more is to come.
    fn is_over(&self, cx: &Context<'_>) -> bool {
        let is_asked = self.activity.poll_asked_to_end(cx);
        let is_between = self.incoming.is_empty()
            && matches!(self.expected, Expected::Handshake | Expected::Head);
        let ends = !self.reads || (is_asked && is_between);
        ends && self.requests.is_empty() && self.outgoing.is_empty()
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.counters.abandoned(self.requests.len());
        self.counters.closed();
    }
}

/// The answer to a request, when there is memory for it.
async fn answer<B>(
    gateway: Arc<Gateway>,
    frame: Frame,
    payload: B,
    client: Arc<DirectClient>,
    source: RequestSource,
) -> FrameAnswer
where
    B: Body<Data = Bytes, Error = Infallible>,
{
    let (demand, id) = (frame.demand(), frame.id());
    let connections = &gateway.connections;
    if demand == Demand::Page {
        connections.wait_for_room().await;
    }
    let service = Arc::clone(&gateway.service);
    let answer = service.serve_frame(frame, payload, client, source).await;
    match demand {
        Demand::Page | Demand::Thing if !connections.has_room_for(answer.payload.len() as u64) => {
            id.refuse_for_room()
        }
        Demand::Page | Demand::Thing | Demand::Change => answer,
    }
}
