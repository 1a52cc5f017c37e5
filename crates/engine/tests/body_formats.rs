//! Containers that keep JSON text and containers that keep BSON documents.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::Arc;

use bytes::Bytes;
use engine::ops::{ItemBody, ItemOp, PageRequest, Row, Scope};
use engine::{Api, BodyFormat, Container, ContainerSpec, Error, RowKey, StoredItem};
use model::order::TypeOrder;

use model::{Date, Object, PartitionKey, PartitionKeyComponent, Value, bson};
use proptest::prelude::*;
use storage::{Dir, KeyRange};
use testkit::harness::{Harness, path, spec, test_context};

fn mongo_spec(id: &str) -> ContainerSpec {
    ContainerSpec {
        api: Api::Mongo,
        order: TypeOrder::Bson,
        body: BodyFormat::Bson,
        unique_keys: vec![vec![path("/u")]],
        ..spec(id)
    }
}

fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Object {
    let mut object = Object::new();
    for (name, value) in fields {
        object.insert(name, value);
    }
    object
}

fn row_key(id: &Value) -> RowKey {
    RowKey::new(bson::row_key(id).unwrap().into())
}

fn key_of(pk: Option<&Value>) -> PartitionKey {
    let component = PartitionKeyComponent::from_document_value(pk).unwrap();
    PartitionKey([component].into_iter().collect())
}

async fn upsert(h: &Harness, c: &Arc<Container>, document: Object) -> Result<StoredItem, Error> {
    let body = ItemBody::from_document(document)?;
    let op = ItemOp::Upsert { body, if_match: None };
    let outcome = h.engine.write_item(&mut test_context(), c, None, op).await?;
    Ok(outcome.item().unwrap().clone())
}

fn read(h: &Harness, c: &Container, pk: Option<&Value>, id: &Value) -> Result<StoredItem, Error> {
    h.engine.read_item(&mut test_context(), c, &key_of(pk), row_key(id), None)
}

#[tokio::test]
async fn a_document_is_stored_as_it_came_and_found_by_any_equal_id_and_key() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec("c"), 3).await;
    let document = object([
        ("_id", Value::Int32(7)),
        ("pk", Value::ObjectId([3; 12])),
        ("when", Value::Date(Date { millis: 1_234, ticks: 0 })),
        ("_ts", Value::from("the document's own")),
    ]);
    let mut bytes = Vec::new();
    bson::write(&document, &mut bytes).unwrap();
    let body = ItemBody::from_bson(Bytes::from(bytes.clone())).unwrap();
    let op = ItemOp::Create { body };
    h.engine.write_item(&mut test_context(), &c, None, op).await.unwrap();
    let pk = Value::ObjectId([3; 12]);
    for id in [Value::Int32(7), Value::Int64(7), Value::Double(7.0)] {
        let item = read(&h, &c, Some(&pk), &id).unwrap();
        assert_eq!((item.format(), &item.body()[..]), (BodyFormat::Bson, &bytes[..]));
        assert_eq!(
            item.to_value(&engine::item::NoSystemProperties).unwrap(),
            document.clone().into()
        );
    }
    let other = Value::ObjectId([4; 12]);
    assert!(matches!(read(&h, &c, Some(&other), &Value::Int32(7)), Err(Error::NotFound { .. })));
    let again = upsert(&h, &c, object([("_id", Value::Double(7.0)), ("pk", pk.clone())])).await;
    assert_eq!(again.unwrap().row_key(), &row_key(&Value::Int32(7)), "1 and 1.0 are one id");
    let delete = ItemOp::Delete { id: row_key(&Value::Int64(7)), if_match: None };
    let key = Some(key_of(Some(&pk)));
    h.engine.write_item(&mut test_context(), &c, key, delete).await.unwrap();
    assert!(read(&h, &c, Some(&pk), &Value::Int32(7)).is_err());
    for bad in [object([("pk", Value::Null)]), object([("_id", Value::Array(Vec::new()))])] {
        assert!(matches!(upsert(&h, &c, bad).await, Err(Error::InvalidRequest(_))));
    }
}

