//! Finds which items a query can match, as ranges of index terms.
//!
//! An index has a term for every value of every item: its path and, encoded in NoSQL order
//! ([`model::order`]), the value; for an array or object only its tag byte. A path consists of
//! field names and steps into arrays, which do not distinguish elements. A missing value has no
//! term. A geometry may have terms for the cells of space that it lies in.
//!
//! The answer is always a superset: a condition that is not understood restricts nothing. Values
//! are assumed to be those that JSON can express.

mod analysis;
mod calls;
mod documents;
mod ranges;
mod search;
mod set;

use crate::algebra::Expr;
use crate::functions::spatial::Geospatial;
use crate::plan::{Aggregate, Input, Plan, Select, SortOrder};

use analysis::Analysis;

pub use documents::DocumentQuery;
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

/// The encoded values `e` with `lo <= e < hi`, compared byte by byte. The range also holds keys
/// that begin with such a value, whatever follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The lower bound, included.
    pub lo: Vec<u8>,
    /// The upper bound, excluded.
    pub hi: Vec<u8>,
}

/// The items with at least one term in some ranges of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The path; never empty.
    pub path: Vec<Step>,
    /// Sorted and disjoint; never empty.
    pub ranges: Vec<ByteRange>,
    /// Whether these are exactly the items that meet the condition the terms stand for.
    pub is_exact: bool,
}

/// A set of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexSet {
    /// All items; never exact.
    Everything,
    /// No items.
    Nothing,
    /// Items with certain terms.
    Terms(Terms),
    /// Items that are in all of these sets, of which there are two or more.
    All(Vec<IndexSet>),
    /// Items that are in at least one of these sets, of which there are two or more.
    Any(Vec<IndexSet>),
}

impl IndexSet {
    /// Whether the filter of the query is true of exactly these items, so that it need not be
    /// evaluated.
    pub fn is_exact(&self) -> bool {
        match self {
            IndexSet::Everything => false,
            IndexSet::Nothing => true,
            IndexSet::Terms(terms) => terms.is_exact,
            IndexSet::All(parts) | IndexSet::Any(parts) => parts.iter().all(IndexSet::is_exact),
        }
    }

    /// Whether it selects single values, which few items may have, rather than ranges of values.
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
    /// The items that can yield a row or belong to a group. Uses only indexed paths.
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
                // What is true of exactly these items is the filter of the inner query.
                index_set.mark_inexact();
                index_set
            }
        }
    }

    /// The paths that rows are ordered by, if each key is a plain path into the item and each row
    /// depends on one item only.
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

    /// The path whose first value in this order is the whole result: the query is one MIN or MAX
    /// over all items that the filter keeps. Then the plan needs to run only over the first item
    /// with a value there, in index order, or over none.
    ///
    /// The caller must check two things first. An array or object among the values makes the result
    /// *undefined*, so there must be no terms of those. And where the first term
    /// [is cut](model::order::bounds::is_cut), its items and all with terms that have the same
    /// beginning must be read.
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

/// The conjuncts of a query's filter, each with the items it can be true of.
pub(crate) fn conjuncts_of<'s>(
    select: &'s Select,
    is_indexed: &dyn Fn(&[Step]) -> bool,
) -> Vec<(&'s Expr, IndexSet)> {
    let mut analysis = Analysis::new(is_indexed);
    analysis.bind(select);
    let conjuncts = select.conjuncts().iter();
    conjuncts.map(|part| (part, analysis.find(part, true).into_index_set())).collect()
}

/// The path into the item that an expression takes, if it consists of names only.
pub(crate) fn names_of(expr: &Expr) -> Option<Vec<Step>> {
    let (slot, path) = analysis::steps_of(expr)?;
    let is_plain = slot == 0 && !path.is_empty() && !path.contains(&Step::Elements);
    is_plain.then_some(path)
}

#[cfg(test)]
mod tests;
