//! The form in which a container keeps its items, and reading and writing of that form.

use std::borrow::Cow;

use bytes::Bytes;
use model::bson::{self, BsonError, BsonLimits};
use model::json::{self, FieldMask};
use model::{Object, Value, limits};

use crate::item::SYSTEM_PROPERTIES;
use crate::ops::ItemBody;
use crate::row_key::text_of;
use crate::{Error, InvalidRequest, RowKey};

/// The form of the bodies of a container's items, fixed when the container is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyFormat {
    /// JSON text.
    #[default]
    Json,
    /// BSON documents.
    Bson,
}

impl BodyFormat {
    /// Most bytes of an item.
    pub fn bytes_max(self) -> usize {
        match self {
            BodyFormat::Json => limits::ITEM_BYTES_MAX,
            BodyFormat::Bson => BsonLimits::DOCUMENT.bytes_max,
        }
    }

    /// Most levels of arrays and objects in an item.
    fn depth_max(self) -> usize {
        match self {
            BodyFormat::Json => limits::ITEM_DEPTH_MAX,
            BodyFormat::Bson => BsonLimits::DOCUMENT.depth_max,
        }
    }

    fn check_size(self, bytes: usize) -> Result<(), Error> {
        let max_bytes = self.bytes_max();
        match bytes > max_bytes {
            true => Err(Error::TooLarge { what: "the item", max_bytes }),
            false => Ok(()),
        }
    }

    /// The value tree of the stored item `id`.
    pub(crate) fn read(self, id: &[u8], body: &[u8]) -> Result<Value, Error> {
        match self {
            BodyFormat::Json => json::parse(body, limits::ITEM_DEPTH_MAX)
                .map(|parsed| parsed.value)
                .map_err(|error| unreadable(id, &error)),
            BodyFormat::Bson => {
                bson::read(body).map(Value::Object).map_err(|error| unreadable(id, &error))
            }
        }
    }

    /// The part of the stored item `id` that `field_mask` names, in the memory of a value that was
    /// read before.
    pub(crate) fn read_part_again(
        self,
        id: &[u8],
        body: &[u8],
        field_mask: &FieldMask,
        old: Value,
    ) -> Result<Object, Error> {
        let part = match self {
            BodyFormat::Json => json::parse_part_again(body, field_mask, old)
                .map_err(|error| unreadable(id, &error))?,
            BodyFormat::Bson => bson::read_part_again(body, field_mask, old)
                .map_err(|error| unreadable(id, &error))?,
        };
        let Value::Object(object) = part else {
            return Err(unreadable(id, &"it is not an object"));
        };
        Ok(object)
    }

    /// A stored body as JSON text: types that JSON lacks as Extended JSON has them.
    pub(crate) fn json_text(self, body: &[u8]) -> Cow<'_, [u8]> {
        match self {
            BodyFormat::Json => body.into(),
            BodyFormat::Bson => match bson::read(body) {
                Ok(document) => text_of_tree(&document.into()).into(),
                Err(error) => {
                    // Checked when it was written, and the store checks what it reads.
                    tracing::error!(%error, "a stored document can't be read");
                    b"{}"[..].into()
                }
            },
        }
    }

    /// The row key of an item.
    pub(crate) fn row_key(self, item: &Value) -> Result<RowKey, Error> {
        match self {
            BodyFormat::Json => match item.field("id") {
                Some(Value::String(id)) => {
                    let too_long = limits::ITEM_ID_BYTES_MAX + 1;
                    model::rid::validate_item_id(id)
                        .map_err(|reason| InvalidRequest::id(id, reason, too_long))?;
                    Ok(id.as_str().into())
                }
                Some(_) => Err(InvalidRequest::IdNotString.into()),
                None => Err(InvalidRequest::IdMissing.into()),
            },
            BodyFormat::Bson => {
                let id = item.field("_id").ok_or(InvalidRequest::IdMissing)?;
                match bson::row_key(id) {
                    Ok(row_key) => Ok(RowKey::new(row_key.into())),
                    Err(bson::RowKeyError::Type(_)) => Err(InvalidRequest::IdNotString.into()),
                    Err(bson::RowKeyError::TooLong { max, .. }) => {
                        Err(Error::TooLarge { what: "the _id", max_bytes: max })
                    }
                }
            }
        }
    }

    /// Most bytes of a row key.
    pub(crate) fn row_key_bytes_max(self) -> usize {
        match self {
            BodyFormat::Json => limits::ITEM_ID_BYTES_MAX,
            BodyFormat::Bson => limits::ROW_KEY_BYTES_MAX,
        }
    }
}

