//! The listeners: one row for each port of the server, and all that is particular to it.
//!
//! [`crate::bind`] opens them, [`crate::accept`] accepts their connections and hands each to one of
//! the protocols in its row ([`crate::protocol`]). Settings, ready line, banner and the explorer
//! read the rows as well, so that a further listener is a row, its settings, and its protocol where
//! that is new.

use std::net::{IpAddr, SocketAddr};

use api_mongo::Personality;
use api_table::Flavour;

use crate::gateway::Api;
use crate::protocol::Wire;

/// A port of the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Its name, from which its settings have theirs (`<name>_port`), and which the ready line and
    /// the log use.
    pub(crate) name: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    /// What tells it from other listeners of the same title.
    pub(crate) variant: &'static str,
    /// The default of its port; 0 if it has none.
    pub(crate) port: u16,
    pub(crate) opens: Opens,
    pub(crate) interface: Interface,
    /// The name of the listener whose setting says how long its connections may be idle
    /// (`<name>_idle_timeout_s`).
    pub(crate) idle: &'static str,
    /// Protocols in clear text, in the order in which a connection's first bytes are compared.
    pub(crate) clear: &'static [Wire],
    /// Protocols over TLS.
    pub(crate) tls: &'static [Wire],
    /// What its URLs begin with.
    pub(crate) scheme: &'static str,
    pub(crate) browsers: Browsers,
    /// Whether callers on this machine need no key while the account's key is well known.
    pub(crate) trusts_machine: bool,
    /// The path of its URL in the ready line; `None` if it is not in there.
    pub(crate) path: Option<&'static str>,
    /// The path of its URL for people.
    pub(crate) shown_path: &'static str,
    /// Where on the NoSQL port the same is found, if it is.
    pub(crate) path_on_nosql: Option<&'static str>,
}

/// When a listener is opened, and what happens if its port is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// Always; the server does not start without it.
    Always,
    /// Unless its port is 0. If its default port is taken, it is off and the start-up output says
    /// so; if a port that was requested is taken, the server does not start.
    UnlessZero,
    /// If the setting `direct` is a port, on that port; the server does not start without it.
    ForDirectMode,
    /// As `UnlessZero`, and only while the NoSQL port is the default one, or when it was requested.
    BesideDefaultPort,
    /// As `UnlessZero`. A port that was not requested is the one after that of the listener with
    /// this name; it is off if that is off.
    After(&'static str),
}

/// Which setting has the address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// `bind`.
    Data,
    /// `admin_bind`.
    Admin,
}

/// What is required of requests that a browser sends ([`crate::origins`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Browsers {
    /// While a key is well known, that they come from pages of this server and name it.
    CheckedIfKeyIsPublic,
    /// The same, and with private keys still that they come from pages of this server.
    AlwaysChecked,
    /// No browser speaks its protocols.
    Excluded,
}

/// All listeners, in the order in which they are shown.
pub(crate) static LISTENERS: [Listener; 9] = [
    Listener {
        name: "nosql",
        title: "NoSQL API",
        variant: "",
        port: 8081,
        opens: Opens::Always,
        interface: Interface::Data,
        idle: "nosql",
        clear: &[Wire::Rntbd, Wire::Http2, Wire::Http(Api::Nosql)],
        tls: &[Wire::Rntbd, Wire::Http2, Wire::Http(Api::Nosql)],
        scheme: "http",
        browsers: Browsers::CheckedIfKeyIsPublic,
        trusts_machine: false,
        path: Some("/"),
        shown_path: "/",
        path_on_nosql: None,
    },
    Listener {
        name: "nosql_second",
        title: "NoSQL API",
        variant: "second port",
        port: 8903,
        opens: Opens::BesideDefaultPort,
        interface: Interface::Data,
        idle: "nosql",
        clear: &[Wire::Rntbd, Wire::Http2, Wire::Http(Api::Nosql)],
        tls: &[Wire::Rntbd, Wire::Http2, Wire::Http(Api::Nosql)],
        scheme: "http",
        browsers: Browsers::CheckedIfKeyIsPublic,
        trusts_machine: false,
        path: None,
        shown_path: "/",
        path_on_nosql: None,
    },
    Listener {
        name: "direct",
        title: "Direct mode",
        variant: "",
        port: 0,
        opens: Opens::ForDirectMode,
        interface: Interface::Data,
        idle: "nosql",
        clear: &[],
        tls: &[Wire::Rntbd],
        scheme: "http",
        browsers: Browsers::Excluded,
        trusts_machine: false,
        path: None,
        shown_path: "",
        path_on_nosql: None,
    },
    Listener {
        name: "table",
        title: "Table API",
        variant: "Cosmos DB",
        port: 8902,
        opens: Opens::UnlessZero,
        interface: Interface::Data,
        idle: "table",
        clear: &[Wire::Http2, Wire::Http(Api::Table(Flavour::Cosmos))],
        tls: &[Wire::Http2, Wire::Http(Api::Table(Flavour::Cosmos))],
        scheme: "http",
        browsers: Browsers::CheckedIfKeyIsPublic,
        trusts_machine: false,
        path: Some("/"),
        shown_path: "/",
        path_on_nosql: None,
    },
    Listener {
        name: "table_storage",
        title: "Table API",
        variant: "storage",
        port: 10002,
        opens: Opens::UnlessZero,
        interface: Interface::Data,
        idle: "table_storage",
        clear: &[Wire::Http2, Wire::Http(Api::Table(Flavour::Storage))],
        tls: &[Wire::Http2, Wire::Http(Api::Table(Flavour::Storage))],
        scheme: "http",
        browsers: Browsers::CheckedIfKeyIsPublic,
        trusts_machine: false,
        path: Some(STORAGE_PATH),
        shown_path: STORAGE_PATH,
        path_on_nosql: None,
    },
    Listener {
        name: "mongo",
        title: "MongoDB API",
        variant: "",
        port: 27017,
        opens: Opens::UnlessZero,
        interface: Interface::Data,
        idle: "mongo",
        clear: &[Wire::Mongo(Personality::Router)],
        tls: &[Wire::Mongo(Personality::Router)],
        scheme: "mongodb",
        browsers: Browsers::Excluded,
        trusts_machine: true,
        path: Some("/"),
        shown_path: "/",
        path_on_nosql: None,
    },
    Listener {
        name: "mongo_second",
        title: "MongoDB API",
        variant: "second port",
        port: 27018,
        opens: Opens::After("mongo"),
        interface: Interface::Data,
        idle: "mongo",
        clear: &[Wire::Mongo(Personality::Router)],
        tls: &[Wire::Mongo(Personality::Router)],
        scheme: "mongodb",
        browsers: Browsers::Excluded,
        trusts_machine: true,
        path: Some("/"),
        shown_path: "/",
        path_on_nosql: None,
    },
    Listener {
        name: "mongo_cosmos",
        title: "MongoDB API",
        variant: "Cosmos DB",
        port: 10255,
        opens: Opens::UnlessZero,
        interface: Interface::Data,
        idle: "mongo",
        clear: &[],
        tls: &[Wire::Mongo(Personality::ReplicaSet)],
        scheme: "mongodb",
        browsers: Browsers::Excluded,
        trusts_machine: false,
        path: Some(COSMOS_OPTIONS),
        shown_path: COSMOS_OPTIONS,
        path_on_nosql: None,
    },
    Listener {
        name: "admin",
        title: "Admin API",
        variant: "own port",
        port: 8085,
        opens: Opens::UnlessZero,
        interface: Interface::Admin,
        idle: "admin",
        clear: &[Wire::Http2, Wire::Http(Api::Admin)],
        tls: &[Wire::Http2, Wire::Http(Api::Admin)],
        scheme: "http",
        browsers: Browsers::AlwaysChecked,
        trusts_machine: true,
        path: Some("/"),
        shown_path: "/_admin/v1",
        path_on_nosql: Some("/_admin/v1"),
    },
];

