//! Why an engine operation failed.

use std::time::Duration;

use query::document::Failure;

use model::ErrorKind;

use crate::index::DuplicateKey;
use crate::invalid_request::{InvalidRequest, KeyMismatch};
use crate::row_key::text_of;

/// The kinds of named resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A database.
    Database,
    /// A container.
    Container,
    /// An item of a container.
    Item,
    /// An offer (provisioned throughput).
    Offer,
    /// A split or merge.
    Job,
    /// A user of a database.
    User,
    /// A permission of a user.
    Permission,
    /// A client encryption key of a database.
    EncryptionKey,
    /// Configuration that a front end stores.
    Setting,
    /// A stored procedure, trigger or function.
    Script,
}

impl std::fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ResourceKind::Database => "database",
            ResourceKind::Container => "container",
            ResourceKind::Item => "item",
            ResourceKind::Offer => "offer",
            ResourceKind::Job => "job",
            ResourceKind::User => "user",
            ResourceKind::Permission => "permission",
            ResourceKind::EncryptionKey => "client encryption key",
            ResourceKind::Setting => "setting",
            ResourceKind::Script => "script",
        })
    }
}

/// The limit that a query ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryLimit {
    /// A query that must read all of its rows has passed its deadline.
    #[error("the query scans more items than its time limit allows")]
    Time,
    /// A page would end at a row whose position is too long for a continuation.
    #[error("a page can't end at a row whose sort key is this long")]
    SortKey,
}

/// The other change of a resource that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The throughput is still being scaled.
    #[error("the throughput is still being scaled by an earlier request; please retry later")]
    Scaling,
    /// As many splits and merges of the container are under way as may be.
    #[error("too many splits and merges of the container are under way")]
    Jobs,
    /// A split or merge of the range is under way.
    #[error("the range is already being split or merged")]
    Range,
    /// A split or merge takes its steps by itself.
    #[error("the job runs automatically")]
    AutomaticJob,
}

/// Why an ordered index can't have an item.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IndexViolation {
    /// Another item of the logical partition has a key that may be there once.
    #[error("another item has the same key in the unique index '{}'", .0.index)]
    Duplicate(DuplicateKey),
    /// The item has no keys that the index can hold.
    #[error("{failure}")]
    NoKeys {
        /// The name of the index.
        index: String,
        /// Why.
        failure: Failure,
    },
}

impl IndexViolation {
    /// The name of the index.
    pub fn index(&self) -> &str {
        match self {
            IndexViolation::Duplicate(duplicate) => &duplicate.index,
            IndexViolation::NoKeys { index, .. } => index,
        }
    }
}

