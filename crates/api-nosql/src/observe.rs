//! The kinds of requests that are counted.

use engine::catalog::ScriptKind;
use hyper::Method;

use crate::address::Target;
use crate::headers::name;
use crate::request::Request;

/// Kinds of requests that are told apart when they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The account's description.
    Account,
    /// Anything about databases.
    Database,
    /// Anything about containers themselves.
    Container,
    /// Anything about provisioned throughput.
    Offer,
    /// Partition key ranges.
    PartitionKeyRanges,
    /// One item by its id.
    ReadItem,
    /// A new item.
    CreateItem,
    /// A new item, or another version of one.
    UpsertItem,
    /// Another version of an item.
    ReplaceItem,
    /// A change of an item.
    PatchItem,
    /// The end of an item.
    DeleteItem,
    /// A page of items as they are.
    ListItems,
    /// A page of changes.
    ChangeFeed,
    /// A page of a query.
    Query,
    /// How a client is to run a query.
    QueryPlan,
    /// A transactional batch.
    Batch,
    /// Operations that share a request only.
    Bulk,
    /// The end of all items of a partition key.
    DeletePartitionKey,
    /// Anything about stored procedures, triggers and functions themselves.
    Script,
    /// A call of a stored procedure.
    ExecuteProcedure,
    /// Everything else, and what was refused before its kind was known.
    Other,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Operation; 21] = [
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
            Operation::Other => "other",
        }
    }

    /// What `request` asks for. The order in which the flags of a POST are looked at is part of the
    /// protocol.
    pub(crate) fn of(request: &Request) -> Self {
        match request.target {
            Target::Account => Operation::Account,
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
            Target::Script(_, ScriptKind::StoredProcedure, _) if request.method == Method::POST => {
                Operation::ExecuteProcedure
            }
            Target::Scripts(..) | Target::Script(..) => Operation::Script,
            Target::Item(..) => match request.method {
                Method::GET => Operation::ReadItem,
                Method::PUT => Operation::ReplaceItem,
                Method::PATCH => Operation::PatchItem,
                Method::DELETE => Operation::DeleteItem,
                _ => Operation::Other,
            },
            Target::Items(_) => Self::of_feed(request),
        }
    }

    fn of_feed(request: &Request) -> Self {
        match request.method {
            Method::GET if request.header(&name::A_IM).is_some() => Operation::ChangeFeed,
            Method::GET => Operation::ListItems,
            Method::POST if request.flag(&name::IS_QUERY_PLAN) => Operation::QueryPlan,
            Method::POST if request.is_query() => Operation::Query,
            Method::POST if request.flag(&name::IS_BATCH) => {
                // Absent means atomic: only bulk requests say that they are not.
                let atomic = request.header(&name::BATCH_ATOMIC);
                match atomic.is_none_or(|atomic| atomic.eq_ignore_ascii_case("true")) {
                    true => Operation::Batch,
                    false => Operation::Bulk,
                }
            }
            Method::POST if request.flag(&name::IS_UPSERT) => Operation::UpsertItem,
            Method::POST => Operation::CreateItem,
            _ => Operation::Other,
        }
    }
}

/// How fresh a request wants what it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestedConsistency {
    /// As the account has it.
    #[default]
    Default,
    /// In any order.
    Eventual,
    /// What the session has written.
    Session,
    /// What a majority has.
    LatestCommitted,
    /// What is everywhere.
    GlobalStrong,
}

impl RequestedConsistency {
    /// What a strategy or level counts as, by its name in any case.
    pub(crate) fn of(name: &str) -> Self {
        let known = CONSISTENCY_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map_or(Self::Default, |(_, asked)| *asked)
    }
}

/// Names of strategies and levels, and which counts as which.
const CONSISTENCY_NAMES: &[(&str, RequestedConsistency)] = &[
    ("Eventual", RequestedConsistency::Eventual),
    ("ConsistentPrefix", RequestedConsistency::Eventual),
    ("Session", RequestedConsistency::Session),
    ("LatestCommitted", RequestedConsistency::LatestCommitted),
    ("BoundedStaleness", RequestedConsistency::LatestCommitted),
    ("GlobalStrong", RequestedConsistency::GlobalStrong),
    ("Strong", RequestedConsistency::GlobalStrong),
];

/// In which forms a request and its reply were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireFormat {
    /// How fresh the request wants what it reads.
    pub consistency: RequestedConsistency,
    /// Whether the client takes binary JSON.
    pub accepts_binary: bool,
    /// Whether the request's body is binary JSON.
    pub request_is_binary: bool,
    /// Whether the reply's body is.
    pub reply_is_binary: bool,
}

/// A request that was answered.
pub type Observation = front::Observation<Operation, WireFormat>;
