//! Writes trees as BSON.

use super::{BsonError, ElementType, GUID_SUBTYPE, LENGTH_BYTES, OLD_BINARY_SUBTYPE};
use crate::Value;
use crate::value::Object;

/// Appends `object` as a document. On an error `out` holds an incomplete one.
pub fn write(object: &Object, out: &mut Vec<u8>) -> Result<(), BsonError> {
    with_length(out, |out| {
        for (name, value) in object.iter() {
            out.push(ElementType::of(value).code());
            write_name(name, out)?;
            write_value(value, out)?;
        }
        out.push(0);
        Ok(())
    })
}

/// Appends the bytes of a value, without the type and the name that precede them in a document.
pub fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), BsonError> {
    match value {
        Value::Null | Value::Undefined | Value::MinKey | Value::MaxKey => {}
        Value::Bool(b) => out.push(u8::from(*b)),
        Value::Int32(n) => write_i32(*n, out),
        Value::Int64(n) => write_i64(*n, out),
        Value::Double(n) => write_i64(n.to_bits().cast_signed(), out),
        Value::Decimal128(bytes) => out.extend_from_slice(bytes),
        Value::String(text) | Value::Symbol(text) => return write_string(text, out),
        Value::Binary { subtype, bytes } => return write_binary(*subtype, bytes, out),
        Value::Guid(guid) => return write_binary(GUID_SUBTYPE, guid, out),
        Value::Date(date) => write_i64(date.millis, out),
        Value::ObjectId(id) => out.extend_from_slice(id),
        Value::Timestamp { seconds, increment } => {
            write_i32(increment.cast_signed(), out);
            write_i32(seconds.cast_signed(), out);
        }
        Value::Regex { pattern, options } => {
            write_name(pattern, out)?;
            write_name(options, out)?;
        }
        Value::JavaScript { code, scope: None } => return write_string(code, out),
        Value::JavaScript { code, scope: Some(scope) } => {
            return with_length(out, |out| {
                write_string(code, out)?;
                write(scope, out)
            });
        }
        Value::DbPointer { namespace, id } => {
            write_string(namespace, out)?;
            out.extend_from_slice(id);
        }
        Value::Array(elements) => return write_array(elements, out),
        Value::Object(object) => return write(object, out),
    }
    Ok(())
}

fn write_array(elements: &[Value], out: &mut Vec<u8>) -> Result<(), BsonError> {
    let mut digits = itoa::Buffer::new();
    with_length(out, |out| {
        for (at, element) in elements.iter().enumerate() {
            out.push(ElementType::of(element).code());
            out.extend_from_slice(digits.format(at).as_bytes());
            out.push(0);
            write_value(element, out)?;
        }
        out.push(0);
        Ok(())
    })
}

fn write_binary(subtype: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BsonError> {
    let is_old = subtype == OLD_BINARY_SUBTYPE;
    let length = if is_old { bytes.len() + LENGTH_BYTES } else { bytes.len() };
    write_i32(length_of(length)?, out);
    out.push(subtype);
    if is_old {
        write_i32(length_of(bytes.len())?, out);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

fn write_string(text: &str, out: &mut Vec<u8>) -> Result<(), BsonError> {
    write_i32(length_of(text.len() + 1)?, out);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
    Ok(())
}

/// A text that ends at its first zero.
fn write_name(name: &str, out: &mut Vec<u8>) -> Result<(), BsonError> {
    if name.as_bytes().contains(&0) {
        return Err(BsonError::ZeroByteInName);
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    Ok(())
}

/// Appends a length, which counts its own bytes, and what `body` appends.
#[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
fn with_length(
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), BsonError>,
) -> Result<(), BsonError> {
    let start = out.len();
    write_i32(0, out);
    body(out)?;
    let length = length_of(out.len() - start)?;
    if let Some(slot) = out.get_mut(start..start + LENGTH_BYTES) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

fn length_of(bytes: usize) -> Result<i32, BsonError> {
    const MAX: usize = i32::MAX as usize;
    i32::try_from(bytes).map_err(|_| BsonError::TooLong { bytes, max: MAX })
}

#[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
pub(super) fn write_i32(n: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&n.to_le_bytes());
}

#[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
fn write_i64(n: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&n.to_le_bytes());
}
