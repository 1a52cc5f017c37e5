//! Partial updates on the wire: converts the body of a PATCH, or of a patch in a batch, to an
//! engine patch.
//!
//! Only rules that need no item are checked here: the form of the operations, and that they do not
//! change the item's identity or system properties.

use std::borrow::Cow;

use engine::item::SYSTEM_PROPERTIES;
use engine::patch::{Patch, PatchCondition, PatchOp, Pointer};
use model::{PartitionKeyDefinition, Value, limits};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::request::Request;
use crate::system_properties::NoSqlProperties;

#[cfg(test)]
mod tests;

/// Media types a patch may come as. aiohttp sends one of the last two if the Python SDK sets no
/// content type.
const MEDIA_TYPES: [&str; 5] = [
    "application/json-patch+json",
    "application/json_patch+json",
    "application/json",
    "application/octet-stream",
    "text/plain",
];

/// Refuses a PATCH with another content type.
pub(crate) fn check_content_type(request: &Request) -> Result<(), ApiError> {
    let Some(text) = request.headers.text_or(HeaderName::ContentType, "") else { return Ok(()) };
    let media_type = text.split(';').next().unwrap_or_default().trim();
    let is_known = MEDIA_TYPES.iter().any(|known| known.eq_ignore_ascii_case(media_type));
    match is_known || media_type.is_empty() {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!(
            "The content type '{text}' is not supported for a patch. Use \
             application/json-patch+json."
        ))),
    }
}

/// Reads a patch: an object with `operations` and perhaps a `condition`, or the bare list of
/// operations.
pub(crate) fn from_value(key: &PartitionKeyDefinition, value: Value) -> Result<Patch, ApiError> {
    let (operations, condition) = if let Value::Array(operations) = value {
        (operations, None)
    } else if let Value::Object(mut body) = value {
        let Some(Value::Array(operations)) = body.remove("operations") else {
            return Err(bad_syntax("The property 'operations' must be an array."));
        };
        (operations, body.remove("condition"))
    } else {
        return Err(bad_syntax("A patch is an object with 'operations'."));
    };
    if operations.is_empty() {
        return Err(bad_syntax("The list of operations is empty."));
    }
    if operations.len() > limits::PATCH_OPERATIONS_MAX {
        return Err(ApiError::bad_request(format!(
            "The number of patch operations cannot exceed {}.",
            limits::PATCH_OPERATIONS_MAX
        )));
    }
    let operations = operations.into_iter().map(operation).collect::<Result<Vec<_>, _>>()?;
    for path in operations.iter().flat_map(paths) {
        check_may_change(key, path)?;
    }
    Ok(Patch { operations, condition: compile_condition(condition)?, ..Patch::default() })
}

fn compile_condition(condition: Option<Value>) -> Result<Option<PatchCondition>, ApiError> {
    match condition {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => match lang::nosql::compile_condition(&text) {
            Ok(plan) => Ok(Some(PatchCondition { plan, system: &NoSqlProperties })),
            Err(error) => Err(error.into()),
        },
        Some(_) => Err(bad_syntax("The property 'condition' must be a string.")),
    }
}

fn operation(value: Value) -> Result<PatchOp, ApiError> {
    let Value::Object(mut fields) = value else {
        return Err(bad_syntax("An operation must be an object."));
    };
    let name = match fields.get("op") {
        Some(Value::String(name)) => name.clone(),
        _ => return Err(bad_syntax("An operation needs an 'op'.")),
    };
    let path = pointer(fields.get("path"), "path")?;
    let mut value = || fields.remove("value").ok_or_else(|| bad_syntax("A 'value' is missing."));
    match name.as_str() {
        "add" => Ok(PatchOp::Add { path, value: value()? }),
        "set" => Ok(PatchOp::Set { path, value: value()? }),
        "replace" => Ok(PatchOp::Replace { path, value: value()? }),
        "remove" => Ok(PatchOp::Remove { path }),
        "incr" | "increment" => {
            let by = value()?;
            match by.as_f64() {
                Some(_) => Ok(PatchOp::Increment { path, by }),
                None => Err(bad_syntax("The 'value' of an increment must be a number.")),
            }
        }
        "move" => Ok(PatchOp::Move { from: pointer(fields.get("from"), "from")?, path }),
        other => Err(bad_syntax(format!("There is no operation '{other}'."))),
    }
}

/// Every path that an operation changes.
fn paths(operation: &PatchOp) -> impl Iterator<Item = &Pointer> {
    let (path, from) = match operation {
        PatchOp::Add { path, .. }
        | PatchOp::Set { path, .. }
        | PatchOp::Replace { path, .. }
        | PatchOp::Remove { path }
        | PatchOp::Increment { path, .. } => (path, None),
        PatchOp::Move { from, path } => (path, Some(from)),
    };
    std::iter::once(path).chain(from)
}

/// Refuses to change the item's identity. The engine checks changes above a key path, because it
/// sees whether the key stays the same.
fn check_may_change(key: &PartitionKeyDefinition, path: &Pointer) -> Result<(), ApiError> {
    let first = path.first().map(String::as_str).unwrap_or_default();
    if path == &["id"] || SYSTEM_PROPERTIES.contains(&first) {
        return Err(ApiError::bad_request(format!(
            "Invalid patch request: Cannot patch system property {first}."
        )));
    }
    match key.paths.iter().find(|key| path.starts_with(key.segments())) {
        Some(key) => Err(ApiError::bad_request(format!(
            "Invalid patch request: Cannot patch the partition key path {key}."
        ))),
        None => Ok(()),
    }
}

/// Reads a JSON pointer to something below the root.
fn pointer(value: Option<&Value>, member: &str) -> Result<Pointer, ApiError> {
    let Some(Value::String(text)) = value else {
        return Err(bad_syntax(format!("An operation needs a '{member}'.")));
    };
    let invalid = || bad_syntax(format!("The {member} '{text}' is not a JSON pointer."));
    let below_root = text.strip_prefix('/').ok_or_else(invalid)?;
    let segments = below_root.split('/').map(unescape).collect::<Option<Pointer>>();
    segments.ok_or_else(invalid)
}

/// `~1` is a slash and `~0` a tilde; a tilde before anything else is an error.
fn unescape(segment: &str) -> Option<String> {
    let mut parts = segment.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (escaped, rest) = match part.as_bytes().first()? {
            b'0' => ('~', &part[1..]),
            b'1' => ('/', &part[1..]),
            _ => return None,
        };
        out.push(escaped);
        out.push_str(rest);
    }
    Some(out)
}

fn bad_syntax(reason: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError::bad_request(format!(
        "Invalid patch request: check syntax of patch specification. {}",
        reason.into()
    ))
}
