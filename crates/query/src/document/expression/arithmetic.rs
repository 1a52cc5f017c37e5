//! Arithmetic: sums, products, remainders and rounding.

use std::borrow::Cow;

use model::decimal::{Decimal, Rounding};
use model::{Date, Value};

use super::number::{Number, Running, int_or_long};
use super::operator::{null, owned};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::code::{BAD_VALUE, OVERFLOW, TYPE_MISMATCH};
use crate::document::values::{is_nullish, printed, type_name};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$abs", Shape::Exactly(1), abs),
    Operator::new("$add", Shape::Any, add),
    Operator::new("$ceil", Shape::Exactly(1), ceil),
    Operator::new("$divide", Shape::Exactly(2), divide),
    Operator::new("$floor", Shape::Exactly(1), floor),
    Operator::new("$mod", Shape::Exactly(2), modulo),
    Operator::new("$multiply", Shape::Any, multiply),
    Operator::new("$round", Shape::Between(1, 2), round),
    Operator::new("$subtract", Shape::Exactly(2), subtract),
    Operator::new("$trunc", Shape::Between(1, 2), trunc),
];

/// A number as the only argument; `None` if it is null or missing.
pub(super) fn only_number(arguments: &Arguments<'_>) -> Result<Option<Number>, Failure> {
    let value = arguments.value(0)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    Number::of(value.as_deref()).map(Some).ok_or_else(|| {
        let given = type_name(value.as_deref());
        arguments.failure(28765, format_args!(" only supports numeric types, not {given}"))
    })
}

fn date_overflow() -> Failure {
    Failure::new(OVERFLOW, "date overflow")
}

fn date(millis: Option<i64>) -> Result<Value, Failure> {
    Ok(Value::Date(Date { millis: millis.ok_or_else(date_overflow)?, ticks: 0 }))
}

fn abs<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let Some(number) = only_number(arguments)? else { return null() };
    owned(match number {
        Number::Int(n) => int_or_long(i64::from(n).abs()),
        Number::Long(i64::MIN) => {
            return Err(Failure::new(28680, "can't take $abs of long long min"));
        }
        Number::Long(n) => Number::Long(n.abs()),
        Number::Double(n) => Number::Double(n.abs()),
        Number::Decimal(n) => Number::Decimal(n.with_sign(false)),
    })
}

fn add<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let mut sum = Running::new(0);
    let mut millis = None;
    for value in arguments.values() {
        let value = value?;
        if is_nullish(value.as_deref()) {
            return null();
        }
        if let Some(Value::Date(date)) = value.as_deref() {
            if millis.replace(date.millis).is_some() {
                let message = "only one date allowed in an $add expression";
                return Err(Failure::new(16612, message));
            }
            continue;
        }
        let number = Number::of(value.as_deref()).ok_or_else(|| {
            let given = type_name(value.as_deref());
            Failure::new(
                TYPE_MISMATCH,
                format!("$add only supports numeric or date types, not {given}"),
            )
        })?;
        sum.fold(number, i64::checked_add, |a, b| a + b, Decimal::plus);
    }
    match millis {
        None => owned(sum.finish()),
        Some(millis) => {
            let added = rounded_millis(sum.finish()).ok_or_else(date_overflow)?;
            owned(date(millis.checked_add(added))?)
        }
    }
}

/// Milliseconds to add to a date.
fn rounded_millis(number: Number) -> Option<i64> {
    match number {
        Number::Int(n) => Some(i64::from(n)),
        Number::Long(n) => Some(n),
        // Halves are rounded away from zero here.
        Number::Double(n) => model::number::f64_to_i64(n.round()),
        Number::Decimal(n) => n.to_i64(Rounding::HalfEven),
    }
}

fn subtract<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (a, b) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(a.as_deref()) || is_nullish(b.as_deref()) {
        return null();
    }
    if let (Some(a), Some(b)) = (Number::of(a.as_deref()), Number::of(b.as_deref())) {
        // The minuend is folded into a sum that begins with zero.
        let mut difference = Running::new(0);
        difference.fold(a, i64::checked_add, |_, b| b, |_, b| b);
        difference.fold(b, i64::checked_sub, |a, b| a - b, Decimal::subtract);
        return owned(difference.finish());
    }
    if let Some(Value::Date(from)) = a.as_deref() {
        if let Some(Value::Date(to)) = b.as_deref() {
            let millis = from.millis.checked_sub(to.millis).ok_or_else(date_overflow)?;
            return owned(millis);
        }
        if let Some(number) = Number::of(b.as_deref()) {
            let taken = rounded_millis(number).ok_or_else(date_overflow)?;
            return owned(date(from.millis.checked_sub(taken))?);
        }
    }
    let from = match a.as_deref() {
        Some(Value::Date(_)) => "Date",
        other => type_name(other),
    };
    let taken = type_name(b.as_deref());
    Err(Failure::new(TYPE_MISMATCH, format!("can't $subtract {taken} from {from}")))
}

fn multiply<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let mut product = Running::new(1);
    for value in arguments.values() {
        let value = value?;
        if is_nullish(value.as_deref()) {
            return null();
        }
        let number = Number::of(value.as_deref()).ok_or_else(|| {
            let given = type_name(value.as_deref());
            let message = format!("$multiply only supports numeric types, not {given}");
            Failure::new(TYPE_MISMATCH, message)
        })?;
        product.fold(number, i64::checked_mul, |a, b| a * b, Decimal::multiply);
    }
    owned(product.finish())
}

