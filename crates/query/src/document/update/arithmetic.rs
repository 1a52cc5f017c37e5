//! The operators on numbers. The result has the wider type of both, and integers that overflow
//! become wider.

use model::Value;

use crate::document::expression::number::Number;
use crate::document::print::Printed;
use crate::document::types::BsonType;
use crate::document::{Failure, code};

use super::modifier::{BitOperation, Change, Target, set};

/// Zero of the type of a number.
pub(super) fn zero_of(number: &Value) -> Value {
    match Number::of(Some(number)) {
        Some(Number::Long(_)) => Value::Int64(0),
        Some(Number::Double(_)) => Value::Double(0.0),
        Some(Number::Decimal(_)) => {
            Value::Decimal128(model::decimal::Decimal::from_i64(0).to_bson())
        }
        Some(Number::Int(_)) | None => Value::Int32(0),
    }
}

pub(super) fn increment(
    value: &mut Value,
    operand: &Value,
    target: &Target<'_>,
) -> Result<Change, Failure> {
    compute(
        value,
        operand,
        target,
        "$inc",
        &Arithmetic {
            integers: i64::checked_add,
            doubles: |a, b| a + b,
            decimals: |a, b| a.plus(b),
        },
    )
}

pub(super) fn multiply(
    value: &mut Value,
    operand: &Value,
    target: &Target<'_>,
) -> Result<Change, Failure> {
    compute(
        value,
        operand,
        target,
        "$mul",
        &Arithmetic {
            integers: i64::checked_mul,
            doubles: |a, b| a * b,
            decimals: |a, b| a.multiply(b),
        },
    )
}

struct Arithmetic {
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
    decimals: fn(model::decimal::Decimal, model::decimal::Decimal) -> model::decimal::Decimal,
}

fn compute(
    value: &mut Value,
    operand: &Value,
    target: &Target<'_>,
    operator: &str,
    arithmetic: &Arithmetic,
) -> Result<Change, Failure> {
    let (Some(a), Some(b)) = (Number::of(Some(value)), Number::of(Some(operand))) else {
        let message = format!(
            "Cannot apply {operator} to a value of non-numeric type. {{{}}} has the field '{}' of \
             non-numeric type {}",
            target.printed_id(),
            target.name(),
            BsonType::of(value).alias()
        );
        return Err(Failure::new(code::TYPE_MISMATCH, message));
    };
    let new = match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Value::Decimal128((arithmetic.decimals)(a.to_decimal(), b.to_decimal()).to_bson())
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            Value::Double((arithmetic.doubles)(a.to_f64(), b.to_f64()))
        }
        (Number::Int(_) | Number::Long(_), Number::Int(_) | Number::Long(_)) => {
            let (Some(n), Some(m)) = (a.whole(), b.whole()) else { return Ok(Change::Unchanged) };
            let Some(result) = (arithmetic.integers)(n, m) else {
                return Err(overflow(value, operator, target));
            };
            let are_ints = matches!((a, b), (Number::Int(_), Number::Int(_)));
            match i32::try_from(result) {
                Ok(narrow) if are_ints => Value::Int32(narrow),
                Ok(_) | Err(_) => Value::Int64(result),
            }
        }
    };
    Ok(set(value, &new))
}

fn overflow(value: &Value, operator: &str, target: &Target<'_>) -> Failure {
    let of = if matches!(value, Value::Int32(_)) { "NumberInt" } else { "NumberLong" };
    let message = format!(
        "Failed to apply {operator} operations to current value (({of}){}) for document {{{}}}",
        Printed(value),
        target.printed_id()
    );
    Failure::new(code::BAD_VALUE, message)
}

pub(super) fn combine_bits(
    value: &mut Value,
    operations: &[(BitOperation, Value)],
    target: &Target<'_>,
) -> Result<Change, Failure> {
    let integer = |value: &Value| Number::of(Some(value)).and_then(Number::whole);
    let is_long = |value: &Value| matches!(value, Value::Int64(_));
    let Some(mut bits) = integer(value) else {
        let message = format!(
            "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer \
             type {}",
            target.printed_id(),
            target.name(),
            BsonType::of(value).alias()
        );
        return Err(Failure::new(code::BAD_VALUE, message));
    };
    let mut becomes_long = is_long(value);
    for (operation, operand) in operations {
        let Some(operand_bits) = integer(operand) else { continue };
        becomes_long |= is_long(operand);
        bits = match operation {
            BitOperation::And => bits & operand_bits,
            BitOperation::Or => bits | operand_bits,
            BitOperation::Xor => bits ^ operand_bits,
        };
    }
    let new = match i32::try_from(bits) {
        Ok(narrow) if !becomes_long => Value::Int32(narrow),
        Ok(_) | Err(_) => Value::Int64(bits),
    };
    Ok(set(value, &new))
}
