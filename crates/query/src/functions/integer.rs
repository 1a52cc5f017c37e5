//! Arithmetic on 64-bit integers. Arguments must be whole numbers in range; results wrap.

use model::Value;

use super::{Args, Function, exactly};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("IntAdd", exactly(2), |args| binary(args, i64::wrapping_add)),
    Function::linear("IntSub", exactly(2), |args| binary(args, i64::wrapping_sub)),
    Function::linear("IntMul", exactly(2), |args| binary(args, i64::wrapping_mul)),
    Function::linear("IntDiv", exactly(2), |args| divide(args, i64::wrapping_div)),
    Function::linear("IntMod", exactly(2), |args| divide(args, i64::wrapping_rem)),
    Function::linear("IntBitAnd", exactly(2), |args| binary(args, |a, b| a & b)),
    Function::linear("IntBitOr", exactly(2), |args| binary(args, |a, b| a | b)),
    Function::linear("IntBitXor", exactly(2), |args| binary(args, |a, b| a ^ b)),
    Function::linear("IntBitNot", exactly(1), not),
    Function::linear("IntBitLeftShift", exactly(2), |args| binary(args, |a, n| a << (n & 63))),
    Function::linear("IntBitRightShift", exactly(2), |args| binary(args, |a, n| a >> (n & 63))),
    // Spellings that some query generators use.
    Function::linear("IntBitwiseAnd", exactly(2), |args| binary(args, |a, b| a & b)),
    Function::linear("IntBitwiseOr", exactly(2), |args| binary(args, |a, b| a | b)),
    Function::linear("IntBitwiseXor", exactly(2), |args| binary(args, |a, b| a ^ b)),
    Function::linear("IntBitwiseNot", exactly(1), not),
    Function::linear("IntBitwiseLeftShift", exactly(2), |args| binary(args, |a, n| a << (n & 63))),
    Function::linear("IntBitwiseRightShift", exactly(2), |args| binary(args, |a, n| a >> (n & 63))),
];

fn binary(args: &Args<'_>, function: fn(i64, i64) -> i64) -> Option<Value> {
    Some(Value::Int64(function(args.integer(0)?, args.integer(1)?)))
}

fn divide(args: &Args<'_>, function: fn(i64, i64) -> i64) -> Option<Value> {
    let (dividend, divisor) = (args.integer(0)?, args.integer(1)?);
    (divisor != 0).then(|| Value::Int64(function(dividend, divisor)))
}

fn not(args: &Args<'_>) -> Option<Value> {
    Some(Value::Int64(!args.integer(0)?))
}
