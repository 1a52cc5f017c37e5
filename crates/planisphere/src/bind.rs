//! Binds the sockets of all listeners.
//!
//! The port of the NoSQL API and every requested port must be free. If the default port of another
//! API is taken, that API is turned off, and the start-up output reports it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::anyhow;
use api_table::Flavour;
use tokio::net::{TcpListener, TcpSocket};
use tracing::debug;

use crate::config::{Bind, Listen, Ports, Settings};
use crate::listen::{Listener, Listeners};

/// Connections that the operating system queues until they are accepted.
const BACKLOG: u32 = 1024;
/// Free ports tried before giving up on one that is free on both loopback addresses.
const FREE_PORT_ATTEMPTS: usize = 16;

/// A listener whose default port is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisabledListener {
    /// Its name in the ready line.
    pub(crate) name: &'static str,
    /// The reason, and the flag that changes the port; one line.
    pub(crate) reason: String,
}

/// A listener to open.
#[derive(Clone, Copy)]
struct ListenerSpec {
    /// Its name in the ready line.
    name: &'static str,
    listener: Listener,
    /// The flag of its port.
    flag: &'static str,
    bind: Bind,
    /// The port; `None` for any free one.
    port: Option<u16>,
    /// Whether the server can't start without it: it was requested, or is the first listener.
    is_needed: bool,
    /// Whether listeners without a port of their own use free ports.
    finds_free: bool,
}

/// Open listeners, by name.
#[derive(Default)]
struct OpenListeners {
    addresses: Vec<(ListenerSpec, SocketAddr)>,
    sockets: Vec<(Listener, TcpListener)>,
    off: Vec<DisabledListener>,
}

/// Binds all listeners. If a needed port is taken, the error names the flag to change.
pub(crate) fn bind(listen: &Listen) -> anyhow::Result<Listeners> {
    let mut other_listeners: Vec<ListenerSpec> =
        other_listeners(listen).into_iter().flatten().collect();
    // Default ports give way to requested ones.
    other_listeners.sort_by_key(|spec| !spec.is_needed);
    let mut opened = OpenListeners::default();
    let nosql = opened.open(&nosql(listen))?;
    for spec in &other_listeners {
        match opened.open(spec) {
            Ok(_) => {}
            Err(bind_error) if !spec.is_needed && bind_error.is_about_the_port() => {
                opened
                    .off
                    .push(DisabledListener { name: spec.name, reason: bind_error.one_line() });
            }
            Err(bind_error) => return Err(bind_error.into()),
        }
    }
    Ok(Listeners {
        nosql,
        nosql_second: opened.address("nosql_second").map(|address| address.port()),
        table: opened.address("table"),
        table_storage: opened.address("table_storage"),
        admin: opened.address("admin"),
        off: opened.off,
        sockets: opened.sockets,
    })
}

fn nosql(listen: &Listen) -> ListenerSpec {
    let is_fixed = listen.ports == Ports::Fixed || listen.chosen.nosql_port;
    ListenerSpec {
        name: "nosql",
        listener: Listener::Nosql,
        flag: "--nosql-port",
        bind: listen.bind,
        port: is_fixed.then_some(listen.nosql_port),
        is_needed: true,
        finds_free: listen.ports != Ports::Fixed,
    }
}

/// All other listeners, unless they are turned off with port 0.
fn other_listeners(listen: &Listen) -> [Option<ListenerSpec>; 4] {
    let (bind, chosen) = (listen.bind, listen.chosen);
    let finds_free = listen.ports != Ports::Fixed;
    let spec = |name, listener, flag, (port, is_needed): (u16, bool)| {
        let is_fixed = listen.ports == Ports::Fixed || is_needed;
        let port = (port != 0).then(|| is_fixed.then_some(port));
        port.map(|port| ListenerSpec { name, listener, flag, bind, port, is_needed, finds_free })
    };
    let second = (second_port(listen).unwrap_or(0), chosen.nosql_second_port);
    let table = (listen.table_port, chosen.table_port);
    let storage = (listen.table_storage_port, chosen.table_storage_port);
    let admin = (listen.admin_port, chosen.admin_port);
    let storage_listener = Listener::Table(Flavour::Storage);
    [
        spec("nosql_second", Listener::Nosql, "--nosql-second-port", second),
        spec("table", Listener::Table(Flavour::Cosmos), "--table-port", table),
        spec("table_storage", storage_listener, "--table-storage-port", storage),
        spec("admin", Listener::Admin, "--admin-port", admin)
            .map(|spec| ListenerSpec { bind: listen.admin_bind, ..spec }),
    ]
}

