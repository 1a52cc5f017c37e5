//! Feeds, queries and query plans through the wire.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const PK: &str = "x-ms-documentdb-partitionkey";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";

/// A container of two ranges with items `0` to `19`, each under its own key.
async fn service() -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    call.body(body).send().await.expect(201);
    for n in 0..20 {
        let item = json!({"id": n.to_string(), "pk": n.to_string(), "n": n});
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    s
}

fn query_call<'s>(s: &'s TestService, body: &Value) -> Call<'s> {
    s.call("POST", DOCS)
        .header("x-ms-documentdb-isquery", "true")
        .header("content-type", "application/query+json")
        .body(body.to_string())
}

fn cross<'s>(s: &'s TestService, text: &str) -> Call<'s> {
    query_call(s, &json!({"query": text}))
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
}

fn ids(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    let documents = body["Documents"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(body["_count"], documents.len());
    assert_eq!(answer.header("x-ms-item-count"), Some(documents.len().to_string().as_str()));
    documents.iter().map(|d| d["id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// All ids, page by page; each page must advance the continuation.
async fn drain<'s>(call: impl Fn() -> Call<'s>, page_size: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let mut call = call().header("x-ms-max-item-count", page_size);
        if let Some(token) = &token {
            call = call.header("x-ms-continuation", token);
        }
        let answer = call.send().await.expect(200);
        all.extend(ids(&answer));
        let next = answer.header("x-ms-continuation").map(str::to_owned);
        let Some(next) = next else { return all };
        assert_ne!(token.as_ref(), Some(&next));
        token = Some(next);
    }
}

fn everything() -> Vec<String> {
    (0..20).map(|n| n.to_string()).collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort_by_key(|id| id.parse::<u32>().unwrap_or_default());
    ids
}

#[tokio::test]
async fn feeds_page_through_all_ranges() {
    let s = service().await;
    for size in ["1", "3", "20", "-1"] {
        let all = drain(|| s.call("GET", DOCS), size).await;
        assert_eq!(sorted(all), everything(), "{size}");
    }
    let feed = s.get(DOCS).await.expect(200);
    let container = s.get("/dbs/d/colls/c").await.json();
    assert_eq!(feed.json()["_rid"], container["_rid"]);
    // Items of a feed are whole.
    assert!(feed.json()["Documents"][0]["_etag"].is_string());
    assert_eq!(feed.json()["Documents"][0].get("_lsn"), None);
}

#[tokio::test]
async fn scopes_restrict_feeds_and_queries() {
    let service = service().await;
    let s = &service;
    let calls: [fn(&TestService) -> Call<'_>; 2] =
        [|s| s.call("GET", DOCS), |s| query_call(s, &json!({"query": "SELECT * FROM c"}))];
    for call in calls {
        let of = |name: &'static str, value: &'static str| {
            drain(move || call(s).header(name, value), "4")
        };
        assert_eq!(of(PK, r#"["7"]"#).await, ["7"]);
        assert_eq!(of(PK, r#"["none"]"#).await, Vec::<String>::new());
        let (first, second) = (of(RANGE, "0").await, of(RANGE, "1").await);
        assert!(!first.is_empty() && !second.is_empty());
        assert_eq!(sorted([first.clone(), second].concat()), everything());
        // A range of the hash line is cut to the partition key range if both are given.
        let half = "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF";
        let lower =
            drain(|| call(s).header("x-ms-start-epk", "").header("x-ms-end-epk", half), "4");
        assert_eq!(lower.await, first);
        let none = drain(
            || {
                let call = call(s).header(RANGE, "0");
                call.header("x-ms-start-epk", half).header("x-ms-end-epk", "FF")
            },
            "4",
        );
        assert_eq!(none.await, Vec::<String>::new());
        let gone = call(s).header(RANGE, "7").send().await.expect(410);
        assert_eq!(gone.header("x-ms-substatus"), Some("1002"));
        call(s).header(RANGE, "x").send().await.expect(400);
        let token = call(s).header(RANGE, "0").header("x-ms-continuation", b"\xff");
        token.send().await.expect(400);
        let one = call(s).header("x-ms-read-key-type", "EffectivePartitionKey");
        let one = one.header("x-ms-start-epk", "").header("x-ms-end-epk", "FF");
        let text = one.send().await.expect(400).message();
        assert!(text.contains("One of the input values is invalid"));
        call(s).header(PK, r#"["a","b"]"#).send().await.expect(400);
    }
}

#[tokio::test]
async fn queries_across_partitions_are_asked_for() {
    let s = service().await;
    let all = json!({"query": "SELECT * FROM c"});
    let refused = query_call(&s, &all).send().await.expect(400);
    assert!(refused.message().contains("Cross partition query is required but disabled"));
    assert_eq!(refused.header("x-ms-substatus"), None);
    let found = drain(|| cross(&s, "SELECT * FROM c"), "3").await;
    assert_eq!(sorted(found), everything());
    // A query that confines itself to one key needs no permission.
    let one = json!({"query": "SELECT * FROM c WHERE c.pk = @p",
                     "parameters": [{"name": "@p", "value": "7"}]});
    let answer = query_call(&s, &one).send().await.expect(200);
    assert_eq!(ids(&answer), ["7"]);
    assert!(answer.header(RANGE).is_some());
}

#[tokio::test]
async fn parameters_and_projections_work() {
    let s = service().await;
    let read_many = json!({
        "query": "SELECT * FROM c WHERE ( (c.id = @param_id0 AND c.pk = @param_pk00) OR \
                  (c.id = @param_id1 AND c.pk = @param_pk10) )",
        "parameters": [
            {"name": "@param_id0", "value": "3"}, {"name": "@param_pk00", "value": "3"},
            {"name": "@param_id1", "value": "4"}, {"name": "@param_pk10", "value": "4"},
        ]
    });
    let call = || {
        let call = query_call(&s, &read_many);
        call.header("x-ms-documentdb-query-enablecrosspartition", "true")
    };
    assert_eq!(sorted(drain(call, "10").await), ["3", "4"]);
    let scalars = query_call(&s, &json!({"query": "SELECT VALUE c.n + 1 FROM c"}));
    let scalars = scalars.header(PK, r#"["7"]"#).send().await.expect(200);
    assert_eq!(scalars.json()["Documents"], json!([8]));
    let bare = s.call("POST", DOCS).header("x-ms-documentdb-isquery", "true");
    let bare = bare.header(PK, r#"["7"]"#).body(r#""SELECT * FROM c""#);
    assert_eq!(ids(&bare.send().await.expect(200)), ["7"]);
}

#[tokio::test]
async fn bad_queries_are_refused() {
    let s = service().await;
    let syntax = cross(&s, "SELECT * FORM c").send().await.expect(400);
    assert!(syntax.message().contains("Syntax error, incorrect syntax near"));
    assert!(syntax.message().contains("SC1001"));
    for body in ["", "{}", "[]", "SELECT * FROM c", r#"{"query":1}"#] {
        s.query(DOCS, body).await.expect(400);
    }
    let invalid = cross(&s, "SELECT * FROM c").header("x-ms-continuation", "nonsense");
    assert!(invalid.send().await.expect(400).message().contains("Invalid Continuation Token"));
    for size in ["-2", "x", "2147483648"] {
        cross(&s, "SELECT * FROM c").header("x-ms-max-item-count", size).send().await.expect(400);
    }
}

#[tokio::test]
async fn a_token_for_all_ranges_has_the_form_of_the_service() {
    let s = service().await;
    let page = || cross(&s, "SELECT * FROM c").header("x-ms-max-item-count", "3");
    let first = page().send().await.expect(200);
    let token = first.header("x-ms-continuation").unwrap();
    let parts: Value = serde_json::from_str(token).unwrap();
    assert_eq!(parts["range"], json!({"min": "", "max": "FF"}));
    // The inner token is valid too.
    let inner = parts["token"].as_str().unwrap();
    let rest = ids(&page().header("x-ms-continuation", token).send().await.expect(200));
    assert_eq!(ids(&page().header("x-ms-continuation", inner).send().await.expect(200)), rest);
    let broken = token.replace("FF", "F0");
    page().header("x-ms-continuation", broken).send().await.expect(400);
}

#[tokio::test]
async fn tokens_have_a_limit() {
    let s = service().await;
    let name = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
    let page = cross(&s, "SELECT * FROM c").header("x-ms-max-item-count", "1");
    let answer = page.header(name, "1").send().await.expect(200);
    assert!(answer.header("x-ms-continuation").unwrap().len() <= 1024);
    for limit in ["-1", "x", ""] {
        let answer = cross(&s, "SELECT * FROM c").header(name, limit).send().await.expect(400);
        assert!(answer.message().contains("must be a positive integer"), "{limit}");
    }
}

/// The times of a query's metrics by their names, in milliseconds.
fn times_of(answer: &Answer) -> BTreeMap<String, f64> {
    let metrics = answer.header("x-ms-documentdb-query-metrics").expect("metrics");
    let parts = metrics.split(';').map(|part| part.split_once('=').expect("a name and a number"));
    let times = parts.filter_map(|(name, time)| Some((name.strip_suffix("TimeInMs")?, time)));
    times.map(|(name, time)| (name.to_owned(), time.parse().expect("a number"))).collect()
}

#[tokio::test]
async fn metrics_say_what_took_how_long() {
    let s = service().await;
    s.harness.clock.slow_down(Duration::from_millis(1));
    // Also for clients that accept bodies in either form.
    for form in ["JsonText", "CosmosBinary"] {
        let query = "SELECT * FROM c WHERE c.n < 3 AND LENGTH(c.id) > 0 AND LENGTH(c.pk) > 0";
        let call = query_call(&s, &json!({ "query": query }));
        let call = call.header("x-ms-start-epk", "").header("x-ms-end-epk", "FF");
        let call = call.header("x-ms-cosmos-supported-serialization-formats", form);
        let call = call.header("x-ms-documentdb-populatequerymetrics", "True");
        let times = times_of(&call.send().await.expect(200));
        let time = |name: &str| *times.get(name).unwrap_or(&f64::NAN);
        for phase in [
            "queryCompile",
            "queryLogicalPlanBuild",
            "queryPhysicalPlanBuild",
            "queryOptimization",
            "indexLookup",
            "writeOutput",
        ] {
            assert!(time(phase) >= 1.0, "{phase}: {times:?}");
        }
        // Three items, each measured, and two calls for each.
        assert!(time("documentLoad") >= 3.0, "{times:?}");
        assert!(time("systemFunctionExecute") >= 6.0, "{times:?}");
        assert_eq!(time("userFunctionExecute"), 0.0, "{times:?}");
        // Clients subtract these from one another.
        let parts = time("indexLookup") + time("documentLoad") + time("writeOutput");
        assert!(time("VMExecution") >= parts + time("systemFunctionExecute"), "{times:?}");
        let before = time("queryCompile") + time("queryLogicalPlanBuild");
        let before = before + time("queryPhysicalPlanBuild") + time("queryOptimization");
        assert!(time("totalExecution") >= before + time("VMExecution"), "{times:?}");
    }
}

#[tokio::test]
async fn metrics_come_when_asked_for() {
    let s = service().await;
    let plain = cross(&s, "SELECT * FROM c").send().await.expect(200);
    assert_eq!(plain.header("x-ms-documentdb-query-metrics"), None);
    assert_eq!(plain.header("x-ms-cosmos-index-utilization"), None);
    let call = query_call(&s, &json!({"query": "SELECT * FROM c WHERE c.n < 3"}));
    let call = call.header("x-ms-start-epk", "").header("x-ms-end-epk", "FF");
    let call = call.header("x-ms-documentdb-populatequerymetrics", "True");
    let answer = call.header("x-ms-cosmos-populateindexmetrics", "True").send().await.expect(200);
    let metrics = answer.header("x-ms-documentdb-query-metrics").unwrap();
    assert!(metrics.contains("retrievedDocumentCount=3;"), "{metrics}");
    assert!(metrics.contains("outputDocumentCount=3;"), "{metrics}");
    let indexes = answer.header("x-ms-cosmos-index-utilization").unwrap();
    let indexes = STANDARD.decode(indexes).unwrap();
    let indexes: Value = serde_json::from_slice(&indexes).unwrap();
    assert_eq!(indexes["UtilizedSingleIndexes"][0]["FilterExpression"], "(ROOT.n < 3)");
    assert_eq!(indexes["PotentialSingleIndexes"], json!([]));
    let call = cross(&s, "SELECT * FROM c").header("x-ms-cosmos-populateindexmetrics-V2", "true");
    let answer = call.send().await.expect(200);
    let indexes = answer.header("x-ms-cosmos-index-utilization").unwrap();
    let indexes = percent_encoding::percent_decode_str(indexes).decode_utf8().unwrap();
    assert!(indexes.contains("\"UtilizedIndexes\":{\"SingleIndexes\":[]"), "{indexes}");
    // Counting the items of a key reads no items.
    let count = query_call(&s, &json!({"query": "SELECT VALUE COUNT(1) FROM c"}));
    let count = count.header(PK, r#"["7"]"#).header("x-ms-cosmos-populateindexmetrics", "True");
    let count = count.header("x-ms-documentdb-populatequerymetrics", "True");
    let answer = count.send().await.expect(200);
    let metrics = answer.header("x-ms-documentdb-query-metrics").unwrap();
    assert!(metrics.contains("retrievedDocumentCount=0;retrievedDocumentSize=0;"), "{metrics}");
    assert!(metrics.ends_with("indexUtilizationRatio=1.00"), "{metrics}");
    let indexes = STANDARD.decode(answer.header("x-ms-cosmos-index-utilization").unwrap()).unwrap();
    let indexes: Value = serde_json::from_slice(&indexes).unwrap();
    assert_eq!(indexes["UtilizedSingleIndexes"][0]["IndexSpec"], "/pk/?");
}

#[tokio::test]
async fn plans_narrow_to_the_keys_of_the_filter() {
    let s = service().await;
    let plan = |text: &str| {
        query_call(&s, &json!({"query": text}))
            .header("x-ms-cosmos-is-query-plan-request", "True")
            .header("x-ms-cosmos-supported-query-features", "Top,OffsetAndLimit")
    };
    let all = plan("SELECT * FROM c").send().await.expect(200).json();
    assert_eq!(all["partitionedQueryExecutionInfoVersion"], 2);
    assert_eq!(
        all["queryRanges"],
        json!([{"min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false}])
    );
    let one = plan("SELECT * FROM c WHERE c.pk = '1'").send().await.expect(200).json();
    let place = "3C80B1B7310BB39F29CC4EA05BDD461E";
    assert_eq!(
        one["queryRanges"],
        json!([{"min": place, "max": place, "isMinInclusive": true, "isMaxInclusive": true}])
    );
    let window = plan("SELECT * FROM c OFFSET 2 LIMIT 3").send().await.expect(200).json();
    assert_eq!(window["queryInfo"]["offset"], 2);
    assert_eq!(window["queryInfo"]["limit"], 3);
    plan("SELECT * FORM c").send().await.expect(400);
}

/// A container of two ranges keyed by `/a` and `/b`; items `0` to `19` share the first level.
async fn hierarchical() -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let key = json!({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2});
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    call.body(json!({"id": "c", "partitionKey": key}).to_string()).send().await.expect(201);
    for n in 0..20 {
        let item = json!({"id": n.to_string(), "a": "x", "b": n});
        s.post(DOCS, &item.to_string()).await.expect(201);
        let other = json!({"id": n.to_string(), "a": format!("other {n}"), "b": n});
        s.post(DOCS, &other.to_string()).await.expect(201);
    }
    s
}

#[tokio::test]
async fn a_key_is_cut_to_the_range_and_the_bounds_given_with_it() {
    let service = hierarchical().await;
    let s = &service;
    let calls: [fn(&TestService) -> Call<'_>; 2] =
        [|s| s.call("GET", DOCS), |s| query_call(s, &json!({"query": "SELECT * FROM c"}))];
    for call in calls {
        let with = |key: &'static str, headers: Vec<(&'static str, String)>| async move {
            let calling = || {
                let headers = headers.iter();
                headers
                    .fold(call(s).header(PK, key), |call, (name, value)| call.header(name, value))
            };
            drain(calling, "4").await
        };
        let none = Vec::<String>::new();
        let prefix = r#"["x"]"#;
        assert_eq!(sorted(with(prefix, vec![]).await), everything());

        // The prefix lies in one range as a whole.
        let mut by_range = Vec::new();
        for range in ["0", "1"] {
            by_range.push(sorted(with(prefix, vec![(RANGE, range.into())]).await));
        }
        by_range.sort_by_key(Vec::len);
        assert_eq!(by_range, [none.clone(), everything()]);

        let bounds = |min: &str, max: &str| {
            vec![("x-ms-start-epk", min.to_owned()), ("x-ms-end-epk", max.to_owned())]
        };
        let middle = middle_of_prefix("x");
        let lower = with(prefix, bounds("", &middle)).await;
        let upper = with(prefix, bounds(&middle, "FF")).await;
        assert!(!lower.is_empty() && !upper.is_empty());
        assert_eq!(sorted([lower.clone(), upper].concat()), everything());
        assert_eq!(with(prefix, bounds("3FFF", "FF")).await, none);

        // A whole key is confined in the same way.
        let whole = r#"["x",7]"#;
        assert_eq!(with(whole, vec![]).await, ["7"]);
        let is_lower = lower.contains(&"7".to_owned());
        let found = with(whole, bounds("", &middle)).await;
        assert_eq!(found, if is_lower { vec!["7".to_owned()] } else { none.clone() });
        let mut by_range = Vec::new();
        for range in ["0", "1"] {
            by_range.extend(with(whole, vec![(RANGE, range.into())]).await);
        }
        assert_eq!(by_range, ["7"]);

        for key in [prefix, whole] {
            let gone = call(s).header(PK, key).header(RANGE, "7").send().await.expect(410);
            assert_eq!(gone.header("x-ms-substatus"), Some("1002"), "{key}");
        }
    }
}

/// A position within the range of all keys that begin with `first`.
fn middle_of_prefix(first: &str) -> String {
    let definition = testkit::harness::spec_with_paths("c", &["/a", "/b"]).partition_key;
    let prefix = testkit::harness::string_key(first);
    let start = model::epk::key_range(&definition, &prefix).min.to_hex();
    format!("{start}20")
}
