//! Computed properties: names and shapes. Their queries are compiled where they are evaluated.

use model::Value;

use super::invalid;
use crate::errors::ApiError;

/// Most computed properties of a container (computed properties page: 20).
const PROPERTIES_MAX: usize = 20;
const SYSTEM_NAMES: [&str; 7] = ["id", "_rid", "_self", "_etag", "_ts", "_attachments", "ttl"];

/// Checks `[{"name": ..., "query": ...}]`.
pub(super) fn check(properties: &Value) -> Result<&Value, ApiError> {
    let list = properties.as_array().ok_or_else(|| invalid("computedProperties"))?;
    if list.len() > PROPERTIES_MAX {
        return Err(ApiError::bad_request_errors(format!(
            "The number of computed properties exceeds the limit of {PROPERTIES_MAX}."
        )));
    }
    let mut names = Vec::with_capacity(list.len());
    for property in list {
        let name = text(property, "name")?;
        text(property, "query")?;
        if SYSTEM_NAMES.contains(&name) {
            return Err(ApiError::bad_request_errors(format!(
                "The system property name '{name}' cannot be used as a computed property name."
            )));
        }
        if names.contains(&name) {
            return Err(ApiError::bad_request_errors(format!(
                "Computed property name '{name}' cannot be used in multiple definitions."
            )));
        }
        names.push(name);
    }
    Ok(properties)
}

fn text<'v>(property: &'v Value, member: &str) -> Result<&'v str, ApiError> {
    match property.field(member) {
        Some(Value::String(text)) if text.is_empty() => Err(ApiError::bad_request_errors(format!(
            "Computed property '{member}' is either empty or unspecified."
        ))),
        Some(Value::String(text)) => Ok(text),
        _ => Err(invalid("computedProperties")),
    }
}
