//! Values with their type, in their form in items.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{EdmType, date_from_ticks, guid_text, parse_guid, ticks_of};
use crate::{Value, json, number};

const TYPE: &str = "$t";
const VALUE: &str = "$v";

/// The value of a tagged one; `None` if this is not a tagged value.
pub fn untag(tagged: &Value) -> Option<Value> {
    let object = tagged.as_object()?;
    let edm = EdmType::coded(object.get(TYPE)?.as_i64()?)?;
    let value = object.get(VALUE)?;
    match edm {
        EdmType::Guid => parse_guid(value.as_str()?).map(Value::Guid),
        EdmType::Double => match value.as_str() {
            Some(name) => special_double(name).map(Value::Double),
            None => value.as_f64().map(Value::Double),
        },
        EdmType::String => value.as_str().map(Value::from),
        EdmType::Binary => {
            let bytes = STANDARD.decode(value.as_str()?).ok()?;
            Some(Value::Binary { subtype: 0, bytes })
        }
        EdmType::Boolean => value.as_bool().map(Value::Bool),
        EdmType::DateTime => padded(value)
            .filter(|ticks| *ticks >= 0)
            .map(|ticks| Value::Date(date_from_ticks(ticks))),
        EdmType::Int32 => i32::try_from(value.as_i64()?).ok().map(Value::Int32),
        EdmType::Int64 => padded(value).map(Value::Int64),
    }
}

/// A number in padded digits, or a JSON number.
fn padded(value: &Value) -> Option<i64> {
    match value.as_str() {
        Some(digits) => digits.parse().ok(),
        None => value.as_i64(),
    }
}

/// The doubles that have no JSON number.
pub(crate) fn special_double(name: &str) -> Option<f64> {
    match name {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Appends a value with its type as JSON, or null if the data model does not have its type.
pub fn write_tagged(value: &Value, out: &mut Vec<u8>) {
    let Some(edm) = EdmType::of(value) else { return out.extend_from_slice(b"null") };
    out.extend_from_slice(b"{\"$t\":");
    number::write_i64(i64::from(edm.code()), out);
    out.extend_from_slice(b",\"$v\":");
    if let Value::Double(n) = value {
        write_f64(*n, out);
    } else if let Value::Int64(n) = value {
        write_padded(*n, out);
    } else if let Value::Date(date) = value {
        write_padded(ticks_of(*date), out);
    } else if let Value::Guid(guid) = value {
        json::write_str(&guid_text(guid), out);
    } else if let Value::Binary { bytes, .. } = value {
        json::write_str(&STANDARD.encode(bytes), out);
    } else {
        json::write(value, out);
    }
    out.push(b'}');
}

fn write_padded(n: i64, out: &mut Vec<u8>) {
    let sign = if n < 0 { "-" } else { "" };
    out.extend_from_slice(format!("\"{sign}{:020}\"", n.unsigned_abs()).as_bytes());
}

/// Appends a double so that it is not read as an integer: with a point or an exponent even if it is
/// whole, or as a string if JSON has no number for it.
pub fn write_f64(n: f64, out: &mut Vec<u8>) {
    let start = out.len();
    if n == 0.0 && n.is_sign_negative() {
        out.push(b'-');
    }
    number::write_f64(n, out);
    let is_integer = |text: &[u8]| text.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9'));
    if out.get(start..).is_some_and(is_integer) {
        out.extend_from_slice(b".0");
    }
}
