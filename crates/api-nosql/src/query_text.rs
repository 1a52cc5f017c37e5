//! The body of a query request: a text and its parameters.

use hyper::header::CONTENT_TYPE;
use model::{Value, json, limits};

use crate::errors::ApiError;
use crate::request::Request;

/// A parameter value may be as deep as an item, inside the body's own levels.
const DEPTH_MAX: usize = limits::ITEM_DEPTH_MAX + 4;

/// A query as a client sent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryText {
    /// The query.
    pub text: String,
    /// Values by name; one sent without a value is left out, which makes it *undefined*.
    pub parameters: Vec<(String, Value)>,
}

impl QueryText {
    /// Reads `{"query": "...", "parameters": [{"name": "@a", "value": 1}]}`, or a bare text when
    /// the content type says so.
    pub(crate) fn parse(request: &Request) -> Result<Self, ApiError> {
        let content_type = request.header(&CONTENT_TYPE).unwrap_or_default();
        if content_type.to_ascii_lowercase().starts_with("application/sql") {
            let text = std::str::from_utf8(&request.body).map_err(|_| invalid_payload())?;
            return Ok(Self { text: text.to_owned(), parameters: Vec::new() });
        }
        let parsed = json::parse(&request.body, DEPTH_MAX).map_err(|_| invalid_payload())?;
        let Value::Object(mut body) = parsed.value else { return Err(invalid_payload()) };
        let Some(Value::String(text)) = body.remove("query") else { return Err(invalid_payload()) };
        let parameters = match body.remove("parameters") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => {
                let named: Option<Vec<_>> = list.into_iter().map(parameter).collect();
                named.ok_or_else(invalid_payload)?
            }
            Some(_) => return Err(invalid_payload()),
        };
        check_names(&parameters)?;
        let parameters = parameters.into_iter().filter_map(|(n, v)| Some((n, v?))).collect();
        Ok(Self { text, parameters })
    }
}

fn parameter(value: Value) -> Option<(String, Option<Value>)> {
    let Value::Object(mut parameter) = value else { return None };
    let Some(Value::String(name)) = parameter.remove("name") else { return None };
    Some((name, parameter.remove("value")))
}

fn check_names(parameters: &[(String, Option<Value>)]) -> Result<(), ApiError> {
    lang::nosql::check_parameter_names(parameters.iter().map(|(name, _)| name.as_str()))
        .map_err(|error| ApiError::bad_request_errors(error.to_string()))
}

fn invalid_payload() -> ApiError {
    ApiError::bad_request(
        "The request payload is invalid. Ensure to provide a valid request payload.",
    )
}
