//! The tag byte of every type, one column per type order. Written to disk: never renumber.

use super::TypeOrder;
use crate::Value;

/// The types that sort apart from each other in at least one of the orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the type")]
pub enum Tag {
    MinKey,
    Undefined,
    Null,
    False,
    True,
    Number,
    String,
    Symbol,
    Array,
    Object,
    Binary,
    Guid,
    Date,
    ObjectId,
    Timestamp,
    Regex,
    Code,
    CodeWithScope,
    DbPointer,
    MaxKey,
}

impl Tag {
    pub(super) fn of(value: Option<&Value>) -> Self {
        let Some(value) = value else { return Tag::Undefined };
        match value {
            Value::Undefined => Tag::Undefined,
            Value::Null => Tag::Null,
            Value::Bool(false) => Tag::False,
            Value::Bool(true) => Tag::True,
            Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
                Tag::Number
            }
            Value::String(_) => Tag::String,
            Value::Symbol(_) => Tag::Symbol,
            Value::Array(_) => Tag::Array,
            Value::Object(_) => Tag::Object,
            Value::Binary { .. } => Tag::Binary,
            Value::Guid(_) => Tag::Guid,
            Value::Date(_) => Tag::Date,
            Value::ObjectId(_) => Tag::ObjectId,
            Value::Timestamp { .. } => Tag::Timestamp,
            Value::Regex { .. } => Tag::Regex,
            Value::JavaScript { scope: None, .. } => Tag::Code,
            Value::JavaScript { scope: Some(_), .. } => Tag::CodeWithScope,
            Value::DbPointer { .. } => Tag::DbPointer,
            Value::MinKey => Tag::MinKey,
            Value::MaxKey => Tag::MaxKey,
        }
    }

    /// The first byte of the encodings of the type.
    pub const fn byte(self, order: TypeOrder) -> u8 {
        match order {
            TypeOrder::NoSql => self.nosql(),
            TypeOrder::Bson => self.bson(),
        }
    }

    /// Documented for the plain types; the others follow after objects, where they do not affect
    /// the order of plain values.
    const fn nosql(self) -> u8 {
        match self {
            Tag::MinKey => 0x08,
            Tag::Undefined => 0x10,
            Tag::Null => 0x18,
            Tag::False => 0x20,
            Tag::True => 0x28,
            Tag::Number => 0x30,
            Tag::String => 0x38,
            Tag::Array => 0x40,
            Tag::Object => 0x48,
            Tag::Binary => 0x50,
            Tag::Guid => 0x58,
            Tag::Date => 0x60,
            Tag::ObjectId => 0x68,
            Tag::Timestamp => 0x70,
            Tag::Regex => 0x78,
            Tag::Code => 0x80,
            Tag::CodeWithScope => 0x88,
            Tag::Symbol => 0x90,
            Tag::DbPointer => 0x98,
            Tag::MaxKey => 0xF0,
        }
    }

    const fn bson(self) -> u8 {
        match self {
            Tag::MinKey => 0x08,
            Tag::Undefined => 0x10,
            Tag::Null => 0x18,
            Tag::Number => 0x20,
            Tag::String | Tag::Symbol => 0x28,
            Tag::Object => 0x30,
            Tag::Array => 0x38,
            Tag::Binary | Tag::Guid => 0x40,
            Tag::ObjectId => 0x48,
            Tag::False | Tag::True => 0x50,
            Tag::Date => 0x58,
            Tag::Timestamp => 0x60,
            Tag::Regex => 0x68,
            Tag::DbPointer => 0x70,
            Tag::Code => 0x78,
            Tag::CodeWithScope => 0x80,
            Tag::MaxKey => 0xF0,
        }
    }
}

/// The tag byte of `value` (`None` = undefined).
pub(super) fn tag_byte(order: TypeOrder, value: Option<&Value>) -> u8 {
    Tag::of(value).byte(order)
}
