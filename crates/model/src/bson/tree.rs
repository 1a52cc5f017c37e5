//! Builds trees.

use super::raw::{Cursor, RawValue};
use super::{BsonError, ElementType, LENGTH_BYTES, OLD_BINARY_SUBTYPE};
use crate::Value;
use crate::limits::BSON_DEPTH_MAX;
use crate::value::{Date, Object};

/// The document as a tree. Of bytes that were not checked, all that goes into the tree is.
pub fn read(bytes: &[u8]) -> Result<Object, BsonError> {
    object(bytes, 1)
}

pub(super) fn read_value(raw: RawValue<'_>) -> Result<Value, BsonError> {
    value(raw, 1)
}

/// Refuses a document or an array on a level that no checked document has, so that damaged bytes
/// can't exhaust the stack.
pub(super) fn check_depth(depth: usize) -> Result<(), BsonError> {
    match depth > BSON_DEPTH_MAX {
        true => Err(BsonError::TooDeep { max: BSON_DEPTH_MAX }),
        false => Ok(()),
    }
}

fn object(bytes: &[u8], depth: usize) -> Result<Object, BsonError> {
    check_depth(depth)?;
    let mut cursor = Cursor::of_document(bytes, 0)?;
    let mut fields = Vec::new();
    while let Some(element) = cursor.element()? {
        let name = std::str::from_utf8(element.name)
            .map_err(|_| BsonError::NotUtf8 { at: element.name_at })?;
        fields.push((name.to_owned(), value(element.value, depth)?));
    }
    Ok(Object::from_fields_keeping_first(fields))
}

fn array(bytes: &[u8], depth: usize) -> Result<Vec<Value>, BsonError> {
    check_depth(depth)?;
    let mut cursor = Cursor::of_document(bytes, 0)?;
    let mut elements = Vec::new();
    while let Some(element) = cursor.element()? {
        elements.push(value(element.value, depth)?);
    }
    Ok(elements)
}

/// A value of a document on level `depth`.
pub(super) fn value(raw: RawValue<'_>, depth: usize) -> Result<Value, BsonError> {
    let mut cursor = Cursor::new(raw.as_bytes(), 0);
    Ok(match raw.element_type() {
        ElementType::Double => Value::Double(f64::from_bits(cursor.i64()?.cast_unsigned())),
        ElementType::String => Value::String(cursor.string()?.to_owned()),
        ElementType::Document => Value::Object(object(raw.as_bytes(), depth + 1)?),
        ElementType::Array => Value::Array(array(raw.as_bytes(), depth + 1)?),
        ElementType::Binary => binary(&mut cursor)?,
        ElementType::Undefined => Value::Undefined,
        ElementType::ObjectId => Value::ObjectId(cursor.array()?),
        ElementType::Bool => Value::Bool(cursor.byte()? != 0),
        ElementType::Date => Value::Date(Date { millis: cursor.i64()?, ticks: 0 }),
        ElementType::Null => Value::Null,
        ElementType::Regex => {
            Value::Regex { pattern: plain_text(&mut cursor)?, options: plain_text(&mut cursor)? }
        }
        ElementType::DbPointer => {
            Value::DbPointer { namespace: cursor.string()?.to_owned(), id: cursor.array()? }
        }
        ElementType::JavaScript => {
            Value::JavaScript { code: cursor.string()?.to_owned(), scope: None }
        }
        ElementType::Symbol => Value::Symbol(cursor.string()?.to_owned()),
        ElementType::JavaScriptWithScope => {
            cursor.length()?;
            let code = cursor.string()?.to_owned();
            let scope = object(cursor.document()?, depth + 1)?;
            Value::JavaScript { code, scope: Some(Box::new(scope)) }
        }
        ElementType::Int32 => Value::Int32(cursor.i32()?),
        ElementType::Timestamp => Value::Timestamp {
            increment: cursor.i32()?.cast_unsigned(),
            seconds: cursor.i32()?.cast_unsigned(),
        },
        ElementType::Int64 => Value::Int64(cursor.i64()?),
        ElementType::Decimal128 => Value::Decimal128(cursor.array()?),
        ElementType::MinKey => Value::MinKey,
        ElementType::MaxKey => Value::MaxKey,
    })
}

fn binary(cursor: &mut Cursor<'_>) -> Result<Value, BsonError> {
    let length = cursor.length()?;
    let subtype = cursor.byte()?;
    let inner_length = if subtype == OLD_BINARY_SUBTYPE {
        cursor.length()?;
        length.checked_sub(LENGTH_BYTES).ok_or(BsonError::WrongLength { at: 0 })?
    } else {
        length
    };
    Ok(Value::Binary { subtype, bytes: cursor.take(inner_length)?.to_vec() })
}

fn plain_text(cursor: &mut Cursor<'_>) -> Result<String, BsonError> {
    let at = cursor.at();
    let text = std::str::from_utf8(cursor.zero_terminated()?);
    text.map(str::to_owned).map_err(|_| BsonError::NotUtf8 { at })
}
