//! HTTP responses, with every header that the protocol requires on all of them.
//!
//! This is on the path of every point read. So constant values are made once, numbers are written
//! without formatting machinery, and header values that name a container are cached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use engine::Container;
use front_http::{ascii, decimal};
use http_body_util::Full;
use hyper::header::{CONTENT_LOCATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use model::{Charge, ContainerRid, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::quota::Usage;
use crate::reply::{Envelope, REPLICAS, Reply, ReplyHeader, ReplyValue, Status, WRITE_QUORUM};
use crate::{hybrid_row, quota, session};

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

/// Expected number of headers of a response.
const HEADERS_EXPECTED: usize = 28;

/// Names of the headers that all responses have, or all about a container.
mod name {
    use hyper::header::HeaderName;

    macro_rules! names {
        ($($constant:ident = $text:literal;)*) => {
            $(pub(super) const $constant: HeaderName = HeaderName::from_static($text);)*
        };
    }

    names! {
        ACTIVITY_ID = "x-ms-activity-id";
        ALT_CONTENT_PATH = "x-ms-alt-content-path";
        CONTENT_PATH = "x-ms-content-path";
        CURRENT_REPLICA_SET_SIZE = "x-ms-current-replica-set-size";
        CURRENT_WRITE_QUORUM = "x-ms-current-write-quorum";
        GATEWAY_VERSION = "x-ms-gatewayversion";
        ITEM_LSN = "x-ms-item-lsn";
        LAST_STATE_CHANGE = "x-ms-last-state-change-utc";
        LSN = "lsn";
        PARTITION_KEY_RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
        REQUEST_CHARGE = "x-ms-request-charge";
        REQUEST_DURATION = "x-ms-request-duration-ms";
        RESOURCE_QUOTA = "x-ms-resource-quota";
        RESOURCE_USAGE = "x-ms-resource-usage";
        SCHEMA_VERSION = "x-ms-schemaversion";
        SERVICE_VERSION = "x-ms-serviceversion";
        SESSION_TOKEN = "x-ms-session-token";
        SUBSTATUS = "x-ms-substatus";
    }
}

/// The name in HTTP of a header that a handler or an error adds.
fn name_of(header: ReplyHeader) -> HeaderName {
    macro_rules! name {
        ($text:literal) => {
            const { HeaderName::from_static($text) }
        };
    }
    match header {
        ReplyHeader::Continuation => name!("x-ms-continuation"),
        ReplyHeader::Etag => ETAG,
        ReplyHeader::ExecutionInfo => name!("x-ms-cosmos-query-execution-info"),
        ReplyHeader::IndexTransformationProgress => {
            name!("x-ms-documentdb-collection-index-transformation-progress")
        }
        ReplyHeader::IndexUtilization => name!("x-ms-cosmos-index-utilization"),
        ReplyHeader::ItemCount => name!("x-ms-item-count"),
        ReplyHeader::MediaStorageUsage => name!("x-ms-media-storage-usage-mb"),
        ReplyHeader::MediaStorageUsageMax => name!("x-ms-max-media-storage-usage-mb"),
        ReplyHeader::MinThroughput => name!("x-ms-cosmos-min-throughput"),
        ReplyHeader::OfferReplacePending => name!("x-ms-offer-replace-pending"),
        ReplyHeader::QueryAdvice => name!("x-ms-cosmos-query-advice"),
        ReplyHeader::QueryMetrics => name!("x-ms-documentdb-query-metrics"),
        ReplyHeader::RequiresDistribution => name!("x-ms-cosmos-query-requiresdistribution"),
        ReplyHeader::ResourceQuota => name::RESOURCE_QUOTA,
        ReplyHeader::ResourceUsage => name::RESOURCE_USAGE,
        ReplyHeader::RetryAfterMs => name!("x-ms-retry-after-ms"),
        ReplyHeader::ScriptLog => name!("x-ms-documentdb-script-log-results"),
    }
}

/// A value in HTTP; `None` for a text that no header can have.
fn value_of(value: ReplyValue) -> Option<HeaderValue> {
    match value {
        ReplyValue::Number(number) => Some(HeaderValue::from(number)),
        ReplyValue::Text(text) if !text.is_ascii() => None,
        ReplyValue::Text(text) => HeaderValue::try_from(text.into_owned()).ok(),
    }
}

/// Header values that are the same on many responses of a service, made once.
#[derive(Debug)]
pub(crate) struct StaticHeaders {
    last_state_change: HeaderValue,
    quota: HeaderValue,
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
    /// The last usage of the container that was written, which reads repeat.
    usage: ArcSwapOption<(Usage, HeaderValue)>,
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
        let quota = ascii(quota::quota_text().into_bytes());
        Self { last_state_change, quota, owners: ArcSwap::default() }
    }

    /// When the server began to serve.
    pub(crate) fn last_state_change(&self) -> &str {
        self.last_state_change.to_str().unwrap_or_default()
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
            usage: ArcSwapOption::empty(),
        }
    }

    fn usage(&self, usage: Usage) -> HeaderValue {
        if let Some(known) = self.usage.load().as_deref()
            && known.0 == usage
        {
            return known.1.clone();
        }
        let value = ascii(usage.to_text().into_bytes());
        self.usage.store(Some(Arc::new((usage, value.clone()))));
        value
    }
}

