//! Filters as clients write them: what they match, and what is wrong with those that fail.

use model::Value;
use query::document::{Failure, Predicate};

use super::{FilterOptions, compile};
use crate::mongo::test_support::{bson, bson_object, options, variables};

fn predicate(filter: &str) -> Predicate {
    let compiled = compile(&bson_object(filter), &options());
    compiled.unwrap_or_else(|failure| panic!("{filter}: {failure}"))
}

/// The positions of the documents that match.
fn matched(filter: &str, documents: &[&str]) -> Vec<usize> {
    let predicate = predicate(filter);
    let is_match = |document: &&str| predicate.matches(&bson(document), &variables()).unwrap();
    documents.iter().enumerate().filter(|(_, d)| is_match(d)).map(|(at, _)| at).collect()
}

/// As [`matched`], of documents that have a field `v` with these values.
fn matched_values(filter: &str, values: &[&str]) -> Vec<usize> {
    let documents: Vec<String> = values.iter().map(|v| format!("{{\"v\": {v}}}")).collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    matched(filter, &documents)
}

fn check_failure(filter: &str, code: i32, message: &str) {
    let failure = compile(&bson_object(filter), &options()).expect_err(filter);
    assert_eq!(failure, Failure::new(code, message), "{filter}");
}

/// The documents of the first table of null and missing values.
const NULLS: [&str; 6] = [
    r#"{"v": null}"#,
    "{}",
    r#"{"v": []}"#,
    r#"{"v": [null]}"#,
    r#"{"v": 1}"#,
    r#"{"v": {"a": null}}"#,
];

