//! The keys of some documents, and of any against the candidates of filters.

use model::json;

use super::*;

pub(in crate::document) fn document(text: &str) -> Value {
    json::extended::parse(text.as_bytes(), 32).unwrap()
}

pub(in crate::document) fn column(text: &str) -> IndexColumn {
    let (path, kind) = match text.split_at_checked(1) {
        Some(("-", path)) => (path, ColumnKind::Descending),
        Some(("#", path)) => (path, ColumnKind::Hashed),
        _ => (text, ColumnKind::Ascending),
    };
    IndexColumn { path: FieldPath::parse(path), kind }
}

/// An index on these columns, of which `-` marks descending and `#` hashed ones.
pub(in crate::document) fn index(columns: &[&str]) -> OrderedIndex {
    let columns = columns.iter().map(|text| column(text)).collect();
    OrderedIndex { columns, is_sparse: false, partial: None }
}

/// Checks the keys: the values of the columns as JSON, a whole array as `whole`, *undefined* as
/// `undefined`.
#[track_caller]
fn check(columns: &[&str], text: &str, expected: &[&[&str]], multikey: u64) {
    let index = index(columns);
    let found = index.keys(&document(text)).unwrap();
    let encode = |parts: &&[&str]| {
        let mut key = Vec::new();
        for (part, column) in parts.iter().zip(&index.columns) {
            let from = key.len();
            match part.strip_prefix("whole ") {
                Some(array) => {
                    key.push(WHOLE_ARRAY);
                    order::encode(TypeOrder::Bson, Some(&document(array)), &mut key);
                }
                None if *part == "undefined" => order::encode(TypeOrder::Bson, None, &mut key),
                None => order::encode(TypeOrder::Bson, Some(&document(part)), &mut key),
            }
            if column.kind == ColumnKind::Descending {
                complement(&mut key[from..]);
            }
        }
        key
    };
    let mut expected: Vec<Vec<u8>> = expected.iter().map(encode).collect();
    expected.sort();
    assert_eq!(found, IndexKeys { keys: expected, multikey });
}

