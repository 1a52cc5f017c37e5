//! Aggregation pipelines: stages that pull documents from one another.
//!
//! A compiled [`Pipeline`] is run by [`Pipeline::run`] over a source of documents. Stages that keep
//! documents are bounded in memory, and write what is more to a [`Spill`]. Other collections are
//! opened through [`Collections`], which the caller implements.

use std::sync::Arc;

use model::{Object, Value};

use super::update::Transform;
use super::values::type_name;
use super::{Expression, Failure, Predicate, Projection, Variables};

mod bucket_auto;
mod buffer;
mod chain;
mod facet;
mod fields;
mod graph_lookup;
mod group;
mod join;
mod lookup;
mod output;
mod redact;
mod sample;
mod sorter;
mod spill;
mod split;
mod unwind;

pub use bucket_auto::{BucketAuto, Granularity};
pub use facet::Facet;
pub use fields::AddFields;
pub use graph_lookup::GraphLookup;
pub use group::{Group, GroupKey};
pub use lookup::{Equality, Lookup};
pub use output::{MergeOutput, Output, Sink, WhenMatched, WhenNotMatched};
pub use sorter::Sort;
pub use spill::{Spill, SpillRun};
pub use split::{Request, SplitPipeline};
pub use unwind::Unwind;

/// Most bytes that a stage keeps in memory.
pub const STAGE_BYTES_MAX: usize = 100 * 1024 * 1024;

/// Documents, one after the other. Pulling may block.
pub trait Documents: Send {
    /// The next document; `None` after the last.
    fn next(&mut self) -> Result<Option<Value>, Failure>;
}

/// The name of a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    /// The database.
    pub database: String,
    /// The collection.
    pub collection: String,
}

/// The collections that stages read and write besides the one of the command.
pub trait Collections: Send + Sync {
    /// The documents of a collection that pass a request. One that does not exist has none.
    fn open(
        &self,
        namespace: &Namespace,
        request: &Request,
        variables: &Variables,
    ) -> Result<Box<dyn Documents>, Failure>;

    /// What takes the documents of `$out` or `$merge`.
    fn sink(&self, output: &Arc<Output>, variables: &Variables) -> Result<Box<dyn Sink>, Failure>;
}

/// What a pipeline runs with.
#[derive(Clone)]
pub struct Context {
    /// The variables of the command, and of the pipeline around this one.
    pub variables: Arc<Variables>,
    /// The other collections.
    pub collections: Arc<dyn Collections>,
    /// Where stages write what they cannot keep in memory; `None` if they may not.
    pub spill: Option<Arc<dyn Spill>>,
    /// Most bytes that a stage keeps in memory.
    pub stage_bytes_max: usize,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Context {
    /// A context without a place to spill to.
    pub fn new(variables: Variables, collections: Arc<dyn Collections>) -> Self {
        Self {
            variables: Arc::new(variables),
            collections,
            spill: None,
            stage_bytes_max: STAGE_BYTES_MAX,
        }
    }

    /// The same with other variables.
    fn with_variables(&self, variables: Variables) -> Self {
        Self { variables: Arc::new(variables), ..self.clone() }
    }
}

/// A stage of a pipeline.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Keeps the documents that match.
    Match(Arc<Predicate>),
    /// Keeps, drops and computes fields; `$unset` too.
    Project(Arc<Projection>),
    /// Adds fields.
    AddFields(Arc<AddFields>),
    /// Makes groups.
    Group(Arc<Group>),
    /// Sorts.
    Sort(Arc<Sort>),
    /// Ends after some documents.
    Limit(u64),
    /// Leaves out the first documents.
    Skip(u64),
    /// Counts the documents into a field with this name.
    Count(String),
    /// Makes a document of each element of an array.
    Unwind(Arc<Unwind>),
    /// Adds documents of another collection to each document.
    Lookup(Arc<Lookup>),
    /// Adds documents of another collection that are reached in several steps.
    GraphLookup(Arc<GraphLookup>),
    /// Appends the documents of another collection.
    UnionWith {
        /// The collection; `None` if the pipeline has its own documents.
        from: Option<Namespace>,
        /// What becomes of its documents.
        pipeline: Arc<Pipeline>,
    },
    /// Runs several pipelines over the same documents.
    Facet(Arc<Facet>),
    /// Distributes the documents over groups of about equal size.
    BucketAuto(Arc<BucketAuto>),
    /// Takes some documents at random.
    Sample(u64),
    /// Replaces each document by one of its parts.
    ReplaceRoot(Arc<Expression>),
    /// Leaves out parts of documents.
    Redact(Arc<Expression>),
    /// Writes the documents to a collection.
    Output(Arc<Output>),
    /// The elements of an array as documents.
    Documents(Arc<Expression>),
    /// Documents that the caller makes: `$collStats`, `$currentOp` and others.
    Source {
        /// The name of the stage.
        name: String,
        /// Its specification.
        specification: Value,
    },
}

