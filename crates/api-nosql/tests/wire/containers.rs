//! The effects of a container's definition on its items: version 1 keys, unique keys, time to live.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const PK: &str = "x-ms-documentdb-partitionkey";

/// Database `d` with container `c`, made of `definition` with this throughput.
async fn service(definition: Value, throughput: &str) -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", throughput);
    let created = call.body(definition.to_string()).send().await.expect(201).json();
    assert_eq!(created["partitionKey"], definition["partitionKey"]);
    s
}

fn keyed<'s>(s: &'s TestService, method: &'static str, path: &str, key: &Value) -> Call<'s> {
    s.call(method, path).header(PK, json!([key]).to_string())
}

#[tokio::test]
async fn a_key_without_a_version_is_hashed_by_version_1() {
    let definition = json!({"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}});
    let s = service(definition, "12000").await;
    let ranges = s.get("/dbs/d/colls/c/pkranges").await.expect(200).json();
    assert_eq!(ranges["PartitionKeyRanges"][0]["maxExclusive"], "05C1DFFFFFFFFC");
    assert_eq!(ranges["PartitionKeyRanges"][1]["minInclusive"], "05C1DFFFFFFFFC");

    let long = "x".repeat(300);
    let keys = [json!("a"), json!(""), json!(7), json!(1.5), json!(true), json!(null), json!(long)];
    let mut by_range = [0; 2];
    for (n, key) in keys.iter().enumerate() {
        let (id, path) = (n.to_string(), format!("{DOCS}/{n}"));
        let body = json!({"id": id, "pk": key}).to_string();
        keyed(&s, "POST", DOCS, key).body(body.clone()).send().await.expect(201);
        let found = keyed(&s, "GET", &path, key).send().await.expect(200);
        assert_eq!(found.json()["pk"], *key);
        let range = found.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        by_range[range.parse::<usize>().unwrap()] += 1;
        keyed(&s, "PUT", &path, key).body(body).send().await.expect(200);
        let one = keyed(&s, "GET", DOCS, key).send().await.expect(200).json();
        assert_eq!(one["_count"], 1, "{key}");
    }
    assert!(by_range.iter().all(|count| *count > 0), "{by_range:?}");
    assert_eq!(s.get(DOCS).await.json()["_count"], keys.len());
    for (range, count) in by_range.into_iter().enumerate() {
        let call = s.call("GET", DOCS);
        let call = call.header("x-ms-documentdb-partitionkeyrangeid", range.to_string());
        assert_eq!(call.send().await.expect(200).json()["_count"], count);
    }
}

#[tokio::test]
async fn values_of_a_unique_key_are_unique_within_a_logical_partition() {
    let definition = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/a", "/b"]}]},
    });
    let s = service(definition, "400").await;
    let first = json!({"id": "1", "pk": "x", "email": "e", "a": 1, "b": 2});
    s.post(DOCS, &first.to_string()).await.expect(201);
    let other = json!({"id": "2", "pk": "x", "email": "f", "a": 1, "b": 3});
    s.post(DOCS, &other.to_string()).await.expect(201);
    let elsewhere = json!({"id": "1", "pk": "y", "email": "e", "a": 1, "b": 2});
    s.post(DOCS, &elsewhere.to_string()).await.expect(201);

    let same_email = json!({"id": "3", "pk": "x", "email": "e"});
    let same_pair = json!({"id": "3", "pk": "x", "email": "g", "a": 1.0, "b": 2});
    let key = json!("x");
    for body in [&same_email, &same_pair] {
        let refused = s.post(DOCS, &body.to_string()).await.expect(409);
        assert_eq!(refused.header("x-ms-substatus"), Some("3301"));
        assert!(refused.message().contains("unique index already exists"));
        let upsert = s.call("POST", DOCS).header("x-ms-documentdb-is-upsert", "true");
        upsert.body(body.to_string()).send().await.expect(409);
    }
    let path = "/dbs/d/colls/c/docs/2";
    let replace = json!({"id": "2", "pk": "x", "email": "e"}).to_string();
    keyed(&s, "PUT", path, &key).body(replace).send().await.expect(409);
    let patch = json!([{"op": "set", "path": "/email", "value": "e"}]).to_string();
    keyed(&s, "PATCH", path, &key).body(patch.clone()).send().await.expect(409);

    // A deleted or changed item frees its unique value.
    keyed(&s, "DELETE", "/dbs/d/colls/c/docs/1", &key).send().await.expect(204);
    keyed(&s, "PATCH", path, &key).body(patch).send().await.expect(200);
    let freed = json!({"id": "3", "pk": "x", "email": "f", "a": 1, "b": 2});
    s.post(DOCS, &freed.to_string()).await.expect(201);
}

#[tokio::test]
async fn items_expire() {
    let definition = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "defaultTtl": 10,
    });
    let s = service(definition, "400").await;
    for (id, ttl) in [("default", None), ("short", Some(5)), ("never", Some(-1))] {
        let mut item = json!({"id": id, "pk": "x"});
        if let Some(ttl) = ttl {
            item["ttl"] = ttl.into();
        }
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    let check = async |alive: &[&str]| {
        for id in ["default", "short", "never"] {
            let status = if alive.contains(&id) { 200 } else { 404 };
            let path = format!("{DOCS}/{id}");
            keyed(&s, "GET", &path, &json!("x")).send().await.expect(status);
        }
        assert_eq!(s.get(DOCS).await.json()["_count"], alive.len());
        let query = keyed(&s, "POST", DOCS, &json!("x")).header("x-ms-documentdb-isquery", "true");
        let found = query.body(r#"{"query":"SELECT * FROM c"}"#).send().await.expect(200);
        assert_eq!(found.json()["_count"], alive.len());
    };
    check(&["default", "short", "never"]).await;
    s.harness.clock.advance(Duration::from_secs(6));
    check(&["default", "never"]).await;
    let again = json!({"id": "short", "pk": "x"});
    s.post(DOCS, &again.to_string()).await.expect(201);
    s.harness.clock.advance(Duration::from_secs(6));
    check(&["short", "never"]).await;
}
