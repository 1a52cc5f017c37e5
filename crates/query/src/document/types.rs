//! The types of BSON: their numbers, their names, and the classes within which values compare.

use std::cmp::Ordering;

use model::Value;
use model::decimal::Decimal;
use model::order::TypeOrder;

/// A type of BSON. The discriminant is its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each name is the type")]
#[repr(i8)]
pub enum BsonType {
    MinKey = -1,
    Double = 1,
    String = 2,
    Object = 3,
    Array = 4,
    BinData = 5,
    Undefined = 6,
    ObjectId = 7,
    Bool = 8,
    Date = 9,
    Null = 10,
    Regex = 11,
    DbPointer = 12,
    JavaScript = 13,
    Symbol = 14,
    JavaScriptWithScope = 15,
    Int = 16,
    Timestamp = 17,
    Long = 18,
    Decimal = 19,
    MaxKey = 127,
}

impl BsonType {
    const ALL: [BsonType; 21] = [
        BsonType::MinKey,
        BsonType::Double,
        BsonType::String,
        BsonType::Object,
        BsonType::Array,
        BsonType::BinData,
        BsonType::Undefined,
        BsonType::ObjectId,
        BsonType::Bool,
        BsonType::Date,
        BsonType::Null,
        BsonType::Regex,
        BsonType::DbPointer,
        BsonType::JavaScript,
        BsonType::Symbol,
        BsonType::JavaScriptWithScope,
        BsonType::Int,
        BsonType::Timestamp,
        BsonType::Long,
        BsonType::Decimal,
        BsonType::MaxKey,
    ];

    /// The type of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => BsonType::Null,
            Value::Bool(_) => BsonType::Bool,
            Value::Int32(_) => BsonType::Int,
            Value::Int64(_) => BsonType::Long,
            Value::Double(_) => BsonType::Double,
            Value::Decimal128(_) => BsonType::Decimal,
            Value::String(_) => BsonType::String,
            Value::Binary { .. } | Value::Guid(_) => BsonType::BinData,
            Value::Date(_) => BsonType::Date,
            Value::ObjectId(_) => BsonType::ObjectId,
            Value::Timestamp { .. } => BsonType::Timestamp,
            Value::Regex { .. } => BsonType::Regex,
            Value::JavaScript { scope: None, .. } => BsonType::JavaScript,
            Value::JavaScript { scope: Some(_), .. } => BsonType::JavaScriptWithScope,
            Value::Symbol(_) => BsonType::Symbol,
            Value::Undefined => BsonType::Undefined,
            Value::DbPointer { .. } => BsonType::DbPointer,
            Value::Array(_) => BsonType::Array,
            Value::Object(_) => BsonType::Object,
            Value::MinKey => BsonType::MinKey,
            Value::MaxKey => BsonType::MaxKey,
        }
    }

    /// The number on the wire.
    pub fn number(self) -> i8 {
        self as i8
    }

    /// The type with this number.
    pub fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|each| i64::from(each.number()) == number)
    }

    /// The name that `$type` knows it by.
    pub fn alias(self) -> &'static str {
        match self {
            BsonType::MinKey => "minKey",
            BsonType::Double => "double",
            BsonType::String => "string",
            BsonType::Object => "object",
            BsonType::Array => "array",
            BsonType::BinData => "binData",
            BsonType::Undefined => "undefined",
            BsonType::ObjectId => "objectId",
            BsonType::Bool => "bool",
            BsonType::Date => "date",
            BsonType::Null => "null",
            BsonType::Regex => "regex",
            BsonType::DbPointer => "dbPointer",
            BsonType::JavaScript => "javascript",
            BsonType::Symbol => "symbol",
            BsonType::JavaScriptWithScope => "javascriptWithScope",
            BsonType::Int => "int",
            BsonType::Timestamp => "timestamp",
            BsonType::Long => "long",
            BsonType::Decimal => "decimal",
            BsonType::MaxKey => "maxKey",
        }
    }

    /// The type that `$type` knows by this name.
    pub fn of_alias(alias: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.alias() == alias)
    }

    fn bit(self) -> u32 {
        let at = Self::ALL.iter().position(|each| *each == self).unwrap_or_default();
        1 << at
    }
}

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSet(u32);

