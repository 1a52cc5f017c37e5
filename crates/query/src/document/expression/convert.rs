//! Conversions between types.

use model::decimal::{Decimal, Rounding};
use model::{Date, Value};

use super::date::{millis_of, parse_text};
use super::number::Number;
use super::operator::{Named, null, optional, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::code::{CONVERSION_FAILURE, FAILED_TO_PARSE};
use crate::document::types::type_of_number;
use crate::document::values::{date_text, double_text, is_nullish, is_truthy, printed, type_name};
use crate::document::{BsonType, Failure};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$convert", Shape::Named(CONVERT), convert),
    Operator::new("$toBool", Shape::Exactly(1), |a| to(a, BsonType::Bool)),
    Operator::new("$toDate", Shape::Exactly(1), |a| to(a, BsonType::Date)),
    Operator::new("$toDecimal", Shape::Exactly(1), |a| to(a, BsonType::Decimal128)),
    Operator::new("$toDouble", Shape::Exactly(1), |a| to(a, BsonType::Double)),
    Operator::new("$toInt", Shape::Exactly(1), |a| to(a, BsonType::Int32)),
    Operator::new("$toLong", Shape::Exactly(1), |a| to(a, BsonType::Int64)),
    Operator::new("$toObjectId", Shape::Exactly(1), |a| to(a, BsonType::ObjectId)),
    Operator::new("$toString", Shape::Exactly(1), |a| to(a, BsonType::String)),
];

const CONVERT: &Named = &Named {
    parameters: &[
        required("input", FAILED_TO_PARSE, "Missing 'input' parameter to $convert"),
        required("to", FAILED_TO_PARSE, "Missing 'to' parameter to $convert"),
        optional("onError"),
        optional("onNull"),
    ],
    not_object: (FAILED_TO_PARSE, "$convert expects an object of named arguments but found: {}"),
    unknown: (FAILED_TO_PARSE, "$convert found an unknown argument: {}"),
};

fn convert<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (to, input) = (arguments.value(1)?, arguments.value(0)?);
    let target = match is_nullish(to.as_deref()) {
        true => None,
        false => Some(target_of(to.as_deref())?),
    };
    if is_nullish(input.as_deref()) {
        return if arguments.is_given(3) { arguments.value(3) } else { null() };
    }
    let (Some(input), Some(target)) = (input.as_deref(), target) else { return null() };
    match converted(input, target) {
        Ok(value) => owned(value),
        Err(failure) if failure.code == CONVERSION_FAILURE && arguments.is_given(2) => {
            let _ = failure;
            arguments.value(2)
        }
        Err(failure) => Err(failure),
    }
}

/// The type that is named, or that has this number.
fn target_of(to: Option<&Value>) -> Result<BsonType, Failure> {
    let failure = |message| Err(Failure::new(FAILED_TO_PARSE, message));
    if let Some(name) = to.and_then(Value::as_str) {
        return match BsonType::named(name) {
            Some(target) => Ok(target),
            None => failure(format!("Unknown type name: {name}")),
        };
    }
    let Some(number) = Number::of(to) else {
        let given = type_name(to);
        return failure(format!(
            "$convert's 'to' argument must be a string or number, but is {given}"
        ));
    };
    let Some(number) = number.exact_i32() else {
        return failure("In $convert, numeric 'to' argument is not an integer".to_owned());
    };
    match type_of_number(i64::from(number)) {
        Some(target) => Ok(target),
        None => failure(format!(
            "In $convert, numeric value for 'to' does not correspond to a BSON type: {number}"
        )),
    }
}

fn to<'s>(arguments: &Arguments<'s>, target: BsonType) -> Evaluated<'s> {
    match arguments.value(0)? {
        value if is_nullish(value.as_deref()) => null(),
        Some(value) => owned(converted(&value, target)?),
        None => null(),
    }
}

fn failure(text: impl std::fmt::Display) -> Failure {
    Failure::new(CONVERSION_FAILURE, text.to_string())
}

fn overflow(shown: impl std::fmt::Display) -> Failure {
    failure(format_args!(
        "Conversion would overflow target type in $convert with no onError value: {shown}"
    ))
}

