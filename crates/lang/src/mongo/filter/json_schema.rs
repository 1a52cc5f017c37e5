//! Compiles `$jsonSchema`: draft 4 without references and formats, with BSON types.

use model::{Object, Value};
use query::document::predicate::{Additional, Items, Schema};
use query::document::{Failure, Regex, TypeSet, code};

use super::operators::add_alias;
use super::schema_arguments::{
    boolean, count, expect_type, failed_to_parse, fields_of, number, schema_of, schemas_of, strings,
};

/// Keywords of draft 4 that are refused rather than ignored.
const NOT_SUPPORTED: [&str; 6] = ["$ref", "$schema", "default", "definitions", "format", "id"];

/// Compiles the argument of `$jsonSchema`.
pub(super) fn compile(value: &Value) -> Result<Schema, Failure> {
    let Value::Object(keywords) = value else {
        return Err(Failure::new(code::TYPE_MISMATCH, "$jsonSchema must be an object"));
    };
    compile_schema(keywords)
}

pub(super) fn compile_schema(keywords: &Object) -> Result<Schema, Failure> {
    let mut schema = Schema::default();
    for (keyword, value) in keywords.iter() {
        if NOT_SUPPORTED.contains(&keyword) {
            let message = format!("$jsonSchema keyword '{keyword}' is not currently supported");
            return Err(failed_to_parse(message));
        }
        let is_known = general_keyword(&mut schema, keyword, value)?
            || scalar_keyword(&mut schema, keywords, keyword, value)?
            || array_keyword(&mut schema, keywords, keyword, value)?
            || object_keyword(&mut schema, keyword, value)?;
        if !is_known {
            return Err(failed_to_parse(format!("Unknown $jsonSchema keyword: {keyword}")));
        }
    }
    if keywords.get("type").is_some() && keywords.get("bsonType").is_some() {
        let message = "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'";
        return Err(failed_to_parse(message));
    }
    Ok(schema)
}

