//! Stages that read other collections.

use std::sync::Arc;

use model::{Object, Value};
use query::document::pipeline::{Equality, GraphLookup, Lookup, Namespace, Pipeline, Stage};
use query::document::types::{is_number, to_f64};
use query::document::values::{printed, type_name};
use query::document::{Expression, Failure, FieldPath};

use super::rules::Place;
use super::{Compiler, name_of, parse_failure};
use crate::mongo::expression::{check_variable_to_bind, field_path_names};
use crate::mongo::field_names::path_parts;
use crate::mongo::integers::integer;

/// The path of a field as a filter follows it.
fn filter_path(text: &str) -> Result<FieldPath, Failure> {
    path_parts(text)?;
    Ok(FieldPath::parse(text))
}

impl Compiler<'_> {
    /// The collection in a `from` argument.
    fn from(&self, stage: &str, value: &Value) -> Result<Namespace, Failure> {
        if let Some(name) = value.as_str() {
            return Ok(self.namespace(name));
        }
        let Some(fields) = value.as_object() else {
            let given = type_name(Some(value));
            let message = format!("{stage} 'from' field must be a string, but found {given}");
            return Err(parse_failure(message));
        };
        let part = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let (database, collection) = (part("db"), part("coll"));
        if database == self.options.database || ["config", "local"].contains(&database) {
            return Ok(Namespace {
                database: database.to_owned(),
                collection: collection.to_owned(),
            });
        }
        let message = format!(
            "{stage} with syntax {{from: {{db:<>, coll:<>}},..}} is not supported for db: \
             {database} and coll: {collection}"
        );
        Err(parse_failure(message))
    }

    pub(super) fn lookup(&self, spec: &Value) -> Result<Stage, Failure> {
        let fields = spec
            .as_object()
            .ok_or_else(|| parse_failure("the $lookup specification must be an Object"))?;
        let (mut from, mut target, mut local, mut foreign) = (None, "", "", "");
        let (mut stages, mut variables) = (None, None);
        for (name, value) in fields.iter() {
            match name {
                "pipeline" => stages = Some(pipeline_of(value)?),
                "let" => {
                    variables = Some(value.as_object().ok_or_else(|| {
                        let (shown, given) = (printed(Some(value)), type_name(Some(value)));
                        parse_failure(format!(
                            "$lookup argument 'let: {shown}' must be an object, is type {given}"
                        ))
                    })?);
                }
                "from" => from = Some(self.from("$lookup", value)?),
                "as" | "localField" | "foreignField" => {
                    let text = value.as_str().ok_or_else(|| {
                        let (shown, given) = (printed(Some(value)), type_name(Some(value)));
                        parse_failure(format!(
                            "$lookup argument '{name}' must be a string, found {name}: {shown}: \
                             {given}"
                        ))
                    })?;
                    match name {
                        "as" => target = text,
                        "localField" => local = text,
                        _ => foreign = text,
                    }
                }
                _ => return Err(parse_failure(format!("unknown argument to $lookup: {name}"))),
            }
        }
        let makes_documents = stages.is_some_and(begins_with_documents);
        if from.is_none() && stages.is_none() {
            return Err(parse_failure("must specify 'pipeline' when 'from' is empty"));
        }
        if from.is_none() && !makes_documents {
            return Err(parse_failure(
                "$lookup stage without explicit collection must have a pipeline with $documents \
                 as first stage",
            ));
        }
        if target.is_empty() {
            return Err(parse_failure("must specify 'as' field for a $lookup"));
        }
        let equality = match (local.is_empty(), foreign.is_empty(), stages.is_some()) {
            (false, false, _) => Some(Equality {
                local: field_path_names(local, "")?,
                foreign: filter_path(foreign)?,
            }),
            (true, true, true) => None,
            (_, _, true) => {
                return Err(parse_failure(
                    "$lookup requires both or neither of 'localField' and 'foreignField' to be \
                     specified",
                ));
            }
            (_, _, false) => {
                return Err(parse_failure(
                    "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to \
                     be specified",
                ));
            }
        };
        if variables.is_some() && stages.is_none() {
            return Err(parse_failure(
                "$lookup with a 'let' argument must also specify 'pipeline'",
            ));
        }
        let (names, values) = self.variables(variables)?;
        let stages = stages.unwrap_or_default();
        let is_dependent = |stage: &Value| uses(stage, &names);
        let independent_stages = stages.iter().position(is_dependent).unwrap_or(stages.len());
        let condition = match (&equality, stages.get(independent_stages)) {
            (None, Some(stage)) => self.condition(stage, &names)?,
            _ => None,
        };
        let pipeline = self.sub_pipeline(stages, names, Place::Lookup)?;
        Ok(Stage::Lookup(Arc::new(Lookup {
            // Documents of its own need no collection.
            from: from.filter(|_| !makes_documents),
            equality,
            values,
            // A stage may become two, which only makes the part that is done once shorter.
            independent_stages: match pipeline.stages().len() == stages.len() {
                true => independent_stages,
                false if independent_stages == stages.len() => pipeline.stages().len(),
                false => 0,
            },
            condition: condition.filter(|_| pipeline.stages().len() == stages.len()),
            pipeline: Arc::new(pipeline),
            target: field_path_names(target, "")?,
        })))
    }

    /// The field and the variable that a stage compares for equality, if it is a `$match` whose
    /// `$expr` does so, alone or among conditions that all have to hold.
    fn condition(
        &self,
        stage: &Value,
        names: &[String],
    ) -> Result<Option<(Expression, Expression)>, Failure> {
        let test = stage.field("$match").and_then(|filter| filter.field("$expr"));
        let mut tests = vec![test];
        if let Some(all) = test.and_then(|test| test.field("$and")).and_then(Value::as_array) {
            tests.extend(all.iter().map(Some));
        }
        let is_field = |text: &str| text.starts_with('$') && !text.starts_with("$$");
        let is_variable = |text: &str| {
            let variable = text.strip_prefix("$$").and_then(|text| text.split('.').next());
            variable.is_some_and(|variable| names.iter().any(|name| name == variable))
        };
        let inner = self.expressions.with_variables(names.iter().cloned());
        for test in tests.into_iter().flatten() {
            let operands = test.field("$eq").and_then(Value::as_array);
            let Some([Value::String(a), Value::String(b)]) = operands else { continue };
            for (field, variable) in [(a, b), (b, a)] {
                if is_field(field) && is_variable(variable) && !names.iter().any(|n| n == "CURRENT")
                {
                    let compile =
                        |text: &str| crate::mongo::expression::compile(&Value::from(text), &inner);
                    return Ok(Some((compile(field)?, compile(variable)?)));
                }
            }
        }
        Ok(None)
    }

    /// The names and values of `let`.
    pub(super) fn variables(
        &self,
        variables: Option<&Object>,
    ) -> Result<(Vec<String>, Vec<Expression>), Failure> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (name, value) in variables.map(Object::iter).into_iter().flatten() {
            check_variable_to_bind(name)?;
            names.push(name.to_owned());
            values.push(self.expression(value)?);
        }
        Ok((names, values))
    }

    pub(super) fn union_with(&self, spec: &Value) -> Result<Stage, Failure> {
        if let Some(name) = spec.as_str() {
            let from = Some(self.namespace(name));
            return Ok(Stage::UnionWith { from, pipeline: Arc::new(Pipeline::default()) });
        }
        let Some(fields) = spec.as_object() else {
            let given = type_name(Some(spec));
            return Err(parse_failure(format!(
                "the $unionWith stage specification must be an object or string, but found {given}"
            )));
        };
        let (mut from, mut stages) = (None, None);
        for (name, value) in fields.iter() {
            match name {
                "coll" => {
                    from = Some(self.namespace(value.as_str().ok_or_else(|| {
                        let given = type_name(Some(value));
                        let message = format!(
                            "BSON field '$unionWith.coll' is the wrong type '{given}', expected \
                             type 'string'"
                        );
                        Failure::new(super::TYPE_MISMATCH, message)
                    })?));
                }
                "pipeline" => stages = Some(pipeline_of(value)?),
                _ => {
                    let message = format!("BSON field '$unionWith.{name}' is an unknown field.");
                    return Err(Failure::new(40415, message));
                }
            }
        }
        let stages = stages.unwrap_or_default();
        if from.is_none() && !begins_with_documents(stages) {
            return Err(parse_failure(
                "$unionWith stage without explicit collection must have a pipeline with $documents \
                 as first stage",
            ));
        }
        let pipeline = Arc::new(self.sub_pipeline(stages, [], Place::Union)?);
        let from = from.filter(|_| !begins_with_documents(stages));
        Ok(Stage::UnionWith { from, pipeline })
    }

    pub(super) fn graph_lookup(&self, spec: &Value) -> Result<Stage, Failure> {
        let Some(fields) = spec.as_object() else {
            let given = type_name(Some(spec));
            return Err(parse_failure(format!(
                "the $graphLookup stage specification must be an object, but found {given}"
            )));
        };
        let (mut from, mut start, mut filter) = (None, None, None);
        let (mut connect_from, mut connect_to, mut target) = (None, None, None);
        let (mut max_depth, mut depth_field) = (None, None);
        for (name, value) in fields.iter() {
            let text = || {
                value.as_str().ok_or_else(|| {
                    let given = type_name(Some(value));
                    let message = format!("expected string as argument for {name}, found: {given}");
                    Failure::new(40103, message)
                })
            };
            match name {
                "startWith" => start = Some(self.expression(value)?),
                "maxDepth" => max_depth = Some(depth_of(value)?),
                "restrictSearchWithMatch" => {
                    let condition = value.as_object().ok_or_else(|| {
                        let given = type_name(Some(value));
                        let message =
                            format!("restrictSearchWithMatch must be an object, found {given}");
                        Failure::new(40185, message)
                    })?;
                    let compiled =
                        crate::mongo::filter::compile(condition, &self.filter_options())?;
                    filter = Some(Arc::new(compiled));
                }
                "from" => from = Some(self.from("$graphLookup", value)?),
                "as" => target = Some(field_path_names(text()?, "")?),
                "connectFromField" => connect_from = Some(field_path_names(text()?, "")?),
                "connectToField" => connect_to = Some(filter_path(text()?)?),
                "depthField" => depth_field = Some(field_path_names(text()?, "")?),
                _ => {
                    let message = format!("Unknown argument to $graphLookup: {name}");
                    return Err(Failure::new(40104, message));
                }
            }
        }
        let (Some(from), Some(start), Some(connect_from), Some(connect_to), Some(target)) =
            (from, start, connect_from, connect_to, target)
        else {
            let message = "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', \
                           and 'connectToField' to be specified.";
            return Err(Failure::new(40105, message));
        };
        Ok(Stage::GraphLookup(Arc::new(GraphLookup {
            from,
            start,
            connect_from,
            connect_to,
            target,
            max_depth,
            depth_field,
            filter,
        })))
    }
}

