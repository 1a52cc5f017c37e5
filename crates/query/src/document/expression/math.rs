//! Powers, roots, logarithms, trigonometry and the operators on bits.
//!
//! Of decimals, only square roots and whole powers are exact to the last digit; the others are
//! computed as doubles.

use model::Value;
use model::decimal::Decimal;

use super::arithmetic::only_number;
use super::number::{Number, int_or_long};
use super::operator::{null, owned};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::code::TYPE_MISMATCH;
use crate::document::values::{double_text, is_nullish, type_name};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$acos", Shape::Exactly(1), |a| bounded(a, f64::acos, CLOSED_UNIT)),
    Operator::new("$acosh", Shape::Exactly(1), |a| bounded(a, f64::acosh, FROM_ONE)),
    Operator::new("$asin", Shape::Exactly(1), |a| bounded(a, f64::asin, CLOSED_UNIT)),
    Operator::new("$asinh", Shape::Exactly(1), |a| of_double(a, f64::asinh)),
    Operator::new("$atan", Shape::Exactly(1), |a| of_double(a, f64::atan)),
    Operator::new("$atan2", Shape::Exactly(2), atan2),
    Operator::new("$atanh", Shape::Exactly(1), |a| bounded(a, f64::atanh, CLOSED_UNIT)),
    Operator::new("$bitAnd", Shape::Any, |a| bits(a, -1, |x, y| x & y)),
    Operator::new("$bitNot", Shape::Exactly(1), bit_not),
    Operator::new("$bitOr", Shape::Any, |a| bits(a, 0, |x, y| x | y)),
    Operator::new("$bitXor", Shape::Any, |a| bits(a, 0, |x, y| x ^ y)),
    Operator::new("$cos", Shape::Exactly(1), |a| bounded(a, f64::cos, FINITE)),
    Operator::new("$cosh", Shape::Exactly(1), |a| of_double(a, f64::cosh)),
    Operator::new("$degreesToRadians", Shape::Exactly(1), |a| of_double(a, f64::to_radians)),
    Operator::new("$exp", Shape::Exactly(1), |a| of_double(a, f64::exp)),
    Operator::new("$ln", Shape::Exactly(1), |a| logarithm(a, f64::ln, 28766)),
    Operator::new("$log", Shape::Exactly(2), log),
    Operator::new("$log10", Shape::Exactly(1), |a| logarithm(a, f64::log10, 28761)),
    Operator::new("$pow", Shape::Exactly(2), pow),
    Operator::new("$radiansToDegrees", Shape::Exactly(1), |a| of_double(a, f64::to_degrees)),
    Operator::new("$sin", Shape::Exactly(1), |a| bounded(a, f64::sin, FINITE)),
    Operator::new("$sinh", Shape::Exactly(1), |a| of_double(a, f64::sinh)),
    Operator::new("$sqrt", Shape::Exactly(1), sqrt),
    Operator::new("$tan", Shape::Exactly(1), |a| bounded(a, f64::tan, FINITE)),
    Operator::new("$tanh", Shape::Exactly(1), |a| of_double(a, f64::tanh)),
];

/// A double as a number of the type that the operands call for.
fn in_type_of(operand: Number, result: f64) -> Number {
    match operand {
        Number::Decimal(_) => Number::Decimal(Decimal::from_f64_exact(result)),
        Number::Int(_) | Number::Long(_) | Number::Double(_) => Number::Double(result),
    }
}

fn of_double<'s>(arguments: &Arguments<'s>, function: fn(f64) -> f64) -> Evaluated<'s> {
    let Some(number) = only_number(arguments)? else { return null() };
    owned(in_type_of(number, function(number.to_f64())))
}

/// The numbers that a function takes.
struct Domain {
    text: &'static str,
    contains: fn(f64) -> bool,
}

const FINITE: Domain = Domain { text: "(-inf,inf)", contains: f64::is_finite };
const CLOSED_UNIT: Domain = Domain { text: "[-1,1]", contains: |n| (-1.0..=1.0).contains(&n) };
const FROM_ONE: Domain = Domain { text: "[1,inf]", contains: |n| n >= 1.0 };

fn bounded<'s>(
    arguments: &Arguments<'s>,
    function: fn(f64) -> f64,
    domain: Domain,
) -> Evaluated<'s> {
    let Some(number) = only_number(arguments)? else { return null() };
    let operand = number.to_f64();
    if !number.is_nan() && !(domain.contains)(operand) {
        let shown = match operand.is_infinite() {
            true if operand > 0.0 => "inf".to_owned(),
            true => "-inf".to_owned(),
            false => double_text(operand),
        };
        let (name, range) = (arguments.name(), domain.text);
        let message = format!("cannot apply {name} to {shown}, value must be in {range}");
        return Err(Failure::new(50989, message));
    }
    owned(in_type_of(number, function(operand)))
}

fn atan2<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (y, x) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(y.as_deref()) || is_nullish(x.as_deref()) {
        return null();
    }
    let number = |value: Option<&Value>, code| {
        Number::of(value).ok_or_else(|| {
            let given = type_name(value);
            arguments.failure(code, format_args!(" only supports numeric types, not {given}"))
        })
    };
    let (y, x) = (number(y.as_deref(), 51044)?, number(x.as_deref(), 51045)?);
    let wider = if matches!(x, Number::Decimal(_)) { x } else { y };
    owned(in_type_of(wider, y.to_f64().atan2(x.to_f64())))
}

fn logarithm<'s>(arguments: &Arguments<'s>, function: fn(f64) -> f64, code: i32) -> Evaluated<'s> {
    let Some(number) = only_number(arguments)? else { return null() };
    let operand = number.to_f64();
    if operand <= 0.0 {
        let shown = double_text(operand);
        let text = format_args!("'s argument must be a positive number, but is {shown}");
        return Err(arguments.failure(code, text));
    }
    owned(in_type_of(number, function(operand)))
}

