//! Stages that handle one document at a time, and the chain of all.

use std::sync::Arc;

use model::{Object, Value};

use super::redact::redact;
use super::unwind::Unwinding;
use super::{
    AddFields, Context, Documents, Given, Pipeline, Stage, bucket_auto, facet, graph_lookup, group,
    lookup, output, sample, sorter,
};
use crate::document::values::{printed, type_name};
use crate::document::{Expression, Failure, Predicate, Projection, Scope, Variables};

/// The documents that come out of `stages`.
pub(super) fn run(
    stages: &[Stage],
    source: Box<dyn Documents>,
    context: &Context,
) -> Box<dyn Documents> {
    let checked: Box<dyn Documents> =
        Box::new(Checked { source, variables: Arc::clone(&context.variables) });
    stages.iter().fold(checked, |source, stage| append(stage, source, context))
}

fn append(stage: &Stage, source: Box<dyn Documents>, context: &Context) -> Box<dyn Documents> {
    if let Some(step) = Step::of(stage) {
        return Box::new(Each { source, step, variables: Arc::clone(&context.variables) });
    }
    match stage {
        // Done by a step.
        Stage::Match(_)
        | Stage::Project(_)
        | Stage::AddFields(_)
        | Stage::ReplaceRoot(_)
        | Stage::Redact(_) => source,
        Stage::Limit(limit) => Box::new(Limited { source, left: *limit }),
        Stage::Skip(skip) => Box::new(Skipping { source, left: *skip }),
        Stage::Count(name) => Box::new(Counting { source: Some(source), name: name.clone() }),
        Stage::Unwind(unwind) => Box::new(Unwinding::new(Arc::clone(unwind), source)),
        Stage::Group(group) => group::run(Arc::clone(group), source, context.clone()),
        Stage::Sort(sort) => sorter::run(Arc::clone(sort), source, context.clone()),
        Stage::Lookup(lookup) => lookup::run(Arc::clone(lookup), source, context.clone()),
        Stage::GraphLookup(lookup) => {
            graph_lookup::run(Arc::clone(lookup), source, context.clone())
        }
        Stage::UnionWith { from, pipeline } => Box::new(Union {
            first: Some(source),
            second: None,
            from: from.clone(),
            pipeline: Arc::clone(pipeline),
            context: context.clone(),
        }),
        Stage::Facet(facet) => facet::run(Arc::clone(facet), source, context.clone()),
        Stage::BucketAuto(buckets) => {
            bucket_auto::run(Arc::clone(buckets), source, context.clone())
        }
        Stage::Sample(size) => sample::run(*size, source, context.clone()),
        Stage::Output(output) => output::run(Arc::clone(output), source, context.clone()),
        Stage::Documents(array) => Box::new(Made {
            array: Arc::clone(array),
            variables: Arc::clone(&context.variables),
            made: None,
        }),
        // The caller's source is what this stage makes.
        Stage::Source { .. } => source,
    }
}

/// Asks the caller before each document whether to go on.
struct Checked {
    source: Box<dyn Documents>,
    variables: Arc<Variables>,
}

impl Documents for Checked {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        self.variables.check_interrupt()?;
        self.source.next()
    }
}

/// What is done to each document; `None` drops it.
enum Step {
    Match(Arc<Predicate>),
    Project(Arc<Projection>),
    AddFields(Arc<AddFields>),
    ReplaceRoot(Arc<Expression>),
    Redact(Arc<Expression>),
}

impl Step {
    /// What a stage does to each document, if it handles one at a time.
    fn of(stage: &Stage) -> Option<Self> {
        match Some(stage) {
            Some(Stage::Match(predicate)) => Some(Step::Match(Arc::clone(predicate))),
            Some(Stage::Project(projection)) => Some(Step::Project(Arc::clone(projection))),
            Some(Stage::AddFields(fields)) => Some(Step::AddFields(Arc::clone(fields))),
            Some(Stage::ReplaceRoot(root)) => Some(Step::ReplaceRoot(Arc::clone(root))),
            Some(Stage::Redact(decision)) => Some(Step::Redact(Arc::clone(decision))),
            _ => None,
        }
    }

    fn apply(&self, document: Value, variables: &Variables) -> Result<Option<Value>, Failure> {
        match self {
            Step::Match(predicate) => {
                Ok(predicate.matches(&document, variables)?.then_some(document))
            }
            Step::Project(projection) => {
                Ok(Some(Value::Object(projection.apply(&document, variables)?)))
            }
            Step::AddFields(fields) => fields.apply(document, variables).map(Some),
            Step::ReplaceRoot(root) => new_root(root, document, variables).map(Some),
            Step::Redact(decision) => redact(decision, document, variables),
        }
    }
}

