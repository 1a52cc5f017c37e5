//! The Table API's OData options: `$filter`, `$select` and those it has but refuses.
//!
//! [`lexer`] -> [`parser`] -> [`Condition`] -> [`lower`] -> [`query::Plan`]; [`keys`] finds what a
//! filter says of the keys of entities, so that only those are read.
//!
//! Entities are taken to lie in items as [`model::edm`] says.

mod keys;
mod lexer;
mod lower;
mod parser;
mod select;

use model::Value;
use query::algebra::Relation;

use crate::SyntaxError;

pub use keys::{Bounds, KeyRange, KeyRanges};
pub use select::{Selection, check_option};

/// The property that holds an entity's partition key.
pub const PARTITION_KEY: &str = "PartitionKey";
/// The property that holds an entity's row key.
pub const ROW_KEY: &str = "RowKey";
/// The property that holds the time of an entity's last change.
pub const TIMESTAMP: &str = "Timestamp";
/// The only property of a table.
pub const TABLE_NAME: &str = "TableName";

/// Longest text of a filter in bytes (ours: more than fits a URL).
pub const FILTER_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of a filter (ours).
pub const FILTER_DEPTH_MAX: usize = 200;
/// Most comparisons of a filter (ours; Microsoft documents 15).
pub const FILTER_COMPARISONS_MAX: usize = 2_000;

/// What a filter asks of an entity. Every condition is either true or false of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// A property compared with a literal, which stands right.
    Compare {
        property: String,
        relation: Relation,
        literal: Value,
    },
}

/// A compiled `$filter` on entities.
#[derive(Clone, Debug)]
pub struct EntityFilter {
    keys: KeyRanges,
    plan: query::Plan,
    is_exact: bool,
}

impl EntityFilter {
    /// The filter that all entities pass.
    pub fn everything() -> Self {
        Self { keys: KeyRanges::everything(), plan: query::Plan::all_items(), is_exact: true }
    }

    /// Compiles the text of `$filter`; an empty one filters nothing.
    pub fn compile(text: &str) -> Result<Self, SyntaxError> {
        let Some(condition) = parser::parse(text)? else { return Ok(Self::everything()) };
        let filter_keys = keys::keys_of_filter(&condition);
        let plan = lower::plan_of(&condition, &filter_keys.residual);
        Ok(Self { keys: filter_keys.ranges, is_exact: !plan.has_filter(), plan })
    }

    /// Where in the order of keys the entities lie that can pass.
    pub fn keys(&self) -> &KeyRanges {
        &self.keys
    }

    /// The query for those of the entities in [these ranges](Self::keys) that pass: items, whole.
    pub fn plan(&self) -> &query::Plan {
        &self.plan
    }

    /// Whether all entities in the ranges pass, so that nothing need be tested.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

/// A compiled `$filter` on tables.
#[derive(Clone, Debug)]
pub struct TableFilter(Option<Condition>);

impl TableFilter {
    /// Compiles the text of `$filter`; an empty one filters nothing.
    pub fn compile(text: &str) -> Result<Self, SyntaxError> {
        parser::parse(text).map(Self)
    }

    /// Whether the table of this name passes.
    pub fn matches(&self, table_name: &str) -> bool {
        self.0.as_ref().is_none_or(|condition| condition.is_true_of_table(table_name))
    }
}

impl Condition {
    /// A table has no property but its name, which is a string.
    fn is_true_of_table(&self, table_name: &str) -> bool {
        match self {
            Condition::All(parts) => parts.iter().all(|part| part.is_true_of_table(table_name)),
            Condition::Any(parts) => parts.iter().any(|part| part.is_true_of_table(table_name)),
            Condition::Not(part) => !part.is_true_of_table(table_name),
            Condition::Compare { property, relation, literal } => {
                let literal = literal.as_str().filter(|_| property == TABLE_NAME);
                literal.is_some_and(|literal| relation.holds(table_name.cmp(literal)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