fn log<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (value, base) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(value.as_deref()) || is_nullish(base.as_deref()) {
        return null();
    }
    let number = |value: Option<&Value>, what: &str, code| {
        Number::of(value).ok_or_else(|| {
            let given = type_name(value);
            arguments.failure(code, format_args!("'s {what} must be numeric, not {given}"))
        })
    };
    let operand = number(value.as_deref(), "argument", 28756)?;
    let base = number(base.as_deref(), "base", 28757)?;
    let (n, b) = (operand.to_f64(), base.to_f64());
    if n <= 0.0 {
        let shown = double_text(n);
        let text = format_args!("'s argument must be a positive number, but is {shown}");
        return Err(arguments.failure(28758, text));
    }
    if b <= 0.0 || b == 1.0 {
        let shown = double_text(b);
        let text = format_args!("'s base must be a positive number not equal to 1, but is {shown}");
        return Err(arguments.failure(28759, text));
    }
    let wider = if matches!(base, Number::Decimal(_)) { base } else { operand };
    owned(in_type_of(wider, n.ln() / b.ln()))
}

fn sqrt<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let Some(number) = only_number(arguments)? else { return null() };
    if number.to_f64() < 0.0 {
        let text = "'s argument must be greater than or equal to 0";
        return Err(arguments.failure(28714, text));
    }
    owned(match number {
        Number::Decimal(n) => Number::Decimal(n.square_root()),
        Number::Int(_) | Number::Long(_) | Number::Double(_) => {
            Number::Double(number.to_f64().sqrt())
        }
    })
}

fn pow<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (base, exponent) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(base.as_deref()) || is_nullish(exponent.as_deref()) {
        return null();
    }
    let number = |value: Option<&Value>, what: &str, code| {
        Number::of(value).ok_or_else(|| {
            let given = type_name(value);
            arguments.failure(code, format_args!("'s {what} must be numeric, not {given}"))
        })
    };
    let base = number(base.as_deref(), "base", 28762)?;
    let exponent = number(exponent.as_deref(), "exponent", 28763)?;
    if base.to_f64() == 0.0 && exponent.to_f64() < 0.0 {
        let text = " cannot take a base of 0 and a negative exponent";
        return Err(arguments.failure(28764, text));
    }
    owned(match (base, exponent) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(decimal_power(base, exponent))
        }
        (Number::Int(_) | Number::Long(_), Number::Int(_) | Number::Long(_)) => {
            whole_power(base, exponent)
        }
        _ => Number::Double(base.to_f64().powf(exponent.to_f64())),
    })
}

fn whole_power(base: Number, exponent: Number) -> Number {
    let result = match (base.whole(), exponent.whole().map(u32::try_from)) {
        (Some(base), Some(Ok(exponent))) => base.checked_pow(exponent),
        // The only whole results of other exponents.
        (Some(base @ -1..=1), Some(Err(_))) => {
            let is_odd = exponent.whole().is_some_and(|n| n % 2 != 0);
            Some(if is_odd { base } else { base.abs() })
        }
        _ => None,
    };
    match (result, base, exponent) {
        (Some(n), Number::Int(_), Number::Int(_)) => int_or_long(n),
        (Some(n), _, _) => Number::Long(n),
        (None, _, _) => Number::Double(base.to_f64().powf(exponent.to_f64())),
    }
}

/// Largest whole exponent for which a decimal power is multiplied out.
const EXPONENT_MAX: i64 = 10_000;

fn decimal_power(base: Number, exponent: Number) -> Decimal {
    let inexact = || Decimal::from_f64_exact(base.to_f64().powf(exponent.to_f64()));
    let Some(exponent) = exponent.exact_i64().filter(|n| n.abs() <= EXPONENT_MAX) else {
        return inexact();
    };
    let (mut power, mut factor, mut left) =
        (Decimal::from_i64(1), base.to_decimal(), exponent.unsigned_abs());
    while left > 0 {
        if left % 2 == 1 {
            power = power.multiply(factor);
        }
        factor = factor.multiply(factor);
        left /= 2;
    }
    if exponent < 0 { Decimal::from_i64(1).divide(power) } else { power }
}

fn bits<'s>(arguments: &Arguments<'s>, start: i32, combine: fn(i64, i64) -> i64) -> Evaluated<'s> {
    let (mut all, mut is_long) = (i64::from(start), false);
    let mut has_null = false;
    for value in arguments.values() {
        let value = value?;
        match value.as_deref() {
            other if is_nullish(other) => has_null = true,
            Some(Value::Int32(n)) => all = combine(all, i64::from(*n)),
            Some(Value::Int64(n)) => {
                all = combine(all, *n);
                is_long = true;
            }
            _ => {
                let text = " only supports int and long operands.";
                return Err(arguments.failure(TYPE_MISMATCH, text));
            }
        }
    }
    match (has_null, is_long) {
        (true, _) => null(),
        (false, true) => owned(Number::Long(all)),
        (false, false) => owned(int_or_long(all)),
    }
}

fn bit_not<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let value = arguments.value(0)?;
    match value.as_deref() {
        other if is_nullish(other) => null(),
        Some(Value::Int32(n)) => owned(Number::Int(!n)),
        Some(Value::Int64(n)) => owned(Number::Long(!n)),
        other => {
            let given = type_name(other);
            let text = format_args!(" only supports int and long, not: {given}.");
            Err(arguments.failure(TYPE_MISMATCH, text))
        }
    }
}
