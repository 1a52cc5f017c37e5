//! The kinds of requests for metrics.

/// Kinds of requests that metrics distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A list of tables, or a read of one.
    ListTables,
    /// A create of a table.
    CreateTable,
    /// A delete of a table.
    DeleteTable,
    /// A read of one entity by its keys.
    GetEntity,
    /// A query of entities.
    QueryEntities,
    /// An insert of an entity.
    InsertEntity,
    /// A replace of an entity, or an insert if it does not exist.
    ReplaceEntity,
    /// A merge into an entity, or an insert if it does not exist.
    MergeEntity,
    /// A delete of an entity.
    DeleteEntity,
    /// An entity group transaction.
    Batch,
    /// Stored access policies of a table.
    Policies,
    /// Properties and statistics of the service, and CORS preflight requests.
    Service,
    /// All other requests, and those refused before their kind was known.
    Other,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Operation; 13] = [
        Operation::ListTables,
        Operation::CreateTable,
        Operation::DeleteTable,
        Operation::GetEntity,
        Operation::QueryEntities,
        Operation::InsertEntity,
        Operation::ReplaceEntity,
        Operation::MergeEntity,
        Operation::DeleteEntity,
        Operation::Batch,
        Operation::Policies,
        Operation::Service,
        Operation::Other,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Operation::ListTables => "list_tables",
            Operation::CreateTable => "create_table",
            Operation::DeleteTable => "delete_table",
            Operation::GetEntity => "get_entity",
            Operation::QueryEntities => "query_entities",
            Operation::InsertEntity => "insert_entity",
            Operation::ReplaceEntity => "replace_entity",
            Operation::MergeEntity => "merge_entity",
            Operation::DeleteEntity => "delete_entity",
            Operation::Batch => "batch",
            Operation::Policies => "policies",
            Operation::Service => "service",
            Operation::Other => "other",
        }
    }
}

/// An answered request, for the observer.
pub type Observation = account::Observation<Operation>;