#[test]
fn null_equals_what_is_missing() {
    for filter in [r#"{"v": null}"#, r#"{"v": {"$in": [null]}}"#, r#"{"v": {"$gte": null}}"#] {
        assert_eq!(matched(filter, &NULLS), [0, 1, 3], "{filter}");
    }
    assert_eq!(matched(r#"{"v": {"$ne": null}}"#, &NULLS), [2, 4, 5]);
    assert_eq!(matched(r#"{"v": {"$exists": false}}"#, &NULLS), [1]);
    assert_eq!(matched(r#"{"v": {"$exists": 1}}"#, &NULLS), [0, 2, 3, 4, 5]);
    assert_eq!(matched(r#"{"v": {"$type": "null"}}"#, &NULLS), [0, 3]);
    assert_eq!(matched(r#"{"v": {"$gt": null}}"#, &NULLS), [0_usize; 0]);
}

#[test]
fn null_below_a_field() {
    let documents = [
        r#"{"v": null}"#,
        "{}",
        r#"{"v": 1}"#,
        r#"{"v": {"a": null}}"#,
        r#"{"v": [{"a": 1}, {"b": 1}]}"#,
        r#"{"v": [1]}"#,
        r#"{"v": []}"#,
    ];
    assert_eq!(matched(r#"{"v.a": null}"#, &documents), [0, 1, 2, 3, 4]);
    assert_eq!(matched(r#"{"v.a": {"$exists": false}}"#, &documents), [0, 1, 2, 5, 6]);
}

#[test]
fn arrays_match_by_their_elements_and_as_a_whole() {
    let values = ["[1,2,3]", "2", "[[1,2,3]]", "[2]", "[1,5]", "[[2]]"];
    assert_eq!(matched_values(r#"{"v": 2}"#, &values), [0, 1, 3]);
    assert_eq!(matched_values(r#"{"v": [1,2,3]}"#, &values), [0, 2]);
    assert_eq!(matched_values(r#"{"v": {"$gt": 3, "$lt": 2}}"#, &values), [4]);
    let none = r#"{"v": {"$elemMatch": {"$gt": 3, "$lt": 2}}}"#;
    assert_eq!(matched_values(none, &values), [0_usize; 0]);
    assert_eq!(matched_values(r#"{"v": {"$ne": 2}}"#, &values), [2, 4, 5]);
    assert_eq!(matched_values(r#"{"v": {"$size": 1}}"#, &values), [2, 3, 5]);
    assert_eq!(matched_values(r#"{"v": {"$size": 2.0}}"#, &values), [4]);
    assert_eq!(matched_values(r#"{"v": {"$all": [1, 2]}}"#, &values), [0]);
    assert_eq!(matched_values(r#"{"v": {"$all": [2]}}"#, &values), [0, 1, 3]);
    assert_eq!(matched_values(r#"{"v": {"$all": [[1,2,3]]}}"#, &values), [0, 2]);
    assert_eq!(matched_values(r#"{"v": {"$all": []}}"#, &values), [0_usize; 0]);
    let nested = r#"{"v": {"$elemMatch": {"$elemMatch": {"$gte": 3}}}}"#;
    assert_eq!(matched_values(nested, &values), [2]);
}

#[test]
fn elements_match_filters_on_objects() {
    let objects = [r#"[{"a":1,"b":2},{"a":2,"b":1}]"#, r#"[{"a":1,"b":1}]"#, r#"{"a":1,"b":1}"#];
    assert_eq!(matched_values(r#"{"v.a": 1, "v.b": 1}"#, &objects), [0, 1, 2]);
    let element = r#"{"v": {"$elemMatch": {"a": 1, "b": 1}}}"#;
    assert_eq!(matched_values(element, &objects), [1]);
    let all = r#"{"v": {"$all": [{"$elemMatch": {"a": 1}}, {"$elemMatch": {"b": 1}}]}}"#;
    assert_eq!(matched_values(all, &objects), [0, 1]);
    let or = r#"{"v": {"$elemMatch": {"$or": [{"a": 2}, {"a": 3}]}}}"#;
    assert_eq!(matched_values(or, &objects), [0]);
    let not = r#"{"v": {"$not": {"$elemMatch": {"a": 1, "b": 1}}}}"#;
    assert_eq!(matched_values(not, &objects), [0, 2]);
    // Arrays in arrays are like objects whose names are positions.
    assert_eq!(matched_values(r#"{"v": {"$elemMatch": {"0": 5}}}"#, &["[[5]]", "[5]"]), [0]);
}

#[test]
fn comparisons_are_within_a_class() {
    let values = ["1", "2.5", "\"a\"", "true", r#"{"a": 1}"#, r#"{"$date": 5}"#, "null"];
    assert_eq!(matched_values(r#"{"v": {"$gt": 0}}"#, &values), [0, 1]);
    assert_eq!(matched_values(r#"{"v": {"$lt": "b"}}"#, &values), [2]);
    assert_eq!(matched_values(r#"{"v": {"$gte": false}}"#, &values), [3]);
    assert_eq!(matched_values(r#"{"v": {"$lt": {"a": 2}}}"#, &values), [4]);
    assert_eq!(matched_values(r#"{"v": {"$lte": {"$date": 5}}}"#, &values), [5]);
    let all = r#"{"v": {"$gt": {"$special": "minKey"}}}"#;
    assert_eq!(matched_values(all, &values).len(), values.len());
    assert_eq!(matched_values(r#"{"v": {"$not": {"$gt": 0}}}"#, &values), [2, 3, 4, 5, 6]);
    assert_eq!(matched_values(r#"{"v": {"$eq": {"$long": 1}}}"#, &values), [0]);
    assert_eq!(matched_values(r#"{"v": {"a": {"$double": 1}}}"#, &values), [4]);
    let names = ["{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"];
    assert_eq!(matched_values(r#"{"v": {"a":1,"b":2}}"#, &names), [0]);
}

#[test]
fn lists_may_hold_patterns() {
    let values = ["\"abc\"", "\"x\"", "5", "[\"abd\"]"];
    let filter = r#"{"v": {"$in": [{"$re": ["^ab", ""]}, 5]}}"#;
    assert_eq!(matched_values(filter, &values), [0, 2, 3]);
    assert_eq!(matched_values(&filter.replace("$in", "$nin"), &values), [1]);
    let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let filter = format!("{{\"v\": {{\"$in\": [{}]}}}}", many.join(","));
    assert_eq!(matched_values(&filter, &values), [2]);
}

#[test]
fn patterns_match_text_or_themselves() {
    let values = ["\"Abc\"", "\"xabc\"", r#"{"$re": ["^a", "i"]}"#, "1", "\"b\\nabc\""];
    assert_eq!(matched_values(r#"{"v": {"$re": ["^a", "i"]}}"#, &values), [0, 2]);
    assert_eq!(matched_values(r#"{"v": {"$regex": "^A"}}"#, &values), [0]);
    let options = r#"{"v": {"$regex": "^a", "$options": "im"}}"#;
    assert_eq!(matched_values(options, &values), [0, 4]);
    assert_eq!(matched_values(r#"{"v": {"$options": "i", "$regex": "^a"}}"#, &values), [0, 2]);
    assert_eq!(matched_values(r#"{"v": {"$not": {"$re": ["a", "i"]}}}"#, &values), [2, 3]);
    assert_eq!(matched_values(r#"{"v": {"$not": {"$regex": "b"}}}"#, &values), [2, 3]);
    assert_eq!(matched_values(r#"{"v": {"$eq": {"$re": ["^a", "i"]}}}"#, &values), [2]);
    assert_eq!(matched_values(r#"{"v": {"$regex": "x(?=a)"}}"#, &values), [1]);
}

#[test]
fn types_have_names_and_numbers() {
    let values = ["1", "1.5", r#"{"$long": 1}"#, "\"a\"", "[1]", "[]", "{}", "[[\"a\"]]"];
    assert_eq!(matched_values(r#"{"v": {"$type": "number"}}"#, &values), [0, 1, 2, 4]);
    assert_eq!(matched_values(r#"{"v": {"$type": 16}}"#, &values), [0, 4]);
    assert_eq!(matched_values(r#"{"v": {"$type": ["string", 1]}}"#, &values), [1, 3]);
    assert_eq!(matched_values(r#"{"v": {"$type": "array"}}"#, &values), [4, 5, 7]);
    assert_eq!(matched_values(r#"{"v": {"$type": "object"}}"#, &values), [6]);
}

#[test]
fn numbers_are_divided_without_their_fraction() {
    let values = ["4", "5.9", "-4", "\"4\"", r#"{"$special": "NaN"}"#, "[1, 8]", r#"{"$long": 9}"#];
    assert_eq!(matched_values(r#"{"v": {"$mod": [4, 0]}}"#, &values), [0, 2, 5]);
    assert_eq!(matched_values(r#"{"v": {"$mod": [4.9, 1]}}"#, &values), [1, 5, 6]);
    assert_eq!(matched_values(r#"{"v": {"$mod": [-3, -1]}}"#, &values), [2]);
}

#[test]
fn bits_are_named_by_masks_and_positions() {
    let values = ["5", "-1", "2.0", "1.5", "\"a\""];
    assert_eq!(matched_values(r#"{"v": {"$bitsAllSet": 5}}"#, &values), [0, 1]);
    assert_eq!(matched_values(r#"{"v": {"$bitsAnySet": [0, 1]}}"#, &values), [0, 1, 2]);
    assert_eq!(matched_values(r#"{"v": {"$bitsAllClear": [0, 70]}}"#, &values), [2]);
    assert_eq!(matched_values(r#"{"v": {"$bitsAnyClear": 3}}"#, &values), [0, 2]);
}

#[test]
fn filters_are_joined() {
    let values = ["1", "2", "3", "4"];
    assert_eq!(
        matched_values(r#"{"$and": [{"v": {"$gt": 1}}, {"v": {"$lt": 4}}]}"#, &values),
        [1, 2]
    );
    assert_eq!(matched_values(r#"{"$or": [{"v": 1}, {"v": 4}]}"#, &values), [0, 3]);
    assert_eq!(matched_values(r#"{"$nor": [{"v": 1}, {"v": 4}]}"#, &values), [1, 2]);
    assert_eq!(matched_values(r#"{"$comment": {"x": 1}, "v": 2}"#, &values), [1]);
    assert_eq!(matched_values("{}", &values).len(), 4);
    assert_eq!(matched_values(r#"{"$alwaysFalse": 1}"#, &values), [0_usize; 0]);
    assert_eq!(matched_values(r#"{"$alwaysTrue": 1}"#, &values).len(), 4);
    assert_eq!(matched_values(r#"{"$sampleRate": 0.0}"#, &values), [0_usize; 0]);
    assert_eq!(matched_values(r#"{"$sampleRate": 1}"#, &values).len(), 4);
    assert_eq!(matched(r#"{"$expr": "$b"}"#, &[r#"{"b": 0}"#, r#"{"b": "x"}"#, "{}"]), [1]);
}

#[test]
fn references_to_documents_are_values() {
    let reference = r#"{"$ref": "c", "$id": 1}"#;
    let filter = format!("{{\"v\": {reference}}}");
    assert_eq!(matched_values(&filter, &[reference, "1"]), [0]);
    let by_parts = r#"{"v": {"$elemMatch": {"$ref": "c"}}}"#;
    assert_eq!(matched_values(by_parts, &[&format!("[{reference}]"), "[1]"]), [0]);
}

#[test]
fn schemas_accept_values() {
    let documents = [
        r#"{"a": 1, "b": ["x", "y"]}"#,
        r#"{"a": 10.5, "b": []}"#,
        r#"{"a": "text", "c": 1}"#,
        r#"{"b": ["x", "x"]}"#,
    ];
    let check = |schema: &str, expected: &[usize]| {
        let filter = format!("{{\"$jsonSchema\": {schema}}}");
        assert_eq!(matched(&filter, &documents), expected, "{schema}");
    };
    check(r#"{"required": ["a"]}"#, &[0, 1, 2]);
    check(r#"{"properties": {"a": {"bsonType": "number"}}}"#, &[0, 1, 3]);
    check(
        r#"{"properties": {"a": {"type": ["string"], "minLength": 4, "pattern": "^t"}}}"#,
        &[2, 3],
    );
    check(r#"{"properties": {"a": {"minimum": 1, "exclusiveMinimum": true}}}"#, &[1, 2, 3]);
    check(r#"{"properties": {"a": {"maximum": 1}}}"#, &[0, 2, 3]);
    check(r#"{"properties": {"a": {"multipleOf": 3.5}}}"#, &[1, 2, 3]);
    check(r#"{"properties": {"a": {"enum": [1, "text"]}}}"#, &[0, 2, 3]);
    check(r#"{"properties": {"b": {"uniqueItems": true}}}"#, &[0, 1, 2]);
    check(r#"{"properties": {"b": {"minItems": 1, "items": {"enum": ["x"]}}}}"#, &[2, 3]);
    let items = r#"{"properties": {"b": {"items": [{"enum": ["x"]}], "additionalItems": false}}}"#;
    check(items, &[1, 2]);
    check(r#"{"properties": {"a": {}, "b": {}}, "additionalProperties": false}"#, &[0, 1, 3]);
    check(r#"{"patternProperties": {"^c": {"type": "string"}}}"#, &[0, 1, 3]);
    check(r#"{"dependencies": {"a": ["b"]}}"#, &[0, 1, 3]);
    check(r#"{"dependencies": {"c": {"required": ["b"]}}}"#, &[0, 1, 3]);
    check(r#"{"minProperties": 2}"#, &[0, 1, 2]);
    check(r#"{"not": {"required": ["b"]}}"#, &[2]);
    check(r#"{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}"#, &[2, 3]);
    check(r#"{"anyOf": [{"required": ["c"]}, {"maxProperties": 1}]}"#, &[2, 3]);
    check(r#"{"allOf": [{"required": ["a"]}, {"required": ["b"]}]}"#, &[0, 1]);
}

#[test]
fn mistakes_in_schemas_have_numbers() {
    let check = |schema: &str, code, message: &str| {
        check_failure(&format!("{{\"$jsonSchema\": {schema}}}"), code, message);
    };
    check("1", 14, "$jsonSchema must be an object");
    check(r#"{"foo": 1}"#, 9, "Unknown $jsonSchema keyword: foo");
    check(r#"{"format": "x"}"#, 9, "$jsonSchema keyword 'format' is not currently supported");
    check(r#"{"required": 1}"#, 14, "$jsonSchema keyword 'required' must be an array");
    check(r#"{"required": []}"#, 9, "$jsonSchema keyword 'required' cannot be an empty array");
    check(r#"{"minimum": "x"}"#, 14, "$jsonSchema keyword 'minimum' must be a number");
    let both = "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'";
    check(r#"{"type": "string", "bsonType": "string"}"#, 9, both);
    check(r#"{"bsonType": "foo"}"#, 2, "Unknown type name alias: foo");
}

#[test]
fn mistakes_have_numbers_and_texts() {
    let hint = "If you have a field name that starts with a '$' symbol, consider using $getField \
                or $setField.";
    let unknown = format!("unknown top level operator: $foo. {hint}");
    for (filter, code, message) in [
        (r#"{"$foo": 1}"#, 2, unknown.as_str()),
        (r#"{"v": {"$foo": 1}}"#, 2, "unknown operator: $foo"),
        (r#"{"v": {"$gt": 1, "b": 1}}"#, 2, "unknown operator: b"),
        (r#"{"$and": 1}"#, 2, "$and must be an array"),
        (r#"{"$or": []}"#, 2, "$and/$or/$nor must be a nonempty array"),
        (r#"{"$nor": [1]}"#, 2, "$or/$and/$nor entries need to be full objects"),
        (r#"{"v": {"$in": 1}}"#, 2, "$in needs an array"),
        (r#"{"v": {"$nin": 1}}"#, 2, "$nin needs an array"),
        (r#"{"v": {"$in": [{"$gt": 1}]}}"#, 2, "cannot nest $ under $in"),
        (r#"{"v": {"$not": 1}}"#, 2, "$not needs a regex or a document"),
        (r#"{"v": {"$not": {}}}"#, 2, "$not cannot be empty"),
        (r#"{"v": {"$ne": {"$re": ["a", ""]}}}"#, 2, "Can't have regex as arg to $ne."),
        (
            r#"{"v": {"$gt": {"$re": ["a", ""]}}}"#,
            2,
            "Can't have RegEx as arg to predicate over field 'v'.",
        ),
        (r#"{"v": {"$type": true}}"#, 14, "type must be represented as a number or a string"),
        (r#"{"v": {"$type": "foo"}}"#, 2, "Unknown type name alias: foo"),
        (r#"{"v": {"$type": 99}}"#, 2, "Invalid numerical type code: 99"),
        (
            r#"{"v": {"$type": 0}}"#,
            2,
            "Invalid numerical type code: 0. Instead use {$exists:false}.",
        ),
        (r#"{"v": {"$type": []}}"#, 9, "v must match at least one type"),
        (r#"{"v": {"$mod": 1}}"#, 2, "malformed mod, needs to be an array"),
        (r#"{"v": {"$mod": [1]}}"#, 2, "malformed mod, not enough elements"),
        (r#"{"v": {"$mod": [1, 2, 3]}}"#, 2, "malformed mod, too many elements"),
        (r#"{"v": {"$mod": ["a", 2]}}"#, 2, "malformed mod, divisor not a number"),
        (r#"{"v": {"$mod": [1, "a"]}}"#, 2, "malformed mod, remainder not a number"),
        (r#"{"v": {"$mod": [0.5, 1]}}"#, 2, "divisor cannot be 0"),
        (
            r#"{"v": {"$mod": [{"$special": "NaN"}, 1]}}"#,
            2,
            "malformed mod, divisor value is invalid :: caused by :: Unable to coerce NaN/Inf to \
             integral type",
        ),
        (r#"{"v": {"$regex": 1}}"#, 2, "$regex has to be a string"),
        (r#"{"v": {"$regex": "a", "$options": 1}}"#, 2, "$options has to be a string"),
        (r#"{"v": {"$options": "i"}}"#, 2, "$options needs a $regex"),
        (
            r#"{"v": {"$regex": {"$re": ["a", "i"]}, "$options": "m"}}"#,
            51075,
            "options set in both $regex and $options",
        ),
        (r#"{"v": {"$regex": "a", "$options": "y"}}"#, 51108, " invalid flag in regex options: y"),
        (
            r#"{"v": {"$size": "a"}}"#,
            2,
            "Failed to parse $size. Expected a number in: $size: \"a\"",
        ),
        (r#"{"v": {"$size": 2.1}}"#, 2, "Failed to parse $size. Expected an integer: $size: 2.1"),
        (
            r#"{"v": {"$size": -1}}"#,
            2,
            "Failed to parse $size. Expected a non-negative number in: $size: -1",
        ),
        (r#"{"v": {"$elemMatch": 1}}"#, 2, "$elemMatch needs an Object"),
        (
            r#"{"v": {"$elemMatch": {"$expr": true}}}"#,
            2,
            "$expr can only be applied to the top-level document",
        ),
        (
            r#"{"v": {"$elemMatch": {"$where": "1"}}}"#,
            2,
            "$elemMatch cannot contain $where expression",
        ),
        (r#"{"v": {"$all": 1}}"#, 2, "$all needs an array"),
        (r#"{"v": {"$all": [{"$gt": 1}]}}"#, 2, "no $ expressions in $all"),
        (r#"{"v": {"$all": [{"$elemMatch": {}}, 1]}}"#, 2, "$all/$elemMatch has to be consistent"),
        (
            r#"{"v": {"$bitsAllSet": "123"}}"#,
            2,
            "v takes an Array, a number, or a BinData but received: $bitsAllSet: \"123\"",
        ),
        (r#"{"v": {"$bitsAllSet": 1.2}}"#, 9, "Expected an integer: $bitsAllSet: 1.2"),
        (r#"{"v": {"$bitsAllSet": -1}}"#, 9, "Expected a non-negative number in: $bitsAllSet: -1"),
        (
            r#"{"v": {"$bitsAllSet": ["a"]}}"#,
            2,
            "Failed to parse bit position. Expected a number in: 0: \"a\"",
        ),
        (
            r#"{"v": {"$bitsAllSet": [1, -2]}}"#,
            2,
            "Failed to parse bit position. Expected a non-negative number in: 1: -2",
        ),
        (r#"{"$sampleRate": "a"}"#, 2, "argument to $sampleRate must be a numeric type"),
        (r#"{"$sampleRate": 1.5}"#, 2, "numeric argument to $sampleRate must be in [0, 1]"),
        (r#"{"$alwaysTrue": 2}"#, 9, "$alwaysTrue must be an integer value of 1"),
        (r#"{"$text": {"$search": "a"}}"#, 27, "text index required for $text query"),
        (r#"{"v": {"$near": [0, 0]}}"#, 291, "unable to find index for $geoNear query"),
        (r#"{"v": {"$geoWithin": {}}}"#, 115, "$geoWithin is not supported"),
        (r#"{"$where": "1"}"#, 2, "no globalScriptEngine in $where parsing"),
        (r#"{"$where": 1}"#, 2, "$where got bad type"),
    ] {
        check_failure(filter, code, message);
    }
    let invalid = compile(&bson_object(r#"{"v": {"$regex": "("}}"#), &options()).unwrap_err();
    assert_eq!(invalid.code, 51091);
}

#[test]
fn scripts_are_the_callers() {
    #[derive(Debug)]
    struct Longer(usize);
    impl query::document::DocumentTest for Longer {
        fn matches(
            &self,
            document: &Value,
            _: &query::document::Variables,
        ) -> Result<bool, Failure> {
            Ok(document.as_object().is_some_and(|object| object.len() > self.0))
        }
    }
    let compile_script = |source: &str, _: Option<&model::Object>| {
        Ok(std::sync::Arc::new(Longer(source.len())) as std::sync::Arc<_>)
    };
    let options = FilterOptions { compile_script: Some(&compile_script), ..options() };
    let predicate = compile(&bson_object(r#"{"$where": "x"}"#), &options).unwrap();
    assert!(predicate.matches(&bson(r#"{"a": 1, "b": 1}"#), &variables()).unwrap());
    assert!(!predicate.matches(&bson(r#"{"a": 1}"#), &variables()).unwrap());
}

#[test]
fn scripts_of_the_command_decide() {
    struct HasName;
    impl query::document::Scripts for HasName {
        fn call(&self, source: &str, arguments: Vec<Value>) -> Result<Option<Value>, Failure> {
            assert!(source.contains("this.name"), "{source}");
            Ok(arguments.first().map(|document| Value::Bool(document.field("name").is_some())))
        }
    }
    let options = FilterOptions { compile_script: Some(&super::where_script), ..options() };
    let predicate = compile(&bson_object(r#"{"$where": "this.name"}"#), &options).unwrap();
    let mut variables = variables();
    variables.set_scripts(std::sync::Arc::new(HasName));
    assert!(predicate.matches(&bson(r#"{"name": 1}"#), &variables).unwrap());
    assert!(!predicate.matches(&bson(r#"{"a": 1}"#), &variables).unwrap());
}

#[test]
fn restricted_filters_have_no_operators_on_documents() {
    let options = FilterOptions { is_restricted: true, ..options() };
    let failure = |filter: &str| compile(&bson_object(filter), &options).unwrap_err();
    let expected = Failure::new(224, "$expr is not allowed in this context");
    assert_eq!(failure(r#"{"$expr": true}"#), expected);
    assert_eq!(failure(r#"{"$where": "1"}"#).message, "$where is not allowed in this context");
}
