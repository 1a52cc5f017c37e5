//! Documents as they are stored: values are found and skipped, not built.

use super::{BsonError, DOCUMENT_BYTES_MIN, ElementType, LENGTH_BYTES, OBJECT_ID_BYTES, tree};
use crate::value::Object;
use crate::{Value, number};

/// The bytes of a document or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDocument<'b> {
    bytes: &'b [u8],
}

/// A field of a document, or an element of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawField<'b> {
    name: &'b [u8],
    value: RawValue<'b>,
}

/// A value of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawValue<'b> {
    element_type: ElementType,
    bytes: &'b [u8],
}

impl<'b> RawDocument<'b> {
    /// A document that was checked before it was stored. If it is not one after all, its fields end
    /// where that shows.
    pub fn of_stored(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// All of its bytes.
    pub fn as_bytes(self) -> &'b [u8] {
        self.bytes
    }

    /// Its fields in order, repeated names included.
    pub fn iter(self) -> RawFields<'b> {
        RawFields { cursor: Cursor::of_document(self.bytes, 0).unwrap_or(Cursor::new(&[], 0)) }
    }

    /// Whether it has no fields.
    pub fn is_empty(self) -> bool {
        self.bytes.len() <= DOCUMENT_BYTES_MIN
    }

    /// The first field of this name.
    pub fn get(self, name: &str) -> Option<RawValue<'b>> {
        self.iter().find(|field| field.name == name.as_bytes()).map(|field| field.value)
    }

    /// The value at a path of names. Arrays are not entered.
    pub fn at_path<'n>(self, path: impl IntoIterator<Item = &'n str>) -> Option<RawValue<'b>> {
        let mut path = path.into_iter();
        let mut value = self.get(path.next()?)?;
        for name in path {
            value = value.as_document()?.get(name)?;
        }
        Some(value)
    }

    /// The document as a tree.
    pub fn to_object(self) -> Result<Object, BsonError> {
        tree::read(self.bytes)
    }
}

impl<'b> RawField<'b> {
    /// Its name. Empty if it is not UTF-8, which no checked document has.
    pub fn name(self) -> &'b str {
        std::str::from_utf8(self.name).unwrap_or_default()
    }

    /// The bytes of its name.
    pub fn name_bytes(self) -> &'b [u8] {
        self.name
    }

    /// Its value.
    pub fn value(self) -> RawValue<'b> {
        self.value
    }
}

/// The fields of a document.
#[derive(Clone, Debug)]
pub struct RawFields<'b> {
    cursor: Cursor<'b>,
}

impl<'b> Iterator for RawFields<'b> {
    type Item = RawField<'b>;

    fn next(&mut self) -> Option<RawField<'b>> {
        let element = self.cursor.element().ok().flatten()?;
        Some(RawField { name: element.name, value: element.value })
    }
}

impl<'b> RawValue<'b> {
    /// Its type.
    pub fn element_type(self) -> ElementType {
        self.element_type
    }

    /// Its bytes, without type and name.
    pub fn as_bytes(self) -> &'b [u8] {
        self.bytes
    }

    /// The document inside, if this is one.
    pub fn as_document(self) -> Option<RawDocument<'b>> {
        self.bytes_of(ElementType::Document).map(RawDocument::of_stored)
    }

    /// The elements, if this is an array.
    pub fn as_array(self) -> Option<RawDocument<'b>> {
        self.bytes_of(ElementType::Array).map(RawDocument::of_stored)
    }

    /// The text, if this is a string.
    pub fn as_str(self) -> Option<&'b str> {
        Cursor::new(self.bytes_of(ElementType::String)?, 0).string().ok()
    }

    /// The boolean, if this is one.
    pub fn as_bool(self) -> Option<bool> {
        self.bytes_of(ElementType::Bool)?.first().map(|byte| *byte != 0)
    }

    /// The exact integer, if this is an int32, an int64 or a double without a fraction in range.
    pub fn as_i64(self) -> Option<i64> {
        number::as_i64(&self.plain_number()?)
    }

    /// The nearest double, if this is an int32, an int64 or a double.
    pub fn as_f64(self) -> Option<f64> {
        number::as_f64(&self.plain_number()?)
    }

    fn plain_number(self) -> Option<Value> {
        let is_number = matches!(
            self.element_type,
            ElementType::Int32 | ElementType::Int64 | ElementType::Double
        );
        if is_number { self.to_value().ok() } else { None }
    }

    /// The object id, if this is one.
    pub fn as_object_id(self) -> Option<[u8; OBJECT_ID_BYTES]> {
        self.bytes_of(ElementType::ObjectId)?.try_into().ok()
    }

    /// Subtype and bytes, if this is a binary. Those of subtype 2 begin with their length.
    pub fn as_binary(self) -> Option<(u8, &'b [u8])> {
        let (_, rest) = self.bytes_of(ElementType::Binary)?.split_at_checked(LENGTH_BYTES)?;
        rest.split_first().map(|(subtype, bytes)| (*subtype, bytes))
    }

    /// The value as a tree.
    pub fn to_value(self) -> Result<Value, BsonError> {
        tree::read_value(self)
    }

    fn bytes_of(self, element_type: ElementType) -> Option<&'b [u8]> {
        (self.element_type == element_type).then_some(self.bytes)
    }
}

/// A code's length, its text without letters and its empty scope.
const CODE_WITH_SCOPE_BYTES_MIN: usize = 2 * LENGTH_BYTES + 1 + DOCUMENT_BYTES_MIN;

