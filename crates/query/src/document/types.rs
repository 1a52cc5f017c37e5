//! The types of BSON: their numbers, their names, and the classes within which values compare.

use std::cmp::Ordering;

use model::Value;
use model::decimal::Decimal;
use model::order::TypeOrder;

pub use model::bson::ElementType as BsonType;

/// The type with this number.
pub fn type_of_number(number: i64) -> Option<BsonType> {
    BsonType::ALL.into_iter().find(|each| i64::from(each.number()) == number)
}

fn bit(of: BsonType) -> u32 {
    let at = BsonType::ALL.iter().position(|each| *each == of).unwrap_or_default();
    1 << at
}

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSet(u32);

impl TypeSet {
    /// Adds a type.
    pub fn add(&mut self, added: BsonType) {
        self.0 |= bit(added);
    }

    /// Adds the four types of numbers, which have a name of their own.
    pub fn add_numbers(&mut self) {
        [BsonType::Int32, BsonType::Int64, BsonType::Double, BsonType::Decimal128]
            .into_iter()
            .for_each(|each| self.add(each));
    }

    /// Whether `contained` is in the set.
    pub fn contains(self, contained: BsonType) -> bool {
        self.0 & bit(contained) != 0
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

/// As [`identical`], of objects.
pub(crate) fn identical_objects(a: &model::Object, b: &model::Object) -> bool {
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
    fn types_have_numbers() {
        for each in BsonType::ALL {
            assert_eq!(type_of_number(i64::from(each.number())), Some(each));
        }
        assert_eq!(type_of_number(20), None);
        assert_eq!(BsonType::named("number"), None);
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
