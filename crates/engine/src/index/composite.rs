//! Conditions on several values of an item at once, by a composite index.
//!
//! Entries of a composite index lie together if their first columns are equal. So a set is one
//! range of the index, or a few, as far as its conditions require certain values of the first
//! columns and, for at most one column behind them, a range of values.

use model::order;
use model::{PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, Value};
use query::access::{ByteRange, IndexSet, Step, Terms};

use super::{Composite, CompositeColumn, Indexes, TERM_ORDER};
use crate::keys;

/// Most ranges that are scanned.
const RANGES_MAX: usize = 64;
/// Up to here the numbers of keys, which are doubles, equal those of items.
const EXACT_NUMBER_MAX: f64 = 9_007_199_254_740_991.0;

/// The value that a column has in all items of the set: its path, and its encoded form.
type KnownValue = (Vec<Step>, Vec<u8>);

/// The ranges of a composite index that have all items of a set.
#[derive(Debug)]
pub(crate) struct CompositeRanges<'i> {
    pub(crate) composite: &'i Composite,
    /// Ranges of its entries.
    pub(crate) ranges: Vec<ByteRange>,
    /// Whether the ranges have no other items.
    pub(crate) is_exact: bool,
    /// How many columns the ranges restrict.
    columns: usize,
}

/// The values that all items of a logical partition have.
pub(crate) fn known_values(
    definition: &PartitionKeyDefinition,
    key: &PartitionKey,
) -> Vec<KnownValue> {
    if definition.is_system {
        return Vec::new();
    }
    let pairs = definition.paths.iter().zip(&key.0);
    let known = pairs.filter_map(|(path, component)| {
        let value = match component {
            PartitionKeyComponent::Undefined => None,
            PartitionKeyComponent::Null => Some(Value::Null),
            PartitionKeyComponent::Bool(bool) => Some(Value::Bool(*bool)),
            PartitionKeyComponent::Number(n) if n.abs() > EXACT_NUMBER_MAX => return None,
            PartitionKeyComponent::Number(n) => Some(Value::Double(*n)),
            PartitionKeyComponent::String(text) => Some(Value::from(text.as_str())),
            PartitionKeyComponent::Encoded(_) => return None,
        };
        let mut encoded = Vec::with_capacity(24);
        order::encode(TERM_ORDER, value.as_ref(), &mut encoded);
        Some((path.segments().iter().cloned().map(Step::Name).collect(), encoded))
    });
    known.collect()
}

impl Indexes {
    /// The composite index that serves the most conditions of a set, if one serves two or more.
    pub(crate) fn composite_ranges(
        &self,
        index_set: &IndexSet,
        known: &[KnownValue],
    ) -> Option<CompositeRanges<'_>> {
        let complete = self.goal.policy.composites.iter().filter(|c| self.has_composite(c));
        let composite_ranges =
            complete.filter_map(|composite| combine(composite, index_set, known));
        composite_ranges.max_by_key(|composite_ranges| composite_ranges.columns)
    }
}

fn combine<'i>(
    composite: &'i Composite,
    index_set: &IndexSet,
    known: &[KnownValue],
) -> Option<CompositeRanges<'i>> {
    let parts = parts_of(index_set);
    let mut conditions: Vec<&Terms> = Vec::with_capacity(parts.len());
    for part in parts {
        if let IndexSet::Terms(terms) = part {
            conditions.push(terms);
        }
    }
    let mut beginning = Vec::with_capacity(9);
    keys::push_composite_term(composite.number(), &mut beginning);
    let mut beginnings = vec![beginning];
    let mut ranges: Option<Vec<ByteRange>> = None;
    let mut used: Vec<&Terms> = Vec::new();
    let mut columns = 0;
    for column in &composite.columns {
        if let Some((_, value)) = known.iter().find(|(path, _)| column.is_path(path)) {
            beginnings = with_values(&beginnings, [value.as_slice()], column);
            columns += 1;
            continue;
        }
        let Some(terms) = conditions.iter().find(|terms| column.is_path(&terms.path)) else {
            break;
        };
        if beginnings.len() * terms.ranges.len() > RANGES_MAX {
            break;
        }
        used.push(terms);
        columns += 1;
        let values: Option<Vec<&[u8]>> = terms.ranges.iter().map(ByteRange::value).collect();
        match values {
            Some(values) => beginnings = with_values(&beginnings, values, column),
            None => {
                ranges = Some(with_ranges(&beginnings, &terms.ranges, column));
                break;
            }
        }
    }
    if columns < 2 || used.is_empty() {
        return None;
    }
    let whole = |from: &Vec<u8>| ByteRange { lo: from.clone(), hi: keys::successor(from) };
    let ranges = ranges.unwrap_or_else(|| beginnings.iter().map(whole).collect());
    let is_exact = index_set.is_exact() && parts.len() == used.len();
    Some(CompositeRanges { composite, ranges, is_exact, columns })
}

/// The sets of which a set is the intersection.
fn parts_of(index_set: &IndexSet) -> &[IndexSet] {
    match index_set {
        IndexSet::All(parts) => parts,
        IndexSet::Everything | IndexSet::Nothing | IndexSet::Terms(_) | IndexSet::Any(_) => {
            std::slice::from_ref(index_set)
        }
    }
}

/// Each beginning, followed by each of the values of a column.
fn with_values<'v>(
    beginnings: &[Vec<u8>],
    values: impl IntoIterator<Item = &'v [u8], IntoIter: Clone>,
    column: &CompositeColumn,
) -> Vec<Vec<u8>> {
    let values = values.into_iter();
    let with = |from: &[u8], value: &[u8]| [from, &as_stored(value, column)].concat();
    beginnings.iter().flat_map(|from| values.clone().map(move |value| with(from, value))).collect()
}

/// The entries that begin so and continue with a value of a range.
fn with_ranges(
    beginnings: &[Vec<u8>],
    ranges: &[ByteRange],
    column: &CompositeColumn,
) -> Vec<ByteRange> {
    let with = |from: &Vec<u8>, range: &ByteRange| {
        let lo = [from.as_slice(), &as_stored(&range.lo, column)].concat();
        let hi = [from.as_slice(), &as_stored(&range.hi, column)].concat();
        match column.is_descending {
            false => ByteRange { lo, hi },
            // Complemented values sort in the opposite order: what was below all values that begin
            // so is above them now.
            true => ByteRange { lo: keys::successor(&hi), hi: keys::successor(&lo) },
        }
    };
    beginnings.iter().flat_map(|from| ranges.iter().map(move |range| with(from, range))).collect()
}

/// An encoded value, or the beginning of one, as a column stores it.
fn as_stored(encoded: &[u8], column: &CompositeColumn) -> Vec<u8> {
    match column.is_descending {
        false => encoded.to_vec(),
        true => encoded.iter().map(|byte| !byte).collect(),
    }
}
