//! Binds the sockets of all listeners.
//!
//! The port of the NoSQL API and every requested port must be free. If the default port of another
//! API is taken, that API is turned off, and the start-up output reports it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::anyhow;
use tokio::net::{TcpListener, TcpSocket};
use tracing::debug;

use crate::config::{Bind, Listen, Ports};
use crate::listen::{Interface, LISTENERS, Listener, Opens};

/// Connections that the operating system queues until they are accepted.
const BACKLOG: u32 = 1024;
/// Free ports tried before giving up on one that is free on both loopback addresses.
const FREE_PORT_ATTEMPTS: usize = 16;

/// Bound sockets, which queue connections although none is accepted yet.
#[derive(Default)]
pub(crate) struct OpenListeners {
    /// The listeners with their addresses for clients, in the order in which they are shown.
    pub(crate) addresses: Vec<(&'static Listener, SocketAddr)>,
    /// Listeners that should be on but are off, because their default port is not available.
    pub(crate) off: Vec<DisabledListener>,
    /// The sockets, each with its listener.
    pub(crate) sockets: Vec<(&'static Listener, TcpListener)>,
}

/// A listener whose default port is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisabledListener {
    pub(crate) listener: &'static Listener,
    /// The reason, and the flag that changes the port; one line.
    pub(crate) reason: String,
}

/// A listener to open.
#[derive(Clone, Copy)]
struct Wanted {
    listener: &'static Listener,
    bind: Bind,
    /// The port; `None` for any free one.
    port: Option<u16>,
    /// The listener whose port is followed by this one's.
    after: Option<&'static str>,
    /// Whether the port after its own must be free as well.
    is_followed: bool,
    /// Whether the server can't start without it.
    is_needed: bool,
    /// Whether listeners without a port of their own use free ports.
    finds_free: bool,
}

/// Binds all listeners. If a needed port is taken, the error names the flag to change.
pub(crate) fn bind(listen: &Listen) -> anyhow::Result<OpenListeners> {
    let wanted = LISTENERS.iter().filter_map(|listener| Wanted::new(listener, listen));
    let mut wanted: Vec<Wanted> = wanted.collect();
    // Default ports give way to requested ones, and all to those that are always open.
    wanted.sort_by_key(|wanted| (wanted.listener.opens != Opens::Always, !wanted.is_needed));
    let mut opened = OpenListeners::default();
    for wanted in &wanted {
        match opened.open(wanted) {
            Ok(()) => {}
            Err(bind_error) if !wanted.is_needed && bind_error.is_about_the_port() => {
                let reason = bind_error.one_line();
                opened.off.push(DisabledListener { listener: wanted.listener, reason });
            }
            Err(bind_error) => return Err(bind_error.into()),
        }
    }
    let row = |listener: &Listener| LISTENERS.iter().position(|row| row == listener);
    opened.addresses.sort_by_key(|(listener, _)| row(listener));
    opened.off.sort_by_key(|off| row(off.listener));
    Ok(opened)
}

impl Wanted {
    /// How to open a listener, unless it is turned off.
    fn new(listener: &'static Listener, listen: &Listen) -> Option<Self> {
        let (port, is_chosen) = (listen.port(listener), listen.is_chosen(listener));
        let opens = match listener.opens {
            Opens::Always => true,
            Opens::UnlessZero | Opens::ForDirectMode => port != 0,
            Opens::BesideDefaultPort => port != 0 && (is_chosen || has_default_ports(listen)),
            Opens::After(_) => port != 0,
        };
        let finds_free = listen.ports != Ports::Fixed;
        let after = match listener.opens {
            Opens::After(first) if !is_chosen => Some(first),
            Opens::Always
            | Opens::UnlessZero
            | Opens::ForDirectMode
            | Opens::BesideDefaultPort
            | Opens::After(_) => None,
        };
        let is_followed = LISTENERS.iter().any(|row| {
            row.opens == Opens::After(listener.name)
                && !listen.is_chosen(row)
                && listen.port(row) != 0
        });
        opens.then_some(Self {
            listener,
            bind: match listener.interface {
                Interface::Data => listen.bind,
                Interface::Admin => listen.admin_bind,
            },
            port: (!finds_free || is_chosen).then_some(port),
            after,
            is_followed,
            is_needed: is_chosen || listener.opens == Opens::Always,
            finds_free,
        })
    }
}

/// Whether all ports that are always open have their default numbers.
fn has_default_ports(listen: &Listen) -> bool {
    let mut always = LISTENERS.iter().filter(|listener| listener.opens == Opens::Always);
    listen.ports == Ports::Fixed
        && always.all(|row| listen.port(row) == row.port.saturating_add(listen.port_offset))
}

impl OpenListeners {
    /// The address of a listener for clients, if it is open.
    pub(crate) fn address(&self, name: &str) -> Option<SocketAddr> {
        let mut named = self.addresses.iter().filter(|(listener, _)| listener.name == name);
        named.next().map(|(_, address)| *address)
    }

