//! Which keys of an ordered index a filter needs, and which sorts the index has already.
//!
//! A condition on the path of a column becomes ranges of its encoded values: of the class of the
//! operand only, as filters compare. The first columns are restricted as long as each has certain
//! values, and one more by ranges.
//!
//! Where a column is *multikey*, two conditions may be met by two elements of an array, so their
//! ranges are not intersected: one of the conditions is used, and the filter decides about the
//! rest. Of several columns that lead through one array only the first is restricted, for the same
//! reason.

mod conditions;
mod ranges;

use model::order::bounds::successor;

use super::Predicate;
use super::index_keys::{ColumnKind, IndexColumn, OrderedIndex, WHOLE_ARRAY, complement, hash_of};
use crate::access::ByteRange;

use conditions::{Condition, conditions_of, is_implied};
use ranges::ColumnRanges;

/// Most ranges of several columns.
const RANGES_MAX: usize = 2_000;

/// The keys of an index that a filter needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBounds {
    /// Ranges of keys, in order and disjoint.
    pub ranges: Vec<ByteRange>,
    /// What the keys of all ranges begin with: the values of the first columns that have just one.
    pub prefix: Vec<u8>,
    /// How many columns the prefix holds.
    pub fixed: usize,
    /// How many columns are restricted.
    pub columns: usize,
    /// Whether the restricted columns have certain values, not ranges of values.
    pub has_points: bool,
    /// Whether the keys are those of exactly the documents that match.
    pub is_exact: bool,
}

/// An index, and which of its columns have led through an array.
#[derive(Clone, Copy, Debug)]
pub struct IndexState<'i> {
    /// The index.
    pub index: &'i OrderedIndex,
    /// A bit for each column.
    pub multikey: u64,
}

/// How an index returns documents in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortUse {
    /// The first column of the order; those before have one value each.
    pub first: usize,
    /// Whether the index is scanned backwards.
    pub is_reverse: bool,
    /// Whether a document may have several keys, of which only the first in the scan counts
    /// ([`OrderedIndex::first_key`]).
    pub has_repetitions: bool,
}

/// A use of one of several indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexUse {
    /// Which index.
    pub index: usize,
    /// The keys that the filter needs.
    pub bounds: IndexBounds,
    /// Whether its order is the order asked for.
    pub sort: Option<SortUse>,
}

