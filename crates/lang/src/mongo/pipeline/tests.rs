use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use model::Date;
use query::document::pipeline::{
    Collections, Context, Documents, Given, Output, Request, Sink, Spill, SpillRun,
};
use query::document::{Scripts, Variables};

use super::*;
use crate::mongo::test_support::bson;

/// Collections in memory. What is written to one goes to `written`.
struct Memory {
    collections: BTreeMap<String, Vec<Value>>,
    opened: Mutex<Vec<String>>,
    written: Arc<Mutex<Vec<Value>>>,
}

impl Memory {
    /// An object whose fields are collections.
    fn of(text: &str) -> Self {
        let Value::Object(collections) = bson(text) else { panic!("{text}") };
        let documents = |value: Value| value.as_array().unwrap().to_vec();
        Self {
            collections: collections.into_iter().map(|(name, v)| (name, documents(v))).collect(),
            opened: Mutex::default(),
            written: Arc::default(),
        }
    }
}

/// Applies a request, as a source does.
fn requested(documents: &[Value], request: &Request, variables: &Variables) -> Vec<Value> {
    let matches = |document: &&Value| {
        request.filter.as_ref().is_none_or(|filter| filter.matches(document, variables).unwrap())
    };
    let mut found: Vec<Value> = documents.iter().filter(matches).cloned().collect();
    if let Some(sort) = &request.sort {
        found.sort_by_cached_key(|document| sort.key_of(document).unwrap());
    }
    let skip = usize::try_from(request.skip).unwrap();
    let limit = request.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
    found.into_iter().skip(skip).take(limit).collect()
}

impl Collections for Memory {
    fn open(
        &self,
        namespace: &Namespace,
        request: &Request,
        variables: &Variables,
    ) -> Result<Box<dyn Documents>, Failure> {
        assert_eq!(namespace.database, "db");
        self.opened
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(namespace.collection.clone());
        let documents = self.collections.get(&namespace.collection);
        let documents = documents.map(Vec::as_slice).unwrap_or_default();
        Ok(Box::new(Given::new(requested(documents, request, variables))))
    }

    fn sink(&self, _: &Arc<Output>, _: &Variables) -> Result<Box<dyn Sink>, Failure> {
        Ok(Box::new(Written(Arc::clone(&self.written))))
    }
}

struct Written(Arc<Mutex<Vec<Value>>>);

impl Sink for Written {
    fn write(&mut self, mut documents: Vec<Value>) -> Result<(), Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(&mut documents);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Runs in memory instead of on disk.
#[derive(Default)]
struct Runs(Arc<Mutex<usize>>);

struct Run(Vec<Vec<u8>>);

impl Spill for Runs {
    fn create(&self) -> Result<Box<dyn SpillRun>, Failure> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Ok(Box::new(Run(Vec::new())))
    }
}

impl SpillRun for Run {
    fn write(&mut self, record: &[u8]) -> Result<u64, Failure> {
        self.0.push(record.to_vec());
        Ok(self.0.len() as u64 - 1)
    }

    fn read(&mut self, offset: u64) -> Result<(Vec<u8>, u64), Failure> {
        Ok((self.0[usize::try_from(offset).unwrap()].clone(), offset + 1))
    }

    fn end(&self) -> u64 {
        self.0.len() as u64
    }
}

fn options(expressions: &CompileOptions) -> PipelineOptions<'_> {
    PipelineOptions {
        expressions,
        database: "db",
        has_collection: true,
        compile_script: None,
        seed: 1,
    }
}

fn compiled(stages: &str) -> Result<Pipeline, Failure> {
    let expressions = CompileOptions::default();
    compile(bson(stages).as_array().unwrap(), &options(&expressions))
}

fn context(memory: Memory) -> Context {
    let variables = Variables::at(Date { millis: 1_600_000_000_000, ticks: 0 });
    Context::new(variables, Arc::new(memory))
}

/// The documents that a pipeline makes of these. What its source can do, the source does.
fn run_in(
    pipeline: &Pipeline,
    documents: &[Value],
    context: &Context,
) -> Result<Vec<Value>, Failure> {
    let split = pipeline.split();
    let source = requested(documents, &split.request, &context.variables);
    let mut output = split.rest.run(Box::new(Given::new(source)), context);
    let mut found = Vec::new();
    while let Some(document) = output.next()? {
        found.push(document);
    }
    Ok(found)
}

const COLLECTIONS: &str = r#"{
    "people": [{"_id":1,"name":"ann","boss":null},{"_id":2,"name":"bob","boss":1},
               {"_id":3,"name":"cid","boss":2},{"_id":4,"name":"dan"}],
    "tags": [{"_id":1,"of":[1,2],"t":"x"},{"_id":2,"of":2,"t":"y"},{"_id":3,"t":"z"},
             {"_id":4,"of":[],"t":"e"}],
    "empty": []
}"#;