#[test]
fn values_are_keys_and_what_is_missing_is_null() {
    check(&["a"], r#"{"a":1}"#, &[&["1"]], 0);
    check(&["-a", "b.c"], r#"{"a":"x","b":{"c":true}}"#, &[&["\"x\"", "true"]], 0);
    check(&["a", "b.c"], r#"{"b":7}"#, &[&["null", "null"]], 0);
    check(&["a"], r#"{"a":{"$undefined":true}}"#, &[&["undefined"]], 0);
    check(&["a"], r#"{"a":{"b":1}}"#, &[&[r#"{"b":1}"#]], 0);
}

#[test]
fn elements_of_arrays_are_keys_and_so_is_the_whole() {
    check(&["a"], r#"{"a":[2,1,2]}"#, &[&["1"], &["2"], &["whole [2,1,2]"]], 1);
    check(&["a"], r#"{"a":[]}"#, &[&["undefined"], &["whole []"]], 1);
    check(&["a"], r#"{"a":[[1],null]}"#, &[&["[1]"], &["null"], &["whole [[1],null]"]], 1);
    check(&["b", "a"], r#"{"a":[1],"b":5}"#, &[&["5", "1"], &["5", "whole [1]"]], 2);
    check(&["-a"], r#"{"a":[1,2]}"#, &[&["1"], &["2"], &["whole [1,2]"]], 1);
}

#[test]
fn columns_through_one_array_have_values_of_one_element() {
    let text = r#"{"a":[{"b":1,"c":2},{"b":3},4]}"#;
    check(&["a.b", "a.c"], text, &[&["1", "2"], &["3", "null"], &["null", "null"]], 3);
    check(&["a.b"], r#"{"a":[]}"#, &[&["null"]], 1);
    check(
        &["a.b"],
        r#"{"a":[{"b":[1,2]},{"b":3}]}"#,
        &[&["1"], &["2"], &["3"], &["whole [1,2]"]],
        1,
    );
    check(
        &["a", "a.b"],
        r#"{"a":[{"b":1}]}"#,
        &[&[r#"{"b":1}"#, "1"], &[r#"whole [{"b":1}]"#, "1"]],
        3,
    );
}

#[test]
fn numbers_in_paths_are_positions_too() {
    check(&["a.1"], r#"{"a":[5,6]}"#, &[&["null"], &["6"]], 1);
    check(&["a.0.b"], r#"{"a":[{"b":1},{"b":2}]}"#, &[&["null"], &["1"]], 1);
    check(&["a.0"], r#"{"a":{"0":7}}"#, &[&["7"]], 0);
    check(&["a.0"], r#"{"a":[[1]]}"#, &[&["null"], &["1"], &["whole [1]"]], 1);
}

#[test]
fn arrays_side_by_side_are_refused() {
    let parallel = document(r#"{"a":[1],"b":[2]}"#);
    let error = index(&["a", "b"]).keys(&parallel).unwrap_err();
    assert_eq!(error, Failure::new(171, "cannot index parallel arrays [b] [a]"));
    let inside = document(r#"{"x":{"a":[1],"b":{"c":[2]}}}"#);
    assert_eq!(index(&["x.a", "x.b.c"]).keys(&inside).unwrap_err().code, 171);
    let error = sort_values(&parallel, &[column("a"), column("b")]).unwrap_err();
    assert_eq!(error.code, 2);
}

#[test]
fn too_many_keys_are_refused() {
    let array = |n: i32| Value::Array((0..n).map(Value::Int32).collect());
    let with = |n| Value::Object([("a".to_owned(), array(n))].into_iter().collect());
    assert_eq!(index(&["a"]).keys(&with(99_999)).unwrap().keys.len(), 100_000);
    assert_eq!(index(&["a"]).keys(&with(100_001)).unwrap_err().code, 13064);
    let long = "x".repeat(400);
    let mut document = with(90_000);
    for name in ["b", "c"] {
        document.as_object_mut().unwrap().insert(name, Value::from(long.clone()));
    }
    assert_eq!(index(&["b", "c", "a"]).keys(&document).unwrap_err().code, 13064);
}

#[test]
fn sparse_and_partial_indexes_leave_documents_out() {
    let sparse = OrderedIndex { is_sparse: true, ..index(&["a", "b"]) };
    assert!(sparse.keys(&document(r#"{"c":1}"#)).unwrap().keys.is_empty());
    assert_eq!(sparse.keys(&document(r#"{"b":null}"#)).unwrap().keys.len(), 1);
    let filter = Predicate::Field {
        path: FieldPath::parse("c"),
        test: crate::document::predicate::ValueTest::Exists,
    };
    let partial = OrderedIndex { partial: Some(filter), ..index(&["a"]) };
    assert!(partial.keys(&document(r#"{"a":[1,2]}"#)).unwrap().keys.is_empty());
    assert_eq!(partial.keys(&document(r#"{"c":1}"#)).unwrap().keys.len(), 1);
    let mut mask = FieldMask::NOTHING;
    partial.require(&mut mask);
    assert!(mask.has_field("a") && mask.has_field("c") && !mask.has_field("b"));
}

#[test]
fn hashed_columns_take_no_arrays() {
    let hashed = index(&["#a"]);
    let keys = |text: &str| hashed.keys(&document(text)).unwrap().keys;
    assert_eq!(keys(r#"{"a":1}"#), keys(r#"{"a":1.0}"#));
    assert_eq!(keys(r#"{"a":null}"#), keys("{}"));
    assert_ne!(keys(r#"{"a":1}"#), keys(r#"{"a":2}"#));
    assert_eq!(hashed.keys(&document(r#"{"a":[1]}"#)).unwrap_err().code, 16766);
    assert_eq!(hashed.keys(&document(r#"{"a":[]}"#)).unwrap_err().code, 16766);
}

#[test]
fn documents_are_sorted_by_what_comes_first() {
    let values = |columns: &[&str], text: &str| -> Vec<Option<Value>> {
        let columns: Vec<IndexColumn> = columns.iter().map(|text| column(text)).collect();
        sort_values(&document(text), &columns).unwrap()
    };
    let one = |n: i32| vec![Some(Value::Int32(n))];
    assert_eq!(values(&["a"], r#"{"a":[3,1,2]}"#), one(1));
    assert_eq!(values(&["-a"], r#"{"a":[3,1,2]}"#), one(3));
    assert_eq!(values(&["a"], r#"{"a":[]}"#), vec![None]);
    assert_eq!(values(&["-a"], r#"{"b":1}"#), vec![Some(Value::Null)]);
    assert_eq!(values(&["a.b"], r#"{"a":[{"b":4},{"b":2}]}"#), one(2));
    let two = |a: i32, b: i32| vec![Some(Value::Int32(a)), Some(Value::Int32(b))];
    let text = r#"{"a":[{"b":1,"c":9},{"b":1,"c":5},{"b":2,"c":0}]}"#;
    assert_eq!(values(&["a.b", "a.c"], text), two(1, 5));
    assert_eq!(values(&["-a.b", "a.c"], text), two(2, 0));
}

#[test]
fn filters_of_partial_indexes_are_stored() {
    use crate::algebra::Relation;
    use crate::document::predicate::{InList, ValueTest};
    let field = |path: &str, test| Predicate::Field { path: FieldPath::parse(path), test };
    let more = ValueTest::Compare { relation: Relation::Greater, operand: Value::Double(5.0) };
    let list = InList::new(vec![Value::from("x"), Value::Null], Vec::new());
    let mut types = types::TypeSet::default();
    types.add_numbers();
    let filter = Predicate::And(vec![
        Predicate::Or(vec![field("a", more), field("b.c", ValueTest::In(list))]),
        field("d", ValueTest::Exists),
        field("d", ValueTest::Type(types)),
    ]);
    let stored = PartialFilter::of(&filter).unwrap();
    let again = stored.to_predicate().unwrap();
    assert_eq!(PartialFilter::of(&again), Some(stored));
    for (text, is_match) in [
        (r#"{"a":6,"d":1}"#, true),
        (r#"{"a":5,"d":1}"#, true),
        (r#"{"a":5,"b":{"c":"y"},"d":1}"#, false),
        (r#"{"a":6,"d":"x"}"#, false),
    ] {
        let variables = Variables::at(model::Date { millis: 0, ticks: 0 });
        assert_eq!(again.matches(&document(text), &variables), Ok(is_match), "{text}");
    }
    let size = field("a", ValueTest::Size(1));
    assert_eq!(PartialFilter::of(&size), None);
    assert_eq!(PartialFilter::of(&Predicate::Not(Box::new(filter))), None);
}

#[test]
fn values_are_found_by_their_key() {
    let index = index(&["a", "-b"]);
    let document = document(r#"{"a":[1,2]}"#);
    let keys = index.keys(&document).unwrap().keys;
    assert_eq!(index.values_of(&document, &keys[1]), Some(vec![Value::Int32(2), Value::Null]));
    assert_eq!(index.values_of(&document, b"x"), None);
}
