//! Ranges of the encoded values of one column, ascending.

use model::Value;
use model::order::bounds::successor;
use model::order::{self, Tag, TypeOrder};

use crate::access::ByteRange;
use crate::algebra::Relation;
use crate::document::index_keys::WHOLE_ARRAY;
use crate::document::{BsonType, Regex, TypeSet, types};

/// Values of a column that meet a condition, and perhaps others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ColumnRanges {
    /// In order and disjoint; none if no value meets the condition.
    pub(super) ranges: Vec<ByteRange>,
    /// Whether each range is one value.
    pub(super) are_points: bool,
    /// Whether all of these values meet the condition.
    pub(super) is_exact: bool,
    /// The values, if each range is one of them and none is an array.
    pub(super) values: Option<Vec<Value>>,
}

impl ColumnRanges {
    fn of(mut ranges: Vec<ByteRange>, is_exact: bool) -> Self {
        ranges.retain(|range| range.lo < range.hi);
        ranges.sort_by(|a, b| a.lo.cmp(&b.lo));
        Self { ranges, are_points: false, is_exact, values: None }
    }

    /// Values of some types.
    pub(super) fn of_types(types: TypeSet) -> Self {
        let tags: Vec<u8> = types.iter().map(tag_of).collect();
        let mut ranges: Vec<ByteRange> = tags.iter().map(|tag| of_tag(*tag)).collect();
        if types.contains(BsonType::Array) {
            ranges.push(of_tag(WHOLE_ARRAY));
        }
        ranges.sort_by(|a, b| a.lo.cmp(&b.lo));
        ranges.dedup();
        // Types of one class have one tag, and what is missing has that of null.
        let is_alone = |each: BsonType| {
            let own = BsonType::ALL.into_iter().filter(|other| tag_of(*other) == tag_of(each));
            own.into_iter().all(|other| types.contains(other))
        };
        let has_null = types.contains(BsonType::Null) || types.contains(BsonType::Undefined);
        let is_exact = !has_null && types.iter().all(is_alone);
        Self::of(ranges, is_exact)
    }

    /// Arrays, as elements or as a whole.
    pub(super) fn of_arrays() -> Self {
        Self::of(vec![of_tag(tag_of(BsonType::Array)), of_tag(WHOLE_ARRAY)], false)
    }

    /// Numbers, and binaries where asked for.
    pub(super) fn of_numbers(and_binaries: bool) -> Self {
        let mut types = TypeSet::default();
        types.add_numbers();
        if and_binaries {
            types.add(BsonType::Binary);
        }
        Self { is_exact: false, ..Self::of_types(types) }
    }

    /// Values in a relation to `operand`; `None` if that restricts nothing.
    pub(super) fn compared(relation: Relation, operand: &Value) -> Option<Self> {
        if relation == Relation::NotEqual {
            return None;
        }
        if relation == Relation::Equal {
            return Some(Self::equal_to(operand));
        }
        if matches!(operand, Value::MinKey | Value::MaxKey) {
            return None;
        }
        let has_equal = relation.holds(std::cmp::Ordering::Equal);
        // Nulls are equal, and so are numbers that are none; neither is more or less than another.
        if is_null_like(operand) || types::is_nan(operand) {
            return Some(if has_equal {
                Self::equal_to(operand)
            } else {
                Self::of(Vec::new(), true)
            });
        }
        let is_less = relation.holds(std::cmp::Ordering::Less);
        let tag = order::tag(TypeOrder::Bson, Some(operand));
        let (own, is_whole) = beginning_of(operand);
        let range_within = |first: &[u8]| {
            let with = |bytes: &[u8]| [first, bytes].concat();
            let class = ByteRange::beginning_with(with(&[tag]));
            let own = ByteRange::beginning_with(with(&own));
            match (is_less, has_equal || !is_whole) {
                (true, true) => ByteRange { lo: class.lo, hi: own.hi },
                (true, false) => ByteRange { lo: class.lo, hi: own.lo },
                (false, true) => ByteRange { lo: own.lo, hi: class.hi },
                (false, false) => ByteRange { lo: own.hi, hi: class.hi },
            }
        };
        let mut plain = range_within(&[]);
        if is_less && types::is_number(operand) {
            plain.lo = successor(&encoded(&Value::Double(f64::NAN)));
        }
        let is_array = matches!(operand, Value::Array(_));
        Some(match is_array {
            true => Self::of(vec![plain, range_within(&[WHOLE_ARRAY])], false),
            false => Self::of(vec![plain], is_whole),
        })
    }

    /// Values that equal `operand`.
    pub(super) fn equal_to(operand: &Value) -> Self {
        Self::equal_to_any(std::slice::from_ref(operand))
    }

    /// Values that equal one of several.
    pub(super) fn equal_to_any(operands: &[Value]) -> Self {
        let mut ranges = Vec::with_capacity(operands.len());
        let mut values = Some(Vec::with_capacity(operands.len()));
        let mut is_exact = true;
        for operand in operands {
            if is_null_like(operand) {
                ranges.extend([None, Some(&Value::Null)].map(|value| {
                    let mut bytes = Vec::new();
                    order::encode(TypeOrder::Bson, value, &mut bytes);
                    ByteRange::beginning_with(bytes)
                }));
                is_exact = false;
            } else {
                ranges.push(ByteRange::beginning_with(encoded(operand)));
            }
            if let Value::Array(_) = operand {
                let whole = [&[WHOLE_ARRAY], encoded(operand).as_slice()].concat();
                ranges.push(ByteRange::beginning_with(whole));
                values = None;
            }
            if let Some(values) = &mut values {
                values.push(operand.clone());
            }
        }
        let mut all = Self::of(ranges, is_exact);
        all.ranges.dedup();
        Self { are_points: true, values, ..all }
    }