/// Checks each line of a file: documents, stages, and what comes out or the failure.
fn check(cases: &str) {
    for line in cases.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (documents, rest) = line.split_once(" | ").unwrap_or_else(|| panic!("{line}"));
        let run = |stages: &str| {
            let documents = bson(documents);
            let pipeline = compiled(stages)?;
            run_in(&pipeline, documents.as_array().unwrap(), &context(Memory::of(COLLECTIONS)))
        };
        if let Some((stages, expected)) = rest.split_once(" -> ") {
            let found = run(stages).map(Value::Array);
            assert_eq!(found, Ok(bson(expected)), "{line}");
            continue;
        }
        let (stages, expected) = rest.split_once(" !! ").unwrap_or_else(|| panic!("{line}"));
        let (code, text) = expected.split_once(' ').unwrap();
        let failure = run(stages).expect_err(line);
        assert_eq!(failure.code, code.parse::<i32>().unwrap(), "{line}: {failure}");
        assert!(failure.message.contains(text), "{line}: {failure}");
    }
}

#[test]
fn stages_have_their_results() {
    check(include_str!("tests/stages.txt"));
}

#[test]
fn groups_have_their_results() {
    check(include_str!("tests/groups.txt"));
}

#[test]
fn joins_have_their_results() {
    check(include_str!("tests/joins.txt"));
}

fn numbers(count: i32) -> Vec<Value> {
    let document = |n: i32| {
        let fields = [
            ("_id", Value::Int32(n)),
            ("k", Value::Int32(n * 7919 % 101)),
            ("v", Value::Double(f64::from(n) / 3.0)),
            ("t", Value::String(format!("text {n}"))),
        ];
        Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    (0..count).map(document).collect()
}

#[test]
fn what_does_not_fit_in_memory_is_spilled() {
    let group = r#"[{"$group":{"_id":"$k","n":{"$count":{}},"sum":{"$sum":"$v"},"avg":{"$avg":"$v"},
        "min":{"$min":"$t"},"max":{"$max":"$t"},"first":{"$first":"$v"},"last":{"$last":"$v"},
        "all":{"$push":"$_id"},"set":{"$addToSet":"$k"},"dev":{"$stdDevPop":"$_id"},
        "three":{"$firstN":{"n":3,"input":"$_id"}},"ends":{"$lastN":{"n":2,"input":"$_id"}},
        "top":{"$topN":{"n":2,"sortBy":{"v":-1},"output":"$_id"}},
        "bottom":{"$bottom":{"sortBy":{"v":-1},"output":"$_id"}},
        "least":{"$minN":{"n":2,"input":"$v"}},"merged":{"$mergeObjects":{"last":"$_id"}},
        "half":{"$median":{"input":"$_id","method":"approximate"}}}},{"$sort":{"_id":1}}]"#;
    let sorts = [
        r#"[{"$sort":{"k":1,"_id":-1}}]"#,
        r#"[{"$unset":"x"},{"$sort":{"t":-1}},{"$skip":5},{"$limit":700}]"#,
        r#"[{"$unset":"x"},{"$facet":{"a":[{"$sort":{"k":-1,"v":1}},{"$limit":9}],"b":[{"$count":"n"}]}}]"#,
        r#"[{"$bucketAuto":{"groupBy":"$v","buckets":7,"output":{"n":{"$sum":1},"l":{"$last":"$_id"}}}}]"#,
        group,
    ];
    let documents = numbers(2000);
    for stages in sorts {
        let pipeline = compiled(stages).unwrap();
        // The source does nothing, so that the stages have to.
        let all = |context: &Context| {
            let mut output = pipeline.run(Box::new(Given::new(documents.clone())), context);
            std::iter::from_fn(|| output.next().transpose()).collect::<Result<Vec<_>, _>>()
        };
        let large = context(Memory::of("{}"));
        let expected = all(&large).unwrap();
        let runs = Runs::default();
        let created = Arc::clone(&runs.0);
        let mut small = context(Memory::of("{}"));
        small.stage_bytes_max = 40_000;
        assert_eq!(all(&small).unwrap_err().code, 292, "{stages}");
        small.spill = Some(Arc::new(runs));
        let found = all(&small).unwrap();
        assert!(*created.lock().unwrap_or_else(PoisonError::into_inner) > 0, "{stages}");
        assert_eq!(found.len(), expected.len(), "{stages}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!(are_close(found, expected), "{found:?}\n{expected:?}");
        }
    }
}

