//! A client: what the server knows of one connection, or of a program in its own process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use account::Scheme;
use model::Object;

use crate::Service;
use crate::commands::login::Login;
use crate::rights::Principal;

/// What a listener presents the server as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Personality {
    /// A router of a sharded cluster.
    Router,
    /// The only member of a replica set.
    ReplicaSet,
}

/// The name of the replica set, which connection strings of Cosmos DB accounts have.
pub const REPLICA_SET: &str = "globaldb";

/// How a client came in.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What the listener presents.
    pub personality: Personality,
    /// The port of the listener.
    pub port: u16,
    /// The host by which the client reaches the server, where that is known.
    pub host: Option<Box<str>>,
    /// The client's own address.
    pub peer: SocketAddr,
    /// Over TLS or not.
    pub scheme: Scheme,
    /// Whether it needs no credentials while the account's key is well known.
    pub is_trusted: bool,
}

/// The state of a client.
pub struct Client {
    pub(crate) service: Arc<Service>,
    pub(crate) id: i32,
    pub(crate) entry: Entry,
    /// What it said about itself.
    pub(crate) metadata: Option<Object>,
    pub(crate) principal: Option<Principal>,
    /// The exchange by which it is logging in.
    pub(crate) login: Option<Login>,
    /// Cursors that it opened and has not read on.
    pub(crate) unread_cursors: Vec<i64>,
    /// What its last command took.
    pub(crate) last: Option<LastCommand>,
}

/// What a command took.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LastCommand {
    pub(crate) name: String,
    pub(crate) charge: f64,
    pub(crate) millis: f64,
}

impl Client {
    pub(crate) fn new(service: Arc<Service>, entry: Entry) -> Self {
        let id = service.counters.connected.fetch_add(1, Ordering::Relaxed) + 1;
        service.counters.open.fetch_add(1, Ordering::Relaxed);
        Self {
            service,
            id: i32::try_from(id & 0x7fff_ffff).unwrap_or_default(),
            entry,
            metadata: None,
            principal: None,
            login: None,
            unread_cursors: Vec::new(),
            last: None,
        }
    }

    /// The name of the program, if it gave one.
    pub(crate) fn app_name(&self) -> Option<&str> {
        self.metadata.as_ref()?.get("application")?.field("name")?.as_str()
    }

    /// The name by which the client can reach this server again.
    pub(crate) fn server_name(&self) -> String {
        let host = self.entry.host.as_deref().unwrap_or(&self.service.settings.host);
        match host.contains(':') {
            true => format!("[{host}]:{}", self.entry.port),
            false => format!("{host}:{}", self.entry.port),
        }
    }
}

impl Client {
    /// Records that a cursor was opened that the client has not read on from.
    pub(crate) fn note_unread(&mut self, cursor: i64) {
        /// Most that are remembered; those before are closed when they are idle.
        const UNREAD_MAX: usize = 1_000;
        if self.unread_cursors.len() >= UNREAD_MAX {
            self.unread_cursors.remove(0);
        }
        self.unread_cursors.push(cursor);
    }

    /// Records that the client knows a cursor.
    pub(crate) fn note_read(&mut self, cursor: i64) {
        self.unread_cursors.retain(|unread| *unread != cursor);
    }

    /// A number of the user, so that sessions of one are not another's.
    pub(crate) fn owner(&self) -> u64 {
        self.principal.as_ref().map_or(0, |principal| {
            let (user, database) = principal.name();
            owner_of(user, database)
        })
    }
}

/// A number of a user.
pub(crate) fn owner_of(user: &str, database: &str) -> u64 {
    let text = format!("{database}.{user}");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    u64::from_be_bytes(digest.as_ref().first_chunk().copied().unwrap_or_default())
}

impl Drop for Client {
    fn drop(&mut self) {
        // Only this client knows their numbers, and it may not have received them.
        for number in &self.unread_cursors {
            self.service.cursors.close(*number, self.owner());
        }
        self.service.counters.open.fetch_sub(1, Ordering::Relaxed);
    }
}
