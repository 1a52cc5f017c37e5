//! Ranges of encoded values: those of a comparison with a constant, and lists of them.

use model::Value;
use model::order::{STRING_BYTES_MAX, TypeOrder, encode};

use super::ByteRange;
use crate::compare::{Class, class_of};

/// First byte of the encodings of a kind.
const NULL: u8 = 0x18;
const FALSE: u8 = 0x20;
const TRUE: u8 = 0x28;
const NUMBER: u8 = 0x30;
const STRING: u8 = 0x38;
const ARRAY: u8 = 0x40;
const OBJECT: u8 = 0x48;
/// Above the tags of all kinds.
const ABOVE_ALL: u8 = 0xFF;
/// Follows the beginning of a string that was cut, before the hash of the whole string.
const CUT_END: [u8; 2] = [0x00, 0x02];
const CUT_HASH_BYTES: usize = 16;
/// An encoded number has at least this many bytes.
const NUMBER_BYTES_MIN: usize = 9;

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
            Class::Array => Self::within(ByteRange::of_tag(ARRAY)),
            Class::Object => Self::within(ByteRange::of_tag(OBJECT)),
            Class::Foreign => Self::within(ByteRange::of_defined()),
        }
    }

    /// The values for which the comparison with `value` is true; values of other types are not
    /// among them.
    pub(super) fn compared_to(value: &Value, order: OrderOp) -> Self {
        let kind = match class_of(value) {
            Class::Number if is_nan(value) => return Self::NONE,
            Class::Null => ByteRange::of_tag(NULL),
            Class::Bool => ByteRange::of_tags(FALSE, TRUE),
            Class::Number => ByteRange::of_tag(NUMBER),
            Class::String => ByteRange::of_tag(STRING),
            Class::Array | Class::Object | Class::Foreign => return Self::NONE,
        };
        let mut encoding = encoded(value);
        let is_exact = !value.as_str().is_some_and(is_cut);
        if !is_exact {
            // Strings with the same beginning are ordered by their hashes.
            encoding.truncate(encoding.len() - CUT_HASH_BYTES);
        }
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
        let mut encoding = encoded(&Value::from(prefix));
        let is_exact = !is_cut(prefix);
        let end = if is_exact { CUT_END.len() } else { CUT_HASH_BYTES };
        encoding.truncate(encoding.len() - end);
        Self::of(ByteRange::beginning_with(encoding), is_exact)
    }

    pub(super) fn nulls() -> Self {
        Self::exactly(ByteRange::of_tag(NULL))
    }

    pub(super) fn booleans() -> Self {
        Self::exactly(ByteRange::of_tags(FALSE, TRUE))
    }

    pub(super) fn numbers() -> Self {
        Self::exactly(ByteRange::of_tag(NUMBER))
    }

    pub(super) fn strings() -> Self {
        Self::exactly(ByteRange::of_tag(STRING))
    }

    pub(super) fn arrays() -> Self {
        Self::exactly(ByteRange::of_tag(ARRAY))
    }

    pub(super) fn objects() -> Self {
        Self::exactly(ByteRange::of_tag(OBJECT))
    }

    pub(super) fn primitives() -> Self {
        Self::exactly(ByteRange::of_tags(NULL, STRING))
    }

    pub(super) fn defined() -> Self {
        Self::exactly(ByteRange::of_defined())
    }
}

impl ByteRange {
    /// All that begin with `prefix`. No encoding is a prefix of another, so for a whole encoding
    /// this is only that one.
    fn beginning_with(prefix: Vec<u8>) -> Self {
        let hi = successor(&prefix);
        Self { lo: prefix, hi }
    }

    /// Whether it holds one value, or the strings with one beginning.
    pub(super) fn is_point(&self) -> bool {
        self.hi == successor(&self.lo)
    }

    /// The only encoded value in the range, if there is just one.
    pub fn value(&self) -> Option<&[u8]> {
        (self.is_point() && is_whole_term(&self.lo)).then_some(&self.lo)
    }

    fn of_tag(tag: u8) -> Self {
        Self::of_tags(tag, tag)
    }

    fn of_tags(first: u8, last: u8) -> Self {
        Self { lo: vec![first], hi: vec![last.saturating_add(1)] }
    }

    fn of_defined() -> Self {
        Self { lo: vec![0], hi: vec![ABOVE_ALL] }
    }
}

/// Whether the term of a string holds only its beginning and a hash.
pub(super) fn is_cut_term(encoded: &[u8]) -> bool {
    end_of_string(encoded).is_some_and(|end| end.starts_with(&CUT_END))
}

/// What follows the string in its term; `None` if it is not the term of a string or has no end.
fn end_of_string(encoded: &[u8]) -> Option<&[u8]> {
    let mut body = encoded.strip_prefix(&[STRING])?;
    while let Some((&byte, rest)) = body.split_first() {
        match (byte, rest.first()) {
            // Zero stands for itself only before FF.
            (0x00, Some(0xFF)) => body = rest.get(1..).unwrap_or_default(),
            (0x00, _) => return Some(body),
            _ => body = rest,
        }
    }
    None
}

/// Whether a term holds the whole value and the value is neither array nor object.
fn is_whole_term(encoded: &[u8]) -> bool {
    match encoded {
        [NULL | FALSE | TRUE] => true,
        [NUMBER, body @ ..] => body.len() >= NUMBER_BYTES_MIN,
        [STRING, ..] => {
            end_of_string(encoded).is_some_and(|end| match end.strip_prefix(&CUT_END) {
                Some(hash) => hash.len() == CUT_HASH_BYTES,
                None => end.len() == CUT_END.len(),
            })
        }
        _ => false,
    }
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    encode(TypeOrder::NoSql, Some(value), &mut out);
    out
}

fn is_nan(value: &Value) -> bool {
    value.as_f64().is_some_and(f64::is_nan)
}

/// Whether the encoding of a text is cut. Zero bytes take two bytes each.
fn is_cut(text: &str) -> bool {
    let zeros = text.bytes().filter(|byte| *byte == 0).count();
    text.len() + zeros > STRING_BYTES_MAX
}

/// The least value above all that begin with `prefix`, which begins with a tag.
fn successor(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX).map_or(0, |last| last + 1);
    let mut out = prefix.get(..kept).unwrap_or_default().to_vec();
    match out.last_mut() {
        Some(last) => *last += 1,
        None => out.push(ABOVE_ALL),
    }
    out
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

    #[test]
    fn successors_are_above_all_that_begin_alike() {
        assert_eq!(successor(&[0x38, 0x61]), [0x38, 0x62]);
        assert_eq!(successor(&[0x38, 0xFF, 0xFF]), [0x39]);
    }

    #[test]
    fn terms_of_long_strings_are_told_from_others() {
        let is_cut = |text: &str| is_cut_term(&encoded(&Value::from(text)));
        for text in ["", "a", "\0", "a\0b", "\u{10FFFF}", &"x".repeat(512)] {
            assert!(!is_cut(text), "{text:?}");
        }
        for text in [&"x".repeat(513), &"\0".repeat(257), &format!("{}\0", "x".repeat(511))] {
            assert!(is_cut(text), "{text:?}");
        }
        assert!(!is_cut_term(&[ARRAY]) && !is_cut_term(&[]));
    }
}
