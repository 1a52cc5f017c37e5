//! The document that an update inserts when no document matches its filter.

use std::collections::BTreeMap;

use model::{Object, Value};
use query::algebra::Relation;
use query::document::predicate::ValueTest;
use query::document::update::{check_id, check_limits};
use query::document::{Failure, Predicate, Update, UpdateContext, Variables, code};

use super::field_names::PATH_PARTS_MAX;

/// The new document: what the filter says of it, changed by the update. It gets a generated `_id`
/// unless the filter or the update has one.
pub fn new_document(
    filter: &Predicate,
    update: &Update,
    variables: &Variables,
    generate_id: impl FnOnce() -> Value,
) -> Result<Object, Failure> {
    let mut equalities = BTreeMap::new();
    collect(filter, &mut equalities)?;
    let start = match update {
        Update::Modifiers(_) | Update::Pipeline(_) => expanded(&equalities)?,
        // A replacement has all fields but the `_id`.
        Update::Replacement(_) => {
            equalities.retain(|path, _| *path == "_id");
            expanded(&equalities)?
        }
    };
    let context = UpdateContext { variables, position: None, is_insert: true };
    let mut next = update.apply(&start, &context)?.unwrap_or(start);
    let id = next.remove("_id").unwrap_or_else(generate_id);
    check_id(&id)?;
    let mut document = Object::with_capacity(next.len() + 1);
    document.push_unique("_id".to_owned(), id);
    for (name, value) in next {
        document.push_unique(name, value);
    }
    check_limits(&document)?;
    Ok(document)
}

/// The values of the paths for which only one value can match.
fn collect<'p>(
    filter: &'p Predicate,
    equalities: &mut BTreeMap<&'p str, &'p Value>,
) -> Result<(), Failure> {
    match filter {
        Predicate::And(parts) => parts.iter().try_for_each(|part| collect(part, equalities)),
        Predicate::Or(parts) if parts.len() == 1 => {
            parts.iter().try_for_each(|part| collect(part, equalities))
        }
        Predicate::Field { path, test } => match only_value(test) {
            Some(value) => match equalities.insert(path.as_str(), value) {
                None => Ok(()),
                Some(_) => Err(ambiguous(format!("path '{}' is matched twice", path.as_str()))),
            },
            None => Ok(()),
        },
        Predicate::Or(_)
        | Predicate::Not(_)
        | Predicate::Constant(_)
        | Predicate::Expression(_)
        | Predicate::Script(_)
        | Predicate::Sample { .. }
        | Predicate::Schema(_) => Ok(()),
    }
}

fn ambiguous(reason: String) -> Failure {
    let message = format!("cannot infer query fields to set, {reason}");
    Failure::new(code::NOT_SINGLE_VALUE_FIELD, message)
}

fn only_value(test: &ValueTest) -> Option<&Value> {
    match test {
        ValueTest::Compare { relation: Relation::Equal, operand } => Some(operand),
        ValueTest::In(list) if list.regexes().is_empty() => match list.values() {
            [only] => Some(only),
            _ => None,
        },
        ValueTest::Compare { .. }
        | ValueTest::In(_)
        | ValueTest::Exists
        | ValueTest::Type(_)
        | ValueTest::Regex(_)
        | ValueTest::Mod { .. }
        | ValueTest::Size(_)
        | ValueTest::Bits(_)
        | ValueTest::ElementObject(_)
        | ValueTest::ElementValue(_) => None,
    }
}

