//! The types of the Table API: their text form, and their form in items, beside items of other
//! APIs.
//!
//! An entity's property is an object that names its type and holds its value (*tagged*), in the
//! form in which the service shows it to the NoSQL API:
//!
//! | Type | Tagged |
//! |---|---|
//! | Edm.Guid | `{"$t":0,"$v":"c9da6455-213d-42c9-9a79-3e9149a57833"}` |
//! | Edm.Double | `{"$t":1,"$v":3.1}`, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | Edm.String | `{"$t":2,"$v":"x"}` |
//! | Edm.Binary | `{"$t":5,"$v":"AQI="}`, base64 |
//! | Edm.Boolean | `{"$t":8,"$v":true}` |
//! | Edm.DateTime | `{"$t":9,"$v":"00637135310456789010"}`, 100 ns ticks since year 1 in 20 digits |
//! | Edm.Int32 | `{"$t":16,"$v":39}` |
//! | Edm.Int64 | `{"$t":18,"$v":"00000001099511627776"}`, 20 digits behind a sign if it is negative |
//!
//! Any other field of an item is not a property to the Table API.

mod date;
mod guid;
mod names;
mod tagged;

use crate::Value;

pub use date::{DATE_MAX, DATE_MIN, DateDigits, date_from_ticks, date_text, parse_date, ticks_of};
pub use guid::{guid_text, parse_guid};
pub use names::{
    PARTITION_KEY_FIELD, ROW_KEY_FIELD, field_of, item_id_of, property_in, row_key_of,
};
pub(crate) use tagged::special_double;
pub use tagged::{untag, write_f64, write_tagged};

/// A type of the entity data model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each name is the type's")]
pub enum EdmType {
    Guid,
    Double,
    String,
    Binary,
    Boolean,
    DateTime,
    Int32,
    Int64,
}

impl EdmType {
    /// Every type.
    pub const ALL: [EdmType; 8] = [
        EdmType::Guid,
        EdmType::Double,
        EdmType::String,
        EdmType::Binary,
        EdmType::Boolean,
        EdmType::DateTime,
        EdmType::Int32,
        EdmType::Int64,
    ];

    /// The type of a value, if the model has one for it.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Guid(_) => EdmType::Guid,
            Value::Double(_) => EdmType::Double,
            Value::String(_) => EdmType::String,
            Value::Binary { .. } => EdmType::Binary,
            Value::Bool(_) => EdmType::Boolean,
            Value::Date(_) => EdmType::DateTime,
            Value::Int32(_) => EdmType::Int32,
            Value::Int64(_) => EdmType::Int64,
            Value::Null
            | Value::Decimal128(_)
            | Value::ObjectId(_)
            | Value::Timestamp { .. }
            | Value::Regex { .. }
            | Value::JavaScript { .. }
            | Value::Undefined
            | Value::DbPointer { .. }
            | Value::Symbol(_)
            | Value::Array(_)
            | Value::Object(_)
            | Value::MinKey
            | Value::MaxKey => return None,
        })
    }

    /// Its name in annotations.
    pub fn name(self) -> &'static str {
        match self {
            EdmType::Guid => "Edm.Guid",
            EdmType::Double => "Edm.Double",
            EdmType::String => "Edm.String",
            EdmType::Binary => "Edm.Binary",
            EdmType::Boolean => "Edm.Boolean",
            EdmType::DateTime => "Edm.DateTime",
            EdmType::Int32 => "Edm.Int32",
            EdmType::Int64 => "Edm.Int64",
        }
    }

    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|edm| edm.name() == name)
    }

    /// Its number in items.
    pub fn code(self) -> u8 {
        match self {
            EdmType::Guid => 0,
            EdmType::Double => 1,
            EdmType::String => 2,
            EdmType::Binary => 5,
            EdmType::Boolean => 8,
            EdmType::DateTime => 9,
            EdmType::Int32 => 16,
            EdmType::Int64 => 18,
        }
    }

    /// The type of this number.
    pub fn coded(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|edm| i64::from(edm.code()) == code)
    }
}

#[cfg(test)]
mod tests;
