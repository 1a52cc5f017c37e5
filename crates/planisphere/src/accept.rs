//! Accepts connections, tells TLS from clear text, and hands each to its protocol.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use account::Scheme;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::bind::OpenListeners;
use crate::config::Settings;
use crate::connection_threads::ConnectionThreads;
use crate::connections::{Activity, GreetedStream};
use crate::gateway::Gateway;
use crate::listen::{Listener, Peer};
use crate::protocol::{Connection, START_BYTES_MAX, Wire, recognise_at_once, recognise_start};

/// The first byte of a TLS handshake. A message of MongoDB's protocol, which begins with its length,
/// may begin with it, too.
const TLS_HANDSHAKE: u8 = 0x16;
/// The second byte: the major version of every TLS.
const TLS_MAJOR: u8 = 3;
/// The third byte: the minor version of the record. It is 0 in the length of every message of
/// MongoDB's protocol that begins with the other two and is shorter than 64 KiB, as the first one
/// of a connection is.
const TLS_MINORS: RangeInclusive<u8> = 1..=4;
/// How long to wait for the rest of such a start; clients send it at once.
const START_PAUSE: Duration = Duration::from_millis(5);

impl OpenListeners {
    /// Starts to accept connections. The returned tasks end when aborted.
    pub(crate) fn accept(
        self,
        gateway: &Arc<Gateway>,
        threads: &Arc<ConnectionThreads>,
        settings: &Settings,
    ) -> Vec<JoinHandle<()>> {
        let accept = |(listener, socket)| {
            let (gateway, threads) = (Arc::clone(gateway), Arc::clone(threads));
            let idle = settings.limits.idle_timeout(listener);
            let wires = settings.listen.wires_over_tls(listener);
            tokio::spawn(accept_connections((listener, wires, idle), socket, gateway, threads))
        };
        self.sockets.into_iter().map(accept).collect()
    }
}

async fn accept_connections(
    (listener, wires_over_tls, idle): (&'static Listener, &'static [Wire], Duration),
    socket: TcpListener,
    gateway: Arc<Gateway>,
    threads: Arc<ConnectionThreads>,
) {
    loop {
        // The socket moves from this thread's runtime to that of its connection thread.
        let accepted = socket.accept().await;
        match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => {
                let peer = Peer::new(listener, peer);
                let gateway = Arc::clone(&gateway);
                let connections = gateway.connections.clone();
                let (runtime, assigned) = threads.assign();
                connections.admit(&runtime, idle, |activity| async move {
                    let _assigned = assigned;
                    if let Err(error) =
                        serve_connection((stream, wires_over_tls), peer, gateway, activity).await
                    {
                        debug!(error = format!("{error:#}"), "connection ended");
                    }
                });
            }
            Err(error) if is_about_one_connection(&error) => debug!(%error, "accept failed"),
            Err(error) => {
                // Out of file descriptors or memory: an immediate retry would only spin.
                warn!(%error, "accepting connections failed; retrying");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

async fn serve_connection(
    (stream, wires_over_tls): (std::net::TcpStream, &[Wire]),
    peer: Peer,
    gateway: Arc<Gateway>,
    activity: Arc<Activity>,
) -> anyhow::Result<()> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let mut start = [0; START_BYTES_MAX];
    let peeked = peek_start(&stream, &mut start).await?;
    let start = start.get(..peeked).unwrap_or_default();
    let (local, client) = (stream.local_addr()?, stream.peer_addr()?);
    if start.is_empty() {
        return Ok(());
    }
    if begins_tls(start) == Some(true) {
        let stream = GreetedStream::new(stream, Arc::clone(&activity));
        // Boxed, as each of the futures that it passes through would have room for it: that is
        // most of what an idle connection takes.
        let acceptor = gateway.tls.acceptor().await?;
        let stream = Box::new(Box::pin(acceptor.accept(stream)).await?);
        let server_name = stream.get_ref().1.server_name().map(Box::from);
        let (wire, stream) = recognise_start(wires_over_tls, stream).await?;
        let Some(wire) = wire else { return Ok(()) };
        let connection = Connection {
            gateway,
            peer,
            scheme: Scheme::Https,
            local,
            client,
            server_name,
            activity,
        };
        return wire.serve(stream, connection).await;
    }
    // The bytes that tell a protocol arrive together unless a client takes pains to split them;
    // such a client is served the last one in the row.
    let Some(wire) = recognise_at_once(peer.listener.clear, start) else { return Ok(()) };
    let (scheme, server_name) = (Scheme::Http, None);
    let connection = Connection { gateway, peer, scheme, local, client, server_name, activity };
    wire.serve(stream, connection).await
}

/// Whether a connection that begins with these bytes is TLS; `None` if more are needed to tell.
fn begins_tls(start: &[u8]) -> Option<bool> {
    match start {
        [TLS_HANDSHAKE] | [TLS_HANDSHAKE, TLS_MAJOR] => None,
        [TLS_HANDSHAKE, TLS_MAJOR, minor, ..] => Some(TLS_MINORS.contains(minor)),
        _ => Some(false),
    }
}

/// Looks at the first bytes of a connection, and leaves them there: as many as came together, or as
/// many as tell TLS from clear text. A client that sends no more is ended as one that sends
/// nothing is.
async fn peek_start(stream: &TcpStream, start: &mut [u8]) -> io::Result<usize> {
    loop {
        let peeked = stream.peek(start).await?;
        let came = start.get(..peeked).unwrap_or_default();
        if came.is_empty() || begins_tls(came).is_some() {
            return Ok(peeked);
        }
        tokio::time::sleep(START_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_bytes_tell_tls_from_messages() {
        for minor in 1..=4 {
            assert_eq!(begins_tls(&[0x16, 3, minor, 2]), Some(true));
        }
        // Messages of 278, 534 and 790 bytes begin like this.
        for start in [[0x16, 1, 0, 0], [0x16, 2, 0, 0], [0x16, 3, 0, 0], [0x16, 3, 5, 0]] {
            assert_eq!(begins_tls(&start), Some(false), "{start:?}");
        }
        assert_eq!(begins_tls(b"GET "), Some(false));
        assert_eq!((begins_tls(&[0x16]), begins_tls(&[0x16, 3])), (None, None));
        assert_eq!((begins_tls(&[0x17]), begins_tls(&[0x16, 4])), (Some(false), Some(false)));
    }
}