impl IndexState<'_> {
    fn is_multikey(&self, column: usize) -> bool {
        self.multikey >> (column % 64) & 1 == 1
    }

    /// The keys that `filter` needs; `None` if the filter restricts no column, or may accept
    /// documents that the index leaves out.
    pub fn bounds(&self, filter: &Predicate) -> Option<IndexBounds> {
        let conditions = conditions_of(filter);
        if !self.has_all(&conditions.parts) {
            return None;
        }
        let bounds = self.bounds_of(&conditions.parts, conditions.are_all);
        (bounds.columns > 0).then_some(bounds)
    }

    /// The keys of all documents, if the index has every document that `filter` accepts.
    pub fn everything(&self, filter: Option<&Predicate>) -> Option<IndexBounds> {
        let conditions = filter.map(conditions_of).unwrap_or_default();
        self.has_all(&conditions.parts).then(|| self.bounds_of(&[], false))
    }

    /// Whether documents that the index leaves out can't meet the conditions.
    fn has_all(&self, conditions: &[Condition]) -> bool {
        let needs_value = |column: &IndexColumn| {
            let mut own = conditions.iter().filter(|c| c.path == column.path.as_str());
            own.any(Condition::needs_value)
        };
        let is_complete = !self.index.is_sparse || self.index.columns.iter().any(needs_value);
        let filter = self.index.partial.as_ref();
        is_complete && filter.is_none_or(|filter| is_implied(filter, conditions))
    }

    fn bounds_of(&self, conditions: &[Condition], are_all: bool) -> IndexBounds {
        let mut beginnings: Vec<Vec<u8>> = vec![Vec::new()];
        let mut last: Option<(Vec<ByteRange>, ColumnKind)> = None;
        let mut prefix = Vec::new();
        let (mut fixed, mut columns) = (0, 0);
        let mut used = 0;
        let mut is_exact = are_all;
        for (at, column) in self.index.columns.iter().enumerate() {
            let own = conditions.iter().filter(|c| c.path == column.path.as_str());
            let own: Vec<&Condition> = own.filter(|c| c.ranges.is_some()).collect();
            if own.is_empty() || self.shares_array(at, columns) {
                break;
            }
            let (ranges, count) = self.column_ranges(at, &own);
            let Some(ranges) = ranges.for_kind(column.kind) else { break };
            if beginnings.len().saturating_mul(ranges.ranges.len()) > RANGES_MAX && columns > 0 {
                break;
            }
            used += count;
            columns += 1;
            is_exact &= ranges.is_exact && column.kind != ColumnKind::Hashed;
            if !ranges.are_points {
                last = Some((ranges.ranges, column.kind));
                break;
            }
            let points: Vec<Vec<u8>> =
                ranges.ranges.iter().map(|range| stored(&range.lo, column.kind)).collect();
            if points.len() == 1 && fixed == at {
                fixed += 1;
                prefix.extend_from_slice(&points[0]);
            }
            beginnings = beginnings
                .iter()
                .flat_map(|from| points.iter().map(move |point| [from.as_slice(), point].concat()))
                .collect();
        }
        let has_points = last.is_none();
        let next_kind = self.index.columns.get(columns).map(|column| column.kind);
        let mut ranges = match last {
            Some((ranges, kind)) => with_ranges(&beginnings, &ranges, kind),
            None => beginnings.iter().map(|from| beginning_with(from, next_kind)).collect(),
        };
        ranges.sort_by(|a, b| a.lo.cmp(&b.lo));
        // Several values of an array are several keys.
        let is_single = (0..columns).all(|column| !self.is_multikey(column));
        let is_exact = is_exact && is_single && used == conditions.len();
        IndexBounds { ranges, prefix, fixed, columns, has_points, is_exact }
    }

    /// Whether a column leads through an array that one of the first `before` columns leads through
    /// as well.
    fn shares_array(&self, column: usize, before: usize) -> bool {
        let first_part = |column: usize| {
            let column = self.index.columns.get(column)?;
            column.path.parts().first().map(|part| part.name.as_str())
        };
        let is_shared =
            |other: usize| self.is_multikey(other) && first_part(other) == first_part(column);
        self.is_multikey(column) && (0..before).any(is_shared)
    }

    /// The ranges of a column, and how many of the conditions they stand for.
    fn column_ranges(&self, column: usize, conditions: &[&Condition]) -> (ColumnRanges, usize) {
        let all = conditions.iter().filter_map(|condition| condition.ranges.clone());
        if !self.is_multikey(column) {
            let both = all.reduce(|a, b| a.intersection(&b));
            return (both.unwrap_or_default(), conditions.len());
        }
        (all.min_by_key(ColumnRanges::rank).unwrap_or_default(), 1)
    }

    /// How the index returns the documents within `bounds` in the order of `sort`; `None` if it has
    /// another order.
    pub fn sort_use(&self, bounds: &IndexBounds, sort: &[IndexColumn]) -> Option<SortUse> {
        let first = bounds.fixed;
        let fixed = self.index.columns.get(..first).unwrap_or_default();
        let is_fixed = |key: &&IndexColumn| {
            let mut fixed = fixed.iter().enumerate();
            fixed.any(|(at, column)| column.path == key.path && !self.is_multikey(at))
        };
        let keys: Vec<&IndexColumn> = sort.iter().filter(|key| !is_fixed(key)).collect();
        let rest = self.index.columns.get(first..).unwrap_or_default();
        if keys.len() > rest.len() || rest.iter().any(|c| c.kind == ColumnKind::Hashed) {
            return None;
        }
        let fits = |is_reverse: bool| {
            keys.iter().zip(rest).all(|(key, column)| {
                key.path == column.path && (key.kind == column.kind) != is_reverse
            })
        };
        let is_reverse = !fits(false);
        if is_reverse && !fits(true) {
            return None;
        }
        let is_restricted = bounds.columns > bounds.fixed;
        let fixed_has_arrays = (0..first).any(|column| self.is_multikey(column));
        let has_arrays = (first..self.index.columns.len()).any(|column| self.is_multikey(column));
        // The first of all keys of a document decides, which need not be within the bounds.
        if has_arrays && (is_restricted || fixed_has_arrays) {
            return None;
        }
        Some(SortUse { first, is_reverse, has_repetitions: has_arrays })
    }
}

