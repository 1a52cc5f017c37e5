//! Listeners: binding sockets, accepting connections, telling TLS from clear text.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use api_table::Flavour;
use front::Scheme;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tracing::{debug, warn};

use crate::config::{Bind, Limits, Listen, Ports, Settings};
use crate::connections::{Activity, WatchedStream};
use crate::gateway::{Gateway, Session};
use crate::http2;
use crate::lanes::Lanes;

/// Connections the operating system keeps for us until they are accepted.
const BACKLOG: u32 = 1024;
/// The first byte of a TLS handshake; no HTTP request starts with it.
const TLS_HANDSHAKE: u8 = 0x16;
/// Free ports tried before giving up on one that is free on both loopback addresses.
const FREE_PORT_ATTEMPTS: usize = 16;

/// Sockets that are bound and queue connections, though nobody accepts them yet.
pub(crate) struct Listeners {
    /// The address that clients are told.
    pub(crate) nosql: SocketAddr,
    /// The second port, when it is open.
    pub(crate) nosql_second: Option<u16>,
    /// The address of the Table API as Cosmos DB speaks it.
    pub(crate) table: Option<SocketAddr>,
    /// The address of the Table API as the storage service speaks it.
    pub(crate) table_storage: Option<SocketAddr>,
    /// The address of the admin API, when it has one of its own.
    pub(crate) admin: Option<SocketAddr>,
    sockets: Vec<(Door, TcpListener)>,
}

/// Which of the server's ports a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The NoSQL API, with everything else below paths of its own.
    Nosql,
    /// The Table API.
    Table(Flavour),
    /// The admin API.
    Admin,
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visitor {
    /// Where it came in.
    pub(crate) door: Door,
    /// Whether it is on this machine.
    pub(crate) is_local: bool,
    /// Its address.
    pub(crate) address: IpAddr,
}

impl Visitor {
    fn new(door: Door, peer: SocketAddr) -> Self {
        let address = peer.ip().to_canonical();
        Self { door, is_local: address.is_loopback(), address }
    }
}

/// Binds all listeners. A taken port is an error that names the flag to change.
pub(crate) fn bind(listen: &Listen) -> anyhow::Result<Listeners> {
    let port =
        (listen.ports == Ports::Fixed || listen.chosen.nosql_port).then_some(listen.nosql_port);
    let mut sockets = bind_chosen(listen.bind, port, "--nosql-port")?;
    let nosql = told_address(&sockets)?;
    let second = second_port(listen);
    let nosql_second = second.and_then(|port| match bind_port(listen.bind, port) {
        Ok(more) => {
            sockets.extend(more);
            Some(port)
        }
        Err(error) => {
            // Only a few SDK tests want it, so a server without it is better than none.
            warn!(port, %error, "second nosql port not opened, --nosql-second-port picks another");
            None
        }
    });
    let mut all: Vec<(Door, TcpListener)> = Vec::new();
    let mut open = |door, sockets: Vec<TcpListener>| -> anyhow::Result<Option<SocketAddr>> {
        let told = if sockets.is_empty() { None } else { Some(told_address(&sockets)?) };
        all.extend(sockets.into_iter().map(|socket| (door, socket)));
        Ok(told)
    };
    open(Door::Nosql, sockets)?;
    let (bind, chosen) = (listen.bind, listen.chosen);
    let port = (listen.table_port, chosen.table_port);
    let table = bind_optional(listen.ports, bind, port, "--table-port")?;
    let table = open(Door::Table(Flavour::Cosmos), table)?;
    let port = (listen.table_storage_port, chosen.table_storage_port);
    let storage = bind_optional(listen.ports, bind, port, "--table-storage-port")?;
    let table_storage = open(Door::Table(Flavour::Storage), storage)?;
    let port = (listen.admin_port, chosen.admin_port);
    let admin = bind_optional(listen.ports, listen.admin_bind, port, "--admin-port")?;
    let admin = open(Door::Admin, admin)?;
    Ok(Listeners { nosql, nosql_second, table, table_storage, admin, sockets: all })
}

/// Binds a port that may be turned off, by the number 0.
fn bind_optional(
    ports: Ports,
    bind: Bind,
    (port, is_chosen): (u16, bool),
    flag: &str,
) -> anyhow::Result<Vec<TcpListener>> {
    if port == 0 {
        return Ok(Vec::new());
    }
    bind_chosen(bind, (ports == Ports::Fixed || is_chosen).then_some(port), flag)
}

/// Binds a port, or a free one.
fn bind_chosen(bind: Bind, port: Option<u16>, flag: &str) -> anyhow::Result<Vec<TcpListener>> {
    match port {
        Some(port) => bind_port(bind, port).map_err(|error| explain(&error, bind, port, flag)),
        None => bind_free(bind, flag),
    }
}

