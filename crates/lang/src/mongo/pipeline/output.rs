//! `$out` and `$merge`.

use std::sync::Arc;

use model::Value;
use query::document::Failure;
use query::document::pipeline::{
    MergeOutput, Namespace, Output, Stage, WhenMatched, WhenNotMatched,
};
use query::document::values::type_name;

use super::rules::Place;
use super::{Compiler, TYPE_MISMATCH};
use crate::mongo::field_names::path_parts;
use query::document::code::BAD_VALUE;

/// InvalidNamespace.
const INVALID_NAMESPACE: i32 = 73;

impl Compiler<'_> {
    /// A collection, by its name or by that of its database, too.
    fn target(&self, stage: &str, value: &Value) -> Result<Option<Namespace>, Failure> {
        let target = match (value.as_str(), value.as_object()) {
            (Some(name), _) => self.namespace(name),
            (None, Some(fields)) => {
                for (name, part) in fields.iter() {
                    if !["db", "coll"].contains(&name) {
                        let message = format!("BSON field '{stage}.{name}' is an unknown field.");
                        return Err(Failure::new(40415, message));
                    }
                    if part.as_str().is_none() {
                        let given = type_name(Some(part));
                        let message = format!(
                            "BSON field '{stage}.{name}' is the wrong type '{given}', expected \
                             type 'string'"
                        );
                        return Err(Failure::new(TYPE_MISMATCH, message));
                    }
                }
                let part = |name| fields.get(name).and_then(Value::as_str);
                let Some(collection) = part("coll") else {
                    let message =
                        format!("BSON field '{stage}.coll' is missing but a required field");
                    return Err(Failure::new(40414, message));
                };
                let database = part("db").unwrap_or(self.options.database);
                Namespace { database: database.to_owned(), collection: collection.to_owned() }
            }
            (None, None) => return Ok(None),
        };
        if target.collection.is_empty() || target.collection.contains(['$', '\0']) {
            let shown = format!("{}.{}", target.database, target.collection);
            let message = format!("Invalid {stage} target namespace, {shown}");
            return Err(Failure::new(INVALID_NAMESPACE, message));
        }
        if ["admin", "config", "local"].contains(&target.database.as_str()) {
            let (code, database) = (if stage == "$out" { 31321 } else { 31320 }, &target.database);
            let message = format!("Can't {stage} to internal database: {database}");
            return Err(Failure::new(code, message));
        }
        if stage == "$out" && target.collection.starts_with("system.") {
            let message = format!("Can't $out to special collection: {}", target.collection);
            return Err(Failure::new(17385, message));
        }
        Ok(Some(target))
    }

    pub(super) fn out(&self, spec: &Value) -> Result<Stage, Failure> {
        let target = self.target("$out", spec)?.ok_or_else(|| {
            let given = type_name(Some(spec));
            let message =
                format!("$out only supports a string or object argument, but found {given}");
            Failure::new(16990, message)
        })?;
        Ok(Stage::Output(Arc::new(Output::Replace(target))))
    }

    pub(super) fn merge(&self, spec: &Value) -> Result<Stage, Failure> {
        let plain = |into| MergeOutput {
            into,
            on: None,
            values: Vec::new(),
            when_matched: WhenMatched::Merge,
            when_not_matched: WhenNotMatched::Insert,
        };
        let Some(fields) = spec.as_object() else {
            let into = match spec.as_str() {
                Some(_) => self.target("$merge", spec)?,
                None => None,
            };
            let into = into.ok_or_else(|| {
                let given = type_name(Some(spec));
                let message =
                    format!("$merge only supports a string or object argument, not {given}");
                Failure::new(51182, message)
            })?;
            return Ok(Stage::Output(Arc::new(Output::Merge(plain(into)))));
        };
        let (mut into, mut on, mut variables) = (None, None, None);
        let (mut matched, mut not_matched) = (None, WhenNotMatched::Insert);
        for (name, value) in fields.iter() {
            match name {
                "into" => {
                    into = Some(self.target("$merge", value)?.ok_or_else(|| {
                        let given = type_name(Some(value));
                        let message = format!(
                            "$merge 'into' field  must be either a string or an object, but found \
                             {given}"
                        );
                        Failure::new(51178, message)
                    })?);
                }
                "on" => on = Some(fields_of(value)?),
                "let" => {
                    variables = Some(value.as_object().ok_or_else(|| {
                        let given = type_name(Some(value));
                        let message = format!(
                            "BSON field '$merge.let' is the wrong type '{given}', expected type \
                             'object'"
                        );
                        Failure::new(TYPE_MISMATCH, message)
                    })?);
                }
                "whenMatched" => matched = Some(value),
                "whenNotMatched" => not_matched = when_not_matched(value)?,
                _ => {
                    let message = format!("BSON field '$merge.{name}' is an unknown field.");
                    return Err(Failure::new(40415, message));
                }
            }
        }
        let into = into.ok_or_else(|| {
            Failure::new(40414, "BSON field '$merge.into' is missing but a required field")
        })?;
        let mut output = MergeOutput { on, when_not_matched: not_matched, ..plain(into) };
        let stages = matched.and_then(Value::as_array);
        match (stages, matched) {
            (Some(stages), _) => {
                let (mut names, mut values) = self.variables(variables)?;
                if variables.is_none_or(|variables| variables.get("new").is_none()) {
                    names.push("new".to_owned());
                    values.push(self.expression(&Value::from("$$ROOT"))?);
                }
                let pipeline = self.sub_pipeline(stages, names, Place::Update)?;
                output.values = values;
                output.when_matched = WhenMatched::Pipeline(Arc::new(pipeline));
            }
            (None, Some(mode)) => output.when_matched = when_matched(mode)?,
            (None, None) => {}
        }
        if stages.is_none() && variables.is_some() {
            let message = "Cannot use 'let' variables with this 'whenMatched' mode";
            return Err(Failure::new(51199, message));
        }
        check_modes(&output)?;
        Ok(Stage::Output(Arc::new(Output::Merge(output))))
    }
}

