//! Queries of documents by ordered indexes: the same rows as without them, in the same order, at any
//! page size, and fewer documents read.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::Arc;
use std::time::Duration;

use engine::index::{OrderedColumn, OrderedIndexSpec};
use engine::ops::{AccessPathKind, ItemBody, ItemOp, Page, PageRequest, Row, Scope};
use engine::{Api, BodyFormat, Container, ContainerSpec, Error, IndexingPolicy};
use lang::mongo::CompileOptions;
use lang::mongo::filter::FilterOptions;
use lang::mongo::find::{self, FindRequest};
use model::order::{TypeOrder, compare};
use model::{Object, Value, json};
use proptest::prelude::*;
use query::document::Variables;
use query::document::index_keys::{ColumnKind, IndexColumn, PartialFilter, sort_values};
use testkit::harness::{Harness, spec, test_context};

fn mongo_spec() -> ContainerSpec {
    ContainerSpec {
        api: Api::Mongo,
        order: TypeOrder::Bson,
        body: BodyFormat::Bson,
        indexing: IndexingPolicy::none(),
        ..spec("c")
    }
}

/// An index on these columns, of which `-` marks descending and `#` hashed ones.
fn index(columns: &[&str]) -> OrderedIndexSpec {
    let column = |text: &&str| {
        let (path, kind) = match text.split_at(1) {
            ("-", path) => (path, ColumnKind::Descending),
            ("#", path) => (path, ColumnKind::Hashed),
            _ => (*text, ColumnKind::Ascending),
        };
        OrderedColumn { path: path.to_owned(), kind }
    };
    OrderedIndexSpec {
        name: columns.join("_"),
        columns: columns.iter().map(column).collect(),
        is_unique: false,
        is_sparse: false,
        partial: None,
        is_hidden: false,
        expire_after_seconds: None,
        shown: Vec::new(),
    }
}

