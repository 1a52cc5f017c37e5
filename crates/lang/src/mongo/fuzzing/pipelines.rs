//! The promises of pipelines, checked on one input.

use std::sync::Arc;

use model::bson::{self, BsonLimits};
use model::{Date, Value};
use query::document::pipeline::{
    Collections, Context, Documents, Given, Namespace, Output, Request, Sink,
};
use query::document::{Failure, Pipeline, Variables, types};

use super::part_of;
use crate::mongo::CompileOptions;
use crate::mongo::pipeline::{self, PipelineOptions};

/// Most documents that a pipeline is run over, and that are taken from it.
const DOCUMENTS_MAX: usize = 50;
const OUTPUT_MAX: usize = 2000;
/// Most times that a pipeline is asked whether to go on. More is taken for endless.
const TURNS_MAX: u64 = 5000;

/// Reads a document with the fields `pipeline` and `documents`, and runs the one over the others.
/// Panics if a promise is broken: it makes no difference whether the source does what it can, or
/// reads only the fields that are needed. Returns whether the pipeline was run.
pub fn pipelines(input: &[u8]) -> bool {
    let Ok(raw) = bson::check(input, BsonLimits::DOCUMENT) else { return false };
    let Ok(input) = raw.to_object() else { return false };
    let Some(stages) = input.get("pipeline").and_then(Value::as_array) else { return false };
    let documents = input.get("documents").and_then(Value::as_array).unwrap_or_default();
    let documents = documents.iter().filter(|d| d.as_object().is_some());
    let documents: Arc<Vec<Value>> = Arc::new(documents.take(DOCUMENTS_MAX).cloned().collect());
    let expressions = CompileOptions::default();
    let options = PipelineOptions {
        expressions: &expressions,
        database: "db",
        has_collection: true,
        compile_script: None,
        seed: 0,
    };
    let Ok(pipeline) = pipeline::compile(stages, &options) else { return false };
    let collections = Arc::new(SameDocuments(Arc::clone(&documents)));
    let whole = run(&pipeline, documents.to_vec(), &collections);
    let split = pipeline.split();
    let variables = variables();
    let text = format!("{pipeline:?}").to_lowercase();
    // Random numbers are not the same again.
    let is_repeatable = ["rand", "sample"].iter().all(|word| !text.contains(word));
    let source = match requested(&documents, &split.request, &variables) {
        Ok(source) => source,
        Err(_) => return true,
    };
    let source = source.iter().map(|document| part_of(document, &split.request.fields)).collect();
    let part = run(&split.rest, source, &collections);
    if let (Ok(whole), Ok(part), true) = (whole, part, is_repeatable) {
        let (whole, part) = (Value::Array(whole), Value::Array(part));
        assert!(types::identical(&whole, &part), "{whole:?} is not {part:?}");
    }
    true
}

fn variables() -> Variables {
    let mut variables = Variables::at(Date { millis: 0, ticks: 0 });
    let turns = std::sync::atomic::AtomicU64::new(0);
    variables.set_interrupt(move || {
        match turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < TURNS_MAX {
            true => Ok(()),
            false => Err(Failure::new(50, "operation exceeded time limit")),
        }
    });
    variables
}

fn run(
    pipeline: &Pipeline,
    documents: Vec<Value>,
    collections: &Arc<SameDocuments>,
) -> Result<Vec<Value>, Failure> {
    let collections = Arc::clone(collections) as Arc<dyn Collections>;
    let mut context = Context::new(variables(), collections);
    context.stage_bytes_max = 1 << 20;
    let mut output = pipeline.run(Box::new(Given::new(documents)), &context);
    let mut found = Vec::new();
    while let Some(document) = output.next()? {
        found.push(document);
        if found.len() > OUTPUT_MAX {
            return Err(Failure::new(0, "too many documents"));
        }
    }
    Ok(found)
}

/// What a source makes of a request.
fn requested(
    documents: &[Value],
    request: &Request,
    variables: &Variables,
) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for document in documents {
        let is_match = match &request.filter {
            Some(filter) => filter.matches(document, variables)?,
            None => true,
        };
        if is_match {
            let key = request.sort.as_ref().map(|sort| sort.key_of(document)).transpose()?;
            found.push((key, document.clone()));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    let limit = request.limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let skip = usize::try_from(request.skip).unwrap_or(usize::MAX);
    Ok(found.into_iter().map(|(_, document)| document).skip(skip).take(limit).collect())
}

/// Every collection has the same documents.
struct SameDocuments(Arc<Vec<Value>>);

impl Collections for SameDocuments {
    fn open(
        &self,
        _: &Namespace,
        request: &Request,
        variables: &Variables,
    ) -> Result<Box<dyn Documents>, Failure> {
        Ok(Box::new(Given::new(requested(&self.0, request, variables)?)))
    }

    fn sink(&self, _: &Arc<Output>, _: &Variables) -> Result<Box<dyn Sink>, Failure> {
        Ok(Box::new(Nowhere))
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _: Vec<Value>) -> Result<(), Failure> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