/// The address that clients are told.
fn told_address(sockets: &[TcpListener]) -> anyhow::Result<SocketAddr> {
    let Some(first) = sockets.first() else { bail!("there is no address to listen on") };
    Ok(reachable(first.local_addr()?))
}

/// The second port, when it should be open: among the default ports, or when asked for.
fn second_port(listen: &Listen) -> Option<u16> {
    let default = Settings::default().listen.nosql_port;
    let among_defaults = listen.ports == Ports::Fixed && listen.nosql_port == default;
    (listen.nosql_second_port != 0 && (among_defaults || listen.chosen.nosql_second_port))
        .then_some(listen.nosql_second_port)
}

fn bind_free(bind: Bind, flag: &str) -> anyhow::Result<Vec<TcpListener>> {
    let mut last = None;
    for _ in 0..FREE_PORT_ATTEMPTS {
        match bind_port(bind, 0) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into());
    Err(explain(&error, bind, 0, flag))
}

/// Binds one port on all addresses of `bind`; port 0 is a free one, the same on all.
fn bind_port(bind: Bind, port: u16) -> io::Result<Vec<TcpListener>> {
    let Bind::Address(address) = bind else {
        let v4 = bind_socket(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = v4.local_addr()?.port();
        return match bind_socket(SocketAddr::from((Ipv6Addr::LOCALHOST, port))) {
            Ok(v6) => Ok(vec![v4, v6]),
            // Clients that resolve `localhost` to ::1 would reach somebody else.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            Err(error) => {
                debug!(%error, "no ipv6 loopback on this machine");
                Ok(vec![v4])
            }
        };
    };
    Ok(vec![bind_socket(SocketAddr::new(address, port))?])
}

