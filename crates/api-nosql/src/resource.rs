//! What databases, containers and offers have in common on the wire.

use bytes::Bytes;
use engine::ops::EtagCondition;
use model::{Charge, Object, Value, json};

use crate::errors::ApiError;
use crate::reply::{Reply, Status};
use crate::request::Request;

/// Charge for reading the description of a resource.
pub(crate) const READ_CHARGE: Charge = Charge::units(1);
/// Charge for listing or querying descriptions.
pub(crate) const LIST_CHARGE: Charge = Charge::units(2);
/// Charge for creating, replacing or deleting a resource.
pub(crate) const WRITE_CHARGE: Charge = Charge::milli(4950);

/// Deepest nesting of a description; policies have fewer than ten levels.
const DEPTH_MAX: usize = 32;

/// The object in a request body.
pub(crate) fn parse_body(request: &Request) -> Result<Object, ApiError> {
    parse(&request.body)
}

/// The object that describes a resource.
pub(crate) fn parse(body: &[u8]) -> Result<Object, ApiError> {
    match json::parse(body, DEPTH_MAX).map(|parsed| parsed.value) {
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(ApiError::invalid_input("The body must be a JSON object.")),
        Err(error) => Err(ApiError::bad_request_errors(format!(
            "The request payload is invalid. Ensure to provide a valid request payload: {error}"
        ))),
    }
}

/// The id in the body of a new resource.
pub(crate) fn id_of(body: &Object) -> Result<&str, ApiError> {
    match body.get("id") {
        Some(Value::String(id)) if !id.is_empty() => Ok(id),
        Some(Value::String(_)) | Some(Value::Null) | None => {
            Err(ApiError::missing_properties(&["id"]))
        }
        Some(_) => Err(ApiError::invalid_input("'id' must be a string.")),
    }
}

/// A resource as a response body.
pub(crate) fn body(value: &Value) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    json::write(value, &mut out);
    out.into()
}

/// The reply to a read: the resource, or 304 if the caller's version is current.
pub(crate) fn read_reply(
    request: &Request,
    value: &Value,
    etag: String,
) -> Result<Reply, ApiError> {
    let is_current = match request.if_none_match() {
        None => false,
        Some(EtagCondition::Any) => true,
        // Only items have this condition.
        Some(EtagCondition::ChangedAt(_)) => false,
        Some(EtagCondition::Is(known)) => known == etag.trim_matches('"'),
    };
    let reply = match is_current {
        true => Reply::new(Status::NOT_MODIFIED, Bytes::new()),
        false => Reply::ok(body(value)),
    };
    Ok(reply.etag(etag))
}

/// A count or time as a JSON number.
pub(crate) fn int(n: u64) -> Value {
    Value::Int64(i64::try_from(n).unwrap_or(i64::MAX))
}
