//! Updates as clients write them.

use model::Object;
use query::document::print::PrintedObject;
use query::document::update::Update;
use query::document::{Failure, UpdateContext, types};

use super::{UpdateOptions, compile};
use crate::mongo::filter;
use crate::mongo::test_support::{bson, bson_object, options, variables};

fn update_of(update: &str) -> Result<Update, Failure> {
    compile(&bson(update), &UpdateOptions::new(options()))
}

/// The next version of a document that matched `filter`; `None` if it is the same.
fn updated(document: &str, filter: &str, update: &str) -> Result<Option<Object>, Failure> {
    let variables = variables();
    let filter = filter::compile(&bson_object(filter), &options())?;
    let position = filter.matched_position(&bson(document), &variables)?.flatten();
    let context = UpdateContext::new(&variables, position);
    update_of(update)?.apply(&bson_object(document), &context)
}

fn check_with(filter: &str, document: &str, update: &str, expected: &str) {
    let next = updated(document, filter, update).unwrap_or_else(|e| panic!("{update}: {e}"));
    let next = next.unwrap_or_else(|| bson_object(document));
    let expected = bson_object(expected);
    let is_same = types::identical(&next.clone().into(), &expected.clone().into());
    assert!(is_same, "{update}\n{}\n{}", PrintedObject(&next), PrintedObject(&expected));
}

fn check(document: &str, update: &str, expected: &str) {
    check_with("{}", document, update, expected);
}

fn check_unchanged(document: &str, update: &str) {
    assert_eq!(updated(document, "{}", update), Ok(None), "{update}");
}

fn check_failure(document: &str, update: &str, code: i32, message: &str) {
    let failure = updated(document, "{}", update).expect_err(update);
    assert_eq!(failure, Failure::new(code, message), "{update}");
}

