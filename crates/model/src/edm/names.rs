//! The layout of an entity in its item.
//!
//! ```text
//! {"id":"r1","$id":"r1","$pk":"p1","name":{"$t":2,"$v":"x"}}
//! ```
//! Properties are stored under their own names. Those with a name that is reserved in every item
//! are prefixed with `$$`, which no property name can begin with.

use std::borrow::Cow;

/// The field that holds an entity's partition key, as a plain string.
pub const PARTITION_KEY_FIELD: &str = "$pk";
/// The field that holds an entity's row key, as a plain string.
pub const ROW_KEY_FIELD: &str = "$id";

/// Names that are reserved in every item.
const TAKEN: [&str; 7] = ["id", "_rid", "_self", "_etag", "_attachments", "_ts", "ttl"];
const ESCAPE: &str = "$$";

/// The field that holds the property of this name.
pub fn field_of(property: &str) -> Cow<'_, str> {
    match TAKEN.contains(&property) {
        true => Cow::Owned(format!("{ESCAPE}{property}")),
        false => Cow::Borrowed(property),
    }
}

/// The property in the field of this name, if the field holds one.
pub fn property_in(field: &str) -> Option<&str> {
    match field.strip_prefix(ESCAPE) {
        Some(property) => TAKEN.contains(&property).then_some(property),
        None => (!field.starts_with('$') && !TAKEN.contains(&field)).then_some(field),
    }
}

/// The id of the item that holds the entity with this row key: the row key itself, except for row
/// keys that cannot be ids. Ids sort like row keys.
pub fn item_id_of(row_key: &str) -> Cow<'_, str> {
    match row_key.chars().next() {
        None | Some('\0'..=FIRST) => Cow::Owned(format!("{FIRST}{row_key}")),
        Some(_) => Cow::Borrowed(row_key),
    }
}

/// The row key of the entity in the item with this id.
pub fn row_key_of(id: &str) -> &str {
    id.strip_prefix(FIRST).unwrap_or(id)
}

/// Prefix of row keys that are empty or begin with this character or a lesser one. An id cannot be
/// empty, and the id of the empty key must sort first.
const FIRST: char = '\u{1}';
