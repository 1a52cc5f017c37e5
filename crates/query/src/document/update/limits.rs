//! What a document may be at most once it is changed.

use model::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX};
use model::{Object, Value};

use crate::document::{Failure, code};

/// The document would be too large.
const RESULT_TOO_LARGE: i32 = 17419;

/// Fails if a document is too large or too deep.
pub fn check_limits(document: &Object) -> Result<(), Failure> {
    if depth_exceeds(document, DOCUMENT_DEPTH_MAX) {
        let message = format!("Document exceeds maximum nested object depth: {DOCUMENT_DEPTH_MAX}");
        return Err(Failure::new(code::OVERFLOW, message));
    }
    if encoded_bytes(document) > DOCUMENT_BYTES_MAX {
        let message =
            format!("Resulting document after update is larger than {DOCUMENT_BYTES_MAX}");
        return Err(Failure::new(RESULT_TOO_LARGE, message));
    }
    Ok(())
}

fn depth_exceeds(object: &Object, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    object.iter().any(|(_, value)| value_depth_exceeds(value, depth))
}

fn value_depth_exceeds(value: &Value, depth: usize) -> bool {
    if let Value::Object(object) = value {
        return depth_exceeds(object, depth);
    }
    let Value::Array(elements) = value else { return false };
    let Some(depth) = depth.checked_sub(1) else { return true };
    elements.iter().any(|element| value_depth_exceeds(element, depth))
}

/// A length, and the byte that ends a text or document.
const LENGTH_AND_END: usize = 5;

/// The length of a document in BSON.
pub fn encoded_bytes(document: &Object) -> usize {
    let field = |(name, value): (&str, &Value)| 2 + name.len() + value_bytes(value);
    LENGTH_AND_END + document.iter().map(field).sum::<usize>()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Undefined | Value::MinKey | Value::MaxKey => 0,
        Value::Bool(_) => 1,
        Value::Int32(_) => 4,
        Value::Int64(_) | Value::Double(_) | Value::Date(_) | Value::Timestamp { .. } => 8,
        Value::Decimal128(_) => 16,
        Value::String(text) | Value::Symbol(text) => LENGTH_AND_END + text.len(),
        // Those of subtype 2 have another length inside.
        Value::Binary { subtype: 2, bytes } => 9 + bytes.len(),
        Value::Binary { subtype: _, bytes } => LENGTH_AND_END + bytes.len(),
        Value::Guid(bytes) => LENGTH_AND_END + bytes.len(),
        Value::ObjectId(_) => 12,
        Value::DbPointer { namespace, id } => LENGTH_AND_END + namespace.len() + id.len(),
        Value::Regex { pattern, options } => pattern.len() + options.len() + 2,
        Value::JavaScript { code, scope: None } => LENGTH_AND_END + code.len(),
        Value::JavaScript { code, scope: Some(scope) } => {
            4 + LENGTH_AND_END + code.len() + encoded_bytes(scope)
        }
        Value::Array(elements) => {
            let element = |(at, value): (usize, &Value)| 2 + digits(at) + value_bytes(value);
            LENGTH_AND_END + elements.iter().enumerate().map(element).sum::<usize>()
        }
        Value::Object(object) => encoded_bytes(object),
    }
}

/// The number of decimal digits.
fn digits(n: usize) -> usize {
    n.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_bytes() {
        let elements = (0..12).map(Value::Int32).collect();
        let scope = Object::from_iter([("n".to_owned(), Value::Null)]);
        let code = "return n".to_owned();
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int64(1),
            Value::from("text"),
            Value::Binary { subtype: 0, bytes: vec![1, 2] },
            Value::Binary { subtype: 2, bytes: vec![1, 2] },
            Value::ObjectId([0; 12]),
            Value::Regex { pattern: "a".to_owned(), options: "i".to_owned() },
            Value::JavaScript { code: code.clone(), scope: None },
            Value::JavaScript { code, scope: Some(Box::new(scope)) },
            Value::Array(elements),
            Value::Timestamp { seconds: 1, increment: 2 },
        ];
        for value in values {
            let document = Object::from_iter([("field".to_owned(), value)]);
            let mut bytes = Vec::new();
            model::bson::write(&document, &mut bytes).unwrap();
            assert_eq!(encoded_bytes(&document), bytes.len(), "{document:?}");
        }
    }

    #[test]
    fn a_hundred_levels_are_allowed() {
        let nested = |levels: usize| {
            let innermost = Object::new();
            (1..levels).fold(innermost, |inner, _| {
                Object::from_iter([("a".to_owned(), Value::Object(inner))])
            })
        };
        assert_eq!(check_limits(&nested(DOCUMENT_DEPTH_MAX)), Ok(()));
        assert_eq!(check_limits(&nested(DOCUMENT_DEPTH_MAX + 1)).unwrap_err().code, 15);
    }

    #[test]
    fn sixteen_megabytes_are_allowed() {
        let document =
            |length: usize| Object::from_iter([("a".to_owned(), Value::from("x".repeat(length)))]);
        let room = DOCUMENT_BYTES_MAX - encoded_bytes(&document(0));
        assert_eq!(check_limits(&document(room)), Ok(()));
        assert_eq!(check_limits(&document(room + 1)).unwrap_err().code, 17419);
    }
}