/// Two numbers; `None` if one of the arguments is null or missing, the types of both if one is not
/// a number.
enum Pair {
    Nullish,
    Numbers(Number, Number),
    Others(&'static str, &'static str),
}

fn pair(arguments: &Arguments<'_>) -> Result<Pair, Failure> {
    let (a, b) = (arguments.value(0)?, arguments.value(1)?);
    if let (Some(a), Some(b)) = (Number::of(a.as_deref()), Number::of(b.as_deref())) {
        return Ok(Pair::Numbers(a, b));
    }
    if is_nullish(a.as_deref()) || is_nullish(b.as_deref()) {
        return Ok(Pair::Nullish);
    }
    Ok(Pair::Others(type_name(a.as_deref()), type_name(b.as_deref())))
}

fn divide<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let by_zero = || Failure::new(BAD_VALUE, "can't $divide by zero");
    match pair(arguments)? {
        Pair::Nullish => null(),
        Pair::Others(a, b) => Err(Failure::new(
            TYPE_MISMATCH,
            format!("$divide only supports numeric types, not {a} and {b}"),
        )),
        Pair::Numbers(a, b @ Number::Decimal(_)) | Pair::Numbers(a @ Number::Decimal(_), b) => {
            let (a, b) = (a.to_decimal(), b.to_decimal());
            if b.is_zero() { Err(by_zero()) } else { owned(Number::Decimal(a.divide(b))) }
        }
        Pair::Numbers(a, b) => match b.to_f64() {
            0.0 => Err(by_zero()),
            b => owned(a.to_f64() / b),
        },
    }
}

fn modulo<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let by_zero = |code| Failure::new(code, "can't $mod by zero");
    match pair(arguments)? {
        Pair::Nullish => null(),
        Pair::Others(a, b) => {
            Err(Failure::new(16611, format!("$mod only supports numeric types, not {a} and {b}")))
        }
        Pair::Numbers(a, b @ Number::Decimal(_)) | Pair::Numbers(a @ Number::Decimal(_), b) => {
            let (a, b) = (a.to_decimal(), b.to_decimal());
            if b.is_zero() { Err(by_zero(5733415)) } else { owned(Number::Decimal(a.remainder(b))) }
        }
        Pair::Numbers(_, b) if b.to_f64() == 0.0 => Err(by_zero(16610)),
        Pair::Numbers(Number::Int(a), Number::Int(b)) => owned(Number::Int(a.wrapping_rem(b))),
        Pair::Numbers(a, b) => match (a.whole(), b.whole()) {
            (Some(a), Some(b)) => owned(a.wrapping_rem(b)),
            _ => owned(a.to_f64() % b.to_f64()),
        },
    }
}

fn ceil<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    to_whole(arguments, f64::ceil, Rounding::Up)
}

fn floor<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    to_whole(arguments, f64::floor, Rounding::Down)
}

fn to_whole<'s>(
    arguments: &Arguments<'s>,
    of_double: fn(f64) -> f64,
    of_decimal: Rounding,
) -> Evaluated<'s> {
    let Some(number) = only_number(arguments)? else { return null() };
    owned(match number {
        Number::Int(_) | Number::Long(_) => number,
        Number::Double(n) => Number::Double(of_double(n)),
        Number::Decimal(n) => Number::Decimal(n.round_to_exponent(0, of_decimal)),
    })
}

fn round<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    to_places(arguments, Rounding::HalfEven)
}

fn trunc<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    to_places(arguments, Rounding::TowardsZero)
}

fn to_places<'s>(arguments: &Arguments<'s>, rounding: Rounding) -> Evaluated<'s> {
    let value = arguments.value(0)?;
    let places = match arguments.is_given(1) {
        true => arguments.value(1)?,
        false => Some(Cow::Owned(Value::Int32(0))),
    };
    if is_nullish(value.as_deref()) {
        return null();
    }
    let number = Number::of(value.as_deref()).ok_or_else(|| {
        let given = type_name(value.as_deref());
        arguments.failure(51081, format_args!(" only supports numeric types, not {given}"))
    })?;
    if is_nullish(places.as_deref()) {
        return null();
    }
    let name = arguments.name();
    let places = Number::of(places.as_deref()).and_then(Number::exact_i32).ok_or_else(|| {
        Failure::new(51082, format!("precision argument to  {name} must be a integral value"))
    })?;
    if !(-20..=100).contains(&places) {
        let message = format!(
            "cannot apply {name} with precision value {places} value must be in [-20, 100]"
        );
        return Err(Failure::new(51083, message));
    }
    owned(match number {
        Number::Int(_) | Number::Long(_) if places >= 0 => number,
        Number::Int(n) => int_or_long(whole_to_places(i64::from(n), places, rounding, name)?),
        Number::Long(n) => Number::Long(whole_to_places(n, places, rounding, name)?),
        Number::Double(n) if !n.is_finite() => number,
        Number::Double(n) => {
            let rounded = Decimal::from_f64_exact(n).round_to_exponent(-places, rounding);
            Number::Double(rounded.to_f64())
        }
        Number::Decimal(n) => Number::Decimal(n.round_to_exponent(-places, rounding)),
    })
}

fn whole_to_places(n: i64, places: i32, rounding: Rounding, name: &str) -> Result<i64, Failure> {
    let rounded = Decimal::from_i64(n).round_to_exponent(-places, rounding);
    rounded.to_i64(rounding).ok_or_else(|| {
        let shown = printed(Some(&Value::Int64(n)));
        let message = format!(
            "invalid conversion from Decimal128 result in {name} resulting from arguments: \
             [{shown}, {places}]"
        );
        Failure::new(51080, message)
    })
}