    fn open<'w>(&mut self, wanted: &'w Wanted) -> Result<(), BindError<'w>> {
        let mut port = wanted.port;
        if let Some(first) = wanted.after {
            // Where the first one is off, this one is.
            let Some(first) = self.address(first) else { return Ok(()) };
            port = first.port().checked_add(1);
            if port.is_none() {
                return Err(BindError { wanted, port, cause: Cause::NoneAfter });
            }
        }
        let bound = match port {
            Some(port) => bind_port(wanted.bind, port),
            None => bind_free(wanted.bind, wanted.is_followed),
        };
        let address = bound.and_then(|sockets| {
            let first = sockets.first().map(TcpListener::local_addr);
            let address = first.unwrap_or_else(|| Err(io::ErrorKind::AddrNotAvailable.into()))?;
            self.sockets.extend(sockets.into_iter().map(|socket| (wanted.listener, socket)));
            Ok(reachable(address))
        });
        match address {
            Ok(address) => {
                self.addresses.push((wanted.listener, address));
                Ok(())
            }
            Err(error) => Err(BindError { wanted, port, cause: self.cause(error, port) }),
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

    /// The flag of this server's listener that has a port.
    fn holder(&self, port: Option<u16>) -> Option<String> {
        let mut holders = self.addresses.iter().filter(|(_, own)| Some(own.port()) == port);
        holders.next().map(|(listener, _)| listener.flag())
    }
}

/// A listener that could not be opened.
struct BindError<'w> {
    wanted: &'w Wanted,
    port: Option<u16>,
    cause: Cause,
}

enum Cause {
    /// Another process has the port.
    Taken,
    /// Another listener of this server has it; its flag.
    TakenHere(String),
    /// The user lacks permission.
    Forbidden,
    /// The port before it is the last there is.
    NoneAfter,
    /// The address is not one of this machine.
    NoAddress,
    Other(io::Error),
}

impl BindError<'_> {
    /// Whether another port would help.
    fn is_about_the_port(&self) -> bool {
        match self.cause {
            Cause::Taken | Cause::TakenHere(_) | Cause::Forbidden | Cause::NoneAfter => true,
            Cause::NoAddress | Cause::Other(_) => false,
        }
    }

    fn reason(&self) -> String {
        let bind = self.wanted.bind;
        let port = self.port.unwrap_or(0);
        match &self.cause {
            Cause::Taken => format!("port {port} on {bind} is taken by another process"),
            Cause::TakenHere(flag) => format!("port {port} is {flag} of this server already"),
            Cause::Forbidden => format!("this user may not listen on port {port}"),
            Cause::NoneAfter => "there is no port after the last one".to_owned(),
            Cause::NoAddress => format!("{bind} is not an address of this machine"),
            Cause::Other(error) => format!("can't listen on {bind} port {port}: {error}"),
        }
    }

    fn one_line(&self) -> String {
        format!("{}; {} N moves it", self.reason(), self.wanted.listener.flag())
    }
}

impl From<BindError<'_>> for anyhow::Error {
    fn from(bind_error: BindError<'_>) -> Self {
        let Wanted { listener, finds_free, .. } = bind_error.wanted;
        let flag = listener.flag();
        let reason = bind_error.reason();
        match bind_error.cause {
            Cause::Taken if *finds_free => anyhow!(
                "{reason}.\n\
                 Choose another with {flag} N, or leave that out, and --ports auto finds a free \
                 one."
            ),
            Cause::Taken if listener.opens == Opens::Always => anyhow!(
                "{reason}.\n\
                 Choose another with {flag} N, move all ports with --port-offset N, or let the \
                 server find free ones with --ports auto."
            ),
            Cause::Taken => anyhow!(
                "{reason}.\n\
                 Choose another with {flag} N, or omit it and let the server find a free one \
                 with --ports auto."
            ),
            Cause::TakenHere(_) | Cause::NoneAfter => {
                anyhow!("{reason}; choose another with {flag} N")
            }
            Cause::Forbidden => anyhow!("{reason}; choose one above 1023 with {flag} N"),
            Cause::NoAddress => {
                let flag = match listener.interface {
                    Interface::Data => "--bind",
                    Interface::Admin => "--admin-bind",
                };
                anyhow!("{reason}; choose another with {flag} ADDR")
            }
            Cause::Other(_) => anyhow!("{reason}"),
        }
    }
}

/// Binds a free port; if the listener is followed by another, one after which there is another.
fn bind_free(bind: Bind, is_followed: bool) -> io::Result<Vec<TcpListener>> {
    let mut last = None;
    for _ in 0..FREE_PORT_ATTEMPTS {
        let bound = bind_port(bind, 0).and_then(|sockets| {
            let port =
                sockets.first().map_or(Ok(0), |first| first.local_addr().map(|it| it.port()))?;
            if is_followed {
                let next = port.checked_add(1).ok_or(io::ErrorKind::AddrInUse)?;
                drop(bind_port(bind, next)?);
            }
            Ok(sockets)
        });
        match bound {
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
mod tests;
