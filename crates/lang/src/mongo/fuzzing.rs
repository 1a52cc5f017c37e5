//! The promises of the compilers and operators, checked on one input: a fuzz target.

mod pipelines;

use std::sync::Arc;

use model::bson::{self, BsonLimits};
use model::json::FieldMask;
use model::{Date, Object, Value};
use query::document::update::encoded_bytes;
use query::document::{UpdateContext, Variables, types};

use super::filter::{self, FilterOptions};
use super::find::sort_columns;
use super::projection::{self, ProjectionOptions, Rules};
use super::update::{self, UpdateOptions};
use super::{CompileOptions, upsert};

pub use pipelines::pipelines;

/// Reads a document with the fields `filter`, `projection`, `update`, `arrayFilters`, `sort` and
/// `documents`; compiles what it has, and applies that to the documents. Panics if a promise is
/// broken: what is compiled twice does the same, what a filter or projection does not ask for does
/// not matter to it, and the result of an update is a document with its `_id`. Returns how many parts of
/// the input were applied to documents.
pub fn documents(input: &[u8]) -> usize {
    let Ok(raw) = bson::check(input, BsonLimits::DOCUMENT) else { return 0 };
    let Ok(input) = raw.to_object() else { return 0 };
    let documents = input.get("documents").and_then(Value::as_array).unwrap_or_default();
    let documents: Vec<&Value> = documents.iter().filter(|d| d.as_object().is_some()).collect();
    let expressions = CompileOptions::default();
    let options = FilterOptions::new(&expressions);
    let variables = Variables::at(Date { millis: 0, ticks: 0 });
    let empty = Object::new();
    let filter_text = input.get("filter").and_then(Value::as_object).unwrap_or(&empty);
    let Ok(filter) = filter::compile(filter_text, &options) else { return 0 };
    let mut applied = 1;
    let filter = Arc::new(filter);
    let mut mask = FieldMask::NOTHING;
    filter.require(&mut mask);
    // Random numbers and expressions on the whole document are not the same again.
    let is_repeatable = !format!("{filter:?}").contains("Sample");
    for document in &documents {
        let is_match = filter.matches(document, &variables);
        if is_repeatable {
            assert_eq!(filter.matches(&part_of(document, &mask), &variables), is_match);
            let position = filter.matched_position(document, &variables);
            assert_eq!(position.map(|position| position.is_some()), is_match);
        }
    }
    if let Some(sort) = input.get("sort").and_then(Value::as_object) {
        drop(sort_columns(sort));
    }
    if let Some(projection) = input.get("projection").and_then(Value::as_object) {
        for rules in [Rules::Find(Some(&filter)), Rules::Aggregate] {
            applied +=
                project(projection, &ProjectionOptions { rules, filter: options }, &documents);
        }
    }
    if let Some(update) = input.get("update") {
        let filters = input.get("arrayFilters").and_then(Value::as_array).unwrap_or_default();
        let filters: Vec<Object> =
            filters.iter().filter_map(|filter| filter.as_object().cloned()).collect();
        let options = UpdateOptions { array_filters: &filters, ..UpdateOptions::new(options) };
        let Ok(update) = update::compile(update, &options) else { return applied };
        applied += 1;
        for document in &documents {
            let position = filter.matched_position(document, &variables).ok().flatten().flatten();
            apply(&update, document, &UpdateContext::new(&variables, position));
        }
        let generate_id = || Value::Int32(0);
        if let Ok(inserted) = upsert::new_document(&filter, &update, &variables, generate_id) {
            check_document(&inserted);
        }
    }
    applied
}

/// The fields of a document that a mask names, as they are read from storage.
fn part_of(document: &Value, mask: &FieldMask) -> Value {
    let mut bytes = Vec::new();
    let written = document.as_object().map(|object| bson::write(object, &mut bytes));
    match written {
        Some(Ok(())) => bson::read_part(&bytes, mask).unwrap_or_else(|_| document.clone()),
        Some(Err(_)) | None => document.clone(),
    }
}

fn project(projection: &Object, options: &ProjectionOptions<'_>, documents: &[&Value]) -> usize {
    let Ok(projection) = projection::compile(projection, options) else { return 0 };
    let variables = Variables::at(Date { millis: 0, ticks: 0 });
    let mut mask = FieldMask::NOTHING;
    projection.require(&mut mask);
    for document in documents {
        let whole = projection.apply(document, &variables);
        let part = projection.apply(&part_of(document, &mask), &variables);
        // Random numbers are not the same again.
        let is_repeatable = !format!("{projection:?}").to_lowercase().contains("rand");
        if let (Ok(whole), Ok(part), true) = (whole, part, is_repeatable) {
            let (whole, part) = (Value::Object(whole), Value::Object(part));
            assert!(types::identical(&whole, &part), "{whole:?} is not {part:?}");
        }
    }
    1
}

fn apply(update: &query::document::Update, document: &Value, context: &UpdateContext<'_>) {
    let Some(document) = document.as_object() else { return };
    let Ok(Some(next)) = update.apply(document, context) else { return };
    check_document(&next);
    if let (Some(old), Some(new)) = (document.get("_id"), next.get("_id")) {
        assert!(types::equal(old, new), "the _id has changed");
    }
    let is_same = types::identical(&Value::Object(next), &Value::Object(document.clone()));
    assert!(!is_same, "an update that changes nothing says that it does");
}

/// A document can be written, and is as long as was calculated.
fn check_document(document: &Object) {
    let mut bytes = Vec::new();
    if bson::write(document, &mut bytes).is_ok() {
        assert_eq!(bytes.len(), encoded_bytes(document), "{document:?}");
        assert!(bson::check(&bytes, BsonLimits::DOCUMENT).is_ok(), "{document:?}");
    }
}
