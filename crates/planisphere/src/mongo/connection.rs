//! The loop of one connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use api_mongo::wire::{MESSAGE_BYTES_MAX, awaits_news, message_length};
use api_mongo::{Client, Served};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tracing::debug;

use crate::connections::{Activity, Phase};
use crate::gateway::Gateway;

/// Most bytes of one read.
const READ_BYTES_MAX: usize = 64 << 10;
/// A client that sends a long message begins to be slow again after so many bytes.
const PROGRESS_BYTES: usize = 1 << 20;
/// Longest message of a client that has to log in and has not.
const STRANGERS_BYTES_MAX: usize = 64 << 10;
/// Bytes that are read while a command is carried out, to learn whether the client is still there.
const AHEAD_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// The buffer for reads, so that idle connections have none.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into());
}

/// Serves a connection until it ends.
pub(super) async fn serve<S>(
    stream: S,
    mut client: Client,
    gateway: &Gateway,
    activity: &Arc<Activity>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut link = Link { stream, incoming: BytesMut::new(), is_over: false };
    loop {
        let bytes_max = match gateway.mongo.admits(&client) {
            true => MESSAGE_BYTES_MAX,
            false => STRANGERS_BYTES_MAX,
        };
        let Some(message) = link.message(bytes_max, activity).await? else { break };
        // A client that waits for news loses nothing when it is disconnected.
        let is_waiting = awaits_news(&message);
        activity.hold(0);
        activity.enter(if is_waiting { Phase::Idle } else { Phase::Working });
        gateway.connections.wait_for_room().await;
        let served = link.watch(is_waiting, gateway.mongo.serve(&mut client, message)).await;
        let Some(served) = served else { break };
        let mut served = match served {
            Ok(served) => served,
            Err(reason) => {
                debug!(reason = reason.name(), "a connection of MongoDB ends, its message is bad");
                break;
            }
        };
        loop {
            let Served { reply, next, ends } = served;
            link.send(reply, activity).await?;
            if ends || gateway.connections.is_closing() {
                return link.stream.shutdown().await;
            }
            let Some(next) = next else { break };
            activity.enter(Phase::Idle);
            match link.watch(true, gateway.mongo.serve_next(&mut client, next)).await {
                Some(more) => served = more,
                None => return Ok(()),
            }
        }
    }
    link.stream.shutdown().await
}

struct Link<S> {
    stream: S,
    /// Received bytes that are no complete message yet.
    incoming: BytesMut,
    /// Whether the client sends no more.
    is_over: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    /// The next message; `None` at the end, or if what came is none.
    async fn message(
        &mut self,
        bytes_max: usize,
        activity: &Activity,
    ) -> io::Result<Option<Bytes>> {
        let mut reported = 0;
        loop {
            let length = match message_length(&self.incoming, bytes_max) {
                Ok(length) => length,
                Err(reason) => {
                    debug!(reason = reason.name(), "a connection of MongoDB ends");
                    return Ok(None);
                }
            };
            if let Some(length) = length
                && self.incoming.len() >= length
            {
                let message = self.incoming.split_to(length).freeze();
                if self.incoming.is_empty() {
                    self.incoming = BytesMut::new();
                }
                return Ok(Some(message));
            }
            if self.is_over {
                return Ok(None);
            }
            // Memory is taken for what has come, and for as much again.
            let missing = length.map_or(0, |length| length - self.incoming.len());
            self.incoming.reserve(missing.min(self.incoming.len()));
            poll_fn(|cx| self.poll_receive(cx)).await?;
            let received = self.incoming.len();
            activity.hold(received as u64);
            if received >= reported + PROGRESS_BYTES {
                reported = received;
                activity.enter(Phase::Head);
            }
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let outcome = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            if let Poll::Ready(Ok(())) = outcome {
                self.is_over = buffer.filled().is_empty();
                self.incoming.extend_from_slice(buffer.filled());
            }
            outcome
        })
    }

    /// Runs a command to its end. If it only waits, it is given up when the client is gone.
    async fn watch<T>(&mut self, is_waiting: bool, command: impl Future<Output = T>) -> Option<T> {
        let mut command = pin!(command);
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = command.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            while is_waiting && self.incoming.len() < AHEAD_BYTES_MAX {
                match self.poll_receive(cx) {
                    Poll::Ready(Ok(())) if !self.is_over => {}
                    Poll::Ready(Ok(()) | Err(_)) => return Poll::Ready(None),
                    Poll::Pending => break,
                }
            }
            Poll::Pending
        })
        .await
    }

    async fn send(&mut self, reply: Vec<u8>, activity: &Arc<Activity>) -> io::Result<()> {
        if reply.is_empty() {
            activity.enter(Phase::Idle);
            return Ok(());
        }
        activity.enter(Phase::Replying);
        let reply = activity.keep(reply.into());
        self.stream.write_all(&reply).await?;
        drop(reply);
        self.stream.flush().await
    }
}
