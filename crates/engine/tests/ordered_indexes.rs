//! Ordered indexes of collections: their entries are those of the documents at every moment, unique
//! ones keep duplicates out, and those that can't be built are taken back.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::Arc;
use std::time::Duration;

use engine::components::Clock;
use engine::index::{DuplicateKey, OrderedColumn, OrderedIndexSpec};
use engine::ops::{ItemBody, ItemOp};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Api, BodyFormat, Container, ContainerSpec, Error, IndexViolation, IndexingPolicy};
use engine::{RangeId, RowKey, Settings, StoredItem};
use model::order::TypeOrder;
use model::{Object, PartitionKey, PartitionKeyComponent, Value, bson, json};
use proptest::prelude::*;
use query::document::index_keys::{ColumnKind, PartialFilter};
use storage::{Dir, KeyRange, MemoryStore};
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
fn index(name: &str, columns: &[&str]) -> OrderedIndexSpec {
    let column = |text: &&str| {
        let (path, kind) = match text.split_at(1) {
            ("-", path) => (path, ColumnKind::Descending),
            ("#", path) => (path, ColumnKind::Hashed),
            _ => (*text, ColumnKind::Ascending),
        };
        OrderedColumn { path: path.to_owned(), kind }
    };
    OrderedIndexSpec {
        name: name.to_owned(),
        columns: columns.iter().map(column).collect(),
        is_unique: false,
        is_sparse: false,
        partial: None,
        is_hidden: false,
        expire_after_seconds: None,
        shown: Vec::new(),
    }
}

fn unique(name: &str, columns: &[&str]) -> OrderedIndexSpec {
    OrderedIndexSpec { is_unique: true, ..index(name, columns) }
}

async fn add(h: &Harness, c: &Container, added: OrderedIndexSpec) {
    let change = |ordered: &mut Vec<OrderedIndexSpec>| {
        ordered.push(added);
        Ok(())
    };
    h.engine.change_ordered_indexes(&test_context(), c.rid, change).await.unwrap();
}

/// Longer than any build of a small index takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the indexes are built, while the clock runs.
#[expect(clippy::disallowed_methods, reason = "only a test that fails waits for so long")]
async fn built(h: &Harness, c: &Container, names: &[&str]) -> Result<(), Error> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
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

async fn upsert(h: &Harness, c: &Container, text: &str) -> Result<StoredItem, Error> {
    let c = h.engine.catalog().container_by_rid(c.rid).unwrap().clone();
    let body = ItemBody::from_document(document(text))?;
    let op = ItemOp::Upsert { body, if_match: None };
    let outcome = h.engine.write_item(&mut test_context(), &c, None, op).await?;
    Ok(outcome.item().unwrap().clone())
}

async fn delete(h: &Harness, c: &Container, pk: &str, id: i32) -> Result<(), Error> {
    let c = h.engine.catalog().container_by_rid(c.rid).unwrap().clone();
    let pk = PartitionKeyComponent::from_document_value(Some(&Value::from(pk))).unwrap();
    let key = PartitionKey([pk].into_iter().collect());
    let id = RowKey::new(bson::row_key(&Value::Int32(id)).unwrap().into());
    let op = ItemOp::Delete { id, if_match: None };
    h.engine.write_item(&mut test_context(), &c, Some(key), op).await.map(drop)
}

/// How many entries of ordered indexes and how many unique keys are stored.
fn stored(h: &Harness, c: &Container) -> (usize, usize) {
    let c = h.engine.catalog().container_by_rid(c.rid).unwrap().clone();
    let view = h.store.view();
    let (mut entries, mut unique) = (0, 0);
    for range in c.routing().ranges() {
        let mut cursor = view.scan(range.partition_id(), KeyRange::ALL, Dir::Fwd).unwrap();
        while let Some((key, _)) = cursor.next().unwrap() {
            entries += usize::from(key[0] == 0x29);
            unique += usize::from(key[0] == 0x11);
        }
    }
    (entries, unique)
}

#[track_caller]
fn check_consistent(h: &Harness) {
    assert_eq!(h.engine.audit().unwrap().findings, Vec::<String>::new());
}

