//! Requests as the API sees them, whichever wire they came by: before their caller is known, and as
//! handlers receive them.

use std::borrow::Cow;

use account::RequestSource;
use bytes::Bytes;
use engine::ops::EtagCondition;
use engine::{Admission, Priority};
use model::ContainerRid;

use crate::address::Target;
use crate::errors::ApiError;
use crate::feed;
use crate::headers::{self, HeaderName, Headers};
use crate::policy::ClientVersion;
use crate::replica::Replica;

/// What a request does to its target. The numbers and names of other wires' operations become the
/// verb that HTTP has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    /// Any other, which no target supports.
    Other,
}

impl Verb {
    /// The verb of an HTTP method.
    pub(crate) fn of(method: &str) -> Self {
        match method {
            "GET" => Verb::Get,
            "HEAD" => Verb::Head,
            "POST" => Verb::Post,
            "PUT" => Verb::Put,
            "PATCH" => Verb::Patch,
            "DELETE" => Verb::Delete,
            _ => Verb::Other,
        }
    }
}

/// All of a request but its body, which is not read before the caller is known.
#[derive(Debug)]
pub(crate) struct RequestHead<'r> {
    /// The method as it is signed and logged; see [`Verb`].
    pub method: &'r str,
    /// The path as it was sent.
    pub path: &'r str,
    /// About how many bytes the head took on the wire.
    pub bytes: usize,
    /// The address at which the client reached the server, which ends with a slash, if the request
    /// states it and has use for it: only those for addresses do.
    pub endpoint: Option<String>,
    pub headers: Headers,
    /// What only clients in Direct mode send.
    pub direct: Option<DirectFields>,
    pub source: RequestSource,
}

/// What a client in Direct mode says about where it believes its data to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectFields {
    /// The replica whose address the client used.
    pub replica: Option<Replica>,
    /// The container that the client has under the name that it sends.
    pub container: Option<ContainerRid>,
    /// Whether the client has something else under that name.
    pub is_unknown_container: bool,
    /// For how many milliseconds the client waits for the answer.
    pub remaining_ms: Option<u32>,
}

impl RequestHead<'_> {
    /// The whole request.
    pub(crate) fn with_body(self, target: Target, body: Bytes) -> Request {
        let Self { method, endpoint, headers, direct, .. } = self;
        Request { verb: Verb::of(method), target, endpoint, headers, direct, body }
    }
}

/// A request whose address is parsed, whose caller is known and whose body is complete.
#[derive(Debug)]
pub(crate) struct Request {
    pub verb: Verb,
    pub target: Target,
    /// As in [`RequestHead`].
    pub endpoint: Option<String>,
    pub headers: Headers,
    /// As in [`RequestHead`].
    pub direct: Option<DirectFields>,
    pub body: Bytes,
}

impl Request {
    /// A header's text; `None` when absent or not visible ASCII.
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.text(name)
    }

    /// A header's text, for headers that must not be ignored if they are unreadable.
    pub(crate) fn header_lossy(&self, name: HeaderName) -> Option<Cow<'_, str>> {
        self.headers.text_lossy(name)
    }

    /// Whether a boolean header is true, in any case.
    pub(crate) fn flag(&self, name: HeaderName) -> bool {
        self.headers.flag(name)
    }

    /// Whether a POST on a feed is a query: by its flag, or by content type alone. On a GET both
    /// are ignored; the older .NET SDK sends the flag when it lists feeds.
    pub(crate) fn is_query(&self) -> bool {
        const QUERY_TYPE: &str = "application/query+json";
        if self.verb != Verb::Post {
            return false;
        }
        self.flag(HeaderName::IsQuery)
            || self.header(HeaderName::ContentType).is_some_and(|given| {
                given.get(..QUERY_TYPE.len()).is_some_and(|g| g.eq_ignore_ascii_case(QUERY_TYPE))
            })
    }

    /// What the client knows of containers.
    pub(crate) fn client_version(&self) -> ClientVersion {
        /// The first version in which every container has a key.
        const KEYED_VERSION: &str = "2018-12-31";
        match self.header(HeaderName::Version) {
            Some(version) if version < KEYED_VERSION => ClientVersion::BeforeKeys,
            Some(_) | None => ClientVersion::Current,
        }
    }

    /// The continuation of a feed or query. The older .NET SDK sends an empty one with first pages.
    pub(crate) fn continuation(&self) -> Option<Cow<'_, str>> {
        self.header_lossy(HeaderName::Continuation).filter(|token| !token.trim().is_empty())
    }

    /// Whether the request changes nothing: reads, and a POST that its target's handler treats as a
    /// query. For other targets the headers of a query have no meaning and do not make a write a
    /// read.
    pub(crate) fn is_read(&self) -> bool {
        match self.verb {
            Verb::Get | Verb::Head => true,
            Verb::Post => match self.target {
                Target::Items(_) => self.is_query() || self.flag(HeaderName::IsQueryPlan),
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
                | Target::MasterAddresses
                | Target::Addresses(..)
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
            Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => false,
        }
    }

    /// Its data for admission control when throughput is short. `path` and other values that a
    /// client repeats unchanged on a retry identify the request.
    pub(crate) fn admission(&self, path: &str) -> Admission {
        let value = |name| self.headers.get(name).unwrap_or_default();
        let (key, from) = (value(HeaderName::PartitionKey), value(HeaderName::Continuation));
        let digest = Admission::digest_of(&[path.as_bytes(), key, from, &self.body]);
        Admission { priority: self.priority(), digest, ..Admission::default() }
    }

    /// Its priority when throughput is short. The header's value was validated with the others.
    fn priority(&self) -> Priority {
        match self.header(HeaderName::PriorityLevel) {
            Some(level) if level.eq_ignore_ascii_case("low") => Priority::Low,
            Some(_) | None => Priority::High,
        }
    }

    /// The condition of `If-Match`.
    pub(crate) fn if_match(&self) -> Option<EtagCondition> {
        self.header_lossy(HeaderName::IfMatch).map(|text| EtagCondition::parse(&text))
    }

    /// The condition of `If-None-Match`.
    pub(crate) fn if_none_match(&self) -> Option<EtagCondition> {
        self.header_lossy(HeaderName::IfNoneMatch).map(|text| EtagCondition::parse(&text))
    }

    /// Whether the client wants no body in the response to a write.
    pub(crate) fn wants_minimal(&self) -> bool {
        self.header(HeaderName::Prefer).is_some_and(|v| v.eq_ignore_ascii_case("return=minimal"))
    }

    /// Page size and continuation of a feed or query.
    pub(crate) fn page(&self) -> Result<engine::ops::PageRequest, ApiError> {
        Ok(engine::ops::PageRequest {
            items_max: headers::page_size(&self.headers)?,
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