fn fields_of(value: &Value) -> Result<Vec<String>, Failure> {
    let paths = match (value.as_str(), value.as_array()) {
        (Some(_), _) => std::slice::from_ref(value),
        (None, Some([])) => {
            let message = "If explicitly specifying $merge 'on', must include at least one field";
            return Err(Failure::new(51187, message));
        }
        (None, Some(paths)) => paths,
        (None, None) => {
            let given = type_name(Some(value));
            let message = format!(
                "$merge 'on' field  must be either a string or an array of strings, but found {given}"
            );
            return Err(Failure::new(51186, message));
        }
    };
    let mut fields: Vec<String> = Vec::with_capacity(paths.len());
    for path in paths {
        let path = path.as_str().ok_or_else(|| {
            let given = type_name(Some(path));
            let message = format!("$merge 'on' array elements must be strings, but found {given}");
            Failure::new(51134, message)
        })?;
        path_parts(path)?;
        if fields.iter().any(|field| field == path) {
            return Err(Failure::new(31465, format!("Found a duplicate field '{path}'")));
        }
        fields.push(path.to_owned());
    }
    Ok(fields)
}

fn unknown_mode(field: &str, value: &Value) -> Failure {
    let shown = value.as_str().map_or_else(|| type_name(Some(value)).to_owned(), str::to_owned);
    let message =
        format!("Enumeration value '{shown}' for field '$merge.{field}' is not a valid value.");
    Failure::new(BAD_VALUE, message)
}

fn when_matched(value: &Value) -> Result<WhenMatched, Failure> {
    Ok(match value.as_str() {
        Some("replace") => WhenMatched::Replace,
        Some("keepExisting") => WhenMatched::KeepExisting,
        Some("merge") => WhenMatched::Merge,
        Some("fail") => WhenMatched::Fail,
        Some(_) => return Err(unknown_mode("whenMatched", value)),
        None => {
            let given = type_name(Some(value));
            let message = format!(
                "$merge 'whenMatched' field  must be either a string or an array, but found {given}"
            );
            return Err(Failure::new(51191, message));
        }
    })
}

fn when_not_matched(value: &Value) -> Result<WhenNotMatched, Failure> {
    match value.as_str() {
        Some("insert") => Ok(WhenNotMatched::Insert),
        Some("discard") => Ok(WhenNotMatched::Discard),
        Some("fail") => Ok(WhenNotMatched::Fail),
        _ => Err(unknown_mode("whenNotMatched", value)),
    }
}

/// Checks that both modes go together.
fn check_modes(output: &MergeOutput) -> Result<(), Failure> {
    let matched = match output.when_matched {
        WhenMatched::KeepExisting => "keepExisting",
        WhenMatched::Fail => "fail",
        WhenMatched::Replace | WhenMatched::Merge | WhenMatched::Pipeline(_) => return Ok(()),
    };
    let not_matched = match output.when_not_matched {
        WhenNotMatched::Insert => return Ok(()),
        WhenNotMatched::Discard => "discard",
        WhenNotMatched::Fail => "fail",
    };
    let message = format!(
        "Combination of $merge modes 'whenMatched: {matched}' and 'whenNotMatched: {not_matched}' \
         is not supported"
    );
    Err(Failure::new(51189, message))
}
