//! Compiles aggregation pipelines.

use std::sync::Arc;

use model::{Object, Value};
use query::document::code::{FAILED_TO_PARSE, NOT_SUPPORTED, OVERFLOW, TYPE_MISMATCH};
use query::document::pipeline::{Namespace, Pipeline, Stage};
use query::document::update::Transform;
use query::document::{Expression, Failure};

use super::CompileOptions;
use super::filter::{CompileScript, FilterOptions};

mod accumulators;
mod buckets;
mod join;
mod output;
mod rules;
mod shape;
mod sort;

use rules::Place;

pub(crate) use accumulators::{check_method, shares_of};
pub use sort::compile as compile_sort;

/// What a pipeline is compiled with.
#[derive(Clone, Copy)]
pub struct PipelineOptions<'c> {
    /// The variables of the command.
    pub expressions: &'c CompileOptions,
    /// The database of the command, in which stages find other collections.
    pub database: &'c str,
    /// Whether the command names a collection; it may do without for stages that make documents.
    pub has_collection: bool,
    /// Compiles `$where`; `None` where there are no scripts.
    pub compile_script: Option<CompileScript<'c>>,
    /// Where random numbers begin.
    pub seed: u64,
}

impl std::fmt::Debug for PipelineOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PipelineOptions").field("database", &self.database).finish_non_exhaustive()
    }
}

/// Most stages of a pipeline.
const STAGES_MAX: usize = 1000;
/// Most pipelines within one another.
const SUB_PIPELINES_MAX: usize = 20;
/// Most levels of the specifications of all stages together. Each level can nest values by one.
const LEVELS_MAX: usize = 2500;
/// MaxSubPipelineDepthExceeded.
const SUB_PIPELINES_EXCEEDED: i32 = 232;
/// InvalidOptions.
const INVALID_OPTIONS: i32 = 72;

/// Compiles the pipeline of a command.
pub fn compile(stages: &[Value], options: &PipelineOptions<'_>) -> Result<Pipeline, Failure> {
    let compiler = Compiler { options, expressions: options.expressions.clone(), depth: 0 };
    let stages = compiler.stages(stages, Place::Command)?;
    Ok(Pipeline::new(stages))
}

/// Compiles the pipeline of an update, which may only change documents one by one.
pub fn compile_update(
    stages: &[Value],
    options: &PipelineOptions<'_>,
) -> Result<Arc<dyn Transform>, Failure> {
    let compiler = Compiler { options, expressions: options.expressions.clone(), depth: 0 };
    let stages = compiler.stages(stages, Place::Update)?;
    Ok(Arc::new(Pipeline::new(stages)))
}

/// The state of a compilation.
struct Compiler<'c> {
    options: &'c PipelineOptions<'c>,
    /// The variables that are visible here.
    expressions: CompileOptions,
    /// The number of pipelines around this one.
    depth: usize,
}

fn parse_failure(message: impl Into<String>) -> Failure {
    Failure::new(FAILED_TO_PARSE, message)
}

