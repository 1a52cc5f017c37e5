//! Projections as clients write them.

use std::sync::Arc;

use query::document::print::PrintedObject;
use query::document::{Failure, Predicate};

use super::{ProjectionOptions, Rules, compile};
use crate::mongo::filter;
use crate::mongo::test_support::{bson, bson_object, options, variables};

fn filter_of(text: &str) -> Arc<Predicate> {
    Arc::new(filter::compile(&bson_object(text), &options()).unwrap())
}

fn projected(projection: &str, filter: &str, document: &str) -> Result<String, Failure> {
    let filter = filter_of(filter);
    let options = ProjectionOptions { rules: Rules::Find(Some(&filter)), filter: options() };
    let projection = compile(&bson_object(projection), &options)?;
    let output = projection.apply(&bson(document), &variables())?;
    Ok(PrintedObject(&output).to_string())
}

fn check(projection: &str, document: &str, expected: &str) {
    let expected = PrintedObject(&bson_object(expected)).to_string();
    assert_eq!(projected(projection, "{}", document), Ok(expected), "{projection}");
}

fn check_failure(projection: &str, code: i32, message: &str) {
    let failure = projected(projection, r#"{"a": 1}"#, "{}").expect_err(projection);
    assert_eq!(failure, Failure::new(code, message), "{projection}");
}

const DOCUMENT: &str = r#"{"_id": 1, "b": {"x": 1, "y": 2}, "a": [{"x": 1, "y": 2}, 5, [{"x": 3}]],
                           "c": 3}"#;

