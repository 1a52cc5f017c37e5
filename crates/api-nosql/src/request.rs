//! The request value that handlers receive: the parsed address, typed header access, the whole
//! body.

use std::borrow::Cow;

use bytes::Bytes;
use engine::ops::EtagCondition;
use engine::{Admission, Priority};
use front::Scheme;
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::uri::Authority;
use hyper::{Method, header};

use crate::address::Target;
use crate::errors::ApiError;
use crate::feed;
use crate::headers::name;

/// A request whose address is parsed, whose caller is known and whose body is complete.
#[derive(Debug)]
pub(crate) struct Request {
    pub method: Method,
    pub scheme: Scheme,
    /// Host and port of the request's target, if it has them (HTTP/2).
    pub authority: Option<Authority>,
    pub target: Target,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Request {
    /// A header's text; `None` when absent or not visible ASCII.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// A header's text, for headers that must not be ignored if they are unreadable: bytes that are
    /// no text become a character that equals nothing valid.
    pub(crate) fn header_lossy(&self, name: &HeaderName) -> Option<Cow<'_, str>> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
    }

    /// Whether a boolean header is true, in any case.
    pub(crate) fn flag(&self, name: &HeaderName) -> bool {
        self.header(name).is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }

    /// Whether a POST on a feed is a query: by its flag, or by content type alone. On a GET both
    /// are ignored; the older .NET SDK sends the flag when it lists feeds.
    pub(crate) fn is_query(&self) -> bool {
        const QUERY_TYPE: &str = "application/query+json";
        if self.method != Method::POST {
            return false;
        }
        self.flag(&name::IS_QUERY)
            || self.header(&header::CONTENT_TYPE).is_some_and(|given| {
                given.get(..QUERY_TYPE.len()).is_some_and(|g| g.eq_ignore_ascii_case(QUERY_TYPE))
            })
    }

    /// The host and port that the client used, if the request states them in a form that can be
    /// part of a link.
    pub(crate) fn host(&self) -> Option<Authority> {
        self.authority.clone().or_else(|| self.header(&header::HOST)?.parse().ok())
    }

    /// Whether the client's version still supports containers without a partition key.
    pub(crate) fn may_lack_partition_key(&self) -> bool {
        /// The first version in which every container has a key.
        const KEYED_VERSION: &str = "2018-12-31";
        self.header(&name::VERSION).is_some_and(|version| version < KEYED_VERSION)
    }

    /// The continuation of a feed or query. The older .NET SDK sends an empty one with first pages.
    pub(crate) fn continuation(&self) -> Option<Cow<'_, str>> {
        self.header_lossy(&name::CONTINUATION).filter(|token| !token.trim().is_empty())
    }

    /// Whether the request changes nothing: reads, and a POST that its target's handler treats as a
    /// query. For other targets the headers of a query have no meaning and do not make a write a
    /// read.
    pub(crate) fn is_read(&self) -> bool {
        match self.method {
            Method::GET | Method::HEAD => true,
            Method::POST => match self.target {
                Target::Items(_) => self.is_query() || self.flag(&name::IS_QUERY_PLAN),
                Target::Databases
                | Target::Containers(_)
                | Target::Offers
                | Target::Conflicts(_)
                | Target::Users(_)
                | Target::Permissions(_)
                | Target::EncryptionKeys(_)
                | Target::Scripts(..)
                | Target::NotSupported(_) => self.is_query(),
                Target::Account
                | Target::Database(_)
                | Target::Container(_)
                | Target::Item(..)
                | Target::PartitionKeyRanges(_)
                | Target::PartitionKeyDelete(_)
                | Target::Conflict(_)
                | Target::User(_)
                | Target::Permission(..)
                | Target::EncryptionKey(..)
                | Target::Script(..)
                | Target::Offer(_) => false,
            },
            _ => false,
        }
    }

    /// Its data for admission control when throughput is short. `path` and other values that a
    /// client repeats unchanged on a retry identify the request.
    pub(crate) fn admission(&self, path: &str) -> Admission {
        let text = |name| self.headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        let (key, from) = (text(&name::PARTITION_KEY), text(&name::CONTINUATION));
        let digest = Admission::digest_of(&[path.as_bytes(), key, from, &self.body]);
        Admission { priority: self.priority(), digest, ..Admission::default() }
    }

    /// Its priority when throughput is short. The header's value was validated with the others.
    fn priority(&self) -> Priority {
        match self.header(&name::PRIORITY_LEVEL) {
            Some(level) if level.eq_ignore_ascii_case("low") => Priority::Low,
            Some(_) | None => Priority::High,
        }
    }

    /// The condition of `If-Match`.
    pub(crate) fn if_match(&self) -> Option<EtagCondition> {
        self.header_lossy(&header::IF_MATCH).map(|text| EtagCondition::parse(&text))
    }

    /// The condition of `If-None-Match`.
    pub(crate) fn if_none_match(&self) -> Option<EtagCondition> {
        self.header_lossy(&header::IF_NONE_MATCH).map(|text| EtagCondition::parse(&text))
    }

    /// Whether the client wants no body in the response to a write.
    pub(crate) fn wants_minimal(&self) -> bool {
        self.header(&name::PREFER).is_some_and(|v| v.eq_ignore_ascii_case("return=minimal"))
    }

    /// Page size and continuation of a feed or query.
    pub(crate) fn page(&self) -> Result<engine::ops::PageRequest, ApiError> {
        Ok(engine::ops::PageRequest {
            items_max: crate::headers::page_size(&self.headers)?,
            continuation: self
                .continuation()
                .map(|token| feed::range_token(&token).unwrap_or(&token).to_owned())
                .filter(|token| !is_hosted_token(token)),
            ..engine::ops::PageRequest::default()
        })
    }
}

/// Whether this is a token of the hosted service, which holds no position of our items. A client
/// that sends one starts at the beginning, as it does there when the token's item is in another
/// container.
fn is_hosted_token(token: &str) -> bool {
    token.starts_with("-RID:") || token.starts_with("+RID:")
}
