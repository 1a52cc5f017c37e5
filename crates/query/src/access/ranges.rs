//! Ranges of encoded values: those of a comparison with a constant, and lists of them.

use model::Value;
use model::order::bounds::{ABOVE_ALL, is_scalar, remove_hash, string_prefix, successor};
use model::order::{Tag, TypeOrder, encode};

use super::ByteRange;
use crate::compare::{Class, class_of};

/// A comparison operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderOp {
    is_below: bool,
    has_equal: bool,
}

impl OrderOp {
    pub(super) const LESS: OrderOp = OrderOp { is_below: true, has_equal: false };
    pub(super) const LESS_OR_EQUAL: OrderOp = OrderOp { is_below: true, has_equal: true };
    pub(super) const GREATER: OrderOp = OrderOp { is_below: false, has_equal: false };
    pub(super) const GREATER_OR_EQUAL: OrderOp = OrderOp { is_below: false, has_equal: true };

    /// Whether values above the other operand are excluded.
    pub(super) fn is_below(self) -> bool {
        self.is_below
    }

    /// The same with its operands exchanged.
    pub(super) fn mirrored(self) -> Self {
        Self { is_below: !self.is_below, ..self }
    }

    /// The operator that is true where this one is false.
    pub(super) fn opposite(self) -> Self {
        Self { is_below: !self.is_below, has_equal: !self.has_equal }
    }
}

/// The values for which a condition is true, and perhaps others.
#[derive(Clone, Debug)]
pub(super) struct ValueRanges {
    /// Sorted and disjoint.
    pub(super) ranges: Vec<ByteRange>,
    /// Whether there are no others.
    pub(super) is_exact: bool,
}

impl ValueRanges {
    const NONE: ValueRanges = ValueRanges { ranges: Vec::new(), is_exact: true };

    /// Some ranges, sorted and disjoint, which may contain other values too.
    pub(super) fn inexactly(ranges: Vec<ByteRange>) -> Self {
        Self { is_exact: ranges.is_empty(), ranges }
    }

    fn exactly(range: ByteRange) -> Self {
        Self::of(range, true)
    }

    fn within(range: ByteRange) -> Self {
        Self::of(range, false)
    }

    fn of(range: ByteRange, is_exact: bool) -> Self {
        let ranges = if range.lo < range.hi { vec![range] } else { Vec::new() };
        Self { ranges, is_exact }
    }

    /// The same ranges, which may contain other values too.
    pub(super) fn inexact(self) -> Self {
        Self { is_exact: false, ..self }
    }

    /// The values that equal one of `values`.
    pub(super) fn equal_to_any<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        let mut all = Self::NONE;
        for value in values {
            let Self { ranges, is_exact } = Self::equal_to(value);
            all.ranges.extend(ranges);
            all.is_exact &= is_exact;
        }
        sort_and_join(&mut all.ranges);
        all
    }

    /// The values that equal `value`. For arrays and objects only the type is known.
    pub(super) fn equal_to(value: &Value) -> Self {
        match class_of(value) {
            Class::Number if is_nan(value) => Self::NONE,
            Class::Null | Class::Bool | Class::Number | Class::String => {
                Self::exactly(ByteRange::beginning_with(encoded(value)))
            }
            Class::Array => Self::within(ByteRange::of_tag(Tag::Array)),
            Class::Object => Self::within(ByteRange::of_tag(Tag::Object)),
            Class::Foreign => Self::within(ByteRange::of_defined()),
        }
    }

    /// The values for which the comparison with `value` is true; values of other types are not
    /// among them.
    pub(super) fn compared_to(value: &Value, order: OrderOp) -> Self {
        let kind = match class_of(value) {
            Class::Number if is_nan(value) => return Self::NONE,
            Class::Null => ByteRange::of_tag(Tag::Null),
            Class::Bool => ByteRange::of_tags(Tag::False, Tag::True),
            Class::Number => ByteRange::of_tag(Tag::Number),
            Class::String => ByteRange::of_tag(Tag::String),
            Class::Array | Class::Object | Class::Foreign => return Self::NONE,
        };
        let mut encoding = encoded(value);
        let is_exact = !remove_hash(&mut encoding);
        let own = ByteRange::beginning_with(encoding);
        let has_own = order.has_equal || !is_exact;
        let (lo, hi) = match (order.is_below, has_own) {
            (true, true) => (kind.lo, own.hi),
            (true, false) => (kind.lo, own.lo),
            (false, true) => (own.lo, kind.hi),
            (false, false) => (own.hi, kind.hi),
        };
        Self::of(ByteRange { lo, hi }, is_exact)
    }

    /// The strings that begin with `prefix`.
    pub(super) fn starting_with(prefix: &str) -> Self {
        let (encoding, is_exact) = string_prefix(prefix);
        Self::of(ByteRange::beginning_with(encoding), is_exact)
    }

    pub(super) fn nulls() -> Self {
        Self::exactly(ByteRange::of_tag(Tag::Null))
    }

    pub(super) fn booleans() -> Self {
        Self::exactly(ByteRange::of_tags(Tag::False, Tag::True))
    }

    pub(super) fn numbers() -> Self {
        Self::exactly(ByteRange::of_tag(Tag::Number))
    }

    pub(super) fn strings() -> Self {
        Self::exactly(ByteRange::of_tag(Tag::String))
    }

    pub(super) fn arrays() -> Self {
        Self::exactly(ByteRange::of_tag(Tag::Array))
    }

    pub(super) fn objects() -> Self {
        Self::exactly(ByteRange::of_tag(Tag::Object))
    }

    pub(super) fn primitives() -> Self {
        Self::exactly(ByteRange::of_tags(Tag::Null, Tag::String))
    }

    pub(super) fn defined() -> Self {
        Self::exactly(ByteRange::of_defined())
    }
}