fn bind_socket(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows the option would let two processes share the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn explain(error: &io::Error, bind: Bind, port: u16, flag: &str) -> anyhow::Error {
    let kind = error.kind();
    if kind == io::ErrorKind::AddrInUse {
        return anyhow!(
            "port {port} on {bind} is taken by another process.\n\
             Choose another with {flag} N, or let the server find a free one with --ports auto."
        );
    }
    if kind == io::ErrorKind::PermissionDenied {
        return anyhow!(
            "this user may not listen on port {port}; choose one above 1023 with {flag} N"
        );
    }
    if kind == io::ErrorKind::AddrNotAvailable {
        return anyhow!(
            "{bind} is not an address of this machine; choose another with --bind ADDR"
        );
    }
    anyhow!("can't listen on {bind} port {port}: {error}")
}

/// An address that a client on this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}

impl Listeners {
    /// Starts accepting. The returned tasks end when aborted.
    pub(crate) fn accept(
        self,
        gateway: &Arc<Gateway>,
        lanes: &Arc<Lanes>,
        limits: &Limits,
    ) -> Vec<tokio::task::JoinHandle<()>> {
        let mut http = http1::Builder::new();
        // Time limits are kept by `Connections`, which needs no timer per connection. A head that
        // is only a little too large reaches the API, which explains that in its own form.
        http.header_read_timeout(None).max_header_size(limits.header_bytes_max.saturating_mul(2));
        let accept = |(door, socket)| {
            let (gateway, lanes) = (Arc::clone(gateway), Arc::clone(lanes));
            let idle = limits.idle_timeout(door);
            tokio::spawn(accept_connections((door, idle), socket, gateway, lanes, http.clone()))
        };
        self.sockets.into_iter().map(accept).collect()
    }
}

async fn accept_connections(
    (door, idle): (Door, Duration),
    socket: TcpListener,
    gateway: Arc<Gateway>,
    lanes: Arc<Lanes>,
    http: http1::Builder,
) {
    loop {
        // It leaves this thread's runtime for that of its lane.
        let accepted = socket.accept().await;
        match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => {
                let visitor = Visitor::new(door, peer);
                let (gateway, http) = (Arc::clone(&gateway), http.clone());
                let connections = gateway.connections.clone();
                let (runtime, seat) = lanes.seat();
                connections.admit(&runtime, idle, |activity| async move {
                    let _seat = seat;
                    let served = serve_connection(stream, visitor, gateway, http, activity);
                    if let Err(error) = served.await {
                        debug!(error = format!("{error:#}"), "connection ended");
                    }
                });
            }
            Err(error) if is_about_one_connection(&error) => debug!(%error, "accept failed"),
            Err(error) => {
                // Out of file descriptors or memory: trying again at once would only spin.
                warn!(%error, "no connection can be accepted for now");
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
    visitor: Visitor,
    gateway: Arc<Gateway>,
    http: http1::Builder,
    activity: Arc<Activity>,
) -> anyhow::Result<()> {
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let mut start = [0; 4];
    // Four bytes arrive together unless somebody takes pains; who does is served HTTP/1.1.
    let peeked = stream.peek(&mut start).await?;
    if peeked == 0 {
        return Ok(());
    }
    if start[0] == TLS_HANDSHAKE {
        let stream = gateway.tls.acceptor().await?.accept(stream).await?;
        if stream.get_ref().1.alpn_protocol() == Some(http2::ALPN) {
            return Ok(http2::refuse(stream).await?);
        }
        let session = Session::new(gateway, visitor, Scheme::Https, activity);
        serve_requests(stream, session, http).await
    } else if start == *http2::PREFACE_START {
        Ok(http2::refuse(stream).await?)
    } else {
        let session = Session::new(gateway, visitor, Scheme::Http, activity);
        serve_requests(stream, session, http).await
    }
}

async fn serve_requests<S>(stream: S, session: Session, http: http1::Builder) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = TokioIo::new(WatchedStream::new(stream, session.activity()));
    http.serve_connection(stream, service_fn(|request| session.answer(request))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ChosenPorts;

    fn listen(ports: Ports, first: u16, second: u16) -> Listen {
        let defaults = Settings::default().listen;
        let chosen = ChosenPorts {
            nosql_port: first != defaults.nosql_port,
            nosql_second_port: second != defaults.nosql_second_port,
            admin_port: true,
            ..ChosenPorts::default()
        };
        let ports_given = Listen { nosql_port: first, nosql_second_port: second, ..defaults };
        let off = Listen { table_port: 0, table_storage_port: 0, admin_port: 0, ..ports_given };
        Listen { ports, chosen, ..off }
    }

    #[test]
    fn the_second_port_belongs_to_the_default_ports_unless_chosen() {
        let second = |ports, first, second| second_port(&listen(ports, first, second));
        assert_eq!(second(Ports::Fixed, 8081, 8903), Some(8903));
        assert_eq!(second(Ports::Fixed, 9000, 8903), None);
        assert_eq!(second(Ports::Auto, 8081, 8903), None);
        assert_eq!(second(Ports::Fixed, 9000, 9001), Some(9001));
        assert_eq!(second(Ports::Auto, 8081, 9001), Some(9001));
        assert_eq!(second(Ports::Fixed, 8081, 0), None);
    }

    #[test]
    fn clients_are_told_an_address_they_can_reach() {
        let told = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(told("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(told("[::]:1"), "[::1]:1");
        assert_eq!(told("10.0.0.7:1"), "10.0.0.7:1");
    }

    #[tokio::test]
    async fn a_free_port_is_free_on_both_loopback_addresses() {
        let sockets = bind_free(Bind::Localhost, "--nosql-port").unwrap();
        let ports: Vec<u16> =
            sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
    }

    #[tokio::test]
    async fn a_taken_port_is_explained_with_its_flag() {
        let taken = bind_socket("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind(&listen(Ports::Fixed, port, 0)).err().unwrap().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--nosql-port"), "{error}");

        let mut listen = listen(Ports::Auto, 8081, 0);
        listen.admin_port = port;
        let error = bind(&listen).err().unwrap().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--admin-port"), "{error}");
    }

    #[tokio::test]
    async fn the_admin_port_has_an_address_unless_it_is_turned_off() {
        let mut listen = listen(Ports::Auto, 8081, 0);
        assert_eq!(bind(&listen).unwrap().admin, None);
        listen.admin_port = 8085;
        listen.chosen.admin_port = false;
        let bound = bind(&listen).unwrap();
        let admin = bound.admin.unwrap();
        assert!(admin.ip().is_loopback() && admin.port() != bound.nosql.port());
    }

    #[tokio::test]
    async fn each_flavour_of_tables_has_an_address_unless_it_is_turned_off() {
        let mut listen = listen(Ports::Auto, 8081, 0);
        listen.table_storage_port = 10002;
        let bound = bind(&listen).unwrap();
        let storage = bound.table_storage.unwrap();
        assert!(storage.ip().is_loopback() && storage.port() != bound.nosql.port());
        assert_eq!(bound.table, None);

        let taken = bind_socket("127.0.0.1:0".parse().unwrap()).unwrap();
        listen.table_port = taken.local_addr().unwrap().port();
        listen.chosen.table_port = true;
        let error = bind(&listen).err().unwrap().to_string();
        assert!(error.contains("--table-port"), "{error}");
    }

    #[test]
    fn visitors_from_this_machine_are_known_by_their_address() {
        let is_local = |text: &str| Visitor::new(Door::Admin, text.parse().unwrap()).is_local;
        assert!(is_local("127.0.0.1:9") && is_local("127.8.0.1:9") && is_local("[::1]:9"));
        assert!(is_local("[::ffff:127.0.0.1]:9"));
        assert!(!is_local("10.0.0.1:9") && !is_local("[::ffff:10.0.0.1]:9"));
    }
}