/// The value in another type, if there is a conversion.
fn converted(value: &Value, target: BsonType) -> Result<Value, Failure> {
    let source = BsonType::of(value);
    if source == target && is_kept(target) {
        return Ok(value.clone());
    }
    let unsupported = || {
        let (from, to) = (source.alias(), target.alias());
        failure(format_args!(
            "Unsupported conversion from {from} to {to} in $convert with no onError value"
        ))
    };
    match target {
        BsonType::Bool => to_bool(value).ok_or_else(unsupported).map(Value::Bool),
        BsonType::Int32 => match to_whole(value, true)? {
            Some(n) => i32::try_from(n).map(Value::Int32).map_err(|_| overflow(n)),
            None => Err(unsupported()),
        },
        BsonType::Int64 => to_whole(value, false)?.map(Value::Int64).ok_or_else(unsupported),
        BsonType::Double => to_double(value)?.map(Value::Double).ok_or_else(unsupported),
        BsonType::Decimal128 => {
            let decimal = to_decimal(value)?.ok_or_else(unsupported)?;
            Ok(Value::Decimal128(decimal.to_bson()))
        }
        BsonType::String => to_text(value).map(Value::String).ok_or_else(unsupported),
        BsonType::Date => {
            let millis = to_millis(value)?.ok_or_else(unsupported)?;
            Ok(Value::Date(Date { millis, ticks: 0 }))
        }
        BsonType::ObjectId => match value.as_str() {
            Some(text) => to_object_id(text).map(Value::ObjectId),
            None => Err(unsupported()),
        },
        BsonType::MinKey
        | BsonType::Document
        | BsonType::Array
        | BsonType::Binary
        | BsonType::Undefined
        | BsonType::Null
        | BsonType::Regex
        | BsonType::DbPointer
        | BsonType::JavaScript
        | BsonType::Symbol
        | BsonType::JavaScriptWithScope
        | BsonType::Timestamp
        | BsonType::MaxKey => Err(unsupported()),
    }
}

/// Whether values of the type may be converted to their own type.
fn is_kept(target: BsonType) -> bool {
    matches!(
        target,
        BsonType::Bool
            | BsonType::Int32
            | BsonType::Int64
            | BsonType::Double
            | BsonType::Decimal128
            | BsonType::String
            | BsonType::Date
            | BsonType::ObjectId
    )
}

fn to_bool(value: &Value) -> Option<bool> {
    match Some(value) {
        Some(Value::Date(_)) => Some(true),
        Some(Value::MinKey | Value::MaxKey) => None,
        other => Some(is_truthy(other)),
    }
}

/// The integer of a number, cut towards zero, of a boolean or a text.
fn to_whole(value: &Value, is_narrow: bool) -> Result<Option<i64>, Failure> {
    let number = match Some(value) {
        Some(Value::Bool(b)) => return Ok(Some(i64::from(*b))),
        Some(Value::Date(date)) => return Ok((!is_narrow).then_some(date.millis)),
        Some(Value::String(text)) => return whole_of_text(text, is_narrow).map(Some),
        other => Number::of(other),
    };
    let Some(number) = number else { return Ok(None) };
    if number.is_nan() {
        return Err(failure(
            "Attempt to convert NaN value to integer type in $convert with no onError value",
        ));
    }
    if number.to_f64().is_infinite() && !matches!(number, Number::Decimal(Decimal::Finite(_))) {
        return Err(failure(
            "Attempt to convert infinity value to integer type in $convert with no onError value",
        ));
    }
    let whole = match number {
        Number::Int(n) => Some(i64::from(n)),
        Number::Long(n) => Some(n),
        Number::Double(n) => model::number::f64_to_i64(n.trunc()),
        Number::Decimal(n) => n.to_i64(Rounding::TowardsZero),
    };
    whole.map(Some).ok_or_else(|| overflow(printed(Some(value))))
}

fn not_a_number(text: &str, reason: &str) -> Failure {
    failure(format_args!(
        "Failed to parse number '{text}' in $convert with no onError value: {reason}"
    ))
}

