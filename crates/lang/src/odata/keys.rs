//! Derives from a filter which keys entities can have, as ranges in key order.
//!
//! Every entity has both keys, and they are strings. So a condition on keys alone, or its negation,
//! is decided without reading entities. Conditions on other properties do not restrict keys.

mod bounds;

use std::cmp::Ordering;

use query::algebra::Relation;

use super::{Condition, PARTITION_KEY, ROW_KEY};

pub use bounds::Bounds;

/// Most ranges that a filter is divided into; more than that are merged.
const RANGES_MAX: usize = 1_000;
/// Most pairs of ranges that are intersected.
const PAIRS_MAX: usize = 10_000;

/// Entities whose keys are each within bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Bounds of the partition key.
    pub partition: Bounds,
    /// Bounds of the row key.
    pub row: Bounds,
}

impl KeyRange {
    fn everything() -> Self {
        Self { partition: Bounds::everything(), row: Bounds::everything() }
    }

    /// The keys, if there can be only one entity.
    pub fn point(&self) -> Option<(&str, &str)> {
        Some((self.partition.point()?, self.row.point()?))
    }

    /// Whether an entity with these keys is in the range.
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        self.partition.contains(partition_key) && self.row.contains(row_key)
    }

    fn is_empty(&self) -> bool {
        self.partition.is_empty() || self.row.is_empty()
    }

    fn intersection(&self, other: &Self) -> Self {
        Self {
            partition: self.partition.intersection(&other.partition),
            row: self.row.intersection(&other.row),
        }
    }

    fn hull(&self, other: &Self) -> Self {
        Self { partition: self.partition.hull(&other.partition), row: self.row.hull(&other.row) }
    }

    /// Whether all key pairs between its first and its last belong to it.
    fn is_contiguous(&self) -> bool {
        self.partition.point().is_some() || self.row.is_everything()
    }

    fn cmp_start(&self, other: &Self) -> Ordering {
        let by_partition = self.partition.cmp_lower(&other.partition);
        by_partition.then_with(|| self.row.cmp_lower(&other.row))
    }
}

/// Ranges of keys, ordered: every entity of one comes before all of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRanges(Vec<KeyRange>);

impl KeyRanges {
    /// All keys.
    pub fn everything() -> Self {
        Self(vec![KeyRange::everything()])
    }

    /// All key pairs from `first` to `last`, both included. A pair without a row key stands for its
    /// whole partition; without a pair there is no bound.
    pub fn between(
        first: Option<(&str, Option<&str>)>,
        last: Option<(&str, Option<&str>)>,
    ) -> Self {
        let from = first.map_or_else(Self::everything, |(partition, row)| {
            let rest = KeyRange { partition: Bounds::above(partition), row: Bounds::everything() };
            let row = row.map_or_else(Bounds::everything, Bounds::from);
            Self(vec![KeyRange { partition: Bounds::just(partition), row }, rest])
        });
        let to = last.map_or_else(Self::everything, |(partition, row)| {
            let rest = KeyRange { partition: Bounds::below(partition), row: Bounds::everything() };
            let row = row.map_or_else(Bounds::everything, Bounds::up_to);
            Self(vec![rest, KeyRange { partition: Bounds::just(partition), row }])
        });
        from.intersection(&to)
    }

    /// The ranges, in order.
    pub fn as_slice(&self) -> &[KeyRange] {
        &self.0
    }

    /// Whether there is no range at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it contains all keys.
    pub fn is_everything(&self) -> bool {
        self.0.iter().any(|range| *range == KeyRange::everything())
    }

    /// Whether an entity with these keys is in one of the ranges.
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        self.0.iter().any(|range| range.contains(partition_key, row_key))
    }

    /// The intersection of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let pairs = self.0.iter().flat_map(|a| other.0.iter().map(|b| a.intersection(b)));
        let mut ranges: Vec<KeyRange> = pairs.filter(|range| !range.is_empty()).collect();
        ranges.sort_by(KeyRange::cmp_start);
        Self(ranges)
    }

    /// The part from a key pair on, including it.
    #[must_use]
    pub fn starting_at(&self, partition_key: &str, row_key: &str) -> Self {
        self.intersection(&Self::between(Some((partition_key, Some(row_key))), None))
    }

    /// Whether each range contains all key pairs between its first and its last.
    fn are_contiguous(&self) -> bool {
        self.0.iter().all(KeyRange::is_contiguous)
    }
}

/// The result of analysing a filter.
pub(super) struct FilterKeys {
    /// The keys of the entities that can match.
    pub(super) ranges: KeyRanges,
    /// For each condition of a conjunction, whether the ranges do not decide it.
    pub(super) residual: Vec<bool>,
}

/// Analyses a filter.
pub(super) fn keys_of_filter(condition: &Condition) -> FilterKeys {
    let conjuncts = match condition {
        Condition::All(parts) => parts.as_slice(),
        Condition::Any(_) | Condition::Not(_) | Condition::Compare { .. } => {
            std::slice::from_ref(condition)
        }
    };
    let mut list = RangeList::everything(true);
    let mut residual = Vec::with_capacity(conjuncts.len());
    for conjunct in conjuncts {
        let part = RangeList::of(conjunct, true);
        residual.push(!part.is_exact);
        list = list.and(RangeList { is_exact: true, ..part });
    }
    let (ranges, is_exact) = list.ordered();
    if !is_exact || !ranges.are_contiguous() {
        residual.fill(true);
    }
    FilterKeys { ranges, residual }
}

