//! The effects of a container's description on queries: indexes, coordinates, computed properties.

use serde_json::{Value, json};

use crate::support::{Answer, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";

/// A container of one range with this description and these items.
async fn service(description: Value, items: &[Value]) -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let mut body =
        json!({"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let members = description.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(members);
    s.post("/dbs/d/colls", &body.to_string()).await.expect(201);
    for (at, item) in items.iter().enumerate() {
        let mut item = item.clone();
        item["id"] = json!(at.to_string());
        item["pk"] = json!("p");
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    s
}

async fn query(s: &TestService, text: &str) -> Answer {
    s.call("POST", DOCS)
        .header("x-ms-documentdb-isquery", "true")
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-partitionkey", r#"["p"]"#)
        .body(json!({"query": text}).to_string())
        .send()
        .await
}

async fn rows(s: &TestService, text: &str) -> Value {
    query(s, text).await.expect(200).json()["Documents"].clone()
}

async fn check_refused(s: &TestService, text: &str, message: &str) {
    let answer = query(s, text).await.expect(400).json();
    let got = answer["message"].as_str().unwrap_or_default();
    assert!(got.contains(message), "{text}: {got}");
}

#[tokio::test]
async fn orders_need_an_index() {
    let policy = json!({"indexingPolicy": {
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/secret/?"}],
        "compositeIndexes": [[{"path": "/a"}, {"path": "/b", "order": "descending"}]],
    }});
    let items = [json!({"a": 1, "b": 1}), json!({"a": 1, "b": 2}), json!({"a": 0, "b": 0})];
    let s = service(policy, &items).await;
    let by_both = "SELECT VALUE c.id FROM c ORDER BY c.a, c.b DESC";
    assert_eq!(rows(&s, by_both).await, json!(["2", "1", "0"]));
    let reversed = "SELECT VALUE c.id FROM c ORDER BY c.a DESC, c.b ASC";
    assert_eq!(rows(&s, reversed).await, json!(["0", "1", "2"]));
    check_refused(
        &s,
        "SELECT * FROM c ORDER BY c.a, c.b",
        r#"{"Errors":["The order by query does not have a corresponding composite index that it can be served from."]}"#,
    )
    .await;
    check_refused(
        &s,
        "SELECT * FROM c ORDER BY c.secret",
        r#"{"Errors":["The index path corresponding to the specified order-by item is excluded."]}"#,
    )
    .await;
}

#[tokio::test]
async fn computed_properties_are_in_queries_and_not_in_items() {
    let policy = json!({
        "computedProperties": [{"name": "low", "query": "SELECT VALUE LOWER(c.s) FROM c"}],
        "indexingPolicy": {"includedPaths": [{"path": "/*"}, {"path": "/low/?"}]},
    });
    let s = service(policy, &[json!({"s": "B"}), json!({"s": "a"})]).await;
    assert_eq!(rows(&s, "SELECT VALUE c.id FROM c WHERE c.low = 'b'").await, json!(["0"]));
    assert_eq!(rows(&s, "SELECT c.low FROM c ORDER BY c.low").await[0], json!({"low": "a"}));
    assert_eq!(rows(&s, "SELECT * FROM c WHERE c.low = 'a'").await[0].get("low"), None);
    let replacement = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "computedProperties": [{"name": "up", "query": "SELECT VALUE UPPER(c.s) FROM c"}],
    });
    s.call("PUT", "/dbs/d/colls/c").body(replacement.to_string()).send().await.expect(200);
    assert_eq!(rows(&s, "SELECT VALUE c.id FROM c WHERE c.up = 'A'").await, json!(["1"]));
    assert_eq!(rows(&s, "SELECT VALUE c.id FROM c WHERE c.low = 'a'").await, json!([]));
    // Paths of a computed property that only wildcards include are not indexed.
    check_refused(&s, "SELECT * FROM c ORDER BY c.up", "order-by item is excluded").await;
}

#[tokio::test]
async fn coordinates_are_understood_as_the_container_says() {
    let item = json!({"at": {"type": "Point", "coordinates": [0, 40]}});
    let text = r#"SELECT VALUE ST_WITHIN(c.at, {"type": "Polygon", "coordinates":
        [[[-60, 20], [70, 20], [70, 70], [-60, 70], [-60, 20]]]}) FROM c"#;
    let globe = service(json!({}), std::slice::from_ref(&item)).await;
    assert_eq!(rows(&globe, text).await, json!([false]));
    let plane = json!({"geospatialConfig": {"type": "Geometry"}});
    let plane = service(plane, std::slice::from_ref(&item)).await;
    assert_eq!(rows(&plane, text).await, json!([true]));
}

