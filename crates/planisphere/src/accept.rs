//! Accepts connections, tells TLS from clear text, and hands each to its protocol.

use std::io;
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

/// The first byte of a TLS handshake; no protocol in clear text starts with it.
const TLS_HANDSHAKE: u8 = 0x16;

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
    let peeked = stream.peek(&mut start).await?;
    let start = start.get(..peeked).unwrap_or_default();
    match start.first() {
        None => Ok(()),
        Some(&TLS_HANDSHAKE) => {
            let stream = GreetedStream::new(stream, Arc::clone(&activity));
            // Boxed, as each of the futures that it passes through would have room for it: that is
            // most of what an idle connection takes.
            let acceptor = gateway.tls.acceptor().await?;
            let stream = Box::new(Box::pin(acceptor.accept(stream)).await?);
            let (wire, stream) = recognise_start(wires_over_tls, stream).await?;
            let Some(wire) = wire else { return Ok(()) };
            wire.serve(stream, Connection { gateway, peer, scheme: Scheme::Https, activity }).await
        }
        Some(_) => {
            // The bytes that tell a protocol arrive together unless a client takes pains to split
            // them; such a client is served the last one in the row.
            let Some(wire) = recognise_at_once(peer.listener.clear, start) else { return Ok(()) };
            wire.serve(stream, Connection { gateway, peer, scheme: Scheme::Http, activity }).await
        }
    }
}