/// The index that serves a filter and a sort best: one whose order is asked for and whose keys are
/// restricted, else the one with the most values that are certain; one with the order alone if no
/// other restricts anything. `None` if none is better than reading all documents.
pub fn choose(
    indexes: &[IndexState<'_>],
    filter: Option<&Predicate>,
    sort: &[IndexColumn],
) -> Option<IndexUse> {
    let mut best: Option<(Rank, IndexUse)> = None;
    for (index, state) in indexes.iter().enumerate() {
        let bounds = filter.and_then(|filter| state.bounds(filter));
        let is_restricted = bounds.is_some();
        let everything = || state.everything(filter).filter(|_| !sort.is_empty());
        let Some(bounds) = bounds.or_else(everything) else { continue };
        let sort_use = state.sort_use(&bounds, sort).filter(|_| !sort.is_empty());
        if !is_restricted && sort_use.is_none() {
            continue;
        }
        let rank = Rank {
            is_restricted,
            fixed: bounds.fixed,
            has_points: bounds.has_points,
            is_sorted: sort_use.is_some(),
            columns: bounds.columns,
        };
        if best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, IndexUse { index, bounds, sort: sort_use }));
        }
    }
    best.map(|(_, index_use)| index_use)
}

/// The more, the better; what comes first decides first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_restricted: bool,
    fixed: usize,
    has_points: bool,
    is_sorted: bool,
    columns: usize,
}

/// Keys that begin so, without those of whole arrays in the next column: each document with such a
/// key has another one.
fn beginning_with(from: &[u8], next: Option<ColumnKind>) -> ByteRange {
    let with = |byte: u8| [from, &[byte]].concat();
    match next {
        None | Some(ColumnKind::Hashed) => {
            let hi =
                if from.is_empty() { vec![super::index_keys::ABOVE_KEYS] } else { successor(from) };
            ByteRange { lo: from.to_vec(), hi }
        }
        Some(ColumnKind::Ascending) => ByteRange { lo: from.to_vec(), hi: with(WHOLE_ARRAY) },
        Some(ColumnKind::Descending) => {
            let hi = with(super::index_keys::ABOVE_KEYS);
            ByteRange { lo: with(!WHOLE_ARRAY + 1), hi }
        }
    }
}

/// The keys that begin so and continue with a value of a range.
fn with_ranges(beginnings: &[Vec<u8>], ranges: &[ByteRange], kind: ColumnKind) -> Vec<ByteRange> {
    let with = |from: &Vec<u8>, range: &ByteRange| {
        let lo = [from.as_slice(), &stored(&range.lo, kind)].concat();
        let hi = [from.as_slice(), &stored(&range.hi, kind)].concat();
        match kind {
            ColumnKind::Ascending | ColumnKind::Hashed => ByteRange { lo, hi },
            // What was below all values that begin so is above them now.
            ColumnKind::Descending => ByteRange { lo: successor(&hi), hi: successor(&lo) },
        }
    };
    beginnings.iter().flat_map(|from| ranges.iter().map(move |range| with(from, range))).collect()
}

/// An encoded value, or the beginning of one, as a column holds it.
fn stored(encoded: &[u8], kind: ColumnKind) -> Vec<u8> {
    let mut out = encoded.to_vec();
    if kind == ColumnKind::Descending {
        complement(&mut out);
    }
    out
}

impl ColumnRanges {
    /// The ranges as a column of this kind can be searched for them.
    fn for_kind(self, kind: ColumnKind) -> Option<Self> {
        if kind != ColumnKind::Hashed {
            return Some(self);
        }
        let values = self.values?;
        let mut ranges: Vec<ByteRange> =
            values.iter().map(|value| ByteRange::beginning_with(hash_of(value).to_vec())).collect();
        ranges.sort_by(|a, b| a.lo.cmp(&b.lo));
        ranges.dedup();
        Some(Self { ranges, are_points: true, is_exact: false, values: None })
    }
}

#[cfg(test)]
mod tests;
