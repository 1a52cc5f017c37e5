//! The types of BSON: their numbers and names.

use crate::Value;

/// The type of a value in BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each name is the type's")]
pub enum ElementType {
    Double,
    String,
    Document,
    Array,
    Binary,
    Undefined,
    ObjectId,
    Bool,
    Date,
    Null,
    Regex,
    DbPointer,
    JavaScript,
    Symbol,
    JavaScriptWithScope,
    Int32,
    Timestamp,
    Int64,
    Decimal128,
    MinKey,
    MaxKey,
}

impl ElementType {
    /// Every type.
    pub const ALL: [ElementType; 21] = [
        ElementType::Double,
        ElementType::String,
        ElementType::Document,
        ElementType::Array,
        ElementType::Binary,
        ElementType::Undefined,
        ElementType::ObjectId,
        ElementType::Bool,
        ElementType::Date,
        ElementType::Null,
        ElementType::Regex,
        ElementType::DbPointer,
        ElementType::JavaScript,
        ElementType::Symbol,
        ElementType::JavaScriptWithScope,
        ElementType::Int32,
        ElementType::Timestamp,
        ElementType::Int64,
        ElementType::Decimal128,
        ElementType::MinKey,
        ElementType::MaxKey,
    ];

    /// The type of a value of the tree, as [`write()`](super::write()) writes it.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => ElementType::Null,
            Value::Bool(_) => ElementType::Bool,
            Value::Int32(_) => ElementType::Int32,
            Value::Int64(_) => ElementType::Int64,
            Value::Double(_) => ElementType::Double,
            Value::Decimal128(_) => ElementType::Decimal128,
            Value::String(_) => ElementType::String,
            Value::Binary { .. } | Value::Guid(_) => ElementType::Binary,
            Value::Date(_) => ElementType::Date,
            Value::ObjectId(_) => ElementType::ObjectId,
            Value::Timestamp { .. } => ElementType::Timestamp,
            Value::Regex { .. } => ElementType::Regex,
            Value::JavaScript { scope: None, .. } => ElementType::JavaScript,
            Value::JavaScript { scope: Some(_), .. } => ElementType::JavaScriptWithScope,
            Value::Symbol(_) => ElementType::Symbol,
            Value::Undefined => ElementType::Undefined,
            Value::DbPointer { .. } => ElementType::DbPointer,
            Value::Array(_) => ElementType::Array,
            Value::Object(_) => ElementType::Document,
            Value::MinKey => ElementType::MinKey,
            Value::MaxKey => ElementType::MaxKey,
        }
    }

    /// The type of this byte before an element's name.
    pub fn coded(code: u8) -> Option<Self> {
        Some(match code {
            0x01 => ElementType::Double,
            0x02 => ElementType::String,
            0x03 => ElementType::Document,
            0x04 => ElementType::Array,
            0x05 => ElementType::Binary,
            0x06 => ElementType::Undefined,
            0x07 => ElementType::ObjectId,
            0x08 => ElementType::Bool,
            0x09 => ElementType::Date,
            0x0A => ElementType::Null,
            0x0B => ElementType::Regex,
            0x0C => ElementType::DbPointer,
            0x0D => ElementType::JavaScript,
            0x0E => ElementType::Symbol,
            0x0F => ElementType::JavaScriptWithScope,
            0x10 => ElementType::Int32,
            0x11 => ElementType::Timestamp,
            0x12 => ElementType::Int64,
            0x13 => ElementType::Decimal128,
            0xFF => ElementType::MinKey,
            0x7F => ElementType::MaxKey,
            _ => return None,
        })
    }

    /// The byte before the name of an element of this type.
    pub fn code(self) -> u8 {
        match self {
            ElementType::Double => 0x01,
            ElementType::String => 0x02,
            ElementType::Document => 0x03,
            ElementType::Array => 0x04,
            ElementType::Binary => 0x05,
            ElementType::Undefined => 0x06,
            ElementType::ObjectId => 0x07,
            ElementType::Bool => 0x08,
            ElementType::Date => 0x09,
            ElementType::Null => 0x0A,
            ElementType::Regex => 0x0B,
            ElementType::DbPointer => 0x0C,
            ElementType::JavaScript => 0x0D,
            ElementType::Symbol => 0x0E,
            ElementType::JavaScriptWithScope => 0x0F,
            ElementType::Int32 => 0x10,
            ElementType::Timestamp => 0x11,
            ElementType::Int64 => 0x12,
            ElementType::Decimal128 => 0x13,
            ElementType::MinKey => 0xFF,
            ElementType::MaxKey => 0x7F,
        }
    }

    /// Its number in queries (`$type`): the byte as a signed number.
    pub fn number(self) -> i32 {
        i32::from(self.code().cast_signed())
    }

    /// Its name in queries and error messages of MongoDB.
    pub fn alias(self) -> &'static str {
        match self {
            ElementType::Double => "double",
            ElementType::String => "string",
            ElementType::Document => "object",
            ElementType::Array => "array",
            ElementType::Binary => "binData",
            ElementType::Undefined => "undefined",
            ElementType::ObjectId => "objectId",
            ElementType::Bool => "bool",
            ElementType::Date => "date",
            ElementType::Null => "null",
            ElementType::Regex => "regex",
            ElementType::DbPointer => "dbPointer",
            ElementType::JavaScript => "javascript",
            ElementType::Symbol => "symbol",
            ElementType::JavaScriptWithScope => "javascriptWithScope",
            ElementType::Int32 => "int",
            ElementType::Timestamp => "timestamp",
            ElementType::Int64 => "long",
            ElementType::Decimal128 => "decimal",
            ElementType::MinKey => "minKey",
            ElementType::MaxKey => "maxKey",
        }
    }

    /// The type of this name.
    pub fn named(alias: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element_type| element_type.alias() == alias)
    }
}
