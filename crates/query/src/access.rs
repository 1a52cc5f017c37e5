//! Which items a query can be about, as ranges of index terms.
//!
//! An index has a term for every value of every item: its path and, encoded in NoSQL order
//! ([`model::order`]), the value; of an array or object only its tag byte. A path leads through
//! names and, without telling them apart, through the elements of arrays. What is missing has no
//! term. A geometry may have terms for the cells of space that it lies in.
//!
//! The answer is always a superset: a condition that is not understood restricts nothing. Values
//! are taken to be those that JSON can write.

mod analysis;
mod calls;
mod ranges;
mod search;
mod set;

use crate::algebra::Expr;
use crate::functions::spatial::Geospatial;
use crate::plan::{Aggregate, SortOrder};
use crate::select::{Input, Plan, Select};

use analysis::Analysis;

pub use search::{Ranking, TextMatch, Total};

/// A step of a path into an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// To the field of this name.
    Name(String),
    /// To each element of an array.
    Elements,
    /// To each cell of space that a geometry lies in.
    Cells(Geospatial),
}

/// The encoded values `e` with `lo <= e < hi`, compared byte by byte. The same holds for keys that
/// begin with an encoded value, whatever follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The least.
    pub lo: Vec<u8>,
    /// Above all.
    pub hi: Vec<u8>,
}

/// The items with at least one term in some ranges of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The path; never empty.
    pub path: Vec<Step>,
    /// Sorted and disjoint; never empty.
    pub ranges: Vec<ByteRange>,
    /// Whether these are exactly the items that fulfil what the terms stand for.
    pub is_exact: bool,
}

/// A set of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexSet {
    /// All there are; never exact.
    Everything,
    /// None.
    Nothing,
    /// Those with certain terms.
    Terms(Terms),
    /// Those that are in all of these, of which there are two or more.
    All(Vec<IndexSet>),
    /// Those that are in one or more of these, of which there are two or more.
    Any(Vec<IndexSet>),
}

impl IndexSet {
    /// Whether the filter of the query is true of exactly these items, so that it need not be
    /// tested.
    pub fn is_exact(&self) -> bool {
        match self {
            IndexSet::Everything => false,
            IndexSet::Nothing => true,
            IndexSet::Terms(terms) => terms.is_exact,
            IndexSet::All(parts) | IndexSet::Any(parts) => parts.iter().all(IndexSet::is_exact),
        }
    }

    /// Whether it is about certain values alone, of which there may be few, not about all between
    /// two.
    pub fn is_point_lookup(&self) -> bool {
        match self {
            IndexSet::Everything => false,
            IndexSet::Nothing => true,
            IndexSet::Terms(terms) => terms.ranges.iter().all(ByteRange::is_point),
            IndexSet::All(parts) => parts.iter().any(IndexSet::is_point_lookup),
            IndexSet::Any(parts) => parts.iter().all(IndexSet::is_point_lookup),
        }
    }

    fn mark_inexact(&mut self) {
        match self {
            IndexSet::Everything | IndexSet::Nothing => {}
            IndexSet::Terms(terms) => terms.is_exact = false,
            IndexSet::All(parts) | IndexSet::Any(parts) => {
                parts.iter_mut().for_each(IndexSet::mark_inexact);
            }
        }
    }
}

impl Plan {
    /// The items that can give a row or belong to a group. Only paths that are indexed are made use
    /// of.
    ///
    /// If the answer [is exact](IndexSet::is_exact), the plan may be run over these items
    /// [without its filter](Plan::unfiltered).
    pub fn index_set(&self, is_indexed: &dyn Fn(&[Step]) -> bool) -> IndexSet {
        let clauses = self.clauses();
        match &clauses.input {
            Input::Nothing => IndexSet::Nothing,
            Input::Items => Analysis::new(is_indexed).select(&clauses.select).into_index_set(),
            Input::Rows(inner) => {
                let mut index_set = inner.index_set(is_indexed);
                // It is the filter of the inner query that is true of them.
                index_set.mark_inexact();
                index_set
            }
        }
    }

    /// What rows are ordered by, if each key is a plain path into the item and each row can be told
    /// without knowing the others.
    pub fn order_paths(&self) -> Option<Vec<(Vec<Step>, SortOrder)>> {
        let clauses = self.clauses();
        let is_ordered = matches!(clauses.input, Input::Items)
            && clauses.select.is_row_by_row()
            && !clauses.order.is_empty();
        if !is_ordered {
            return None;
        }
        clauses.order.iter().map(|key| Some((names_of(&key.expr)?, key.order))).collect()
    }

    /// The path whose first value in this order is all that the query wants to know: it is one MIN
    /// or MAX over all items that the filter keeps. Then, of those items that have a value there,
    /// the plan needs to be run over the first in the order of the index only, or over none.
    ///
    /// Two things must be checked before that. An array or object among the values makes the
    /// result *undefined*, so there must be no terms of those. And where the first term
    /// [is cut](is_cut), its items and all with terms that begin alike must be looked at.
    pub fn extreme(&self) -> Option<(Vec<Step>, SortOrder)> {
        let clauses = self.clauses();
        let select = &clauses.select;
        let grouping = select.grouping()?;
        let ([], [call]) = (grouping.keys.as_slice(), grouping.aggregates.as_slice()) else {
            return None;
        };
        if !matches!(clauses.input, Input::Items) || !select.bindings().is_empty() {
            return None;
        }
        let order = match call.aggregate {
            Aggregate::Min => SortOrder::Ascending,
            Aggregate::Max => SortOrder::Descending,
            Aggregate::Average
            | Aggregate::Count
            | Aggregate::CountIf
            | Aggregate::Sum
            | Aggregate::MakeList
            | Aggregate::MakeSet => return None,
        };
        Some((names_of(&call.operand)?, order))
    }
}

/// Whether an encoded value is that of a string too long to be encoded whole. Those that begin
/// alike are in no order among themselves.
pub fn is_cut(encoded: &[u8]) -> bool {
    ranges::is_cut_term(encoded)
}

/// The conditions that a query's filter is made of, each with the items it can be true of.
pub(crate) fn conjuncts_of<'s>(
    select: &'s Select,
    is_indexed: &dyn Fn(&[Step]) -> bool,
) -> Vec<(&'s Expr, IndexSet)> {
    let conjuncts = match select.filter() {
        Some(Expr::And(operands)) => operands.as_slice(),
        Some(other) => std::slice::from_ref(other),
        None => &[],
    };
    let mut analysis = Analysis::new(is_indexed);
    analysis.bind(select);
    conjuncts.iter().map(|part| (part, analysis.find(part, true).into_index_set())).collect()
}

/// The path into the item that an expression follows by names only.
pub(crate) fn names_of(expr: &Expr) -> Option<Vec<Step>> {
    let (slot, path) = analysis::steps_of(expr)?;
    let is_plain = slot == 0 && !path.is_empty() && !path.contains(&Step::Elements);
    is_plain.then_some(path)
}

#[cfg(test)]
mod tests;
