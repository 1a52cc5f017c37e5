//! Comparisons in the order of BSON, and the operators on booleans.

use std::cmp::Ordering;

use model::Value;

use super::operator::owned;
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{compare, is_truthy};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$and", Shape::Any, and),
    Operator::new("$cmp", Shape::Exactly(2), cmp),
    Operator::new("$eq", Shape::Exactly(2), |arguments| test(arguments, Ordering::is_eq)),
    Operator::new("$gt", Shape::Exactly(2), |arguments| test(arguments, Ordering::is_gt)),
    Operator::new("$gte", Shape::Exactly(2), |arguments| test(arguments, Ordering::is_ge)),
    Operator::new("$lt", Shape::Exactly(2), |arguments| test(arguments, Ordering::is_lt)),
    Operator::new("$lte", Shape::Exactly(2), |arguments| test(arguments, Ordering::is_le)),
    Operator::new("$ne", Shape::Exactly(2), |arguments| test(arguments, Ordering::is_ne)),
    Operator::new("$not", Shape::Exactly(1), not),
    Operator::new("$or", Shape::Any, or),
];

fn ordering(arguments: &Arguments<'_>) -> Result<Ordering, Failure> {
    let (a, b) = (arguments.value(0)?, arguments.value(1)?);
    Ok(compare(a.as_deref(), b.as_deref()))
}

fn cmp<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    owned(Value::Int32(match ordering(arguments)? {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

fn test<'s>(arguments: &Arguments<'s>, holds: fn(Ordering) -> bool) -> Evaluated<'s> {
    owned(holds(ordering(arguments)?))
}

/// Evaluates until one operand decides.
fn and<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    for value in arguments.values() {
        if !is_truthy(value?.as_deref()) {
            return owned(false);
        }
    }
    owned(true)
}

fn or<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    for value in arguments.values() {
        if is_truthy(value?.as_deref()) {
            return owned(true);
        }
    }
    owned(false)
}

fn not<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    owned(!is_truthy(arguments.value(0)?.as_deref()))
}