fn unreadable(id: &[u8], error: &dyn std::fmt::Display) -> Error {
    Error::Internal(format!("stored item {} can't be read: {error}", text_of(id)))
}

impl ItemBody {
    /// Parses and checks JSON text: an object, not too deep, not too large.
    pub fn from_json(text: Bytes) -> Result<Self, Error> {
        BodyFormat::Json.check_size(text.len())?;
        let parsed =
            json::parse(&text, limits::ITEM_DEPTH_MAX).map_err(InvalidRequest::ItemText)?;
        let (value, changed) = without_system_properties(parsed.value)?;
        let format = BodyFormat::Json;
        if changed || !parsed.is_faithful {
            return Ok(Self { format, bytes: text_of_tree(&value).into(), value });
        }
        let trimmed = text.trim_ascii();
        let start = trimmed.as_ptr() as usize - text.as_ptr() as usize;
        Ok(Self { format, bytes: text.slice(start..start + trimmed.len()), value })
    }

    /// Checks a value that came in another encoding; its text is made here.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        Self::of(BodyFormat::Json, without_system_properties(value)?.0)
    }

    /// Checks a BSON document, which is stored as it is: not too deep, not too large.
    pub fn from_bson(document: Bytes) -> Result<Self, Error> {
        let format = BodyFormat::Bson;
        format.check_size(document.len())?;
        bson::check(&document, BsonLimits::DOCUMENT).map_err(InvalidRequest::Document)?;
        let value = bson::read(&document).map_err(InvalidRequest::Document)?;
        Ok(Self { format, bytes: document, value: value.into() })
    }

    /// Checks a document; its bytes are made here.
    pub fn from_document(document: Object) -> Result<Self, Error> {
        Self::of(BodyFormat::Bson, document.into())
    }

    /// The body of a value in a form.
    pub(crate) fn of(format: BodyFormat, value: Value) -> Result<Self, Error> {
        let max = format.depth_max();
        if is_deeper(&value, max) {
            return Err(match format {
                BodyFormat::Json => InvalidRequest::ItemText(json::JsonError::TooDeep { max }),
                BodyFormat::Bson => InvalidRequest::Document(BsonError::TooDeep { max }),
            }
            .into());
        }
        let bytes = match (format, &value) {
            (BodyFormat::Json, _) => text_of_tree(&value),
            (BodyFormat::Bson, Value::Object(document)) => {
                let mut out = Vec::with_capacity(512);
                bson::write(document, &mut out).map_err(InvalidRequest::Document)?;
                out
            }
            (BodyFormat::Bson, _) => return Err(InvalidRequest::ItemNotObject.into()),
        };
        format.check_size(bytes.len())?;
        // What is computed of a new version must be what is computed of the stored one.
        let value = match format {
            BodyFormat::Json if !is_of_json(&value) => format.read(b"to write", &bytes)?,
            BodyFormat::Bson if !is_of_bson(&value) => format.read(b"to write", &bytes)?,
            BodyFormat::Json | BodyFormat::Bson => value,
        };
        Ok(Self { format, bytes: bytes.into(), value })
    }

    /// The same in a form; a copy of the value, if it has another.
    pub(crate) fn in_format(self, format: BodyFormat) -> Result<Self, Error> {
        match self.format == format {
            true => Ok(self),
            false => Self::of(format, self.value),
        }
    }

    /// The tree, without system properties.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The bytes that are stored in a container of the same form.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Whether arrays and objects are nested deeper than `levels`.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = |child: &Value| is_deeper(child, levels - 1);
    if let Value::Array(items) = value {
        levels == 0 || items.iter().any(below)
    } else if let Value::Object(fields) = value {
        levels == 0 || fields.iter().any(|(_, child)| below(child))
    } else {
        false
    }
}

