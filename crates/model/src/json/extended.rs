//! MongoDB's Extended JSON v2: the forms of types that JSON lacks. The table of those that are
//! written is in the parent's documentation.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Value;
use crate::calendar::date_of_day;
use crate::decimal::Decimal;
use crate::edm::guid_text;
use crate::value::{Date, Object};

mod restore;

pub use restore::{ExtendedJsonError, parse, restore};

/// Appends `value` in its extended form. Types that JSON has are written as JSON.
pub(super) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Double(n) => wrap_text("$numberDouble", double_name(*n), out),
        Value::Decimal128(bytes) => {
            wrap_text("$numberDecimal", &Decimal::from_bson(bytes).to_string(), out);
        }
        Value::Binary { subtype, bytes } => write_binary(*subtype, bytes, out),
        Value::Guid(guid) => wrap_text("$uuid", &guid_text(guid), out),
        Value::Date(date) => write_date(*date, out),
        Value::ObjectId(id) => wrap_text("$oid", &super::hex(id), out),
        Value::Timestamp { seconds, increment } => {
            append(out, format_args!(r#"{{"$timestamp":{{"t":{seconds},"i":{increment}}}}}"#));
        }
        Value::Regex { pattern, options } => {
            out.extend_from_slice(br#"{"$regularExpression":{"pattern":"#);
            super::write_str(pattern, out);
            out.extend_from_slice(br#","options":"#);
            super::write_str(options, out);
            out.extend_from_slice(b"}}");
        }
        Value::JavaScript { code, scope } => write_code(code, scope.as_deref(), out),
        Value::Symbol(name) => wrap_text("$symbol", name, out),
        Value::Undefined => out.extend_from_slice(br#"{"$undefined":true}"#),
        Value::DbPointer { namespace, id } => {
            out.extend_from_slice(br#"{"$dbPointer":{"$ref":"#);
            super::write_str(namespace, out);
            append(out, format_args!(r#","$id":{{"$oid":"{}"}}}}}}"#, super::hex(id)));
        }
        Value::MinKey => out.extend_from_slice(br#"{"$minKey":1}"#),
        Value::MaxKey => out.extend_from_slice(br#"{"$maxKey":1}"#),
        Value::Null
        | Value::Bool(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => super::write(value, out),
    }
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector never fails.
    let _ = out.write_fmt(text);
}

/// `{"name":"text"}`; `name` needs no escapes.
fn wrap_text(name: &str, text: &str, out: &mut Vec<u8>) {
    append(out, format_args!(r#"{{"{name}":"#));
    super::write_str(text, out);
    out.push(b'}');
}

/// Finite doubles are plain JSON and never reach this function.
fn double_name(n: f64) -> &'static str {
    if n.is_nan() {
        "NaN"
    } else if n > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn write_binary(subtype: u8, bytes: &[u8], out: &mut Vec<u8>) {
    let base64 = STANDARD.encode(bytes);
    append(out, format_args!(r#"{{"$binary":{{"base64":"{base64}","subType":"{subtype:02x}"}}}}"#));
}

fn write_code(code: &str, scope: Option<&Object>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"$code":"#);
    super::write_str(code, out);
    if let Some(scope) = scope {
        out.extend_from_slice(br#","$scope":"#);
        super::write_members(scope.iter(), out);
    }
    out.push(b'}');
}

const MILLIS_PER_DAY: i64 = 86_400_000;
/// The first millisecond after the year 9999.
const YEAR_10000_MILLIS: i64 = 253_402_300_800_000;

fn write_date(date: Date, out: &mut Vec<u8>) {
    if (0..YEAR_10000_MILLIS).contains(&date.millis) {
        return wrap_text("$date", &iso_text(date), out);
    }
    let ticks = match date.ticks {
        0 => String::new(),
        ticks => format!(r#","ticks":{ticks}"#),
    };
    append(out, format_args!(r#"{{"$date":{{"$numberLong":"{}"{ticks}}}}}"#, date.millis));
}

/// A date of the years 1970 to 9999, with as many digits after the second as it needs: 0, 3 or 7.
fn iso_text(date: Date) -> String {
    let (year, month, day) = date_of_day(date.millis / MILLIS_PER_DAY);
    let of_day = date.millis % MILLIS_PER_DAY;
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let millis = of_day % 1000;
    let fraction = match (millis, date.ticks) {
        (0, 0) => String::new(),
        (millis, 0) => format!(".{millis:03}"),
        (millis, ticks) => format!(".{millis:03}{ticks:04}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}
