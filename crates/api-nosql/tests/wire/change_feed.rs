//! The change feed over the wire.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const WIRE_FORMAT: (&str, &str) = ("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15");

/// A container with `more` in its description, over two ranges.
async fn service(more: Value) -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let mut body =
        json!({"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    call.body(body.to_string()).send().await.expect(201);
    s
}

async fn create(s: &TestService, id: &str, key: &str) -> Value {
    let call = s.call("POST", DOCS).header("x-ms-documentdb-partitionkey", format!("[\"{key}\"]"));
    call.body(format!(r#"{{"id":"{id}","pk":"{key}"}}"#)).send().await.expect(201).json()
}

fn latest(s: &TestService) -> Call<'_> {
    s.call("GET", DOCS).header("a-im", "Incremental Feed")
}

fn all_versions(s: &TestService) -> Call<'_> {
    let call = s.call("GET", DOCS).header("a-im", "Full-Fidelity Feed");
    call.header(WIRE_FORMAT.0, WIRE_FORMAT.1)
}

fn ids(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    let documents = body["Documents"].as_array().cloned().unwrap_or_default();
    documents.iter().map(|d| d["id"].as_str().unwrap_or_default().to_owned()).collect()
}

fn etag(answer: &Answer) -> String {
    answer.header("etag").expect("an etag").to_owned()
}

/// The id of the range that holds `key`.
async fn range_of(s: &TestService, key: &str) -> String {
    let read = s.call("GET", &format!("{DOCS}/nobody"));
    let read = read.header("x-ms-documentdb-partitionkey", format!("[\"{key}\"]"));
    let answer = read.send().await.expect(404);
    answer.header("x-ms-documentdb-partitionkeyrangeid").expect("a range").to_owned()
}

#[tokio::test]
async fn pages_end_with_an_etag_and_the_feed_with_304() {
    let s = service(json!({})).await;
    let mut created = Vec::new();
    for n in 0..5 {
        created.push(create(&s, &n.to_string(), "a").await);
    }
    let range = range_of(&s, "a").await;
    let call = || latest(&s).header("x-ms-documentdb-partitionkeyrangeid", &range);
    let page = call().header("x-ms-max-item-count", "2").send().await.expect(200);
    assert_eq!(ids(&page), ["0", "1"]);
    assert_eq!(page.header("x-ms-item-count"), Some("2"));
    assert_eq!(page.json()["_count"], 2);
    assert!(page.header("x-ms-request-charge").expect("a charge").parse::<f64>().unwrap() > 1.0);
    assert!(page.header("x-ms-session-token").expect("a token").starts_with(&format!("{range}:")));
    assert_eq!(page.header("x-ms-continuation"), None);
    // An item in the feed is the result of a read, with its position.
    let mut first = page.json()["Documents"][0].clone();
    let lsn = first.as_object_mut().expect("an object").remove("_lsn").expect("a position");
    assert_eq!(first, created[0]);
    // Within one range the etag is the position of the last item.
    assert_eq!(etag(&page), format!("\"{}\"", lsn.as_u64().unwrap() + 1));
    let rest = call().header("if-none-match", etag(&page)).send().await.expect(200);
    assert_eq!(ids(&rest), ["2", "3", "4"]);
    let end = call().header("if-none-match", etag(&rest)).send().await.expect(304);
    assert_eq!((etag(&end), end.body.len()), (etag(&rest), 0));
    assert_eq!(end.header("x-ms-item-count"), Some("0"));
    assert_eq!(end.header("x-ms-request-charge"), Some("1"));
    assert!(end.header("x-ms-session-token").is_some());
    create(&s, "5", "a").await;
    let news = call().header("if-none-match", etag(&end)).send().await.expect(200);
    assert_eq!(ids(&news), ["5"]);
}

#[tokio::test]
async fn a_feed_starts_now_at_a_time_or_at_an_etag_that_wins() {
    let s = service(json!({})).await;
    create(&s, "old", "a").await;
    s.harness.clock.advance(Duration::from_secs(10));
    create(&s, "new", "b").await;
    let since = "Tue, 14 Nov 2023 22:13:25 GMT";
    let page = latest(&s).header("if-modified-since", since).send().await.expect(200);
    assert_eq!(ids(&page), ["new"]);
    let universal = since.replace("GMT", "UTC");
    let page = latest(&s).header("if-modified-since", universal).send().await.expect(200);
    assert_eq!(ids(&page), ["new"]);
    let now = latest(&s).header("if-none-match", "*").send().await.expect(304);
    create(&s, "newest", "a").await;
    let call = latest(&s).header("if-none-match", etag(&now)).header("if-modified-since", since);
    assert_eq!(ids(&call.send().await.expect(200)), ["newest"]);
    let both = latest(&s).header("if-none-match", "*").header("if-modified-since", "not a date");
    both.send().await.expect(304);
}

#[tokio::test]
async fn scopes_are_keys_ranges_and_stretches() {
    let s = service(json!({})).await;
    for n in 0..20 {
        create(&s, &n.to_string(), &n.to_string()).await;
    }
    let sorted = |answer: Answer| {
        let mut ids = ids(&answer);
        ids.sort_by_key(|id| id.parse::<u32>().unwrap_or(u32::MAX));
        ids
    };
    let everything: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(sorted(latest(&s).send().await.expect(200)), everything);
    let by_key = latest(&s).header("x-ms-documentdb-partitionkey", "[\"7\"]");
    assert_eq!(sorted(by_key.send().await.expect(200)), ["7"]);
    let other_range = if range_of(&s, "7").await == "0" { "1" } else { "0" };
    let elsewhere = latest(&s)
        .header("x-ms-documentdb-partitionkey", "[\"7\"]")
        .header("x-ms-documentdb-partitionkeyrangeid", other_range);
    elsewhere.send().await.expect(304);
    let mut halves = Vec::new();
    for range in ["0", "1"] {
        let call = latest(&s)
            .header("x-ms-documentdb-partitionkeyrangeid", range)
            // One SDK sends this with and without bounds.
            .header("x-ms-read-key-type", "EffectivePartitionKeyRange");
        halves.extend(ids(&call.send().await.expect(200)));
    }
    halves.sort_by_key(|id| id.parse::<u32>().unwrap_or(u32::MAX));
    assert_eq!(halves, everything);
    let sub_range = |min: &str, max: &str| {
        let call = latest(&s).header("x-ms-read-key-type", "EffectivePartitionKeyRange");
        call.header("x-ms-start-epk", min).header("x-ms-end-epk", max)
    };
    let mut parts = Vec::new();
    for (min, max) in [("", "10"), ("10", "30"), ("30", "FF")] {
        let answer = sub_range(min, max).header("x-ms-max-item-count", "1000").send().await;
        parts.extend(ids(&answer.expect(200)));
    }
    parts.sort_by_key(|id| id.parse::<u32>().unwrap_or(u32::MAX));
    assert_eq!(parts, everything);
    let cut = sub_range("", "10").header("x-ms-documentdb-partitionkeyrangeid", "1");
    cut.send().await.expect(304);
    let gone = latest(&s).header("x-ms-documentdb-partitionkeyrangeid", "7").send().await;
    let gone = gone.expect(410);
    assert_eq!(gone.header("x-ms-substatus"), Some("1002"));
}

#[tokio::test]
async fn a_whole_container_is_read_page_by_page() {
    let s = service(json!({})).await;
    for n in 0..9 {
        create(&s, &n.to_string(), &n.to_string()).await;
    }
    let mut seen = Vec::new();
    let mut at = None;
    loop {
        let mut call = latest(&s).header("x-ms-max-item-count", "2");
        if let Some(at) = &at {
            call = call.header("if-none-match", at);
        }
        let answer = call.send().await;
        at = Some(etag(&answer));
        if answer.status == 304 {
            break;
        }
        let page = ids(&answer.expect(200));
        assert!((1..=2).contains(&page.len()));
        seen.extend(page);
    }
    seen.sort();
    assert_eq!(seen, (0..9).map(|n| n.to_string()).collect::<Vec<_>>());
    // Its position is also valid for a part of it.
    create(&s, "later", "3").await;
    let call = latest(&s).header("x-ms-documentdb-partitionkey", "[\"3\"]");
    let answer = call.header("if-none-match", at.expect("an etag")).send().await.expect(200);
    assert_eq!(ids(&answer), ["later"]);
}

#[tokio::test]
async fn clients_that_ask_for_the_new_format_get_envelopes() {
    let s = service(json!({})).await;
    let created = create(&s, "1", "a").await;
    let call = latest(&s).header(WIRE_FORMAT.0, WIRE_FORMAT.1);
    let body = call.send().await.expect(200).json();
    let change = &body["Documents"][0];
    assert_eq!(change["current"], created);
    let metadata = change["metadata"].as_object().expect("metadata");
    assert_eq!(metadata.keys().collect::<Vec<_>>(), ["crts", "lsn"]);
    assert_eq!(metadata["crts"], created["_ts"]);
}

#[tokio::test]
async fn clients_that_take_only_binary_get_it() {
    let s = service(json!({})).await;
    create(&s, "1", "a").await;
    let formats = "x-ms-cosmos-supported-serialization-formats";
    let answer = latest(&s).header(formats, "CosmosBinary").send().await.expect(200);
    let limits = api_nosql::fuzzing::Limits::ITEM;
    let value = api_nosql::fuzzing::decode(&answer.body, limits).expect("binary JSON");
    let read: Value = serde_json::from_str(&model::json::to_string(&value)).unwrap();
    assert_eq!(read, latest(&s).send().await.expect(200).json());
}

#[tokio::test]
async fn all_versions_and_deletes_have_the_documented_shape() {
    let s = service(json!({"changeFeedPolicy": {"retentionDuration": 10}})).await;
    let now = all_versions(&s).header("if-none-match", "*").send().await.expect(304);
    let created = create(&s, "1", "a").await;
    s.harness.clock.advance(Duration::from_secs(1));
    let item = format!("{DOCS}/1");
    let call = |method| s.call(method, &item).header("x-ms-documentdb-partitionkey", "[\"a\"]");
    let replaced = call("PUT").body(r#"{"id":"1","pk":"a","n":2}"#).send().await.expect(200).json();
    call("DELETE").send().await.expect(204);
    let page = all_versions(&s).header("if-none-match", etag(&now)).send().await.expect(200);
    assert_eq!(page.header("x-ms-item-count"), Some("3"));
    let body = page.json();
    let [create, replace, delete] = body["Documents"].as_array().unwrap().as_slice() else {
        panic!("{body}")
    };
    let lsn = create["metadata"]["lsn"].as_u64().unwrap();
    let ts = created["_ts"].as_u64().unwrap();
    assert_eq!(
        *create,
        json!({"current": created, "metadata": {"operationType": "create", "lsn": lsn, "crts": ts}})
    );
    assert_eq!(
        *replace,
        json!({"current": replaced, "metadata": {
            "operationType": "replace", "lsn": lsn + 1, "crts": ts + 1, "previousImageLSN": lsn,
        }})
    );
    assert_eq!(
        *delete,
        json!({"current": {}, "metadata": {
            "operationType": "delete", "lsn": lsn + 2, "crts": ts + 1, "previousImageLSN": lsn + 1,
            "timeToLiveExpired": false, "id": "1", "partitionKey": {"pk": "a"},
        }, "previous": replaced})
    );
    all_versions(&s).header("if-none-match", etag(&page)).send().await.expect(304);
    // In latest-version mode nothing is left.
    latest(&s).send().await.expect(304);
}

#[tokio::test]
async fn a_query_chooses_among_changes() {
    let s = service(json!({"changeFeedPolicy": {"retentionDuration": 10}})).await;
    let start = all_versions(&s).header("if-none-match", "*").send().await.expect(304);
    for n in 1..5 {
        let item = json!({"id": n.to_string(), "pk": "a", "city": format!("city{n}")});
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    for id in ["2", "3"] {
        let call = s.call("DELETE", &format!("{DOCS}/{id}"));
        call.header("x-ms-documentdb-partitionkey", r#"["a"]"#).send().await.expect(204);
    }
    let query = |body: Value, from: String| {
        let call = s.call("POST", DOCS).header("a-im", "Full-Fidelity Feed");
        let call = call.header("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15");
        let call = call.header("x-ms-documentdb-isquery", "True").header("if-none-match", from);
        call.body(body.to_string()).send()
    };
    let text = "select * from c where c.city = 'city3'";
    let both = json!({"query": text, "enableQueryOnPreviousImage": true});
    let page = query(both.clone(), etag(&start)).await.expect(200);
    let found = page.json();
    let [created, deleted] = found["Documents"].as_array().unwrap().as_slice() else {
        panic!("{found}")
    };
    assert_eq!((&created["current"]["id"], found["_count"].as_u64()), (&json!("3"), Some(2)));
    assert_eq!(deleted["metadata"]["operationType"], "delete");
    assert_eq!(deleted["previous"], created["current"]);
    query(both, etag(&page)).await.expect(304);
    let current = query(json!({"query": text}), etag(&start)).await.expect(200).json();
    assert_eq!(current["_count"], 1);
    // A page without a row goes on.
    let none = json!({"query": "select * from c where c.city = 'x'"});
    let none = query(none, etag(&start)).await.expect(200);
    assert_eq!((none.json()["_count"].as_u64(), etag(&none)), (Some(0), etag(&page)));
    for bad in [
        json!({"query": "select c.id from c"}),
        json!({"query": "select top 1 * from c"}),
        json!({"query": "select * from c order by c.id"}),
        json!({"query": "select * from c offset 1 limit 1"}),
        json!({"query": "nonsense"}),
        json!({"query": text, "enableQueryOnPreviousImage": 1}),
        json!([]),
    ] {
        query(bad.clone(), etag(&start)).await.expect(400);
    }
}

#[tokio::test]
async fn deletes_name_every_level_of_a_hierarchical_key() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let container = json!({
        "id": "c",
        "partitionKey": {"paths": ["/a", "/b/c"], "kind": "MultiHash", "version": 2},
        "changeFeedPolicy": {"retentionDuration": 10},
    });
    s.post("/dbs/d/colls", &container.to_string()).await.expect(201);
    let now = all_versions(&s).header("if-none-match", "*").send().await.expect(304);
    let keyed = |method, path: &str, key: &str| {
        s.call(method, path).header("x-ms-documentdb-partitionkey", key)
    };
    for (id, key, body) in [
        ("1", r#"["x",5]"#, r#"{"id":"1","a":"x","b":{"c":5}}"#),
        ("2", r#"["x",{}]"#, r#"{"id":"2","a":"x"}"#),
    ] {
        keyed("POST", DOCS, key).body(body).send().await.expect(201);
        keyed("DELETE", &format!("{DOCS}/{id}"), key).send().await.expect(204);
    }
    let prefix = all_versions(&s).header("x-ms-documentdb-partitionkey", r#"["x"]"#);
    let body = prefix.header("if-none-match", etag(&now)).send().await.expect(200).json();
    let documents = body["Documents"].as_array().unwrap();
    let key_of = |id: &str| {
        let is_it = |d: &&Value| d["metadata"]["id"] == id;
        documents.iter().find(is_it).unwrap()["metadata"]["partitionKey"].clone()
    };
    assert_eq!(documents.len(), 4);
    assert_eq!(key_of("1"), json!({"a": "x", "b/c": 5}));
    assert_eq!(key_of("2"), json!({"a": "x"}));
}

#[tokio::test]
async fn the_policy_is_kept_replaced_and_decides() {
    let s = service(json!({})).await;
    let refused = all_versions(&s).header("if-none-match", "*").send().await.expect(400);
    assert!(refused.message().contains("All Versions and Deletes"), "{}", refused.message());
    assert!(refused.message().contains("must be enabled"));
    let path = "/dbs/d/colls/c";
    let mut description = s.get(path).await.expect(200).json();
    assert!(description.get("changeFeedPolicy").is_none());
    description["changeFeedPolicy"] = json!({"retentionDuration": 5});
    let replaced = s.call("PUT", path).body(description.to_string()).send().await.expect(200);
    assert_eq!(replaced.json()["changeFeedPolicy"], json!({"retentionDuration": 5}));
    let now = all_versions(&s).header("if-none-match", "*").send().await.expect(304);
    create(&s, "1", "a").await;
    all_versions(&s).header("if-none-match", etag(&now)).send().await.expect(200);
    for (name, value) in
        [("x-ms-nothing", ""), ("if-modified-since", "Tue, 14 Nov 2023 22:13:25 GMT")]
    {
        let refused = all_versions(&s).header(name, value).send().await.expect(400);
        assert!(refused.message().contains("not supported with 'All Versions and Deletes' mode"));
    }
    s.harness.clock.advance(Duration::from_secs(6 * 60));
    // The old signature has expired by now too; the requested position is older still.
    let late = all_versions(&s).header("if-none-match", etag(&now)).skew_seconds(360);
    assert!(late.send().await.expect(400).message().contains("retention"));
}

#[tokio::test]
async fn bad_input_is_refused() {
    let s = service(json!({"changeFeedPolicy": {"retentionDuration": 10}})).await;
    create(&s, "1", "a").await;
    let plain = latest(&s).send().await.expect(200);
    let cases = [
        ("if-none-match", "\"abc\""),
        ("if-none-match", "\"-1\""),
        ("if-none-match", "\"1.5\""),
        ("if-none-match", "\"99999999999999999999999\""),
        ("if-none-match", ""),
        ("if-none-match", "\"\u{e9}\""),
        ("if-modified-since", "soon"),
        ("if-modified-since", "UTC"),
        ("if-modified-since", "2023-11-14T22:13:25Z"),
        ("x-ms-max-item-count", "many"),
        ("x-ms-max-item-count", "-2"),
        ("x-ms-start-epk", "xyz"),
        ("x-ms-end-epk", "1"),
        ("x-ms-documentdb-partitionkeyrangeid", "first"),
        ("x-ms-documentdb-partitionkey", "a"),
        ("x-ms-documentdb-partitionkey", "[1,2]"),
        ("x-ms-session-token", "garbage"),
    ];
    for (name, value) in cases {
        let answer = latest(&s).header(name, value).send().await;
        assert_eq!(answer.status, 400, "{name}: {value}");
        assert!(!answer.message().is_empty());
    }
    s.call("GET", DOCS).header("a-im", "Everything").send().await.expect(400);
    // An etag of one mode is not valid in the other.
    all_versions(&s).header("if-none-match", etag(&plain)).send().await.expect(400);
    let now = all_versions(&s).header("if-none-match", "*").send().await.expect(304);
    latest(&s).header("if-none-match", etag(&now)).send().await.expect(400);
}