fn general_keyword(schema: &mut Schema, keyword: &str, value: &Value) -> Result<bool, Failure> {
    match keyword {
        "title" | "description" => {
            expect_type(value.as_str().is_some(), keyword, "a string")?;
        }
        "type" => schema.types = Some(types(keyword, value, &add_json_type)?),
        "bsonType" => schema.types = Some(types(keyword, value, &add_alias)?),
        "enum" => {
            let Value::Array(values) = value else {
                return expect_type(false, keyword, "an array").map(|()| true);
            };
            if values.is_empty() {
                let message = "$jsonSchema keyword 'enum' cannot be an empty array";
                return Err(failed_to_parse(message));
            }
            schema.values = Some(values.clone());
        }
        "allOf" => schema.all_of = schemas_of(keyword, value)?,
        "anyOf" => schema.any_of = Some(schemas_of(keyword, value)?),
        "oneOf" => schema.one_of = Some(schemas_of(keyword, value)?),
        "not" => schema.not = Some(Box::new(schema_of(keyword, value)?)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn scalar_keyword(
    schema: &mut Schema,
    keywords: &Object,
    keyword: &str,
    value: &Value,
) -> Result<bool, Failure> {
    let is_excluded = |name: &str| match keywords.get(name) {
        Some(value) => boolean(name, value),
        None => Ok(false),
    };
    let needs = |bound: &str| match keywords.get(bound) {
        Some(_) => Ok(()),
        None => Err(failed_to_parse(format!(
            "$jsonSchema keyword '{bound}' must be a present if {keyword} is present"
        ))),
    };
    match keyword {
        "minimum" => {
            schema.minimum = Some((number(keyword, value)?, is_excluded("exclusiveMinimum")?));
        }
        "maximum" => {
            schema.maximum = Some((number(keyword, value)?, is_excluded("exclusiveMaximum")?));
        }
        "exclusiveMinimum" => {
            boolean(keyword, value)?;
            needs("minimum")?;
        }
        "exclusiveMaximum" => {
            boolean(keyword, value)?;
            needs("maximum")?;
        }
        "multipleOf" => {
            let divisor = number(keyword, value)?;
            let zero = Value::Int32(0);
            if !query::document::types::compare(Some(&divisor), Some(&zero)).is_gt() {
                let message = "$jsonSchema keyword 'multipleOf' must have a positive value";
                return Err(failed_to_parse(message));
            }
            schema.multiple_of = Some(divisor);
        }
        "minLength" => schema.min_length = Some(count(keyword, value)?),
        "maxLength" => schema.max_length = Some(count(keyword, value)?),
        "pattern" => {
            let Value::String(pattern) = value else {
                return expect_type(false, keyword, "a string").map(|()| true);
            };
            schema.pattern = Some(Regex::new(pattern, "")?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn array_keyword(
    schema: &mut Schema,
    keywords: &Object,
    keyword: &str,
    value: &Value,
) -> Result<bool, Failure> {
    let rules = &mut schema.array;
    match keyword {
        "items" => {
            rules.items = match value.as_array() {
                Some(_) => {
                    let additional = match keywords.get("additionalItems") {
                        Some(value) => additional("additionalItems", value)?,
                        None => Additional::Allowed,
                    };
                    Items::Each(schemas_of(keyword, value)?, additional)
                }
                None => {
                    let is_object = value.as_object().is_some();
                    expect_type(is_object, keyword, "an array or an object, not something else")?;
                    Items::All(Box::new(schema_of(keyword, value)?))
                }
            };
        }
        // It counts beside a list of items only, which takes it from here.
        "additionalItems" => drop(additional(keyword, value)?),
        "minItems" => rules.min_items = Some(count(keyword, value)?),
        "maxItems" => rules.max_items = Some(count(keyword, value)?),
        "uniqueItems" => rules.has_unique_items = boolean(keyword, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn object_keyword(schema: &mut Schema, keyword: &str, value: &Value) -> Result<bool, Failure> {
    let rules = &mut schema.object;
    match keyword {
        "properties" => {
            for (name, value) in fields_of(keyword, value)? {
                rules.properties.push((name.to_owned(), schema_of(name, value)?));
            }
        }
        "patternProperties" => {
            for (name, value) in fields_of(keyword, value)? {
                rules.pattern_properties.push((Regex::new(name, "")?, schema_of(name, value)?));
            }
        }
        "additionalProperties" => rules.additional = additional(keyword, value)?,
        "required" => rules.required = strings(keyword, value)?,
        "dependencies" => {
            for (name, value) in fields_of(keyword, value)? {
                let name = name.to_owned();
                match value.as_array() {
                    Some(_) => {
                        let needed = strings("dependencies", value)?;
                        rules.field_dependencies.push((name, needed));
                    }
                    None => rules.schema_dependencies.push((name, schema_of(keyword, value)?)),
                }
            }
        }
        "minProperties" => rules.min_properties = Some(count(keyword, value)?),
        "maxProperties" => rules.max_properties = Some(count(keyword, value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn additional(keyword: &str, value: &Value) -> Result<Additional, Failure> {
    match value.as_bool() {
        Some(true) => Ok(Additional::Allowed),
        Some(false) => Ok(Additional::Forbidden),
        None => {
            expect_type(value.as_object().is_some(), keyword, "an object or a boolean")?;
            Ok(Additional::Fit(Box::new(schema_of(keyword, value)?)))
        }
    }
}

type AddType = dyn Fn(&str, &mut TypeSet) -> Result<(), Failure>;

fn types(keyword: &str, value: &Value, add: &AddType) -> Result<TypeSet, Failure> {
    let names = match value.as_str() {
        Some(name) => vec![name.to_owned()],
        None => {
            let is_list = value.as_array().is_some();
            expect_type(is_list, keyword, "either a string or an array of strings")?;
            strings(keyword, value)?
        }
    };
    let mut types = TypeSet::default();
    names.iter().try_for_each(|name| add(name, &mut types))?;
    Ok(types)
}

/// The types of JSON: `boolean` is not a name of BSON, and `integer` is none of either.
fn add_json_type(name: &str, types: &mut TypeSet) -> Result<(), Failure> {
    match name {
        "boolean" => add_alias("bool", types),
        "object" | "array" | "number" | "string" | "null" => add_alias(name, types),
        "integer" => Err(failed_to_parse("$jsonSchema type 'integer' is not currently supported.")),
        _ => Err(super::bad_value(format!("Unknown type name alias: {name}"))),
    }
}