/// Whether JSON text says all that the tree does.
fn is_of_json(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Int32(_) | Value::Int64(_) | Value::String(_) => true,
        Value::Double(n) => n.is_finite(),
        Value::Array(elements) => elements.iter().all(is_of_json),
        Value::Object(fields) => fields.iter().all(|(_, field)| is_of_json(field)),
        Value::Decimal128(_)
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
        | Value::MaxKey => false,
    }
}

/// Whether a BSON document says all that the tree does.
fn is_of_bson(value: &Value) -> bool {
    match value {
        Value::Guid(_) => false,
        Value::Date(date) => date.ticks == 0,
        Value::Array(elements) => elements.iter().all(is_of_bson),
        Value::Object(fields) => fields.iter().all(|(_, field)| is_of_bson(field)),
        Value::JavaScript { scope, .. } => {
            scope.iter().flat_map(|scope| scope.iter()).all(|(_, field)| is_of_bson(field))
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Decimal128(_)
        | Value::Binary { .. }
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::Symbol(_)
        | Value::MinKey
        | Value::MaxKey => true,
    }
}

fn text_of_tree(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    json::write(value, &mut out);
    out
}

/// Only the system sets its own properties; what clients send for them is dropped.
fn without_system_properties(value: Value) -> Result<(Value, bool), Error> {
    let Value::Object(mut object) = value else {
        return Err(InvalidRequest::ItemNotObject.into());
    };
    let before = object.len();
    for name in SYSTEM_PROPERTIES {
        object.remove(name);
    }
    let changed = object.len() != before;
    Ok((object.into(), changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Value {
        (1..levels).fold(Object::new().into(), |value: Value, _| {
            let mut object = Object::new();
            object.insert("a", value);
            object.into()
        })
    }

    fn document(value: Value) -> Result<ItemBody, Error> {
        ItemBody::of(BodyFormat::Bson, value)
    }

    #[test]
    fn documents_have_limits_of_their_own() {
        let depth_max = BsonLimits::DOCUMENT.depth_max;
        assert!(document(nested(depth_max)).is_ok());
        assert!(document(nested(depth_max + 1)).is_err());
        let of_length = |bytes: usize| {
            let mut object = Object::new();
            // Length, type, name, length of the text, zero bytes after name, text and document.
            object.insert("a", Value::from("x".repeat(bytes - 4 - 1 - 2 - 4 - 2)));
            ItemBody::from_document(object)
        };
        let bytes_max = BsonLimits::DOCUMENT.bytes_max;
        let largest = of_length(bytes_max).unwrap();
        assert_eq!(largest.bytes().len(), bytes_max);
        assert!(ItemBody::from_bson(largest.bytes().clone()).is_ok());
        assert!(matches!(of_length(bytes_max + 1), Err(Error::TooLarge { .. })));
        assert!(matches!(document(Value::Int32(1)), Err(Error::InvalidRequest(_))));
    }

    #[test]
    fn a_body_in_another_form_has_the_same_value() {
        let json = ItemBody::from_json(Bytes::from_static(br#"{"id":"a","n":[1,{"b":null}]}"#));
        let json = json.unwrap();
        let bson = json.clone().in_format(BodyFormat::Bson).unwrap();
        let read = BodyFormat::Bson.read(b"a", bson.bytes()).unwrap();
        assert_eq!(&read, json.value());
        assert_eq!(BodyFormat::Bson.json_text(bson.bytes()), &json.bytes()[..]);
        let back = bson.in_format(BodyFormat::Json).unwrap();
        assert_eq!(back.bytes(), json.bytes());
    }

    #[test]
    fn equal_ids_of_documents_are_one_row_key() {
        let key = |id: Value| {
            let mut object = Object::new();
            object.insert("_id", id);
            BodyFormat::Bson.row_key(&object.into())
        };
        assert_eq!(key(Value::Int32(1)).unwrap(), key(Value::Double(1.0)).unwrap());
        assert!(key(Value::from("a")).unwrap() > key(Value::Int64(7)).unwrap());
        assert!(key(Value::Array(Vec::new())).is_err());
        assert!(BodyFormat::Bson.row_key(&Object::new().into()).is_err());
    }
}
