//! Arithmetic: exact on int64 where operands and result are integers, else on doubles; 32-bit
//! integers for the bit operators, as in JavaScript.

use model::Value;

use crate::algebra::{BinaryOp, UnaryOp};

/// The value of a computed number. A number that is exactly an int64 becomes one, so that it prints
/// and compares as an integer.
#[expect(clippy::cast_possible_truncation, reason = "checked to be an integer in range")]
pub(crate) fn from_f64(number: f64) -> Value {
    const INT64_END: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-INT64_END..INT64_END).contains(&number) {
        Value::Int64(number as i64)
    } else {
        Value::Double(number)
    }
}

/// The operator applied; `None` (*undefined*) unless the operand is a number.
pub(super) fn unary(op: UnaryOp, operand: &Value) -> Option<Value> {
    let number = operand.as_f64()?;
    Some(match op {
        UnaryOp::Negate => match integer(operand).and_then(i64::checked_neg) {
            Some(negated) => Value::Int64(negated),
            None => from_f64(-number),
        },
        UnaryOp::Plus => operand.clone(),
        UnaryOp::BitNot => Value::Int64(i64::from(!to_int32(number))),
    })
}

/// The operator applied; `None` (*undefined*) unless both operands are numbers and the operator is
/// arithmetic.
pub(super) fn binary(op: BinaryOp, left: &Value, right: &Value) -> Option<Value> {
    if let (Some(left), Some(right)) = (integer(left), integer(right))
        && let Some(exact) = binary_exact(op, left, right)
    {
        return Some(Value::Int64(exact));
    }
    let (left, right) = (left.as_f64()?, right.as_f64()?);
    let shift = to_uint32(right) & 31;
    let bits = |value: i32| Value::Int64(i64::from(value));
    Some(match op {
        BinaryOp::Add => from_f64(left + right),
        BinaryOp::Subtract => from_f64(left - right),
        BinaryOp::Multiply => from_f64(left * right),
        BinaryOp::Divide => from_f64(left / right),
        BinaryOp::Remainder => from_f64(left % right),
        BinaryOp::BitAnd => bits(to_int32(left) & to_int32(right)),
        BinaryOp::BitOr => bits(to_int32(left) | to_int32(right)),
        BinaryOp::BitXor => bits(to_int32(left) ^ to_int32(right)),
        BinaryOp::ShiftLeft => bits(to_int32(left) << shift),
        BinaryOp::ShiftRight => bits(to_int32(left) >> shift),
        BinaryOp::ShiftRightUnsigned => Value::Int64(i64::from(to_uint32(left) >> shift)),
        BinaryOp::Concat
        | BinaryOp::Equal
        | BinaryOp::NotEqual
        | BinaryOp::Less
        | BinaryOp::LessOrEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterOrEqual => return None,
    })
}

/// The integer, if the value is stored as one.
fn integer(value: &Value) -> Option<i64> {
    if let Value::Int64(_) | Value::Int32(_) = value { value.as_i64() } else { None }
}

/// The service adds 1 to 9007199254740993 correctly, which doubles cannot.
fn binary_exact(op: BinaryOp, left: i64, right: i64) -> Option<i64> {
    match op {
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Subtract => left.checked_sub(right),
        BinaryOp::Multiply => left.checked_mul(right),
        BinaryOp::Remainder => left.checked_rem(right),
        BinaryOp::Divide
        | BinaryOp::Concat
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRight
        | BinaryOp::ShiftRightUnsigned
        | BinaryOp::Equal
        | BinaryOp::NotEqual
        | BinaryOp::Less
        | BinaryOp::LessOrEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterOrEqual => None,
    }
}

/// The number modulo 2^32, its fraction dropped; zero for NaN and infinities.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "reduced to the range of u32 first"
)]
fn to_uint32(number: f64) -> u32 {
    if number.is_finite() { number.trunc().rem_euclid(4_294_967_296.0) as u32 } else { 0 }
}

fn to_int32(number: f64) -> i32 {
    to_uint32(number).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int32_conversion_wraps_like_javascript() {
        for (number, expected) in [
            (0.0, 0),
            (5.9, 5),
            (-5.9, -5),
            (4_294_967_296.0, 0),
            (2_147_483_648.0, i32::MIN),
            (-2_147_483_649.0, i32::MAX),
            (f64::NAN, 0),
            (f64::INFINITY, 0),
        ] {
            assert_eq!(to_int32(number), expected, "{number}");
        }
    }

    #[test]
    fn integral_results_become_exact_integers() {
        assert_eq!(from_f64(9_007_199_254_740_994.0), Value::Int64(9_007_199_254_740_994));
        assert_eq!(from_f64(-0.0), Value::Int64(0));
        assert_eq!(from_f64(9.3e18), Value::Double(9.3e18));
        assert_eq!(from_f64(0.5), Value::Double(0.5));
    }
}
