//! Mathematical functions on doubles. NaN and infinities are allowed until they are projected.

use std::f64::consts;

use model::Value;

use super::{Args, Function, between, exactly};
use crate::eval::from_f64;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("ABS", exactly(1), |args| unary(args, f64::abs)),
    Function::linear("ACOS", exactly(1), |args| unary(args, f64::acos)),
    Function::linear("ASIN", exactly(1), |args| unary(args, f64::asin)),
    Function::linear("ATAN", exactly(1), |args| unary(args, f64::atan)),
    Function::linear("ATN2", exactly(2), |args| binary(args, f64::atan2)),
    Function::linear("CEILING", exactly(1), |args| unary(args, f64::ceil)),
    Function::linear("COS", exactly(1), |args| unary(args, f64::cos)),
    Function::linear("COT", exactly(1), |args| unary(args, |x| x.tan().recip())),
    Function::linear("DEGREES", exactly(1), |args| unary(args, f64::to_degrees)),
    Function::linear("EXP", exactly(1), |args| unary(args, f64::exp)),
    Function::linear("FLOOR", exactly(1), |args| unary(args, f64::floor)),
    Function::linear("LOG", between(1, 2), log),
    Function::linear("LOG10", exactly(1), |args| unary(args, f64::log10)),
    Function::linear("NumberBin", between(1, 2), number_bin),
    Function::linear("PI", exactly(0), |_| Some(Value::Double(consts::PI))),
    Function::linear("POWER", exactly(2), |args| binary(args, f64::powf)),
    Function::linear("RADIANS", exactly(1), |args| unary(args, f64::to_radians)),
    Function::linear("ROUND", between(1, 2), round),
    Function::linear("SIGN", exactly(1), |args| unary(args, sign)),
    Function::linear("SIN", exactly(1), |args| unary(args, f64::sin)),
    Function::linear("SQRT", exactly(1), |args| unary(args, f64::sqrt)),
    Function::linear("SQUARE", exactly(1), |args| unary(args, |x| x * x)),
    Function::linear("TAN", exactly(1), |args| unary(args, f64::tan)),
    Function::linear("TRUNC", exactly(1), |args| unary(args, f64::trunc)),
];

fn unary(args: &Args<'_>, function: fn(f64) -> f64) -> Option<Value> {
    Some(from_f64(function(args.number(0)?)))
}

fn binary(args: &Args<'_>, function: fn(f64, f64) -> f64) -> Option<Value> {
    Some(from_f64(function(args.number(0)?, args.number(1)?)))
}

fn sign(x: f64) -> f64 {
    // `signum` of zero is one.
    if x == 0.0 { 0.0 } else { x.signum() }
}

fn log(args: &Args<'_>) -> Option<Value> {
    let natural = args.number(0)?.ln();
    let logarithm = if args.len() > 1 { natural / args.number(1)?.ln() } else { natural };
    Some(from_f64(logarithm))
}

/// The lower edge of the bin that a number falls into.
fn number_bin(args: &Args<'_>) -> Option<Value> {
    let (x, bin) = (args.number(0)?, if args.len() > 1 { args.number(1)? } else { 1.0 });
    (bin != 0.0).then(|| from_f64((x / bin).floor() * bin))
}

/// Rounds half away from zero, to a number of decimal digits if one is given.
fn round(args: &Args<'_>) -> Option<Value> {
    let x = args.number(0)?;
    let digits = if args.len() > 1 { args.integer(1)? } else { 0 };
    let Ok(digits) = i32::try_from(digits) else { return Some(from_f64(x)) };
    let scale = 10f64.powi(digits);
    let scaled = x * scale;
    // Rounding beyond the precision of a double changes nothing.
    let is_representable = scale.is_normal() && scaled.is_finite();
    Some(from_f64(if digits == 0 {
        x.round()
    } else if is_representable {
        scaled.round() / scale
    } else {
        x
    }))
}
