//! The protocols of connections. One is chosen by the first bytes that a client sends, among those
//! that the listener's row allows ([`crate::listen`]).

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use account::Scheme;
use api_mongo::Personality;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::connections::Activity;
use crate::direct::Rntbd;
use crate::gateway::{Api, Gateway, Http};
use crate::http2::Http2;
use crate::listen::Peer;
use crate::mongo::Mongo;

/// The most bytes that any protocol needs to recognise its clients.
pub(crate) const START_BYTES_MAX: usize = 8;

/// A protocol, in the row of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// HTTP/1.1, for one of the APIs.
    Http(Api),
    /// HTTP/2, which is refused.
    Http2,
    /// RNTBD, of clients in Direct mode.
    Rntbd,
    /// That of MongoDB.
    Mongo(Personality),
}

/// A protocol that serves connections.
pub(crate) trait Protocol: Sized + Send {
    /// Whether a client that begins with these bytes speaks it.
    fn recognise(start: &[u8]) -> Recognition;

    /// Serves a connection until it ends.
    fn serve<S>(
        self,
        stream: S,
        connection: Connection,
    ) -> impl Future<Output = anyhow::Result<()>> + Send
    where
        S: AsyncRead + AsyncWrite + Unpin + Send;
}

/// What the first bytes of a connection say about a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recognition {
    /// The client speaks it.
    Yes,
    /// The client does not speak it.
    No,
    /// More bytes are needed.
    Unknown,
}

/// All about a connection but its bytes.
pub(crate) struct Connection {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) peer: Peer,
    /// Whether it is over TLS.
    pub(crate) scheme: Scheme,
    /// The address that it was accepted at.
    pub(crate) local: SocketAddr,
    /// The address that it comes from.
    pub(crate) client: SocketAddr,
    /// The name of the server by which a client over TLS asked for it.
    pub(crate) server_name: Option<Box<str>>,
    pub(crate) activity: Arc<Activity>,
}

impl Wire {
    fn recognise(self, start: &[u8]) -> Recognition {
        match self {
            Wire::Http(_) => Http::recognise(start),
            Wire::Http2 => Http2::recognise(start),
            Wire::Rntbd => Rntbd::recognise(start),
            Wire::Mongo(_) => Mongo::recognise(start),
        }
    }

    /// Serves a connection until it ends.
    pub(crate) async fn serve<S>(self, stream: S, connection: Connection) -> anyhow::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        // Boxed, so that a connection takes the memory of its own protocol alone.
        match self {
            Wire::Http(api) => Box::pin(Http(api).serve(stream, connection)).await,
            Wire::Http2 => Box::pin(Http2.serve(stream, connection)).await,
            Wire::Rntbd => Box::pin(Rntbd.serve(stream, connection)).await,
            Wire::Mongo(personality) => {
                Box::pin(Mongo(personality).serve(stream, connection)).await
            }
        }
    }
}

/// The protocol of a client that begins with these bytes, or that more bytes are needed.
fn recognise(wires: &[Wire], start: &[u8]) -> Result<Option<Wire>, NeedsMore> {
    for wire in wires {
        match wire.recognise(start) {
            Recognition::Yes => return Ok(Some(*wire)),
            Recognition::No => {}
            Recognition::Unknown => return Err(NeedsMore),
        }
    }
    Ok(None)
}

/// More bytes are needed to recognise a protocol.
#[derive(Debug, PartialEq, Eq)]
struct NeedsMore;

/// The protocol of a client, by the bytes that came first and no others.
pub(crate) fn recognise_at_once(wires: &[Wire], start: &[u8]) -> Option<Wire> {
    let recognised = wires.iter().find(|wire| wire.recognise(start) == Recognition::Yes);
    recognised.copied()
}

/// Reads the first bytes of a connection until they tell the protocol; `None` if it is none of
/// these.
pub(crate) async fn recognise_start<S>(
    wires: &[Wire],
    mut stream: S,
) -> io::Result<(Option<Wire>, Started<S>)>
where
    S: AsyncRead + Unpin,
{
    let mut start = Start { bytes: [0; START_BYTES_MAX], end: 0, read: 0 };
    let wire = loop {
        match recognise(wires, start.bytes.get(..usize::from(start.end)).unwrap_or_default()) {
            Ok(wire) => break wire,
            Err(NeedsMore) => {
                let free = start.bytes.get_mut(usize::from(start.end)..).unwrap_or_default();
                let read = stream.read(free).await?;
                if read == 0 {
                    break None;
                }
                start.end += u8::try_from(read).unwrap_or_default();
            }
        }
    };
    Ok((wire, Started { start, stream }))
}

/// A stream whose first bytes were read, and are given out again.
pub(crate) struct Started<S> {
    start: Start,
    stream: S,
}

struct Start {
    bytes: [u8; START_BYTES_MAX],
    end: u8,
    read: u8,
}

impl<S: AsyncRead + Unpin> AsyncRead for Started<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { start, stream } = &mut *self;
        if start.read < start.end {
            let rest = start.bytes.get(usize::from(start.read)..usize::from(start.end));
            let rest = rest.unwrap_or_default();
            let given = rest.get(..buffer.remaining()).unwrap_or(rest);
            buffer.put_slice(given);
            start.read += u8::try_from(given.len()).unwrap_or_default();
            return Poll::Ready(Ok(()));
        }
        Pin::new(stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Started<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    const WIRES: &[Wire] = &[Wire::Http2, Wire::Http(Api::Nosql)];

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        let wire = |start: &[u8]| recognise(WIRES, start);
        assert_eq!(wire(b"GET / HT"), Ok(Some(Wire::Http(Api::Nosql))));
        assert_eq!(wire(b"PRI * HT"), Ok(Some(Wire::Http2)));
        for unclear in [&b""[..], b"P", b"PR", b"PRI"] {
            assert_eq!(wire(unclear), Err(NeedsMore), "{unclear:?}");
        }
        assert_eq!(wire(b"PU"), Ok(Some(Wire::Http(Api::Nosql))));
        assert_eq!(recognise(&[], b"GET / HT"), Ok(None));
        assert_eq!(recognise_at_once(WIRES, b"PR"), Some(Wire::Http(Api::Nosql)));
    }

    #[tokio::test]
    async fn bytes_that_came_one_by_one_are_given_out_again() {
        for text in ["PRI * HTTP/2.0", "POST / HTTP/1.1", "x"] {
            let (mut client, server) = tokio::io::duplex(1);
            let sent = async move {
                client.write_all(text.as_bytes()).await.unwrap();
                drop(client);
            };
            let received = async {
                let (wire, mut stream) = recognise_start(WIRES, server).await.unwrap();
                let mut received = String::new();
                stream.read_to_string(&mut received).await.unwrap();
                (wire, received)
            };
            let ((), (wire, received)) = tokio::join!(sent, received);
            let is_http2 = text.starts_with("PRI");
            let expected = if is_http2 { Wire::Http2 } else { Wire::Http(Api::Nosql) };
            assert_eq!((wire, received.as_str()), (Some(expected), text));
        }
    }

    #[tokio::test]
    async fn a_small_buffer_takes_the_first_bytes_in_pieces() {
        let (_, mut stream) = recognise_start(WIRES, &b"PRI * HTTP/2.0"[..]).await.unwrap();
        let mut pieces = Vec::new();
        let mut piece = [0; 3];
        loop {
            let read = stream.read(&mut piece).await.unwrap();
            if read == 0 {
                break;
            }
            pieces.extend_from_slice(&piece[..read]);
        }
        assert_eq!(pieces, b"PRI * HTTP/2.0");
    }
}