fn depth_of(value: &Value) -> Result<u64, Failure> {
    if !is_number(value) {
        let given = type_name(Some(value));
        let message = format!("maxDepth must be numeric, found type: {given}");
        return Err(Failure::new(40100, message));
    }
    if to_f64(value).is_some_and(|depth| depth < 0.0) {
        let shown = printed(Some(value));
        let message = format!("maxDepth requires a nonnegative argument, found: {shown}");
        return Err(Failure::new(40101, message));
    }
    let depth = integer("maxDepth", value).ok().and_then(|depth| u64::try_from(depth).ok());
    depth.ok_or_else(|| {
        let shown = printed(Some(value));
        let message = format!("maxDepth could not be represented as a long long: {shown}");
        Failure::new(40102, message)
    })
}

fn pipeline_of(value: &Value) -> Result<&[Value], Failure> {
    value.as_array().ok_or_else(|| {
        let message = "A pipeline must be an array of objects";
        Failure::new(super::TYPE_MISMATCH, message)
    })
}

fn begins_with_documents(stages: &[Value]) -> bool {
    let first = stages.first().and_then(|stage| name_of(stage).ok());
    first.is_some_and(|(name, _)| name == "$documents")
}

/// Whether a variable with one of these names is used somewhere in a value. Texts that only look
/// like it count as well.
fn uses(value: &Value, names: &[String]) -> bool {
    if let Some(text) = value.as_str() {
        let variable = text.strip_prefix("$$").map(|text| text.split('.').next().unwrap_or(text));
        return variable.is_some_and(|variable| names.iter().any(|name| name == variable))
            // Bound as `CURRENT`, a variable is used by every path.
            || text.starts_with('$') && names.iter().any(|name| name == "CURRENT");
    }
    if let Some(elements) = value.as_array() {
        return elements.iter().any(|element| uses(element, names));
    }
    value.as_object().is_some_and(|object| object.iter().any(|(_, field)| uses(field, names)))
}
