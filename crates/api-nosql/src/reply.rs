//! Replies as handlers give them, whichever wire they leave by.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Container, RangeId, Served};
use model::Lsn;
use smallvec::SmallVec;

use crate::quota::Usage;

/// A handler's reply. What all replies say is in [`Envelope`].
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: Status,
    /// The number that tells errors of the same status apart; 0 = none.
    pub substatus: u32,
    /// Headers that only this kind of reply has.
    pub headers: SmallVec<[(ReplyHeader, ReplyValue); 2]>,
    /// JSON; for batches and bulk requests in HybridRow, rows; or empty.
    pub body: Bytes,
    /// The container of the reply, if the request's address does not name it.
    pub container: Option<Arc<Container>>,
}

/// The status of a reply. Every wire of this API has HTTP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub u16);

impl Status {
    pub(crate) const OK: Self = Self(200);
    pub(crate) const CREATED: Self = Self(201);
    pub(crate) const NO_CONTENT: Self = Self(204);
    pub(crate) const MULTI_STATUS: Self = Self(207);
    pub(crate) const NOT_MODIFIED: Self = Self(304);

    fn is_success(self) -> bool {
        self.0 < 300
    }
}

/// The headers that handlers and errors add to replies. Each wire has its own names for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyHeader {
    Continuation,
    /// With its quotes.
    Etag,
    /// How rows with equal sort keys are ordered.
    ExecutionInfo,
    IndexTransformationProgress,
    IndexUtilization,
    ItemCount,
    /// What attachments take of the account's storage, in MB.
    MediaStorageUsage,
    MediaStorageUsageMax,
    MinThroughput,
    OfferReplacePending,
    QueryAdvice,
    QueryMetrics,
    RequiresDistribution,
    ResourceQuota,
    ResourceUsage,
    RetryAfterMs,
    /// What a script wrote to its log, percent-encoded.
    ScriptLog,
}

/// The value of a reply's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyValue {
    Number(u64),
    /// ASCII; wires leave out other texts.
    Text(Cow<'static, str>),
}

impl Reply {
    /// A reply with a JSON body, or without a body if `body` is empty.
    pub(crate) fn new(status: Status, body: impl Into<Bytes>) -> Self {
        Self { status, substatus: 0, headers: SmallVec::new(), body: body.into(), container: None }
    }

    /// 200.
    pub(crate) fn ok(body: impl Into<Bytes>) -> Self {
        Self::new(Status::OK, body)
    }

    /// 201.
    pub(crate) fn created(body: impl Into<Bytes>) -> Self {
        Self::new(Status::CREATED, body)
    }

    /// 204 without a body.
    pub(crate) fn no_content() -> Self {
        Self::new(Status::NO_CONTENT, Bytes::new())
    }

    /// Adds the headers of replies about `container` itself.
    pub(crate) fn about(mut self, container: Arc<Container>) -> Self {
        self.container = Some(container);
        self
    }

    /// Adds the `etag` header; `text` includes the quotes.
    pub(crate) fn etag(self, text: String) -> Self {
        self.header(ReplyHeader::Etag, text)
    }

    /// Adds the number of elements in this page.
    pub(crate) fn item_count(self, n: usize) -> Self {
        self.number(ReplyHeader::ItemCount, u64::try_from(n).unwrap_or(u64::MAX))
    }

    /// Adds the token of the next page, if there is one.
    pub(crate) fn continuation(self, token: Option<String>) -> Self {
        match token {
            Some(token) => self.header(ReplyHeader::Continuation, token),
            None => self,
        }
    }

    /// Adds one more header.
    pub(crate) fn header(mut self, name: ReplyHeader, text: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, ReplyValue::Text(text.into())));
        self
    }

    /// A header as text.
    #[cfg(test)]
    pub(crate) fn text_of(&self, header: ReplyHeader) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(name, _)| *name == header)?;
        Some(match value {
            ReplyValue::Number(number) => number.to_string(),
            ReplyValue::Text(text) => text.clone().into_owned(),
        })
    }

    /// Adds a header that is a number.
    pub(crate) fn number(mut self, name: ReplyHeader, number: u64) -> Self {
        self.headers.push((name, ReplyValue::Number(number)));
        self
    }
}

/// How many replicas of a partition there are, and how many of them must have a write: the server
/// itself. Replies about a resource in a container name both.
pub(crate) const REPLICAS: u32 = 1;
pub(crate) const WRITE_QUORUM: u32 = 1;

/// What all replies say, besides what the handler put into its own.
pub(crate) struct Envelope<'a> {
    pub activity: String,
    /// The container that the request addresses or works in.
    pub container: Option<&'a Container>,
    /// Whether the request addresses the container itself rather than a resource in it.
    pub is_container: bool,
    pub served: &'a Served,
    pub elapsed: Duration,
}

impl<'a> Envelope<'a> {
    /// The container that `reply` comes from, and whether it is about that container itself rather
    /// than about a resource in it.
    pub(crate) fn container_of<'r>(&self, reply: &'r Reply) -> Option<(&'r Container, bool)>
    where
        'a: 'r,
    {
        match reply.container.as_deref() {
            Some(container) => Some((container, true)),
            None => self.container.map(|container| (container, self.is_container)),
        }
    }

    /// What the container holds, for replies about a resource in it.
    pub(crate) fn usage(&self, reply: &Reply) -> Option<Usage> {
        match self.container_of(reply)? {
            (container, false) if reply.status.is_success() => Some(Usage::of(container)),
            (_, _) => None,
        }
    }

    /// The position of the session token: that of one range, also if several ranges took part, as
    /// the .NET SDKs split a token at its only colon. Clients that must read their own writes have
    /// the tokens of those writes.
    pub(crate) fn session(&self) -> Option<(RangeId, Lsn)> {
        self.served.ranges.first().copied()
    }

    /// The only range that served the request; replies from several ranges name none.
    pub(crate) fn range(&self) -> Option<(RangeId, Lsn)> {
        match self.served.ranges.as_slice() {
            [range] => Some(*range),
            _ => None,
        }
    }
}