#[test]
fn included_fields_are_in_the_order_of_the_document() {
    check(r#"{"c": 1, "b": true}"#, DOCUMENT, r#"{"_id": 1, "b": {"x": 1, "y": 2}, "c": 3}"#);
    check(r#"{"c": 1, "_id": 0}"#, DOCUMENT, r#"{"c": 3}"#);
    check(r#"{"_id": 1}"#, DOCUMENT, r#"{"_id": 1}"#);
    check(r#"{"missing": 1}"#, DOCUMENT, r#"{"_id": 1}"#);
    check(r#"{"b.y": 1}"#, DOCUMENT, r#"{"_id": 1, "b": {"y": 2}}"#);
    check(r#"{"b": {"y": 1}}"#, DOCUMENT, r#"{"_id": 1, "b": {"y": 2}}"#);
    check(r#"{"a.x": 1}"#, DOCUMENT, r#"{"_id": 1, "a": [{"x": 1}, [{"x": 3}]]}"#);
    check(r#"{"c.x": 1}"#, DOCUMENT, r#"{"_id": 1}"#);
    check(r#"{"a.0": 1}"#, r#"{"a": [1, {"0": 2}]}"#, r#"{"a": [{"0": 2}]}"#);
}

#[test]
fn excluded_fields_leave_all_others() {
    check(r#"{"a": 0, "b": 0}"#, DOCUMENT, r#"{"_id": 1, "c": 3}"#);
    check(r#"{"_id": 0, "a": 0}"#, DOCUMENT, r#"{"b": {"x": 1, "y": 2}, "c": 3}"#);
    check(r#"{"_id": 0}"#, r#"{"_id": 1, "c": 3}"#, r#"{"c": 3}"#);
    check(r#"{"_id": 1, "c": 0}"#, r#"{"_id": 1, "c": 3}"#, r#"{"_id": 1}"#);
    check(
        r#"{"a.x": 0, "b.y": false}"#,
        DOCUMENT,
        r#"{"_id": 1, "b": {"x": 1}, "a": [{"y": 2}, 5, [{}]], "c": 3}"#,
    );
    check("{}", r#"{"_id": 1, "c": 3}"#, r#"{"_id": 1, "c": 3}"#);
}

#[test]
fn computed_fields_follow_in_the_order_of_the_projection() {
    check(
        r#"{"z": "$c", "y": "text", "b": 1}"#,
        DOCUMENT,
        r#"{"_id": 1, "b": {"x": 1, "y": 2}, "z": 3, "y": "text"}"#,
    );
    check(r#"{"c": "$nothing"}"#, DOCUMENT, r#"{"_id": 1}"#);
    check(r#"{"b.z": "$c"}"#, DOCUMENT, r#"{"_id": 1, "b": {"z": 3}}"#);
    check(r#"{"c.z": "$c"}"#, DOCUMENT, r#"{"_id": 1, "c": {"z": 3}}"#);
    check(r#"{"n.z": "$c"}"#, DOCUMENT, r#"{"_id": 1, "n": {"z": 3}}"#);
    check(
        r#"{"a.z": "$c", "a.x": 1}"#,
        r#"{"a": [{"x": 1}, 5], "c": 3}"#,
        r#"{"a": [{"x": 1, "z": 3}, {"z": 3}]}"#,
    );
    check(r#"{"c": 1, "_id": "$b"}"#, r#"{"_id": 1, "c": 3, "b": 7}"#, r#"{"_id": 7, "c": 3}"#);
}

#[test]
fn parts_of_arrays_are_picked() {
    let document = r#"{"_id": 1, "a": [1, 2, 3, 4], "b": {"c": [5, 6]}, "d": [{"e": [7, 8]}]}"#;
    let others = r#""b": {"c": [5, 6]}, "d": [{"e": [7, 8]}]"#;
    let slice = |argument: &str, expected: &str| {
        check(
            &format!("{{\"a\": {{\"$slice\": {argument}}}}}"),
            document,
            &format!("{{\"_id\": 1, \"a\": {expected}, {others}}}"),
        );
    };
    slice("2", "[1, 2]");
    slice("-1", "[4]");
    slice("[1, 2]", "[2, 3]");
    slice("[-2, 1]", "[3]");
    check(r#"{"a": {"$slice": 1}, "x": 1}"#, document, r#"{"_id": 1, "a": [1]}"#);
    check(r#"{"_id": 1, "a": {"$slice": 1}}"#, document, r#"{"_id": 1, "a": [1]}"#);
    check(
        r#"{"a": 0, "b.c": {"$slice": 1}, "d.e": {"$slice": -1}}"#,
        document,
        r#"{"_id": 1, "b": {"c": [5]}, "d": [{"e": [8]}]}"#,
    );
}

#[test]
fn the_first_element_that_matches_is_kept() {
    let document = r#"{"_id": 1, "a": [1, 5, 7], "b": [{"c": 1, "d": 1}, {"c": 2}], "e": 1}"#;
    check(r#"{"a": {"$elemMatch": {"$gt": 3}}}"#, document, r#"{"_id": 1, "a": [5]}"#);
    check(
        r#"{"b": {"$elemMatch": {"c": 2}}, "e": 1}"#,
        document,
        r#"{"_id": 1, "e": 1, "b": [{"c": 2}]}"#,
    );
    check(r#"{"a": {"$elemMatch": {"$gt": 9}}}"#, document, r#"{"_id": 1}"#);
    check(r#"{"e": {"$elemMatch": {"$gt": 0}}}"#, document, r#"{"_id": 1}"#);
    check(
        r#"{"e": 0, "b": 0, "a": {"$elemMatch": {"$gt": 5}}}"#,
        document,
        r#"{"_id": 1, "a": [7]}"#,
    );
}

#[test]
fn the_element_that_matched_the_filter_is_kept() {
    let document = r#"{"_id": 1, "a": [1, 5, 7], "b": {"c": [{"d": 1}, {"d": 2}]}, "e": 1}"#;
    let check = |projection: &str, filter: &str, expected: &str| {
        let expected = PrintedObject(&bson_object(expected)).to_string();
        assert_eq!(projected(projection, filter, document), Ok(expected), "{projection}");
    };
    check(r#"{"a.$": 1}"#, r#"{"a": {"$gt": 4}}"#, r#"{"_id": 1, "a": [5]}"#);
    check(r#"{"b.c.$": 1}"#, r#"{"b.c.d": 2}"#, r#"{"_id": 1, "b": {"c": [{"d": 2}]}}"#);
    check(r#"{"e.$": 1}"#, r#"{"e": 1}"#, r#"{"_id": 1, "e": 1}"#);
    let failure = projected(r#"{"a.$": 1}"#, r#"{"a": {"$size": 3}}"#, document).unwrap_err();
    assert_eq!(failure.code, 51246);
}

#[test]
fn mistakes_have_numbers_and_texts() {
    for (projection, code, message) in [
        (r#"{"a": 1, "b": 0}"#, 31254, "Cannot do exclusion on field b in inclusion projection"),
        (r#"{"a": 0, "b": 1}"#, 31253, "Cannot do inclusion on field b in exclusion projection"),
        (r#"{"a": 1, "a.b": 1}"#, 31249, "Path collision at a.b remaining portion b"),
        (r#"{"a.b": 1, "a": 1}"#, 31250, "Path collision at a"),
        (
            r#"{"a": {}}"#,
            51270,
            "An empty sub-projection is not a valid value. Found empty object at path a",
        ),
        (r#"{"": 1}"#, 40352, "FieldPath cannot be constructed with empty string"),
        (r#"{"a.": 1}"#, 40353, "FieldPath must not end with a '.'."),
        (r#"{"a..b": 1}"#, 15998, "FieldPath field names may not be empty strings."),
        (
            r#"{"$a": 1}"#,
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        ),
        (r#"{"a.$": 0}"#, 31395, "positional projection cannot be used with exclusion"),
        (r#"{"a.$": "x"}"#, 31308, "positional projection cannot be used with a literal"),
        (
            r#"{"a.$": {"b": 1}}"#,
            31271,
            "positional projection cannot be used with an expression or sub object",
        ),
        (r#"{"b.$": 1}"#, 31277, "Positional projection 'b.$' does not match the query document."),
        (
            r#"{"a.$": 1, "a.b.$": 1}"#,
            31276,
            "Cannot specify more than one positional projection per query.",
        ),
        (
            r#"{"b": {"$elemMatch": {"c": 1}}, "a.$": 1}"#,
            31256,
            "Cannot specify positional operator and $elemMatch.",
        ),
        (
            r#"{"a.$": 1, "b": {"$elemMatch": {"c": 1}}}"#,
            31255,
            "Cannot specify positional operator and $elemMatch.",
        ),
        (
            r#"{"b": {"$elemMatch": 1}}"#,
            31274,
            "elemMatch: Invalid argument, object required, but got int",
        ),
        (
            r#"{"b.c": {"$elemMatch": {"d": 1}}}"#,
            31275,
            "Cannot use $elemMatch projection on a nested field.",
        ),
        (
            r#"{"b": 0, "c": "$d"}"#,
            31310,
            "Cannot use an expression c: \"$d\" in an exclusion projection",
        ),
        (
            r#"{"b": 0, "c": {"$add": [1]}}"#,
            31252,
            "Cannot use expression other than $meta in exclusion projection",
        ),
        (
            r#"{"b": {"$meta": "textScore"}}"#,
            40218,
            "query requires text score metadata, but it is not available",
        ),
        (r#"{"b": {"$meta": "foo"}}"#, 17308, "Unsupported argument to $meta: foo"),
    ] {
        check_failure(projection, code, message);
    }
    let middle = projected(r#"{"a.$.b": 1}"#, r#"{"a": 1}"#, "{}").unwrap_err();
    assert_eq!(middle.code, 31394);
    let slice = projected(r#"{"a": {"$slice": "x"}}"#, "{}", "{}").unwrap_err();
    assert_eq!(slice.code, 28667);
    let long = format!("{{\"{}\": 1}}", vec!["a"; 201].join("."));
    assert_eq!(projected(&long, "{}", "{}").unwrap_err().code, 15);
}

#[test]
fn stages_have_rules_of_their_own() {
    let options = ProjectionOptions { rules: Rules::Aggregate, filter: options() };
    let failure = |text: &str| compile(&bson_object(text), &options).unwrap_err();
    assert_eq!(failure("{}").code, 51272);
    assert_eq!(failure(r#"{"a.$": 1}"#).code, 31324);
    let expected = Failure::new(168, "Cannot use $elemMatch in this context");
    assert_eq!(failure(r#"{"a": {"$elemMatch": {"b": 1}}}"#), expected);
}

#[test]
fn only_what_is_projected_is_read() {
    let mask = |projection: &str| {
        let options = ProjectionOptions { rules: Rules::Find(None), filter: options() };
        let compiled = compile(&bson_object(projection), &options).unwrap();
        let mut mask = model::json::FieldMask::NOTHING;
        compiled.require(&mut mask);
        mask
    };
    let inclusion = mask(r#"{"a.b": 1, "c": "$d"}"#);
    assert!(["_id", "a", "d"].iter().all(|name| inclusion.has_field(name)));
    assert!(!inclusion.has_field("b") && !inclusion.has_field("e"));
    assert_eq!(mask(r#"{"a": 0}"#), model::json::FieldMask::All);
    assert_eq!(mask(r#"{"a": {"$slice": 1}}"#), model::json::FieldMask::All);
}