impl ByteRange {
    /// All that begin with `prefix`. No encoding is a prefix of another, so for a whole encoding
    /// this is only that one.
    /// All that begin so.
    pub fn beginning_with(prefix: Vec<u8>) -> Self {
        let hi = successor(&prefix);
        Self { lo: prefix, hi }
    }

    /// Whether it holds one value, or the strings with one beginning.
    pub(super) fn is_point(&self) -> bool {
        self.hi == successor(&self.lo)
    }

    /// The only encoded value in the range, if there is just one.
    pub fn value(&self) -> Option<&[u8]> {
        (self.is_point() && is_scalar(&self.lo)).then_some(&self.lo)
    }

    fn of_tag(tag: Tag) -> Self {
        Self::of_tags(tag, tag)
    }

    fn of_tags(first: Tag, last: Tag) -> Self {
        let [first, last] = [first, last].map(|tag| tag.byte(TypeOrder::NoSql));
        Self { lo: vec![first], hi: vec![last.saturating_add(1)] }
    }

    fn of_defined() -> Self {
        Self { lo: vec![0], hi: vec![ABOVE_ALL] }
    }
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    encode(TypeOrder::NoSql, Some(value), &mut out);
    out
}

pub(super) fn is_nan(value: &Value) -> bool {
    value.as_f64().is_some_and(f64::is_nan)
}

/// Sorts ranges and joins those that overlap or touch.
pub(super) fn sort_and_join(ranges: &mut Vec<ByteRange>) {
    ranges.sort_unstable_by(|a, b| (&a.lo, &a.hi).cmp(&(&b.lo, &b.hi)));
    ranges.dedup_by(|next, kept| {
        let joins = next.lo <= kept.hi;
        if joins && next.hi > kept.hi {
            kept.hi = std::mem::take(&mut next.hi);
        }
        joins
    });
}

/// What two sorted lists have in common.
pub(super) fn intersect(a: &[ByteRange], b: &[ByteRange]) -> Vec<ByteRange> {
    let mut out = Vec::new();
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        let (lo, hi) = ((&x.lo).max(&y.lo), (&x.hi).min(&y.hi));
        if lo < hi {
            out.push(ByteRange { lo: lo.clone(), hi: hi.clone() });
        }
        if x.hi <= y.hi {
            a.next();
        } else {
            b.next();
        }
    }
    out
}

/// One range that holds all of a sorted list.
pub(super) fn hull(ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    let mut ranges = ranges.into_iter();
    let Some(first) = ranges.next() else { return Vec::new() };
    let hi = ranges.next_back().map_or(first.hi, |last| last.hi);
    vec![ByteRange { lo: first.lo, hi }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lo: u8, hi: u8) -> ByteRange {
        ByteRange { lo: vec![lo], hi: vec![hi] }
    }

    #[test]
    fn lists_are_sorted_joined_and_intersected() {
        let mut list = vec![range(8, 9), range(1, 3), range(2, 5), range(5, 6), range(1, 2)];
        sort_and_join(&mut list);
        assert_eq!(list, [range(1, 6), range(8, 9)]);
        assert_eq!(
            intersect(&list, &[range(0, 2), range(3, 4), range(5, 20)]),
            [range(1, 2), range(3, 4), range(5, 6), range(8, 9)]
        );
        assert_eq!(intersect(&list, &[range(6, 8)]), []);
        assert_eq!(hull(list), [range(1, 9)]);
    }
}