/// The second port, if it should be open: with default ports, or when requested.
fn second_port(listen: &Listen) -> Option<u16> {
    let default = Settings::default().listen.nosql_port.saturating_add(listen.port_offset);
    let among_defaults = listen.ports == Ports::Fixed && listen.nosql_port == default;
    (listen.nosql_second_port != 0 && (among_defaults || listen.chosen.nosql_second_port))
        .then_some(listen.nosql_second_port)
}

impl OpenListeners {
    /// Opens a listener and returns the address for clients.
    fn open<'w>(&mut self, spec: &'w ListenerSpec) -> Result<SocketAddr, BindError<'w>> {
        let bound = match spec.port {
            Some(port) => bind_port(spec.bind, port),
            None => bind_free(spec.bind),
        };
        let address = bound.and_then(|sockets| {
            let first = sockets.first().map(TcpListener::local_addr);
            let address = first.unwrap_or_else(|| Err(io::ErrorKind::AddrNotAvailable.into()))?;
            self.sockets.extend(sockets.into_iter().map(|socket| (spec.listener, socket)));
            Ok(reachable(address))
        });
        match address {
            Ok(address) => {
                self.addresses.push((*spec, address));
                Ok(address)
            }
            Err(error) => Err(BindError { spec, cause: self.cause(error, spec.port) }),
        }
    }

    fn cause(&self, error: io::Error, port: Option<u16>) -> Cause {
        let kind = error.kind();
        if kind == io::ErrorKind::AddrInUse {
            return self.holder(port).map_or(Cause::Taken, Cause::TakenHere);
        }
        if kind == io::ErrorKind::PermissionDenied {
            return Cause::Forbidden;
        }
        if kind == io::ErrorKind::AddrNotAvailable {
            return Cause::NoAddress;
        }
        Cause::Other(error)
    }

    fn address(&self, name: &str) -> Option<SocketAddr> {
        let mut named = self.addresses.iter().filter(|(spec, _)| spec.name == name);
        named.next().map(|(_, address)| *address)
    }

    /// The flag of this server's listener that has a port.
    fn holder(&self, port: Option<u16>) -> Option<&'static str> {
        let mut holders = self.addresses.iter().filter(|(_, own)| Some(own.port()) == port);
        holders.next().map(|(spec, _)| spec.flag)
    }
}

/// A listener that could not be opened.
struct BindError<'w> {
    spec: &'w ListenerSpec,
    cause: Cause,
}

enum Cause {
    /// Another process has the port.
    Taken,
    /// Another listener of this server has it; its flag.
    TakenHere(&'static str),
    /// The user lacks permission.
    Forbidden,
    /// The address is not one of this machine.
    NoAddress,
    Other(io::Error),
}

impl BindError<'_> {
    /// Whether another port would help.
    fn is_about_the_port(&self) -> bool {
        match self.cause {
            Cause::Taken | Cause::TakenHere(_) | Cause::Forbidden => true,
            Cause::NoAddress | Cause::Other(_) => false,
        }
    }

    fn reason(&self) -> String {
        let bind = self.spec.bind;
        let port = self.spec.port.unwrap_or(0);
        match &self.cause {
            Cause::Taken => format!("port {port} on {bind} is taken by another process"),
            Cause::TakenHere(flag) => format!("port {port} is {flag} of this server already"),
            Cause::Forbidden => format!("this user may not listen on port {port}"),
            Cause::NoAddress => format!("{bind} is not an address of this machine"),
            Cause::Other(error) => format!("can't listen on {bind} port {port}: {error}"),
        }
    }

    fn one_line(&self) -> String {
        format!("{}; {} N moves it", self.reason(), self.spec.flag)
    }
}

impl From<BindError<'_>> for anyhow::Error {
    fn from(bind_error: BindError<'_>) -> Self {
        let ListenerSpec { name, listener, flag, finds_free, .. } = bind_error.spec;
        let reason = bind_error.reason();
        match bind_error.cause {
            Cause::Taken if *finds_free => anyhow!(
                "{reason}.\n\
                 Choose another with {flag} N, or leave that out, and --ports auto finds a free \
                 one."
            ),
            Cause::Taken if *name == "nosql" => anyhow!(
                "{reason}.\n\
                 Choose another with {flag} N, move all ports with --port-offset N, or let the \
                 server find free ones with --ports auto."
            ),
            Cause::Taken => anyhow!(
                "{reason}.\n\
                 Choose another with {flag} N, or omit it and let the server find a free one \
                 with --ports auto."
            ),
            Cause::TakenHere(_) => anyhow!("{reason}; choose another with {flag} N"),
            Cause::Forbidden => anyhow!("{reason}; choose one above 1023 with {flag} N"),
            Cause::NoAddress => {
                let flag = if *listener == Listener::Admin { "--admin-bind" } else { "--bind" };
                anyhow!("{reason}; choose another with {flag} ADDR")
            }
            Cause::Other(_) => anyhow!("{reason}"),
        }
    }
}

