//! Computed properties: checks of their names and definitions.

use lang::SyntaxError;
use lang::nosql::{DefinitionError, check_computed_property};
use model::limits::{COMPUTED_PROPERTIES_MAX, COMPUTED_PROPERTY_BYTES_MAX};
use model::{Object, Value, json};

use super::invalid;
use crate::errors::ApiError;

const SYSTEM_NAMES: [&str; 7] = ["id", "_rid", "_self", "_etag", "_ts", "_attachments", "ttl"];

/// Checks `[{"name": ..., "query": ...}]`, given the paths that have a spatial index.
pub(super) fn check<'v>(
    properties: &'v Value,
    spatial_paths: &[&str],
) -> Result<&'v Value, ApiError> {
    let list = properties.as_array().ok_or_else(|| invalid("computedProperties"))?;
    if list.len() > COMPUTED_PROPERTIES_MAX {
        return Err(ApiError::bad_request_errors(format!(
            "The number of computed properties exceeds the limit of {COMPUTED_PROPERTIES_MAX}."
        )));
    }
    let mut names = Vec::with_capacity(list.len());
    for (at, property) in list.iter().enumerate() {
        let name = text(property, "name")?;
        let query = text(property, "query")?;
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
        if spatial_paths.iter().any(|path| first_segment(path) == Some(name)) {
            return Err(ApiError::bad_request_errors(format!(
                "Computed property '{name}' at index ({at}) has a spatial index. Remove the \
                 spatial index on this path."
            )));
        }
        check_query(query, at)?;
        names.push(name);
    }
    Ok(properties)
}

/// Names and definitions of checked properties.
pub(super) fn definitions(properties: &Value) -> Vec<(String, String)> {
    let list = properties.as_array().unwrap_or_default();
    let definition = |property: &Value| {
        let text = |member| property.field(member)?.as_str().map(str::to_owned);
        Some((text("name")?, text("query")?))
    };
    list.iter().filter_map(definition).collect()
}

/// The name that a path begins with.
fn first_segment(path: &str) -> Option<&str> {
    path.split('/').nth(1).map(|segment| segment.trim_matches('"'))
}

fn check_query(query: &str, at: usize) -> Result<(), ApiError> {
    if query.len() > COMPUTED_PROPERTY_BYTES_MAX {
        return Err(ApiError::bad_request_errors(format!(
            "The query of the computed property at index ({at}) is longer than \
             {COMPUTED_PROPERTY_BYTES_MAX} characters."
        )));
    }
    let details = match check_computed_property(query) {
        Ok(()) => return Ok(()),
        Err(DefinitionError::NoValue) => {
            return Err(ApiError::bad_request_errors(format!(
                "Required VALUE expression missing from computed property query '{query}' at index \
                 ({at})."
            )));
        }
        Err(DefinitionError::Malformed(SyntaxError { code, message, .. })) => {
            error_details(code, message)
        }
        Err(error @ DefinitionError::NotAllowed(_)) => error_details("", error.to_string()),
    };
    Err(ApiError::bad_request_errors(format!(
        "Computed property at index ({at}) has a malformed query: '{query}' Error details: \
         '{details}'"
    )))
}

/// An error as the service nests it: with the bare number of its code and without a position.
fn error_details(code: &str, message: String) -> String {
    let mut error = Object::with_capacity(3);
    error.insert("severity", "Error".into());
    if let Ok(number) = code.trim_start_matches("SC").parse() {
        error.insert("code", Value::Int64(number));
    }
    error.insert("message", message.into());
    let mut details = Object::with_capacity(1);
    details.insert("errors", Value::Array(vec![error.into()]));
    json::to_string(&details.into())
}

fn text<'v>(property: &'v Value, member: &str) -> Result<&'v str, ApiError> {
    match property.field(member) {
        Some(Value::String(text)) if text.is_empty() => Err(ApiError::bad_request_errors(format!(
            "Computed property '{member}' is either empty or unspecified."
        ))),
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => {
            Err(ApiError::bad_request_errors("One of the specified inputs is invalid"))
        }
        Some(_) => Err(invalid("computedProperties")),
    }
}