/// Why an engine operation failed. Callers decide by [`Error::kind`]; the text is for people and
/// may change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The addressed resource is not there.
    #[error("{kind} '{id}' does not exist")]
    NotFound {
        /// What was requested.
        kind: ResourceKind,
        /// Its id.
        id: String,
    },
    /// The database or container that would own the resource is not there.
    #[error("{kind} '{id}' does not exist")]
    OwnerNotFound {
        /// What is missing.
        kind: ResourceKind,
        /// Its id.
        id: String,
    },
    /// A resource of that id is there already.
    #[error("{kind} '{id}' already exists")]
    AlreadyExists {
        /// What it is.
        kind: ResourceKind,
        /// Its id.
        id: String,
    },
    /// Another item of the logical partition has the same unique-key values.
    #[error("another item of the logical partition has the same unique key values")]
    UniqueKeyViolation,
    /// An ordered index can't have the item as well.
    #[error("{0}")]
    IndexViolation(Box<IndexViolation>),
    /// An If-Match condition did not hold.
    #[error("the etag does not satisfy the condition")]
    PreconditionFailed,
    /// A patch condition was not true of the item.
    #[error("the patch condition is not true of the item")]
    PatchConditionFailed,
    /// An If-None-Match condition found the caller's copy current.
    #[error("the item has not changed")]
    NotModified {
        /// The etag it has.
        etag: crate::Etag,
    },
    /// The request is malformed or against the rules.
    #[error("{0}")]
    InvalidRequest(Box<InvalidRequest>),
    /// The changed item violates a rule of the front end that requested the change.
    #[error("the changed item is against rule {0}")]
    Unfit(u16),
    /// An update does not apply to the item, by a rule of the front end that requested it.
    #[error("{message}")]
    UpdateRefused {
        /// The front end's number of the rule.
        code: i32,
        /// The front end's text.
        message: Box<str>,
    },
    /// A session has sent statements of a later number than this one's.
    #[error("the session has gone on to number {newest}")]
    RetryTooOld {
        /// The newest number that is known of the session.
        newest: i64,
    },
    /// The partition key does not fit the definition or the item.
    #[error("{0}")]
    PartitionKeyMismatch(#[from] KeyMismatch),
    /// The container's name denotes another container than the caller meant.
    #[error("the container was deleted and created again")]
    ContainerRecreated,
    /// A row of a query could not be evaluated.
    #[error(transparent)]
    Evaluation(#[from] query::EvalError),
    /// A query that ran into a limit.
    #[error("{0}")]
    QueryLimit(#[from] QueryLimit),
    /// The deadline of the request passed before it was carried out. Nothing was written.
    #[error("the deadline of the request has passed")]
    DeadlinePassed,
    /// A logical partition is full.
    #[error("partition key reached maximum size of {limit_bytes} bytes")]
    PartitionKeyFull {
        /// The limit it reached.
        limit_bytes: u64,
    },
    /// A container that is never divided is full.
    #[error("the container reached its maximum size of {limit_bytes} bytes")]
    ContainerFull {
        /// The limit it reached.
        limit_bytes: u64,
    },
    /// The item or request is too large.
    #[error("{what} is larger than {max_bytes} bytes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        max_bytes: usize,
    },
    /// The items that a batch returns are too large in all.
    #[error("the answer is too large")]
    AnswerTooLarge,
    /// There are as many of something as there may be.
    #[error("there are already {count_max} {what}")]
    TooMany {
        /// The resources.
        what: &'static str,
        /// The limit.
        count_max: usize,
    },
    /// The partition is out of request units.
    #[error("request rate is large; retry after {retry_after:?}")]
    Throttled {
        /// When the request would be served.
        retry_after: Duration,
    },
    /// The requested throughput can't be provisioned.
    #[error("{0}")]
    OfferRefused(#[from] crate::catalog::OfferRefused),
    /// The named range does not exist any more.
    #[error("the partition key range is gone")]
    RangeGone,
    /// The range takes no requests between two steps of a manually driven split or merge.
    #[error("the partition key range is being split or merged")]
    RangeMoving,
    /// The split or merge is not possible.
    #[error("{0}")]
    NotPartitionable(String),
    /// Another change of the same resource is under way.
    #[error("{0}")]
    Busy(#[from] Busy),
    /// The partition has not reached the caller's session token.
    #[error("the read session is not available for the input session token")]
    SessionNotAvailable,
    /// An item that a write depends on has changed since.
    #[error("the item was changed by another writer")]
    Overtaken,
    /// Another operation of the batch failed.
    #[error("not carried out because another operation of the batch failed")]
    FailedDependency,
    /// The store failed.
    #[error("storage failed: {0}")]
    Storage(String),
    /// The server is shutting down or refuses writes.
    #[error("the server does not take requests: {0}")]
    Unavailable(String),
    /// The disk has less room than writes need. Nothing was written.
    #[error(
        "the disk of the data directory is almost full: {} MB are free, writes need {} MB and \
         deletes {} MB; they resume when space is free",
        free_bytes >> 20,
        floor_bytes >> 20,
        floor_bytes >> 21
    )]
    DiskAlmostFull {
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that must be free.
        floor_bytes: u64,
    },
    /// A bug of the server.
    #[error("bug: {0}")]
    Internal(String),
}

impl Error {
    /// When a throttled request would be served.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Error::Throttled { retry_after } = self { Some(*retry_after) } else { None }
    }

    /// The closed set of kinds that front ends map to their wire format.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::OwnerNotFound { .. } => ErrorKind::OwnerNotFound,
            Error::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Error::UniqueKeyViolation => ErrorKind::UniqueKeyViolation,
            Error::IndexViolation(violation) => match violation.as_ref() {
                IndexViolation::Duplicate(_) => ErrorKind::UniqueKeyViolation,
                IndexViolation::NoKeys { .. } => ErrorKind::BadRequest,
            },
            Error::PreconditionFailed => ErrorKind::PreconditionFailed,
            Error::PatchConditionFailed => ErrorKind::PatchConditionFailed,
            Error::NotModified { .. } => ErrorKind::NotModified,
            Error::InvalidRequest(_)
            | Error::Unfit(_)
            | Error::UpdateRefused { .. }
            | Error::RetryTooOld { .. }
            | Error::OfferRefused(_) => ErrorKind::BadRequest,
            Error::PartitionKeyMismatch(_) => ErrorKind::PartitionKeyMismatch,
            Error::ContainerRecreated => ErrorKind::ContainerRecreated,
            Error::Evaluation(query::EvalError::NonFiniteNumber) => ErrorKind::NonFiniteNumber,
            Error::Evaluation(_) => ErrorKind::BadRequest,
            Error::QueryLimit(_) => ErrorKind::NotSupported,
            Error::DeadlinePassed => ErrorKind::Timeout,
            Error::PartitionKeyFull { .. } | Error::ContainerFull { .. } => {
                ErrorKind::PartitionKeyFull
            }
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::AnswerTooLarge => ErrorKind::AnswerTooLarge,
            Error::TooMany { .. } => ErrorKind::Forbidden,
            Error::Throttled { .. } => ErrorKind::Throttled,
            Error::RangeGone => ErrorKind::RangeGone,
            Error::RangeMoving => ErrorKind::RangeMoving,
            Error::NotPartitionable(_) => ErrorKind::BadRequest,
            Error::Busy(_) => ErrorKind::Locked,
            Error::SessionNotAvailable => ErrorKind::SessionNotAvailable,
            Error::Overtaken => ErrorKind::Conflict,
            Error::FailedDependency => ErrorKind::FailedDependency,
            Error::Storage(_) | Error::Unavailable(_) | Error::DiskAlmostFull { .. } => {
                ErrorKind::Unavailable
            }
            Error::Internal(_) => ErrorKind::Internal,
        }
    }

    pub(crate) fn item_not_found(id: &[u8]) -> Self {
        Error::NotFound { kind: ResourceKind::Item, id: text_of(id).into_owned() }
    }
}

impl From<storage::StoreError> for Error {
    fn from(error: storage::StoreError) -> Self {
        Error::Storage(error.to_string())
    }
}

impl From<IndexViolation> for Error {
    fn from(violation: IndexViolation) -> Self {
        Error::IndexViolation(Box::new(violation))
    }
}

impl From<InvalidRequest> for Error {
    fn from(invalid: InvalidRequest) -> Self {
        Error::InvalidRequest(Box::new(invalid))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_stay_small() {
        assert!(size_of::<super::Error>() <= 72);
    }
}