/// A position in the bytes of a document. Every step is checked against the end.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'b> {
    rest: &'b [u8],
    /// Where `rest` begins, counted from where the outermost document begins.
    at: usize,
}

/// An element of a document, and where its parts are.
pub(super) struct Element<'b> {
    pub(super) name: &'b [u8],
    pub(super) name_at: usize,
    pub(super) value: RawValue<'b>,
    pub(super) value_at: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8], at: usize) -> Self {
        Self { rest: bytes, at }
    }

    /// At the first element of a document, whose length and last byte are checked.
    pub(super) fn of_document(bytes: &'b [u8], at: usize) -> Result<Self, BsonError> {
        let mut cursor = Self::new(bytes, at);
        if cursor.length()? != bytes.len() || bytes.len() < DOCUMENT_BYTES_MIN {
            return Err(BsonError::WrongLength { at });
        }
        let end_at = at + bytes.len() - 1;
        match cursor.rest.split_last() {
            Some((0, elements)) => Ok(Self { rest: elements, at: cursor.at }),
            Some(_) | None => Err(BsonError::NoTerminator { at: end_at }),
        }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, its value not looked into; `None` at the end.
    pub(super) fn element(&mut self) -> Result<Option<Element<'b>>, BsonError> {
        let Some((code, rest)) = self.rest.split_first() else { return Ok(None) };
        let element_type =
            ElementType::coded(*code).ok_or(BsonError::UnknownType { at: self.at, code: *code })?;
        self.rest = rest;
        self.at += 1;
        let name_at = self.at;
        let name = self.zero_terminated()?;
        let value_at = self.at;
        let value = RawValue { element_type, bytes: self.value_bytes(element_type)? };
        Ok(Some(Element { name, name_at, value, value_at }))
    }

    /// The bytes of a value of this type.
    fn value_bytes(&mut self, element_type: ElementType) -> Result<&'b [u8], BsonError> {
        let count = match element_type {
            ElementType::Undefined
            | ElementType::Null
            | ElementType::MinKey
            | ElementType::MaxKey => 0,
            ElementType::Bool => 1,
            ElementType::Int32 => 4,
            ElementType::Double
            | ElementType::Date
            | ElementType::Timestamp
            | ElementType::Int64 => 8,
            ElementType::ObjectId => OBJECT_ID_BYTES,
            ElementType::Decimal128 => 16,
            ElementType::Document | ElementType::Array => {
                self.peek_length_from(DOCUMENT_BYTES_MIN)?
            }
            ElementType::JavaScriptWithScope => self.peek_length_from(CODE_WITH_SCOPE_BYTES_MIN)?,
            ElementType::String | ElementType::JavaScript | ElementType::Symbol => {
                LENGTH_BYTES + self.peek_length()?
            }
            ElementType::Binary => LENGTH_BYTES + 1 + self.peek_length()?,
            ElementType::DbPointer => LENGTH_BYTES + self.peek_length()? + OBJECT_ID_BYTES,
            ElementType::Regex => {
                let mut texts = self.clone();
                texts.zero_terminated()?;
                texts.zero_terminated()?;
                self.rest.len() - texts.rest.len()
            }
        };
        self.take(count)
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8], BsonError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(BsonError::TooShort { at: self.at })?;
        self.rest = rest;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], BsonError> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or(BsonError::TooShort { at: self.at })?;
        self.rest = rest;
        self.at += N;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, BsonError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn i32(&mut self) -> Result<i32, BsonError> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, BsonError> {
        self.array().map(i64::from_le_bytes)
    }

    /// A length that is not negative.
    pub(super) fn length(&mut self) -> Result<usize, BsonError> {
        let at = self.at;
        usize::try_from(self.i32()?).map_err(|_| BsonError::WrongLength { at })
    }

    fn peek_length(&self) -> Result<usize, BsonError> {
        self.clone().length()
    }

    /// A length that counts itself and what must follow it.
    fn peek_length_from(&self, min: usize) -> Result<usize, BsonError> {
        let length = self.peek_length()?;
        if length < min { Err(BsonError::WrongLength { at: self.at }) } else { Ok(length) }
    }

    /// The bytes before the next zero, which is skipped.
    pub(super) fn zero_terminated(&mut self) -> Result<&'b [u8], BsonError> {
        let count = self.rest.iter().position(|byte| *byte == 0);
        let count = count.ok_or(BsonError::NoTerminator { at: self.at + self.rest.len() })?;
        let text = self.take(count)?;
        self.take(1)?;
        Ok(text)
    }

    /// A text behind its length, which counts the zero at its end.
    pub(super) fn string(&mut self) -> Result<&'b str, BsonError> {
        let length_at = self.at;
        let length = self.length()?;
        let text_at = self.at;
        let text = self.take(length).map_err(|_| BsonError::TooShort { at: length_at })?;
        match text.split_last() {
            Some((0, text)) => {
                std::str::from_utf8(text).map_err(|_| BsonError::NotUtf8 { at: text_at })
            }
            Some(_) => Err(BsonError::NoTerminator { at: text_at + length - 1 }),
            None => Err(BsonError::WrongLength { at: length_at }),
        }
    }

    /// The bytes of a document.
    pub(super) fn document(&mut self) -> Result<&'b [u8], BsonError> {
        self.take(self.peek_length_from(DOCUMENT_BYTES_MIN)?)
    }
}