fn whole_of_text(text: &str, is_narrow: bool) -> Result<i64, Failure> {
    if text.starts_with("0x") {
        return Err(hexadecimal(text));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() {
        let reason = if text.is_empty() { "Empty string" } else { "No digits" };
        return Err(not_a_number(text, reason));
    }
    if let Some(bad) = digits.chars().find(|c| !c.is_ascii_digit()) {
        let reason = match digits.starts_with(bad) {
            true => "Did not consume any digits".to_owned(),
            false => format!("Bad digit \"{bad}\" while parsing {text}"),
        };
        return Err(not_a_number(text, &reason));
    }
    let number: Option<i64> = text.parse().ok();
    number
        .filter(|n| !is_narrow || i32::try_from(*n).is_ok())
        .ok_or_else(|| not_a_number(text, "Overflow"))
}

fn hexadecimal(text: &str) -> Failure {
    failure(format_args!("Illegal hexadecimal input in $convert with no onError value: {text}"))
}

fn to_double(value: &Value) -> Result<Option<f64>, Failure> {
    match Some(value) {
        Some(Value::Bool(b)) => Ok(Some(f64::from(u8::from(*b)))),
        Some(Value::Date(date)) => Ok(Some(model::number::i64_to_f64(date.millis))),
        Some(Value::String(text)) => double_of_text(text).map(Some),
        Some(Value::Decimal128(_)) => {
            let Some(number) = Number::of(Some(value)) else { return Ok(None) };
            let Number::Decimal(decimal) = number else { return Ok(Some(number.to_f64())) };
            let double = decimal.to_f64();
            let is_finite = matches!(decimal, Decimal::Finite(_));
            if is_finite && (double.is_infinite() || (double == 0.0 && !decimal.is_zero())) {
                return Err(overflow(decimal));
            }
            Ok(Some(double))
        }
        other => Ok(Number::of(other).map(Number::to_f64)),
    }
}

fn double_of_text(text: &str) -> Result<f64, Failure> {
    if text.starts_with("0x") {
        return Err(hexadecimal(text));
    }
    if text.is_empty() {
        return Err(not_a_number(text, "Empty string"));
    }
    let Some(decimal) = Decimal::parse(text) else {
        return Err(not_a_number(text, "Did not consume whole string."));
    };
    if !matches!(decimal, Decimal::Finite(_)) && !text.contains(|c: char| c.is_ascii_digit()) {
        return Ok(decimal.to_f64());
    }
    match text.parse::<f64>() {
        Ok(double) if double.is_infinite() => Err(not_a_number(text, "Out of range")),
        Ok(double) => Ok(double),
        Err(_) => Err(not_a_number(text, "Did not consume whole string.")),
    }
}

fn to_decimal(value: &Value) -> Result<Option<Decimal>, Failure> {
    match Some(value) {
        Some(Value::Bool(b)) => Ok(Some(Decimal::from_i64(i64::from(*b)))),
        Some(Value::Date(date)) => Ok(Some(Decimal::from_i64(date.millis))),
        Some(Value::String(text)) if text.starts_with("0x") => Err(hexadecimal(text)),
        Some(Value::String(text)) => match Decimal::parse(text) {
            Some(Decimal::Infinity { .. }) if text.contains(|c: char| c.is_ascii_digit()) => {
                Err(not_a_number(text, "Conversion from string to decimal would overflow"))
            }
            Some(decimal) => Ok(Some(decimal)),
            None => Err(not_a_number(text, "Failed to parse string to decimal")),
        },
        other => Ok(Number::of(other).map(Number::to_decimal)),
    }
}

fn to_text(value: &Value) -> Option<String> {
    Some(match Some(value) {
        Some(Value::Bool(b)) => b.to_string(),
        Some(Value::Double(n)) => double_text(*n),
        Some(Value::Int32(n)) => n.to_string(),
        Some(Value::Int64(n)) => n.to_string(),
        Some(Value::Decimal128(bytes)) => Decimal::from_bson(bytes).to_string(),
        Some(Value::Date(date)) => date_text(date.millis),
        Some(Value::ObjectId(id)) => id.iter().map(|byte| format!("{byte:02x}")).collect(),
        _ => return None,
    })
}

/// Numbers count milliseconds; an int cannot hold them.
fn to_millis(value: &Value) -> Result<Option<i64>, Failure> {
    match Some(value) {
        Some(Value::String(text)) => parse_text(text).map(Some),
        Some(Value::Int64(_) | Value::Double(_) | Value::Decimal128(_)) => to_whole(value, false),
        other => Ok(millis_of(other)),
    }
}

fn to_object_id(text: &str) -> Result<[u8; 12], Failure> {
    let invalid = |reason: String| {
        failure(format_args!(
            "Failed to parse objectId '{text}' in $convert with no onError value: {reason}"
        ))
    };
    if text.len() != 24 {
        return Err(invalid(format!(
            "Invalid string length for parsing to OID, expected 24 but found {}",
            text.len()
        )));
    }
    let mut id = [0; 12];
    for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| digits.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let value =
            digit(0).zip(digit(1)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        *byte = value.ok_or_else(|| invalid("Invalid character found in hex string".to_owned()))?;
    }
    Ok(id)
}
