//! Responses, with every header that the protocol requires on all of them.
//!
//! This is on the path of every point read. So constant values are made once, numbers are written
//! without formatting machinery, and header values that name a container are cached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use engine::{Container, Served};
use front::{ascii, decimal};
use http_body_util::Full;
use hyper::header::{CONTENT_LOCATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use model::{Charge, ContainerRid, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::headers::name;
use crate::session;

/// Characters that JavaScript's `encodeURIComponent` leaves unescaped: one SDK compares the path
/// with its own.
const NAME_ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Expected number of headers of a reply, including the common ones.
const HEADERS_EXPECTED: usize = 24;

/// A handler's reply. The headers common to all responses are added when it is sent, from the
/// request, the container and the request context.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: StatusCode,
    /// Headers that only this kind of reply has.
    pub headers: HeaderMap,
    /// JSON, or empty.
    pub body: Bytes,
    /// The container of the reply, if the request's address does not name it.
    pub container: Option<Arc<Container>>,
}

impl Reply {
    /// A reply with a JSON body, or without a body if `body` is empty.
    pub(crate) fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: HeaderMap::with_capacity(HEADERS_EXPECTED),
            body: body.into(),
            container: None,
        }
    }

    /// 200.
    pub(crate) fn ok(body: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, body)
    }

    /// 201.
    pub(crate) fn created(body: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::CREATED, body)
    }

    /// 204 without a body.
    pub(crate) fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT, Bytes::new())
    }

    /// Adds the headers of replies about `container` itself.
    pub(crate) fn about(mut self, container: Arc<Container>) -> Self {
        self.container = Some(container);
        self
    }

    /// Adds the `etag` header; `text` includes the quotes.
    pub(crate) fn etag(self, text: &str) -> Self {
        self.header(ETAG, text)
    }

    /// Adds the number of elements in this page.
    pub(crate) fn item_count(mut self, n: usize) -> Self {
        self.headers.insert(name::ITEM_COUNT, HeaderValue::from(n));
        self
    }

    /// Adds the token of the next page, if there is one.
    pub(crate) fn continuation(self, token: Option<&str>) -> Self {
        match token {
            Some(token) => self.header(name::CONTINUATION, token),
            None => self,
        }
    }

    /// Adds one more header. A text that is no valid header value is left out.
    pub(crate) fn header(mut self, name: HeaderName, text: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(text) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// Header values that are the same on many responses of a service, made once.
#[derive(Debug)]
pub(crate) struct StaticHeaders {
    last_state_change: HeaderValue,
    /// By container; a container and its database are never renamed.
    owners: ArcSwap<BTreeMap<ContainerRid, Arc<Owners>>>,
}

/// Containers whose header values are cached.
const OWNERS_MAX: usize = 256;

/// The owner headers of replies about a container, or about a resource in it.
#[derive(Debug)]
struct Owners {
    database: Owner,
    container: Owner,
}

/// An owner by name and by resource id.
#[derive(Debug)]
struct Owner {
    path: HeaderValue,
    rid: HeaderValue,
}

impl StaticHeaders {
    pub(crate) fn new(started: Timestamp) -> Self {
        let started = std::time::UNIX_EPOCH + Duration::from_millis(started.0);
        let text = httpdate::fmt_http_date(started);
        let last_state_change =
            HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
        Self { last_state_change, owners: ArcSwap::default() }
    }

    fn owners(&self, container: &Container) -> Arc<Owners> {
        if let Some(known) = self.owners.load().get(&container.rid) {
            return Arc::clone(known);
        }
        let owners = Arc::new(Owners::of(container));
        self.owners.rcu(|known| {
            // Clearing the cache now and then is simpler than tracking which entries are still in
            // use.
            let is_full = known.len() >= OWNERS_MAX;
            let mut known = if is_full { BTreeMap::new() } else { BTreeMap::clone(known) };
            known.insert(container.rid, Arc::clone(&owners));
            known
        });
        owners
    }
}

impl Owners {
    fn of(container: &Container) -> Self {
        let owner = |path, rid: String| Owner { path: ascii(path), rid: ascii(rid.into_bytes()) };
        Self {
            database: owner(database_path(container), container.rid.database.to_string()),
            container: owner(container_path(container), container.rid.to_string()),
        }
    }
}

/// Values for the headers of every response, besides the handler's reply.
pub(crate) struct Envelope<'a> {
    pub activity: &'a HeaderValue,
    /// The address that the client used.
    pub location: Option<&'a HeaderValue>,
    /// The container that the request addresses or works in.
    pub container: Option<&'a Container>,
    /// Whether the request addresses the container itself rather than a resource in it.
    pub is_container: bool,
    pub served: &'a Served,
    pub elapsed: Duration,
    pub fixed: &'a StaticHeaders,
}