/// Whether two values are equal but for the last digits of doubles.
fn are_close(a: &Value, b: &Value) -> bool {
    if let (Value::Double(a), Value::Double(b)) = (a, b) {
        return (a - b).abs() <= 1e-9 * a.abs().max(1.0);
    }
    if let (Some(a), Some(b)) = (a.as_array(), b.as_array()) {
        return a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_close(a, b));
    }
    match (a.as_object(), b.as_object()) {
        (Some(a), Some(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            a.len() == b.len() && pairs.all(|((n, a), (m, b))| n == m && are_close(a, b))
        }
        _ => a == b,
    }
}

#[test]
fn other_collections_are_read_once() {
    let stages = r#"[
        {"$lookup":{"from":"people","localField":"p","foreignField":"_id","as":"a"}},
        {"$lookup":{"from":"tags","pipeline":[{"$match":{"t":"x"}}],"as":"b"}},
        {"$lookup":{"from":"empty","let":{"p":"$p"},
            "pipeline":[{"$match":{"x":1}},{"$match":{"$expr":{"$eq":["$y","$$p"]}}}],"as":"c"}}]"#;
    let pipeline = compiled(stages).unwrap();
    let memory = Arc::new(Memory::of(COLLECTIONS));
    let mut context = context(Memory::of("{}"));
    context.collections = Arc::clone(&memory) as Arc<dyn Collections>;
    let documents: Vec<Value> =
        (0..50).map(|n| bson(&format!(r#"{{"_id":{n},"p":{n}}}"#))).collect();
    assert_eq!(run_in(&pipeline, &documents, &context).unwrap().len(), 50);
    let opened = memory.opened.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*opened, ["people", "tags", "empty"]);
}

#[test]
fn samples_are_as_large_as_asked_for() {
    let documents = numbers(100);
    let pipeline = compiled(r#"[{"$sample":{"size":10}},{"$sort":{"_id":1}}]"#).unwrap();
    let sample = run_in(&pipeline, &documents, &context(Memory::of("{}"))).unwrap();
    assert_eq!(sample.len(), 10);
    assert!(sample.iter().all(|document| documents.contains(document)));
    assert_ne!(sample, documents[..10]);
    let all = compiled(r#"[{"$sample":{"size":1000}}]"#).unwrap();
    assert_eq!(run_in(&all, &documents, &context(Memory::of("{}"))).unwrap().len(), 100);
}

#[test]
fn what_is_written_goes_to_the_sink() {
    let pipeline = compiled(r#"[{"$project":{"_id":1}},{"$out":"target"}]"#).unwrap();
    let memory = Memory::of("{}");
    let written = Arc::clone(&memory.written);
    assert_eq!(run_in(&pipeline, &numbers(3), &context(memory)).unwrap(), []);
    let written = written.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(Value::Array(written.clone()), bson(r#"[{"_id":0},{"_id":1},{"_id":2}]"#));
    assert!(matches!(pipeline.output().map(Arc::as_ref), Some(Output::Replace(_))));
}

#[test]
fn documents_are_merged_as_the_mode_says() {
    let merged = |matched: &str| {
        let stages = format!(r#"[{{"$merge":{{"into":"t","whenMatched":{matched}}}}}]"#);
        let pipeline = compiled(&stages).unwrap();
        let Some(Output::Merge(output)) = pipeline.output().map(Arc::as_ref) else { panic!() };
        let variables = Variables::at(Date { millis: 0, ticks: 0 });
        let (existing, new) = (bson(r#"{"_id":1,"a":1,"n":1}"#), bson(r#"{"_id":1,"b":2,"n":5}"#));
        output.merged(&existing, &new, &variables).unwrap()
    };
    assert_eq!(merged(r#""replace""#), Some(bson(r#"{"_id":1,"b":2,"n":5}"#)));
    assert_eq!(merged(r#""merge""#), Some(bson(r#"{"_id":1,"a":1,"n":5,"b":2}"#)));
    assert_eq!(merged(r#""keepExisting""#), None);
    let sum = r#"[{"$set":{"n":{"$add":["$n","$$new.n"]}}}]"#;
    assert_eq!(merged(sum), Some(bson(r#"{"_id":1,"a":1,"n":6}"#)));
}

#[test]
fn updates_by_pipeline_change_one_document() {
    let expressions = CompileOptions::default();
    let update = |stages: &str| {
        let stages = bson(stages);
        compile_update(stages.as_array().unwrap(), &options(&expressions))
    };
    let variables = Variables::at(Date { millis: 0, ticks: 0 });
    let Value::Object(document) = bson(r#"{"_id":1,"a":{"b":2},"c":3}"#) else { panic!() };
    let apply =
        |stages| Value::Object(update(stages).unwrap().apply(&document, &variables).unwrap());
    assert_eq!(
        apply(r#"[{"$set":{"a.d":{"$add":["$a.b","$c"]}}},{"$unset":"c"}]"#),
        bson(r#"{"_id":1,"a":{"b":2,"d":5}}"#)
    );
    assert_eq!(apply(r#"[{"$replaceWith":{"x":"$c"}}]"#), bson(r#"{"x":3}"#));
    assert_eq!(update(r#"[{"$match":{}}]"#).unwrap_err().code, 72);
    assert_eq!(update(r#"[{"$foo":{}}]"#).unwrap_err().code, 40324);
}

#[test]
fn scripts_accumulate() {
    struct Concatenates;
    impl Scripts for Concatenates {
        fn call(&self, source: &str, arguments: Vec<Value>) -> Result<Option<Value>, Failure> {
            let texts: Vec<String> =
                arguments.iter().map(|value| value.as_str().unwrap_or("?").to_owned()).collect();
            Ok(Some(Value::String(format!("{source}({})", texts.join(",")))))
        }
    }
    let stages = r#"[{"$group":{"_id":null,"r":{"$accumulator":{"init":"i","accumulate":"a",
        "accumulateArgs":["$x"],"merge":"m","finalize":"f","lang":"js"}}}}]"#;
    let pipeline = compiled(stages).unwrap();
    let documents = bson(r#"[{"x":"1"},{"x":"2"}]"#);
    let mut variables = Variables::at(Date { millis: 0, ticks: 0 });
    let without = Context::new(variables.clone(), Arc::new(Memory::of("{}")));
    assert_eq!(run_in(&pipeline, documents.as_array().unwrap(), &without).unwrap_err().code, 31264);
    variables.set_scripts(Arc::new(Concatenates));
    let context = Context::new(variables, Arc::new(Memory::of("{}")));
    let found = run_in(&pipeline, documents.as_array().unwrap(), &context).unwrap();
    assert_eq!(found, [bson(r#"{"_id":null,"r":"f(a(a(i(),1),2))"}"#)]);
}

#[test]
fn sources_do_what_they_can() {
    let split = |stages: &str| compiled(stages).unwrap().split();
    let stages = r#"[{"$match":{"a":1}},{"$match":{"b":2}},{"$sort":{"c":1}},{"$skip":2},
        {"$limit":5},{"$limit":3},{"$group":{"_id":"$d.e"}}]"#;
    let parts = split(stages);
    assert!(parts.request.filter.is_some() && parts.request.sort.is_some());
    assert_eq!((parts.request.skip, parts.request.limit), (2, Some(3)));
    assert_eq!(parts.rest.stages().len(), 1);
    let fields = format!("{:?}", parts.request.fields);
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| fields.contains(&format!("\"{name}\""))));
    let whole = split(r#"[{"$match":{"a":1}}]"#);
    assert_eq!(whole.request.fields, model::json::FieldMask::All);
    let counted = split(r#"[{"$count":"n"}]"#);
    assert_eq!(counted.request.fields, model::json::FieldMask::NOTHING);
    let faceted = split(r#"[{"$facet":{"x":[{"$group":{"_id":"$a"}}],"y":[{"$limit":1}]}}]"#);
    assert_eq!(faceted.request.fields, model::json::FieldMask::All);
}

#[test]
fn pipelines_have_limits() {
    let many = |count: usize| format!("[{}]", vec![r#"{"$skip":1}"#; count].join(","));
    assert!(compiled(&many(1000)).is_ok());
    assert_eq!(compiled(&many(1001)).unwrap_err().code, 9);
    let nested = (0..21).fold("[]".to_owned(), |inner, _| {
        format!(r#"[{{"$unionWith":{{"coll":"empty","pipeline":{inner}}}}}]"#)
    });
    assert_eq!(compiled(&nested).unwrap_err().code, 232);
    let growing = vec![r#"{"$set":{"a":["$a","$a"]}}"#; 1000].join(",");
    assert_eq!(compiled(&format!("[{growing}]")).unwrap_err().code, 15);
    let long = compiled(&format!("[{}]", vec![r#"{"$set":{"a":1}}"#; 1000].join(","))).unwrap();
    assert_eq!(run_in(&long, &numbers(2), &context(Memory::of("{}"))).unwrap().len(), 2);
}

#[test]
fn a_pipeline_can_be_interrupted() {
    let pipeline = compiled(r#"[{"$group":{"_id":null}}]"#).unwrap();
    let mut variables = Variables::at(Date { millis: 0, ticks: 0 });
    variables.set_interrupt(|| Err(Failure::new(50, "operation exceeded time limit")));
    let context = Context::new(variables, Arc::new(Memory::of("{}")));
    let mut output = pipeline.run(Box::new(Given::new(numbers(2))), &context);
    assert_eq!(output.next().unwrap_err().code, 50);
}
