//! The arguments of the operators on arrays.

use std::sync::Arc;

use model::{Object, Value};
use query::document::print::PrintedObject;
use query::document::types::is_number;
use query::document::update::{PullCondition, Push, PushSort};
use query::document::{BsonType, Failure, code};

use crate::mongo::filter::{self, FilterOptions};
use crate::mongo::integers::integer;

use super::bad_value;

/// The argument of `$push`: an element, or several with what is done to the array then.
pub(super) fn push(argument: &Value) -> Result<Push, Failure> {
    let options = argument.as_object().filter(|object| object.get("$each").is_some());
    let Some(options) = options else {
        return Ok(Push { elements: vec![argument.clone()], ..Push::default() });
    };
    let mut push = Push::default();
    for (name, value) in options.iter() {
        match name {
            "$each" => {
                let Value::Array(elements) = value else {
                    return Err(bad_value(format!(
                        "The argument to $each in $push must be an array but it was of type: {}",
                        BsonType::of(value).alias()
                    )));
                };
                push.elements.clone_from(elements);
            }
            "$slice" => push.slice = Some(whole("$slice", "but was given type: ", value)?),
            "$position" => push.position = Some(whole("$position", "not of type: ", value)?),
            "$sort" => push.sort = Some(sort(value)?),
            _ => return Err(bad_value(format!("Unrecognized clause in $push: {name}"))),
        }
    }
    Ok(push)
}

fn whole(name: &str, but: &str, value: &Value) -> Result<i64, Failure> {
    integer(name, value).map_err(|_| {
        let comma = if but.starts_with("not") { "," } else { "" };
        bad_value(format!(
            "The value for {name} must be an integer value{comma} {but}{}",
            BsonType::of(value).alias()
        ))
    })
}

fn sort(value: &Value) -> Result<PushSort, Failure> {
    let direction = |value: &Value| match value.as_i64() {
        Some(1) => Some(false),
        Some(-1) => Some(true),
        Some(_) | None => None,
    };
    if is_number(value) {
        return match direction(value) {
            Some(is_descending) => Ok(PushSort::Whole { is_descending }),
            None => Err(bad_value("The $sort element value must be either 1 or -1")),
        };
    }
    let Value::Object(fields) = value else {
        return Err(bad_value(
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
             embedded fields",
        ));
    };
    if fields.is_empty() {
        return Err(bad_value("The $sort pattern is empty when it should be a set of fields."));
    }
    let mut compiled = Vec::with_capacity(fields.len());
    for (path, value) in fields.iter() {
        if path.is_empty() {
            return Err(bad_value("The $sort field cannot be empty"));
        }
        if path.split('.').any(str::is_empty) {
            let message =
                format!("The $sort field is a dotted field but has an empty part: {path}");
            return Err(bad_value(message));
        }
        let Some(is_descending) = direction(value) else {
            return Err(bad_value("The $sort element value must be either 1 or -1"));
        };
        compiled.push((path.split('.').map(str::to_owned).collect(), is_descending));
    }
    Ok(PushSort::Fields(compiled))
}

/// The argument of `$addToSet`: an element or several.
pub(super) fn added_to_set(argument: &Value) -> Result<Vec<Value>, Failure> {
    let each = argument.as_object().and_then(|object| {
        let (first, value) = object.iter().next()?;
        (first == "$each").then_some((object, value))
    });
    let Some((object, each)) = each else { return Ok(vec![argument.clone()]) };
    let Value::Array(elements) = each else {
        let message = format!(
            "The argument to $each in $addToSet must be an array but it was of type {}",
            BsonType::of(each).alias()
        );
        return Err(Failure::new(code::TYPE_MISMATCH, message));
    };
    if object.len() > 1 {
        return Err(bad_value(format!(
            "Found unexpected fields after $each in $addToSet: {}",
            PrintedObject(object)
        )));
    }
    Ok(elements.clone())
}

/// The argument of `$pull`: a value, a filter on objects, or tests of elements.
pub(super) fn pull_condition(
    argument: &Value,
    options: &FilterOptions<'_>,
) -> Result<PullCondition, Failure> {
    let restricted = FilterOptions { is_restricted: true, ..*options };
    let is_regex = matches!(argument, Value::Regex { .. });
    if let Value::Object(condition) = argument
        && !filter::is_operators(condition)
    {
        let predicate = filter::compile(condition, &restricted)?;
        return Ok(PullCondition::Objects(Arc::new(predicate)));
    }
    if argument.as_object().is_none() && !is_regex {
        return Ok(PullCondition::Equal(argument.clone()));
    }
    let around = Object::from_iter([(String::new(), argument.clone())]);
    Ok(PullCondition::Elements(Arc::new(filter::compile(&around, &restricted)?)))
}
