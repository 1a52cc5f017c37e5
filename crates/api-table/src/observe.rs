//! The kinds of requests that are counted.

/// Kinds of requests that are told apart when they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// All tables, or one.
    ListTables,
    /// A new table.
    CreateTable,
    /// The end of a table.
    DeleteTable,
    /// One entity by its keys.
    GetEntity,
    /// Entities by a filter.
    QueryEntities,
    /// A new entity.
    InsertEntity,
    /// Another version of an entity, or a new one.
    ReplaceEntity,
    /// A change of some properties of an entity, or a new one.
    MergeEntity,
    /// The end of an entity.
    DeleteEntity,
    /// An entity group transaction.
    Batch,
    /// Stored access policies of a table.
    Policies,
    /// Properties and statistics of the service, and what browsers ask before they ask.
    Service,
    /// Everything else, and what was refused before its kind was known.
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

/// A request that was answered.
pub type Observation = front::Observation<Operation>;