/// The response to a request. `location` is the address that the client used.
pub(super) fn response(
    reply: Reply,
    mut envelope: Envelope<'_>,
    location: Option<HeaderValue>,
    fixed: &StaticHeaders,
) -> Response<Full<Bytes>> {
    let container = envelope.container_of(&reply);
    let owners = container.map(|(container, is_about_it)| (fixed.owners(container), is_about_it));
    let usage = envelope.usage(&reply);
    let Reply { status: Status(status), substatus, headers: own, body, .. } = reply;
    let mut headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
    for (header, value) in own {
        if let Some(value) = value_of(value) {
            headers.insert(name_of(header), value);
        }
    }
    if substatus != 0 {
        headers.insert(name::SUBSTATUS, HeaderValue::from(substatus));
    }
    if !body.is_empty() {
        let content_type = match hybrid_row::is_rows(&body) {
            true => HeaderValue::from_static("application/octet-stream"),
            false => HeaderValue::from_static("application/json"),
        };
        headers.insert(CONTENT_TYPE, content_type);
    }
    headers.insert(name::ACTIVITY_ID, ascii(std::mem::take(&mut envelope.activity).into_bytes()));
    headers.insert(name::REQUEST_CHARGE, charge(envelope.served.charge));
    headers.insert(name::REQUEST_DURATION, duration_ms(envelope.elapsed));
    headers.insert(name::SCHEMA_VERSION, HeaderValue::from_static("1.19"));
    headers.insert(name::SERVICE_VERSION, HeaderValue::from_static(VERSION));
    headers.insert(name::GATEWAY_VERSION, HeaderValue::from_static(VERSION));
    headers.insert(name::LAST_STATE_CHANGE, fixed.last_state_change.clone());
    if let Some(location) = location {
        headers.insert(CONTENT_LOCATION, location);
    }
    if let Some((owners, is_about_container)) = owners {
        let owner = if is_about_container { &owners.database } else { &owners.container };
        container_headers(&envelope, owner, &mut headers);
        if let Some(usage) = usage {
            headers.insert(name::RESOURCE_QUOTA, fixed.quota.clone());
            headers.insert(name::RESOURCE_USAGE, owners.usage(usage));
            headers.insert(name::CURRENT_WRITE_QUORUM, HeaderValue::from(WRITE_QUORUM));
            headers.insert(name::CURRENT_REPLICA_SET_SIZE, HeaderValue::from(REPLICAS));
        }
    }
    let mut response = Response::new(Full::new(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

/// The content paths name the *owner* of the reply's resource: of an item its container, of a
/// container its database. Clients store session tokens under them.
fn container_headers(envelope: &Envelope<'_>, owner: &Owner, headers: &mut HeaderMap) {
    headers.insert(name::ALT_CONTENT_PATH, owner.path.clone());
    headers.insert(name::CONTENT_PATH, owner.rid.clone());
    if let Some((range, lsn)) = envelope.session() {
        headers.insert(name::SESSION_TOKEN, ascii(session::token(range, lsn)));
    }
    if let Some((range, lsn)) = envelope.range() {
        headers.insert(name::PARTITION_KEY_RANGE_ID, HeaderValue::from(range.0));
        headers.insert(name::LSN, HeaderValue::from(lsn.0));
    }
    if let Some(lsn) = envelope.served.item_lsn {
        headers.insert(name::ITEM_LSN, HeaderValue::from(lsn.0));
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
