//! What a query of documents asks of ordered indexes.

use crate::algebra::Expr;
use crate::document::Predicate;
use crate::document::index_keys::IndexColumn;
use crate::plan::{Input, Plan};

/// The filter and the order of a query of documents.
#[derive(Clone, Debug)]
pub struct DocumentQuery<'p> {
    /// What documents match; perhaps not all of them are wanted.
    pub filter: Option<&'p Predicate>,
    /// What they are sorted by; nothing if an index can't have the order.
    pub sort: Vec<IndexColumn>,
}

impl Plan {
    /// What the query asks of ordered indexes, if it reads documents.
    pub fn document_query(&self) -> Option<DocumentQuery<'_>> {
        let clauses = self.clauses();
        if !matches!(clauses.input, Input::Items) || !clauses.select.bindings().is_empty() {
            return None;
        }
        let filter = clauses.select.conjuncts().iter().find_map(predicate_of);
        let sort = self.document_order().unwrap_or_default();
        (filter.is_some() || !sort.is_empty()).then_some(DocumentQuery { filter, sort })
    }

    fn document_order(&self) -> Option<Vec<IndexColumn>> {
        let clauses = self.clauses();
        if !clauses.select.is_row_by_row() {
            return None;
        }
        clauses.order.iter().map(|key| column_of(&key.expr)).collect()
    }
}

fn predicate_of(expr: &Expr) -> Option<&Predicate> {
    if let Expr::Matches(filter) = expr { Some(filter.predicate()) } else { None }
}

fn column_of(expr: &Expr) -> Option<IndexColumn> {
    if let Expr::SortValue(value) = expr { value.column().cloned() } else { None }
}