/// A compiled pipeline.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    stages: Vec<Stage>,
}

impl Pipeline {
    /// A pipeline of stages in their order.
    pub fn new(stages: Vec<Stage>) -> Self {
        Self { stages }
    }

    /// Its stages.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The stage that makes documents itself, instead of reading those of the collection.
    pub fn source(&self) -> Option<&Stage> {
        let first = self.stages.first();
        first.filter(|stage| matches!(stage, Stage::Documents(_) | Stage::Source { .. }))
    }

    /// What takes the documents in the end, instead of the caller.
    pub fn output(&self) -> Option<&Arc<Output>> {
        match self.stages.last() {
            Some(Stage::Output(output)) => Some(output),
            _ => None,
        }
    }

    /// The documents that come out when `source` goes in. A leading stage that makes documents
    /// ignores the source, except for those that the caller makes.
    pub fn run(&self, source: Box<dyn Documents>, context: &Context) -> Box<dyn Documents> {
        chain::run(&self.stages, source, context)
    }

    /// The document that the stages of an update make of one.
    pub(crate) fn apply_to_one(
        &self,
        document: Value,
        variables: &Variables,
    ) -> Result<Value, Failure> {
        chain::apply_to_one(&self.stages, document, variables)
    }

    /// The collections that it reads besides the one of the command.
    pub fn for_each_namespace(&self, visit: &mut dyn FnMut(&Namespace)) {
        for stage in &self.stages {
            match stage {
                Stage::Lookup(lookup) => {
                    lookup.from.iter().for_each(&mut *visit);
                    lookup.pipeline.for_each_namespace(visit);
                }
                Stage::UnionWith { from, pipeline } => {
                    from.iter().for_each(&mut *visit);
                    pipeline.for_each_namespace(visit);
                }
                Stage::GraphLookup(lookup) => visit(&lookup.from),
                Stage::Facet(facet) => {
                    facet.pipelines.iter().for_each(|(_, inner)| inner.for_each_namespace(visit));
                }
                Stage::Match(_)
                | Stage::Project(_)
                | Stage::AddFields(_)
                | Stage::Group(_)
                | Stage::Sort(_)
                | Stage::Limit(_)
                | Stage::Skip(_)
                | Stage::Count(_)
                | Stage::Unwind(_)
                | Stage::BucketAuto(_)
                | Stage::Sample(_)
                | Stage::ReplaceRoot(_)
                | Stage::Redact(_)
                | Stage::Output(_)
                | Stage::Documents(_)
                | Stage::Source { .. } => {}
            }
        }
    }
}

impl Transform for Pipeline {
    fn apply(&self, document: &Object, variables: &Variables) -> Result<Object, Failure> {
        let output = self.apply_to_one(Value::Object(document.clone()), variables)?;
        let given = type_name(Some(&output));
        let Value::Object(output) = output else {
            return Err(Failure::new(1, format!("a stage made a value of type {given}")));
        };
        Ok(output)
    }
}

/// Documents that are there already.
#[derive(Debug)]
pub struct Given(std::vec::IntoIter<Value>);

impl Given {
    /// These documents.
    pub fn new(documents: Vec<Value>) -> Self {
        Self(documents.into_iter())
    }
}

impl Documents for Given {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        Ok(self.0.next())
    }
}
