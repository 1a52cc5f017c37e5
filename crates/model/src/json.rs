//! Converts JSON text to and from [`Value`].
//!
//! Reading yields the plain subset: null, booleans, int64 for integers that fit, double for all
//! other numbers, strings, arrays and objects. Writing is compact and escapes only what JSON
//! requires. Types that JSON lacks are written in MongoDB's Extended JSON v2, relaxed form:
//!
//! | Value | Written as |
//! |---|---|
//! | int32, int64, finite double | a number, see [`number::write_f64`] |
//! | NaN, infinities | `{"$numberDouble":"NaN"}`, `"Infinity"`, `"-Infinity"` |
//! | decimal128 | `{"$numberDecimal":"1.10"}` |
//! | binary | `{"$binary":{"base64":"AQI=","subType":"00"}}` |
//! | guid | `{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}` |
//! | date in 1970 to 9999 | `{"$date":"2024-02-29T13:05:06.789Z"}`, no fraction, 3 or 7 digits |
//! | any other date | `{"$date":{"$numberLong":"-1"}}`, ticks within the millisecond as `"ticks"` |
//! | object id | `{"$oid":"507f1f77bcf86cd799439011"}` |
//! | timestamp | `{"$timestamp":{"t":1,"i":2}}` |
//! | regular expression | `{"$regularExpression":{"pattern":"^a","options":"i"}}` |
//! | code, code with scope | `{"$code":"…"}`, `{"$code":"…","$scope":{}}` |
//! | symbol | `{"$symbol":"…"}` |
//! | undefined | `{"$undefined":true}` |
//! | pointer | `{"$dbPointer":{"$ref":"db.c","$id":{"$oid":"…"}}}` |
//! | min key, max key | `{"$minKey":1}`, `{"$maxKey":1}` |
//!
//! No two types share a form but guids and binaries of subtype 4, so [`extended::restore`] gives
//! every value its type back. The parser here does not: in NoSQL containers these objects are plain
//! objects.

use crate::{Value, number};

pub mod extended;
mod field_mask;
mod parser;
mod scan;

pub use field_mask::{FieldMask, parse_part, parse_part_again};

/// Why a text is not accepted as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not JSON.
    #[error("invalid JSON at byte {at}: {reason}")]
    Syntax {
        /// Byte offset.
        at: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Nested deeper than allowed.
    #[error("JSON nested deeper than {max} levels")]
    TooDeep {
        /// The limit that was exceeded.
        max: usize,
    },
}

/// A parsed text, and whether the text can be stored for the value unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The value. Of repeated names the last wins, at the position of the first.
    pub value: Value,
    /// False when some object repeats a name, so that text and value differ, or a string has a tab
    /// or a line end that JSON wants escaped.
    pub is_faithful: bool,
}

/// Parses one JSON value that fills the whole text (white space around it allowed).
///
/// Strict: UTF-8 only, no byte order mark, no lone surrogates in escapes (a [`String`] cannot hold
/// one, and replacing it would change the client's data), no control characters in strings but
/// tabs and line ends, no number beyond the range of doubles.
/// `-0` is the double negative zero. A scalar has depth 0, `[]` depth 1; `depth_max` is capped at
/// [`crate::limits::JSON_DEPTH_MAX`].
pub fn parse(text: &[u8], depth_max: usize) -> Result<Parsed, JsonError> {
    parser::parse(text, depth_max)
}

/// Appends `value` as compact JSON. Types that JSON lacks are written in the extended forms of the
/// [module documentation](self).
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int32(n) => number::write_i64(i64::from(*n), out),
        Value::Int64(n) => number::write_i64(*n, out),
        Value::Double(n) if n.is_finite() => number::write_f64(*n, out),
        Value::String(text) => write_str(text, out),
        Value::Array(elements) => write_array(elements, out),
        Value::Object(object) => write_members(object.iter(), out),
        Value::Double(_)
        | Value::Decimal128(_)
        | Value::Binary { .. }
        | Value::Guid(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::JavaScript { .. }
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::Symbol(_)
        | Value::MinKey
        | Value::MaxKey => extended::write(value, out),
    }
}

/// `value` as compact JSON text.
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of hexadecimal digits, if they are as many as asked for.
pub(crate) fn bytes_of_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let is_shaped = digits.len() == 2 * N && digits.iter().all(u8::is_ascii_hexdigit);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    is_shaped.then_some(bytes)
}

/// Appends `text` as a JSON string literal with its quotes. Escaped are the quote, the backslash
/// and control characters.
pub fn write_str(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(scan::plain_prefix(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        write_escape(*byte, out);
        rest = after;
    }
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let digit = |nibble: u8| DIGITS[usize::from(nibble & 0x0F)];
            return out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                digit(byte >> 4),
                digit(byte),
            ]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn write_array(elements: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, element) in elements.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(b']');
}

fn write_members<'v>(members: impl Iterator<Item = (&'v str, &'v Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (name, value)) in members.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_str(name, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
