//! Requests with large replies, and the reply when there is no memory for one.
//!
//! Reply bytes that clients have not received stay in memory. While there are too many, feeds and
//! queries wait. Other requests continue, because clients that receive their replies must not
//! suffer from those that do not. If memory is exhausted, replies to reads are dropped.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

/// How large the reply to a request can be, and whether it may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A page of many resources, which can be read again.
    Page,
    /// One resource, which can be read again.
    Thing,
    /// The reply to a change, which must be delivered.
    Change,
}

/// Why there is no reply.
pub(crate) const MESSAGE: &str = "Clients have not taken too many of their answers, so there is no \
                                  memory for more. Try again in a moment.";

/// The reply to a request that the client should retry later, with a body that says so.
pub(crate) fn no_room(body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