    /// Texts that match, and the regular expression itself.
    pub(super) fn matching(regex: &Regex) -> Self {
        let text = match regex.prefix() {
            Some(prefix) => {
                let (own, _) = beginning_of(&Value::from(prefix));
                // Without the two bytes of its end, more may follow.
                let is_whole = own.ends_with(&[0, 1]);
                let kept = if is_whole { own.len() - 2 } else { own.len() };
                ByteRange::beginning_with(own.get(..kept).unwrap_or_default().to_vec())
            }
            None => of_tag(tag_of(BsonType::String)),
        };
        Self::of(vec![text, of_tag(tag_of(BsonType::Regex))], false)
    }

    /// Values that are in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        for a in &self.ranges {
            for b in &other.ranges {
                let lo = a.lo.as_slice().max(&b.lo).to_vec();
                let hi = a.hi.as_slice().min(&b.hi).to_vec();
                ranges.push(ByteRange { lo, hi });
            }
        }
        let is_exact = self.is_exact && other.is_exact;
        let are_points = self.are_points || other.are_points;
        let values = self.values.clone().or_else(|| other.values.clone());
        Self { are_points, values, ..Self::of(ranges, is_exact) }
    }

    /// Values that are in one of them.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut ranges = self.ranges.clone();
        ranges.extend(other.ranges.iter().cloned());
        let mut all = Self::of(ranges, self.is_exact && other.is_exact);
        all.ranges = joined(all.ranges);
        let values = self.values.clone().zip(other.values.clone());
        all.values = values.map(|(a, b)| a.into_iter().chain(b).collect());
        all.are_points = self.are_points && other.are_points;
        all
    }

    /// Whether all values of `self` are in `other`.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let is_inside = |range: &ByteRange| {
            other.ranges.iter().any(|outer| outer.lo <= range.lo && range.hi <= outer.hi)
        };
        self.ranges.iter().all(is_inside)
    }

    /// Whether what is missing, or null, may be among the values.
    pub(super) fn has_null(&self) -> bool {
        let null = encoded(&Value::Null);
        self.ranges.iter().any(|range| range.lo <= null && null < range.hi)
    }

    /// The lower, the fewer documents to expect.
    pub(super) fn rank(&self) -> (bool, usize, bool) {
        let is_half_open = self.ranges.iter().any(|range| {
            let tag = range.lo.first().copied().unwrap_or_default();
            range.lo == [tag] || range.hi == [tag.saturating_add(1)]
        });
        (!self.are_points, self.ranges.len(), is_half_open)
    }
}

/// Joins ranges that overlap or touch. They are in order.
fn joined(ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    let mut joined: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.lo < last.hi => last.hi = last.hi.clone().max(range.hi),
            _ => joined.push(range),
        }
    }
    joined
}

fn is_null_like(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Undefined)
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    order::encode(TypeOrder::Bson, Some(value), &mut out);
    out
}

/// What the encoding of a value and those of its neighbours begin with: all of it if it is whole,
/// else the part before it is cut.
fn beginning_of(value: &Value) -> (Vec<u8>, bool) {
    let bounded = encoded(value);
    let mut whole = Vec::with_capacity(bounded.len());
    order::encode_whole(TypeOrder::Bson, Some(value), &mut whole);
    if whole == bounded {
        return (bounded, true);
    }
    if has_binary(value) {
        // Nothing marks where the bytes of a binary end and its hash begins.
        return (bounded.get(..1).unwrap_or_default().to_vec(), false);
    }
    let common = bounded.iter().zip(&whole).take_while(|(a, b)| a == b).count();
    // A hash of 16 bytes may begin like what it stands for.
    let kept = common.min(bounded.len().saturating_sub(16));
    (bounded.get(..kept).unwrap_or_default().to_vec(), false)
}

fn has_binary(value: &Value) -> bool {
    match value {
        Value::Binary { .. } | Value::Guid(_) => true,
        Value::Array(elements) => elements.iter().any(has_binary),
        Value::Object(object) => object.iter().any(|(_, value)| has_binary(value)),
        Value::JavaScript { scope, .. } => {
            scope.as_ref().is_some_and(|scope| scope.iter().any(|(_, value)| has_binary(value)))
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::Double(_)
        | Value::Decimal128(_)
        | Value::String(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::Symbol(_)
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::MinKey
        | Value::MaxKey => false,
    }
}

fn of_tag(tag: u8) -> ByteRange {
    ByteRange { lo: vec![tag], hi: vec![tag + 1] }
}

fn tag_of(bson_type: BsonType) -> u8 {
    let tag = match bson_type {
        BsonType::MinKey => Tag::MinKey,
        BsonType::Double | BsonType::Int32 | BsonType::Int64 | BsonType::Decimal128 => Tag::Number,
        BsonType::String => Tag::String,
        BsonType::Document => Tag::Object,
        BsonType::Array => Tag::Array,
        BsonType::Binary => Tag::Binary,
        BsonType::Undefined => Tag::Undefined,
        BsonType::ObjectId => Tag::ObjectId,
        BsonType::Bool => Tag::True,
        BsonType::Date => Tag::Date,
        BsonType::Null => Tag::Null,
        BsonType::Regex => Tag::Regex,
        BsonType::DbPointer => Tag::DbPointer,
        BsonType::JavaScript => Tag::Code,
        BsonType::Symbol => Tag::Symbol,
        BsonType::JavaScriptWithScope => Tag::CodeWithScope,
        BsonType::Timestamp => Tag::Timestamp,
        BsonType::MaxKey => Tag::MaxKey,
    };
    tag.byte(TypeOrder::Bson)
}
