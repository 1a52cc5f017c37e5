//! Which items a query can be about, as ranges of index terms.
//!
//! An index has a term for every value of every item: its path and, encoded in NoSQL order
//! ([`model::order`]), the value; of an array or object only its tag byte. A path leads through
//! names and, without telling them apart, through the elements of arrays. What is missing has no
//! term.
//!
//! The answer is always a superset: a condition that is not understood restricts nothing. Values
//! are taken to be those that JSON can write.

use crate::plan::SortOrder;
use crate::select::Plan;

/// A step of a path into an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// To the field of this name.
    Name(String),
    /// To each element of an array.
    Elements,
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
pub enum Access {
    /// All there are; never exact.
    Everything,
    /// None.
    Nothing,
    /// Those with certain terms.
    Terms(Terms),
    /// Those that are in all of these, of which there are two or more.
    All(Vec<Access>),
    /// Those that are in one or more of these, of which there are two or more.
    Any(Vec<Access>),
}

impl Access {
    /// Whether the filter of the query is true of exactly these items, so that it need not be
    /// tested.
    pub fn is_exact(&self) -> bool {
        match self {
            Access::Everything => false,
            Access::Nothing => true,
            Access::Terms(terms) => terms.is_exact,
            Access::All(parts) | Access::Any(parts) => parts.iter().all(Access::is_exact),
        }
    }
}

impl Plan {
    /// The items that can give a row. Only paths that are indexed are made use of.
    pub fn access(&self, is_indexed: &dyn Fn(&[Step]) -> bool) -> Access {
        let _ = is_indexed;
        Access::Everything
    }

    /// What rows are ordered by, if each key is a plain path into the item and each row can be told
    /// without knowing the others.
    pub fn order_paths(&self) -> Option<Vec<(Vec<Step>, SortOrder)>> {
        None
    }

    /// The path and direction whose first value is all that the query wants to know.
    pub fn extreme(&self) -> Option<(Vec<Step>, SortOrder)> {
        None
    }
}