impl TypeSet {
    /// Adds a type.
    pub fn add(&mut self, added: BsonType) {
        self.0 |= added.bit();
    }

    /// Adds the four types of numbers, which have a name of their own.
    pub fn add_numbers(&mut self) {
        [BsonType::Int, BsonType::Long, BsonType::Double, BsonType::Decimal]
            .into_iter()
            .for_each(|each| self.add(each));
    }

    /// Whether `contained` is in the set.
    pub fn contains(self, contained: BsonType) -> bool {
        self.0 & contained.bit() != 0
    }

    /// Whether no type is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The types of the set.
    pub fn iter(self) -> impl Iterator<Item = BsonType> {
        BsonType::ALL.into_iter().filter(move |each| self.contains(*each))
    }
}

/// Compares two values in the total order of BSON; a missing value is below null.
pub fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    model::order::compare(TypeOrder::Bson, a, b)
}

/// Whether two values are equal: numbers by value, objects with their fields in order.
pub fn equal(a: &Value, b: &Value) -> bool {
    compare(Some(a), Some(b)).is_eq()
}

/// Whether two values are the same in type, too, so that storing one for the other changes no byte.
pub fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| identical(a, b))
        }
        (Value::Object(a), Value::Object(b)) => identical_objects(a, b),
        (Value::JavaScript { code, scope }, Value::JavaScript { code: c, scope: s }) => {
            code == c
                && match (scope, s) {
                    (Some(a), Some(b)) => identical_objects(a, b),
                    (a, b) => a.is_none() && b.is_none(),
                }
        }
        _ => a == b,
    }
}

fn identical_objects(a: &model::Object, b: &model::Object) -> bool {
    let mut pairs = a.iter().zip(b.iter());
    a.len() == b.len() && pairs.all(|((m, a), (n, b))| m == n && identical(a, b))
}

/// Whether two values are of one class, within which comparisons of filters are decided.
pub(crate) fn same_class(a: &Value, b: &Value) -> bool {
    model::order::tag(TypeOrder::Bson, Some(a)) == model::order::tag(TypeOrder::Bson, Some(b))
}

/// Whether a value is a number that is not one.
pub(crate) fn is_nan(value: &Value) -> bool {
    if let Value::Double(n) = value {
        return n.is_nan();
    }
    let Value::Decimal128(bytes) = value else { return false };
    matches!(Decimal::from_bson(bytes), Decimal::NaN)
}

/// Whether a value counts as true: all but false, null, undefined and zero.
pub fn is_truthy(value: &Value) -> bool {
    if let Value::Bool(value) = value {
        return *value;
    }
    if is_number(value) {
        return !equal(value, &Value::Int32(0));
    }
    !matches!(BsonType::of(value), BsonType::Null | BsonType::Undefined)
}

/// The double nearest to a number of any type.
pub fn to_f64(value: &Value) -> Option<f64> {
    if let Value::Decimal128(bytes) = value {
        return Some(Decimal::from_bson(bytes).to_f64());
    }
    value.as_f64()
}

/// Whether a value is a number.
pub fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_numbers_and_names() {
        for each in BsonType::ALL {
            assert_eq!(BsonType::of_alias(each.alias()), Some(each));
            assert_eq!(BsonType::of_number(i64::from(each.number())), Some(each));
        }
        assert_eq!(BsonType::of_number(20), None);
        assert_eq!(BsonType::of_alias("number"), None);
    }

    #[test]
    fn equal_values_of_different_types_are_not_identical() {
        let pairs = [
            (Value::Int32(1), Value::Double(1.0)),
            (Value::Double(0.0), Value::Double(-0.0)),
            (Value::Array(vec![Value::Int32(1)]), Value::Array(vec![Value::Int64(1)])),
        ];
        for (a, b) in pairs {
            assert!(equal(&a, &b) && !identical(&a, &b), "{a:?} {b:?}");
        }
        assert!(identical(&Value::Double(f64::NAN), &Value::Double(f64::NAN)));
    }
}