#[tokio::test]
async fn entries_are_written_with_their_documents_and_removed_with_them() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 2).await;
    add(&h, &c, index("a_1", &["a"])).await;
    add(&h, &c, index("b_-1_a_1", &["-b", "a"])).await;
    built(&h, &c, &["a_1", "b_-1_a_1"]).await.unwrap();
    upsert(&h, &c, r#"{"_id":1,"pk":"x","a":5,"b":"t"}"#).await.unwrap();
    assert_eq!(stored(&h, &c), (2, 0));
    // Two elements, the whole array and a mark, in both.
    upsert(&h, &c, r#"{"_id":2,"pk":"y","a":[5,6]}"#).await.unwrap();
    assert_eq!(stored(&h, &c), (2 + 8, 0));
    check_consistent(&h);
    upsert(&h, &c, r#"{"_id":2,"pk":"y","a":7}"#).await.unwrap();
    assert_eq!(stored(&h, &c), (4, 0));
    delete(&h, &c, "y", 2).await.unwrap();
    delete(&h, &c, "x", 1).await.unwrap();
    assert_eq!(stored(&h, &c), (0, 0));
    upsert(&h, &c, r#"{"_id":3,"pk":"x","a":[1,2],"b":1}"#).await.unwrap();
    let now = h.engine.catalog().container_by_rid(c.rid).unwrap().clone();
    let stats = h.engine.ordered_index_stats(&now).await.unwrap();
    let facts: Vec<_> = stats
        .iter()
        .map(|s| (s.name.as_str(), s.is_complete, s.entries, &s.multikey[..]))
        .collect();
    assert_eq!(facts, [("a_1", true, 4, &[true][..]), ("b_-1_a_1", true, 4, &[false, true])]);
    assert!(stats.iter().all(|s| s.bytes > 4 * 20));
    check_consistent(&h);
}

#[tokio::test]
async fn indexes_are_built_and_removed_behind_the_documents() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 3).await;
    for n in 0..500 {
        let text = format!(r#"{{"_id":{n},"pk":"{}","a":{},"u":{n}}}"#, n % 7, n % 10);
        upsert(&h, &c, &text).await.unwrap();
    }
    add(&h, &c, index("a_1", &["a"])).await;
    add(&h, &c, unique("u_1", &["u"])).await;
    upsert(&h, &c, r#"{"_id":1000,"pk":"0","u":1000}"#).await.unwrap();
    built(&h, &c, &["a_1", "u_1"]).await.unwrap();
    assert_eq!(stored(&h, &c), (2 * 501, 501));
    check_consistent(&h);
    let keep = |ordered: &mut Vec<OrderedIndexSpec>| {
        ordered.retain(|index| index.name == "a_1");
        ordered[0].is_hidden = true;
        Ok(())
    };
    h.engine.change_ordered_indexes(&test_context(), c.rid, keep).await.unwrap();
    built(&h, &c, &[]).await.unwrap();
    assert_eq!(stored(&h, &c), (501, 0));
    check_consistent(&h);
}

#[tokio::test]
async fn a_unique_index_keeps_duplicates_of_a_logical_partition_out() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 1).await;
    add(&h, &c, unique("a_1_b_1", &["a", "b"])).await;
    built(&h, &c, &["a_1_b_1"]).await.unwrap();
    upsert(&h, &c, r#"{"_id":1,"pk":"x","a":1,"b":"t"}"#).await.unwrap();
    upsert(&h, &c, r#"{"_id":2,"pk":"x","a":2}"#).await.unwrap();
    upsert(&h, &c, r#"{"_id":3,"pk":"y","a":1,"b":"t"}"#).await.unwrap();
    let same = upsert(&h, &c, r#"{"_id":4,"pk":"x","a":1.0,"b":"t"}"#).await.unwrap_err();
    let Error::IndexViolation(violation) = same else { panic!("{same}") };
    let values = vec![("a".to_owned(), Value::Double(1.0)), ("b".to_owned(), Value::from("t"))];
    let expected = DuplicateKey { index: "a_1_b_1".to_owned(), values };
    assert_eq!(*violation, IndexViolation::Duplicate(expected));
    let missing = upsert(&h, &c, r#"{"_id":4,"pk":"x","a":2,"b":null}"#).await.unwrap_err();
    assert_eq!(missing.kind(), model::ErrorKind::UniqueKeyViolation, "null is what is missing");
    let element = upsert(&h, &c, r#"{"_id":4,"pk":"x","a":[7,2]}"#).await.unwrap_err();
    assert_eq!(element.kind(), model::ErrorKind::UniqueKeyViolation);
    check_consistent(&h);
    // An item may keep its own key, and what it leaves is free.
    upsert(&h, &c, r#"{"_id":1,"pk":"x","a":1,"b":"t","c":1}"#).await.unwrap();
    upsert(&h, &c, r#"{"_id":1,"pk":"x","a":9}"#).await.unwrap();
    upsert(&h, &c, r#"{"_id":4,"pk":"x","a":1,"b":"t"}"#).await.unwrap();
    delete(&h, &c, "x", 2).await.unwrap();
    upsert(&h, &c, r#"{"_id":5,"pk":"x","a":[7,2]}"#).await.unwrap();
    check_consistent(&h);
}

#[tokio::test]
async fn what_an_index_can_not_have_is_refused() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 1).await;
    add(&h, &c, index("a_1_b_1", &["a", "b"])).await;
    built(&h, &c, &["a_1_b_1"]).await.unwrap();
    let parallel = upsert(&h, &c, r#"{"_id":1,"pk":"x","a":[1],"b":[2]}"#).await.unwrap_err();
    let Error::IndexViolation(violation) = parallel else { panic!("{parallel}") };
    assert!(matches!(*violation, IndexViolation::NoKeys { failure, .. } if failure.code == 171));
    assert_eq!(stored(&h, &c), (0, 0));
    check_consistent(&h);
}

#[tokio::test]
async fn an_index_that_can_not_be_built_is_taken_back() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 1).await;
    for n in 0..300 {
        let text = format!(r#"{{"_id":{n},"pk":"x","a":{},"b":[{n}],"c":[1]}}"#, n % 299);
        upsert(&h, &c, &text).await.unwrap();
    }
    add(&h, &c, index("b_1", &["b"])).await;
    add(&h, &c, unique("a_1", &["a"])).await;
    let error = built(&h, &c, &["a_1"]).await.unwrap_err();
    let Error::IndexViolation(violation) = error else { panic!("{error}") };
    let values = vec![("a".to_owned(), Value::Int32(0))];
    let expected = DuplicateKey { index: "a_1".to_owned(), values };
    assert_eq!(*violation, IndexViolation::Duplicate(expected));
    built(&h, &c, &["b_1"]).await.unwrap();
    assert_eq!(stored(&h, &c), (3 * 300, 0));
    add(&h, &c, index("b_1_c_1", &["b", "c"])).await;
    let error = built(&h, &c, &["b_1_c_1"]).await.unwrap_err();
    assert!(matches!(error, Error::IndexViolation(v) if v.index() == "b_1_c_1"));
    built(&h, &c, &[]).await.unwrap();
    let now = h.engine.catalog().container_by_rid(c.rid).unwrap().clone();
    let names: Vec<&str> = now.spec.indexing.ordered.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["b_1"]);
    check_consistent(&h);
}

#[tokio::test]
async fn documents_expire_by_their_dates() {
    let interval = Duration::from_secs(1);
    let settings = Settings { expiry_interval: interval, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container_with(mongo_spec(), 2).await;
    for (name, column) in [("at_1", "at"), ("down_-1", "-down")] {
        let expires = OrderedIndexSpec { expire_after_seconds: Some(10), ..index(name, &[column]) };
        add(&h, &c, expires).await;
    }
    built(&h, &c, &["at_1", "down_-1"]).await.unwrap();
    let now = i64::try_from(h.clock.now().0).unwrap();
    let at = |seconds: i64| format!(r#"{{"$date":{{"$numberLong":"{}"}}}}"#, now + 1000 * seconds);
    for (id, field) in [
        (1, format!(r#""at":{}"#, at(-5))),
        (2, format!(r#""at":[{},{}]"#, at(1000), at(-5))),
        (3, format!(r#""down":{}"#, at(-5))),
        (4, format!(r#""at":{}"#, at(5))),
        (5, format!(r#""at":{now}"#)),
        (6, r#""at":null"#.to_owned()),
    ] {
        upsert(&h, &c, &format!(r#"{{"_id":{id},"pk":"x{id}",{field}}}"#)).await.unwrap();
    }
    let left = || h.engine.audit().unwrap().items;
    assert_eq!(left(), 6);
    // Those of five seconds ago expire in five, that of in five seconds in fifteen.
    h.clock.advance(Duration::from_secs(6));
    for _ in 0..8_000 {
        if left() == 3 {
            break;
        }
        h.clock.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(left(), 3);
    check_consistent(&h);
}

#[tokio::test]
async fn a_split_and_a_merge_keep_entries_and_unique_keys() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 1).await;
    add(&h, &c, unique("u_1", &["u"])).await;
    add(&h, &c, index("a_1", &["a"])).await;
    built(&h, &c, &["u_1", "a_1"]).await.unwrap();
    for n in 0..200 {
        let text = format!(r#"{{"_id":{n},"pk":"{}","u":{n},"a":[{n},{}]}}"#, n % 20, n % 3);
        upsert(&h, &c, &text).await.unwrap();
    }
    let before = stored(&h, &c);
    let (ctx, how) = (&test_context(), Progression::Automatic);
    let job = h.engine.start_split(ctx, c.rid, RangeId(0), SplitPoint::Midpoint, how).await;
    let job = h.engine.finish_job(job.unwrap().id).await.unwrap();
    assert_eq!(job.phase, JobPhase::Succeeded);
    assert_eq!(stored(&h, &c), before);
    check_consistent(&h);
    let same = upsert(&h, &c, r#"{"_id":1000,"pk":"7","u":7}"#).await.unwrap_err();
    assert_eq!(same.kind(), model::ErrorKind::UniqueKeyViolation);
    let now = h.engine.catalog().container_by_rid(c.rid).unwrap().clone();
    let ids: Vec<RangeId> = now.routing().ranges().iter().map(|range| range.id).collect();
    let job = h.engine.start_merge(ctx, c.rid, &ids, Progression::Automatic).await;
    let job = h.engine.finish_job(job.unwrap().id).await.unwrap();
    assert_eq!(job.phase, JobPhase::Succeeded);
    assert_eq!(stored(&h, &c), before);
    check_consistent(&h);
}

#[tokio::test]
async fn partial_and_sparse_indexes_have_what_they_should() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec(), 1).await;
    let partial = Some(PartialFilter::Exists("b".to_owned()));
    add(&h, &c, OrderedIndexSpec { partial, ..unique("a_1", &["a"]) }).await;
    add(&h, &c, OrderedIndexSpec { is_sparse: true, ..unique("s_1", &["s"]) }).await;
    built(&h, &c, &["a_1", "s_1"]).await.unwrap();
    upsert(&h, &c, r#"{"_id":1,"pk":"x","a":1}"#).await.unwrap();
    upsert(&h, &c, r#"{"_id":2,"pk":"x","a":1,"s":1}"#).await.unwrap();
    upsert(&h, &c, r#"{"_id":3,"pk":"x","a":1,"b":1}"#).await.unwrap();
    assert!(upsert(&h, &c, r#"{"_id":4,"pk":"x","a":1,"b":2}"#).await.is_err());
    assert!(upsert(&h, &c, r#"{"_id":4,"pk":"x","s":1}"#).await.is_err());
    assert_eq!(stored(&h, &c), (2, 2));
    check_consistent(&h);
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..4).prop_map(|n: i32| n.to_string()),
        Just("null".to_owned()),
        "\"[xy]?\"",
        prop::collection::vec(0..3, 0..3).prop_map(|elements: Vec<i32>| format!("{elements:?}")),
        (0..3).prop_map(|n: i32| format!(r#"[{{"b":{n}}},{{"b":[{n},7]}}]"#)),
        (0..3).prop_map(|n: i32| format!(r#"{{"b":{n}}}"#)),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(i32, String),
    Delete(i32),
    Add(usize),
    Drop(usize),
    Wait,
}

fn any_step() -> impl Strategy<Value = Step> {
    let fields = (any_value(), any_value(), any_value())
        .prop_map(|(a, c, u)| format!(r#""a":{a},"c":{c},"u":{u}"#));
    prop_oneof![
        12 => (0..8, fields).prop_map(|(id, fields)| Step::Upsert(id, fields)),
        4 => (0..8).prop_map(Step::Delete),
        2 => (0_usize..6).prop_map(Step::Add),
        2 => (0_usize..6).prop_map(Step::Drop),
        1 => Just(Step::Wait),
    ]
}

fn definitions() -> Vec<OrderedIndexSpec> {
    vec![
        index("0", &["a"]),
        index("1", &["-a.b", "c"]),
        unique("2", &["u"]),
        OrderedIndexSpec { is_sparse: true, ..index("3", &["#c"]) },
        OrderedIndexSpec {
            partial: Some(PartialFilter::Exists("a.b".into())),
            ..index("4", &["u", "a"])
        },
        unique("5", &["a.b", "u"]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn entries_are_exactly_those_of_the_documents(
        steps in prop::collection::vec(any_step(), 1..40),
        ranges in 1_u32..3,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let h = Harness::in_memory();
            let c = h.container_with(mongo_spec(), ranges).await;
            for step in steps {
                match step {
                    Step::Upsert(id, fields) => {
                        let text = format!(r#"{{"_id":{id},"pk":"{}",{fields}}}"#, id % 3);
                        match upsert(&h, &c, &text).await {
                            Ok(_) | Err(Error::IndexViolation(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                    Step::Delete(id) => match delete(&h, &c, &(id % 3).to_string(), id).await {
                        Ok(()) | Err(Error::NotFound { .. }) => {}
                        Err(other) => panic!("{other}"),
                    },
                    Step::Add(at) => {
                        let added = definitions().swap_remove(at);
                        let change = |ordered: &mut Vec<OrderedIndexSpec>| {
                            ordered.retain(|index| index.name != added.name);
                            ordered.push(added);
                            Ok(())
                        };
                        h.engine.change_ordered_indexes(&test_context(), c.rid, change).await.unwrap();
                    }
                    Step::Drop(at) => {
                        let change = |ordered: &mut Vec<OrderedIndexSpec>| {
                            ordered.retain(|index| index.name != at.to_string());
                            Ok(())
                        };
                        h.engine.change_ordered_indexes(&test_context(), c.rid, change).await.unwrap();
                    }
                    Step::Wait => drop(built(&h, &c, &[]).await),
                }
                check_consistent(&h);
            }
            drop(built(&h, &c, &[]).await);
            check_consistent(&h);
        });
    }
}
