//! Entities are items: each API reads what the other writes.

use engine::ops::{ItemOp, PageRequest, Row, Scope};
use engine::{ContainerSpec, IndexingPolicy, Throughput};
use serde_json::Value;
use testkit::harness::{body, test_context};

use crate::support::TestService;

async fn nosql(s: &TestService, text: &str) -> Vec<Value> {
    let table = s.demo();
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let mut ctx = test_context();
    let page = s.harness.engine.query(&mut ctx, &table, plan, Scope::All, PageRequest::default());
    let rows = page.await.expect("a page").rows.into_iter();
    let text = |row| match row {
        Row::Item(item) => item.body().to_vec(),
        Row::Json(text) => text,
    };
    rows.map(|row| serde_json::from_slice(&text(row)).expect("JSON")).collect()
}

#[tokio::test]
async fn entities_are_items_in_the_documented_form() {
    let s = TestService::with_table().await;
    let rest =
        r#""name":"x","age":39,"big@odata.type":"Edm.Int64","big":"1099511627776","ok":true"#;
    s.insert("p1", "r1", rest).await.expect(201);
    let items = nosql(&s, "SELECT * FROM c").await;
    assert_eq!(
        items[0],
        serde_json::json!({
            "id": "r1", "$id": "r1", "$pk": "p1",
            "name": {"$t": 2, "$v": "x"}, "age": {"$t": 16, "$v": 39},
            "big": {"$t": 18, "$v": "00000001099511627776"}, "ok": {"$t": 8, "$v": true},
        })
    );
    let found = nosql(&s, r#"SELECT c["$pk"], c.age["$v"] AS age FROM c WHERE c.age["$v"] > 30"#);
    assert_eq!(found.await, [serde_json::json!({"$pk": "p1", "age": 39})]);
}

#[tokio::test]
async fn the_longest_row_keys_are_found_by_queries() {
    let s = TestService::with_table().await;
    let row = "中".repeat(512);
    s.insert("p", &row, r#""n":1"#).await.expect(201);
    let found = nosql(&s, r#"SELECT VALUE c.id FROM c WHERE c.n["$v"] = 1 ORDER BY c.id"#).await;
    assert_eq!(found, [Value::from(row.as_str())]);
    let by_id = format!(r#"SELECT VALUE c["$pk"] FROM c WHERE c.id = "{row}""#);
    assert_eq!(nosql(&s, &by_id).await, ["p"]);
}

#[tokio::test]
async fn queries_find_what_tables_do_not_index() {
    let s = TestService::with_table().await;
    for n in 0..5 {
        s.insert(&format!("p{n}"), &format!("r{}", 4 - n), "").await.expect(201);
        s.harness.clock.advance(std::time::Duration::from_secs(1));
    }
    let since = nosql(&s, "SELECT VALUE c._ts FROM c ORDER BY c._ts").await;
    assert_eq!(since.len(), 5);
    let later = format!("SELECT VALUE c.id FROM c WHERE c._ts > {} ORDER BY c._ts DESC", since[2]);
    assert_eq!(nosql(&s, &later).await, ["r0", "r1"]);
    let by_key = r#"SELECT VALUE c.id FROM c ORDER BY c["$pk"]"#;
    assert_eq!(nosql(&s, by_key).await, ["r4", "r3", "r2", "r1", "r0"]);
    let audit = s.harness.engine.audit().expect("an audit");
    assert_eq!(audit.findings, Vec::<String>::new());
}

#[tokio::test]
async fn items_are_entities_when_they_look_like_them() {
    let s = TestService::with_table().await;
    let table = s.demo();
    let item = r#"{"id":"r","$pk":"p","age":{"$t":16,"$v":39},"plain":7}"#;
    s.harness.write(&table, "p", ItemOp::Create { body: body(item) }).await.expect("an item");
    let read = s.get("/demo(PartitionKey='p',RowKey='r')").await;
    let json = read.expect(200).json();
    assert_eq!((&json["age"], json.get("plain")), (&39.into(), None));
    let merged =
        s.call("PATCH", "/demo(PartitionKey='p',RowKey='r')").header("if-match", read.etag());
    merged.body(r#"{"age":40}"#).send().await.expect(204);
    let items = nosql(&s, "SELECT * FROM c").await;
    assert_eq!(items[0]["age"], serde_json::json!({"$t": 16, "$v": 40}));
    assert_eq!(items[0]["plain"], 7);
}

/// A container that the NoSQL API creates, in the database of the tables.
async fn make_container(s: &TestService, name: &str, ranges: u32) {
    let engine = &s.harness.engine;
    let demo = s.demo();
    let made = demo.spec.clone();
    let spec = ContainerSpec { id: name.into(), indexing: IndexingPolicy::default(), ..made };
    let throughput = Some(Throughput::Manual(ranges * 6_000));
    engine
        .create_container(&test_context(), demo.rid.database, spec, throughput)
        .await
        .expect("a container");
}

#[tokio::test]
async fn a_container_of_another_api_becomes_a_table() {
    let s = TestService::with_table().await;
    make_container(&s, "made", 1).await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    s.post("/made", entity).await.expect(201);
    s.get("/made()?$filter=PartitionKey%20eq%20'p'").await.expect(200);
    let answer = s.get("/made()").await;
    assert_eq!(answer.expect(200).keys(), [("p".to_owned(), "r".to_owned())]);
    // A container with another partition key is not a table.
    let engine = &s.harness.engine;
    let other = testkit::harness::spec("other");
    engine
        .create_container(&test_context(), s.demo().rid.database, other, None)
        .await
        .expect("a container");
    s.get("/other()").await.refused(404, "TableNotFound");
    assert!(!s.get("/Tables").await.text().contains("other"));
}

#[tokio::test]
async fn pages_go_on_while_the_order_of_keys_is_being_made() {
    let s = TestService::with_table().await;
    make_container(&s, "made", 3).await;
    let mut all = Vec::new();
    for n in 0..30 {
        let (partition, row) = (format!("p{}", n % 10), format!("r{}", n / 10));
        let entity = serde_json::json!({"PartitionKey": partition, "RowKey": row, "n": n % 3});
        s.post("/made", &entity.to_string()).await.expect(201);
        all.push((partition, row));
    }
    all.sort();
    let (mut found, mut pages, mut next) = (Vec::new(), 0, String::new());
    loop {
        let answer = s.get(&format!("/made()?$top=7{next}")).await;
        found.extend(answer.expect(200).keys());
        pages += 1;
        let Some(token) = answer.continuation() else { break };
        next = token;
        s.harness.clock.advance(std::time::Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    assert_eq!((found, pages), (all.clone(), 5));
    // Once the index is built, it is used.
    while s.get("/made()?$top=1").await.header("x-ps-plan") != Some("points=0;stretches=1;ranges=3")
    {
        s.harness.clock.advance(std::time::Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    assert_eq!(s.get("/made()").await.expect(200).keys(), all);
}
