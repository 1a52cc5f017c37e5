//! What a request means: the operation that its address, method and headers name.
//!
//! Routes, rights, faults and metrics all decide by it.

use engine::catalog::ScriptKind;

use crate::address::Target;
use crate::headers::HeaderName;
use crate::request::{Request, Verb};

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read of the account's description.
    Account,
    /// Operations on databases.
    Database,
    /// Operations on containers themselves.
    Container,
    /// Operations on provisioned throughput.
    Offer,
    /// Reads of partition key ranges.
    PartitionKeyRanges,
    /// A read of one item by its id.
    ReadItem,
    /// A create of an item.
    CreateItem,
    /// A create or replace of an item.
    UpsertItem,
    /// A replace of an item.
    ReplaceItem,
    /// A patch of an item.
    PatchItem,
    /// A delete of an item.
    DeleteItem,
    /// A page of all items, without a query.
    ListItems,
    /// A page of the change feed.
    ChangeFeed,
    /// A page of a query's result.
    Query,
    /// A query plan for a client.
    QueryPlan,
    /// A transactional batch.
    Batch,
    /// A bulk request, whose operations are independent.
    Bulk,
    /// A delete of all items of a partition key.
    DeletePartitionKey,
    /// Operations on stored procedures, triggers and functions themselves.
    Script,
    /// A call of a stored procedure.
    ExecuteProcedure,
    /// Reads of the addresses for Direct mode.
    Addresses,
    /// All other requests, and those refused before their kind was known.
    Other,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Operation; 22] = [
        Operation::Account,
        Operation::Database,
        Operation::Container,
        Operation::Offer,
        Operation::PartitionKeyRanges,
        Operation::ReadItem,
        Operation::CreateItem,
        Operation::UpsertItem,
        Operation::ReplaceItem,
        Operation::PatchItem,
        Operation::DeleteItem,
        Operation::ListItems,
        Operation::ChangeFeed,
        Operation::Query,
        Operation::QueryPlan,
        Operation::Batch,
        Operation::Bulk,
        Operation::DeletePartitionKey,
        Operation::Script,
        Operation::ExecuteProcedure,
        Operation::Addresses,
        Operation::Other,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Account => "account",
            Operation::Database => "database",
            Operation::Container => "container",
            Operation::Offer => "offer",
            Operation::PartitionKeyRanges => "partition_key_ranges",
            Operation::ReadItem => "read_item",
            Operation::CreateItem => "create_item",
            Operation::UpsertItem => "upsert_item",
            Operation::ReplaceItem => "replace_item",
            Operation::PatchItem => "patch_item",
            Operation::DeleteItem => "delete_item",
            Operation::ListItems => "list_items",
            Operation::ChangeFeed => "change_feed",
            Operation::Query => "query",
            Operation::QueryPlan => "query_plan",
            Operation::Batch => "batch",
            Operation::Bulk => "bulk",
            Operation::DeletePartitionKey => "delete_partition_key",
            Operation::Script => "script",
            Operation::ExecuteProcedure => "execute_procedure",
            Operation::Addresses => "addresses",
            Operation::Other => "other",
        }
    }

    /// The operation of `request`. The protocol defines the order in which the flags of a POST are
    /// checked.
    pub(crate) fn of(request: &Request) -> Self {
        match request.target {
            Target::Account => Operation::Account,
            Target::MasterAddresses | Target::Addresses(..) => Operation::Addresses,
            Target::Databases | Target::Database(_) => Operation::Database,
            Target::Containers(_) | Target::Container(_) => Operation::Container,
            Target::Offers | Target::Offer(_) => Operation::Offer,
            Target::PartitionKeyRanges(_) => Operation::PartitionKeyRanges,
            Target::PartitionKeyDelete(_) => Operation::DeletePartitionKey,
            Target::Conflicts(_)
            | Target::Conflict(_)
            | Target::Users(_)
            | Target::User(_)
            | Target::Permissions(_)
            | Target::Permission(..)
            | Target::EncryptionKeys(_)
            | Target::EncryptionKey(..)
            | Target::NotSupported(_) => Operation::Other,
            Target::Script(_, ScriptKind::StoredProcedure, _) if request.verb == Verb::Post => {
                Operation::ExecuteProcedure
            }
            Target::Scripts(..) | Target::Script(..) => Operation::Script,
            Target::Item(..) => match request.verb {
                Verb::Get => Operation::ReadItem,
                Verb::Put => Operation::ReplaceItem,
                Verb::Patch => Operation::PatchItem,
                Verb::Delete => Operation::DeleteItem,
                Verb::Head | Verb::Post | Verb::Other => Operation::Other,
            },
            Target::Items(_) => Self::of_feed(request),
        }
    }

    fn of_feed(request: &Request) -> Self {
        match request.verb {
            Verb::Get if request.header(HeaderName::AIm).is_some() => Operation::ChangeFeed,
            Verb::Get => Operation::ListItems,
            Verb::Post if request.flag(HeaderName::IsQueryPlan) => Operation::QueryPlan,
            Verb::Post if request.is_query() && request.header(HeaderName::AIm).is_some() => {
                Operation::ChangeFeed
            }
            Verb::Post if request.is_query() => Operation::Query,
            Verb::Post if request.flag(HeaderName::IsBatch) => {
                // Absent means atomic: only bulk requests state that they are not.
                let atomic = request.header(HeaderName::BatchAtomic);
                match atomic.is_none_or(|atomic| atomic.eq_ignore_ascii_case("true")) {
                    true => Operation::Batch,
                    false => Operation::Bulk,
                }
            }
            Verb::Post if request.flag(HeaderName::IsUpsert) => Operation::UpsertItem,
            Verb::Post => Operation::CreateItem,
            Verb::Head | Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => Operation::Other,
        }
    }
}