/// The storage flavour has the account in its paths.
const STORAGE_PATH: &str = "/devstoreaccount1";

/// What connection strings of Cosmos DB accounts have behind the address.
const COSMOS_OPTIONS: &str = "/?ssl=true&replicaSet=globaldb&retrywrites=false";

/// The listener with this name.
pub(crate) fn named(name: &str) -> Option<&'static Listener> {
    LISTENERS.iter().find(|listener| listener.name == name)
}

impl Listener {
    /// The flag of its port.
    pub(crate) fn flag(&self) -> String {
        match self.opens {
            Opens::ForDirectMode => "--direct".to_owned(),
            Opens::Always | Opens::UnlessZero | Opens::BesideDefaultPort | Opens::After(_) => {
                format!("--{}-port", self.name.replace('_', "-"))
            }
        }
    }

    /// Its title, with the variant if it has one.
    pub(crate) fn full_title(&self) -> String {
        match self.variant {
            "" => self.title.to_owned(),
            variant => format!("{} ({variant})", self.title),
        }
    }
}

/// The client at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The listener it connected to.
    pub(crate) listener: &'static Listener,
    /// Whether it is on this machine.
    pub(crate) is_local: bool,
    /// Its address.
    pub(crate) address: IpAddr,
}

impl Peer {
    pub(crate) fn new(listener: &'static Listener, peer: SocketAddr) -> Self {
        let address = peer.ip().to_canonical();
        Self { listener, is_local: address.is_loopback(), address }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn peers_on_this_machine_are_known_by_their_address() {
        let admin = named("admin").unwrap();
        let is_local = |text: &str| Peer::new(admin, text.parse().unwrap()).is_local;
        assert!(is_local("127.0.0.1:9") && is_local("127.8.0.1:9") && is_local("[::1]:9"));
        assert!(is_local("[::ffff:127.0.0.1]:9"));
        assert!(!is_local("10.0.0.1:9") && !is_local("[::ffff:10.0.0.1]:9"));
    }

    #[test]
    fn names_and_default_ports_are_unique_and_each_row_is_complete() {
        let names: BTreeSet<_> = LISTENERS.iter().map(|listener| listener.name).collect();
        let ports: BTreeSet<_> = LISTENERS.iter().map(|listener| listener.port).collect();
        assert_eq!((names.len(), ports.len()), (LISTENERS.len(), LISTENERS.len()));
        for listener in &LISTENERS {
            assert!(named(listener.idle).is_some(), "{}", listener.name);
            assert!(!listener.tls.is_empty(), "{}", listener.name);
        }
        let cosmos = format!("replicaSet={}&", api_mongo::REPLICA_SET);
        assert!(COSMOS_OPTIONS.contains(&cosmos), "{cosmos}");
        assert_eq!(STORAGE_PATH, format!("/{}", api_table::DEVELOPMENT_ACCOUNT));
    }
}