fn bind_free(bind: Bind) -> io::Result<Vec<TcpListener>> {
    let mut last = None;
    for _ in 0..FREE_PORT_ATTEMPTS {
        match bind_port(bind, 0) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

/// Binds one port on all addresses of `bind`; port 0 means a free one, the same on all.
fn bind_port(bind: Bind, port: u16) -> io::Result<Vec<TcpListener>> {
    let Bind::Address(address) = bind else {
        let v4 = bind_socket(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = v4.local_addr()?.port();
        return match bind_socket(SocketAddr::from((Ipv6Addr::LOCALHOST, port))) {
            Ok(v6) => Ok(vec![v4, v6]),
            // Clients that resolve `localhost` to ::1 would reach another process.
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

/// An address that a client on this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
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

    /// A socket on a free port, and the port.
    fn taken() -> (TcpListener, u16) {
        let taken = bind_socket("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = taken.local_addr().unwrap().port();
        (taken, port)
    }

    fn bind_error(listen: &Listen) -> String {
        bind(listen).err().unwrap().to_string()
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
        let moved = Listen { port_offset: 7, ..listen(Ports::Fixed, 8088, 8910) };
        assert_eq!(second_port(&moved), Some(8910));
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
        let sockets = bind_free(Bind::Localhost).unwrap();
        let ports: Vec<u16> =
            sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
    }

    #[tokio::test]
    async fn a_taken_port_is_explained_with_its_flag() {
        let (_taken, port) = taken();
        let error = bind_error(&listen(Ports::Fixed, port, 0));
        for part in [&port.to_string(), "--nosql-port", "--port-offset", "--ports auto"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let mut listen = listen(Ports::Auto, 8081, 0);
        listen.admin_port = port;
        let error = bind_error(&listen);
        assert!(error.contains(&port.to_string()) && error.contains("--admin-port"), "{error}");
        assert!(error.contains("--ports auto"), "{error}");
    }

    #[tokio::test]
    async fn a_taken_default_port_of_a_further_api_turns_that_api_off() {
        let (_taken, port) = taken();
        let first = Settings::default().listen.nosql_port;
        let (free, nosql) = loop {
            let (free, nosql) = taken();
            if nosql >= first {
                break (free, nosql);
            }
        };
        drop(free);
        for name in ["nosql_second", "table", "table_storage", "admin"] {
            let mut listen = listen(Ports::Fixed, nosql, 0);
            // All ports are moved together, so that the second port is among the defaults.
            (listen.port_offset, listen.chosen) = (nosql - first, ChosenPorts::default());
            match name {
                "nosql_second" => listen.nosql_second_port = port,
                "table" => listen.table_port = port,
                "table_storage" => listen.table_storage_port = port,
                _ => listen.admin_port = port,
            }
            let bound = bind(&listen).unwrap();
            let flag = format!("--{}-port N", name.replace('_', "-"));
            let [off] = bound.off.as_slice() else { panic!("{name}: {:?}", bound.off) };
            assert_eq!(off.name, name);
            assert!(off.reason.contains(&port.to_string()), "{}", off.reason);
            assert!(off.reason.contains(&flag), "{}", off.reason);
            assert_eq!((bound.nosql_second, bound.table, bound.table_storage), (None, None, None));
            assert_eq!(bound.admin, None);
            drop(bound);

            listen.chosen = ChosenPorts {
                nosql_port: true,
                nosql_second_port: true,
                table_port: true,
                table_storage_port: true,
                admin_port: true,
            };
            assert!(bind_error(&listen).contains(&flag), "{name}");
        }
    }

    #[tokio::test]
    async fn a_default_port_gives_way_to_one_that_was_asked_for() {
        let (taken, port) = taken();
        drop(taken);
        let mut listen = listen(Ports::Fixed, 0, 0);
        (listen.table_port, listen.admin_port) = (port, port);
        let bound = bind(&listen).unwrap();
        assert_eq!(bound.admin.map(|address| address.port()), Some(port));
        assert_eq!(bound.off[0].name, "table");
        assert!(bound.off[0].reason.contains("--admin-port of this server"), "{:?}", bound.off);
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
        assert_eq!((bound.table, bound.off), (None, Vec::new()));

        let (_taken, port) = taken();
        listen.table_port = port;
        listen.chosen.table_port = true;
        assert!(bind_error(&listen).contains("--table-port"));
    }
}
