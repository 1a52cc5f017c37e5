//! Numbers as arguments: integers of any numeric type.

use model::Value;
use model::decimal::Decimal;
use query::document::print::PrintedField;
use query::document::types::to_f64;

/// The integer in field `name`; an error says what is wrong with it.
pub(crate) fn integer(name: &str, value: &Value) -> Result<i64, String> {
    let field = PrintedField(name, value);
    if let Value::Decimal128(bytes) = value {
        let Decimal::Finite(finite) = Decimal::from_bson(bytes) else {
            return Err(format!("Cannot represent as a 64-bit integer: {field}"));
        };
        let exact = finite.to_i64();
        return exact.ok_or_else(|| format!("Cannot represent as a 64-bit integer: {field}"));
    }
    let Some(double) = value.as_f64() else {
        return Err(format!("Expected a number in: {field}"));
    };
    if double.is_nan() {
        return Err(format!("Expected an integer, but found NaN in: {field}"));
    }
    if let Some(exact) = value.as_i64() {
        return Ok(exact);
    }
    Err(match double.fract() == 0.0 || double.is_infinite() {
        true => format!("Cannot represent as a 64-bit integer: {field}"),
        false => format!("Expected an integer: {field}"),
    })
}

/// As [`integer`], which must not be negative.
pub(crate) fn non_negative_integer(name: &str, value: &Value) -> Result<i64, String> {
    let n = integer(name, value)?;
    match n < 0 {
        true => Err(format!("Expected a non-negative number in: {}", PrintedField(name, value))),
        false => Ok(n),
    }
}

/// A number without its fraction; an error says why it has none as an int64.
pub(crate) fn coerced(value: &Value) -> Result<i64, &'static str> {
    let double = to_f64(value).unwrap_or(f64::NAN);
    if !double.is_finite() {
        return Err("Unable to coerce NaN/Inf to integral type");
    }
    let exact = integer("", value).ok();
    exact
        .or_else(|| model::number::f64_to_i64(double.trunc()))
        .ok_or("Out of bounds coercing to integral value")
}