async fn plan(s: &TestService, text: &str, features: &str) -> Answer {
    s.call("POST", DOCS)
        .header("x-ms-documentdb-isquery", "true")
        .header("x-ms-cosmos-is-query-plan-request", "True")
        .header("x-ms-cosmos-supported-query-features", features)
        .header("content-type", "application/query+json")
        .body(json!({"query": text}).to_string())
        .send()
        .await
}

#[tokio::test]
async fn plans_are_for_clients_that_can_carry_them_out() {
    let policy = json!({"vectorEmbeddingPolicy": {"vectorEmbeddings": [
        {"path": "/v", "dataType": "float32", "distanceFunction": "euclidean", "dimensions": 2},
    ]}});
    let s = service(policy, &[]).await;
    let by_text = "SELECT TOP 3 * FROM c ORDER BY RANK FullTextScore(c.t, 'x')";
    let weighed = "SELECT TOP 3 * FROM c ORDER BY RANK \
                   RRF(FullTextScore(c.t, 'x'), VectorDistance(c.v, [1, 2]), [1, 2])";
    let by_vector = "SELECT TOP 3 * FROM c ORDER BY VectorDistance(c.v, [1, 2])";
    for (text, needed) in [
        (by_text, &["HybridSearch"][..]),
        (weighed, &["HybridSearch", "WeightedRankFusion"]),
        (by_vector, &["NonStreamingOrderBy", "OrderBy", "Top"]),
        ("SELECT * FROM c ORDER BY c.a, c.b", &["MultipleOrderBy"]),
        ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.a FROM c)", &["DCount"]),
        (
            "SELECT COUNTIF(c.a) AS n, MAKESET(c.a) AS s FROM c",
            // Clients that merge lists and sets do not announce it.
            &["CountIf", "MultipleAggregates", "NonValueAggregate"],
        ),
    ] {
        plan(&s, text, &needed.join(", ")).await.expect(200);
        for missing in needed {
            let others: Vec<&str> = needed.iter().copied().filter(|f| f != missing).collect();
            let answer = plan(&s, text, &others.join(",")).await.expect(400).json();
            let message = answer["message"].as_str().unwrap_or_default();
            let wanted =
                format!("Query contained {missing}, which the calling client does not support.");
            assert!(message.contains(&wanted), "{text}: {message}");
        }
    }
    let nearest = plan(&s, by_vector, "NonStreamingOrderBy,OrderBy,Top").await.json();
    assert_eq!(nearest["queryInfo"]["orderBy"], json!(["Ascending"]));
    assert_eq!(nearest["queryInfo"]["hasNonStreamingOrderBy"], json!(true));
    let ranked = plan(&s, weighed, "HybridSearch,WeightedRankFusion").await.json();
    assert_eq!(ranked["queryInfo"], Value::Null);
    let hybrid = &ranked["hybridSearchQueryInfo"];
    assert_eq!(hybrid["componentQueryInfos"].as_array().map(Vec::len), Some(2));
    assert_eq!(hybrid["componentWeights"], json!([1, 2]));
    assert_eq!((&hybrid["skip"], &hybrid["take"]), (&Value::Null, &json!(3)));
    assert_eq!(hybrid["requiresGlobalStatistics"], json!(true));
}
