//! Listeners: accept connections, and distinguish TLS from clear text. [`crate::bind`] opens them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use account::Scheme;
use api_table::Flavour;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

use crate::bind::DisabledListener;
use crate::config::Limits;
use crate::connection_threads::ConnectionThreads;
use crate::connections::{Activity, GreetedStream, WatchedStream};
use crate::gateway::{ConnectionHandler, Gateway};
use crate::http2;

/// The first byte of a TLS handshake; no HTTP request starts with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// Bound sockets, which queue connections although none is accepted yet.
pub(crate) struct Listeners {
    /// The address for clients.
    pub(crate) nosql: SocketAddr,
    /// The second port, if it is open.
    pub(crate) nosql_second: Option<u16>,
    /// The address of the Table API in Cosmos DB's flavour.
    pub(crate) table: Option<SocketAddr>,
    /// The address of the Table API in the storage service's flavour.
    pub(crate) table_storage: Option<SocketAddr>,
    /// The address of the admin API, if it has its own.
    pub(crate) admin: Option<SocketAddr>,
    /// Listeners that should be on but are off, because their default port is not available.
    pub(crate) off: Vec<DisabledListener>,
    /// The sockets, each with its listener.
    pub(crate) sockets: Vec<(Listener, TcpListener)>,
}

/// The server's port to which a connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// The NoSQL API, with the admin API and the other paths.
    Nosql,
    /// The Table API.
    Table(Flavour),
    /// The admin API.
    Admin,
}

/// The client at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The listener it connected to.
    pub(crate) listener: Listener,
    /// Whether it is on this machine.
    pub(crate) is_local: bool,
    /// Its address.
    pub(crate) address: IpAddr,
}

impl Peer {
    fn new(listener: Listener, peer: SocketAddr) -> Self {
        let address = peer.ip().to_canonical();
        Self { listener, is_local: address.is_loopback(), address }
    }
}

impl Listeners {
    /// Starts to accept connections. The returned tasks end when aborted.
    pub(crate) fn accept(
        self,
        gateway: &Arc<Gateway>,
        threads: &Arc<ConnectionThreads>,
        limits: &Limits,
    ) -> Vec<tokio::task::JoinHandle<()>> {
        let mut http = http1::Builder::new();
        // Time limits are kept by `Connections`, which needs no timer per connection. A head that
        // is only slightly too large reaches the API, which answers with an error in its own form.
        http.header_read_timeout(None).max_header_size(limits.header_bytes_max.saturating_mul(2));
        let accept = |(listener, socket)| {
            let (gateway, threads) = (Arc::clone(gateway), Arc::clone(threads));
            let idle = limits.idle_timeout(listener);
            tokio::spawn(accept_connections(
                (listener, idle),
                socket,
                gateway,
                threads,
                http.clone(),
            ))
        };
        self.sockets.into_iter().map(accept).collect()
    }
}

async fn accept_connections(
    (listener, idle): (Listener, Duration),
    socket: TcpListener,
    gateway: Arc<Gateway>,
    threads: Arc<ConnectionThreads>,
    http: http1::Builder,
) {
    loop {
        // The socket moves from this thread's runtime to that of its connection thread.
        let accepted = socket.accept().await;
        match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => {
                let peer = Peer::new(listener, peer);
                let (gateway, http) = (Arc::clone(&gateway), http.clone());
                let connections = gateway.connections.clone();
                let (runtime, assigned) = threads.assign();
                connections.admit(&runtime, idle, |activity| async move {
                    let _assigned = assigned;
                    let served = serve_connection(stream, peer, gateway, http, activity);
                    if let Err(error) = served.await {
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
    stream: std::net::TcpStream,
    peer: Peer,
    gateway: Arc<Gateway>,
    http: http1::Builder,
    activity: Arc<Activity>,
) -> anyhow::Result<()> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let mut start = [0; 4];
    // Four bytes arrive together unless a client takes pains to split them; such a client is served
    // HTTP/1.1.
    let peeked = stream.peek(&mut start).await?;
    if peeked == 0 {
        return Ok(());
    }
    if start[0] == TLS_HANDSHAKE {
        let stream = GreetedStream::new(stream, Arc::clone(&activity));
        let stream = gateway.tls.acceptor().await?.accept(stream).await?;
        if stream.get_ref().1.alpn_protocol() == Some(http2::ALPN) {
            return Ok(http2::refuse(stream).await?);
        }
        let handler = ConnectionHandler::new(gateway, peer, Scheme::Https, activity);
        serve_requests(stream, handler, http).await
    } else if start == *http2::PREFACE_START {
        Ok(http2::refuse(stream).await?)
    } else {
        let handler = ConnectionHandler::new(gateway, peer, Scheme::Http, activity);
        serve_requests(stream, handler, http).await
    }
}

async fn serve_requests<S>(
    stream: S,
    handler: ConnectionHandler,
    http: http1::Builder,
) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = TokioIo::new(WatchedStream::new(stream, handler.activity()));
    http.serve_connection(stream, service_fn(|request| handler.answer(request))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_on_this_machine_are_known_by_their_address() {
        let is_local = |text: &str| Peer::new(Listener::Admin, text.parse().unwrap()).is_local;
        assert!(is_local("127.0.0.1:9") && is_local("127.8.0.1:9") && is_local("[::1]:9"));
        assert!(is_local("[::ffff:127.0.0.1]:9"));
        assert!(!is_local("10.0.0.1:9") && !is_local("[::ffff:10.0.0.1]:9"));
    }
}