/// Longer than any build of a small index takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Gives the collection these indexes and waits until they are built.
#[expect(clippy::disallowed_methods, reason = "only a test that fails waits for so long")]
async fn set(h: &Harness, c: &Container, indexes: Vec<OrderedIndexSpec>) -> Result<(), Error> {
    let names: Vec<String> = indexes.iter().map(|index| index.name.clone()).collect();
    let change = |ordered: &mut Vec<OrderedIndexSpec>| {
        *ordered = indexes;
        Ok(())
    };
    h.engine.change_ordered_indexes(&test_context(), c.rid, change).await.unwrap();
    let running = async {
        loop {
            h.clock.advance(Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
    };
    let built = async {
        tokio::select! {
            built = h.engine.wait_for_ordered_indexes(c.rid, &names) => built,
            () = running => unreachable!("the clock never stops"),
        }
    };
    tokio::time::timeout(PATIENCE, built).await.expect("an index is built some time")
}

fn document(text: &str) -> Object {
    let Ok(Value::Object(object)) = json::extended::parse(text.as_bytes(), 16) else {
        panic!("{text} is not a document")
    };
    object
}

fn now(h: &Harness, c: &Container) -> Arc<Container> {
    h.engine.catalog().container_by_rid(c.rid).unwrap().clone()
}

async fn insert(h: &Harness, c: &Container, text: &str) -> Result<(), Error> {
    let body = ItemBody::from_document(document(text))?;
    let op = ItemOp::Upsert { body, if_match: None };
    h.engine.write_item(&mut test_context(), &now(h, c), None, op).await.map(drop)
}

fn plan(filter: &str, sort: &str) -> (query::Plan, Arc<query::document::Predicate>) {
    let expressions = CompileOptions::default();
    let options = FilterOptions::new(&expressions);
    let (filter, sort) = (document(filter), document(sort));
    let request = FindRequest { filter: Some(&filter), sort: Some(&sort), skip: 0, limit: 0 };
    let variables = Arc::new(Variables::at(model::Date { millis: 0, ticks: 0 }));
    let compiled = find::compile(&request, &options, &variables).unwrap();
    (compiled.plan, compiled.filter)
}

async fn page(
    h: &Harness,
    c: &Container,
    plan: &query::Plan,
    items_max: usize,
    continuation: Option<String>,
) -> Result<Page, Error> {
    let request = PageRequest {
        items_max: Some(items_max),
        continuation,
        wants_report: true,
        ..PageRequest::default()
    };
    let ctx = &mut test_context();
    h.engine.query(ctx, &now(h, c), plan.clone(), Scope::All, request).await
}

fn document_of(row: &Row) -> Value {
    match row {
        Row::Item(item) => item.to_value(&engine::item::NoSystemProperties).unwrap(),
        Row::Json(text) => panic!("{text:?}"),
    }
}

/// All rows, the kind of the first page's access path and how many documents were read.
async fn rows(
    h: &Harness,
    c: &Container,
    filter: &str,
    sort: &str,
    items_max: usize,
) -> Result<(Vec<Value>, AccessPathKind, u64), Error> {
    let (plan, _) = plan(filter, sort);
    let (mut rows, mut kind, mut read, mut continuation) = (Vec::new(), None, 0, None);
    loop {
        let page = page(h, c, &plan, items_max, continuation).await?;
        rows.extend(page.rows.iter().map(document_of));
        let report = page.report.unwrap();
        read += report.ranges.iter().map(|range| range.read.rows).sum::<u64>();
        kind.get_or_insert(report.access_path);
        continuation = page.continuation;
        if continuation.is_none() {
            return Ok((rows, kind.unwrap(), read));
        }
    }
}

/// 200 documents with `a` from 0 to 19, `b` from 0 to 9 and `n` from 0 to 199.
async fn filled(h: &Harness) -> Arc<Container> {
    let c = h.container_with(mongo_spec(), 2).await;
    for n in 0..200 {
        let text =
            format!(r#"{{"_id":{n},"pk":"{}","a":{},"b":{},"n":{n}}}"#, n % 5, n % 20, n / 20);
        insert(h, &c, &text).await.unwrap();
    }
    c
}

#[tokio::test]
async fn documents_are_looked_up_by_their_keys() {
    let h = Harness::in_memory();
    let c = filled(&h).await;
    set(&h, &c, vec![index(&["a", "b"]), index(&["#n"])]).await.unwrap();
    for (filter, expected) in [
        (r#"{"a":7}"#, 10),
        (r#"{"a":7,"b":{"$gte":8}}"#, 2),
        (r#"{"a":{"$in":[3,5]},"b":0}"#, 2),
        (r#"{"n":77}"#, 1),
        (r#"{"a":{"$gt":18}}"#, 10),
        (r#"{"a":"x"}"#, 0),
    ] {
        let (found, kind, read) = rows(&h, &c, filter, "{}", 1000).await.unwrap();
        assert_eq!(found.len(), expected, "{filter}");
        assert_eq!((kind, read), (AccessPathKind::Sorted, expected as u64), "{filter}");
    }
    let hidden = OrderedIndexSpec { is_hidden: true, ..index(&["a", "b"]) };
    set(&h, &c, vec![hidden]).await.unwrap();
    let (found, _, read) = rows(&h, &c, r#"{"a":7}"#, "{}", 1000).await.unwrap();
    assert_eq!((found.len(), read), (10, 200));
}

#[tokio::test]
async fn reports_name_the_index_and_clients_may_name_one() {
    let h = Harness::in_memory();
    let c = filled(&h).await;
    set(&h, &c, vec![index(&["a"]), index(&["b", "a"])]).await.unwrap();
    for (hint, expected) in [(None, Some("b_a")), (Some("a"), Some("a")), (Some("none"), None)] {
        let index_hint = hint.map(str::to_owned);
        let request = PageRequest { index_hint, wants_report: true, ..PageRequest::default() };
        let plan = plan(r#"{"a":7,"b":1}"#, "{}").0;
        let ctx = &mut test_context();
        let page = h.engine.query(ctx, &now(&h, &c), plan, Scope::All, request).await.unwrap();
        assert_eq!(page.rows.len(), 1, "{hint:?}");
        assert_eq!(page.report.unwrap().ordered_index.as_deref(), expected);
    }
}

#[tokio::test]
async fn a_sort_that_an_index_has_ends_early() {
    let h = Harness::in_memory();
    let c = filled(&h).await;
    set(&h, &c, vec![index(&["n"]), index(&["a", "-n"])]).await.unwrap();
    let first = |filter: &'static str, sort: &'static str| {
        let (h, c) = (&h, &c);
        async move {
            let page = page(h, c, &plan(filter, sort).0, 5, None).await.unwrap();
            let numbers = page.rows.iter().map(|row| document_of(row).field("n").unwrap().as_i64());
            let read: u64 = page.report.unwrap().ranges.iter().map(|range| range.read.rows).sum();
            // The page ends where the next row is known.
            (numbers.map(Option::unwrap).collect::<Vec<_>>(), read <= 6)
        }
    };
    assert_eq!(first("{}", r#"{"n":1}"#).await, (vec![0, 1, 2, 3, 4], true));
    assert_eq!(first("{}", r#"{"n":-1}"#).await, (vec![199, 198, 197, 196, 195], true));
    let last = (vec![187, 167, 147, 127, 107], true);
    assert_eq!(first(r#"{"a":7}"#, r#"{"n":-1}"#).await, last);
    assert_eq!(first(r#"{"a":7}"#, r#"{"a":1,"n":-1}"#).await, last);
    assert!(first(r#"{"n":{"$gte":100}}"#, r#"{"n":1}"#).await.1);
}

#[tokio::test]
async fn texts_that_are_cut_in_an_index_are_sorted_in_full() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 1).await;
    let long = "x".repeat(600);
    for (id, end) in ["c", "a", "", "b", "ab"].iter().enumerate() {
        insert(&h, &c, &format!(r#"{{"_id":{id},"pk":"0","t":"{long}{end}"}}"#)).await.unwrap();
    }
    set(&h, &c, vec![index(&["t"])]).await.unwrap();
    for (sort, expected) in [(r#"{"t":1}"#, [2, 1, 4, 3, 0]), (r#"{"t":-1}"#, [0, 3, 4, 1, 2])] {
        for size in [1, 2, 100] {
            let (found, kind, _) = rows(&h, &c, "{}", sort, size).await.unwrap();
            assert!(matches!(kind, AccessPathKind::InIndexOrder(_)));
            let ids: Vec<_> =
                found.iter().map(|d| d.field("_id").unwrap().as_i64().unwrap()).collect();
            assert_eq!(ids, expected, "{sort}, {size} at a time");
        }
    }
}

fn any_leaf() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..5).prop_map(|n: i32| n.to_string()),
        1 => (0..4).prop_map(|n: i32| format!("{}.5", n)),
        1 => Just("null".to_owned()),
        1 => "\"[xy]{0,2}\"",
        1 => Just("true".to_owned()),
    ]
}

fn any_field() -> impl Strategy<Value = String> {
    let array = prop::collection::vec(any_leaf(), 0..3);
    let of_objects = prop::collection::vec(any_leaf(), 0..3);
    prop_oneof![
        5 => any_leaf(),
        2 => array.prop_map(|elements| format!("[{}]", elements.join(","))),
        1 => of_objects.prop_map(|elements| {
            let elements = elements.iter().map(|e| format!(r#"{{"b":{e}}}"#)).collect::<Vec<_>>();
            format!("[{}]", elements.join(","))
        }),
        1 => any_leaf().prop_map(|value| format!(r#"{{"b":{value}}}"#)),
    ]
}

fn any_condition() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec!["a", "c", "a.b", "d"]);
    let operator = prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
    let test = prop_oneof![
        6 => (operator, any_field()).prop_map(|(o, value)| format!(r#"{{"{o}":{value}}}"#)),
        2 => prop::collection::vec(any_field(), 0..3)
            .prop_map(|values| format!(r#"{{"$in":[{}]}}"#, values.join(","))),
        1 => any::<bool>().prop_map(|wanted| format!(r#"{{"$exists":{wanted}}}"#)),
        1 => (any_leaf(), any_leaf())
            .prop_map(|(a, b)| format!(r#"{{"$elemMatch":{{"$gte":{a},"$lte":{b}}}}}"#)),
        1 => (any_leaf(), any_leaf()).prop_map(|(a, b)| format!(r#"{{"$gte":{a},"$lt":{b}}}"#)),
    ];
    (path, test).prop_map(|(path, test)| format!(r#"{{"{path}":{test}}}"#))
}

fn any_filter() -> impl Strategy<Value = String> {
    let several = |operator: &'static str| {
        prop::collection::vec(any_condition(), 1..4)
            .prop_map(move |parts| format!(r#"{{"{operator}":[{}]}}"#, parts.join(",")))
    };
    prop_oneof![2 => Just("{}".to_owned()), 4 => any_condition(), 4 => several("$and"), 1 => several("$or")]
}

fn any_columns() -> impl Strategy<Value = Vec<(&'static str, bool)>> {
    let path = prop::sample::select(vec!["a", "c", "a.b", "d"]);
    prop::collection::vec((path, any::<bool>()), 1..3).prop_map(|mut columns| {
        columns.dedup_by(|a, b| a.0 == b.0);
        columns
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn indexes_change_neither_the_documents_nor_their_order(
        documents in prop::collection::vec((any_field(), any_field(), any_leaf()), 1..40),
        columns in prop::collection::vec((any_columns(), any::<bool>(), any::<bool>()), 1..4),
        queries in prop::collection::vec((any_filter(), prop::option::of(any_columns())), 1..6),
        sorts_by_index in any::<bool>(),
        size in prop::sample::select(vec![1_usize, 3, 1000]),
        ranges in 1_u32..3,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let h = Harness::in_memory();
            let c = h.container_with(mongo_spec(), ranges).await;
            let indexes: Vec<OrderedIndexSpec> = columns.iter().enumerate().map(|(at, (columns, is_sparse, is_partial))| {
                let texts: Vec<String> = columns.iter().map(|(path, is_descending)| {
                    format!("{}{path}", if *is_descending { "-" } else { "" })
                }).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let partial = (*is_partial && at == 1).then(|| PartialFilter::Exists("d".into()));
                OrderedIndexSpec { name: at.to_string(), is_sparse: *is_sparse, partial, ..index(&texts) }
            }).collect();
            set(&h, &c, indexes).await.unwrap();
            for (id, (a, c_value, d)) in documents.iter().enumerate() {
                let text = format!(r#"{{"_id":{id},"pk":"{}","a":{a},"c":{c_value},"d":{d}}}"#, id % 3);
                match insert(&h, &c, &text).await {
                    Ok(()) | Err(Error::IndexViolation(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            for (at, (filter, sort)) in queries.iter().enumerate() {
                let sort = match sorts_by_index && sort.is_some() {
                    true => Some(columns[at % columns.len()].0.clone()),
                    false => sort.clone(),
                };
                let keys: Vec<IndexColumn> = sort.iter().flatten().map(|(path, is_descending)| IndexColumn {
                    path: query::document::FieldPath::parse(path),
                    kind: if *is_descending { ColumnKind::Descending } else { ColumnKind::Ascending },
                }).collect();
                let text = keys.iter().map(|key| {
                    let direction = if key.kind == ColumnKind::Descending { -1 } else { 1 };
                    format!(r#""{}":{direction}"#, key.path.as_str())
                }).collect::<Vec<_>>().join(",");
                let sort = format!("{{{text}}}");
                let indexed = rows(&h, &c, filter, &sort, size).await;
                let kept = now(&h, &c).spec.indexing.ordered.clone();
                let hidden = kept.iter().cloned().map(|i| OrderedIndexSpec { is_hidden: true, ..i });
                set(&h, &c, hidden.collect()).await.unwrap();
                let scanned = rows(&h, &c, filter, &sort, 1000).await;
                set(&h, &c, kept).await.unwrap();
                let (Ok((indexed, kind, _)), Ok((scanned, _, _))) = (indexed, scanned) else {
                    // Arrays side by side can't be sorted without an index.
                    continue;
                };
                let id = |d: &Value| d.field("_id").unwrap().as_i64().unwrap();
                let ids = |rows: &[Value]| {
                    let mut ids: Vec<i64> = rows.iter().map(id).collect();
                    ids.sort();
                    ids
                };
                assert_eq!(ids(&indexed), ids(&scanned), "{filter} {sort} by {kind:?}");
                let values = |d: &Value| sort_values(d, &keys).unwrap();
                for (a, b) in indexed.iter().zip(&scanned) {
                    for (a, b) in values(a).iter().zip(values(b)) {
                        assert!(compare(TypeOrder::Bson, a.as_ref(), b.as_ref()).is_eq(),
                            "{filter} {sort} by {kind:?}: {indexed:?} but {scanned:?}");
                    }
                }
            }
        });
    }
}
