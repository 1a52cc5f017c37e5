//! Equality and order of defined values in the NoSQL dialect.
//!
//! Equality is total: values of different types are not equal. Order exists only within a scalar
//! type; everything else is *undefined*, which is `None` here.

use std::cmp::Ordering;

use model::order::TypeOrder;
use model::{Object, Value};

use crate::{Budget, EvalError};

/// The type of a value in the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
    /// A type that only BSON or EDM has.
    Foreign,
}

pub(crate) fn class_of(value: &Value) -> Class {
    match value {
        Value::Null => Class::Null,
        Value::Bool(_) => Class::Bool,
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) => Class::Number,
        Value::String(_) => Class::String,
        Value::Array(_) => Class::Array,
        Value::Object(_) => Class::Object,
        Value::Decimal128(_)
        | Value::Binary { .. }
        | Value::Guid(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::JavaScript { .. }
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::Symbol(_)
        | Value::MinKey
        | Value::MaxKey => Class::Foreign,
    }
}

/// Structural equality: numbers by value, arrays in order, objects whatever the order of fields.
pub(crate) fn equals(a: &Value, b: &Value, budget: &Budget) -> Result<bool, EvalError> {
    budget.spend(1)?;
    let class = class_of(a);
    if class != class_of(b) {
        return Ok(false);
    }
    match class {
        Class::Number => Ok(model::number::compare(a, b) == Some(Ordering::Equal)),
        Class::String => {
            let (a, b) = (a.as_str().unwrap_or_default(), b.as_str().unwrap_or_default());
            budget.spend_bytes(a.len().min(b.len()))?;
            Ok(a == b)
        }
        Class::Array => {
            arrays_equal(a.as_array().unwrap_or_default(), b.as_array().unwrap_or_default(), budget)
        }
        Class::Object => match (a.as_object(), b.as_object()) {
            (Some(a), Some(b)) => objects_equal(a, b, budget),
            _ => Ok(false),
        },
        Class::Null | Class::Bool | Class::Foreign => Ok(a == b),
    }
}

fn arrays_equal(a: &[Value], b: &[Value], budget: &Budget) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b) {
        if !equals(a, b, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn objects_equal(a: &Object, b: &Object, budget: &Budget) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    budget.spend(a.len() as u64)?;
    // Names are unique, so pairing the sorted fields compares the objects without a search per
    // name.
    for ((a_name, a_value), (b_name, b_value)) in sorted_fields(a).into_iter().zip(sorted_fields(b))
    {
        if a_name != b_name || !equals(a_value, b_value, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sorted_fields(object: &Object) -> Vec<(&str, &Value)> {
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

/// How two values of one scalar type compare: `None` is *undefined* (different types, or a type
/// without an order), `Some(None)` means a number without an order (NaN), for which every
/// comparison is false.
pub(crate) fn order(
    a: &Value,
    b: &Value,
    budget: &Budget,
) -> Result<Option<Option<Ordering>>, EvalError> {
    let class = class_of(a);
    if class != class_of(b) {
        return Ok(None);
    }
    match class {
        Class::Null => Ok(Some(Some(Ordering::Equal))),
        Class::Bool => Ok(Some(a.as_bool().partial_cmp(&b.as_bool()))),
        Class::Number => Ok(Some(model::number::compare(a, b))),
        Class::String => {
            budget.spend_bytes(a.as_str().map_or(0, str::len))?;
            Ok(Some(Some(model::order::compare(TypeOrder::NoSql, Some(a), Some(b)))))
        }
        Class::Array | Class::Object | Class::Foreign => Ok(None),
    }
}

/// How two values of one type of the entity data model compare; `None` if they are of different
/// types or have no order. All numbers are of one type.
pub(crate) fn typed_order(
    a: &Value,
    b: &Value,
    budget: &Budget,
) -> Result<Option<Ordering>, EvalError> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        budget.spend_bytes(a.len().min(b.len()))?;
        return Ok(Some(a.cmp(b)));
    }
    if let (Value::Binary { bytes: a, .. }, Value::Binary { bytes: b, .. }) = (a, b) {
        budget.spend_bytes(a.len().min(b.len()))?;
        return Ok(Some(a.cmp(b)));
    }
    if let (Value::Guid(a), Value::Guid(b)) = (a, b) {
        return Ok(Some(a.cmp(b)));
    }
    if let (Value::Date(a), Value::Date(b)) = (a, b) {
        return Ok(Some(a.cmp(b)));
    }
    if let (Some(a), Some(b)) = (a.as_bool(), b.as_bool()) {
        return Ok(Some(a.cmp(&b)));
    }
    Ok(model::number::compare(a, b))
}
