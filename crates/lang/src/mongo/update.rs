//! Compiles updates: operators on fields, replacements and, by what the caller gives, pipelines.

mod array_arguments;
mod array_filters;
mod operators;
mod paths;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{Object, Value};
use query::document::update::{Modifiers, Transform, Update};
use query::document::{BsonType, Failure, code};

use super::filter::FilterOptions;

/// Compiles the stages of an update by pipeline.
pub type CompilePipeline<'c> = &'c dyn Fn(&[Value]) -> Result<Arc<dyn Transform>, Failure>;

/// What an update is compiled with.
#[derive(Clone, Copy)]
pub struct UpdateOptions<'c> {
    /// Compiles the filters on elements.
    pub filter: FilterOptions<'c>,
    /// Compiles stages; `None` where there are no pipelines.
    pub compile_pipeline: Option<CompilePipeline<'c>>,
    /// The filters that paths refer to as `$[name]`.
    pub array_filters: &'c [Object],
}

impl<'c> UpdateOptions<'c> {
    /// Options without pipelines and array filters.
    pub fn new(filter: FilterOptions<'c>) -> Self {
        Self { filter, compile_pipeline: None, array_filters: &[] }
    }
}

impl std::fmt::Debug for UpdateOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpdateOptions")
            .field("array_filters", &self.array_filters)
            .finish_non_exhaustive()
    }
}

fn bad_value(message: impl Into<String>) -> Failure {
    Failure::new(code::BAD_VALUE, message)
}

fn failed_to_parse(message: impl Into<String>) -> Failure {
    Failure::new(code::FAILED_TO_PARSE, message)
}

/// Compiles an update: a document or an array of stages.
pub fn compile(update: &Value, options: &UpdateOptions<'_>) -> Result<Update, Failure> {
    if let Value::Array(stages) = update {
        if !options.array_filters.is_empty() {
            let message = "arrayFilters may not be specified for pipeline-syle updates";
            return Err(failed_to_parse(message));
        }
        let Some(compile) = options.compile_pipeline else {
            let message = "updates by pipeline are not supported";
            return Err(Failure::new(code::NOT_SUPPORTED, message));
        };
        return Ok(Update::Pipeline(compile(stages)?));
    }
    let Value::Object(document) = update else {
        let message = "Update argument must be either an object or an array";
        return Err(failed_to_parse(message));
    };
    match is_operators(document) {
        true => compile_operators(document, options).map(Update::Modifiers),
        false => compile_replacement(document, options).map(Update::Replacement),
    }
}

/// Whether an update has operators rather than being a replacement.
pub fn is_operators(update: &Object) -> bool {
    update.iter().next().is_some_and(|(name, _)| name.starts_with('$'))
}

fn compile_replacement(document: &Object, options: &UpdateOptions<'_>) -> Result<Object, Failure> {
    if !options.array_filters.is_empty() {
        let message = "arrayFilters may not be specified for replacement-style updates";
        return Err(failed_to_parse(message));
    }
    if let Some((name, _)) = document.iter().find(|(name, _)| name.starts_with('$')) {
        let message = format!(
            "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an \
             update's replacement document. Consider using an aggregation pipeline with \
             $replaceWith."
        );
        return Err(Failure::new(code::DOLLAR_PREFIXED_FIELD_NAME, message));
    }
    if let Some(id) = document.get("_id") {
        query::document::update::check_id(id)?;
    }
    Ok(document.clone())
}

fn compile_operators(update: &Object, options: &UpdateOptions<'_>) -> Result<Modifiers, Failure> {
    let mut compiler = Compiler { options, modifiers: Modifiers::default(), used: Vec::new() };
    compiler.modifiers.array_filters = array_filters::compile(options)?;
    for (operator, arguments) in update.iter() {
        if !operators::is_known(operator) {
            return Err(failed_to_parse(format!(
                "Unknown modifier: {operator}. Expected a valid update modifier or pipeline-style \
                 update specified as an array"
            )));
        }
        let Value::Object(arguments) = arguments else {
            return Err(failed_to_parse(format!(
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: \
                 {{<field>: ...}}}} not {{{}}}",
                BsonType::of(arguments).alias(),
                query::document::print::PrintedField(operator, arguments)
            )));
        };
        for (path, argument) in arguments.iter() {
            compiler.operator(operator, path, argument)?;
        }
    }
    compiler.check_all_filters_used(update)?;
    Ok(compiler.modifiers)
}

struct Compiler<'c> {
    options: &'c UpdateOptions<'c>,
    modifiers: Modifiers,
    /// The array filters that paths refer to.
    used: Vec<String>,
}