#[tokio::test]
async fn json_that_is_written_to_a_container_of_documents_becomes_one() {
    let h = Harness::in_memory();
    let c = h.container_with(mongo_spec("c"), 1).await;
    let body = ItemBody::from_json(Bytes::from_static(br#"{"_id":"a","pk":"k","n":[1,null]}"#));
    let op = ItemOp::Create { body: body.unwrap() };
    h.engine.write_item(&mut test_context(), &c, None, op).await.unwrap();
    let pk = Value::from("k");
    let item = read(&h, &c, Some(&pk), &Value::from("a")).unwrap();
    assert_eq!(item.format(), BodyFormat::Bson);
    let mut text = Vec::new();
    item.write_json(&engine::item::NoSystemProperties, &mut text);
    assert_eq!(text, br#"{"_id":"a","pk":"k","n":[1,null]}"#);
}

#[tokio::test]
async fn rows_of_a_query_are_in_the_order_of_the_container() {
    let values = [Value::Bool(true), Value::from("a"), Value::Int32(3), Value::Null];
    let mut in_order = Vec::new();
    for spec in [mongo_spec("documents"), ContainerSpec { body: BodyFormat::Bson, ..spec("json") }]
    {
        let h = Harness::in_memory();
        let c = h.container_with(ContainerSpec { unique_keys: Vec::new(), ..spec }, 1).await;
        for (id, value) in (0..).zip(&values) {
            let document = object([("_id", Value::Int32(id)), ("v", value.clone())]);
            upsert(&h, &c, document).await.unwrap();
        }
        let plan = lang::nosql::compile("SELECT VALUE c.v FROM c ORDER BY c.v", &[]).unwrap();
        let ctx = &mut test_context();
        let page = h.engine.query(ctx, &c, plan, Scope::All, PageRequest::default()).await.unwrap();
        let text = |row: &Row| match row {
            Row::Json(text) => String::from_utf8(text.clone()).unwrap(),
            Row::Item(item) => panic!("{item:?}"),
        };
        in_order.push(page.rows.iter().map(text).collect::<Vec<_>>());
    }
    assert_eq!(in_order[0], ["null", "3", "\"a\"", "true"], "BSON");
    assert_eq!(in_order[1], ["null", "true", "3", "\"a\""], "NoSQL");
}

/// Values of every kind.
fn any_value() -> impl Strategy<Value = Value> {
    let text = "[a-c$]{0,3}";
    let scalar = prop_oneof![
        Just(Value::Null),
        Just(Value::Undefined),
        Just(Value::MinKey),
        Just(Value::MaxKey),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>().prop_map(Value::Double),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        text.prop_map(Value::from),
        "[a-c]{600}".prop_map(Value::from),
        text.prop_map(Value::Symbol),
        (any::<u8>(), prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(subtype, bytes)| Value::Binary { subtype, bytes }),
        any::<i32>().prop_map(|millis| Value::Date(Date { millis: millis.into(), ticks: 0 })),
        any::<[u8; 12]>().prop_map(Value::ObjectId),
        any::<(u32, u32)>()
            .prop_map(|(seconds, increment)| Value::Timestamp { seconds, increment }),
        (text, "[imx]{0,2}").prop_map(|(pattern, options)| Value::Regex { pattern, options }),
        text.prop_map(|code| Value::JavaScript { code, scope: None }),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("[a-d_]{1,2}", inner), 0..4).prop_map(|fields| {
                let mut object = Object::new();
                for (name, value) in fields {
                    object.insert(&name, value);
                }
                object.into()
            }),
        ]
    })
}

/// What is left in the partitions of a container: keys by their tag.
fn left_tags(h: &Harness, c: &Container) -> Vec<u8> {
    let view = h.store.view();
    let mut tags = Vec::new();
    for range in c.routing().ranges() {
        let mut cursor = view.scan(range.partition_id(), KeyRange::ALL, Dir::Fwd).unwrap();
        while let Some((key, _)) = cursor.next().unwrap() {
            tags.push(key[0]);
        }
    }
    tags.dedup();
    tags
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Index entries, unique values and counters are computed from stored bytes when a version is
    /// replaced or deleted, and from what the client sent when it is written: both must agree for
    /// every kind of value.
    #[test]
    fn write_rewrite_and_delete_leave_nothing_behind(
        versions in prop::collection::vec((any_value(), any_value()), 1..4),
        is_document: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let h = Harness::in_memory();
            let made = match is_document {
                true => mongo_spec("c"),
                false => ContainerSpec { unique_keys: vec![vec![path("/u")]], ..spec("c") },
            };
            let c = h.container_with(made, 1).await;
            let pk = Value::from("k");
            for (value, unique) in versions {
                let document = object([
                    ("_id", Value::from("1")),
                    ("id", Value::from("1")),
                    ("pk", pk.clone()),
                    ("v", value),
                    ("u", unique),
                ]);
                let body = match is_document {
                    true => ItemBody::from_document(document),
                    false => ItemBody::from_value(document.into()),
                };
                let op = ItemOp::Upsert { body: body.unwrap(), if_match: None };
                h.engine.write_item(&mut test_context(), &c, None, op).await.unwrap();
                assert_eq!(h.engine.audit().unwrap().findings, &[] as &[String]);
            }
            let id = if is_document { row_key(&Value::from("1")) } else { "1".into() };
            let op = ItemOp::Delete { id, if_match: None };
            let key = Some(key_of(Some(&pk)));
            h.engine.write_item(&mut test_context(), &c, key, op).await.unwrap();
            assert_eq!(h.engine.audit().unwrap().findings, &[] as &[String]);
            assert_eq!(left_tags(&h, &c), [0x00, 0x30], "counters of the partition and a tombstone");
        });
    }
}
