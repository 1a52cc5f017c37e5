//! What the observer of requests learns: their kind and wire format.

use crate::operation::Operation;

/// The consistency that a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestedConsistency {
    /// The account's default.
    #[default]
    Default,
    /// Eventual consistency.
    Eventual,
    /// Session consistency.
    Session,
    /// Data that a majority has committed.
    LatestCommitted,
    /// Data that is committed in all regions.
    GlobalStrong,
}

impl RequestedConsistency {
    /// The requested consistency for the name of a strategy or level, in any case.
    pub(crate) fn of(name: &str) -> Self {
        let known = CONSISTENCY_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map_or(Self::Default, |(_, asked)| *asked)
    }
}

/// Names of strategies and levels, and the consistency that each counts as.
const CONSISTENCY_NAMES: &[(&str, RequestedConsistency)] = &[
    ("Eventual", RequestedConsistency::Eventual),
    ("ConsistentPrefix", RequestedConsistency::Eventual),
    ("Session", RequestedConsistency::Session),
    ("LatestCommitted", RequestedConsistency::LatestCommitted),
    ("BoundedStaleness", RequestedConsistency::LatestCommitted),
    ("GlobalStrong", RequestedConsistency::GlobalStrong),
    ("Strong", RequestedConsistency::GlobalStrong),
];

/// The protocol that a request came by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// HTTP, in clear text or over TLS.
    #[default]
    Http,
    /// RNTBD, of clients in Direct mode.
    Rntbd,
}

impl Wire {
    /// All of them, in the order of their numbers.
    pub const ALL: [Wire; 2] = [Wire::Http, Wire::Rntbd];

    /// Its name in metrics and the log.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Http => "http",
            Wire::Rntbd => "rntbd",
        }
    }
}

/// The wire format of a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireFormat {
    /// The protocol.
    pub wire: Wire,
    /// The consistency that the request asks for.
    pub consistency: RequestedConsistency,
    /// Whether the client accepts binary JSON.
    pub accepts_binary: bool,
    /// Whether the request's body is binary JSON.
    pub request_is_binary: bool,
    /// Whether the reply's body is binary JSON.
    pub reply_is_binary: bool,
}

/// An answered request, for the observer.
pub type Observation = account::Observation<Operation, WireFormat>;
