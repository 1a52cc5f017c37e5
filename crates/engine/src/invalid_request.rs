//! What can be wrong with a request, as facts. Each front end has its own texts for them.

use model::bson::BsonError;
use model::json::JsonError;
use model::partition_key::PartitionKeyError;
use model::rid::IdError;

use crate::patch::PatchError;

/// Why a request is malformed or against the rules. The texts are for logs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidRequest {
    /// The catalog lies in memory, so it has a limit.
    #[error("there are already {count_max} databases and containers")]
    CatalogFull {
        /// The limit.
        count_max: usize,
    },
    /// As many users, permissions and keys exist as may exist.
    #[error("there are already {count_max} users, permissions and client encryption keys")]
    OpaqueResourcesFull {
        /// The limit.
        count_max: usize,
    },
    /// The id of a resource or item.
    #[error("the id '{shown}' is invalid: {reason}")]
    Id {
        /// The beginning of the id: it may be megabytes.
        shown: String,
        /// What is wrong with it.
        reason: IdError,
        /// The length from which ids of its kind are too long.
        too_long: usize,
    },
    /// The text of an item is not JSON, or nested too deep.
    #[error("the item can't be read: {0}")]
    ItemText(JsonError),
    /// A document is malformed BSON, or nested too deep.
    #[error("the document can't be read: {0}")]
    Document(BsonError),
    /// An item that is another JSON value.
    #[error("the item is not a JSON object")]
    ItemNotObject,
    /// An item without an id.
    #[error("the item has no id")]
    IdMissing,
    /// An item whose id is not a string.
    #[error("the id of the item is not a string")]
    IdNotString,
    /// An item without a valid partition key.
    #[error("the partition key of the item is invalid: {0}")]
    PartitionKey(PartitionKeyError),
    /// An operation on an item that names no partition key.
    #[error("the operation names no partition key")]
    PartitionKeyMissing,
    /// The time to live of an item.
    #[error("the time to live of the item is invalid: {value}")]
    TimeToLive {
        /// The value, as JSON.
        value: String,
    },
    /// The condition of a patch can't be evaluated on the item.
    #[error("the condition of the patch can't be evaluated: {0}")]
    PatchCondition(query::EvalError),
    /// A patch can't be applied to the item.
    #[error("{0}")]
    Patch(PatchError),
    /// A patch would give the item another id or partition key.
    #[error("the patch changes the id or the partition key of the item")]
    PatchMovesItem,
    /// A continuation of a query that the server did not make for this container.
    #[error("the continuation is invalid")]
    Continuation,
    /// The continuation token is of an earlier version of the server.
    #[error("the continuation is of an earlier version")]
    OldContinuation,
    /// A change feed continuation that the server did not make for this feed.
    #[error("the continuation of the change feed is invalid")]
    FeedContinuation,
    /// The continuation would be too long for clients to send back.
    #[error("the continuation of the change feed over all ranges is too long")]
    FeedContinuationTooLong,
    /// The container keeps no versions for a feed of all versions.
    #[error("the container does not keep all versions")]
    VersionsNotKept,
    /// The feed of all versions has a start at which versions may be missing.
    #[error("a feed of all versions can't start {0}")]
    VersionsStart(UnsupportedStart),
    /// Versions after the continuation were removed.
    #[error("versions after the continuation have been removed")]
    VersionsRemoved,
}

/// Where a feed of all versions can't start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedStart {
    /// At the first version of the container.
    #[error("at the beginning")]
    Beginning,
    /// At a time.
    #[error("at a point in time")]
    Time,
}

/// How a partition key does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyMismatch {
    /// It has more or fewer components than the container's definition.
    #[error("the partition key does not have the components of the container's definition")]
    Components,
    /// The item that is written has another one.
    #[error("the item has another partition key than the request")]
    Item,
    /// A prefix has no component, or more than the container's definition.
    #[error("the prefix of the partition key does not fit the container's definition")]
    Prefix,
}

impl InvalidRequest {
    /// An id that was refused for `reason`; `too_long` is the length from which ids are too long.
    pub fn id(id: &str, reason: IdError, too_long: usize) -> Self {
        const SHOWN_CHARS: usize = 64;
        Self::Id { shown: id.chars().take(SHOWN_CHARS).collect(), reason, too_long }
    }
}
