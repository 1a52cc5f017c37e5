//! Rows of operations as operations.

use std::borrow::Cow;

use super::read::Rows;
use super::schema::OPERATION;
use super::{Row, Scalar};
use crate::batch_operations::Operation;
use crate::errors::ApiError;
use crate::payload;

/// Items, the only resources in batches.
const ITEM: i32 = 2;

/// The operations of a body, at most `count_max` and one more.
pub(crate) fn read_operations(
    body: &[u8],
    count_max: usize,
) -> Result<Vec<Operation<'_>>, ApiError> {
    let mut rows = Rows::new(&OPERATION, body).map_err(payload::invalid)?;
    let mut operations = Vec::new();
    while let Some(row) = rows.next().map_err(payload::invalid)? {
        operations.push(operation(&row)?);
        if operations.len() > count_max {
            break;
        }
    }
    Ok(operations)
}

fn operation<'b>(row: &Row<'b>) -> Result<Operation<'b>, ApiError> {
    let [
        kind,
        resource,
        partition_key,
        effective_key,
        id,
        binary_id,
        body,
        // The directive is accepted and has no effect, as in requests for single items.
        _indexing,
        if_match,
        if_none_match,
        time_to_live,
        minimal,
    ] = *row;
    if resource != Some(Scalar::Int32(ITEM)) {
        return Err(payload::invalid("an operation is on something other than an item"));
    }
    for (value, name) in [
        (effective_key, "an effective partition key"),
        (binary_id, "a binary id"),
        (time_to_live, "a time to live beside the item"),
    ] {
        if value.is_some() {
            return Err(ApiError::not_supported(&format!("operations with {name}")));
        }
    }
    let text = |value: Option<Scalar<'b>>| {
        if let Some(Scalar::Text(text)) = value { Some(Cow::Borrowed(text)) } else { None }
    };
    Ok(Operation {
        operation_type: Cow::Borrowed(name_of(kind)?),
        id: text(id),
        resource_body: if let Some(Scalar::Binary(body)) = body { Some(body) } else { None },
        if_match: text(if_match),
        if_none_match: text(if_none_match),
        partition_key: text(partition_key),
        is_minimal: minimal == Some(Scalar::Bool(true)),
    })
}

/// The name that the JSON form has for a kind of operation.
fn name_of(kind: Option<Scalar<'_>>) -> Result<&'static str, ApiError> {
    let Some(Scalar::Int32(number)) = kind else {
        return Err(payload::invalid("an operation has no type"));
    };
    Ok(match number {
        0 => "Create",
        1 => "Patch",
        2 => "Read",
        4 => "Delete",
        5 => "Replace",
        20 => "Upsert",
        other => return Err(payload::invalid(format_args!("there is no operation type {other}"))),
    })
}
