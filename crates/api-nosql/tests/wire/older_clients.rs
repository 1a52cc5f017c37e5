//! Requests of .NET clients in gateway mode, above all the older SDK (`DocumentClient`).

use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const TOKEN: &str = "x-ms-session-token";

/// A container of two ranges with items `0` to `19`, each under its own key.
async fn two_ranges() -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    assert_one_token("create", &call.body(body).send().await.expect(201));
    for n in 0..20 {
        let item = json!({"id": n.to_string(), "pk": n.to_string()});
        assert_one_token("item", &s.post(DOCS, &item.to_string()).await.expect(201));
    }
    s
}

#[track_caller]
fn assert_one_token(what: &str, answer: &Answer) {
    let token = answer.header(TOKEN).unwrap_or_default();
    let (range, position) = token.split_once(":-1#").unwrap_or_default();
    assert!(range.parse::<u32>().is_ok(), "{what}: {token:?}");
    assert!(position.parse::<u64>().is_ok(), "{what}: {token:?}");
}

fn query<'s>(s: &'s TestService, path: &str, text: &str) -> Call<'s> {
    s.call("POST", path)
        .header("x-ms-documentdb-isquery", "True")
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .body(json!({"query": text}).to_string())
}

#[tokio::test]
async fn answers_of_several_ranges_carry_the_token_of_one() {
    let s = two_ranges().await;
    assert_eq!(s.get("/dbs/d/colls/c/pkranges").await.json()["_count"], 2);
    let container = s.get("/dbs/d/colls/c").await.expect(200);
    assert_one_token("container", &container);
    let replaced = s.call("PUT", "/dbs/d/colls/c").body(container.json().to_string());
    assert_one_token("replace", &replaced.send().await.expect(200));
    let feed = s.get(DOCS).await.expect(200);
    assert_eq!(feed.json()["_count"], 20);
    assert_one_token("feed", &feed);
    let rows = query(&s, DOCS, "SELECT * FROM c").send().await.expect(200);
    assert_one_token("query", &rows);
    let refused = query(&s, DOCS, "SELECT * FROM c").header("x-ms-continuation", "?");
    let refused = refused.send().await.expect(400);
    assert!(!refused.header(TOKEN).unwrap_or_default().contains(','), "{:?}", refused.headers);
    // Each token is valid for every later request, whichever range it addresses.
    for answer in [&container, &feed, &rows] {
        for n in 0..20 {
            let call = s.call("GET", &format!("{DOCS}/{n}")).header(TOKEN, token(answer));
            call.header("x-ms-documentdb-partitionkey", format!("[\"{n}\"]"))
                .send()
                .await
                .expect(200);
        }
    }
}

fn token(answer: &Answer) -> &str {
    answer.header(TOKEN).unwrap_or_default()
}

#[tokio::test]
async fn what_older_clients_made_of_a_list_of_tokens_is_read() {
    let s = two_ranges().await;
    let read = |token: &str| s.call("GET", DOCS).header(TOKEN, token).send();
    read("0:-1#1,1").await.expect(200);
    let ahead = read("0:-1#999999,1").await.expect(404);
    assert_eq!(ahead.header("x-ms-substatus"), Some("1002"));
    read("0,1").await.expect(400);
}

#[tokio::test]
async fn an_empty_continuation_is_the_first_page() {
    let s = two_ranges().await;
    let paths = [
        "/dbs",
        "/dbs/d/colls",
        "/dbs/d/users",
        "/dbs/d/clientencryptionkeys",
        "/offers",
        DOCS,
        "/dbs/d/colls/c/sprocs",
        "/dbs/d/colls/c/triggers",
        "/dbs/d/colls/c/udfs",
        "/dbs/d/colls/c/conflicts",
        "/dbs/d/colls/c/pkranges",
    ];
    for path in paths {
        let plain = s.get(path).await.expect(200).json();
        for empty in ["", " "] {
            let call = s.call("GET", path).header("x-ms-continuation", empty);
            assert_eq!(call.send().await.expect(200).json(), plain, "{path}");
            if path.ends_with("pkranges") {
                continue;
            }
            let first = query(&s, path, "SELECT * FROM c").send().await.expect(200).json();
            let found = query(&s, path, "SELECT * FROM c").header("x-ms-continuation", empty);
            assert_eq!(found.send().await.expect(200).json(), first, "{path}");
        }
        if !path.ends_with("pkranges") {
            let bad = s.call("GET", path).header("x-ms-continuation", "?").send().await;
            assert_eq!(bad.status, 400, "{path}");
        }
    }
    let changes = s.call("GET", DOCS).header("a-im", "Incremental feed");
    let changes = changes.header("x-ms-continuation", "").send().await.expect(200);
    assert_eq!(changes.json()["_count"], 20);
}

#[tokio::test]
async fn a_get_is_no_query_whatever_its_headers_say() {
    let s = two_ranges().await;
    let paths = [
        "/dbs",
        "/dbs/d/colls",
        "/dbs/d/users",
        "/offers",
        DOCS,
        "/dbs/d/colls/c/sprocs",
        "/dbs/d",
    ];
    for path in paths {
        let plain = s.get(path).await.expect(200).json();
        let flagged = s.call("GET", path).header("x-ms-documentdb-isquery", "True");
        assert_eq!(flagged.send().await.expect(200).json(), plain, "{path}");
        let typed = s.call("GET", path).header("content-type", "application/query+json");
        assert_eq!(typed.send().await.expect(200).json(), plain, "{path}");
    }
}

#[tokio::test]
async fn containers_without_a_key_are_made_and_seen_by_versions_before_2018_12_31() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let system_key = json!({"paths": ["/_partitionKey"], "kind": "Hash", "systemKey": true});
    for version in ["2015-12-16", "2018-06-18", "2018-08-31", "2018-09-17", "2018-12-30"] {
        let call = |method, path: &str| s.call(method, path).header("x-ms-version", version);
        let body = json!({"id": version}).to_string();
        let made = call("POST", "/dbs/d/colls").body(body).send().await.expect(201).json();
        assert_eq!(made.get("partitionKey"), None, "{version}");
        let path = format!("/dbs/d/colls/{version}");
        let read = call("GET", &path).send().await.expect(200).json();
        assert_eq!(read.get("partitionKey"), None, "{version}");
        let all = call("GET", "/dbs/d/colls").send().await.expect(200).json();
        let listed = all["DocumentCollections"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(listed.iter().all(|one| one.get("partitionKey").is_none()), "{version}");
        let replaced = call("PUT", &path).body(read.to_string()).send().await.expect(200).json();
        assert_eq!(replaced.get("partitionKey"), None, "{version}");
        // Newer versions see the key that the service adds.
        assert_eq!(s.get(&path).await.json()["partitionKey"], system_key, "{version}");
        // Old clients send no key with an item.
        let docs = format!("{path}/docs");
        call("POST", &docs).body(r#"{"id":"1"}"#).send().await.expect(201);
        assert_eq!(call("GET", &format!("{docs}/1")).send().await.expect(200).json()["id"], "1");
    }
    for version in ["2018-12-31", "2020-07-15"] {
        let call = s.call("POST", "/dbs/d/colls").header("x-ms-version", version);
        let refused: Value = call.body(r#"{"id":"none"}"#).send().await.expect(400).json();
        assert!(refused["message"].to_string().contains("partitionKey"), "{version}");
    }
}
