//! How requests reach the server.

use std::net::IpAddr;

/// How a request reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In clear text.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// What URLs begin with.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// How a request reached the server, and its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSource {
    /// In clear text or not.
    pub scheme: Scheme,
    /// The address of the peer, if known.
    pub peer: Option<IpAddr>,
    /// Whether a browser may have sent it for a page of another site. If so, a well-known key
    /// proves nothing.
    pub is_cross_site: bool,
}

impl RequestSource {
    /// A request from `peer` that is not cross-site.
    pub fn new(scheme: Scheme, peer: impl Into<Option<IpAddr>>) -> Self {
        Self { scheme, peer: peer.into(), is_cross_site: false }
    }
}

impl From<Scheme> for RequestSource {
    fn from(scheme: Scheme) -> Self {
        Self::new(scheme, None)
    }
}
