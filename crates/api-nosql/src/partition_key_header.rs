//! The partition key of a request: `x-ms-documentdb-partitionkey`, a JSON array of values.
//!
//! `[{}]` stands for the *undefined* key and `[]` for the key of a container that has none; null,
//! undefined, `""` and 0 are four different logical partitions.

use engine::Container;
use model::{ErrorKind, PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, Value, json};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::request::Request;

/// Array of scalars, or of empty objects.
const DEPTH_MAX: usize = 2;

const MISMATCH: &str = "Partition key provided either doesn't correspond to definition in the \
                        collection or doesn't match partition key field values specified in the \
                        document.";

/// The whole key of an operation on one item; `None` if the header is absent.
pub(crate) fn item_key(
    container: &Container,
    request: &Request,
) -> Result<Option<PartitionKey>, ApiError> {
    match request.headers.get(HeaderName::PartitionKey) {
        Some(value) => whole(&container.spec.partition_key, value).map(Some),
        None => Ok(None),
    }
}

/// The whole key of an operation whose body does not contain it. Only a container without a
/// partition key needs no header.
pub(crate) fn required_item_key(
    container: &Container,
    request: &Request,
) -> Result<PartitionKey, ApiError> {
    match item_key(container, request)? {
        Some(key) => Ok(key),
        None => key_of_none(&container.spec.partition_key),
    }
}

/// The key to use if the request has none, which only a container without a partition key allows.
pub(crate) fn key_of_none(definition: &PartitionKeyDefinition) -> Result<PartitionKey, ApiError> {
    match definition.is_system {
        true => Ok(undefined()),
        false => {
            Err(ApiError::bad_request("PartitionKey value must be supplied for this operation."))
        }
    }
}

/// The key, or leading part of a key, that a feed or query is confined to; `None` if the header is
/// absent.
pub(crate) fn scope_key(
    container: &Container,
    request: &Request,
) -> Result<Option<PartitionKey>, ApiError> {
    let Some(value) = request.headers.get(HeaderName::PartitionKey) else { return Ok(None) };
    scope_key_of(&container.spec.partition_key, value).map(Some)
}

/// A key of `definition` or the leading part of one.
pub(crate) fn scope_key_of(
    definition: &PartitionKeyDefinition,
    text: &[u8],
) -> Result<PartitionKey, ApiError> {
    let key = parse(text)?;
    match key.0.len() {
        0 if definition.is_system => Ok(undefined()),
        n if (1..=definition.paths.len()).contains(&n) => Ok(key),
        _ => Err(mismatch()),
    }
}

/// A whole key of `definition`, from the text of the header or of a bulk operation.
pub(crate) fn whole(
    definition: &PartitionKeyDefinition,
    text: &[u8],
) -> Result<PartitionKey, ApiError> {
    let key = parse(text)?;
    match key.0.len() {
        0 if definition.is_system => Ok(undefined()),
        n if n == definition.paths.len() => Ok(key),
        _ => Err(mismatch()),
    }
}

/// A key of any number of components.
pub(crate) fn parse(text: &[u8]) -> Result<PartitionKey, ApiError> {
    let invalid = || {
        let shown = String::from_utf8_lossy(text);
        ApiError::bad_request(format!("Partition key {shown} is invalid."))
    };
    let parsed = json::parse(text, DEPTH_MAX).map_err(|_| invalid())?;
    let components = parsed.value.as_array().ok_or_else(invalid)?;
    let components = components.iter().map(component).collect::<Option<_>>();
    components.map(PartitionKey).ok_or_else(invalid)
}

fn component(value: &Value) -> Option<PartitionKeyComponent> {
    let value = match value.as_object() {
        Some(object) if object.is_empty() => None,
        _ => Some(value),
    };
    PartitionKeyComponent::from_value(value).ok()
}

fn undefined() -> PartitionKey {
    PartitionKey([PartitionKeyComponent::Undefined].into_iter().collect())
}

fn mismatch() -> ApiError {
    ApiError::new(ErrorKind::PartitionKeyMismatch, MISMATCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::key_definition;
    use PartitionKeyComponent as C;

    #[track_caller]
    fn parses(text: &str, components: &[C]) {
        let key = parse(text.as_bytes()).map_err(|e| e.message().to_owned());
        assert_eq!(key, Ok(PartitionKey(components.iter().cloned().collect())), "{text}");
    }

    #[test]
    fn every_form_of_a_component_is_read() {
        parses("[\"x\"]", &[C::String("x".into())]);
        parses(" [ \"x\" , 5 ] ", &[C::String("x".into()), C::Number(5.0)]);
        parses("[5.5]", &[C::Number(5.5)]);
        parses("[true]", &[C::Bool(true)]);
        parses("[null]", &[C::Null]);
        parses("[{}]", &[C::Undefined]);
        parses("[\"x\",{}]", &[C::String("x".into()), C::Undefined]);
        parses("[]", &[]);
        parses("[\"\"]", &[C::String(String::new())]);
        parses("[\"\\u00fc\"]", &[C::String("ü".into())]);
        parses("[\"ü\"]", &[C::String("ü".into())]);
        parses("[9007199254740993]", &[C::Number(9_007_199_254_740_992.0)]);
    }

    #[test]
    fn bad_forms_are_refused() {
        for text in ["", "x", "\"x\"", "{}", "[", "[\"x\"", "[[]]", "[[1]]", "[{\"a\":1}]", "[,]"] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!((error.status(), error.substatus()), (400, 0), "{text}");
        }
        assert_eq!(parse(b"[\"\xff\"]").unwrap_err().status(), 400);
        let too_long = format!("[\"{}\"]", "x".repeat(3000));
        assert_eq!(parse(too_long.as_bytes()).unwrap_err().status(), 400);
    }

    #[test]
    fn a_whole_key_has_all_components() {
        let two = key_definition(&["/a", "/b"]);
        assert!(whole(&two, b"[1,2]").is_ok());
        for text in ["[]", "[1]", "[1,2,3]"] {
            let error = whole(&two, text.as_bytes()).unwrap_err();
            assert_eq!((error.status(), error.substatus()), (400, 1001), "{text}");
        }
        assert!(whole(&key_definition(&["/a"]), b"[]").is_err());
    }

    #[test]
    fn a_container_without_a_key_takes_both_forms_of_none() {
        let system =
            PartitionKeyDefinition { is_system: true, ..key_definition(&["/_partitionKey"]) };
        assert_eq!(whole(&system, b"[]").ok(), Some(undefined()));
        assert_eq!(whole(&system, b"[{}]").ok(), Some(undefined()));
    }
}
