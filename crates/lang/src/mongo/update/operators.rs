//! The operators of updates and their arguments.

use model::Value;
use query::document::print::PrintedField;
use query::document::types::is_number;
use query::document::update::{BitOperation, Modifier, Rename};
use query::document::{BsonType, Failure, code};

use crate::mongo::integers::integer;

use super::array_arguments::{added_to_set, pull_condition, push};
use super::paths::{is_static, parts_of};
use super::{Compiler, bad_value, failed_to_parse};

const OPERATORS: [&str; 15] = [
    "$set",
    "$unset",
    "$setOnInsert",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$currentDate",
    "$bit",
    "$push",
    "$addToSet",
    "$pop",
    "$pull",
    "$pullAll",
];

/// Whether there is an operator of this name.
pub(super) fn is_known(operator: &str) -> bool {
    OPERATORS.contains(&operator)
}

impl Compiler<'_> {
    /// Adds the operator on the value at `path`.
    pub(super) fn operator(
        &mut self,
        operator: &str,
        path: &str,
        argument: &Value,
    ) -> Result<(), Failure> {
        let modifier = match operator {
            "$set" => Modifier::Set(argument.clone()),
            "$unset" => Modifier::Unset,
            "$setOnInsert" => Modifier::SetOnInsert(argument.clone()),
            "$inc" => Modifier::Increment(numeric("increment", path, argument)?),
            "$mul" => Modifier::Multiply(numeric("multiply", path, argument)?),
            "$min" => Modifier::Min(argument.clone()),
            "$max" => Modifier::Max(argument.clone()),
            "$rename" => return self.rename(path, argument),
            "$currentDate" => current_date(argument)?,
            "$bit" => bits(argument)?,
            "$push" => Modifier::Push(push(argument)?),
            "$addToSet" => Modifier::AddToSet(added_to_set(argument)?),
            "$pop" => pop(path, argument)?,
            "$pull" => Modifier::Pull(pull_condition(argument, &self.options.filter)?),
            _ => {
                let Value::Array(values) = argument else {
                    return Err(bad_value(format!(
                        "$pullAll requires an array argument but was given a {}",
                        BsonType::of(argument).alias()
                    )));
                };
                Modifier::PullAll(values.clone())
            }
        };
        self.add(path, modifier)
    }

    fn rename(&mut self, source: &str, argument: &Value) -> Result<(), Failure> {
        let field = PrintedField(source, argument);
        let Value::String(target) = argument else {
            return Err(bad_value(format!("The 'to' field for $rename must be a string: {field}")));
        };
        if target.contains('\0') {
            let message = "The 'to' field for $rename cannot contain an embedded null byte";
            return Err(bad_value(message));
        }
        let (from, to) = (parts_of(source)?, parts_of(target)?);
        if from == to {
            return Err(bad_value(format!(
                "The source and target field for $rename must differ: {field}"
            )));
        }
        if from.starts_with(&to) || to.starts_with(&from) {
            return Err(bad_value(format!(
                "The source and target field for $rename must not be on the same path: {field}"
            )));
        }
        for (role, path, parts) in [("source", source, &from), ("destination", target, &to)] {
            if !is_static(parts) {
                return Err(bad_value(format!(
                    "The {role} field for $rename may not be dynamic: {path}"
                )));
            }
        }
        let owned =
            |parts: Vec<&str>| parts.into_iter().map(str::to_owned).collect::<Vec<String>>();
        let number = self.modifiers.renames.len();
        self.modifiers.renames.push(Rename { source: owned(from), target: owned(to) });
        self.add(source, Modifier::RenameFrom(number))?;
        self.add(target, Modifier::RenameTo(number))
    }
}

fn numeric(verb: &str, path: &str, argument: &Value) -> Result<Value, Failure> {
    match is_number(argument) {
        true => Ok(argument.clone()),
        false => {
            let message = format!(
                "Cannot {verb} with non-numeric argument: {{{}}}",
                PrintedField(path, argument)
            );
            Err(Failure::new(code::TYPE_MISMATCH, message))
        }
    }
}

fn current_date(argument: &Value) -> Result<Modifier, Failure> {
    if argument.as_bool().is_some() {
        return Ok(Modifier::CurrentDate { is_timestamp: false });
    }
    let Value::Object(options) = argument else {
        return Err(bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type \
             expression ({{$type: 'timestamp/date'}}).",
            BsonType::of(argument).alias()
        )));
    };
    let mut is_timestamp = None;
    for (name, value) in options.iter() {
        if name != "$type" {
            return Err(bad_value(format!("Unrecognized $currentDate option: {name}")));
        }
        is_timestamp = match value.as_str() {
            Some("timestamp") => Some(true),
            Some("date") => Some(false),
            Some(_) | None => None,
        };
    }
    match is_timestamp {
        Some(is_timestamp) => Ok(Modifier::CurrentDate { is_timestamp }),
        None => Err(bad_value(
            "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: \
             {field : {$type: 'date'}}}",
        )),
    }
}

fn bits(argument: &Value) -> Result<Modifier, Failure> {
    let Value::Object(operations) = argument else {
        return Err(bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: \
             {{$bit: {{field: {{and/or/xor: #}}}}",
            BsonType::of(argument).alias()
        )));
    };
    if operations.is_empty() {
        return Err(bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: \
             {and/or/xor: #}}",
        ));
    }
    let mut compiled = Vec::with_capacity(operations.len());
    for (name, operand) in operations.iter() {
        let field = PrintedField(name, operand);
        let operation = match name {
            "and" => BitOperation::And,
            "or" => BitOperation::Or,
            "xor" => BitOperation::Xor,
            _ => {
                return Err(bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is \
                     an unknown operator: {{{field}}}"
                )));
            }
        };
        if !matches!(operand, Value::Int32(_) | Value::Int64(_)) {
            return Err(bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported \
                 here: {{{field}}}",
                BsonType::of(operand).alias()
            )));
        }
        compiled.push((operation, operand.clone()));
    }
    Ok(Modifier::Bits(compiled))
}

fn pop(path: &str, argument: &Value) -> Result<Modifier, Failure> {
    match integer(path, argument).map_err(failed_to_parse)? {
        1 => Ok(Modifier::Pop { is_first: false }),
        -1 => Ok(Modifier::Pop { is_first: true }),
        other => Err(failed_to_parse(format!("$pop expects 1 or -1, found: {other}"))),
    }
}
