//! An entity in its stored form.

use model::edm::{
    self, EdmType, PARTITION_KEY_FIELD, ROW_KEY_FIELD, field_of, item_id_of, property_in, untag,
};
use model::{Date, Object, Value, json};

use super::{EntityError, Rules, SentEntity, check_key};

/// An entity with its keys and the time of its last change.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    /// Its partition key.
    pub partition_key: String,
    /// Its row key.
    pub row_key: String,
    /// When it was last changed, which is its version. Only a stored entity has one.
    pub timestamp: Date,
    /// Its other properties with their types, in order.
    pub properties: Object,
}

impl Entity {
    /// The entity with these keys, from a client's input.
    pub fn new(
        partition_key: &str,
        row_key: &str,
        sent: SentEntity,
        rules: &Rules,
    ) -> Result<Self, EntityError> {
        check_key("PartitionKey", partition_key, rules)?;
        check_key("RowKey", row_key, rules)?;
        let (partition_key, row_key) = (partition_key.to_owned(), row_key.to_owned());
        let timestamp = Date { millis: 0, ticks: 0 };
        let entity = Self { partition_key, row_key, timestamp, properties: sent.properties };
        entity.check(rules)?;
        Ok(entity)
    }

    /// Refuses an entity that exceeds the size limits.
    pub fn check(&self, rules: &Rules) -> Result<(), EntityError> {
        if self.properties.len() > rules.properties_max {
            return Err(EntityError::TooManyProperties);
        }
        if self.bytes() > rules.entity_bytes_max {
            return Err(EntityError::EntityTooLarge);
        }
        Ok(())
    }

    /// Its size by the service's formula.
    pub fn bytes(&self) -> usize {
        let keys = text_bytes(&self.partition_key) + text_bytes(&self.row_key);
        let properties = self.properties.iter();
        4 + keys + properties.map(|(name, v)| 8 + text_bytes(name) + value_bytes(v)).sum::<usize>()
    }

    /// The id of the item that holds it.
    pub fn item_id(&self) -> std::borrow::Cow<'_, str> {
        item_id_of(&self.row_key)
    }

    /// Appends the item that holds it as JSON, in the form that [`model::edm`] describes.
    pub fn write_item(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        json::write_str(&self.item_id(), out);
        for (field, key) in
            [(ROW_KEY_FIELD, &self.row_key), (PARTITION_KEY_FIELD, &self.partition_key)]
        {
            begin_field(field, out);
            json::write_str(key, out);
        }
        for (name, value) in self.properties.iter() {
            begin_field(&field_of(name), out);
            edm::write_tagged(value, out);
        }
        out.push(b'}');
    }

    /// The entity in an item that was last changed at `timestamp`.
    ///
    /// Items that another API wrote are entities too: values without a type tag are not shown as
    /// properties, and a missing row key is the id.
    pub fn from_item(item: &Value, timestamp: Date) -> Option<Self> {
        let fields = item.as_object()?;
        let (mut id, mut row_key, mut partition_key) = (None, None, None);
        let mut properties = Vec::with_capacity(fields.len());
        for (field, value) in fields.iter() {
            match (field, value) {
                ("id", Value::String(text)) => id = Some(text),
                (ROW_KEY_FIELD, Value::String(text)) => row_key = Some(text),
                (PARTITION_KEY_FIELD, Value::String(text)) => partition_key = Some(text),
                (_, value) => {
                    if let (Some(property), Some(value)) = (property_in(field), untag(value)) {
                        properties.push((property.to_owned(), value));
                    }
                }
            }
        }
        Some(Self {
            partition_key: partition_key?.clone(),
            row_key: row_key.or(id)?.clone(),
            timestamp,
            properties: Object::from_fields(properties).0,
        })
    }
}

fn begin_field(name: &str, out: &mut Vec<u8>) {
    out.push(b',');
    json::write_str(name, out);
    out.push(b':');
}

fn text_bytes(text: &str) -> usize {
    2 * if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

fn value_bytes(value: &Value) -> usize {
    match EdmType::of(value) {
        Some(EdmType::String) => 4 + value.as_str().map_or(0, text_bytes),
        Some(EdmType::Binary) => 4 + binary_bytes(value),
        Some(EdmType::Guid) => 16,
        Some(EdmType::Int32) => 4,
        Some(EdmType::Boolean) => 1,
        Some(EdmType::DateTime | EdmType::Double | EdmType::Int64) | None => 8,
    }
}

fn binary_bytes(value: &Value) -> usize {
    if let Value::Binary { bytes, .. } = value { bytes.len() } else { 0 }
}
