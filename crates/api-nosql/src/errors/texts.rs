//! The service's texts for what is wrong with a request. Client libraries and their users know
//! them.

use std::borrow::Cow;

use engine::patch::{PatchError, PatchFailure};
use engine::{Busy, InvalidRequest, KeyMismatch, QueryLimit, UnsupportedStart};

/// The text for a request that is malformed or against the rules.
pub(crate) fn invalid_request(invalid: &InvalidRequest) -> Cow<'static, str> {
    use InvalidRequest as I;
    match invalid {
        I::CatalogFull { count_max } => {
            format!("This server holds at most {count_max} databases and containers.").into()
        }
        I::OpaqueResourcesFull { count_max } => format!(
            "This server holds at most {count_max} users, permissions and client encryption keys."
        )
        .into(),
        I::Id { shown, reason, too_long } => format!(
            "The input name '{shown}' is invalid: {reason}. Ensure to provide a unique non-empty \
             string less than '{too_long}' characters."
        )
        .into(),
        I::ItemText(error) => format!("The request payload is invalid: {error}").into(),
        I::Document(error) => format!("The request payload is invalid: {error}").into(),
        I::ItemNotObject => "The request payload is invalid. An item must be a JSON object.".into(),
        I::IdMissing => "The input content is invalid because the required properties - 'id; ' - \
                         are missing"
            .into(),
        I::IdNotString => "The 'id' of an item must be a string.".into(),
        I::PartitionKey(error) => format!("The partition key is invalid: {error}.").into(),
        I::PartitionKeyMissing => "PartitionKey value must be supplied for this operation.".into(),
        I::TimeToLive { value } => format!(
            "The input ttl '{value}' is invalid. Ensure to provide a nonzero positive integer \
             less than or equal to '{}', or '-1' which means never expire.",
            i32::MAX
        )
        .into(),
        I::PatchCondition(error) => error.to_string().into(),
        I::Patch(error) => patch(error).into(),
        I::PatchMovesItem => {
            "A patch may not change the id or the partition key of an item.".into()
        }
        I::Continuation => "Invalid Continuation Token".into(),
        I::OldContinuation => {
            "Invalid Continuation Token: an earlier version of the server issued \
                               it. Begin the query again without it."
                .into()
        }
        I::FeedContinuation => "The change feed continuation is invalid: it is not an etag that \
                                this feed of this container has returned."
            .into(),
        I::FeedContinuationTooLong => "The container has too many ranges for one change feed over \
                                       all of them. Read the change feed of each range, or merge \
                                       ranges."
            .into(),
        I::VersionsNotKept => "Change Feed 'All Versions and Deletes' mode must be enabled. Set \
                               changeFeedPolicy.retentionDuration of the container to a number of \
                               minutes."
            .into(),
        I::VersionsStart(start) => {
            let start = match start {
                UnsupportedStart::Beginning => "Start from beginning",
                UnsupportedStart::Time => "Start from a point in time",
            };
            format!(
                "{start} is not supported with 'All Versions and Deletes' mode. You must read the \
                 change feed from within the retention period."
            )
            .into()
        }
        I::VersionsRemoved => "The change feed continuation is older than the changes that 'All \
                               Versions and Deletes' mode has kept. You must read the change feed \
                               from within the retention period. Start again from now."
            .into(),
    }
}

/// The text for a partition key that does not fit.
pub(crate) fn key_mismatch(mismatch: KeyMismatch) -> &'static str {
    match mismatch {
        KeyMismatch::Components => {
            "Partition key provided either doesn't correspond to definition in the collection or \
             doesn't match partition key field values specified in the document."
        }
        KeyMismatch::Item => {
            "PartitionKey extracted from document doesn't match the one specified in the header. \
             Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value"
        }
        KeyMismatch::Prefix => {
            "The partition key supplied has more or fewer components than the container's \
             definition allows."
        }
    }
}

/// The text for a query that ran into a limit.
pub(crate) fn query_limit(limit: QueryLimit) -> &'static str {
    match limit {
        QueryLimit::Time => {
            "The query scans more items than its time limit allows. Narrow its filter, or leave \
             out ORDER BY, GROUP BY, DISTINCT or aggregates."
        }
        QueryLimit::SortKey => {
            "A page can't end at a row whose sort key is this long. Use a larger page size."
        }
    }
}

/// The text for a change while another one is under way.
pub(crate) fn busy(busy: Busy) -> String {
    match busy {
        Busy::Scaling => {
            "The throughput is still being scaled by an earlier request. Please retry later."
                .to_owned()
        }
        // Only the admin API begins and drives jobs; it shows the engine's text.
        Busy::Jobs | Busy::Range | Busy::AutomaticJob => busy.to_string(),
    }
}

fn patch(PatchError { operation, reason }: &PatchError) -> String {
    let reason = match reason {
        PatchFailure::NoParent { operation, segment } => format!(
            "{operation} Operation can only create a child object of an existing node(array or \
             object) and cannot create path recursively, no path found beyond: '{segment}'"
        ),
        PatchFailure::OutOfBounds { index } => {
            format!("Index({index}) to operate on is out of array bounds")
        }
        PatchFailure::ReplacedIsAbsent { path } => format!("Node({path}) to be replaced is absent"),
        PatchFailure::RemovedIsAbsent { path } => format!(
            "Node({path}) to be removed is absent. Note: it may also have been removed earlier in \
             the transaction"
        ),
        PatchFailure::NotANumber { path } => format!("Node({path}) is not a number"),
        PatchFailure::MoveIntoItself { from, path } => {
            format!("Path({path}) to move to is a child of the path({from}) to move from")
        }
    };
    format!("For Operation({operation}): {reason}. Learn more: https://aka.ms/cosmosdbpatchdocs")
}
