//! Bounds against the filters that they come from, and sorts against sorting.

use std::sync::Arc;

use model::Value;
use model::order::{TypeOrder, compare};
use proptest::prelude::*;

use super::*;
use crate::algebra::Relation;
use crate::document::index_keys::sort_values;
use crate::document::index_keys::tests::{column, document, index};
use crate::document::predicate::{InList, ValueTest};
use crate::document::{BsonType, FieldPath, Regex, TypeSet, Variables};

fn field(path: &str, test: ValueTest) -> Predicate {
    let path = if path.is_empty() { FieldPath::root() } else { FieldPath::parse(path) };
    Predicate::Field { path, test }
}

fn test_of(relation: Relation, operand: &str) -> ValueTest {
    ValueTest::Compare { relation, operand: document(operand) }
}

fn is(path: &str, relation: Relation, operand: &str) -> Predicate {
    field(path, test_of(relation, operand))
}

fn equal(path: &str, operand: &str) -> Predicate {
    is(path, Relation::Equal, operand)
}

fn and<const N: usize>(parts: [Predicate; N]) -> Predicate {
    Predicate::And(parts.into())
}

fn matches(filter: &Predicate, document: &Value) -> bool {
    let variables = Variables::at(model::Date { millis: 0, ticks: 0 });
    filter.matches(document, &variables).unwrap()
}

/// The documents whose keys lie within the bounds, by position; each once.
fn found(index: &OrderedIndex, bounds: &IndexBounds, documents: &[Value]) -> Vec<usize> {
    let is_within = |document: &&Value| {
        let keys = index.keys(document).unwrap().keys;
        keys.iter().any(|key| bounds.ranges.iter().any(|r| r.lo <= *key && *key < r.hi))
    };
    let positions = documents.iter().enumerate().filter(|(_, document)| is_within(document));
    positions.map(|(at, _)| at).collect()
}

fn multikey_of(index: &OrderedIndex, documents: &[Value]) -> u64 {
    documents.iter().fold(0, |all, document| all | index.keys(document).unwrap().multikey)
}

