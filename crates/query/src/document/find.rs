//! Finding documents as a [`Plan`]: what matches, in which order, which part of that.

use std::sync::Arc;

use model::order::TypeOrder;

use crate::algebra::Expr;
use crate::plan::{Clauses, Input, Plan, Projection, Select, SortKey, SortOrder, Window};

use super::index_keys::{ColumnKind, IndexColumn};
use super::{DocumentFilter, FirstFailure, Predicate, SortValue, Variables};

/// Which documents are found.
#[derive(Clone, Debug, Default)]
pub struct FindClauses {
    /// What they match; all documents do if there is none.
    pub filter: Option<Arc<Predicate>>,
    /// What they are sorted by, the first above all.
    pub sort: Vec<IndexColumn>,
    /// How many are left out.
    pub skip: u64,
    /// How many are found after that; all if not given.
    pub limit: Option<u64>,
}

/// The plan whose rows are these documents as they are. The first failure of its filter or sort is
/// kept in `failure`.
pub fn find_plan(clauses: FindClauses, variables: &Arc<Variables>, failure: &FirstFailure) -> Plan {
    let matches_all =
        |filter: &Predicate| matches!(filter, Predicate::And(parts) if parts.is_empty());
    let filter = clauses.filter.filter(|filter| !matches_all(filter)).map(|filter| {
        Expr::Matches(DocumentFilter::new(filter, Arc::clone(variables), Arc::clone(failure)))
    });
    let directions: Vec<SortOrder> =
        clauses.sort.iter().map(|column| direction(column.kind)).collect();
    let order = SortValue::all(clauses.sort, failure)
        .into_iter()
        .zip(directions)
        .map(|(value, order)| SortKey { expr: Expr::SortValue(value), order })
        .collect();
    let window = Window { offset: clauses.skip, limit: clauses.limit.unwrap_or(u64::MAX) };
    let has_window = clauses.skip > 0;
    Plan::new(Clauses {
        input: Input::Items,
        select: Select::new(1, Vec::new(), filter, Projection::Value(Expr::Variable(0))),
        order,
        top: clauses.limit.filter(|_| !has_window),
        window: has_window.then_some(window),
        type_order: TypeOrder::Bson,
    })
}

fn direction(kind: ColumnKind) -> SortOrder {
    match kind {
        ColumnKind::Descending => SortOrder::Descending,
        ColumnKind::Ascending | ColumnKind::Hashed => SortOrder::Ascending,
    }
}
