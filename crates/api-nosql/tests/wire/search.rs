//! Searches of texts and vectors in the steps that clients take: the plan they receive, the queries
//! they then send, and queries within one key.

use serde_json::{Value, json};

use crate::support::{Answer, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: &str = "x-ms-documentdb-partitionkey";
const TEXTS: [&str; 4] = [
    "A red bicycle in the street",
    "Red bicycles: red, red and more red",
    "We swim and run",
    "Nothing of the kind",
];

fn description() -> Value {
    json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "fullTextPolicy": {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text"}]},
        "vectorEmbeddingPolicy": {"vectorEmbeddings": [
            {"path": "/v", "dataType": "float32", "distanceFunction": "euclidean", "dimensions": 2},
        ]},
        "indexingPolicy": {
            "includedPaths": [{"path": "/*"}],
            "excludedPaths": [{"path": "/v/*"}],
            "fullTextIndexes": [{"path": "/text"}],
            "vectorIndexes": [{"path": "/v", "type": "flat"}],
        },
    })
}

async fn service() -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    s.post("/dbs/d/colls", &description().to_string()).await.expect(201);
    for (at, text) in TEXTS.iter().enumerate() {
        let item = json!({"id": at.to_string(), "pk": "p", "text": text, "v": [at, 0]});
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    s.post(DOCS, r#"{"id":"bare","pk":"p"}"#).await.expect(201);
    s
}

async fn query(s: &TestService, text: &str, headers: &[(&str, &str)]) -> Answer {
    let mut call = s
        .call("POST", DOCS)
        .header("x-ms-documentdb-isquery", "true")
        .header("content-type", "application/query+json");
    for (name, value) in headers {
        call = call.header(name, value);
    }
    call.body(json!({"query": text}).to_string()).send().await
}

async fn rows(s: &TestService, text: &str) -> Value {
    query(s, text, &[(KEY, r#"["p"]"#)]).await.expect(200).json()["Documents"].clone()
}

#[tokio::test]
async fn words_and_vectors_are_found() {
    let s = service().await;
    let found = rows(&s, "SELECT VALUE c.id FROM c WHERE FullTextContains(c.text, 'red')").await;
    assert_eq!(found, json!(["0", "1"]));
    let near = "SELECT TOP 3 VALUE c.id FROM c ORDER BY VectorDistance(c.v, [2.1, 0])";
    assert_eq!(rows(&s, near).await, json!(["2", "3", "1"]));
    let all = "SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [2.1, 0])";
    assert_eq!(rows(&s, all).await, json!(["2", "3", "1", "0", "bare"]));
}

#[tokio::test]
async fn rankings_within_a_key_are_made_here() {
    let s = service().await;
    let by_text = "SELECT TOP 2 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.text, 'red')";
    assert_eq!(rows(&s, by_text).await, json!(["1", "0"]));
    let turned = "SELECT TOP 2 VALUE c.id FROM c WHERE FullTextContains(c.text, 'red') ORDER BY \
                  RANK RRF(FullTextScore(c.text, 'red'), VectorDistance(c.v, [0, 0]), [-1, -1])";
    assert_eq!(rows(&s, turned).await.as_array().map(Vec::len), Some(2));
    let both = "SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'swim'), \
                VectorDistance(c.v, [2, 0])) OFFSET 0 LIMIT 1";
    assert_eq!(rows(&s, both).await, json!([{"id": "2"}]));
    let nowhere = "SELECT VALUE c.id FROM c ORDER BY RANK FullTextScore(c.missing, 'x')";
    assert_eq!(rows(&s, nowhere).await.as_array().map(Vec::len), Some(5));
    // The filter names the key.
    let pinned = "SELECT TOP 1 VALUE c.id FROM c WHERE c.pk = 'p' ORDER BY RANK \
                  FullTextScore(c.text, 'run')";
    let answer = query(&s, pinned, &[]).await.expect(200).json();
    assert_eq!(answer["Documents"], json!(["2"]));
}

#[tokio::test]
async fn rankings_come_in_pages() {
    let s = service().await;
    let text = "SELECT TOP 4 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.text, 'red', 'swim')";
    let whole = rows(&s, text).await;
    let (mut all, mut token, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let mut headers = vec![(KEY, r#"["p"]"#), ("x-ms-max-item-count", "3")];
        if let Some(token) = &token {
            headers.push(("x-ms-continuation", token));
        }
        let answer = query(&s, text, &headers).await.expect(200);
        all.extend(answer.json()["Documents"].as_array().expect("rows").clone());
        pages += 1;
        token = answer.header("x-ms-continuation").map(ToOwned::to_owned);
        if token.is_none() {
            break;
        }
    }
    assert_eq!((Value::Array(all), pages), (whole, 2));
    query(&s, text, &[(KEY, r#"["p"]"#), ("x-ms-continuation", "rubbish")]).await.expect(400);
}

#[tokio::test]
async fn what_clients_are_told_to_ask_runs_as_it_stands() {
    let s = service().await;
    let text = "SELECT TOP 2 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'red', 'swim'), \
                VectorDistance(c.v, [1, 0]))";
    let cross = [("x-ms-documentdb-query-enablecrosspartition", "True")];
    let refused = query(&s, text, &cross).await.expect(400);
    assert_eq!(refused.header("x-ms-substatus"), Some("1004"));
    let info: Value = serde_json::from_str(
        refused.json()["additionalErrorInfo"].as_str().expect("the plan as text"),
    )
    .expect("JSON");
    let hybrid = &info["hybridSearchQueryInfo"];
    let range = [("x-ms-documentdb-partitionkeyrangeid", "0")];
    let statistics = hybrid["globalStatisticsQuery"].as_str().expect("a query");
    let statistics = query(&s, statistics, &range).await.expect(200).json()["Documents"].clone();
    assert_eq!(
        statistics,
        json!([{"documentCount": 5, "fullTextStatistics": [
            {"totalWordCount": 11, "hitCounts": [2, 1]},
        ]}])
    );
    for component in hybrid["componentQueryInfos"].as_array().expect("queries") {
        let text = component["rewrittenQuery"].as_str().expect("a query");
        let text = text
            .replace("{documentdb-formattablehybridsearchquery-totaldocumentcount}", "5")
            .replace("{documentdb-formattablehybridsearchquery-totalwordcount-0}", "11")
            .replace("{documentdb-formattablehybridsearchquery-hitcountsarray-0}", "[2,1]")
            .replace("{documentdb-formattableorderbyquery-filter}", "true");
        let rows = query(&s, &text, &range).await.expect(200).json()["Documents"].clone();
        let rows = rows.as_array().expect("rows");
        assert_eq!(rows.len(), 5);
        let scores = rows[0]["payload"]["componentScores"].as_array().expect("scores");
        assert_eq!(scores.len(), 2);
        assert!(rows[0]["orderByItems"][0]["item"].is_number());
        assert!(rows[0]["_rid"].is_string());
    }
}

#[tokio::test]
async fn vectors_stay_what_they_are_when_a_container_is_replaced() {
    let s = service().await;
    let replace = |change: &dyn Fn(&mut Value)| {
        let mut body = description();
        change(&mut body);
        s.call("PUT", "/dbs/d/colls/c").body(body.to_string()).send()
    };
    replace(&|_| {}).await.expect(200);
    replace(&|body| body["defaultTtl"] = json!(-1)).await.expect(200);
    let message = |answer: Answer| {
        answer.expect(400).json()["message"].as_str().unwrap_or_default().to_owned()
    };
    let gone = replace(&|body| body["vectorEmbeddingPolicy"] = Value::Null).await;
    assert!(message(gone).contains("path::/v not matching in Embedding's path."));
    let changed = replace(&|body| {
        body["vectorEmbeddingPolicy"]["vectorEmbeddings"][0]["dimensions"] = json!(3);
    });
    assert!(
        message(changed.await).contains(
            "Paths in existing embedding policy cannot be modified in Collection Replace"
        )
    );
    let changed = replace(&|body| {
        body["indexingPolicy"]["vectorIndexes"][0]["type"] = json!("quantizedFlat");
    });
    assert!(message(changed.await).contains(
        "Paths in existing vector indexing policy cannot be modified in Collection Replace"
    ));
    // Texts may get a new description.
    replace(&|body| {
        body["fullTextPolicy"]["fullTextPaths"][0] = json!({"path": "/other"});
        body["indexingPolicy"]["fullTextIndexes"][0] = json!({"path": "/other"});
    })
    .await
    .expect(200);
}