/// A document with these values at these paths, in the order of the paths.
fn expanded(equalities: &BTreeMap<&str, &Value>) -> Result<Object, Failure> {
    let mut document = Object::new();
    let mut paths = equalities.keys().peekable();
    while let Some(path) = paths.next() {
        // Whatever begins with a path and a dot follows, with names like `a!` in between.
        let rest = paths.clone().take_while(|later| later.starts_with(path));
        let within = |later: &&&str| later[path.len()..].starts_with('.');
        if let Some(inner) = rest.into_iter().find(within) {
            return Err(ambiguous(format!("both paths '{path}' and '{inner}' are matched")));
        }
    }
    for (path, value) in equalities {
        if path.split('.').count() > PATH_PARTS_MAX {
            return Err(Failure::new(code::OVERFLOW, "FieldPath is too long"));
        }
        let mut place = &mut document;
        let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
        for parent in parents.split('.').filter(|_| path.contains('.')) {
            if place.get(parent).is_none() {
                place.push_unique(parent.to_owned(), Value::Object(Object::new()));
            }
            let Some(inner) = place.get_mut(parent).and_then(Value::as_object_mut) else {
                return Err(ambiguous(format!("path '{path}' is matched twice")));
            };
            place = inner;
        }
        place.push_unique(name.to_owned(), (*value).clone());
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use query::document::print::PrintedObject;

    use super::*;
    use crate::mongo::filter;
    use crate::mongo::test_support::{bson, bson_object, options, variables};
    use crate::mongo::update::{self, UpdateOptions};

    fn inserted(filter: &str, update: &str) -> Result<Object, Failure> {
        let filter = filter::compile(&bson_object(filter), &options())?;
        let update = update::compile(&bson(update), &UpdateOptions::new(options()))?;
        new_document(&filter, &update, &variables(), || Value::from("generated"))
    }

    fn check(filter: &str, update: &str, expected: &str) {
        let inserted = inserted(filter, update).unwrap_or_else(|e| panic!("{filter}: {e}"));
        let expected = bson_object(expected);
        assert_eq!(PrintedObject(&inserted).to_string(), PrintedObject(&expected).to_string());
    }

    fn check_failure(filter: &str, update: &str, code: i32, message: &str) {
        let failure = inserted(filter, update).expect_err(filter);
        assert_eq!(failure, Failure::new(code, message), "{filter}");
    }

    #[test]
    fn what_only_one_value_matches_is_in_the_document() {
        check(
            r#"{"a": 5, "c": {"$gt": 1}, "d.e": 2, "$or": [{"f": 1}]}"#,
            r#"{"$set": {"g": 1}}"#,
            r#"{"_id": "generated", "a": 5, "d": {"e": 2}, "f": 1, "g": 1}"#,
        );
        check(
            r#"{"$and": [{"a": {"$eq": 1}}, {"b": {"$in": [2]}}, {"c": {"$all": [3]}}]}"#,
            r#"{"$inc": {"a": 1}}"#,
            r#"{"_id": "generated", "a": 2, "b": 2, "c": 3}"#,
        );
        for none in [
            r#"{"a": {"$in": [1, 2]}}"#,
            r#"{"$or": [{"a": 1}, {"a": 2}]}"#,
            r#"{"$nor": [{"a": 1}]}"#,
            r#"{"a": {"$ne": 1}}"#,
            r#"{"a": {"$re": ["x", ""]}}"#,
            r#"{"a": {"$in": [{"$re": ["x", ""]}]}}"#,
            r#"{"a": {"$not": {"$eq": 1}}}"#,
        ] {
            check(none, r#"{"$set": {"b": 1}}"#, r#"{"_id": "generated", "b": 1}"#);
        }
        check(
            r#"{"b.c": 1, "b.a": 2, "b!": 3}"#,
            r#"{"$set": {}}"#,
            r#"{"_id": "generated", "b!": 3, "b": {"a": 2, "c": 1}}"#,
        );
    }

    #[test]
    fn the_id_is_that_of_the_filter_or_the_update() {
        check(r#"{"a": 1, "_id": 7}"#, r#"{"$set": {"b": 1}}"#, r#"{"_id": 7, "a": 1, "b": 1}"#);
        check(
            r#"{"a": 1}"#,
            r#"{"$setOnInsert": {"_id": 8, "b": 1}}"#,
            r#"{"_id": 8, "a": 1, "b": 1}"#,
        );
        check(r#"{"_id": 7, "a": 1}"#, r#"{"b": 2}"#, r#"{"_id": 7, "b": 2}"#);
        check(r#"{"a": 1}"#, r#"{"b": 2, "_id": 9}"#, r#"{"_id": 9, "b": 2}"#);
        check_failure(
            r#"{"_id": 7}"#,
            r#"{"$set": {"_id": 8}}"#,
            66,
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        );
        assert_eq!(inserted(r#"{"_id": 7}"#, r#"{"_id": 8}"#).unwrap_err().code, 66);
        check_failure(
            "{}",
            r#"{"$set": {"_id": [1]}}"#,
            53,
            "The '_id' value cannot be of type array",
        );
    }

    #[test]
    fn a_path_has_one_value() {
        check_failure(
            r#"{"a": 1, "$and": [{"a": 2}]}"#,
            r#"{"$set": {"b": 1}}"#,
            54,
            "cannot infer query fields to set, path 'a' is matched twice",
        );
        check_failure(
            r#"{"a": {"x": 1}, "a!": 1, "a.b": 2}"#,
            r#"{"$set": {"b": 1}}"#,
            54,
            "cannot infer query fields to set, both paths 'a' and 'a.b' are matched",
        );
        check_failure(
            r#"{"a": 1}"#,
            r#"{"$set": {"a.b": 1}}"#,
            28,
            "Cannot create field 'b' in element {a: 1}",
        );
    }

    #[test]
    fn new_documents_have_no_element_that_matched() {
        check_failure(
            r#"{"a": 1}"#,
            r#"{"$set": {"a.$": 1}}"#,
            2,
            "The positional operator did not find the match needed from the query.",
        );
    }

    #[test]
    fn paths_of_any_depth_are_refused_rather_than_followed() {
        let long = vec!["a"; 5000].join(".");
        assert_eq!(
            inserted(&format!("{{\"{long}\": 1}}"), r#"{"$set": {"b": 1}}"#).unwrap_err().code,
            15
        );
    }
}