/// The document that stages which handle one at a time make of one. Others are left out when an
/// update is compiled.
pub(super) fn apply_to_one(
    stages: &[Stage],
    document: Value,
    variables: &Variables,
) -> Result<Value, Failure> {
    stages.iter().try_fold(document, |document, stage| {
        let Some(step) = Step::of(stage) else { return Ok(document) };
        Ok(step.apply(document, variables)?.unwrap_or(Value::Null))
    })
}

struct Each {
    source: Box<dyn Documents>,
    step: Step,
    variables: Arc<Variables>,
}

impl Documents for Each {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        while let Some(document) = self.source.next()? {
            let kept = self.step.apply(document, &self.variables)?;
            if kept.is_some() {
                return Ok(kept);
            }
        }
        Ok(None)
    }
}

/// The document that an expression makes of another.
pub(super) fn new_root(
    root: &Expression,
    document: Value,
    variables: &Variables,
) -> Result<Value, Failure> {
    let value = root.evaluate(&Scope::new(&document, variables))?;
    match value {
        Some(Value::Object(_)) => Ok(value.unwrap_or(Value::Null)),
        other => {
            let (shown, given) = (printed(other.as_ref()), type_name(other.as_ref()));
            let input = printed(Some(&document));
            let message = format!(
                "'newRoot' expression  must evaluate to an object, but resulting value was: \
                 {shown}. Type of resulting value: '{given}'. Input document: {input}"
            );
            Err(Failure::new(40228, message))
        }
    }
}

struct Limited {
    source: Box<dyn Documents>,
    left: u64,
}

impl Documents for Limited {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        // What comes before is not asked for more than is needed.
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.source.next()
    }
}

struct Skipping {
    source: Box<dyn Documents>,
    left: u64,
}

impl Documents for Skipping {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        while self.left > 0 {
            self.left -= 1;
            if self.source.next()?.is_none() {
                self.left = 0;
            }
        }
        self.source.next()
    }
}

struct Counting {
    source: Option<Box<dyn Documents>>,
    name: String,
}

impl Documents for Counting {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        let Some(mut source) = self.source.take() else { return Ok(None) };
        let mut count = 0_i64;
        while source.next()?.is_some() {
            count += 1;
        }
        // Of no documents there is no count, either.
        let count = i32::try_from(count).map_or(Value::Int64(count), Value::Int32);
        let is_empty = matches!(count, Value::Int32(0));
        Ok((!is_empty).then(|| Value::Object(Object::from_iter([(self.name.clone(), count)]))))
    }
}

struct Union {
    first: Option<Box<dyn Documents>>,
    second: Option<Box<dyn Documents>>,
    from: Option<super::Namespace>,
    pipeline: Arc<Pipeline>,
    context: Context,
}

impl Documents for Union {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        if let Some(first) = &mut self.first {
            let document = first.next()?;
            if document.is_some() {
                return Ok(document);
            }
            self.first = None;
            self.second = Some(open(self.from.as_ref(), &self.pipeline, &self.context)?);
        }
        self.second.as_mut().map_or(Ok(None), |second| second.next())
    }
}

/// The documents that a pipeline makes of those of another collection.
pub(super) fn open(
    from: Option<&super::Namespace>,
    pipeline: &Pipeline,
    context: &Context,
) -> Result<Box<dyn Documents>, Failure> {
    let Some(from) = from else {
        return Ok(pipeline.run(Box::new(Given::new(Vec::new())), context));
    };
    let split = pipeline.split();
    let source = context.collections.open(from, &split.request, &context.variables)?;
    Ok(split.rest.run(source, context))
}

/// `$documents`.
struct Made {
    array: Arc<Expression>,
    variables: Arc<Variables>,
    made: Option<std::vec::IntoIter<Value>>,
}

impl Documents for Made {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        if let Some(made) = &mut self.made {
            return Ok(made.next());
        }
        let nothing = Value::Object(Object::new());
        let array = self.array.evaluate(&Scope::new(&nothing, &self.variables))?;
        let Some(Value::Array(elements)) = array else {
            let given = type_name(array.as_ref());
            let message = format!("an array is expected, found: {given}");
            return Err(Failure::new(5858203, message));
        };
        if elements.iter().any(|element| element.as_object().is_none()) {
            let message = "an array of objects is expected by $documents";
            return Err(Failure::new(40228, message));
        }
        self.made = Some(elements.into_iter());
        self.next()
    }
}
