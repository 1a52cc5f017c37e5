//! Responses, with every header the protocol wants on all of them.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{ETAG, HeaderMap, HeaderName, HeaderValue};

use crate::headers::name;

/// What a handler answers. The headers common to all responses are added when it is sent, from
/// the request, the container and what the engine noted in the context.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: StatusCode,
    /// Headers that only this kind of reply has.
    pub headers: HeaderMap,
    /// JSON, or empty.
    pub body: Bytes,
}

impl Reply {
    /// A reply with a JSON body, or none when `body` is empty.
    pub(crate) fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, headers: HeaderMap::with_capacity(24), body: body.into() }
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

    /// With the `etag` header; `text` has its quotes.
    pub(crate) fn etag(self, text: &str) -> Self {
        self.header(ETAG, text)
    }

    /// With the number of elements in this page.
    pub(crate) fn item_count(mut self, n: usize) -> Self {
        self.headers.insert(name::ITEM_COUNT, HeaderValue::from(n));
        self
    }

    /// With the token of the next page, if there is one.
    pub(crate) fn continuation(self, token: Option<&str>) -> Self {
        match token {
            Some(token) => self.header(name::CONTINUATION, token),
            None => self,
        }
    }

    /// With one more header. A text that no header can carry is left out.
    pub(crate) fn header(mut self, name: HeaderName, text: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(text) {
            self.headers.insert(name, value);
        }
        self
    }
}
