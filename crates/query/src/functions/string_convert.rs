//! Conversions between strings and other values.

use model::Value;

use super::{Args, Function, Outcome, exactly};
use crate::Budget;
use crate::compare::{Class, class_of};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::metered("StringJoin", exactly(2), join),
    Function::linear("StringSplit", exactly(2), split),
    Function::linear("StringToArray", exactly(1), |args| parse(args, Class::Array)),
    Function::linear("StringToBoolean", exactly(1), |args| parse(args, Class::Bool)),
    Function::linear("StringToNull", exactly(1), |args| parse(args, Class::Null)),
    Function::linear("StringToNumber", exactly(1), |args| parse(args, Class::Number)),
    Function::linear("StringToObject", exactly(1), |args| parse(args, Class::Object)),
    Function::metered("ToString", exactly(1), to_string),
];

/// The value of a JSON text, if it is of the wanted type.
fn parse(args: &Args<'_>, wanted: Class) -> Option<Value> {
    let text = args.str(0)?.as_bytes();
    let value = model::json::parse(text, model::limits::ITEM_DEPTH_MAX).ok()?.value;
    (class_of(&value) == wanted).then_some(value)
}

fn to_string(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some(value) = args.get(0) else { return Ok(None) };
    if let Some(text) = value.as_str() {
        budget.spend_bytes(text.len())?;
        return Ok(Some(Value::from(text)));
    }
    if let Value::Double(number) = value
        && !number.is_finite()
    {
        return Ok(Some(Value::from(non_finite_text(*number))));
    }
    // The text of a value is at most a small multiple of its size in memory.
    budget.spend_copy_of(value)?;
    Ok(Some(Value::String(model::json::to_string(value))))
}

fn non_finite_text(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn join(args: &Args<'_>, budget: &Budget) -> Outcome {
    let (Some(elements), Some(separator)) = (args.array(0), args.str(1)) else { return Ok(None) };
    let Some(texts) = elements.iter().map(Value::as_str).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let text_bytes: usize = texts.iter().map(|text| text.len()).sum();
    let separator_bytes = separator.len().saturating_mul(texts.len());
    budget.spend_bytes(text_bytes.saturating_add(separator_bytes))?;
    Ok(Some(Value::String(texts.join(separator))))
}

fn split(args: &Args<'_>) -> Option<Value> {
    let (text, separator) = (args.str(0)?, args.str(1)?);
    if separator.is_empty() {
        return Some(Value::Array(vec![Value::from(text)]));
    }
    Some(Value::Array(text.split(separator).map(Value::from).collect()))
}
