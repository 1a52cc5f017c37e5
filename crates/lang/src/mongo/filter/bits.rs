//! The arguments of the operators on bits: a mask, or the positions of bits.

use model::Value;
use query::document::predicate::{BitTest, Bits};
use query::document::print::PrintedField;
use query::document::types::is_number;
use query::document::{Failure, code};

use crate::mongo::integers::non_negative_integer;

use super::bad_value;

/// Compiles the argument of the operator `name` on the field at `path`.
pub(super) fn compile(
    test: BitTest,
    path: &str,
    name: &str,
    value: &Value,
) -> Result<Bits, Failure> {
    if let Value::Array(positions) = value {
        let position = |(at, value): (usize, &Value)| position(at, value);
        let positions: Result<Vec<u32>, Failure> =
            positions.iter().enumerate().map(position).collect();
        return Ok(Bits::at(test, positions?));
    }
    if let Value::Binary { bytes, .. } = value {
        return Ok(Bits::of_bytes(test, bytes));
    }
    if let Value::Guid(bytes) = value {
        return Ok(Bits::of_bytes(test, bytes));
    }
    if !is_number(value) {
        return Err(bad_value(format!(
            "{path} takes an Array, a number, or a BinData but received: {}",
            PrintedField(name, value)
        )));
    }
    let mask = non_negative_integer(name, value)
        .map_err(|reason| Failure::new(code::FAILED_TO_PARSE, reason))?;
    Ok(Bits::of_number(test, mask))
}

fn position(at: usize, value: &Value) -> Result<u32, Failure> {
    let name = at.to_string();
    let failed = |reason| bad_value(format!("Failed to parse bit position. {reason}"));
    let position = non_negative_integer(&name, value).map_err(failed)?;
    // Bits beyond an int32 cannot be named.
    i32::try_from(position)
        .ok()
        .and_then(|position| u32::try_from(position).ok())
        .ok_or_else(|| failed(format!("Cannot represent {} in an int", PrintedField(&name, value))))
}