impl Compiler<'_> {
    /// A pipeline within a stage, that sees these variables, too.
    fn sub_pipeline(
        &self,
        stages: &[Value],
        variables: impl IntoIterator<Item = String>,
        place: Place,
    ) -> Result<Pipeline, Failure> {
        let inner = Compiler {
            options: self.options,
            expressions: self.expressions.with_variables(variables),
            depth: self.depth + 1,
        };
        if inner.depth > SUB_PIPELINES_MAX {
            let message = format!(
                "Maximum number of nested sub-pipelines exceeded. Limit is {SUB_PIPELINES_MAX}"
            );
            return Err(Failure::new(SUB_PIPELINES_EXCEEDED, message));
        }
        Ok(Pipeline::new(inner.stages(stages, place)?))
    }

    fn stages(&self, stages: &[Value], place: Place) -> Result<Vec<Stage>, Failure> {
        if stages.len() > STAGES_MAX {
            let message = format!("Pipeline length must be no longer than {STAGES_MAX} stages");
            return Err(parse_failure(message));
        }
        if stages.iter().map(levels).sum::<usize>() > LEVELS_MAX {
            let message = "the stages of a pipeline are nested more deeply than is allowed";
            return Err(Failure::new(OVERFLOW, message));
        }
        rules::check_beginning(stages, place, self.options.has_collection)?;
        let mut compiled = Vec::with_capacity(stages.len());
        for (at, stage) in stages.iter().enumerate() {
            let (name, specification) = name_of(stage)?;
            rules::check_place(name, at, stages.len(), place)?;
            compiled.extend(self.stage(name, specification, place)?);
        }
        join_limits(&mut compiled);
        Ok(compiled)
    }

    fn stage(&self, name: &str, spec: &Value, place: Place) -> Result<Vec<Stage>, Failure> {
        let stage = match name {
            "$match" => self.filter(spec)?,
            "$project" => self.project(spec)?,
            "$addFields" | "$set" => self.add_fields(name, spec)?,
            "$unset" => self.unset(spec)?,
            "$replaceRoot" => self.replace_root(spec)?,
            "$replaceWith" => Stage::ReplaceRoot(Arc::new(self.expression(spec)?)),
            "$redact" => Stage::Redact(Arc::new(self.expression(spec)?)),
            "$limit" => shape::limit(spec)?,
            "$skip" => shape::skip(spec)?,
            "$count" => shape::count(spec)?,
            "$sample" => shape::sample(spec)?,
            "$unwind" => shape::unwind(spec)?,
            "$sort" => Stage::Sort(Arc::new(sort::stage(spec)?)),
            "$group" => self.group(spec)?,
            "$bucket" => return self.bucket(spec),
            "$bucketAuto" => self.bucket_auto(spec)?,
            "$sortByCount" => return self.sort_by_count(spec),
            "$facet" => self.facet(spec)?,
            "$lookup" => self.lookup(spec)?,
            "$graphLookup" => self.graph_lookup(spec)?,
            "$unionWith" => self.union_with(spec)?,
            "$documents" => Stage::Documents(Arc::new(self.expression(spec)?)),
            "$out" => self.out(spec)?,
            "$merge" => self.merge(spec)?,
            _ if rules::is_source(name) => {
                Stage::Source { name: name.to_owned(), specification: spec.clone() }
            }
            _ => return Err(rules::unsupported(name, place)),
        };
        Ok(vec![stage])
    }

    fn expression(&self, value: &Value) -> Result<Expression, Failure> {
        super::expression::compile(value, &self.expressions)
    }

    fn filter_options(&self) -> FilterOptions<'_> {
        FilterOptions {
            expressions: &self.expressions,
            compile_script: self.options.compile_script,
            seed: self.options.seed,
            is_restricted: false,
        }
    }

    fn filter(&self, spec: &Value) -> Result<Stage, Failure> {
        let filter = spec.as_object().ok_or_else(|| {
            Failure::new(15959, "the match filter must be an expression in an object")
        })?;
        let predicate = super::filter::compile(filter, &self.filter_options())?;
        Ok(Stage::Match(Arc::new(predicate)))
    }

    fn facet(&self, spec: &Value) -> Result<Stage, Failure> {
        let facets = spec.as_object().filter(|facets| !facets.is_empty()).ok_or_else(|| {
            let shown = query::document::values::printed(Some(spec));
            let message = format!(
                "the $facet specification must be a non-empty object, but found: $facet: {shown}"
            );
            Failure::new(40169, message)
        })?;
        let mut pipelines = Vec::with_capacity(facets.len());
        for (name, stages) in facets.iter() {
            super::expression::check_field_name(name)?;
            let stages = stages.as_array().ok_or_else(|| {
                let given = query::document::values::type_name(Some(stages));
                let message = format!("arguments to $facet must be arrays, {name} is type {given}");
                Failure::new(40170, message)
            })?;
            if let Some(other) = stages.iter().find(|stage| stage.as_object().is_none()) {
                let given = query::document::values::type_name(Some(other));
                let message = format!(
                    "elements of arrays in $facet spec must be non-empty objects, {name} argument \
                     contained an element of type {given}"
                );
                return Err(Failure::new(40171, message));
            }
            pipelines.push((name.to_owned(), self.sub_pipeline(stages, [], Place::Facet)?));
        }
        Ok(Stage::Facet(Arc::new(query::document::pipeline::Facet { pipelines })))
    }

    /// A collection of the database of the command.
    fn namespace(&self, collection: &str) -> Namespace {
        Namespace { database: self.options.database.to_owned(), collection: collection.to_owned() }
    }
}

/// The name and the specification of a stage.
fn name_of(stage: &Value) -> Result<(&str, &Value), Failure> {
    let Some(stage) = stage.as_object() else {
        let message = "Each element of the 'pipeline' array must be an object";
        return Err(Failure::new(TYPE_MISMATCH, message));
    };
    match (stage.iter().next(), stage.len()) {
        (Some(only), 1) => Ok(only),
        _ => Err(Failure::new(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        )),
    }
}

/// How deeply a value is nested.
fn levels(value: &Value) -> usize {
    if let Some(elements) = value.as_array() {
        return 1 + elements.iter().map(levels).max().unwrap_or(0);
    }
    let fields = value.as_object().map(Object::iter);
    fields.map_or(0, |fields| 1 + fields.map(|(_, field)| levels(field)).max().unwrap_or(0))
}

/// Tells a sort how many documents are wanted.
fn join_limits(stages: &mut [Stage]) {
    for at in 0..stages.len() {
        let (before, after) = stages.split_at_mut(at + 1);
        let Some(Stage::Sort(sort)) = before.last_mut() else { continue };
        let mut skipped = 0_u64;
        for stage in after.iter() {
            if let Stage::Skip(skip) = stage {
                skipped = skipped.saturating_add(*skip);
            } else {
                if let Stage::Limit(limit) = stage {
                    Arc::make_mut(sort).limit = Some(skipped.saturating_add(*limit));
                }
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
