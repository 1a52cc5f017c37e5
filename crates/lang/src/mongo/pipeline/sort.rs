//! Orders: fields with 1 or -1.

use model::Value;
use query::document::code::FAILED_TO_PARSE;
use query::document::index_keys::{ColumnKind, IndexColumn};
use query::document::pipeline::Sort;
use query::document::sort::SortPattern;
use query::document::values::printed;
use query::document::{Failure, FieldPath};

use crate::mongo::field_names::path_parts;

/// `$sort`.
pub(super) fn stage(spec: &Value) -> Result<Sort, Failure> {
    if spec.as_object().is_none() {
        let message = "the $sort key specification must be an object";
        return Err(Failure::new(15973, message));
    }
    let pattern = compile(spec)?;
    if pattern.columns().is_empty() {
        let message = "$sort stage must have at least one sort key";
        return Err(Failure::new(15976, message));
    }
    Ok(Sort { pattern, limit: None })
}

/// The order that an object of fields describes.
pub fn compile(spec: &Value) -> Result<SortPattern, Failure> {
    let mut columns = Vec::new();
    for (name, direction) in spec.as_object().map(model::Object::iter).into_iter().flatten() {
        if let Some(metadata) = direction.as_object() {
            return Err(metadata_failure(metadata));
        }
        let is_number = matches!(
            direction,
            Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_)
        );
        if !is_number {
            let shown = printed(Some(direction));
            let message = format!("Illegal key in $sort specification: {name}: {shown}");
            return Err(Failure::new(15974, message));
        }
        let kind = match query::document::types::to_f64(direction) {
            Some(1.0) => ColumnKind::Ascending,
            Some(-1.0) => ColumnKind::Descending,
            _ => {
                let message = "$sort key ordering must be 1 (for ascending) or -1 (for descending)";
                return Err(Failure::new(15975, message));
            }
        };
        path_parts(name)?;
        columns.push(IndexColumn { path: FieldPath::parse(name), kind });
    }
    Ok(SortPattern::new(columns))
}

fn metadata_failure(metadata: &model::Object) -> Failure {
    if metadata.get("$meta").is_none() {
        let message = "$meta is the only expression supported by $sort right now";
        return Failure::new(17312, message);
    }
    if metadata.len() != 1 {
        let message = "Cannot have additional keys in a $meta sort specification";
        return Failure::new(FAILED_TO_PARSE, message);
    }
    let name = metadata.get("$meta").and_then(Value::as_str).unwrap_or_default();
    match name {
        "textScore" => {
            Failure::new(40218, "query requires text score metadata, but it is not available")
        }
        "randVal" => Failure::new(115, "sorting by random values is not supported"),
        _ => Failure::new(31138, format!("Illegal $meta sort: $meta: \"{name}\"")),
    }
}
