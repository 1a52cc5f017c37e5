//! The closed list of ways an operation can fail, as front ends see it.

/// What went wrong, independent of any wire format. Every front end maps this list with one
/// exhaustive match, so adding a kind is an API change that must break their builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The addressed item or resource does not exist.
    NotFound,
    /// The database or container that owns the addressed resource does not exist.
    OwnerNotFound,
    /// A resource with this id exists already.
    AlreadyExists,
    /// Another item of the logical partition holds the same unique-key values.
    UniqueKeyViolation,
    /// An etag condition was not met.
    PreconditionFailed,
    /// A patch condition evaluated to something other than true.
    PatchConditionFailed,
    /// A read condition found the caller's copy still current.
    NotModified,
    /// The request is malformed or against the container's rules.
    BadRequest,
    /// The partition key given does not fit the definition or the item.
    PartitionKeyMismatch,
    /// The container's name now denotes another container than the caller meant.
    ContainerRecreated,
    /// The text of a query could not be compiled.
    Syntax,
    /// The query needs the caller to fan out or to use a plan.
    QueryNotServable,
    /// A row of a query holds a number that the wire format cannot carry.
    NonFiniteNumber,
    /// The caller could not be authenticated.
    Unauthorized,
    /// The caller is known but may not do this.
    Forbidden,
    /// A logical partition has reached its storage limit.
    PartitionKeyFull,
    /// The request or its result is larger than allowed.
    TooLarge,
    /// The items that the request returns are larger than an answer may be.
    AnswerTooLarge,
    /// The partition is out of request units.
    Throttled,
    /// The range the caller named was split or merged away.
    RangeGone,
    /// The range the caller named is being split or merged right now.
    RangeMoving,
    /// The store has not yet reached the caller's session token.
    SessionNotAvailable,
    /// A batch operation was not carried out because a sibling failed.
    FailedDependency,
    /// Another operation on the same resource is in progress.
    Locked,
    /// A concurrent write interfered; the same request may succeed when repeated.
    Conflict,
    /// The operation did not finish in time.
    Timeout,
    /// A stored procedure, trigger or function failed.
    ScriptFailed,
    /// The feature exists in the protocol but not in this server.
    NotSupported,
    /// The server cannot accept the request now.
    Unavailable,
    /// A bug in the server.
    Internal,
}

impl ErrorKind {
    /// Every kind, for tables and tests.
    pub const ALL: [ErrorKind; 30] = [
        ErrorKind::NotFound,
        ErrorKind::OwnerNotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::UniqueKeyViolation,
        ErrorKind::PreconditionFailed,
        ErrorKind::PatchConditionFailed,
        ErrorKind::NotModified,
        ErrorKind::BadRequest,
        ErrorKind::PartitionKeyMismatch,
        ErrorKind::ContainerRecreated,
        ErrorKind::Syntax,
        ErrorKind::QueryNotServable,
        ErrorKind::NonFiniteNumber,
        ErrorKind::Unauthorized,
        ErrorKind::Forbidden,
        ErrorKind::PartitionKeyFull,
        ErrorKind::TooLarge,
        ErrorKind::AnswerTooLarge,
        ErrorKind::Throttled,
        ErrorKind::RangeGone,
        ErrorKind::RangeMoving,
        ErrorKind::SessionNotAvailable,
        ErrorKind::FailedDependency,
        ErrorKind::Locked,
        ErrorKind::Conflict,
        ErrorKind::Timeout,
        ErrorKind::ScriptFailed,
        ErrorKind::NotSupported,
        ErrorKind::Unavailable,
        ErrorKind::Internal,
    ];
}

#[cfg(test)]
mod tests {
    use super::ErrorKind;

    /// Kinds are declared in the order of the list, so its last entry counts them.
    #[test]
    fn the_list_is_complete() {
        assert!(ErrorKind::ALL.is_sorted_by(|a, b| a < b));
        assert_eq!(ErrorKind::Internal as usize + 1, ErrorKind::ALL.len());
    }
}
