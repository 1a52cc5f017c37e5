//! Applies filters, updates and pipelines to documents, a line of JSON each: the driver of comparisons with
//! other implementations. A line `{"filter": {}, "documents": []}` is answered with
//! `{"matches": [true]}`, `{"update": {}, "document": {}}` with `{"result": {}}`, which is null if
//! nothing changes, `{"pipeline": [], "documents": []}` with `{"result": []}`, and a failure with `{"failure": {"code": 2, "message": ""}}`.

use std::io::{BufRead, Write};
use std::sync::Arc;

use lang::mongo::CompileOptions;
use lang::mongo::filter::{self, FilterOptions};
use lang::mongo::pipeline::{self, PipelineOptions};
use lang::mongo::update::{self, UpdateOptions};
use model::{Date, Object, Value, json};
use query::document::pipeline::{
    Collections, Context, Documents, Given, Namespace, Output, Request, Sink,
};
use query::document::{Failure, UpdateContext, Variables};

/// Levels of a line.
const DEPTH_MAX: usize = 100;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = answer(&line?).unwrap_or_else(|failure| {
            let failure = Object::from_iter([
                ("code".to_owned(), Value::Int32(failure.code)),
                ("message".to_owned(), Value::from(failure.message)),
            ]);
            object("failure", Value::Object(failure))
        });
        writeln!(out, "{}", json::to_string(&answer))?;
    }
    Ok(())
}

fn object(name: &str, value: Value) -> Value {
    Value::Object(Object::from_iter([(name.to_owned(), value)]))
}

fn answer(line: &str) -> Result<Value, Failure> {
    let invalid = |what: &str| Failure::new(0, format!("the line {what}"));
    let parsed = json::parse(line.as_bytes(), DEPTH_MAX).map_err(|_| invalid("is no JSON"))?;
    let request = narrowed(parsed.value);
    let expressions = CompileOptions::default();
    let options = FilterOptions::new(&expressions);
    let variables = Variables::at(Date { millis: 0, ticks: 0 });
    if let Some(filter) = request.field("filter").and_then(Value::as_object) {
        let filter = filter::compile(filter, &options)?;
        let documents = request.field("documents").and_then(Value::as_array).unwrap_or_default();
        let is_match = |document| filter.matches(document, &variables).map(Value::Bool);
        let matches = documents.iter().map(is_match).collect::<Result<_, _>>()?;
        return Ok(object("matches", Value::Array(matches)));
    }
    if let Some(stages) = request.field("pipeline").and_then(Value::as_array) {
        let documents = request.field("documents").and_then(Value::as_array).unwrap_or_default();
        return Ok(object("result", Value::Array(aggregate(stages, documents)?)));
    }
    let update = request.field("update").ok_or_else(|| invalid("has no update"))?;
    let document = request.field("document").and_then(Value::as_object);
    let document = document.ok_or_else(|| invalid("has no document"))?;
    let filters = request.field("arrayFilters").and_then(Value::as_array).unwrap_or_default();
    let filters: Vec<Object> = filters.iter().filter_map(|f| f.as_object().cloned()).collect();
    let options = UpdateOptions { array_filters: &filters, ..UpdateOptions::new(options) };
    let context = UpdateContext::new(&variables, None);
    let next = update::compile(update, &options)?.apply(document, &context)?;
    Ok(object("result", next.map_or(Value::Null, Value::Object)))
}

fn aggregate(stages: &[Value], documents: &[Value]) -> Result<Vec<Value>, Failure> {
    let expressions = CompileOptions::default();
    let options = PipelineOptions {
        expressions: &expressions,
        database: "db",
        has_collection: true,
        compile_script: None,
        seed: 0,
    };
    let pipeline = pipeline::compile(stages, &options)?;
    let variables = Variables::at(Date { millis: 0, ticks: 0 });
    let context = Context::new(variables, Arc::new(NoCollections));
    let mut output = pipeline.run(Box::new(Given::new(documents.to_vec())), &context);
    let mut found = Vec::new();
    while let Some(document) = output.next()? {
        found.push(document);
    }
    Ok(found)
}

/// There are no other collections.
struct NoCollections;

impl Collections for NoCollections {
    fn open(
        &self,
        _: &Namespace,
        _: &Request,
        _: &Variables,
    ) -> Result<Box<dyn Documents>, Failure> {
        Ok(Box::new(Given::new(Vec::new())))
    }

    fn sink(&self, _: &Arc<Output>, _: &Variables) -> Result<Box<dyn Sink>, Failure> {
        Err(Failure::new(0, "there are no other collections"))
    }
}

/// Whole numbers as drivers send them: int32 if they fit.
fn narrowed(value: Value) -> Value {
    if let Value::Int64(n) = value {
        return i32::try_from(n).map_or(Value::Int64(n), Value::Int32);
    }
    if let Value::Array(elements) = value {
        return Value::Array(elements.into_iter().map(narrowed).collect());
    }
    let Value::Object(object) = value else { return value };
    let fields = object.into_iter().map(|(name, value)| (name, narrowed(value)));
    Value::Object(fields.collect())
}