/// Ranges in any order, which may overlap.
#[derive(Clone)]
struct RangeList {
    ranges: Vec<KeyRange>,
    /// Whether the condition is true of exactly these keys.
    is_exact: bool,
}

impl RangeList {
    fn everything(is_exact: bool) -> Self {
        Self { ranges: vec![KeyRange::everything()], is_exact }
    }

    fn nothing() -> Self {
        Self { ranges: Vec::new(), is_exact: true }
    }

    /// The keys for which a condition can be `wanted`.
    fn of(condition: &Condition, wanted: bool) -> Self {
        match condition {
            Condition::Not(part) => Self::of(part, !wanted),
            Condition::All(parts) if wanted => Self::all(parts, wanted),
            Condition::Any(parts) if !wanted => Self::all(parts, wanted),
            Condition::All(parts) | Condition::Any(parts) => Self::any(parts, wanted),
            Condition::Compare { property, relation, literal } => {
                let range_of: fn(Bounds) -> KeyRange = match property.as_str() {
                    PARTITION_KEY => |partition| KeyRange { partition, row: Bounds::everything() },
                    ROW_KEY => |row| KeyRange { partition: Bounds::everything(), row },
                    _ => return Self::everything(false),
                };
                match literal.as_str() {
                    Some(literal) => {
                        let relation = if wanted { *relation } else { relation.negated() };
                        let ranges = bounds_of(relation, literal).into_iter().map(range_of);
                        Self { ranges: ranges.collect(), is_exact: true }
                    }
                    // Keys are strings, and other types do not compare with strings.
                    None if wanted => Self::nothing(),
                    None => Self::everything(true),
                }
            }
        }
    }

    fn all(parts: &[Condition], wanted: bool) -> Self {
        let all = Self::everything(true);
        parts.iter().fold(all, |list, part| list.and(Self::of(part, wanted)))
    }

    fn any(parts: &[Condition], wanted: bool) -> Self {
        let mut any = Self::nothing();
        for part in parts {
            let part = Self::of(part, wanted);
            any.is_exact &= part.is_exact;
            any.ranges.extend(part.ranges);
        }
        any.bounded()
    }

    fn and(self, other: Self) -> Self {
        if self.ranges.len() * other.ranges.len() > PAIRS_MAX {
            let smaller = if self.ranges.len() <= other.ranges.len() { self } else { other };
            return Self { is_exact: false, ..smaller };
        }
        let pairs = self.ranges.iter().flat_map(|a| other.ranges.iter().map(|b| a.intersection(b)));
        let ranges = pairs.filter(|range| !range.is_empty()).collect();
        Self { ranges, is_exact: self.is_exact && other.is_exact }.bounded()
    }

    /// The same list, or a superset if there are too many ranges.
    fn bounded(self) -> Self {
        if self.ranges.len() <= RANGES_MAX {
            return self;
        }
        let (KeyRanges(ranges), is_exact) = self.ordered();
        if ranges.len() <= RANGES_MAX {
            return Self { ranges, is_exact };
        }
        let hull = ranges.iter().skip(1).fold(ranges[0].clone(), |hull, range| hull.hull(range));
        Self { ranges: vec![hull], is_exact: false }
    }

    /// The ranges in order, and whether they are still exact: overlapping ranges are merged.
    fn ordered(mut self) -> (KeyRanges, bool) {
        self.ranges.sort_by(KeyRange::cmp_start);
        let mut is_exact = self.is_exact;
        let mut ordered: Vec<KeyRange> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges {
            match ordered.last_mut().map(|last| (unite(last, &range), last)) {
                None | Some((RangeUnion::Apart, _)) => ordered.push(range),
                Some((RangeUnion::Exact(joined), last)) => *last = joined,
                Some((RangeUnion::Superset(joined), last)) => {
                    is_exact = false;
                    *last = joined;
                }
            }
        }
        (KeyRanges(ordered), is_exact)
    }
}

/// The relation of two ranges, where the second does not begin before the first.
enum RangeUnion {
    /// The whole first range comes before the second.
    Apart,
    /// The union is this range.
    Exact(KeyRange),
    /// The union is a part of this range.
    Superset(KeyRange),
}

fn unite(first: &KeyRange, second: &KeyRange) -> RangeUnion {
    let is_one_partition = first.partition.point().is_some() && first.partition == second.partition;
    if !first.partition.meets(&second.partition) {
        return RangeUnion::Apart;
    }
    if is_one_partition && !first.row.meets(&second.row) {
        return RangeUnion::Apart;
    }
    let hull = first.hull(second);
    let is_exact = is_one_partition
        || hull == *first
        || first.row.is_everything() && second.row.is_everything();
    if is_exact { RangeUnion::Exact(hull) } else { RangeUnion::Superset(hull) }
}

/// The strings in a relation to `literal`.
fn bounds_of(relation: Relation, literal: &str) -> Vec<Bounds> {
    match relation {
        Relation::Equal => vec![Bounds::just(literal)],
        Relation::NotEqual => vec![Bounds::below(literal), Bounds::above(literal)],
        Relation::Less => vec![Bounds::below(literal)],
        Relation::LessOrEqual => vec![Bounds::up_to(literal)],
        Relation::Greater => vec![Bounds::above(literal)],
        Relation::GreaterOrEqual => vec![Bounds::from(literal)],
    }
}
