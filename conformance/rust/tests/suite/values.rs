//! Ids and values come back exactly as they were sent, as text and as binary JSON.

use azure_data_cosmos::FeedScope;
use conformance::{Account, answered, ids, query, read, refused, variants, without_system};
use serde_json::{Map, Value, json};

async fn awkward_ids_are_reachable(account: &Account) {
    let container = account.container().await;
    let long = "x".repeat(1023);
    for id in [
        "with inner space",
        " leading",
        "WithUnicode鱀",
        "🚀",
        "With,=.:~+-@()^${}[]!_Chars",
        "With%20Percent",
        "100%",
        "a&b=c",
        "quo'te\"s",
        "a*b|c<d>",
        "BQE1D3PdG4N4bzU9TKaCIM3qc0TVcZ2-Y3jnsRfwdHC1ombkX3F1dot-SG0-UTq9AZVRoAA=",
        &long,
    ] {
        let item = json!({"id": id, "pk": "a"});
        container.create_item("a", id, &item, None).await.expect(id);
        assert_eq!(read(&container, "a", id).await.expect(id)["id"], json!(id));
        container.replace_item("a", id, &item, None).await.expect(id);
        container.delete_item("a", id, None).await.expect(id);
        refused(read(&container, "a", id).await, 404);
    }
    let long = "x".repeat(1024);
    let refusal = container.create_item("a", &long, &json!({"id": long, "pk": "a"}), None).await;
    refused(refusal, 400);
    assert!(ids(&container).await.is_empty());
}

fn values() -> Vec<Value> {
    let many: Map<String, Value> = (0..1000).map(|n| (format!("m{n}"), json!(n))).collect();
    vec![
        json!(0),
        json!(31),
        json!(32),
        json!(255),
        json!(-1),
        json!(i16::MAX),
        json!(i32::MIN),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(9_007_199_254_740_993_i64),
        json!(0.1),
        json!(-1.5e300),
        json!(5e-324),
        json!(true),
        json!(false),
        Value::Null,
        json!(""),
        json!("id"),
        json!("x".repeat(63)),
        json!("x".repeat(64)),
        json!("x".repeat(300)),
        json!("x".repeat(70_000)),
        json!("2024-01-02T03:04:05.6789000Z"),
        json!("0f6c1c8a-1f5e-4b36-9d5c-0d7a6e0e5f11"),
        json!("deadbeef"),
        json!("\u{0}\u{1}\t\n\r\"\\/"),
        json!("ÄÖ 東京 🚀"),
        json!([]),
        json!([1]),
        json!([1, 2, 3]),
        json!([0.5, 1.5]),
        json!((0..5000).collect::<Vec<i32>>()),
        json!([[1, 2], [3, 4]]),
        json!({}),
        json!({"one": 1}),
        json!({"": 1, "a/b": 2, "with space": 3, "_id": 4, "Point": 5}),
        json!({"type": "Point", "coordinates": [1.5, 2.5]}),
        Value::Object(many),
    ]
}

async fn values_come_back_exactly(account: &Account) {
    let container = account.container().await;
    for (number, value) in values().into_iter().enumerate() {
        let id = number.to_string();
        let item = json!({"id": id, "pk": "a", "value": value});
        let written = container.create_item("a", &id, &item, Some(answered())).await;
        let written: Value = written.expect("created").into_model().expect("an item");
        assert_eq!(without_system(written), item);
        let found = read(&container, "a", &id).await.expect("read");
        assert_eq!(without_system(found), item);
    }
    let found = query(&container, "SELECT * FROM c", FeedScope::partition("a")).await;
    let mut found = found.expect("the query answers");
    found.sort_by_key(|item| item["id"].as_str().and_then(|id| id.parse::<usize>().ok()));
    for (number, item) in found.into_iter().enumerate() {
        assert_eq!(item["value"], values()[number]);
    }
}

async fn items_up_to_two_megabytes(account: &Account) {
    let container = account.container().await;
    let text = "x".repeat(2 * 1024 * 1024 - 400);
    let large = json!({"id": "1", "pk": "a", "text": text});
    container.create_item("a", "1", &large, None).await.expect("created");
    assert_eq!(read(&container, "a", "1").await.expect("read")["text"], json!(text));
    let too_large = json!({"id": "2", "pk": "a", "text": "x".repeat(2 * 1024 * 1024 + 1)});
    refused(container.create_item("a", "2", &too_large, None).await, 413);
    assert_eq!(ids(&container).await, ["1"]);
}

async fn nesting_has_a_limit(account: &Account) {
    let container = account.container().await;
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!({"n": inner}));
    let fits = json!({"id": "1", "pk": "a", "deep": nested(100)});
    container.create_item("a", "1", &fits, None).await.expect("created");
    assert_eq!(without_system(read(&container, "a", "1").await.expect("read")), fits);
    let too_deep = json!({"id": "2", "pk": "a", "deep": nested(200)});
    refused(container.create_item("a", "2", &too_deep, None).await, 400);
}

variants![
    awkward_ids_are_reachable,
    values_come_back_exactly,
    items_up_to_two_megabytes,
    nesting_has_a_limit,
];
