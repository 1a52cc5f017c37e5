//! Checks bytes that a client sent.

use super::raw::{Cursor, RawDocument, RawValue};
use super::{
    BsonError, BsonLimits, DOCUMENT_BYTES_MIN, ElementType, LENGTH_BYTES, OLD_BINARY_SUBTYPE,
};
use crate::limits::BSON_DEPTH_MAX;

/// The document that `bytes` are, if they are one and nothing more: every length fits what holds
/// it, every text is UTF-8 and ends with zero, every type is known, nothing is deeper or longer
/// than allowed. Costs one pass over the bytes.
pub fn check(bytes: &[u8], limits: BsonLimits) -> Result<RawDocument<'_>, BsonError> {
    let (document, rest) = check_first(bytes, limits)?;
    match rest.is_empty() {
        true => Ok(document),
        false => Err(BsonError::BytesAfterEnd { at: document.as_bytes().len() }),
    }
}

/// The document that `bytes` begin with, checked, and the bytes after it.
pub fn check_first(
    bytes: &[u8],
    limits: BsonLimits,
) -> Result<(RawDocument<'_>, &[u8]), BsonError> {
    let length = Cursor::new(bytes, 0).length()?;
    if length < DOCUMENT_BYTES_MIN {
        return Err(BsonError::WrongLength { at: 0 });
    }
    if length > limits.bytes_max {
        return Err(BsonError::TooLong { bytes: length, max: limits.bytes_max });
    }
    let (document, rest) = bytes.split_at_checked(length).ok_or(BsonError::TooShort { at: 0 })?;
    let depth_max = limits.depth_max.min(BSON_DEPTH_MAX);
    Checker { depth_max }.document(document, 0, 1)?;
    Ok((RawDocument::of_stored(document), rest))
}

struct Checker {
    depth_max: usize,
}

impl Checker {
    /// Checks a document or an array of level `depth`, which begins at byte `at` of the whole.
    fn document(&self, bytes: &[u8], at: usize, depth: usize) -> Result<(), BsonError> {
        if depth > self.depth_max {
            return Err(BsonError::TooDeep { max: self.depth_max });
        }
        let mut cursor = Cursor::of_document(bytes, at)?;
        while let Some(element) = cursor.element()? {
            if std::str::from_utf8(element.name).is_err() {
                return Err(BsonError::NotUtf8 { at: element.name_at });
            }
            self.value(element.value, element.value_at, depth)?;
        }
        Ok(())
    }

    fn value(&self, value: RawValue<'_>, at: usize, depth: usize) -> Result<(), BsonError> {
        let bytes = value.as_bytes();
        match value.element_type() {
            ElementType::Document | ElementType::Array => self.document(bytes, at, depth + 1),
            ElementType::String | ElementType::JavaScript | ElementType::Symbol => {
                Cursor::new(bytes, at).string().map(|_| ())
            }
            ElementType::Bool => match bytes {
                [0 | 1] => Ok(()),
                _ => Err(BsonError::NotBoolean { at }),
            },
            ElementType::Binary => check_binary(bytes, at),
            ElementType::Regex => check_regex(bytes, at),
            ElementType::DbPointer => Cursor::new(bytes, at).string().map(|_| ()),
            ElementType::JavaScriptWithScope => self.code_with_scope(bytes, at, depth),
            ElementType::Double
            | ElementType::Undefined
            | ElementType::ObjectId
            | ElementType::Date
            | ElementType::Null
            | ElementType::Int32
            | ElementType::Timestamp
            | ElementType::Int64
            | ElementType::Decimal128
            | ElementType::MinKey
            | ElementType::MaxKey => Ok(()),
        }
    }

    /// The length counts exactly what follows it, a string and a document.
    fn code_with_scope(&self, bytes: &[u8], at: usize, depth: usize) -> Result<(), BsonError> {
        let mut cursor = Cursor::new(bytes, at);
        cursor.length()?;
        cursor.string()?;
        let scope_at = cursor.at();
        let scope = cursor.document()?;
        if !cursor.is_at_end() {
            return Err(BsonError::WrongLength { at });
        }
        self.document(scope, scope_at, depth + 1)
    }
}

fn check_binary(bytes: &[u8], at: usize) -> Result<(), BsonError> {
    let mut cursor = Cursor::new(bytes, at);
    let length = cursor.length()?;
    if cursor.byte()? != OLD_BINARY_SUBTYPE {
        return Ok(());
    }
    let inner_at = cursor.at();
    let is_right =
        cursor.length().is_ok_and(|inner| Some(inner) == length.checked_sub(LENGTH_BYTES));
    if is_right { Ok(()) } else { Err(BsonError::WrongLength { at: inner_at }) }
}

fn check_regex(bytes: &[u8], at: usize) -> Result<(), BsonError> {
    let mut cursor = Cursor::new(bytes, at);
    for _ in 0..2 {
        let text_at = cursor.at();
        if std::str::from_utf8(cursor.zero_terminated()?).is_err() {
            return Err(BsonError::NotUtf8 { at: text_at });
        }
    }
    Ok(())
}
