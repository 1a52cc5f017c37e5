//! Types and sizes of values, timestamps, random numbers and scripts.

use std::borrow::Cow;

use model::Value;

use super::number::Number;
use super::operator::{Named, null, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{is_nullish, type_name};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$binarySize", Shape::Exactly(1), binary_size),
    Operator::new("$bsonSize", Shape::Exactly(1), bson_size),
    Operator::new("$function", Shape::Special(Some(FUNCTION)), function).impure(),
    Operator::new("$isNumber", Shape::Exactly(1), |arguments| {
        owned(Number::of(arguments.value(0)?.as_deref()).is_some())
    }),
    // There is no metadata of these kinds.
    Operator::new("$meta", Shape::Special(None), |_| Ok(None)).impure(),
    Operator::new("$rand", Shape::Special(None), random).impure(),
    Operator::new("$tsIncrement", Shape::Exactly(1), |arguments| {
        timestamp(arguments, 5687302, |_, increment| increment)
    }),
    Operator::new("$tsSecond", Shape::Exactly(1), |arguments| {
        timestamp(arguments, 5687301, |seconds, _| seconds)
    }),
    Operator::new("$type", Shape::Exactly(1), |arguments| {
        owned(type_name(arguments.value(0)?.as_deref()))
    }),
];

const FUNCTION: &Named = &Named {
    parameters: &[
        required("body", 31261, "The body function must be specified."),
        required("args", 31263, "The args field must be specified."),
        required("lang", 31418, "The lang field must be specified."),
    ],
    not_object: (31260, "$function requires an object as an argument, found: {}"),
    unknown: (31262, "$function found an unknown argument: {}"),
};

fn length<'s>(bytes: usize) -> Evaluated<'s> {
    owned(Value::Int32(i32::try_from(bytes).unwrap_or(i32::MAX)))
}

fn binary_size<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let value = arguments.value(0)?;
    match value.as_deref() {
        other if is_nullish(other) => null(),
        Some(Value::String(text)) => length(text.len()),
        Some(Value::Binary { bytes, .. }) => length(bytes.len()),
        Some(Value::Guid(bytes)) => length(bytes.len()),
        other => {
            let given = type_name(other);
            let message =
                format!("$binarySize requires a string or BinData argument, found: {given}");
            Err(Failure::new(51276, message))
        }
    }
}

fn bson_size<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let value = arguments.value(0)?;
    match value.as_deref() {
        other if is_nullish(other) => null(),
        Some(Value::Object(object)) => {
            let mut bytes = Vec::new();
            model::bson::write(object, &mut bytes).map_err(|error| {
                Failure::new(crate::document::code::BAD_VALUE, error.to_string())
            })?;
            length(bytes.len())
        }
        other => {
            let given = type_name(other);
            let message = format!("$bsonSize requires a document input, found: {given}");
            Err(Failure::new(31393, message))
        }
    }
}

/// The source text as a literal, then the array of arguments.
fn function<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let source = arguments.value(0)?;
    let Some(Value::Array(operands)) = arguments.own(1)? else {
        return Err(Failure::new(31266, "The args field must be of type array"));
    };
    let source = match source.as_deref() {
        Some(Value::String(text) | Value::JavaScript { code: text, .. }) => text.as_str(),
        _ => "",
    };
    let scripts = arguments.scope().variables().scripts().ok_or_else(|| {
        let message = "$function not allowed: there is no JavaScript on this server";
        Failure::new(NOT_SUPPORTED, message)
    })?;
    Ok(scripts.call(source, operands)?.map(Cow::Owned))
}

const NOT_SUPPORTED: i32 = 31264;

/// A number from 0 up to 1, with all the digits that a double has.
fn random<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let bits = arguments.scope().variables().next_random() >> 11;
    owned(bits as f64 / (1_u64 << 53) as f64)
}

fn timestamp<'s>(arguments: &Arguments<'s>, code: i32, part: fn(u32, u32) -> u32) -> Evaluated<'s> {
    let value = arguments.value(0)?;
    match value.as_deref() {
        other if is_nullish(other) => null(),
        Some(Value::Timestamp { seconds, increment }) => {
            owned(i64::from(part(*seconds, *increment)))
        }
        other => {
            let (name, given) = (arguments.name(), type_name(other));
            let message = format!(" Argument to {name} must be a timestamp, but is {given}");
            Err(Failure::new(code, message))
        }
    }
}
