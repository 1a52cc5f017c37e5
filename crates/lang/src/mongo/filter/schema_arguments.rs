//! The arguments of the keywords of schemas.

use model::Value;
use query::document::predicate::Schema;
use query::document::types::is_number;
use query::document::{Failure, code};

use super::bad_value;
use super::json_schema::compile_schema;
use crate::mongo::integers::non_negative_integer;

pub(super) fn failed_to_parse(message: impl Into<String>) -> Failure {
    Failure::new(code::FAILED_TO_PARSE, message)
}

/// Fails if an argument does not have the type that its keyword takes.
pub(super) fn expect_type(is_expected: bool, keyword: &str, expected: &str) -> Result<(), Failure> {
    match is_expected {
        true => Ok(()),
        false => {
            let message = format!("$jsonSchema keyword '{keyword}' must be {expected}");
            Err(Failure::new(code::TYPE_MISMATCH, message))
        }
    }
}

pub(super) fn boolean(keyword: &str, value: &Value) -> Result<bool, Failure> {
    expect_type(value.as_bool().is_some(), keyword, "a boolean")?;
    Ok(value.as_bool().unwrap_or_default())
}

pub(super) fn number(keyword: &str, value: &Value) -> Result<Value, Failure> {
    expect_type(is_number(value), keyword, "a number")?;
    Ok(value.clone())
}

pub(super) fn count(keyword: &str, value: &Value) -> Result<u64, Failure> {
    let count = non_negative_integer(keyword, value).map_err(failed_to_parse)?;
    Ok(count.unsigned_abs())
}

/// The fields of an argument that is an object.
pub(super) fn fields_of<'v>(
    keyword: &str,
    value: &'v Value,
) -> Result<impl Iterator<Item = (&'v str, &'v Value)>, Failure> {
    expect_type(value.as_object().is_some(), keyword, "an object")?;
    Ok(value.as_object().into_iter().flat_map(model::Object::iter))
}

/// The strings of an array that is not empty and repeats none.
pub(super) fn strings(keyword: &str, value: &Value) -> Result<Vec<String>, Failure> {
    expect_type(value.as_array().is_some(), keyword, "an array")?;
    let elements = value.as_array().unwrap_or_default();
    if elements.is_empty() {
        let message = format!("$jsonSchema keyword '{keyword}' cannot be an empty array");
        return Err(failed_to_parse(message));
    }
    let mut strings = Vec::with_capacity(elements.len());
    for element in elements {
        expect_type(element.as_str().is_some(), keyword, "an array of strings")?;
        strings.push(element.as_str().unwrap_or_default().to_owned());
    }
    let mut sorted: Vec<&String> = strings.iter().collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        let message =
            format!("$jsonSchema keyword '{keyword}' array cannot contain duplicate values");
        return Err(failed_to_parse(message));
    }
    Ok(strings)
}

pub(super) fn schema_of(keyword: &str, value: &Value) -> Result<Schema, Failure> {
    expect_type(value.as_object().is_some(), keyword, "an object")?;
    value.as_object().map_or_else(|| Ok(Schema::default()), compile_schema)
}

/// The schemas of an array that is not empty.
pub(super) fn schemas_of(keyword: &str, value: &Value) -> Result<Vec<Schema>, Failure> {
    expect_type(value.as_array().is_some(), keyword, "an array")?;
    let elements = value.as_array().unwrap_or_default();
    if elements.is_empty() && keyword != "items" {
        let message = format!("$jsonSchema keyword '{keyword}' must be a non-empty array");
        return Err(bad_value(message));
    }
    elements.iter().map(|element| schema_of(keyword, element)).collect()
}