#[test]
fn fields_are_set_and_created() {
    check(r#"{"_id": 1, "a": 1}"#, r#"{"$set": {"a": 2}}"#, r#"{"_id": 1, "a": 2}"#);
    check(
        r#"{"_id": 1}"#,
        r#"{"$set": {"c": 1, "b.d": 2, "b.c": 3}}"#,
        r#"{"_id": 1, "b": {"c": 3, "d": 2}, "c": 1}"#,
    );
    check(r#"{"a": [1]}"#, r#"{"$set": {"a.3": 4}}"#, r#"{"a": [1, null, null, 4]}"#);
    check(r#"{"a": [{"b": 1}]}"#, r#"{"$set": {"a.0.b": 2}}"#, r#"{"a": [{"b": 2}]}"#);
    check(r#"{}"#, r#"{"$set": {"a.0": 1}}"#, r#"{"a": {"0": 1}}"#);
    check(
        r#"{}"#,
        r#"{"$set": {"10": 1, "9": 1, "b": 1, "a": 1}}"#,
        r#"{"9": 1, "10": 1, "a": 1, "b": 1}"#,
    );
    check_unchanged(r#"{"a": 1}"#, r#"{"$set": {"a": 1}}"#);
    check(r#"{"a": 1}"#, r#"{"$set": {"a": {"$double": 1}}}"#, r#"{"a": {"$double": 1}}"#);
    check_unchanged(r#"{"a": 1}"#, r#"{"$set": {}}"#);
    check_unchanged(r#"{"a": 1}"#, r#"{"$setOnInsert": {"b": 1}}"#);
    let failure = "Cannot create field 'b' in element {a: 1}";
    check_failure(r#"{"a": 1}"#, r#"{"$set": {"a.b": 1}}"#, 28, failure);
    let failure = "Cannot create field 'b' in element {a: [ 1, 2 ]}";
    check_failure(r#"{"a": [1, 2]}"#, r#"{"$set": {"a.b": 1}}"#, 28, failure);
    let failure = "can't backfill more than 1500000 elements";
    check_failure(r#"{"a": []}"#, r#"{"$set": {"a.1500001": 1}}"#, 34, failure);
}

#[test]
fn fields_are_removed() {
    check(r#"{"a": 1, "b": 2}"#, r#"{"$unset": {"a": ""}}"#, r#"{"b": 2}"#);
    check(r#"{"a": {"b": 1, "c": 2}}"#, r#"{"$unset": {"a.b": 1}}"#, r#"{"a": {"c": 2}}"#);
    check(r#"{"a": [1, 2]}"#, r#"{"$unset": {"a.0": 1}}"#, r#"{"a": [null, 2]}"#);
    check_unchanged(r#"{"a": [null, 2]}"#, r#"{"$unset": {"a.0": 1}}"#);
    for update in [r#"{"$unset": {"b": 1}}"#, r#"{"$unset": {"a.b.c": 1}}"#] {
        check_unchanged(r#"{"a": 1}"#, update);
        check_unchanged(r#"{"a": [1]}"#, update);
    }
}

#[test]
fn numbers_are_added_and_multiplied() {
    check(r#"{"a": 1}"#, r#"{"$inc": {"a": 2, "b": 3}}"#, r#"{"a": 3, "b": 3}"#);
    check(r#"{"a": 2147483647}"#, r#"{"$inc": {"a": 1}}"#, r#"{"a": {"$long": 2147483648}}"#);
    check(r#"{"a": {"$long": 1}}"#, r#"{"$inc": {"a": 1}}"#, r#"{"a": {"$long": 2}}"#);
    check(r#"{"a": 1}"#, r#"{"$inc": {"a": 0.5}}"#, r#"{"a": 1.5}"#);
    check(
        r#"{"a": 1}"#,
        r#"{"$inc": {"a": {"$decimal": "0.1"}}}"#,
        r#"{"a": {"$decimal": "1.1"}}"#,
    );
    check(
        r#"{"a": 3}"#,
        r#"{"$mul": {"a": 2, "b": {"$long": 7}}}"#,
        r#"{"a": 6, "b": {"$long": 0}}"#,
    );
    check(
        r#"{"a": 3}"#,
        r#"{"$mul": {"a": {"$decimal": "0.10"}}}"#,
        r#"{"a": {"$decimal": "0.30"}}"#,
    );
    check_unchanged(r#"{"a": 1}"#, r#"{"$inc": {"a": 0}}"#);
    check(r#"{"a": 1}"#, r#"{"$inc": {"a": {"$long": 0}}}"#, r#"{"a": {"$long": 1}}"#);
    check_failure(
        "{}",
        r#"{"$inc": {"v": "s"}}"#,
        14,
        "Cannot increment with non-numeric argument: {v: \"s\"}",
    );
    check_failure(
        "{}",
        r#"{"$mul": {"v": "s"}}"#,
        14,
        "Cannot multiply with non-numeric argument: {v: \"s\"}",
    );
    check_failure(
        r#"{"_id": 1, "v": "s"}"#,
        r#"{"$inc": {"v": 1}}"#,
        14,
        "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 'v' of \
         non-numeric type string",
    );
    check_failure(
        r#"{"_id": 1, "v": null}"#,
        r#"{"$mul": {"v": 1}}"#,
        14,
        "Cannot apply $mul to a value of non-numeric type. {_id: 1} has the field 'v' of \
         non-numeric type null",
    );
    check_failure(
        r#"{"_id": 1, "v": 9223372036854775807}"#,
        r#"{"$inc": {"v": 1}}"#,
        2,
        "Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for \
         document {_id: 1}",
    );
}

#[test]
fn the_least_and_the_greatest_are_kept() {
    check(
        r#"{"a": 5, "b": 5}"#,
        r#"{"$min": {"a": 3, "b": 7, "c": 1}}"#,
        r#"{"a": 3, "b": 5, "c": 1}"#,
    );
    check(r#"{"a": 5, "b": 5}"#, r#"{"$max": {"a": 3, "b": "text"}}"#, r#"{"a": 5, "b": "text"}"#);
    check_unchanged(r#"{"a": 5}"#, r#"{"$min": {"a": 5.0}}"#);
}

#[test]
fn fields_change_their_names() {
    check(r#"{"a": 1, "b": 2}"#, r#"{"$rename": {"a": "c"}}"#, r#"{"b": 2, "c": 1}"#);
    check(r#"{"a": 1, "b": 2}"#, r#"{"$rename": {"a": "b"}}"#, r#"{"b": 1}"#);
    check(r#"{"a": {"b": 1}}"#, r#"{"$rename": {"a.b": "c.d"}}"#, r#"{"a": {}, "c": {"d": 1}}"#);
    check_unchanged(r#"{"b": 2}"#, r#"{"$rename": {"a": "c"}}"#);
    for (update, message) in [
        (r#"{"$rename": {"a": 1}}"#, "The 'to' field for $rename must be a string: a: 1"),
        (
            r#"{"$rename": {"a": "a"}}"#,
            "The source and target field for $rename must differ: a: \"a\"",
        ),
        (
            r#"{"$rename": {"a": "a.b"}}"#,
            "The source and target field for $rename must not be on the same path: a: \"a.b\"",
        ),
        (r#"{"$rename": {"a.$": "b"}}"#, "The source field for $rename may not be dynamic: a.$"),
        (
            r#"{"$rename": {"a": "b.$[]"}}"#,
            "The destination field for $rename may not be dynamic: b.$[]",
        ),
    ] {
        check_failure("{}", update, 2, message);
    }
    check_failure(
        r#"{"_id": 1, "a": [{"b": 1}]}"#,
        r#"{"$rename": {"a.0.b": "c"}}"#,
        2,
        "The source field cannot be an array element, 'a.0.b' in doc with _id: 1 has an array \
         field called 'a'",
    );
    check_failure(
        r#"{"_id": 1, "a": [1], "b": 1}"#,
        r#"{"$rename": {"b": "a.0"}}"#,
        2,
        "The destination field cannot be an array element, 'a.0' in doc with _id: 1 has an array \
         field called 'a'",
    );
}

#[test]
fn the_time_is_that_of_the_command() {
    check(
        "{}",
        r#"{"$currentDate": {"a": true, "b": {"$type": "date"}}}"#,
        r#"{"a": {"$date": 1600000000000}, "b": {"$date": 1600000000000}}"#,
    );
    check(
        "{}",
        r#"{"$currentDate": {"a": {"$type": "timestamp"}}}"#,
        r#"{"a": {"$timestamp": 1600000000}}"#,
    );
    check_failure(
        "{}",
        r#"{"$currentDate": {"a": "x"}}"#,
        2,
        "string is not valid type for $currentDate. Please use a boolean ('true') or a $type \
         expression ({$type: 'timestamp/date'}).",
    );
    check_failure(
        "{}",
        r#"{"$currentDate": {"a": {"$type": "x"}}}"#,
        2,
        "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field \
         : {$type: 'date'}}}",
    );
    check_failure(
        "{}",
        r#"{"$currentDate": {"a": {"x": 1}}}"#,
        2,
        "Unrecognized $currentDate option: x",
    );
}

#[test]
fn bits_are_combined() {
    check(
        r#"{"a": 13, "b": 3, "c": 1}"#,
        r#"{"$bit": {"a": {"and": 10}, "b": {"or": 5}, "c": {"xor": {"$long": 5}}, "d": {"or": 2}}}"#,
        r#"{"a": 8, "b": 7, "c": {"$long": 4}, "d": 2}"#,
    );
    check_failure(
        "{}",
        r#"{"$bit": {"a": {"foo": 1}}}"#,
        2,
        "The $bit modifier only supports 'and', 'or', and 'xor', not 'foo' which is an unknown \
         operator: {foo: 1}",
    );
    check_failure(
        "{}",
        r#"{"$bit": {"a": {"and": 1.5}}}"#,
        2,
        "The $bit modifier field must be an Integer(32/64 bit); a 'double' is not supported here: \
         {and: 1.5}",
    );
    check_failure(
        "{}",
        r#"{"$bit": {"a": 1}}"#,
        2,
        "The $bit modifier is not compatible with a int. You must pass in an embedded document: \
         {$bit: {field: {and/or/xor: #}}",
    );
    check_failure(
        r#"{"_id": 1, "a": 1.5}"#,
        r#"{"$bit": {"a": {"and": 1}}}"#,
        2,
        "Cannot apply $bit to a value of non-integral type._id: 1 has the field a of non-integer \
         type double",
    );
}

#[test]
fn elements_are_pushed() {
    let push = |argument: &str, expected: &str| {
        let update = format!("{{\"$push\": {{\"a\": {argument}}}}}");
        check(r#"{"a": [3, 1]}"#, &update, &format!("{{\"a\": {expected}}}"));
    };
    push("2", "[3, 1, 2]");
    push("[2]", "[3, 1, [2]]");
    push(r#"{"$each": [2, 5]}"#, "[3, 1, 2, 5]");
    push(r#"{"$each": [2, 5], "$position": 1}"#, "[3, 2, 5, 1]");
    push(r#"{"$each": [2], "$position": -1}"#, "[3, 2, 1]");
    push(r#"{"$each": [2], "$sort": 1}"#, "[1, 2, 3]");
    push(r#"{"$each": [2], "$sort": -1, "$slice": 2}"#, "[3, 2]");
    push(r#"{"$each": [2], "$slice": -2}"#, "[1, 2]");
    push(r#"{"$each": [], "$slice": 0}"#, "[]");
    check("{}", r#"{"$push": {"a": 1}}"#, r#"{"a": [1]}"#);
    check(
        r#"{"a": [{"b": 2}, {"b": 1}]}"#,
        r#"{"$push": {"a": {"$each": [{"c": 1}], "$sort": {"b": 1}}}}"#,
        r#"{"a": [{"c": 1}, {"b": 1}, {"b": 2}]}"#,
    );
    check_unchanged(r#"{"a": [1]}"#, r#"{"$push": {"a": {"$each": []}}}"#);
    for (argument, message) in [
        (
            r#"{"$each": 1}"#,
            "The argument to $each in $push must be an array but it was of type: int",
        ),
        (
            r#"{"$each": [], "$slice": "x"}"#,
            "The value for $slice must be an integer value but was given type: string",
        ),
        (
            r#"{"$each": [], "$position": "x"}"#,
            "The value for $position must be an integer value, not of type: string",
        ),
        (r#"{"$each": [], "$sort": 2}"#, "The $sort element value must be either 1 or -1"),
        (
            r#"{"$each": [], "$sort": "x"}"#,
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
             embedded fields",
        ),
        (r#"{"$each": [], "foo": 1}"#, "Unrecognized clause in $push: foo"),
    ] {
        check_failure("{}", &format!("{{\"$push\": {{\"a\": {argument}}}}}"), 2, message);
    }
    check_failure(
        r#"{"_id": 1, "a": 1}"#,
        r#"{"$push": {"a": 1}}"#,
        2,
        "The field 'a' must be an array but is of type int in document {_id: 1}",
    );
}

#[test]
fn sets_have_no_equal_elements() {
    check(r#"{"a": [1]}"#, r#"{"$addToSet": {"a": 2}}"#, r#"{"a": [1, 2]}"#);
    check_unchanged(r#"{"a": [1]}"#, r#"{"$addToSet": {"a": {"$double": 1}}}"#);
    check("{}", r#"{"$addToSet": {"a": {"$each": [1, 2, 1]}}}"#, r#"{"a": [1, 2]}"#);
    check_failure(
        r#"{"a": 1}"#,
        r#"{"$addToSet": {"a": 1}}"#,
        2,
        "Cannot apply $addToSet to non-array field. Field named 'a' has non-array type int",
    );
    check_failure(
        "{}",
        r#"{"$addToSet": {"a": {"$each": 1}}}"#,
        14,
        "The argument to $each in $addToSet must be an array but it was of type int",
    );
}

#[test]
fn elements_are_removed() {
    check(r#"{"a": [1, 2]}"#, r#"{"$pop": {"a": 1}}"#, r#"{"a": [1]}"#);
    check(r#"{"a": [1, 2]}"#, r#"{"$pop": {"a": -1}}"#, r#"{"a": [2]}"#);
    check_unchanged(r#"{"a": []}"#, r#"{"$pop": {"a": 1, "b": 1}}"#);
    check_failure("{}", r#"{"$pop": {"a": 2}}"#, 9, "$pop expects 1 or -1, found: 2");
    check_failure("{}", r#"{"$pop": {"a": "x"}}"#, 9, "Expected a number in: a: \"x\"");
    check_failure(
        r#"{"a": 1}"#,
        r#"{"$pop": {"a": 1}}"#,
        14,
        "Path 'a' contains an element of non-array type 'int'",
    );
    let pull = |condition: &str, expected: &str| {
        let document = r#"{"a": [1, 5, "ab", {"b": 1, "c": 2}, [5]]}"#;
        let update = format!("{{\"$pull\": {{\"a\": {condition}}}}}");
        check(document, &update, &format!("{{\"a\": {expected}}}"));
    };
    pull("5", r#"[1, "ab", {"b": 1, "c": 2}, [5]]"#);
    pull(r#"{"b": 1}"#, r#"[1, 5, "ab", [5]]"#);
    pull(r#"{"$gte": 5}"#, r#"[1, "ab", {"b": 1, "c": 2}]"#);
    pull(r#"{"$in": [1, "ab"]}"#, r#"[5, {"b": 1, "c": 2}, [5]]"#);
    pull(r#"{"$re": ["^A", "i"]}"#, r#"[1, 5, {"b": 1, "c": 2}, [5]]"#);
    pull("[5]", r#"[1, 5, "ab", {"b": 1, "c": 2}]"#);
    check_unchanged(r#"{"a": [1]}"#, r#"{"$pull": {"a": 2, "b": 1}}"#);
    check_failure(
        r#"{"a": 1}"#,
        r#"{"$pull": {"a": 1}}"#,
        2,
        "Cannot apply $pull to a non-array value",
    );
    check(
        r#"{"a": [1, {"b": 1}, 1.0, 2]}"#,
        r#"{"$pullAll": {"a": [1, {"b": 1}]}}"#,
        r#"{"a": [2]}"#,
    );
    check_failure(
        "{}",
        r#"{"$pullAll": {"a": 1}}"#,
        2,
        "$pullAll requires an array argument but was given a int",
    );
}

#[test]
fn the_element_that_matched_is_changed() {
    let document = r#"{"a": [1, 5], "b": [{"c": 1}, {"c": 2}]}"#;
    check_with(
        r#"{"a": {"$gt": 3}}"#,
        document,
        r#"{"$set": {"a.$": 9}}"#,
        r#"{"a": [1, 9], "b": [{"c": 1}, {"c": 2}]}"#,
    );
    check_with(
        r#"{"b.c": 2}"#,
        document,
        r#"{"$inc": {"b.$.c": 1, "b.0.c": 1}}"#,
        r#"{"a": [1, 5], "b": [{"c": 2}, {"c": 3}]}"#,
    );
    check_failure(
        document,
        r#"{"$set": {"a.$": 9}}"#,
        2,
        "The positional operator did not find the match needed from the query.",
    );
    let failure = updated(document, r#"{"a": 5}"#, r#"{"$set": {"a.$": 9, "a.1": 8}}"#);
    assert_eq!(failure.unwrap_err(), Failure::new(40, "Update created a conflict at 'a.1'"));
    check_failure(
        "{}",
        r#"{"$set": {"$.a": 1}}"#,
        2,
        "Cannot have positional (i.e. '$') element in the first position in path '$.a'",
    );
    check_failure(
        "{}",
        r#"{"$set": {"a.$.b.$": 1}}"#,
        2,
        "Too many positional (i.e. '$') elements found in path 'a.$.b.$'",
    );
}

fn filtered(document: &str, update: &str, filters: &str) -> Result<Option<Object>, Failure> {
    let filters = bson(filters);
    let filters: Vec<Object> = filters
        .as_array()
        .unwrap()
        .iter()
        .map(|filter| filter.as_object().unwrap().clone())
        .collect();
    let options = UpdateOptions { array_filters: &filters, ..UpdateOptions::new(options()) };
    let variables = variables();
    compile(&bson(update), &options)?
        .apply(&bson_object(document), &UpdateContext::new(&variables, None))
}

#[test]
fn elements_that_pass_a_filter_are_changed() {
    let check = |document: &str, update: &str, filters: &str, expected: &str| {
        let next = filtered(document, update, filters).unwrap().unwrap();
        assert_eq!(next, bson_object(expected), "{update}");
    };
    check(r#"{"a": [1, 2]}"#, r#"{"$inc": {"a.$[]": 1}}"#, "[]", r#"{"a": [2, 3]}"#);
    check(
        r#"{"a": [1, 5]}"#,
        r#"{"$set": {"a.$[e]": 0}}"#,
        r#"[{"e": {"$gt": 3}}]"#,
        r#"{"a": [1, 0]}"#,
    );
    check(
        r#"{"a": [{"b": 1}, {"b": 2}]}"#,
        r#"{"$set": {"a.$[e].c": 0}}"#,
        r#"[{"e.b": 2}]"#,
        r#"{"a": [{"b": 1}, {"b": 2, "c": 0}]}"#,
    );
    check(
        r#"{"a": [[1, 2], [3]]}"#,
        r#"{"$mul": {"a.$[].$[e]": 2}}"#,
        r#"[{"e": {"$gte": 2}}]"#,
        r#"{"a": [[1, 4], [6]]}"#,
    );
    check(
        r#"{"a": [1, 5, 9]}"#,
        r#"{"$unset": {"a.$[e]": 1}}"#,
        r#"[{"$or": [{"e": 1}, {"e": 9}]}]"#,
        r#"{"a": [null, 5, null]}"#,
    );
    assert_eq!(filtered(r#"{"a": [1]}"#, r#"{"$set": {"a.$[e]": 0}}"#, r#"[{"e": 2}]"#), Ok(None));
    for (document, update, filters, code, message) in [
        (
            "{}",
            r#"{"$set": {"a": 1}}"#,
            r#"[{"i": 1}]"#,
            9,
            "The array filter for identifier 'i' was not used in the update { $set: { a: 1 } }",
        ),
        (
            "{}",
            r#"{"$set": {"a.$[i]": 1}}"#,
            "[]",
            2,
            "No array filter found for identifier 'i' in path 'a.$[i]'",
        ),
        (
            "{}",
            r#"{"$set": {"a.$[i]": 1}}"#,
            r#"[{"i": 1}, {"i": 2}]"#,
            9,
            "Found multiple array filters with the same top-level field name i",
        ),
        (
            "{}",
            r#"{"$set": {"a.$[i]": 1}}"#,
            r#"[{"i": 1, "j": 2}]"#,
            9,
            "Error parsing array filter :: caused by :: Expected a single top-level field name, \
             found 'i' and 'j'",
        ),
        (
            "{}",
            r#"{"$set": {"a.$[I]": 1}}"#,
            r#"[{"I": 1}]"#,
            2,
            "Error parsing array filter :: caused by :: The top-level field name must be an \
             alphanumeric string beginning with a lowercase letter, found 'I'",
        ),
        (
            "{}",
            r#"{"$set": {"a.$[i]": 1}}"#,
            "[{}]",
            9,
            "Cannot use an expression without a top-level field name in arrayFilters",
        ),
        (
            "{}",
            r#"{"$set": {"a.$[]": 1}}"#,
            "[]",
            2,
            "The path 'a' must exist in the document in order to apply array updates.",
        ),
        (
            r#"{"a": 1}"#,
            r#"{"$set": {"a.$[]": 1}}"#,
            "[]",
            2,
            "Cannot apply array updates to non-array element a: 1",
        ),
    ] {
        let failure = filtered(document, update, filters).expect_err(update);
        assert_eq!(failure, Failure::new(code, message), "{update}");
    }
}

#[test]
fn a_replacement_keeps_the_id() {
    check(r#"{"_id": 1, "a": 1}"#, r#"{"b": 2}"#, r#"{"_id": 1, "b": 2}"#);
    check(r#"{"_id": 1, "a": 1}"#, r#"{"b": 2, "_id": 1}"#, r#"{"_id": 1, "b": 2}"#);
    check_unchanged(r#"{"_id": 1, "a": 1}"#, r#"{"a": 1}"#);
    check(r#"{"_id": 1, "a": 1}"#, "{}", r#"{"_id": 1}"#);
    check_failure(
        r#"{"_id": 1}"#,
        r#"{"_id": 2}"#,
        66,
        "After applying the update, the (immutable) field '_id' was found to have been altered to \
         _id: 2",
    );
    let failure = updated("{}", "{}", r#"{"a": 1, "$set": {"b": 1}}"#).unwrap_err();
    assert_eq!(failure.code, 52);
    check_failure("{}", r#"{"_id": [1]}"#, 53, "The '_id' value cannot be of type array");
}

#[test]
fn the_id_does_not_change() {
    let message = "Performing an update on the path '_id' would modify the immutable field '_id'";
    let document = r#"{"_id": {"a": 1}}"#;
    for update in
        [r#"{"$set": {"_id": 2}}"#, r#"{"$unset": {"_id": 1}}"#, r#"{"$rename": {"_id": "b"}}"#]
    {
        check_failure(document, update, 66, message);
    }
    check_failure(
        document,
        r#"{"$set": {"_id.a": 2}}"#,
        66,
        &message.replace("'_id' w", "'_id.a' w"),
    );
    check_unchanged(document, r#"{"$set": {"_id.a": 1}}"#);
}

#[test]
fn mistakes_are_found_before_a_document_is_touched() {
    for (update, code, message) in [
        (
            r#"{"$foo": {"a": 1}}"#,
            9,
            "Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update \
             specified as an array",
        ),
        (
            r#"{"$set": 1}"#,
            9,
            "Modifiers operate on fields but we found type int instead. For example: {$mod: \
             {<field>: ...}} not {$set: 1}",
        ),
        (
            r#"{"$set": {"a": 1}, "$inc": {"a": 1}}"#,
            40,
            "Updating the path 'a' would create a conflict at 'a'",
        ),
        (
            r#"{"$set": {"a": 1}, "$inc": {"a.b": 1}}"#,
            40,
            "Updating the path 'a.b' would create a conflict at 'a'",
        ),
        (
            r#"{"$set": {"a.b": 1}, "$inc": {"a": 1}}"#,
            40,
            "Updating the path 'a' would create a conflict at 'a'",
        ),
        (
            r#"{"$set": {"a.$[]": 1}, "$inc": {"a.0": 1}}"#,
            40,
            "Updating the path 'a.0' would create a conflict at 'a'",
        ),
        (
            r#"{"$rename": {"a": "b"}, "$set": {"b": 1}}"#,
            40,
            "Updating the path 'b' would create a conflict at 'b'",
        ),
        (r#"{"$set": {"": 1}}"#, 56, "An empty update path is not valid."),
        (
            r#"{"$set": {"a.": 1}}"#,
            56,
            "The update path 'a.' contains an empty field name, which is not allowed.",
        ),
        (
            r#"{"$set": {"a.$b": 1}}"#,
            52,
            "The dollar ($) prefixed field '$b' in 'a.$b' is not allowed in the context of an \
             update's replacement document. Consider using an aggregation pipeline with \
             $replaceWith.",
        ),
    ] {
        let failure = update_of(update).map(|_| ()).expect_err(update);
        assert_eq!(failure, Failure::new(code, message), "{update}");
    }
    let failure = update_of("[]").map(|_| ()).unwrap_err();
    assert_eq!(failure.code, 115);
}

#[test]
fn results_have_limits() {
    let path = vec!["a"; 101].join(".");
    let failure = updated("{}", "{}", &format!("{{\"$set\": {{\"{path}\": 1}}}}")).unwrap_err();
    assert_eq!(failure.code, 15);
    let half = "x".repeat(9 << 20);
    let failure = updated(
        &format!("{{\"a\": \"{half}\"}}"),
        "{}",
        &format!("{{\"$set\": {{\"b\": \"{half}\"}}}}"),
    )
    .unwrap_err();
    assert_eq!(
        failure,
        Failure::new(17419, "Resulting document after update is larger than 16777216")
    );
}

#[test]
fn cheap_updates_are_known() {
    let is_cheap = |update: &str| update_of(update).unwrap().is_cheap();
    assert!(is_cheap(r#"{"$inc": {"a": 1}, "$push": {"b": 1}}"#) && is_cheap("{}"));
    assert!(!is_cheap(r#"{"$pull": {"a": {"b": 1}}}"#));
    assert!(!is_cheap(r#"{"$push": {"a": {"$each": [], "$sort": 1}}}"#));
    let needs = |update: &str| update_of(update).unwrap().needs_position();
    assert!(needs(r#"{"$set": {"a.$.b": 1}}"#) && !needs(r#"{"$set": {"a.$[].b": 1}}"#));
}
