//! The Table API's OData options: `$filter`, `$select` and those it knows but rejects.
//!
//! [`lexer`] -> [`parser`] -> [`Condition`] -> [`lower`] -> [`query::Plan`]; [`keys`] derives from
//! a filter which keys entities can have, so that only those are read.
//!
//! The layout of entities in items is that of [`model::edm`].

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

/// A condition on an entity. It is either true or false of every entity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// A property compared with a literal, which is the right operand.
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
    /// The filter that accepts all entities.
    pub fn everything() -> Self {
        Self { keys: KeyRanges::everything(), plan: query::Plan::all_items(), is_exact: true }
    }

    /// Compiles the text of `$filter`; an empty one accepts all entities.
    pub fn compile(text: &str) -> Result<Self, SyntaxError> {
        let Some(condition) = parser::parse(text)? else { return Ok(Self::everything()) };
        let filter_keys = keys::keys_of_filter(&condition);
        let plan = lower::plan_of(&condition, &filter_keys.residual);
        Ok(Self { keys: filter_keys.ranges, is_exact: !plan.has_filter(), plan })
    }

    /// The key ranges of the entities that can match.
    pub fn keys(&self) -> &KeyRanges {
        &self.keys
    }

    /// The query for the entities in [these ranges](Self::keys) that match: whole items.
    pub fn plan(&self) -> &query::Plan {
        &self.plan
    }

    /// Whether all entities in the ranges match, so that no entity needs to be tested.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

/// A compiled `$filter` on tables.
#[derive(Clone, Debug)]
pub struct TableFilter(Option<Condition>);

impl TableFilter {
    /// Compiles the text of `$filter`; an empty one accepts all tables.
    pub fn compile(text: &str) -> Result<Self, SyntaxError> {
        parser::parse(text).map(Self)
    }

    /// Whether the table of this name matches.
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
