//! `$out` and `$merge`: the documents go to a collection instead of the client.

use std::sync::Arc;

use model::{Object, Value};

use super::{Context, Documents, Given, Namespace, Pipeline};
use crate::document::{Expression, Failure, Scope, Variables};

/// Where documents go.
#[derive(Clone, Debug)]
pub enum Output {
    /// `$out`: they replace a collection.
    Replace(Namespace),
    /// `$merge`: they join those of a collection.
    Merge(MergeOutput),
}

/// `$merge`.
#[derive(Clone, Debug)]
pub struct MergeOutput {
    /// The collection.
    pub into: Namespace,
    /// The fields by which documents are the same; `None` for `_id` and the shard key.
    pub on: Option<Vec<String>>,
    /// The values of `let`, of the new document. Their slots follow those of the command.
    pub values: Vec<Expression>,
    /// What becomes of a document that is there already.
    pub when_matched: WhenMatched,
    /// What becomes of a new one.
    pub when_not_matched: WhenNotMatched,
}

/// What becomes of a document that is there already.
#[derive(Clone, Debug)]
pub enum WhenMatched {
    /// The new one replaces it.
    Replace,
    /// It stays as it is.
    KeepExisting,
    /// It gets the fields of the new one.
    Merge,
    /// The operation fails.
    Fail,
    /// Stages compute its next version.
    Pipeline(Arc<Pipeline>),
}

/// What becomes of a new document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// It is dropped.
    Discard,
    /// The operation fails.
    Fail,
}

impl MergeOutput {
    /// The next version of a document that is there already; `None` if it stays as it is.
    /// [`WhenMatched::Fail`] is the caller's to handle.
    pub fn merged(
        &self,
        existing: &Value,
        new: &Value,
        variables: &Variables,
    ) -> Result<Option<Value>, Failure> {
        match &self.when_matched {
            WhenMatched::KeepExisting | WhenMatched::Fail => Ok(None),
            WhenMatched::Replace => Ok(Some(new.clone())),
            WhenMatched::Merge => {
                let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
                let all: Object = fields(existing).into_iter().chain(fields(new)).collect();
                Ok(Some(Value::Object(all)))
            }
            WhenMatched::Pipeline(pipeline) => {
                let mut inner = variables.clone();
                let scope = Scope::new(new, variables);
                for value in &self.values {
                    inner.slots.push(value.evaluate(&scope)?);
                }
                pipeline.apply_to_one(existing.clone(), &inner).map(Some)
            }
        }
    }
}

/// Takes the documents of `$out` or `$merge`.
pub trait Sink: Send {
    /// Takes some documents.
    fn write(&mut self, documents: Vec<Value>) -> Result<(), Failure>;

    /// Is called after the last document, if nothing failed.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// Documents that are handed over together.
const DOCUMENTS_PER_WRITE: usize = 1000;
const BYTES_PER_WRITE: usize = 1 << 20;

pub(super) fn run(
    output: Arc<Output>,
    source: Box<dyn Documents>,
    context: Context,
) -> Box<dyn Documents> {
    Box::new(Writing { output, source, context })
}

/// Yields no documents.
struct Writing {
    output: Arc<Output>,
    source: Box<dyn Documents>,
    context: Context,
}

impl Documents for Writing {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        let source = std::mem::replace(&mut self.source, Box::new(Given::new(Vec::new())));
        let mut source = source;
        let mut sink = self.context.collections.sink(&self.output, &self.context.variables)?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(document) = source.next()? {
            bytes += crate::budget::bytes_of(&document);
            batch.push(document);
            if batch.len() >= DOCUMENTS_PER_WRITE || bytes >= BYTES_PER_WRITE {
                sink.write(std::mem::take(&mut batch))?;
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            sink.write(batch)?;
        }
        sink.finish()?;
        Ok(None)
    }
}