impl Envelope<'_> {
    /// The response.
    pub(crate) fn send(&self, reply: Reply) -> Response<Full<Bytes>> {
        let Reply { status, mut headers, body, container } = reply;
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(name::ACTIVITY_ID, self.activity.clone());
        headers.insert(name::REQUEST_CHARGE, charge(self.served.charge));
        headers.insert(name::REQUEST_DURATION, duration_ms(self.elapsed));
        headers.insert(name::SCHEMA_VERSION, HeaderValue::from_static("1.19"));
        headers.insert(name::SERVICE_VERSION, HeaderValue::from_static(VERSION));
        headers.insert(name::GATEWAY_VERSION, HeaderValue::from_static(VERSION));
        headers.insert(name::LAST_STATE_CHANGE, self.fixed.last_state_change.clone());
        if let Some(location) = self.location {
            headers.insert(CONTENT_LOCATION, location.clone());
        }
        if let Some(container) = container.as_deref() {
            self.container_headers(container, true, &mut headers);
        } else if let Some(container) = self.container {
            self.container_headers(container, self.is_container, &mut headers);
        }
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    /// The content paths name the *owner* of the reply's resource: of an item its container, of a
    /// container its database. Clients store session tokens under them.
    fn container_headers(
        &self,
        container: &Container,
        is_container: bool,
        headers: &mut HeaderMap,
    ) {
        let owners = self.fixed.owners(container);
        let owner = if is_container { &owners.database } else { &owners.container };
        headers.insert(name::ALT_CONTENT_PATH, owner.path.clone());
        headers.insert(name::CONTENT_PATH, owner.rid.clone());
        // The token of one range, also if several ranges took part: the .NET SDKs split it at its
        // only colon. Clients that must read their own writes have the tokens of those writes.
        if let Some((range, lsn)) = self.served.ranges.first() {
            headers.insert(name::SESSION_TOKEN, ascii(session::token(*range, *lsn)));
        }
        // Only a reply from a single range can name it; replies from several ranges name none.
        if let [(range, lsn)] = self.served.ranges.as_slice() {
            headers.insert(name::PARTITION_KEY_RANGE_ID, HeaderValue::from(range.0));
            headers.insert(name::LSN, HeaderValue::from(lsn.0));
        }
        if let Some(lsn) = self.served.item_lsn {
            headers.insert(name::ITEM_LSN, HeaderValue::from(lsn.0));
        }
    }
}

const VERSION: &str = concat!("version=planisphere-", env!("CARGO_PKG_VERSION"));

/// `dbs/{db}` with the name percent-encoded.
fn database_path(container: &Container) -> Vec<u8> {
    let name = &container.database_id;
    let mut path = Vec::with_capacity(16 + name.len() + container.spec.id.len());
    path.extend_from_slice(b"dbs/");
    push_encoded(name, &mut path);
    path
}

/// `dbs/{db}/colls/{coll}` with the names percent-encoded.
fn container_path(container: &Container) -> Vec<u8> {
    let mut path = database_path(container);
    path.extend_from_slice(b"/colls/");
    push_encoded(&container.spec.id, &mut path);
    path
}

fn push_encoded(name: &str, out: &mut Vec<u8>) {
    for piece in utf8_percent_encode(name, NAME_ENCODED) {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// A charge without trailing zeros, as `Charge` prints it.
fn charge(charge: Charge) -> HeaderValue {
    decimal(charge.as_milli())
}

fn duration_ms(elapsed: Duration) -> HeaderValue {
    decimal(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn charges_read_as_they_print(milli in 0u64..10_000_000) {
            let charge = Charge::milli(milli);
            let header = super::charge(charge);
            prop_assert_eq!(header.to_str().unwrap(), charge.to_string());
        }
    }

    #[test]
    fn durations_are_milliseconds_with_a_fraction() {
        assert_eq!(duration_ms(Duration::from_micros(1_204)), "1.204");
        assert_eq!(duration_ms(Duration::ZERO), "0");
    }

    #[test]
    fn names_are_encoded_as_javascript_does() {
        let mut out = Vec::new();
        push_encoded("a b/ü-_.!~*'()", &mut out);
        assert_eq!(out, b"a%20b%2F%C3%BC-_.!~*'()");
    }
}
