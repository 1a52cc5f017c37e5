//! Bodies of item requests and answers: JSON text, or Cosmos binary JSON if the client sends or
//! demands it.

use bytes::Bytes;
use engine::ops::ItemBody;
use engine::{InvalidRequest, StoredItem};
use model::rid::IdError;
use model::{Value, json, limits};

use crate::binary_json::{self, BinaryJsonError, Limits};
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::hybrid_row;
use crate::request::Request;
use crate::{resource, system_properties};

/// Most nesting levels around a part of an item: a patch's or query's own object, its list, its
/// entry.
const ENVELOPE_DEPTH: usize = 3;

/// The item in a request's body.
pub(crate) fn item(body: &Bytes) -> Result<ItemBody, ApiError> {
    check_form(body)?;
    if binary_json::is_binary(body) {
        let value = binary_json::decode(body, Limits::ITEM).map_err(refuse_binary)?;
        return item_of_value(value);
    }
    item_of_text(body.clone())
}

/// The item in a JSON text.
pub(crate) fn item_of_text(text: Bytes) -> Result<ItemBody, ApiError> {
    with_short_id(ItemBody::from_json(text)?)
}

/// The item made of a value.
pub(crate) fn item_of_value(value: Value) -> Result<ItemBody, ApiError> {
    with_short_id(ItemBody::from_value(value)?)
}

/// Refuses ids that exceed the limit of this API; other APIs allow longer ones.
fn with_short_id(body: ItemBody) -> Result<ItemBody, ApiError> {
    const MAX: usize = limits::NOSQL_ITEM_ID_BYTES_MAX;
    match body.value().field("id") {
        Some(Value::String(id)) if id.len() > MAX => {
            let error = IdError::TooLong { max: MAX, unit: "bytes" };
            Err(engine::Error::from(InvalidRequest::id(id, error, MAX + 1)).into())
        }
        _ => Ok(body),
    }
}

/// Any value in a request's body. It may be a few levels deeper than an item, because items in it
/// are nested in other values.
pub(crate) fn value(body: &[u8]) -> Result<Value, ApiError> {
    check_form(body)?;
    if binary_json::is_binary(body) {
        return binary_json::decode(body, Limits::ITEM).map_err(refuse_binary);
    }
    let parsed = json::parse(body, limits::ITEM_DEPTH_MAX + ENVELOPE_DEPTH);
    parsed.map(|parsed| parsed.value).map_err(invalid)
}

/// 400 for an invalid body.
pub(crate) fn invalid(reason: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!(
        "The request payload is invalid. Ensure to provide a valid request payload: {reason}"
    ))
}

/// Refuses bodies in formats for which the parsers would give no useful error.
pub(crate) fn check_form(body: &[u8]) -> Result<(), ApiError> {
    match body.first() {
        None => Err(invalid("the body is empty")),
        Some(_) if hybrid_row::is_rows(body) => {
            Err(invalid("only batches and bulk requests may be in HybridRow format"))
        }
        Some(_) => Ok(()),
    }
}

fn refuse_binary(error: BinaryJsonError) -> ApiError {
    match error {
        BinaryJsonError::TooLarge { max } => {
            engine::Error::TooLarge { what: "the item", max_bytes: max }.into()
        }
        BinaryJsonError::Truncated { .. }
        | BinaryJsonError::Marker { .. }
        | BinaryJsonError::Length { .. }
        | BinaryJsonError::Reference { .. }
        | BinaryJsonError::Text { .. }
        | BinaryJsonError::Number { .. }
        | BinaryJsonError::TooDeep { .. }
        | BinaryJsonError::Trailing { .. } => invalid(error),
    }
}

/// Whether the response must be binary: the client lists that form and not text. If it accepts
/// both, the stored text is copied.
pub(crate) fn demands_binary(request: &Request) -> bool {
    let Some(formats) = request.header(HeaderName::SerializationFormats) else { return false };
    let lists = |format: &str| formats.split(',').any(|f| f.trim().eq_ignore_ascii_case(format));
    lists("CosmosBinary") && !lists("JsonText")
}

/// An item as a response body.
pub(crate) fn of_item(item: &StoredItem, request: &Request) -> Result<Bytes, ApiError> {
    if request.flag(HeaderName::ExcludeSystemProperties) {
        return without_links(item, request);
    }
    if demands_binary(request) {
        return Ok(binary_json::encode(&system_properties::value_of(item)?).into());
    }
    Ok(system_properties::text_of(item).into())
}

/// An item without the system properties that clients can do without.
fn without_links(item: &StoredItem, request: &Request) -> Result<Bytes, ApiError> {
    let mut value = system_properties::value_of(item)?;
    if let Some(properties) = value.as_object_mut() {
        for name in ["_self", "_attachments"] {
            properties.remove(name);
        }
    }
    Ok(match demands_binary(request) {
        true => binary_json::encode(&value).into(),
        false => resource::body(&value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::request_with;

    fn status_of(body: &[u8]) -> u16 {
        item(&Bytes::copy_from_slice(body)).map_or_else(|e| e.status(), |_| 200)
    }

    #[test]
    fn text_and_binary_say_the_same() {
        let text = Bytes::from_static(br#"{"id":"i 1","n":[1,2.5,null]}"#);
        let from_text = item(&text).unwrap();
        let binary = Bytes::from(binary_json::encode(from_text.value()));
        assert_eq!(item(&binary).unwrap().value(), from_text.value());
        assert_eq!(value(&binary).unwrap(), value(&text).unwrap());
    }

    #[test]
    fn bad_bodies_have_their_status() {
        assert_eq!(status_of(b""), 400);
        assert_eq!(status_of(b"[1]"), 400);
        assert_eq!(status_of(b"{\"id\":"), 400);
        assert_eq!(status_of(b"{\"id\":\"\xff\"}"), 400);
        assert_eq!(status_of(b"\x80"), 400);
        assert_eq!(status_of(b"\x80\xE1\x05"), 400);
        assert_eq!(status_of(b"\x81\x00\x00\x00\x00"), 400);
        let deep = format!("{{\"id\":\"1\",\"a\":{}1{}}}", "[".repeat(128), "]".repeat(128));
        assert_eq!(status_of(deep.as_bytes()), 400);
        let long = "x".repeat(limits::ITEM_BYTES_MAX);
        assert_eq!(status_of(format!("{{\"id\":\"1\",\"a\":\"{long}\"}}").as_bytes()), 413);
        let binary = binary_json::encode(&Value::Array(vec![Value::from(long)]));
        assert_eq!(status_of(&binary), 413);
    }

    #[test]
    fn a_row_format_body_is_told_apart() {
        let error = value(b"\x81\x01").unwrap_err();
        assert!(error.message().contains("HybridRow"), "{}", error.message());
    }

    #[test]
    fn binary_is_answered_only_when_text_is_not_taken() {
        let check = |formats: Option<&'static str>| {
            let formats = formats.map(|formats| (HeaderName::SerializationFormats, formats));
            demands_binary(&request_with(formats.as_slice(), b""))
        };
        assert!(check(Some("CosmosBinary")));
        assert!(check(Some("cosmosbinary")));
        assert!(!check(Some("JsonText,CosmosBinary")));
        assert!(!check(Some("JsonText")));
        assert!(!check(None));
    }
}