fn numbers(range: std::ops::Range<i32>) -> Vec<Value> {
    let with = |n: i32| document(&format!(r#"{{"a":{n},"b":{},"c":"x{n}"}}"#, n % 3));
    range.map(with).collect()
}

#[track_caller]
fn check_found(columns: &[&str], filter: &Predicate, documents: &[Value], expected: &[usize]) {
    let index = index(columns);
    let state = IndexState { index: &index, multikey: multikey_of(&index, documents) };
    let bounds = state.bounds(filter).expect("the filter restricts a column");
    assert_eq!(found(&index, &bounds, documents), expected);
}

#[test]
fn comparisons_are_ranges_of_their_class() {
    let mut documents = numbers(0..10);
    documents.push(document(r#"{"a":"text"}"#));
    documents.push(document(r#"{"a":{"$numberDouble":"NaN"}}"#));
    documents.push(document("{}"));
    for columns in [["a"], ["-a"]] {
        check_found(&columns, &is("a", Relation::Less, "3"), &documents, &[0, 1, 2]);
        check_found(&columns, &is("a", Relation::GreaterOrEqual, "8"), &documents, &[8, 9]);
        check_found(&columns, &equal("a", "4.0"), &documents, &[4]);
        check_found(&columns, &equal("a", "null"), &documents, &[12]);
        check_found(&columns, &is("a", Relation::Greater, "\"a\""), &documents, &[10]);
        check_found(&columns, &is("a", Relation::Greater, "null"), &documents, &[]);
        let nan = r#"{"$numberDouble":"NaN"}"#;
        check_found(&columns, &is("a", Relation::LessOrEqual, nan), &documents, &[11]);
    }
}

#[test]
fn several_columns_are_restricted_together() {
    let documents = numbers(0..30);
    let filter = and([equal("b", "1"), is("a", Relation::Greater, "20")]);
    for columns in [["b", "a"], ["b", "-a"], ["-b", "a"]] {
        let index = index(&columns);
        let bounds = IndexState { index: &index, multikey: 0 }.bounds(&filter).unwrap();
        assert_eq!((bounds.fixed, bounds.columns, bounds.is_exact), (1, 2, true));
        assert_eq!(found(&index, &bounds, &documents), [22, 25, 28]);
    }
    let list = InList::new(vec![Value::Int32(0), Value::Int32(2)], Vec::new());
    let filter = and([field("b", ValueTest::In(list)), is("a", Relation::Less, "4")]);
    check_found(&["b", "a"], &filter, &documents, &[0, 2, 3]);
    check_found(
        &["a"],
        &and([is("a", Relation::Less, "9"), is("a", Relation::Greater, "6")]),
        &documents,
        &[7, 8],
    );
}

#[test]
fn conditions_on_one_array_are_not_intersected() {
    let documents = [r#"{"a":[1,9]}"#, r#"{"a":5}"#].map(document);
    let filter = and([is("a", Relation::Greater, "6"), is("a", Relation::Less, "4")]);
    assert!(matches(&filter, &documents[0]));
    check_found(&["a"], &filter, &documents, &[0]);
    let element = Predicate::And(vec![
        field("", test_of(Relation::Greater, "6")),
        field("", test_of(Relation::Less, "4")),
    ]);
    let filter = field("a", ValueTest::ElementValue(Box::new(element)));
    check_found(&["a"], &filter, &documents, &[]);
    let documents = [r#"{"a":[{"b":1,"c":5},{"b":2,"c":6}]}"#].map(document);
    check_found(&["a.b", "a.c"], &and([equal("a.b", "1"), equal("a.c", "6")]), &documents, &[0]);
}

#[test]
fn whole_arrays_and_nested_ones_are_found() {
    let documents =
        [r#"{"a":[1,2]}"#, r#"{"a":[[1,2]]}"#, r#"{"a":1}"#, r#"{"a":[]}"#].map(document);
    check_found(&["a"], &equal("a", "[1,2]"), &documents, &[0, 1]);
    check_found(&["a"], &is("a", Relation::Less, "[1,2]"), &documents, &[3]);
    check_found(&["a"], &field("a", ValueTest::Size(0)), &documents, &[0, 1, 3]);
}

#[test]
fn prefixes_of_texts_are_ranges() {
    let documents = numbers(0..30);
    let regex = Arc::new(Regex::new("^x1", "").unwrap());
    let expected: Vec<usize> = [1].into_iter().chain(10..20).collect();
    check_found(&["c"], &field("c", ValueTest::Regex(regex)), &documents, &expected);
    let long = |end: &str| format!(r#"{{"c":"{}{end}"}}"#, "x".repeat(600));
    let documents = [long("a"), long("b"), r#"{"c":"y"}"#.to_owned()].map(|text| document(&text));
    let regex = Regex::new(&format!("^{}a", "x".repeat(600)), "").unwrap();
    check_found(&["c"], &field("c", ValueTest::Regex(Arc::new(regex))), &documents, &[0, 1]);
}

#[test]
fn sparse_and_partial_indexes_serve_what_they_have() {
    let sparse = OrderedIndex { is_sparse: true, ..index(&["a"]) };
    let state = IndexState { index: &sparse, multikey: 0 };
    assert!(state.bounds(&equal("a", "null")).is_none());
    assert!(state.bounds(&equal("a", "1")).is_some());
    assert!(state.everything(None).is_none());
    assert!(state.everything(Some(&field("a", ValueTest::Exists))).is_some());
    let partial = OrderedIndex { partial: Some(is("b", Relation::Greater, "5")), ..index(&["a"]) };
    let state = IndexState { index: &partial, multikey: 0 };
    let with_b = |b: Predicate| and([equal("a", "1"), b]);
    assert!(state.bounds(&equal("a", "1")).is_none());
    assert!(state.bounds(&with_b(is("b", Relation::Greater, "4"))).is_none());
    assert!(state.bounds(&with_b(is("b", Relation::Greater, "5"))).is_some());
    assert!(state.bounds(&with_b(equal("b", "7"))).is_some());
    let exists = OrderedIndex { partial: Some(field("b", ValueTest::Exists)), ..index(&["a"]) };
    let state = IndexState { index: &exists, multikey: 0 };
    assert!(state.bounds(&with_b(equal("b", "null"))).is_none());
    assert!(state.bounds(&with_b(equal("b", "1"))).is_some());
}

#[test]
fn alternatives_on_one_path_are_joined() {
    let documents = numbers(0..10);
    let filter = Predicate::Or(vec![
        equal("a", "3"),
        and([is("a", Relation::Greater, "7"), equal("b", "0")]),
    ]);
    check_found(&["a"], &filter, &documents, &[3, 8, 9]);
    let other = Predicate::Or(vec![equal("a", "3"), equal("b", "0")]);
    assert!(IndexState { index: &index(&["a"]), multikey: 0 }.bounds(&other).is_none());
}

#[test]
fn hashed_indexes_serve_equality() {
    let documents = numbers(0..10);
    check_found(&["#a"], &equal("a", "4.0"), &documents, &[4]);
    let hashed = index(&["#a"]);
    let state = IndexState { index: &hashed, multikey: 0 };
    assert!(state.bounds(&is("a", Relation::Less, "4")).is_none());
    assert_eq!(state.sort_use(&state.everything(None).unwrap(), &[column("a")]), None);
}

#[test]
fn the_index_with_the_order_and_the_certain_values_is_chosen() {
    let indexes = [index(&["a"]), index(&["b", "a"]), index(&["c"]), index(&["b"])];
    let states = indexes.each_ref().map(|index| IndexState { index, multikey: 0 });
    let chosen = |filter: Option<&Predicate>, sort: &[&str]| {
        let sort: Vec<IndexColumn> = sort.iter().map(|text| column(text)).collect();
        choose(&states, filter, &sort).map(|found| (found.index, found.sort.map(|s| s.is_reverse)))
    };
    assert_eq!(chosen(Some(&equal("b", "1")), &["a"]), Some((1, Some(false))));
    assert_eq!(chosen(Some(&equal("b", "1")), &["-a"]), Some((1, Some(true))));
    assert_eq!(chosen(Some(&equal("b", "1")), &["b", "-a"]), Some((1, Some(true))));
    assert_eq!(chosen(None, &["c"]), Some((2, Some(false))));
    assert_eq!(chosen(None, &["c", "a"]), None);
    assert_eq!(chosen(Some(&is("a", Relation::Less, "1")), &["c"]), Some((0, None)));
    assert_eq!(chosen(Some(&equal("d", "1")), &[]), None);
    assert_eq!(chosen(None, &[]), None);
    let both = and([equal("b", "1"), equal("a", "2")]);
    assert_eq!(chosen(Some(&both), &[]), Some((1, None)));
}

fn any_leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (0_i32..5).prop_map(Value::Int32),
        (0_i32..5).prop_map(|n| Value::Double(f64::from(n) / 2.0)),
        Just(Value::Double(f64::NAN)),
        "[xy]{0,2}".prop_map(Value::String),
        (510_usize..514, "[xy]").prop_map(|(n, end)| Value::from("x".repeat(n) + &end)),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Undefined),
        Just(Value::MinKey),
        Just(Value::MaxKey),
    ]
}

fn any_tree() -> impl Strategy<Value = Value> {
    any_leaf().prop_recursive(3, 12, 3, |inner| {
        let fields = prop::collection::vec(("[ab0]", inner.clone()), 0..3);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::Array),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_document() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[abc]", any_tree()), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

fn any_path() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "a.b", "a.a", "b.0", "a.0.b", "c.b"])
        .prop_map(str::to_owned)
}

fn any_relation() -> impl Strategy<Value = Relation> {
    prop::sample::select(vec![
        Relation::Equal,
        Relation::NotEqual,
        Relation::Less,
        Relation::LessOrEqual,
        Relation::Greater,
        Relation::GreaterOrEqual,
    ])
}

fn any_plain_test() -> impl Strategy<Value = ValueTest> {
    let types = prop::sample::subsequence(BsonType::ALL.to_vec(), 1..4).prop_map(|chosen| {
        let mut types = TypeSet::default();
        chosen.into_iter().for_each(|each| types.add(each));
        ValueTest::Type(types)
    });
    let regex = |text: &str| Arc::new(Regex::new(text, "").unwrap());
    prop_oneof![
        6 => (any_relation(), any_tree())
            .prop_map(|(relation, operand)| ValueTest::Compare { relation, operand }),
        2 => prop::collection::vec(any_tree(), 0..4)
            .prop_map(move |values| ValueTest::In(InList::new(values, vec![regex("^x")]))),
        1 => Just(ValueTest::Exists),
        2 => types,
        1 => Just(ValueTest::Regex(regex("^xx"))),
        1 => Just(ValueTest::Regex(regex("y"))),
        1 => Just(ValueTest::Mod { divisor: 2, remainder: 1 }),
        1 => (0_i64..3).prop_map(ValueTest::Size),
    ]
}

fn any_filter() -> impl Strategy<Value = Predicate> {
    let plain = (any_path(), any_plain_test()).prop_map(|(path, test)| field(&path, test));
    plain.prop_recursive(3, 8, 3, |inner| {
        let of_element = prop::collection::vec(any_plain_test(), 1..3).prop_map(|tests| {
            Predicate::And(tests.into_iter().map(|test| field("", test)).collect())
        });
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(Predicate::And),
            2 => prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::Or),
            1 => inner.clone().prop_map(|negated| Predicate::Not(Box::new(negated))),
            1 => (any_path(), inner)
                .prop_map(|(path, p)| field(&path, ValueTest::ElementObject(Box::new(p)))),
            1 => (any_path(), of_element)
                .prop_map(|(path, p)| field(&path, ValueTest::ElementValue(Box::new(p)))),
        ]
    })
}

fn any_index() -> impl Strategy<Value = OrderedIndex> {
    let kind = prop::sample::select(vec!["", "", "-", "#"]);
    let columns = prop::collection::vec((kind, any_path()), 1..4);
    let partial = prop::option::weighted(0.2, any_filter());
    (columns, prop::bool::weighted(0.2), partial).prop_map(|(columns, is_sparse, partial)| {
        let columns = columns.iter().map(|(kind, path)| column(&format!("{kind}{path}")));
        OrderedIndex { columns: columns.collect(), is_sparse, partial }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_document_that_matches_is_found(
        index in any_index(),
        filter in any_filter(),
        documents in prop::collection::vec(any_document(), 1..12),
    ) {
        let documents: Vec<Value> =
            documents.into_iter().filter(|document| index.keys(document).is_ok()).collect();
        let state = IndexState { index: &index, multikey: multikey_of(&index, &documents) };
        let wanted: Vec<usize> =
            (0..documents.len()).filter(|at| matches(&filter, &documents[*at])).collect();
        for bounds in [state.bounds(&filter), state.everything(Some(&filter))].into_iter().flatten() {
            let found = found(&index, &bounds, &documents);
            for at in &wanted {
                prop_assert!(found.contains(at), "{:?} not within {:?}", documents[*at], bounds);
            }
            if bounds.is_exact {
                prop_assert_eq!(&found, &wanted);
            }
            prop_assert!(bounds.ranges.windows(2).all(|pair| pair[0].hi <= pair[1].lo), "{:?}", bounds);
            prop_assert!(bounds.ranges.iter().all(|range| range.lo.starts_with(&bounds.prefix)));
        }
    }

    #[test]
    fn an_index_that_has_the_order_returns_it(
        index in any_index(),
        filter in any_filter(),
        documents in prop::collection::vec(any_document(), 1..12),
        is_descending in any::<bool>(),
        skipped in 0_usize..2,
        taken in 1_usize..3,
    ) {
        let documents: Vec<Value> =
            documents.into_iter().filter(|document| index.keys(document).is_ok()).collect();
        let state = IndexState { index: &index, multikey: multikey_of(&index, &documents) };
        let sort: Vec<IndexColumn> = index.columns.iter().skip(skipped).take(taken).cloned().map(|c| {
            IndexColumn { kind: if is_descending { c.kind.opposite() } else { c.kind }, ..c }
        }).collect();
        prop_assume!(!sort.is_empty());
        for bounds in [state.bounds(&filter), state.everything(Some(&filter))].into_iter().flatten() {
            let Some(used) = state.sort_use(&bounds, &sort) else { continue };
            let mut entries: Vec<(Vec<u8>, usize)> = Vec::new();
            for (at, document) in documents.iter().enumerate() {
                let keys = index.keys(document).unwrap().keys;
                let within = |key: &Vec<u8>| bounds.ranges.iter().any(|r| r.lo <= *key && *key < r.hi);
                entries.extend(keys.into_iter().filter(within).map(|key| (key, at)));
            }
            entries.sort();
            if used.is_reverse {
                entries.reverse();
            }
            let mut seen = Vec::new();
            for (key, at) in entries {
                let first = index.first_key(&documents[at], used.first, used.is_reverse).unwrap();
                if !used.has_repetitions || key[bounds.prefix.len()..] == first.stored {
                    prop_assert!(!seen.contains(&at), "{:?} comes twice", documents[at]);
                    seen.push(at);
                }
            }
            let values = |at: usize| sort_values(&documents[at], &sort).unwrap();
            for pair in seen.windows(2) {
                let (a, b) = (values(pair[0]), values(pair[1]));
                let ordering = sort.iter().zip(a.iter().zip(&b)).map(|(column, (a, b))| {
                    let ordering = compare(TypeOrder::Bson, a.as_ref(), b.as_ref());
                    if column.kind == ColumnKind::Descending { ordering.reverse() } else { ordering }
                }).find(|ordering| ordering.is_ne());
                // Values that are cut in the index are put in order by the scan.
                let is_cut = format!("{a:?}{b:?}").len() > 512;
                prop_assert!(is_cut || ordering.is_none_or(std::cmp::Ordering::is_lt), "{a:?} {b:?}");
            }
            for at in (0..documents.len()).filter(|at| matches(&filter, &documents[*at])) {
                prop_assert!(seen.contains(&at), "{:?} is not returned", documents[at]);
            }
        }
    }
}
