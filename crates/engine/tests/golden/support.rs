//! The golden files, and containers that hold their items.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Container;
use engine::item::{NoSystemProperties, SYSTEM_PROPERTIES};
use engine::ops::{ItemOp, Row};
use golden::{Case, Golden, Setup};
use lang::nosql::Environment;
use model::{PartitionKeyDefinition, PropertyPath, Value, json, limits};
use query::Plan;
use query::fulltext::Language;
use query::functions::spatial::Geospatial;
use query::vector::VectorMetric;
use testkit::harness::{Harness, body, spec_with_paths, test_context};

pub(crate) fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), limits::ITEM_DEPTH_MAX).expect(text).value
}

pub(crate) fn files() -> Vec<Golden> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/nosql");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the golden files")
        .map(|entry| entry.expect("a file").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| Golden::read(path).expect("a golden file")).collect()
}

/// A query of a golden file that compiles.
pub(crate) struct Query<'g> {
    pub(crate) case: &'g Case,
    pub(crate) plan: Plan,
}

pub(crate) fn queries(golden: &Golden) -> Vec<Query<'_>> {
    let cases = golden.cases().iter().filter(|case| case.command == "query");
    let compiled = cases.filter_map(|case| {
        let environment = environment(golden);
        let plan = lang::nosql::compile_in(&environment, &case.text, &parameters(case)).ok()?;
        Some(Query { case, plan })
    });
    compiled.collect()
}

pub(crate) async fn container(h: &Harness, setup: &Setup, ranges: u32) -> Arc<Container> {
    let paths: Vec<&str> = setup.keys.iter().map(String::as_str).collect();
    let c = h.container_with(spec_with_paths("c", &paths), ranges).await;
    for text in &setup.items {
        let key = key_of(&c.spec.partition_key, text);
        let mut ctx = test_context();
        let op = ItemOp::Create { body: body(text) };
        h.engine.write_item(&mut ctx, &c, Some(key), op).await.expect("an item");
    }
    c
}

pub(crate) fn key_of(definition: &PartitionKeyDefinition, text: &str) -> model::PartitionKey {
    definition.extract(&parse(text)).expect("a key")
}

/// Names and values of a query's parameters.
pub(crate) fn parameters(case: &Case) -> Vec<(String, Value)> {
    case.parameters.iter().map(|(name, value)| (name.clone(), parse(value))).collect()
}

/// The environment in which golden queries run.
pub(crate) fn environment(golden: &Golden) -> Environment {
    let geospatial = match golden.setup().is_planar {
        true => Geospatial::Geometry,
        false => Geospatial::Geography,
    };
    let path = |text| PropertyPath::parse(text).expect("a path");
    Environment {
        vectors: vec![
            (path("/vec"), VectorMetric::Cosine),
            (path("/far"), VectorMetric::Euclidean),
        ],
        texts: vec![(path("/texte"), Language::French)],
        now_ticks: 15_973_607_943_002_652,
        seed: 1,
        geospatial,
        computed: golden.setup().computed.clone(),
        ..Environment::default()
    }
}

/// A row without its system properties.
pub(crate) fn line(row: &Row) -> String {
    let mut text = Vec::new();
    match row {
        Row::Item(item) => item.write_json(&NoSystemProperties, &mut text),
        Row::Json(json) => text.extend_from_slice(json),
    }
    json::to_string(&plain(json::parse(&text, limits::JSON_DEPTH_MAX).expect("JSON").value))
}

pub(crate) fn plain(value: Value) -> Value {
    if let Value::Array(elements) = value {
        return Value::Array(elements.into_iter().map(plain).collect());
    }
    let Value::Object(object) = value else { return value };
    let is_own = |name: &str| !SYSTEM_PROPERTIES.contains(&name);
    let own = object.into_iter().filter(|(name, _)| is_own(name));
    Value::Object(own.map(|(name, field)| (name, plain(field))).collect())
}

pub(crate) fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}
