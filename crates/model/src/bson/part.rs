//! Reads parts of a document, and skips the rest without building it.

use super::raw::{Cursor, RawValue};
use super::tree::{self, check_depth};
use super::{BsonError, ElementType};
use crate::Value;
use crate::json::FieldMask;
use crate::value::Object;

/// Reads the part of a document that `field_mask` names. Parts that are skipped are not checked.
pub fn read_part(bytes: &[u8], field_mask: &FieldMask) -> Result<Value, BsonError> {
    read_part_again(bytes, field_mask, Value::Null)
}

/// As [`read_part`], reusing the memory of a value that was read before, best with the same field
/// mask.
pub fn read_part_again(
    bytes: &[u8],
    field_mask: &FieldMask,
    old: Value,
) -> Result<Value, BsonError> {
    let FieldMask::Fields(wanted) = field_mask else {
        return tree::read(bytes).map(Value::Object);
    };
    let old = if let Value::Object(old) = old { Some(old) } else { None };
    let object = old.unwrap_or_else(|| Object::with_capacity(wanted.len()));
    masked_fields(bytes, wanted, object, 1).map(Value::Object)
}

/// The wanted fields of a document, replacing those that `object` has. The first of repeated names
/// is taken, and nothing is read behind the last wanted field.
fn masked_fields(
    bytes: &[u8],
    wanted: &[(String, FieldMask)],
    mut object: Object,
    depth: usize,
) -> Result<Object, BsonError> {
    check_depth(depth)?;
    let mut cursor = Cursor::of_document(bytes, 0)?;
    let mut count = 0;
    // Which of the wanted fields were found; a field mask has few.
    let mut found: u64 = 0;
    while count < wanted.len() {
        let Some(element) = cursor.element()? else { break };
        let at = wanted.iter().position(|(name, _)| name.as_bytes() == element.name);
        let Some((at, (name, field_mask))) = at.and_then(|at| Some((at, wanted.get(at)?))) else {
            continue;
        };
        let bit = 1_u64.checked_shl(u32::try_from(at).unwrap_or(u32::MAX));
        let is_repeated = match bit {
            Some(bit) => found & bit != 0,
            None => object.iter().take(count).any(|(taken, _)| taken == name),
        };
        if !is_repeated {
            found |= bit.unwrap_or(0);
            object.put(count, name, masked(element.value, field_mask, depth)?);
            count += 1;
        }
    }
    object.truncate(count);
    Ok(object)
}

/// The wanted part of a value in a document on level `depth`.
fn masked(raw: RawValue<'_>, field_mask: &FieldMask, depth: usize) -> Result<Value, BsonError> {
    let FieldMask::Fields(wanted) = field_mask else { return tree::value(raw, depth) };
    if raw.element_type() == ElementType::Document {
        let object = Object::with_capacity(wanted.len());
        return masked_fields(raw.as_bytes(), wanted, object, depth + 1).map(Value::Object);
    }
    if raw.element_type() == ElementType::Array {
        check_depth(depth + 1)?;
        let mut cursor = Cursor::of_document(raw.as_bytes(), 0)?;
        let mut elements = Vec::new();
        while let Some(element) = cursor.element()? {
            elements.push(masked(element.value, field_mask, depth + 1)?);
        }
        return Ok(Value::Array(elements));
    }
    tree::value(raw, depth)
}
